"""Where a copy under its own name is gone on with, whose end others write to: behind what the flow itself has written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.copier import same_places
from mirror.copier.resume import Ends
from mirror.copier.work import FlowWork, PartitionWork
from mirror.kafka.channel import Channel
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of

FLOW, ORDERS = Flow("west", "east"), TopicPartition("orders", 0)
OURS, THEIRS = producer_of(FLOW).producer_id, 7
Batch = tuple[int, int, int]


@pytest.mark.parametrize(
    ("batches", "until"),
    [
        ([(10, 12, OURS), (12, 13, OURS)], 13),
        ([(10, 12, OURS), (12, 20, THEIRS)], 12),
        ([(10, 20, THEIRS)], 10),
        # Markers are not handed out: who has written them, nobody can tell.
        ([(10, 12, OURS), (14, 20, THEIRS)], 12),
        ([(10, 12, OURS)], 12),
        ([], 10),
    ],
)
def test_what_others_have_written_behind_the_position_is_theirs_also_a_marker_at_the_end(
    batches: Sequence[Batch], until: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = max((each[1] for each in batches), default=10) + (until in (10, 12) and not batches[1:])

    def read(_: Channel, __: TopicPartition, start: int, ___: int) -> Iterator[tuple[None, Any]]:
        assert start == 10
        for first, behind, producer in batches:
            yield None, SimpleNamespace(base_offset=first, next_offset=behind, producer_id=producer)

    monkeypatch.setattr(same_places, "read_batches", read)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "id", None)
    flow, ends = cast(FlowWork, SimpleNamespace(flow=FLOW)), cast(Ends, SimpleNamespace(target_start=0))
    assert same_places._own_until(work, ends, 10, end, flow, cast(Channel, None)) == until
