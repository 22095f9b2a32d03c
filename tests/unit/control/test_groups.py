"""When a checkpointed position is written for a group on the target: never over members, never backwards (GOS)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from mirror.control.groups import (
    GroupAction,
    GroupDecision,
    GroupOffsetsTick,
    TargetGroups,
    apply_group_writes,
    plan_group_writes,
)
from mirror.control.tick import NotLeading
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupDescription, GroupPosition, Topic
from mirror.model.checkpoint import Checkpoint
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap, Run, Runs
from mirror.model.partition import TopicPartition
from mirror.model.placement import NOWHERE, Placement
from mirror.model.state_record import StateRecord
from mirror.model.state_values import placement_record
from tests.unit.control.builders import flow_settings, topic

COPY = TopicPartition("east.orders", 3)
ORDERS = SHARED = TopicPartition("orders", 3)
EMPTY, DEAD = GroupDescription("Empty", 0), GroupDescription("Dead", 0)


def plan_one(
    state: GroupDescription | None = EMPTY,
    present: int | None = None,
    end: int | None = 1000,
    unread: str | None = None,
    start: int = 0,
    unread_partition: str | None = None,
    placed: Placement | None = None,
    unread_start: str | None = None,
) -> GroupDecision:
    """Return what becomes of a checkpoint at 42, for a group in ``state`` that is at ``present``."""
    positions: Found[TopicPartition, GroupPosition] = Found(
        {} if present is None else {COPY: GroupPosition(present)},
        {COPY: unread_partition} if unread_partition else {},
    )
    target = TargetGroups(
        Found({} if state is None else {"billing": state}, {"billing": "NOT_COORDINATOR"} if state is None else {}),
        Found({}, {"billing": unread}) if unread else Found({"billing": positions}),
        Found({} if end is None else {COPY: end}),
        Found({COPY: start}) if unread_start is None else Found({}, {COPY: unread_start}),
        placed={("billing", COPY): placed} if placed else {},
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
    assert decision.present == GroupPosition(41)


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


def test_a_share_group_of_that_name_is_a_problem_before_anything_is_written() -> None:
    """It takes no positions (KIP-932); whether it is in use does not matter."""
    for state in (GroupDescription("Empty", 0, is_share=True), GroupDescription("Stable", 1, is_share=True)):
        decision = plan_one(state)
        assert decision.action is GroupAction.SKIP_UNKNOWN
        assert "a share group (KIP-932) has that name on the target" in decision.reason


def test_what_could_not_be_read_is_not_written_over_and_is_a_problem() -> None:
    """GOS-04: MirrorMaker 2 writes then, possibly backwards."""
    for decision, error in (
        (plan_one(state=None), "NOT_COORDINATOR"),
        (plan_one(unread="GROUP_AUTHORIZATION_FAILED"), "GROUP_AUTHORIZATION_FAILED"),
        (plan_one(unread_partition="UNSTABLE_OFFSET_COMMIT"), "UNSTABLE_OFFSET_COMMIT"),
    ):
        assert decision.action is GroupAction.SKIP_UNKNOWN
        assert decision.is_problem
        assert error in decision.reason


def test_no_position_is_written_beyond_the_end_of_the_log() -> None:
    assert plan_one(end=42).action is GroupAction.WRITE
    decision = plan_one(end=41)
    assert decision.action is GroupAction.SKIP_BEYOND_END
    assert decision.is_problem


def test_a_group_that_is_at_the_position_wanted_beyond_the_end_is_not_taken_to_be_in_order() -> None:
    """It would begin where auto.offset.reset says; a failover counted it as moved."""
    decision = plan_one(present=42, end=41)
    assert (decision.action, decision.is_problem) == (GroupAction.SKIP_BEYOND_END, True)
    assert plan_one(present=42, end=42).action is GroupAction.KEEP


def test_a_position_that_the_log_has_left_behind_is_raised_to_its_start() -> None:
    """A reader told to begin at the end would else pass everything; nothing is there that it could read before."""
    for present in (None, 42):
        decision = plan_one(present=present, start=50)
        assert (decision.action, decision.wanted.position) == (GroupAction.WRITE, 50)
        assert "the checkpoint says 42, but the log begins at 50 only" in decision.reason
    assert plan_one(present=50, start=50).action is GroupAction.KEEP
    assert plan_one(present=60, start=50).action is GroupAction.SKIP_REWIND


def put_at(upstream: int, written: int) -> Placement:
    return Placement("billing", COPY, upstream, written, written)


def test_a_group_that_was_set_back_here_is_not_carried_forward_by_what_it_was_given_before() -> None:
    decision = plan_one(present=20, placed=put_at(100, 42))
    assert (decision.action, decision.is_problem) == (GroupAction.SKIP_SET_BACK, False)
    # Since it was put there it has read on the source; or what it was set back to is gone.
    assert plan_one(present=20, placed=put_at(99, 42)).action is GroupAction.WRITE
    assert plan_one(present=20, placed=put_at(100, 42), start=30).action is GroupAction.WRITE


def test_a_position_beyond_the_end_was_read_of_another_log_and_gives_way_to_a_lower_one() -> None:
    """Left there, the group would pass what the log grows by."""
    decision = plan_one(present=900, end=800)
    assert (decision.action, decision.wanted.position) == (GroupAction.WRITE, 42)
    assert "the group is at 900, but the log ends at 800" in decision.reason
    assert plan_one(present=801, end=800).action is GroupAction.WRITE, "one offset is enough"
    assert plan_one(present=800, end=800).action is GroupAction.SKIP_REWIND
    assert plan_one(present=900, end=41).action is GroupAction.SKIP_BEYOND_END


def test_what_is_put_on_record_says_how_far_the_group_had_read() -> None:
    assert plan_one().placement == Placement("billing", COPY, 100, 42, 42)
    raised = plan_one(start=50).placement
    assert raised == Placement("billing", COPY, 100, 42, 50)
    assert raised.is_raised


class Writable:
    """A cluster that refuses what it is told to, and the record of what was put there; in order."""

    def __init__(self, problem: str | None) -> None:
        self.problem = problem
        self.done: list[str] = []
        self.state = FlowState()

    def record(self, records: Sequence[StateRecord]) -> None:
        self.done.append("record")
        for key, value in records:
            self.state.apply(key, value)

    def write_positions_of_groups(
        self, wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]], before: Callable[[], None]
    ) -> dict[str, list[ItemResult]]:
        for group in wanted:
            before()
            self.done.append(f"write {group}")
        return {
            group: [ItemResult(str(each), self.problem) for each in positions] for group, positions in wanted.items()
        }


def test_where_a_group_is_put_is_on_record_before_it_is_there_and_off_it_if_members_came() -> None:
    """Whoever reads the position must know; of what may have been written nothing is taken back."""
    decision, before = plan_one(), put_at(7, 7)
    for problem, kept in (
        (None, [decision.placement]),
        ("REQUEST_TIMED_OUT", [replace(decision.placement, before=NOWHERE)]),
        ("UNKNOWN_MEMBER_ID: it has members", []),
    ):
        cluster = Writable(problem)
        (write,) = apply_group_writes([decision], cast(Cluster, cluster), cluster.record)
        assert (write.decision, write.problem) == (decision, problem)
        assert cluster.done[:2] == ["record", "write billing"]
        assert list(cluster.state.placements.values()) == kept
    cluster = Writable("UNKNOWN_MEMBER_ID")
    apply_group_writes([replace(decision, placed_before=before)], cast(Cluster, cluster), cluster.record)
    assert cluster.state.placements == {("billing", COPY): before}


def test_an_engine_that_leads_no_longer_moves_no_group() -> None:
    """It may have been stopped since it decided to, also between two requests; that it was about to stays on record."""
    decision, cluster = plan_one(), Writable(None)
    other = replace(decision, group="other", placement=replace(decision.placement, group="other"))

    def leads_no_longer() -> None:
        if "write billing" in cluster.done:
            raise NotLeading

    with pytest.raises(NotLeading):
        apply_group_writes([decision, other], cast(Cluster, cluster), cluster.record, leads_no_longer)
    assert cluster.done == ["record", "write billing"]


class Target(Writable):
    """A cluster on which one idle group has no position yet, or this one; what it is given is there at once."""

    alias = "west"

    def __init__(self, problem: str | None, present: int | None = None, start: int = 0) -> None:
        super().__init__(problem)
        self.present, self.start = present, start
        self.leader_epoch = -1
        self.known: OffsetMap | None = None

    def source_of(self, copy: TopicPartition) -> TopicPartition | None:
        return ORDERS if copy == SHARED else None

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        return self.known

    def poll(self) -> None:
        pass

    def placements(self) -> list[Placement]:
        return [replace(each, target_id="") for each in self.state.placements.values()]

    def write_positions_of_groups(
        self, wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]], before: Callable[[], None]
    ) -> dict[str, list[ItemResult]]:
        found = super().write_positions_of_groups(wanted, before)
        for positions in wanted.values():
            self.present = next(iter(positions.values())).position if self.problem is None else self.present
        return found

    def describe_groups(self, names: Collection[str]) -> Found[str, GroupDescription]:
        return Found(dict.fromkeys(names, EMPTY))

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        positions = (
            {}
            if self.present is None
            else {each: GroupPosition(self.present, leader_epoch=self.leader_epoch) for each in (COPY, SHARED)}
        )
        return Found({name: Found(dict(positions)) for name in names})

    def topics(self, names: Collection[str]) -> Found[str, Topic]:
        return Found({name: topic(name, 4) for name in names})

    def offsets(self, partitions: Collection[TopicPartition], at: str) -> Found[TopicPartition, int]:
        return Found(dict.fromkeys(partitions, 1000 if at == "latest" else self.start))


def keeping_up(
    target: Target, there: list[Checkpoint], before_writing: Callable[[], None] = lambda: None
) -> GroupOffsetsTick:
    return GroupOffsetsTick(
        flow_settings(),
        cast(Cluster, target),
        lambda: list(there),
        target.record,
        target,
        before_writing=before_writing,
    )


@pytest.mark.parametrize("present", [None, 500])
def test_a_position_that_was_put_on_record_and_not_taken_is_written_by_a_later_round(present: int | None) -> None:
    """The coordinator did not answer: the group was not set back."""
    target = Target("COORDINATOR_NOT_AVAILABLE", present)
    tick = keeping_up(target, [Checkpoint("billing", COPY, 600, 600)])
    for _ in range(2):
        assert len(tick.tick().problems) == 1
    target.problem = None
    assert tick.tick().problems == ()
    assert target.present == 600
    assert target.placements() == [Placement("billing", COPY, 600, 600, 600)]
    target.present = 500
    assert (tick.tick().done, target.present) == (0, 500), "set back since, also to where it was before"


def test_a_position_that_was_put_on_record_and_never_sent_is_written_by_a_later_round() -> None:
    """A renewal was late, or the engine was killed in between."""
    refuses = [True]

    def require() -> None:
        if refuses[0]:
            raise NotLeading("a renewal is late")

    target = Target(None, 500)
    tick = keeping_up(target, [Checkpoint("billing", COPY, 600, 600)], require)
    assert tick.tick().problems == ("a renewal is late",)
    assert [each.before for each in target.placements()] == [500]
    refuses.clear()
    refuses.append(False)
    assert (tick.tick().problems, target.present) == ((), 600)


def test_a_group_that_is_found_where_an_unanswered_write_was_to_put_it_was_put_there() -> None:
    """From then on one that stands where it was before was set back."""
    target = Target("REQUEST_TIMED_OUT", 500)
    tick = keeping_up(target, [Checkpoint("billing", COPY, 600, 600)])
    tick.tick()
    target.problem, target.present = None, 600
    for _ in range(2):
        assert tick.tick().done == 0
    assert target.placements() == [Placement("billing", COPY, 600, 600, 600)]
    assert target.done.count("record") == 2
    target.present = 500
    assert (tick.tick().done, target.present) == (0, 500)


def test_a_group_that_read_on_from_where_it_was_before_an_unanswered_write_is_not_carried_forward() -> None:
    pending = Placement("billing", COPY, 100, 42, 42, before=10)
    assert plan_one(present=10, placed=pending).action is GroupAction.WRITE
    assert plan_one(present=11, placed=pending).action is GroupAction.SKIP_SET_BACK
    assert plan_one(present=0, placed=replace(pending, before=NOWHERE)).action is GroupAction.SKIP_SET_BACK


def test_where_a_group_was_put_stays_on_record_while_the_next_position_is_not_taken() -> None:
    target, there = Target(None, 200, start=500), [Checkpoint("billing", COPY, 200, 200)]
    tick = keeping_up(target, there)
    tick.tick()
    assert target.present == 500
    there[:] = [Checkpoint("billing", COPY, 600, 600)]
    target.problem = "COORDINATOR_NOT_AVAILABLE"
    for _ in range(2):
        tick.tick()
        (placed,) = target.placements()
        assert placed.possible == (
            Placement("billing", COPY, 600, 600, 600),
            Placement("billing", COPY, 200, 200, 500),
        )
    target.problem = None
    tick.tick()
    assert target.placements() == [Placement("billing", COPY, 600, 600, 600)]


def test_a_group_that_stands_where_it_would_be_raised_to_goes_on_record_too() -> None:
    """After the state topic was lost nothing says that it has not read up to there."""
    for start, found in ((500, [Placement("billing", COPY, 200, 200, 500)]), (0, [])):
        target = Target(None, 500, start)
        tick = keeping_up(target, [Checkpoint("billing", COPY, 200, 200 if start else 500)])
        for _ in range(2):
            assert tick.tick().done == 0
        assert target.placements() == found
        assert target.done == ["record"] * len(found), "once"


NAMES = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def sharing(target: Target, north_topics: str = "orders") -> GroupOffsetsTick:
    """Return what keeps up a group of north, of which the target has 500 records from 0 on, and east writes there too.

    It has read 50 of them.
    """
    target.known = OffsetMap(0, True, Runs.of([Run(0, 0, 500)]), 500, 500)
    north, east = (
        replace(flow_settings(NAMES, f"topics = {topics}"), flow=Flow(alias, "west"))
        for alias, topics in (("north", "orders"), ("east", north_topics))
    )
    there = [Checkpoint("billing", SHARED, 50, 50)]
    return GroupOffsetsTick(north, cast(Cluster, target), lambda: there, target.record, target, flows=(north, east))


def test_a_group_that_another_flow_has_put_behind_copies_that_it_has_not_read_is_a_problem_with_its_numbers() -> None:
    """Fan-in under unchanged names: what north wrote lies at 0 to 499 of the copy, what east wrote behind it."""
    target = Target(None, 1000)
    (problem,) = sharing(target).tick().problems
    assert problem == (
        "group billing on west stands at 1000 of orders-3, where no reader has committed it, and by north->west it "
        "goes on at 50: 450 records of orders-3 on north between them would not be read. east->west copies there too, "
        "and positions never go back"
    )
    assert target.present == 1000
    assert sharing(target, "bills").tick().problems == (), "no other flow copies there"
    target.leader_epoch = 3
    assert sharing(target).tick().problems == (), "a reader has committed that"


def test_a_group_that_another_flow_has_put_behind_nothing_unread_is_none() -> None:
    target = Target(None, 1000)
    tick = sharing(target)
    target.known = OffsetMap(0, True, Runs.of([Run(0, 0, 50)]), 50, 50)
    assert tick.tick().problems == ()
    target.known = None
    assert tick.tick().problems == ()


def test_nor_is_one_that_this_flow_has_put_there_before_it_was_set_back_on_the_source() -> None:
    target = Target(None, 1000)
    target.record([placement_record(Placement("billing", SHARED, 500, 1000, 1000))])
    assert sharing(target).tick().problems == ()
    target.record([placement_record(Placement("billing", SHARED, 500, 999, 999))])
    assert len(sharing(target).tick().problems) == 1


class Placed:
    """What is on record; reading it may show that the copy was created anew."""

    def __init__(self, read: Callable[[], object] = lambda: None) -> None:
        self.poll = read

    def placements(self) -> list[Placement]:
        return []

    def source_of(self, copy: TopicPartition) -> TopicPartition | None:
        return None

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        return None


def test_a_checkpoint_that_turns_out_to_be_of_an_earlier_copy_is_not_written() -> None:
    """The ends of the log were read of the new one, which had grown past it by then."""
    there = [Checkpoint("billing", COPY, 100, 42)]
    for read, written in ((lambda: None, ["record", "write billing", "record"]), (there.clear, [])):
        target = Target(None)
        tick = GroupOffsetsTick(
            flow_settings(), cast(Cluster, target), lambda: list(there), target.record, Placed(read)
        )
        assert tick.tick().problems == ()
        assert target.done == written


def test_a_group_that_the_flow_does_not_follow_any_more_is_put_nowhere() -> None:
    """Its checkpoints outlive the filter."""
    there = [Checkpoint(group, COPY, 100, 42) for group in ("billing", "console-1")]
    target = Target(None)
    settings = flow_settings("groups.exclude = console-.*")
    tick = GroupOffsetsTick(settings, cast(Cluster, target), lambda: there, target.record, Placed())
    assert tick.tick().problems == ()
    assert target.done == ["record", "write billing", "record"]


def test_a_checkpoint_of_a_topic_that_is_gone_is_passed_over() -> None:
    """GOS-06: checkpoints outlive topics."""
    decision = plan_one(end=None)
    assert decision.action is GroupAction.SKIP_ABSENT
    assert not decision.is_problem


def test_a_group_that_stands_at_the_start_of_the_log_was_set_back_too() -> None:
    """Also where that is all that is left to be set back to."""
    placed = Placement("billing", COPY, 100, 42, 41, "")
    assert plan_one(present=10, start=10, placed=placed).action is GroupAction.SKIP_SET_BACK
    assert plan_one(present=9, start=10, placed=placed).action is GroupAction.WRITE


def test_a_group_that_stands_where_it_was_put_was_not_set_back() -> None:
    """What is known of the copy has grown since: the same position of the source lies further on."""
    assert plan_one(present=30, placed=Placement("billing", COPY, 100, 30, 30, "")).action is GroupAction.WRITE


def test_where_the_end_of_the_log_is_not_told_nothing_is_written_and_the_reason_is_named() -> None:
    target = TargetGroups(
        Found({"billing": EMPTY}), Found({"billing": Found({})}), Found({}, {COPY: "NOT_LEADER_OR_FOLLOWER"})
    )
    (decision,) = plan_group_writes([Checkpoint("billing", COPY, 100, 42)], target)
    assert (decision.action, decision.is_problem) == (GroupAction.SKIP_UNKNOWN, True)
    assert "NOT_LEADER_OR_FOLLOWER" in decision.reason


@pytest.mark.parametrize("present", [None, 20, 42])
def test_where_the_start_of_the_log_is_not_told_nothing_is_written_nor_taken_for_right(present: int | None) -> None:
    """The log may begin behind it: a reader told to begin at the end would skip all that is there."""
    decision = plan_one(present=present, unread_start="LEADER_NOT_AVAILABLE")
    assert (decision.action, decision.is_problem) == (GroupAction.SKIP_UNKNOWN, True)
    assert "LEADER_NOT_AVAILABLE" in decision.reason


def test_that_a_checkpoint_lies_before_the_log_is_said_only_where_it_does() -> None:
    assert "begins at" in plan_one(start=43).reason
    assert "begins at" not in plan_one(start=42).reason
