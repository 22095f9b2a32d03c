"""A joined batch holds what its parts hold, and what is not whole is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka import batch
from mirror.kafka.batch import HEADER, CorruptBatch, Header, Producer, Record
from mirror.kafka.joining import joined

PRODUCER = Producer(7, 3)

optional = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 2**41),
    optional,
    optional,
    st.lists(st.tuples(st.text(max_size=5), optional), max_size=2).map(tuple),
    st.just(-1),
)
parts = st.lists(st.lists(records, min_size=1, max_size=20), min_size=1, max_size=6)


@given(parts, st.integers(0, 4))
def test_every_record_is_there_in_order_and_unaltered(contents: list[list[Record]], codec: int) -> None:
    one = joined([batch.encode(each, codec) for each in contents], PRODUCER, 42)
    header = Header._make(HEADER.unpack_from(one))
    everything = [record for each in contents for record in each]
    assert [record._replace(offset=0, producer_id=-1) for record in batch.records(one)] == everything
    assert [record.offset for record in batch.records(one)] == list(range(len(everything)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 42)
    assert (header.codec, header.is_dense, header.record_count) == (codec, True, len(everything))
    assert header.max_timestamp == max(record.timestamp for record in everything)
    assert list(batch.batches(one, 0, len(one)))


@given(parts)
def test_it_is_what_encoding_them_together_makes(contents: list[list[Record]]) -> None:
    everything = [record for each in contents for record in each]
    one = joined([batch.encode(each, 0) for each in contents], PRODUCER, 42)
    assert bytes(one) == bytes(batch.encode(everything, 0, PRODUCER, 42))


@pytest.mark.parametrize("codec", [0, 3])
def test_what_does_not_hold_together_is_refused(codec: int) -> None:
    good = batch.encode([Record(0, 1, b"key", b"value" * 20, (), -1)], codec)
    bad = memoryview(bytearray(good))
    struct.pack_into(">B", bad, batch.HEADER_BYTES, 0x7D)
    with pytest.raises(CorruptBatch):
        joined([good, bad], PRODUCER, 0)


def test_records_longer_than_two_bytes_of_length_can_say_are_moved_whole() -> None:
    everything = [Record(0, 5, b"key", b"x" * size, (), -1) for size in (1, 8_191, 8_192, 20_000, 2_000_000)]
    one = joined([batch.encode([each], 0) for each in everything], PRODUCER, 0)
    assert [each.value for each in batch.records(one)] == [each.value for each in everything]


def test_batches_of_more_records_than_two_bytes_of_offset_can_say_are_moved_in_order() -> None:
    few, many = (
        [Record(0, 5, None, b"first", (), -1)],
        [Record(0, 5, None, b"%d" % each, (), -1) for each in range(8_200)],
    )
    one = joined([batch.encode(few, 0), batch.encode(many, 0)], PRODUCER, 0)
    assert [(each.offset, each.value) for each in batch.records(one)] == list(
        enumerate(each.value for each in (*few, *many))
    )
