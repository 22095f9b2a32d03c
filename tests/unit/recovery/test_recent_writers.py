"""For how long a writer must be silent before it counts as stopped."""

from __future__ import annotations

from typing import cast

import pytest

from mirror.kafka.channel import Channel
from mirror.kafka.partition_state import ActiveProducer
from mirror.model.partition import TopicPartition
from mirror.recovery.recent_writers import RecentWriter, find_writers, longest_interval
from tests.unit.recovery.logs import Batch, Logs, batches

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)


@pytest.mark.parametrize(
    ("times", "longest"),
    [
        ([], None),
        ([5_000], None),
        ([5_000, 5_100, 5_200], None),  # one burst: nobody knows when the next comes
        ([0, 30_000, 60_000], 30_000),
        ([60_000, 0, 30_000, 30_001], 30_000),
        ([0, 1_000, 2_000, 3_000], 1_000),
    ],
)
def test_the_longest_interval_is_told_where_there_was_more_than_one_burst(times: list[int], longest: int) -> None:
    assert longest_interval(times) == longest


@pytest.mark.parametrize(
    ("interval_ms", "silence", "is_doubtful"),
    [(10, 3.0, False), (2_000, 4.0, False), (30_000, 60.0, False), (45_000, 60.0, True), (None, 60.0, True)],
)
def test_who_sends_rarely_must_be_silent_for_longer(interval_ms: int | None, silence: float, is_doubtful: bool) -> None:
    writer = RecentWriter(ORDERS, 5, 0, 1_000, interval_ms)
    assert (writer.silence(3.0, 60.0), writer.is_doubtful(60.0)) == (silence, is_doubtful)


def test_writers_are_named() -> None:
    assert str(RecentWriter(ORDERS, -1, -1, 1_000)) == (
        "orders-0: clients without a producer id, last at 1970-01-01T00:00:01Z, at intervals not known"
    )
    assert str(RecentWriter(ORDERS, 5, 2, 1_000, 30_000, "payments")) == (
        "orders-0: producer 5 (epoch 2, transactional id payments), last at 1970-01-01T00:00:01Z, every 30.0 s or less"
    )


def test_where_not_all_of_the_time_was_read_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client writes fast; that another without an id writes every 40 s lies before what is read."""
    slow = tuple(Batch(each, 40_000 * each) for each in range(5))
    logs = Logs({ORDERS: (*slow, *batches(5, 400, from_ms=180_000, every_ms=20)), BILLS: slow})
    logs.serve(monkeypatch)
    found = find_writers(cast(Channel, logs), [ORDERS, BILLS], own=(), since_ms=0)
    assert [(each.partition, each.interval_ms) for each in found.recent] == [(ORDERS, 20), (BILLS, 40_000)]
    assert found.cut_short == {ORDERS: (range(205),)}
    assert found.messages([ORDERS])[1:] == found.unread()
    assert found.unread() == ["orders-0: and 205 more offsets that were not read for clients without an id"]
    assert found.unread([BILLS]) == []


def test_who_wrote_last_is_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that had stopped long before stood first, since no interval is known of them, and hid who had just written."""
    old, new = (Batch(0, 1_000),), tuple(Batch(each, 50_000 * each) for each in range(5))
    logs = Logs({BILLS: old, ORDERS: new, TopicPartition("orders", 1): new})
    logs.serve(monkeypatch)
    found = find_writers(cast(Channel, logs), list(logs.batches), own=(), since_ms=0)
    assert [each.partition for each in found.recent] == [ORDERS, TopicPartition("orders", 1), BILLS]


def test_of_large_records_what_lies_behind_the_last_that_was_read_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs({ORDERS: tuple(Batch(each, 1_000 * each, size=1_500_000) for each in range(300))})
    logs.serve(monkeypatch)
    found = find_writers(cast(Channel, logs), [ORDERS], own=(), since_ms=0)
    before, behind = found.cut_short[ORDERS]
    assert (before, behind.start > 100, behind.stop) == (range(100), True, 300)


def test_the_producer_of_a_flow_s_markers_writes_no_record_and_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no producer id on record; an application that used its transactional id would be."""
    known = tuple(ActiveProducer(each, 0, -1, 6_000) for each in (7, 8, 9))
    marker = Batch(1, 6_000, 7, is_control=True)
    logs = Logs(
        {ORDERS: (Batch(0, 5_000, 9), marker, Batch(2, 6_000, 8))},
        producers={ORDERS: known},
        transactional_ids={
            7: "mm2-offsets.east.internal.west",
            8: "mm2-offsets.west.internal.east",
            9: "payments",
        },
    )
    logs.serve(monkeypatch)
    found = find_writers(cast(Channel, logs), [ORDERS], own=(), since_ms=0)
    assert sorted(each.producer_id for each in found.recent) == [8, 9]


def test_partitions_whose_ends_are_not_told_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs({ORDERS: batches(0, 3, from_ms=5_000)}, leaderless=frozenset({BILLS}))
    logs.serve(monkeypatch)
    found = find_writers(cast(Channel, logs), [ORDERS, BILLS], own=(), since_ms=0)
    assert dict(found.unknown) == {BILLS: "bills-1 has no leader"}
