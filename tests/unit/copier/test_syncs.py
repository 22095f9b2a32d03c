"""Offset syncs decided over whole batches are those that MM2's rule decides record by record (OSW-01 to OSW-05)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.syncs import PartitionSyncs
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 3)


class RecordByRecord:
    """MM2's own way."""

    def __init__(self, offset_lag_max: int) -> None:
        self._offset_lag_max = offset_lag_max
        self._before = -1, -1
        self._last_downstream = -1
        self._due: OffsetSync | None = None
        self._delayed: OffsetSync | None = None

    def acknowledged(self, upstream: int, downstream: int, count: int) -> None:
        for number in range(count):
            pair = OffsetSync(ORDERS, upstream + number, downstream + number)
            if self._owes(pair.upstream, pair.downstream):
                self._last_downstream = pair.downstream
                self._due, self._delayed = pair, None
            else:
                self._delayed = pair
            self._before = pair.upstream, pair.downstream

    def _owes(self, upstream: int, downstream: int) -> bool:
        """OSW-01, in its order."""
        before_upstream, before_downstream = self._before
        return (
            self._last_downstream == -1
            or downstream - (self._last_downstream + 1) >= self._offset_lag_max
            or upstream - before_upstream != 1
            or downstream < before_downstream
        )

    def promote_delayed(self) -> None:
        if self._delayed is not None:
            self._due, self._delayed = self._delayed, None

    def take_due(self) -> OffsetSync | None:
        due, self._due = self._due, None
        return due


# (hole upstream, step downstream: backwards after a truncation, records), then whether a commit and a write follow.
steps = st.tuples(
    st.sampled_from([0, 0, 0, 1, 5]),
    st.sampled_from([0, 0, 0, 1, 7, -1, -2, -4, -50]),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
)


@given(st.integers(0, 10), st.integers(0, 3), st.integers(0, 60), st.lists(steps, max_size=25))
def test_over_batches_as_record_by_record(
    offset_lag_max: int, upstream: int, downstream: int, history: list[tuple[int, int, int, bool, bool]]
) -> None:
    ours, theirs = PartitionSyncs(ORDERS, offset_lag_max), RecordByRecord(offset_lag_max)
    for hole, jump, count, commits, writes in history:
        upstream += hole
        downstream = max(0, downstream + jump)
        for one in (ours, theirs):
            one.acknowledged(upstream, downstream, count)
            if commits:
                one.promote_delayed()
        if writes:
            assert ours.take_due() == theirs.take_due()
        upstream += count
        downstream += count
    for one in (ours, theirs):
        one.promote_delayed()
    assert ours.take_due() == theirs.take_due()


def test_a_copy_that_went_back_by_one_offset_owes_a_sync() -> None:
    """OSW-01: the same place of the target holds another record now."""
    syncs = PartitionSyncs(ORDERS, 100)
    syncs.acknowledged(0, 50, 10)
    syncs.take_due()
    syncs.acknowledged(10, 58, 1)
    assert syncs.take_due() == OffsetSync(ORDERS, 10, 58)


def test_a_sync_is_owed_by_the_golden_records() -> None:
    """OSW-01, with offset.lag.max = 50."""
    syncs = PartitionSyncs(ORDERS, 50)
    for upstream, downstream, is_owed in [
        *((0, 100, "y"), (2, 102, "y"), (3, 152, "n"), (4, 153, "y"), (5, 154, "n"), (6, 203, "n"), (7, 204, "y")),
        *((2, 206, "y"), (3, 207, "n"), (4, 3, "y"), (5, 4, "n"), (7, 6, "y"), (7, 6, "y"), (8, 7, "n")),
        *((10, 57, "y"), (11, 58, "n")),
    ]:
        syncs.acknowledged(upstream, downstream, 1)
        assert ("y" if syncs.take_due() else "n") == is_owed, (upstream, downstream)


@given(lag=st.integers(min_value=0, max_value=200), count=st.integers(min_value=1, max_value=1000))
def test_a_steady_stream_owes_a_sync_every_lag_and_one_records(lag: int, count: int) -> None:
    """CFG-033; without lag every record does."""
    syncs = PartitionSyncs(ORDERS, lag)
    owed = []
    for offset in range(count):
        syncs.acknowledged(offset, offset, 1)
        if syncs.take_due():
            owed.append(offset)
    assert owed == list(range(0, count, lag + 1))


def test_the_first_record_owes_a_sync_at_once() -> None:
    """OSW-08."""
    syncs = PartitionSyncs(ORDERS, 100)
    syncs.acknowledged(41, 7, 1)
    assert syncs.take_due() == OffsetSync(ORDERS, 41, 7)
    assert syncs.take_due() is None


def test_a_commit_brings_the_newest_pair_although_no_rule_asks_for_it() -> None:
    """OSW-05."""
    syncs = PartitionSyncs(ORDERS, 100)
    syncs.acknowledged(0, 0, 50)
    assert syncs.take_due() == OffsetSync(ORDERS, 0, 0)
    syncs.promote_delayed()
    assert syncs.take_due() == OffsetSync(ORDERS, 49, 49)
    syncs.promote_delayed()
    assert syncs.take_due() is None


def test_the_rule_is_held_to_the_record_at_the_edges_of_its_steps() -> None:
    """OSW-02: the last sync and ``offset.lag.max`` more make one due; so does a batch that begins right there."""
    for upstream, due in ((10, OffsetSync(ORDERS, 10, 10)), (9, None)):
        syncs, slow = PartitionSyncs(ORDERS, 9), RecordByRecord(9)
        for one in (syncs, slow):
            one.acknowledged(0, 0, 1)
            one.take_due()
            one.acknowledged(1, 1, upstream - 1)
            one.acknowledged(upstream, upstream, 1)
        assert slow.take_due() == due
        assert syncs.take_due() == due


def test_a_target_that_was_truncated_owes_a_sync_at_once() -> None:
    """OSW-03: the pair before it, further on, is no longer true."""
    syncs = PartitionSyncs(ORDERS, 100)
    syncs.acknowledged(0, 50, 5)
    assert syncs.take_due() == OffsetSync(ORDERS, 0, 50)
    syncs.acknowledged(5, 30, 5)
    assert syncs.take_due() == OffsetSync(ORDERS, 5, 30)


def test_a_sync_is_owed_until_that_very_one_is_in_the_log() -> None:
    """What is under way counts, what waits for a commit counts, and an older answer settles no newer debt."""
    syncs = PartitionSyncs(ORDERS, 0)
    assert syncs.is_settled
    syncs.acknowledged(0, 0, 1)
    assert not syncs.is_settled
    first = syncs.take_due()
    assert first is not None
    assert not syncs.is_settled
    assert syncs.take_due() is None
    assert not syncs.is_settled, "asking again does not pay it"
    syncs.acknowledged(1, 1, 1)
    second = syncs.take_due()
    assert second is not None
    syncs.written(first)
    assert not syncs.is_settled
    syncs.written(second)
    assert syncs.is_settled


def test_a_pair_that_only_a_commit_would_bring_is_owed_too() -> None:
    syncs = PartitionSyncs(ORDERS, 100)
    syncs.acknowledged(0, 0, 1)
    first = syncs.take_due()
    assert first is not None
    syncs.written(first)
    assert syncs.is_settled, "the newest pair is in the log"
    syncs.acknowledged(1, 1, 5)
    assert syncs.take_due() is None
    assert not syncs.is_settled
    syncs.promote_delayed()
    last = syncs.take_due()
    assert last == OffsetSync(ORDERS, 5, 5)
    syncs.written(last)
    assert syncs.is_settled
