"""Whether a stretch of a log holds a record: by the records that lie in it, not by the batches that overlap it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.kafka import batch, log
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.channel import Channel
from mirror.kafka.log import holds_record
from mirror.kafka.problems import BrokerRefused
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


def written(*offsets: int, is_damaged: bool = False, producer_id: int = -1) -> Any:
    """Return a batch with records at these offsets, and its header."""
    header = SimpleNamespace(
        base_offset=offsets[0], next_offset=offsets[-1] + 1, record_count=len(offsets), producer_id=producer_id
    )
    return ([] if is_damaged else [SimpleNamespace(offset=each) for each in offsets]), header


def records(content: list[Any]) -> list[Any]:
    if not content:
        raise CorruptBatch("its checksum is wrong")
    return content


class Reader:
    """A log that hands out a batch at a time, and nothing behind ``stable``."""

    batches: list[Any]
    stable: int
    asked: list[bool]

    def __init__(self, _: object, __: TopicPartition, start: int) -> None:
        self.position = start

    def fetch(self, *, read_committed: bool) -> list[Any]:
        self.asked.append(read_committed)
        found = [each for each in self.batches if self.position < each[1].next_offset <= self.stable][:1]
        self.position = found[0][1].next_offset if found else max(self.position, self.stable)
        return found


class Asked:
    alias = "east"

    def offsets(self, partitions: list[TopicPartition], _: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 2)


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> type[Reader]:
    monkeypatch.setattr(log, "LogReader", Reader)
    monkeypatch.setattr(batch, "records", records)
    Reader.batches, Reader.stable, Reader.asked = [written(0, 1, 2, 3), written(6, 7)], 20, []
    return Reader


def holds(start: int, end: int, **how: Any) -> bool:
    return holds_record(cast(Channel, Asked()), ORDERS, start, end, **how)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 2, False),
        (0, 3, True),
        (3, 4, True),
        (4, 6, False),
        (4, 7, True),
        (7, 8, True),
        (8, 20, False),
        (5, 5, False),
    ],
    ids=["gone", "behind what is gone", "end of a batch", "markers", "begin", "last", "behind all", "nothing"],
)
def test_the_edges_of_a_stretch_are_those_of_records(start: int, end: int, *, expected: bool) -> None:
    assert holds(start, end) is expected


def test_what_one_producer_has_written_does_not_count(reader: type[Reader]) -> None:
    reader.batches = [written(4, producer_id=7), written(5, producer_id=8), written(6)]
    assert holds(4, 5)
    assert not holds(4, 5, but_for=[7])
    assert holds(4, 6, but_for=[7])
    assert holds(6, 7, but_for=[-1])


def test_a_batch_behind_the_end_is_not_of_the_stretch(reader: type[Reader]) -> None:
    """A fetch hands out whole batches, and as many as it holds."""
    reader.batches = [written(9, 10)]
    assert not holds(4, 6)


def test_of_a_batch_that_compaction_has_thinned_out_the_records_that_are_left_count(reader: type[Reader]) -> None:
    reader.batches = [written(4, 6)]
    assert holds(4, 5)
    assert not holds(5, 6)
    assert holds(6, 7)


def test_where_nothing_is_handed_out_before_the_end_there_may_be_a_record(reader: type[Reader]) -> None:
    """Behind a transaction that is open, for readers of committed data."""
    reader.stable = 8
    assert holds(8, 12, read_committed=True)
    assert reader.asked == [True]
    assert not holds(8, 8)


def test_a_batch_across_an_edge_that_cannot_be_read_is_told(reader: type[Reader]) -> None:
    reader.batches = [written(4, 5, 6, is_damaged=True)]
    with pytest.raises(BrokerRefused, match="east: orders-0"):
        holds(5, 6)
