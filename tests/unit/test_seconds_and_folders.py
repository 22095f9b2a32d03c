"""Seconds that no clock counts in, and a folder that nobody can write to, are refused before anything begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror.cli import app
from mirror.history import recorder

FILE = (
    "clusters=east,west\neast.bootstrap.servers=127.0.0.1:1\nwest.bootstrap.servers=127.0.0.1:2\n"
    "east->west.enabled=true\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.properties"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300", "-1"])
@pytest.mark.parametrize(
    ("command", "option", "more"),
    [
        ("record", "--interval", ("--directory", "history")),
        ("status", "--interval", ("--watch",)),
        ("pause", "--timeout", ("--yes",)),
        ("resume", "--timeout", ("--yes",)),
        ("fence", "--watch", ("--cluster", "east")),
        ("readiness", "--rpo-seconds", ()),
        ("rehearse", "--seconds", ()),
    ],
)
def test_seconds_that_nobody_can_wait_are_bad_usage(
    file: Path, command: str, option: str, more: tuple[str, ...], seconds: str
) -> None:
    done = CliRunner().invoke(app, [command, str(file), *more, f"{option}={seconds}"])
    assert done.exit_code == 2, done.output
    assert option in done.output
    assert not Path("history").exists()


@pytest.mark.parametrize("by_option", [True, False])
def test_a_folder_for_a_history_that_cannot_be_written_to_is_refused_by_its_key(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_option: bool
) -> None:
    """Minutes later all that had been recorded was lost, with exit code 1."""
    monkeypatch.setattr(recorder, "record_flows", lambda *_: pytest.fail("it records"))
    taken = tmp_path / "a-file"
    taken.write_text("")
    if not by_option:
        file.write_text(f"{FILE}mirror.history.directory = {taken}\n")
    done = CliRunner().invoke(app, ["record", str(file), *(["--directory", str(taken)] if by_option else [])])
    assert done.exit_code == 2, done.output
    assert ("--directory" if by_option else "mirror.history.directory") in done.output
    assert "give another folder" in " ".join(done.output.split())
