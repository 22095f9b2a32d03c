"""A person's word on groups of a migration: for those that it moves, kept in the run's journal."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mirror import asking, consent
from mirror.cli import app
from mirror.drill import confirmations
from mirror.drill.catalogue import find_runbook, runbooks_folder
from mirror.drill.run_record import create_run, record_beginning
from mirror.evidence.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path, "migration", started_at=datetime.now(UTC))


def test_a_word_is_kept_with_who_gave_it_and_when(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.path / "migration").mkdir()
    (run.path / "migration" / "groups.json").write_text('["audit", "billing"]')
    monkeypatch.setattr(confirmations.getpass, "getuser", lambda: "ann")
    assert confirmations.given(run) == {}
    confirmations.give(run, ["audit"])
    confirmations.give(run, ["audit"])
    (*_, last) = run.journal.read().entries
    assert confirmations.given(run) == {"audit": confirmations.Word("ann", last.at_ms)}


def test_a_word_on_a_group_that_the_run_does_not_move_is_refused(run: RunDirectory) -> None:
    with pytest.raises(confirmations.NotOfTheMigration, match="moves no group audit: it has moved none"):
        confirmations.give(run, ["audit"])
    (run.path / "migration").mkdir()
    (run.path / "migration" / "groups.json").write_text('["billing"]')
    with pytest.raises(confirmations.NotOfTheMigration, match="moves no group audit: its groups are billing"):
        confirmations.give(run, ["billing", "audit"])
    assert confirmations.given(run) == {}


@pytest.fixture
def migration(tmp_path: Path) -> RunDirectory:
    """A migration that has moved a group."""
    loaded = find_runbook("migration", runbooks_folder())
    values = loaded.runbook.checked({"practice": True})
    run = create_run(loaded, values, tmp_path)
    with run.owned():
        record_beginning(run, loaded, values)
    (run.path / "migration").mkdir()
    (run.path / "migration" / "groups.json").write_text('["audit", "billing"]')
    return run


def contents(run: RunDirectory) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in run.path.rglob("*") if each.is_file()}


def test_a_resumption_that_is_only_planned_writes_nothing_and_shows_what_is_left(migration: RunDirectory) -> None:
    before = contents(migration)
    done = CliRunner().invoke(app, ["runbook", "resume", str(migration.path), "--dry-run", "--seen", "audit"])
    assert (done.exit_code, "migration" in done.stdout, "run" in done.stdout.split()) == (0, True, True), done.stderr
    assert contents(migration) == before
    done = CliRunner().invoke(app, ["runbook", "resume", str(migration.path), "--dry-run", "--seen", "nobody"])
    assert (done.exit_code, "moves no group nobody" in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (None, 2, "there is no terminal to ask on"),
        ("yes", 1, "Nothing was changed."),
        ("", 1, "Nothing was changed."),
        (typer.Abort(), 1, "Nothing was changed."),
    ],
)
def test_nobodys_word_is_taken_for_a_persons(
    migration: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str | typer.Abort | None,
    code: int,
    said: str,
) -> None:
    """Without a terminal there is nobody; at one the run's name is typed, and Ctrl-C is a no."""
    asked: list[str] = []

    class Somebody(io.StringIO):
        def isatty(self) -> bool:
            return typed is not None

    def prompt(question: str, **_: object) -> str:
        asked.append(question)
        if isinstance(typed, typer.Abort):
            raise typed
        return typed or ""

    before = contents(migration)
    monkeypatch.setattr(consent.sys, "stdin", Somebody())
    monkeypatch.setattr(asking.typer, "prompt", prompt)
    with pytest.raises(SystemExit) as ended:
        app(["runbook", "resume", str(migration.path), "--seen", "audit"])
    assert (ended.value.code, said in capsys.readouterr().err) == (code, True)
    assert [f"Type {migration.name} to go on" in each for each in asked] == [True] * (typed is not None)
    assert contents(migration) == before
