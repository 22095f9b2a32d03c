"""Practice that is taken up: what should run by now is started, and waited for where others rest on it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mirror.drill.steps import practice
from mirror.drill.steps.stage import DrillStage
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory

STEP = "migration"


def taken_up(path: Path, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool, event: Event = Event.ACTION) -> list[str]:
    """Take a practice up behind an entry of its journal; return what was done, in order."""
    run = RunDirectory.create(path, STEP, started_at=datetime.now(UTC))
    run.journal.append(event, step=STEP, facts={})
    done: list[str] = []

    def start() -> SimpleNamespace:
        done.append("start the replicator")
        return SimpleNamespace(pid=5)

    stage = SimpleNamespace(
        run=run,
        active="east",
        standby="west",
        cluster=lambda alias: SimpleNamespace(is_alive=lambda: alias == "west"),
        start_cluster=lambda alias: done.append(f"start {alias}"),
        alive=lambda _: is_alive,
        start_replicator=start,
    )
    monkeypatch.setattr(
        practice, "await_leader", lambda _, serving, pid: done.append(f"wait for {pid} to lead into {sorted(serving)}")
    )
    practice.prepare(cast("DrillStage", stage), STEP)
    return done


def test_a_replicator_that_is_started_again_leads_before_anything_rests_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan asks whether an engine copies the flow, and a cut how far the one before it had copied."""
    assert taken_up(tmp_path, monkeypatch, is_alive=False) == [
        "start east",
        "start the replicator",
        "wait for 5 to lead into ['east', 'west']",
    ]


def test_what_runs_is_left_and_behind_a_fault_its_victim_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken_up(tmp_path / "runs", monkeypatch, is_alive=True) == ["start east"]
    assert taken_up(tmp_path / "lost", monkeypatch, is_alive=False, event=Event.FAULT_INJECTED) == []
