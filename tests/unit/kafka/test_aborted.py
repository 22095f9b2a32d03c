"""Which batches of a fetch are aborted data: told by the index of the answer, and by the markers in between."""

from __future__ import annotations

import struct

import pytest

from mirror.kafka import batch
from mirror.kafka.aborted_transactions import AbortedTransactions
from mirror.kafka.batch import Header, Producer, Record
from mirror.kafka.wire import Aborted
from tests.unit.copier.builders import dense, flagged, record

ONE, OTHER = 1, 2
TRANSACTIONAL, CONTROL = 0x10, 0x20
Batch = tuple[memoryview, Header]


def data(first: int, last: int, producer: int = ONE, *, is_transactional: bool = True) -> Batch:
    made = dense([record(offset) for offset in range(first, last + 1)], producer=Producer(producer, 0), sequence=0)
    return flagged(made, TRANSACTIONAL) if is_transactional else made


def marker(offset: int, kind: int, producer: int = ONE, *, key: bool = True) -> Batch:
    content = struct.pack(">hh", 0, kind) if key else None
    one = Record(offset, 0, content, b"", (), producer)
    return flagged(dense([one], producer=Producer(producer, 0), sequence=-1), TRANSACTIONAL | CONTROL)


ABORT, COMMIT = 0, 1


def left(batches: list[Batch], *aborted: Aborted) -> list[int]:
    """The offsets of the data that a reader of committed data gets."""
    transactions = AbortedTransactions(aborted)
    kept = [
        content for content, header in batches if not transactions.covers(content, header) and not header.is_control
    ]
    return [each.offset for content in kept for each in batch.records(content)]


def test_a_transaction_is_aborted_from_its_first_offset_to_its_marker() -> None:
    batches = [data(0, 1), data(2, 3), data(4, 5), marker(6, ABORT), data(7, 8), marker(9, COMMIT)]
    assert left(batches, Aborted(ONE, 0)) == [7, 8]
    assert left(batches) == [0, 1, 2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("first", [2, 3])
def test_the_batch_in_which_it_begins_is_aborted_and_the_one_before_it_is_not(first: int) -> None:
    """A commit of the same producer stands in between."""
    batches = [data(0, 0), marker(1, COMMIT), data(2, 3), marker(4, ABORT), data(5, 5), marker(6, COMMIT)]
    assert left(batches, Aborted(ONE, first)) == [0, 5]


def test_one_that_begins_right_behind_a_batch_says_nothing_of_it() -> None:
    assert left([data(0, 1), data(2, 3), marker(4, ABORT)], Aborted(ONE, 2)) == [0, 1]


def test_a_commit_of_the_same_producer_does_not_end_what_is_aborted() -> None:
    """The index names the offset of the first record; a commit behind it is of a transaction before."""
    assert left([data(0, 0), marker(1, COMMIT), data(2, 2), marker(3, ABORT)], Aborted(ONE, 0)) == []


def test_several_transactions_and_producers_are_told_apart() -> None:
    batches = [
        data(0, 0, ONE),
        data(1, 1, OTHER),
        marker(2, ABORT, ONE),
        data(3, 3, ONE),
        marker(4, COMMIT, OTHER),
        marker(5, COMMIT, ONE),
        data(6, 6, ONE),
        marker(7, ABORT, ONE),
    ]
    assert left(batches, Aborted(ONE, 0), Aborted(ONE, 6)) == [1, 3]
    assert left(batches, Aborted(ONE, 6), Aborted(ONE, 0)) == [1, 3]


def test_what_was_written_outside_of_transactions_is_never_aborted() -> None:
    assert left([data(0, 0), data(1, 1, is_transactional=False), marker(2, ABORT)], Aborted(ONE, 0)) == [1]


@pytest.mark.parametrize("strange", [marker(1, 2), marker(1, ABORT, key=False)], ids=["another kind", "no key"])
def test_a_control_batch_that_is_no_abort_ends_no_transaction_as_aborted(strange: Batch) -> None:
    assert left([data(0, 0), strange, data(2, 2), marker(3, ABORT), data(4, 4)], Aborted(ONE, 0)) == [4]
