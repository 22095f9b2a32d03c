"""Practice that is taken up: what should run by now is started, and waited for where others rest on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


def test_a_practice_is_made_once_every_flow_has_reported_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is taken up has all that was copied, and checkpoints, from the replicator before."""
    run = RunDirectory.create(tmp_path, STEP, started_at=datetime.now(UTC))
    states = iter(["STOPPED", "STARTING", "RUNNING"])
    looks: list[str] = []

    def look() -> SimpleNamespace:
        looks.append(next(states))
        return SimpleNamespace(flow="east->west", state=looks[-1])

    @contextmanager
    def observe(*_: object) -> Iterator[list[SimpleNamespace]]:
        yield [SimpleNamespace(look=look)]

    for module, name in (
        (practice.setup, "start_clusters"),
        (practice.setup, "write_properties"),
        (practice.setup, "create_topics"),
        (practice.mirroring, "wait_until_mirrored"),
        (practice, "_await_checkpoints"),
        (practice, "applications"),
    ):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setattr(practice, "observe", observe)
    stage = SimpleNamespace(
        run=run,
        active="east",
        alive=lambda _: True,
        start_applications=lambda _: None,
        settings=SimpleNamespace(enabled_flows=[SimpleNamespace(flow="east->west")]),
    )
    practice.prepare(cast("DrillStage", stage), STEP)
    assert looks == ["STOPPED", "STARTING", "RUNNING"]
