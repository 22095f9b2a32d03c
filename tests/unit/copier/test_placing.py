"""Where a copy goes on: what is known of its log without reading it, and what MirrorMaker's position becomes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mirror.copier import placing
from mirror.copier.resume import Ends, Ready
from mirror.copier.work import FlowWork, ForeignUntil, Handover, PartitionWork
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import LARGEST_SEQUENCE
from mirror.kafka.channel import Channel
from mirror.model import connect_offsets
from mirror.model.flow import Flow
from mirror.model.leader_epochs import EpochEnd
from mirror.model.partition import TopicPartition
from mirror.model.position import Position

FLOW, ORDERS, COPY = Flow("east", "west"), TopicPartition("orders", 0), TopicPartition("east.orders", 0)


def at(upstream: int) -> Handover:
    return Handover(Position(upstream, 10, 0, True), (), clean=False)


@pytest.mark.parametrize(("behind", "is_known"), [(LARGEST_SEQUENCE, True), (LARGEST_SEQUENCE + 1, False)])
def test_behind_more_records_than_there_are_sequences_something_of_the_flow_may_lie(
    behind: int, *, is_known: bool
) -> None:
    """The leader knows the flow's last sequence, which is the same again after so many."""
    end = 10 + behind
    handover = Handover(Position(5, 10, 0, True), (), clean=False, foreign_until=ForeignUntil(end, 3))
    work = PartitionWork(FLOW, ORDERS, COPY, "", handover)
    ends = cast(Ends, SimpleNamespace(target_end=end + 5))
    told = SimpleNamespace(find_epoch_ends=lambda asked: PartitionAnswers({each: EpochEnd(3, end) for each in asked}))
    assert placing._foreign_until(work, ends, cast(Channel, told)) == (end if is_known else 0)


@pytest.mark.parametrize(("back_to", "last"), [(3, 2), (1, 0), (0, None)])
def test_mm2s_position_of_a_copy_that_goes_back_is_that_of_the_last_record_before(
    back_to: int, last: int | None
) -> None:
    """Java MirrorMaker goes on behind it; before the first record it has none."""
    flow = cast(FlowWork, SimpleNamespace(flow=FLOW, offsets_partitions=1))
    work = PartitionWork(FLOW, ORDERS, COPY, "", at(5))
    key = connect_offsets.source_key("east", ORDERS)
    value = None if last is None else connect_offsets.source_value(last)
    assert placing.moved_back(flow, [work], {ORDERS: Ready(at(back_to))}) == {0: [(key, value)]}
    assert placing.moved_back(flow, [work], {ORDERS: Ready(at(5))}) == {}
