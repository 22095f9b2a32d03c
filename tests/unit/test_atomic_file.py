"""Small files that are there whole or not at all, also where an earlier process of the same number was killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.atomic_file import write_atomically, write_new


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that was written by a process which was killed before it had removed the other name of it."""
    path = tmp_path / "fence.json"
    path.write_text("what was denied")
    path.with_name(f".{path.name}.{os.getpid()}").hardlink_to(path)
    return path


def test_a_new_file_leaves_what_is_there_as_it_is(path: Path) -> None:
    """In a container the next process often has the same number: it wrote into the only record there was."""
    with pytest.raises(FileExistsError):
        write_new(path, "what is denied now")
    assert path.read_text() == "what was denied"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_file_is_replaced_at_once(path: Path, is_interrupted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    replace: Callable[[Path, Path], Path] = Path.replace
    seen: list[str] = []

    def replaced(unfinished: Path, target: Path) -> Path:
        seen.append(target.read_text())
        if is_interrupted:
            raise OSError("the disk is gone")
        return replace(unfinished, target)

    monkeypatch.setattr(Path, "replace", replaced)
    if is_interrupted:
        with pytest.raises(OSError, match="the disk is gone"):
            write_atomically(path, "what is denied now")
    else:
        write_atomically(path, "what is denied now")
    assert seen == ["what was denied"]
    assert path.read_text() == ("what was denied" if is_interrupted else "what is denied now")
