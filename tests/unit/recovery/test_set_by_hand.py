"""Which positions were set, and not read up to, on the way home."""

from __future__ import annotations

from dataclasses import replace

from mirror.control.group_view import TranslatedPosition
from mirror.control.groups import GroupAction, GroupDecision
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.translation import Exact
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.set_by_hand import set_ahead
from tests.unit.config.files import flows_of

HOME = Flow("west", "east")
(SETTINGS,) = flows_of("west->east")
COPY, ORDERS = TopicPartition("east.orders", 0), TopicPartition("orders", 0)
PUT = {("audit", COPY): Placement("audit", COPY, 7, 7, 7)}
AT = TranslatedPosition("audit", "orders", 0, 9, Exact(9), source=COPY, leader_epoch=-1)


def told(position: TranslatedPosition, *decisions: GroupDecision) -> list[str]:
    return set_ahead(MovePlan(SETTINGS, (position,), decisions), HOME, PUT, {})


def test_a_position_without_a_leader_epoch_beyond_where_the_group_was_put_is_named() -> None:
    (said,) = told(AT)
    assert said.startswith("group audit is at 9 of east.orders-0 on west, and was put at 7 by the failover: no reader")
    assert told(replace(AT, leader_epoch=3)) == [], "a reader has committed it"
    assert told(replace(AT, upstream=7)) == [], "it has not moved since"
    assert len(told(replace(AT, upstream=8))) == 1, "by one record it has"
    assert told(replace(AT, leader_epoch=0)) == [], "a reader has, under the first leader"
    assert told(replace(AT, upstream=5)) == [], "it was set back, and passes nothing"
    assert told(replace(AT, source=None, leader_epoch=None)) == []
    (said,) = told(replace(AT, group="billing"))
    assert "billing is at 9 of east.orders-0 on west, where nothing had put it" in said


def test_a_group_that_is_further_at_home_without_having_read_there_is_named() -> None:
    read = replace(AT, leader_epoch=3)
    there = GroupPosition(20)
    placed = Placement("audit", ORDERS, 9, 9, 9)
    left = GroupDecision("audit", ORDERS, there, GroupPosition(9), GroupAction.SKIP_REWIND, "", placed)
    (said,) = told(read, left)
    assert said.startswith("group audit is at 20 of orders-0 on east already, and west says 9: no reader")
    # What it had read there before the disaster bears an epoch.
    assert told(read, replace(left, present=GroupPosition(20, leader_epoch=2))) == []
    plan = MovePlan(SETTINGS, (read,), (left,))
    put_home = {("audit", ORDERS): replace(placed, written=20)}
    assert set_ahead(plan, HOME, PUT, put_home) == [], "the flow back had put it there"


def test_of_many_positions_the_reason_is_said_once_with_their_count_and_each_of_them() -> None:
    """A failback of 22 partitions had it 22 times."""
    many = [replace(AT, partition=number, source=TopicPartition("east.orders", number)) for number in range(22)]
    (said,) = set_ahead(MovePlan(SETTINGS, tuple(many), ()), HOME, PUT, {})
    assert said.startswith("of 22 positions no reader has committed them (they bear no leader epoch): ")
    assert said.count("leader epoch") == 1
    assert all(f"group audit is at 9 of east.orders-{number} on west" in said for number in range(22))


def test_a_group_that_stands_where_the_flow_had_put_it_before_a_position_that_was_never_written_was_not_set_by_hand() -> (
    None
):
    """The flow back had put it at 60, was about to put it at 80, and was killed before it did."""
    there = GroupPosition(60)
    pending = Placement("audit", ORDERS, 80, 80, 80, before=60, before_upstream=60, before_downstream=60)
    left = GroupDecision("audit", ORDERS, there, GroupPosition(55), GroupAction.SKIP_REWIND, "", pending)
    plan = MovePlan(SETTINGS, (replace(AT, leader_epoch=3),), (left,))
    assert set_ahead(plan, HOME, PUT, {("audit", ORDERS): pending}) == []
    by_hand = replace(pending, before_upstream=None, before_downstream=None)
    assert len(set_ahead(plan, HOME, PUT, {("audit", ORDERS): by_hand})) == 1, (
        "it was there before, and not by the flow"
    )
