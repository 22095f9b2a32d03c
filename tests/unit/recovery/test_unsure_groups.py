"""Groups of which nobody can tell that they pass nothing, and that a way home leaves where they are."""

from __future__ import annotations

from typing import cast

import pytest

from mirror.control.group_view import TranslatedPosition
from mirror.control.groups import GroupAction, GroupDecision
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.translation import Bounded, Exact, NothingRead, Translation
from mirror.recovery.flow_ends import Copied, FlowEnds
from mirror.recovery.group_moves import MovePlan, Unmoved
from mirror.recovery.unsure_groups import (
    further_on_the_target,
    left_out,
    out_of_range,
    passing_copies,
    raised,
    read_on,
    reading_and_left_out,
    unsure,
    without_checkpoint,
)
from tests.unit.control.builders import flow_settings
from tests.unit.recovery.world import ORDERS, THERE, StandInEnds, World

COPY = TopicPartition("east.orders", 0)
HOME = flow_settings("west->east.enabled = true", "west->east.groups = audit", flow="west->east")


def test_a_group_that_was_put_on_the_standby_and_that_the_flow_home_leaves_out_is_named() -> None:
    put_there = {(group, COPY): Placement(group, COPY, 7, 7, 7) for group in ("audit", "billing")}
    (said,) = left_out(MovePlan(HOME, ()), put_there)
    assert said.startswith("group billing was put on west by the way there, and groups of west->east leaves it out")


@pytest.mark.parametrize(
    ("translation", "present", "is_told"),
    [(Exact(40), 40, False), (Exact(40), 41, True), (Bounded(30, 10), 40, False), (Bounded(30, 10), 41, True)],
)
def test_a_group_that_is_one_record_further_on_the_target_than_it_can_have_read_is_named(
    translation: Translation, present: int, is_told: bool
) -> None:
    at = TranslatedPosition("audit", *COPY, 40, translation)
    placed = Placement("audit", COPY, 40, 40, 40)
    there, wanted = GroupPosition(present), GroupPosition(translation.downstream or 0)
    left = GroupDecision("audit", COPY, there, wanted, GroupAction.SKIP_REWIND, "", placed)
    assert len(further_on_the_target(MovePlan(THERE, (at,), (left,)), "east", {})) == is_told


def without(plan: MovePlan, copied_to: dict[TopicPartition, int]) -> list[str]:
    positions = {each: Position(end, end, 0, complete=True) for each, end in copied_to.items()}
    copied = Copied(positions, {}, (), "", None, ())
    return without_checkpoint(plan, cast(FlowEnds, StandInEnds(World(), THERE.flow)), copied)


OTHER = TopicPartition("orders", 1)
AT = TranslatedPosition("audit", *COPY, 40, Exact(40))


def test_where_a_group_has_a_checkpoint_in_one_partition_and_none_in_another_with_records_that_is_named() -> None:
    plan = MovePlan(THERE, (AT,), source_problem="gone")
    assert without(plan, {ORDERS: 9, OTHER: 0}) == []
    assert without(plan, {ORDERS: 9, OTHER: 1}) == ["no checkpoint says where group audit stands in east.orders-1"]
    assert without(plan, {ORDERS: 9, TopicPartition("bills", 0): 9}) == [], "it never read that topic"


@pytest.mark.parametrize("is_home", [False, True])
def test_where_it_is_hidden_whether_another_flow_has_put_the_groups_where_they_are_that_is_said(
    is_home: bool,
) -> None:
    hidden = {"mm2-state.west.internal": "TOPIC_AUTHORIZATION_FAILED"}
    ends, copied = cast(FlowEnds, StandInEnds(World(), THERE.flow)), Copied({}, {}, (), "", None, ())

    def said(*positions: TranslatedPosition) -> list[str]:
        return unsure(MovePlan(THERE, positions, hidden_states=hidden), ends, copied, {} if is_home else None)

    (message,) = said(AT)
    assert "(mm2-state.west.internal on east: TOPIC_AUTHORIZATION_FAILED)" in message
    assert said() == [], "nobody is moved"


def test_what_the_source_tells_needs_no_checkpoint_and_without_both_nobody_can_tell() -> None:
    assert without(MovePlan(THERE, (AT,)), {ORDERS: 9, OTHER: 9}) == []
    assert without(MovePlan(THERE, ()), {ORDERS: 9}) == []
    nothing = ["no checkpoint on west says where any group stands"]
    assert without(MovePlan(THERE, (), source_problem="gone"), {ORDERS: 9}) == nothing


@pytest.mark.parametrize(
    ("was", "said"),
    [
        (40, None),
        (39, "group audit is at 40 of east.orders-0, and was at 39"),
        (41, "group audit is at 40 of east.orders-0, and was at 41"),
        (None, "group audit is at 40 of east.orders-0, and had no position"),
    ],
)
def test_a_group_that_is_elsewhere_on_the_source_than_where_it_was_moved_from_is_named(
    was: int | None, said: str | None
) -> None:
    rows = [{"group": "audit", "topic": COPY.topic, "partition": 0, "upstream": was}] if was is not None else []
    found = read_on(MovePlan(THERE, (AT,)), {"rows": rows})
    assert found == (said and f"groups have read on east since they were moved to west: {said}")


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (MovePlan(THERE, (AT,), source_problem="listing groups: timed out"), "listing groups: timed out"),
        (
            MovePlan(THERE, (AT,), untranslated=(Unmoved("billing", None, "its coordinator is not available"),)),
            "group billing: its coordinator is not available",
        ),
    ],
)
def test_where_the_source_does_not_tell_where_groups_are_it_is_not_known_whether_they_read_on(
    plan: MovePlan, why: str
) -> None:
    """The position on record was taken for today's, and a group that has none for one that has not moved."""
    rows = [{"group": "audit", "topic": COPY.topic, "partition": 0, "upstream": 40}]
    found = read_on(plan, {"rows": rows})
    assert found == f"whether groups have read on east since they were moved is not known: {why}"


@pytest.mark.parametrize(
    ("at_home", "first_copied", "is_named"), [(12, 10, True), (11, 10, True), (10, 10, False), (12, None, False)]
)
def test_a_group_that_is_at_home_behind_what_came_from_the_standby_since_and_was_not_read_is_named(
    at_home: int, first_copied: int | None, is_named: bool
) -> None:
    """The old log had lost its end, positions had not: the standby's records came into their place."""
    idle = TranslatedPosition("audit", *ORDERS, 10, NothingRead(10, 12, 10, first_copied))
    plan = MovePlan(HOME, (idle,), idle_positions={"audit": {ORDERS: GroupPosition(at_home)}})
    named = f"group audit is at {at_home} of orders-0 on east, has read nothing on west, and what was copied of that"
    assert [each.partition(" lies")[0] for each in passing_copies(plan)] == [named] * is_named


@pytest.mark.parametrize(
    ("action", "written", "is_named"),
    [
        (GroupAction.WRITE, 60, True),
        (GroupAction.KEEP, 60, True),
        (GroupAction.SKIP_ACTIVE, 60, False),
        (GroupAction.WRITE, 40, False),
    ],
)
def test_a_group_that_goes_on_behind_what_the_target_has_removed_unread_is_named(
    action: GroupAction, written: int, is_named: bool
) -> None:
    """The copy, or the old cluster, has the shorter retention: it was moved, and said to pass nothing."""
    put = GroupDecision(
        "audit", COPY, None, GroupPosition(written), action, "", Placement("audit", COPY, 40, 40, written)
    )
    said = "group audit has read up to 40 of east.orders-0, and goes on at 60: west has removed what lies between"
    assert raised(MovePlan(THERE, (AT,), (put,))) == [said] * is_named


@pytest.mark.parametrize(("at_target", "is_named"), [(150, True), (0, False)])
def test_a_group_that_was_set_back_to_where_the_flow_back_had_put_it_and_is_further_on_the_target_is_named(
    at_target: int, is_named: bool
) -> None:
    """At any other position it was named: there it counts as one that has read nothing."""
    idle = TranslatedPosition("audit", *COPY, 0, NothingRead(0, 0, 0, 0))
    plan = MovePlan(THERE, (idle,), idle_positions={"audit": {COPY: GroupPosition(at_target)}})
    placed = {("audit", COPY): Placement("audit", COPY, 150, 150, 150)}
    assert bool(further_on_the_target(plan, "east", placed)) is is_named


@pytest.mark.parametrize(("start", "is_named"), [(0, False), (7, False), (8, True)])
def test_a_group_that_has_read_nothing_and_stays_before_the_start_of_the_log_is_named(
    start: int, is_named: bool
) -> None:
    """The log has lost its beginning while the group was away: where it goes on says its own auto.offset.reset."""
    idle = TranslatedPosition("audit", *COPY, 7, NothingRead(7, 7, 7))
    plan = MovePlan(THERE, (idle,), idle_positions={"audit": {COPY: GroupPosition(7)}}, idle_starts={COPY: start})
    named = f"group audit stays at 7 of east.orders-0, and west has removed what lies before {start}"
    assert [each.partition(": ")[0] for each in out_of_range(plan)] == [named] * is_named
    (row,) = plan.rows()
    assert (row["after"], row["exact"]) == (7, not is_named)


def test_a_group_that_stays_in_a_log_whose_start_is_not_told_is_named_and_not_exact() -> None:
    idle = TranslatedPosition("audit", *COPY, 7, NothingRead(7, 7, 7))
    plan = MovePlan(THERE, (idle,), idle_positions={"audit": {COPY: GroupPosition(7)}})
    (named,) = out_of_range(plan)
    assert named.endswith("west does not report where that log begins")
    assert [row["exact"] for row in plan.rows()] == [False]


@pytest.mark.parametrize("is_home", [True, False])
def test_a_group_that_stays_behind_what_was_copied_since_and_was_not_read_is_named_on_either_way(is_home: bool) -> None:
    idle = TranslatedPosition("audit", *ORDERS, 10, NothingRead(10, 500, 450, 450))
    stays = {"audit": {ORDERS: GroupPosition(500)}}
    plan = MovePlan(THERE, (idle,), idle_positions=stays, idle_starts={ORDERS: 0})
    assert [row["exact"] for row in plan.rows()] == [False]
    copied = Copied({}, {}, (), "", None, ())
    found = unsure(plan, cast(FlowEnds, StandInEnds(World(), THERE.flow)), copied, {} if is_home else None)
    assert len(found) == 1


LEFT_OUT = Found({"connect-sink": ("bills", "orders")}, {"connect-other": "its coordinator is not available"})


def test_a_group_that_the_filters_leave_out_and_that_reads_topics_of_the_flow_is_named_with_what_to_do() -> None:
    other, sink = reading_and_left_out(MovePlan(THERE, (AT,), left_out=LEFT_OUT), {})
    assert sink == (
        "group connect-sink reads bills, orders on east, and groups of east->west leaves it out (see groups.exclude "
        "too), so it gets no position on west: select it, or set there where it begins before it is started"
    )
    assert other.startswith("group connect-other may read topics of east->west (its coordinator is not available) on")


def test_a_group_is_named_once_that_the_way_there_has_put_where_the_way_home_leaves_it_out() -> None:
    home = MovePlan(HOME, (), left_out=Found({"billing": ("orders",)}))
    put_there = {("billing", COPY): Placement("billing", COPY, 7, 7, 7)}
    copied = Copied({}, {}, (), "", None, ())
    ends = cast(FlowEnds, StandInEnds(World(), HOME.flow))
    assert len(unsure(home, ends, copied, put_there)) == 1


@pytest.mark.parametrize("put_there", [None, {}], ids=["there", "home"])
def test_groups_whose_state_nobody_mirrors_and_groups_that_are_left_out_are_not_sure_on_either_way(
    put_there: dict[tuple[str, TopicPartition], Placement] | None,
) -> None:
    plan = MovePlan(THERE, (AT,), unmirrored=(Unmoved("pickers", None, "not mirrored"),), left_out=LEFT_OUT)
    found = unsure(plan, cast(FlowEnds, StandInEnds(World(), THERE.flow)), Copied({}, {}, (), "", None, ()), put_there)
    assert [each.split()[1].rstrip(":") for each in found] == ["pickers", "connect-other", "connect-sink"]
