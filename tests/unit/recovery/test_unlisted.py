"""A log that its cluster does not list any more has not stood still: it was deleted, or is hidden from who asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.evidence.facts import Json
from mirror.kafka.problems import ClusterError
from mirror.model.failover import Phase
from mirror.model.verdict import Verdict
from mirror.recovery.failback import look_home
from mirror.recovery.failover import Mode, look_ahead
from mirror.recovery.move import FENCE, Move
from mirror.recovery.step_facts import rows_of
from mirror.recovery.steps import Known
from tests.unit.recovery.world import ENTRY, ORDERS, THERE, WEST, StandInEnds, World, move_home, move_of

FENCED: dict[str, dict[str, Json]] = {FENCE: {"ends": list(rows_of({ORDERS: 10}))}}


@pytest.fixture
def world() -> World:
    return World(at_work=set())


@pytest.fixture
def move(world: World, tmp_path: Path) -> Move:
    return move_of(world, tmp_path)


def test_a_planned_failover_of_a_topic_that_may_not_be_seen_is_not_begun(world: World, move: Move) -> None:
    assert look_ahead(Mode.PLANNED, move, None).refusal is None
    world.unlisted = "hidden"
    refusal = str(look_ahead(Mode.PLANNED, move, None).refusal)
    assert refusal.startswith("east must report what it has for a planned failover")
    assert "looking at the topic orders: TOPIC_AUTHORIZATION_FAILED" in refusal


def test_a_log_that_may_not_be_seen_does_not_pass_for_quiet(world: World, move: Move) -> None:
    """The rights were taken away behind the plan: all logs that were left stood still."""
    known: Known = {"stop": {"confirmed": True}}
    assert move.fence().act(known).verdict is Verdict.PASS
    world.unlisted = "hidden"
    with pytest.raises(ClusterError, match="looking at the topic orders"):
        move.fence().act(known)
    world.unlisted = "deleted"
    assert move.fence().act(known).verdict is Verdict.PASS, "to a topic that is deleted nobody writes"


def test_a_log_that_is_not_listed_any_more_does_not_end_where_it_did(world: World, move: Move) -> None:
    assert move.grown(FENCED) is None
    world.unlisted = "hidden"
    assert "orders-0 ended at 10, and is not listed any more" in str(move.grown(FENCED))


def test_what_is_deleted_of_a_cluster_that_was_left_keeps_no_migration_from_ending(world: World, move: Move) -> None:
    assert move.grown_by_others(FENCED) is None
    world.unlisted = "deleted"
    assert move.grown_by_others(FENCED) is None
    world.unlisted = "hidden"
    with pytest.raises(ClusterError, match="looking at the topic orders"):
        move.grown_by_others(FENCED)


def test_a_failback_tells_what_is_deleted_of_the_old_cluster_from_what_it_may_not_see(
    world: World, tmp_path: Path
) -> None:
    """Of either it said that the log ends at 0."""
    world.at_work, world.paused = {WEST}, {THERE.flow}
    home, forward = move_home(world, tmp_path), StandInEnds(world, THERE.flow)
    done = ENTRY.at(Phase.DONE, 5)
    world.record[done.run] = done
    assert look_home(home, forward).refusal is None
    world.unlisted = "deleted"
    assert "orders-0 is not there any more, and was copied up to 10" in str(look_home(home, forward).refusal)
    world.unlisted = "hidden"
    with pytest.raises(ClusterError, match="looking at the topic orders"):
        look_home(home, forward)
