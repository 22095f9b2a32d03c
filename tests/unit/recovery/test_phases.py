"""A procedure that is carried out phase by phase is the same as in one go, whoever goes on with it in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.evidence.journal import Event, Journal
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.group_move import GroupMove
from mirror.recovery.failover import Mode, steps_of
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.procedure import UnderWay
from mirror.recovery.run import FAILOVER, Run, Wanted
from mirror.recovery.steps import StepResult
from tests.unit.recovery.world import EAST, HOME, ORDERS, THERE, WEST, Killed, StandInEnds, World, move_of

STEPS = [
    "detect",
    "begin",
    "stop",
    "cut",
    "groups",
    "positions",
    "last look",
    "start",
    "first write",
    "first reads",
    "finish",
]


def under_way(world: World, path: Path) -> UnderWay:
    run = Run.of(path, Wanted(FAILOVER, THERE.flow, "unplanned", ".*"))
    steps = steps_of(Mode.UNPLANNED, move_of(world, path, mode="unplanned"), StandInEnds(world, HOME.flow))
    return UnderWay(run, steps, goes_back=False, on_result=lambda _: None)


def lost() -> World:
    return World(is_up={EAST: False, WEST: True})


def names(results: tuple[StepResult, ...]) -> list[str]:
    return [each.name for each in results]


def test_each_phase_ends_with_the_step_that_it_names(tmp_path: Path) -> None:
    world = lost()
    found = under_way(world, tmp_path / "failover")
    assert names(found.through("begin")) == ["detect", "begin"]
    assert world.at_work == {EAST}
    assert names(found.through("cut")) == ["stop", "cut"]
    assert (world.groups[WEST], world.paused) == ({}, {THERE.flow})
    assert names(found.through()) == STEPS[4:]
    assert names(found.results) == STEPS
    assert not any(each.was_proven for each in found.results)
    assert world.at_work == {WEST}


def test_a_phase_that_is_asked_for_again_does_nothing(tmp_path: Path) -> None:
    """As when a person runs a cell twice."""
    world = lost()
    found = under_way(world, tmp_path / "failover")
    found.through("cut")
    done = list(world.done)
    assert found.through("begin") == found.through("cut") == ()
    assert world.done == done


@pytest.mark.parametrize("dies_at", [1, 3])
def test_a_phase_that_was_interrupted_can_be_carried_out_again(dies_at: int, tmp_path: Path) -> None:
    """As when a person interrupts a cell, and runs it again; another run may not begin there."""
    world = replace(lost(), dies_at=dies_at)
    found, other = under_way(world, tmp_path / "failover"), under_way(world, tmp_path / "failover")
    with pytest.raises(Killed):
        found.through("cut")
    with pytest.raises(ConfigError, match="another run has begun here meanwhile"):
        other.through("cut")
    assert names(found.through("cut"))[-1] == "cut"
    assert names(found.through()) == STEPS[4:]
    assert (world.at_work, world.done.count("pause east->west")) == ({WEST}, 1)


def test_behind_a_step_that_failed_no_phase_goes_on(tmp_path: Path) -> None:
    world = World()
    found = under_way(world, tmp_path / "failover")
    (failed,) = found.through("begin")
    assert failed.result.verdict is Verdict.FAIL
    assert found.through("finish") == ()
    assert (world.done, world.record) == ([], {})


def test_what_another_process_has_done_between_two_phases_is_looked_at_and_not_done_again(tmp_path: Path) -> None:
    world, path = lost(), tmp_path / "failover"
    found = under_way(world, path)
    found.through("begin")
    under_way(world, path).through("cut")
    assert names(found.through("groups")) == STEPS[:5]
    assert world.done.count("stop on east") == world.done.count("pause east->west") == 1


def test_what_was_done_is_told_by_the_journal_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "failover"
    assert JournalFacts.of(path, THERE.flow).group_moves() == []
    under_way(lost(), path).through()
    done = JournalFacts.of(path, THERE.flow)
    assert dict(done.cut_positions) == {ORDERS: 10}
    assert [each["group"] for each in done.group_rows] == ["audit"]
    # A person reads whose position it is first; the journal has its keys in the order of the alphabet.
    assert list(done.group_rows[0]) == ["group", "topic", "partition", "upstream", "before", "after", "exact"]
    assert done.has(Event.FAULT_DETECTED)
    began = done.entries[0].at_ms
    assert dict(done.instants(began, ["audit"]).groups_reading_at_ms) == {"audit": 102}
    (start,) = [each for each in done.entries if each.event is Event.STEP_STARTED and each.step == "start"]
    assert done.applications_moved_at_ms is not None
    assert done.applications_moved_at_ms <= start.at_ms


@pytest.mark.parametrize(("known_by_ms", "known"), [(3, 3), (None, 7_000)])
def test_judges_are_told_from_where_each_group_was_moved(tmp_path: Path, known_by_ms: int | None, known: int) -> None:
    """Of a move home all is known that was committed by then: nobody read meanwhile."""
    journal = Journal(tmp_path / "journal.jsonl", now=lambda: datetime.fromtimestamp(7, UTC))
    rows = [{"group": "audit", "topic": "A.orders", "partition": 3, "upstream": 5}]
    journal.append(Event.OFFSETS_APPLIED, step="groups", facts={"translated": rows})

    done = JournalFacts.of(tmp_path, Flow("A", "B"))
    assert done.group_moves(known_by_ms) == [GroupMove("audit", "A", "B", {TopicPartition("A.orders", 3): 5}, known)]
