"""What fills offsets is told from records, also where the cleaner has left only a part of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.kafka.batch import Producer, Record
from mirror.same_offsets import fillers
from tests.unit.copier.builders import as_logged, dense, sparse

OURS = Producer(7, 0)


def filler(offset: int, key: bytes | None) -> Record:
    return Record(offset, 5, key, None, (), -1)


@pytest.mark.parametrize("count", [1, 2, 50_000])
@pytest.mark.parametrize("made", [fillers.padding, fillers.tombstones])
def test_what_was_made_to_fill_offsets_is_known_again(made: type, count: int) -> None:
    assert fillers.are_fillers(*as_logged(made(count, OURS, 0, 5), 3))


@pytest.mark.parametrize("key", [None, fillers.RESERVED_KEY])
def test_what_the_cleaner_has_left_of_it_is_known_again(key: bytes | None) -> None:
    assert fillers.are_fillers(*sparse([filler(4, key), filler(7, key)], 3, 9))
    assert fillers.are_fillers(*sparse([], 3, 9))


@pytest.mark.parametrize(
    ("key", "value", "is_one"),
    [
        (fillers.RESERVED_KEY, None, True),
        (fillers.RESERVED_KEY, b"", False),
        (b"key", None, False),
        (None, None, False),
    ],
)
def test_a_tombstone_that_fills_has_the_reserved_key_and_no_value(
    key: bytes | None, value: bytes | None, is_one: bool
) -> None:
    assert fillers.is_tombstone(filler(4, key)._replace(value=value)) == is_one


@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize(
    "records",
    [
        [filler(0, None)._replace(value=b"")],
        [filler(0, None)._replace(headers=(("trace", b"1"),))],
        [filler(0, b"")],
        [filler(0, None), filler(1, None)._replace(value=b"order")],
        [filler(0, fillers.RESERVED_KEY), filler(1, b"order")],
    ],
)
def test_records_are_not_taken_for_it_wherever_in_a_batch_they_are(records: Sequence[Record], codec: int) -> None:
    assert not fillers.are_fillers(*dense(records, codec))
