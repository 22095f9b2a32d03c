"""A person's word on groups of a migration: for those that it moves, kept in the run's journal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirror.drill import confirmations
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
