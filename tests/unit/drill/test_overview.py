"""The index of notebooks: which runs are under way, and the outcome of each runbook's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.drill.interactive import take_up
from mirror.drill.steps import overview
from mirror.drill.unattended import UNATTENDED_VARIABLE
from mirror.evidence.outcome import Outcome
from mirror.lab import holder
from mirror.model.verdict import Verdict

ROOT = Path(__file__).parents[3]


def test_each_runbook_shows_its_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: set[Path] = set()
    monkeypatch.setenv(UNATTENDED_VARIABLE, "")
    monkeypatch.setattr(holder, "hold", held.add)
    monkeypatch.setattr(holder, "held", lambda _: sorted(held))
    (tmp_path / "runbooks").symlink_to(ROOT / "runbooks")
    runbooks, runs = str(tmp_path / "runbooks"), tmp_path / "runs"
    assert "No practice run is under way" in str(overview.practice_run(runbooks))

    drill = take_up("setup", runs=runs)
    drill.conclude(Outcome("setup", Verdict.PASS))
    failover = take_up("unplanned_failover", runbook="unplanned-failover", given={"practice": True}, runs=runs)

    assert str(overview.practice_run(runbooks)).count("is under way") == len(held) == 2
    for run in (drill.run, failover.run):
        assert f"mirror lab down --run {run.path}" in str(overview.practice_run(runbooks))
    page = overview.notebooks(runbooks).data
    assert page.count("PASS") == 1
    assert page.count("not run") == 5
