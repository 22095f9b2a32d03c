"""Offset syncs: their bytes, when one is owed, and what the store makes of them (sections 2.9, 2.10 and 3.2)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.offset_sync import (
    SLOTS,
    NotReady,
    OffsetSync,
    OffsetSyncStore,
    SyncWriter,
    Translated,
)
from mirror.model.partition import TopicPartition
from mirror.model.translation import NotMirrored, TooOld
from tests.strategies import OFFSETS, PARTITIONS, sync_logs

ORDERS = TopicPartition("orders", 3)


def store(*pairs: tuple[int, int]) -> OffsetSyncStore:
    ready = OffsetSyncStore()
    ready.finish_initial_read()
    for upstream, downstream in pairs:
        ready.take(OffsetSync(ORDERS, upstream, downstream))
    return ready


def changes(kept: OffsetSyncStore) -> dict[int, tuple[int, int]]:
    """Return the slots that differ from the one before: the inventory's notation."""
    slots = [(sync.upstream, sync.downstream) for sync in kept.slots(ORDERS)]
    return {place: pair for place, pair in enumerate(slots) if place == 0 or pair != slots[place - 1]}


def test_the_golden_bytes() -> None:
    sync = OffsetSync(ORDERS, 100, 42)
    assert sync.key_bytes().hex() == "00066f726465727300000003"
    assert sync.value_bytes().hex() == "0000000000000064000000000000002a"


@given(partition=PARTITIONS, upstream=OFFSETS, downstream=OFFSETS)
def test_what_is_written_reads_back(partition: TopicPartition, upstream: int, downstream: int) -> None:
    sync = OffsetSync(partition, upstream, downstream)
    assert OffsetSync.parse(sync.key_bytes(), sync.value_bytes()) == sync


@given(key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=15))
def test_what_does_not_parse_is_passed_over(key: bytes | None, value: bytes | None) -> None:
    assert OffsetSync.parse(key, value) is None


def test_a_sync_is_owed_by_the_golden_records() -> None:
    """OSW-01, with offset.lag.max = 50."""
    writer = SyncWriter(50)
    answers = {True: "y", False: "n"}
    for upstream, downstream, is_owed in [
        *((0, 100, "y"), (2, 102, "y"), (3, 152, "n"), (4, 153, "y"), (5, 154, "n"), (6, 203, "n"), (7, 204, "y")),
        *((2, 206, "y"), (3, 207, "n"), (4, 3, "y"), (5, 4, "n"), (7, 6, "y"), (7, 6, "y"), (8, 7, "n")),
        *((10, 57, "y"), (11, 58, "n")),
    ]:
        assert answers[writer.update(upstream, downstream)] == is_owed, (upstream, downstream)


@given(records=st.lists(st.tuples(OFFSETS, OFFSETS)))
def test_without_lag_every_record_owes_a_sync(records: list[tuple[int, int]]) -> None:
    writer = SyncWriter(0)
    assert all(writer.update(upstream, downstream) for upstream, downstream in sorted(records))


@given(lag=st.integers(min_value=1, max_value=200), count=st.integers(min_value=1, max_value=1000))
def test_a_steady_stream_owes_a_sync_every_lag_and_one_records(lag: int, count: int) -> None:
    """CFG-033."""
    writer = SyncWriter(lag)
    owed = [offset for offset in range(count) if writer.update(offset, offset)]
    assert owed == list(range(0, count, lag + 1))


@pytest.mark.parametrize(
    ("pairs", "slots"),
    [
        ([(up, up + 5) for up in range(0, 501, 100)], {0: (500, 505), 8: (400, 405), 9: (200, 205), 10: (0, 5)}),
        (
            [(up, up + 5) for up in range(0, 1001, 100)],
            {0: (1000, 1005), 8: (900, 905), 9: (800, 805), 10: (400, 405), 11: (0, 5)},
        ),
        (
            [(up, up) for up in range(41)],
            {0: (40, 40), 1: (39, 39), 2: (38, 38), 3: (36, 36), 4: (32, 32), 5: (16, 16), 6: (0, 0)},
        ),
        ([(10, 20), (5, 30)], {0: (5, 30)}),
        ([(10, 20), (5, 30), (5, 31)], {0: (5, 31), 1: (5, 30)}),
    ],
)
def test_the_golden_slots(pairs: list[tuple[int, int]], slots: dict[int, tuple[int, int]]) -> None:
    """OST-02, OST-03, OST-05."""
    assert changes(store(*pairs)) == slots


@pytest.mark.parametrize(
    ("readable", "slots"),
    [
        (False, {0: (1000, 1000)}),
        (
            True,
            {
                0: (1000, 1000),
                5: (990, 990),
                6: (960, 960),
                7: (900, 900),
                8: (840, 840),
                9: (720, 720),
                10: (480, 480),
                11: (0, 0),
            },
        ),
    ],
)
def test_the_initial_read_keeps_history_only_with_readable_checkpoints(
    readable: bool, slots: dict[int, tuple[int, int]]
) -> None:
    """OST-04, OST-09."""
    starting = OffsetSyncStore(checkpoints_readable=readable)
    for offset in range(0, 1001, 10):
        starting.take(OffsetSync(ORDERS, offset, offset))
    assert starting.translate(ORDERS, 500) == NotReady()
    starting.finish_initial_read()
    assert changes(starting) == slots


def test_the_golden_translations() -> None:
    """OST-07."""
    kept = store(*[(up, up + 5) for up in range(0, 1001, 100)])
    golden = {0: 5, 1: 6, 50: 6, 100: 6, 350: 6, 499: 406, 500: 406, 799: 406, 800: 805, 850: 806, 900: 905}
    golden |= {999: 906, 1000: 1005, 1001: 1006, 5000: 1006}
    assert {position: kept.translate(ORDERS, position) for position in golden} == {
        position: Translated(downstream) for position, downstream in golden.items()
    }


def test_a_position_older_than_every_sync_is_too_old_and_one_of_an_unknown_partition_has_no_sync() -> None:
    assert store((100, 200)).translate(ORDERS, 5) == TooOld(100)
    assert store((100, 200)).translate(TopicPartition("orders", 4), 5) == NotMirrored()


@given(log=sync_logs(ORDERS, least_step=1))
def test_neighbouring_slots_are_neither_too_far_apart_nor_too_close(log: list[OffsetSync]) -> None:
    """OST-01, OST-05."""
    kept = store()
    for sync in log:
        kept.take(sync)
    slots = kept.slots(ORDERS)
    assert (len(slots), slots[0]) == (SLOTS, log[-1])
    for place, (newer, older) in enumerate(pairwise(slots)):
        if newer is not older:
            apart = newer.upstream - older.upstream
            assert 2 ** max(place - 2, 0) <= apart <= 2 ** (place + 1) - 2**place


@given(log=sync_logs(ORDERS, least_step=-50), positions=st.lists(st.integers(0, 200_000), min_size=2))
def test_for_one_state_a_later_position_never_translates_to_an_earlier_one(
    log: list[OffsetSync], positions: list[int]
) -> None:
    """OST-08."""
    kept = store()
    for sync in log:
        kept.take(sync)
    answers = [kept.translate(ORDERS, position) for position in sorted(positions)]
    downstream = [answer.downstream if isinstance(answer, Translated) else -1 for answer in answers]
    assert downstream == sorted(downstream)


@given(log=sync_logs(ORDERS, least_step=0), position=st.integers(0, 200_000))
def test_a_translation_never_passes_the_next_sync(log: list[OffsetSync], position: int) -> None:
    """So that a reader misses nothing: at most one past the newest sync at or before the position."""
    kept = store()
    for sync in log:
        kept.take(sync)
    answer = kept.translate(ORDERS, position)
    if isinstance(answer, Translated):
        assert answer.downstream <= max(sync.downstream for sync in log if sync.upstream <= position) + 1
