"""When a checkpointed position is written for a group on the target: never over members, never backwards (GOS)."""

from __future__ import annotations

import pytest

from mirror.control.groups import GroupAction, GroupDecision, TargetGroups, plan_group_writes
from mirror.kafka.cluster import Found, GroupDescription, GroupPosition
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition

COPY = TopicPartition("east.orders", 3)
EMPTY, DEAD = GroupDescription("Empty", 0), GroupDescription("Dead", 0)


def plan_one(
    state: GroupDescription | None = EMPTY,
    present: int | None = None,
    end: int | None = 1000,
    unread: str | None = None,
    start: int = 0,
) -> GroupDecision:
    """Return what becomes of a checkpoint at 42, for a group in ``state`` that is at ``present``."""
    positions: Found[TopicPartition, GroupPosition] = Found({} if present is None else {COPY: GroupPosition(present)})
    target = TargetGroups(
        Found({} if state is None else {"billing": state}, {"billing": "NOT_COORDINATOR"} if state is None else {}),
        Found({}, {"billing": unread}) if unread else Found({"billing": positions}),
        Found({} if end is None else {COPY: end}),
        {COPY: start},
    )
    (decision,) = plan_group_writes([Checkpoint("billing", COPY, 100, 42, "note")], target)
    return decision


@pytest.mark.parametrize("state", [EMPTY, DEAD])
def test_a_group_without_a_position_gets_it_with_its_text(state: GroupDescription) -> None:
    """GOS-02, CKP-08."""
    decision = plan_one(state)
    assert decision.action is GroupAction.WRITE
    assert decision.wanted == GroupPosition(42, "note")


def test_a_group_that_is_behind_is_moved_forward() -> None:
    decision = plan_one(present=41)
    assert decision.action is GroupAction.WRITE
    assert decision.present == 41


def test_a_group_is_never_moved_backwards() -> None:
    """GOS-02, GOS-05."""
    decision = plan_one(present=43)
    assert decision.action is GroupAction.SKIP_REWIND
    assert not decision.is_problem


def test_a_group_that_is_there_already_is_not_written_again() -> None:
    assert plan_one(present=42).action is GroupAction.KEEP


@pytest.mark.parametrize(
    "state",
    [
        GroupDescription("Stable", 2),
        GroupDescription("PreparingRebalance", 0),
        GroupDescription("Assigning", 1),
        GroupDescription("Empty", 1),
    ],
)
def test_a_group_in_use_is_left_to_its_members(state: GroupDescription) -> None:
    """Whatever its position, even if it has none; MirrorMaker 2 would try to write (GOS-03)."""
    decision = plan_one(state, present=1)
    assert decision.action is GroupAction.SKIP_ACTIVE
    assert not decision.is_problem


def test_what_could_not_be_read_is_not_written_over_and_is_a_problem() -> None:
    """GOS-04: MirrorMaker 2 writes then, possibly backwards."""
    for decision in (plan_one(state=None), plan_one(unread="GROUP_AUTHORIZATION_FAILED")):
        assert decision.action is GroupAction.SKIP_UNKNOWN
        assert decision.is_problem
        assert any(error in decision.reason for error in ("NOT_COORDINATOR", "GROUP_AUTHORIZATION_FAILED"))


def test_no_position_is_written_beyond_the_end_of_the_log() -> None:
    assert plan_one(end=42).action is GroupAction.WRITE
    decision = plan_one(end=41)
    assert decision.action is GroupAction.SKIP_BEYOND_END
    assert decision.is_problem


def test_a_position_that_the_log_has_left_behind_is_raised_to_its_start() -> None:
    """A reader told to begin at the end would else pass everything; nothing is there that it could read before."""
    for present in (None, 42):
        decision = plan_one(present=present, start=50)
        assert (decision.action, decision.wanted.position) == (GroupAction.WRITE, 50)
        assert "the checkpoint says 42, but the log begins at 50 only" in decision.reason
    assert plan_one(present=50, start=50).action is GroupAction.KEEP
    assert plan_one(present=60, start=50).action is GroupAction.SKIP_REWIND


def test_a_checkpoint_of_a_topic_that_is_gone_is_passed_over() -> None:
    """GOS-06: checkpoints outlive topics."""
    decision = plan_one(end=None)
    assert decision.action is GroupAction.SKIP_ABSENT
    assert not decision.is_problem
