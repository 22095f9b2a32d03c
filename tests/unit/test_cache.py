"""What only saves time is made once, is used only when it is whole, and stops nobody when it cannot be made."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from mirror import cache

CONTENT = b"classes"


def write(made: Path) -> None:
    (made.parent / "passing").write_bytes(b"left beside it")
    made.write_bytes(CONTENT)


def never(made: Path) -> NoReturn:
    raise AssertionError("it is there already")


def broken(made: Path) -> NoReturn:
    made.write_bytes(CONTENT[:3])
    raise cache.NotMade("the disk is full\nand more about that")


def nothing(made: Path) -> None:
    """A JVM that is killed before it writes leaves no file."""


def test_a_file_is_made_once_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "archive.jsa"

    assert cache.offer(path, "The archive", write) == path
    assert cache.offer(path, "The archive", never) == path
    assert path.read_bytes() == CONTENT
    assert {each.name for each in path.parent.iterdir()} == {"archive.jsa", "archive.jsa.size", "archive.lock"}


@pytest.mark.parametrize(("make", "reason"), [(broken, "the disk is full"), (nothing, "No such file or directory")])
def test_what_cannot_be_made_is_done_without_and_said_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make: cache.Make, reason: str
) -> None:
    path = tmp_path / "archive.jsa"

    assert cache.offer(path, "The archive", make) is None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("The archive: not made, so starts take longer: ")
    assert reason in line
    assert [each.name for each in tmp_path.iterdir()] == ["archive.lock"]
    assert cache.offer(path, "The archive", write) == path, "the next one who asks tries again"


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "archive.jsa"

    assert not cache.is_whole(path)
    assert cache.offer(path, "The archive", never) is None
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("half", [b"", CONTENT[:3]])
def test_a_file_that_was_cut_short_is_not_used_but_made_again(tmp_path: Path, half: bytes) -> None:
    path = tmp_path / "archive.jsa"
    cache.offer(path, "The archive", write)
    path.write_bytes(half)

    assert not cache.is_whole(path)
    assert cache.offer(path, "The archive", write) == path
    assert path.read_bytes() == CONTENT


def test_a_file_whose_size_was_never_written_down_may_be_half_a_one(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsa"
    path.write_bytes(CONTENT)

    assert not cache.is_whole(path)


def test_an_interruption_is_no_reason_to_go_on(tmp_path: Path) -> None:
    def interrupted(made: Path) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.offer(tmp_path / "archive.jsa", "The archive", interrupted)
