"""Copies that begin behind what the source still has: removed as the target's settings say, or missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NoReturn, cast

import pytest

from mirror.kafka import batch, codes
from mirror.kafka.batch import Header, Producer, Record
from mirror.kafka.channel import EARLIEST, Channel
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow import Flow
from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import OffsetMap, Run, Runs, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.proof.left_out import LeftOut
from mirror.recovery import removed_copies as module
from mirror.recovery.removed_copies import RemovedCopies, by_retention, holds, removed_until

DAY_MS = 86_400_000
NOW_MS = 1_000 * DAY_MS
# Offsets 0 to 9 of the source at 1 to 10, with a hole at 5, and 10 to 14 behind a marker.
KNOWN = OffsetMap(0, True, Runs.of([Run(0, 1, 5), Run(6, 6, 4), Run(10, 11, 5)]), 15, 16)
SYNCED = SparseOffsetMap(0, 5, 1, 6, (Pair(0, 1), Pair(3, 4)))
# The same, of which Java MirrorMaker has copied the first five records.
TAKEN = replace(KNOWN, runs=Runs.of([Run(6, 6, 4), Run(10, 11, 5)]), sparse_maps=(SYNCED,))


@pytest.mark.parametrize(
    ("known", "start", "copy_start", "until"),
    [
        # The copy of the first record that the source has is there.
        (KNOWN, 0, 0, None),
        (KNOWN, 0, 1, None),
        (KNOWN, 3, 4, None),
        # It is not.
        (KNOWN, 0, 4, 3),
        (KNOWN, 0, 6, 6),
        # A log may begin with a marker; and nothing may be left of what was copied.
        (KNOWN, 0, 10, 10),
        (KNOWN, 0, 16, 15),
        (KNOWN, 0, 30, 15),
        (replace(KNOWN, same_offsets=True, downstream_next=15), 0, 7, 7),
        # Among Java MirrorMaker's copies nobody knows what lies where; behind them it is known.
        (TAKEN, 0, 4, None),
        (TAKEN, 6, 8, 8),
    ],
)
def test_up_to_where_the_copies_are_removed(known: OffsetMap, start: int, copy_start: int, until: int | None) -> None:
    assert removed_until(known, start, copy_start) == until


def topic(policy: str = "delete", age_ms: int = 7 * DAY_MS, size: int = -1) -> dict[str, str | None]:
    return {"cleanup.policy": policy, "retention.ms": str(age_ms), "retention.bytes": str(size)}


@pytest.mark.parametrize(
    ("settings", "age_ms", "is_explained"),
    [
        (topic(), 7 * DAY_MS + 1, True),
        (topic("compact,delete"), 8 * DAY_MS, True),
        # Somebody has removed what is not that old: it is missing.
        (topic(), 6 * DAY_MS, False),
        (topic(age_ms=-1), 900 * DAY_MS, False),
        (topic("compact"), 8 * DAY_MS, False),
        # By its size a log loses records of any age, and keeps as much as it says.
        (topic(age_ms=-1, size=1_000), 0, True),
        (topic(age_ms=-1, size=1_001), 0, False),
        # Nothing is known of the topic, or of when the records are of.
        ({}, 8 * DAY_MS, False),
        (topic(), NOW_MS + 1, False),
    ],
)
def test_what_the_settings_of_the_copy_explain(
    settings: dict[str, str | None], age_ms: int, *, is_explained: bool
) -> None:
    newest_ms = NOW_MS - age_ms
    explained = by_retention(
        settings, newest_ms, NOW_MS, lambda until_ms: newest_ms <= until_ms, lambda size: size <= 1_000
    )
    assert (explained is not None) == is_explained


def test_without_records_between_them_nothing_tells_how_old_they_were() -> None:
    assert by_retention(topic(), None, NOW_MS, lambda _: True, lambda _: True) is None


def test_of_a_backfill_at_the_end_of_what_is_gone_retention_explains_nothing() -> None:
    """A thousand records of today before 200 old ones, all deleted by hand, passed for removed by age."""
    assert by_retention(topic(), NOW_MS - 8 * DAY_MS, NOW_MS, lambda _: False, lambda _: False) is None


class Log:
    """A log of one record a batch, each of so many bytes, with a marker behind it."""

    def __init__(self, records: int, size: int, monkeypatch: pytest.MonkeyPatch, start: int = 0) -> None:
        self.start, self.end, self.size, self.read = start, start + 2 * records, size, 0
        monkeypatch.setattr(module, "read_batches", self.batches)

    def offsets(self, partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.start if at == EARLIEST else self.end)

    def batches(self, _: object, __: TopicPartition, start: int, end: int) -> Iterator[tuple[bytes, object]]:
        for offset in range(start, end, 2):
            self.read += self.size
            yield bytes(self.size), SimpleNamespace(base_offset=offset, next_offset=offset + 1)


@pytest.mark.parametrize(("size", "is_held"), [(4 * (1_000 + 78), True), (4 * (1_000 + 78) + 1, False), (0, True)])
def test_how_much_is_left_of_a_log_is_what_its_records_and_markers_take(
    size: int, monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    """DeleteRecords leaves the file of the newest segment as it is, and the copy was empty."""
    log = Log(4, 1_000, monkeypatch, start=40)
    assert holds(cast(Channel, log), TopicPartition("orders", 0), size, is_compacted=False) == is_held


def test_what_was_compacted_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    log = cast(Channel, Log(4, 1_000, monkeypatch))
    assert [holds(log, TopicPartition("orders", 0), size, is_compacted=True) for size in (4_000, 4_001)] == [
        True,
        False,
    ]


class Timed:
    """A log in which a marker of today follows records of some time ago."""

    def __init__(self, first: int) -> None:
        self.first = first

    def offsets(self, partitions: Sequence[TopicPartition], _: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)


@pytest.mark.parametrize(("newest_ms", "is_explained"), [(NOW_MS - 30 * DAY_MS, True), (NOW_MS, False)])
def test_the_time_of_a_marker_is_not_that_of_a_record(
    newest_ms: int, monkeypatch: pytest.MonkeyPatch, *, is_explained: bool
) -> None:
    """Records of long ago in transactions of today: retention had removed the copies, and verify said FAIL."""

    def read(_: object, __: object, start: int, end: int) -> Iterator[tuple[memoryview, Header]]:
        for number in range(start, end):
            at_ms = newest_ms if number == 3 else NOW_MS - 30 * DAY_MS
            content = batch.encode([Record(number, at_ms, None, b"", (), -1)], 0, APPLICATION, 0)
            content[:8] = number.to_bytes(8, "big")
            yield from batch.batches(content, 0, len(content))

    monkeypatch.setattr(module, "read_batches", read)
    monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)
    removed = RemovedCopies(Flow("east", "west"), cast(Channel, Timed(1)), cast(Channel, None), lambda _: ())
    assert removed._are_older(TopicPartition("orders", 0), 7, NOW_MS - 7 * DAY_MS) is is_explained


@pytest.mark.parametrize(("size", "is_held"), [(2_000 << 20, True), (2_200 << 20, False)])
def test_of_a_long_log_a_part_is_read(size: int, monkeypatch: pytest.MonkeyPatch, *, is_held: bool) -> None:
    log = Log(2_100, 1 << 20, monkeypatch)
    assert holds(cast(Channel, log), TopicPartition("orders", 0), size, is_compacted=False) == is_held
    assert log.read <= 65 << 20


BACK, APPLICATION = Producer(7, 0), Producer(8, 0)


@pytest.mark.parametrize(
    ("writers", "is_removed"),
    [
        ([BACK, BACK], True),
        ([BACK, APPLICATION], False),
        ([APPLICATION], False),
        # Of a topic that was moved there and back: only the last of it was copied from there.
        ([APPLICATION, *[BACK] * 300], False),
    ],
)
def test_of_what_the_flow_back_had_copied_from_there_the_originals_are_removed(
    writers: Sequence[Producer], monkeypatch: pytest.MonkeyPatch, *, is_removed: bool
) -> None:
    """Records that were deleted on the old cluster before it failed: the failback ended with FAIL."""

    def read(_: object, __: object, start: int, end: int) -> Iterator[tuple[memoryview, Header]]:
        for number, writer in list(enumerate(writers))[start:end]:
            content = batch.encode([Record(number, NOW_MS, None, b"", (), -1)], 0, writer, 0)
            yield from batch.batches(content, 0, len(content))

    monkeypatch.setattr(module, "read_batches", read)
    monkeypatch.setattr(module, "topic_settings", lambda *_: {})
    source, count = TopicPartition("orders", 0), len(writers)
    same = OffsetMap(0, True, Runs.of([Run(0, 0, 400)]), 400, 400, same_offsets=True)
    nowhere = cast(Channel, None)
    both_ways = RemovedCopies(Flow("west", "east"), nowhere, nowhere, lambda topic: {7} if topic == "orders" else ())
    found = both_ways.of(source, source, same, 0, count)
    assert (found is not None) == is_removed
    if found is not None:
        assert (found.cluster, found.partition, found.start, found.end) == ("west", source, 0, count)
        assert (found.is_unchecked, found.reason) == (False, "east has removed the originals")


def test_the_first_record_of_an_application_says_that_not_all_was_copied_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that one side had removed was read, weeks of it."""
    read: list[int] = []

    def batches(*_: object) -> Iterator[tuple[bytes, object]]:
        for number in range(1_000):
            read.append(number)
            yield b"", SimpleNamespace(producer_id=8, record_count=1, next_offset=number + 1)

    monkeypatch.setattr(module, "read_batches", batches)
    removed = RemovedCopies(Flow("east", "west"), cast(Channel, None), cast(Channel, None), lambda _: {7})
    assert not removed._is_copied_back(TopicPartition("orders", 0), 0, 1_000)
    assert read == [0]


def removed_behind(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> LeftOut | None:
    """Return what is said to be removed where the source cannot be read."""

    def read(*_: object) -> NoReturn:
        raise problem

    monkeypatch.setattr(module, "read_batches", read)
    monkeypatch.setattr(module, "topic_settings", lambda _, topics, __: {topics[0]: topic()})
    nowhere, copy = cast(Channel, None), TopicPartition("east.orders", 0)
    removed = RemovedCopies(Flow("east", "west"), nowhere, nowhere, lambda _: ())
    return removed.of(TopicPartition("orders", 0), copy, KNOWN, 0, 7)


def test_what_the_source_removes_at_the_same_time_is_looked_at_by_the_next_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Retention on both sides within some seconds ended the comparison of a healthy cluster with an error."""
    assert removed_behind(BrokerRefused("fetch", codes.OFFSET_OUT_OF_RANGE), monkeypatch) is None


def test_what_cannot_be_read_of_the_source_is_a_problem_of_that_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerRefused):
        removed_behind(BrokerRefused("fetch", 29), monkeypatch)
