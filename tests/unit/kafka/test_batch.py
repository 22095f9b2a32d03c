"""A batch keeps every byte of its records: read, passed on, decoded and encoded again."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from mirror.kafka import batch
from mirror.kafka.batch import (
    HEADER,
    HEADER_BYTES,
    LARGEST_SEQUENCE,
    CorruptBatch,
    Header,
    Producer,
    Record,
    UnsupportedMagic,
)

NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)
TIME = 1_700_000_000_000

# Written by Java's producer (Kafka 4.3.1) and by librdkafka, read from a broker's log.
GOLDEN = {
    name: bytes.fromhex(text)
    for name, text in json.loads(Path(__file__).with_name("golden_batches.json").read_text()).items()
}
WRITTEN = [
    (TIME, b"key-1", b"value " * 40, ()),
    (TIME + 5, None, b"", (("a", b"1"), ("a", None), ("größe", b"\x00\xff"), ("a", b""))),
    (TIME - 7, b"", None, ()),
]

# A busy machine must not fail a law.

nullable = st.none() | st.binary(max_size=40)
records = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(-1, 2**45),
    key=nullable,
    value=nullable | st.binary(min_size=1000, max_size=1000),
    headers=st.lists(st.tuples(st.text(max_size=8), nullable), max_size=4).map(tuple),
    producer_id=st.just(-1),
)
contents = st.lists(records, min_size=1, max_size=8)
producers = st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
sequences = st.integers(0, LARGEST_SEQUENCE)


def header_of(content: memoryview) -> Header:
    return Header._make(HEADER.unpack_from(content))


def logged(content: bytes | memoryview, base_offset: int = 0) -> memoryview:
    """A batch as a log holds it, in a buffer that may be written to."""
    kept = bytearray(content)
    struct.pack_into(">q", kept, 0, base_offset)
    return memoryview(kept)


def without_place(found: list[Record]) -> list[tuple[object, ...]]:
    return [tuple(record[1:5]) for record in found]


@pytest.mark.parametrize("name", GOLDEN)
def test_what_real_producers_write_is_read(name: str) -> None:
    content = logged(GOLDEN[name], 41)
    ((found_content, header),) = batch.batches(content, 0, len(content))
    assert found_content == content
    assert header.codec == CODECS[["none", "gzip", "snappy", "lz4", "zstd"].index(name.split("-")[1])]
    assert (header.next_offset, header.record_count, header.is_dense, header.is_control) == (44, 3, True, False)
    found = batch.records(content)
    assert without_place(found) == WRITTEN
    assert [record.offset for record in found] == [41, 42, 43]


@pytest.mark.parametrize("codec", CODECS)
@given(written=contents, producer=producers, sequence=sequences)
def test_encoded_records_are_decoded_unchanged(
    codec: int, written: list[Record], producer: Producer, sequence: int
) -> None:
    content = batch.encode(written, codec, producer, sequence)
    header = header_of(content)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (*_fields(producer), sequence)
    assert (header.record_count, header.last_offset_delta, header.codec) == (len(written), len(written) - 1, codec)
    assert header.max_timestamp == max(record.timestamp for record in written)
    found = batch.records(content)
    assert without_place(found) == without_place(written)
    assert [record.offset for record in found] == list(range(len(written)))
    assert {record.producer_id for record in found} == {producer.producer_id}


@given(written=contents, codec=st.sampled_from([NONE, GZIP]))
def test_another_implementation_reads_what_is_encoded(written: list[Record], codec: int) -> None:
    read = DefaultRecordBatch(batch.encode(written, codec))
    assert read.validate_crc()
    assert [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in read] == without_place(written)


@given(
    written=contents,
    codec=st.sampled_from(CODECS),
    producer=producers,
    sequence=sequences,
    source=producers,
    transactional=st.booleans(),
    horizon=st.booleans(),
    in_transaction=st.booleans(),
)
def test_a_batch_is_passed_on_with_its_records_untouched(
    written: list[Record],
    codec: int,
    producer: Producer,
    sequence: int,
    source: Producer,
    transactional: bool,
    horizon: bool,
    in_transaction: bool,
) -> None:
    producer = replace(producer, is_transactional=in_transaction)
    original = logged(batch.encode(written, codec, source, 7), 1234)
    struct.pack_into(">h", original, 21, codec | (0x10 if transactional else 0) | (0x40 if horizon else 0))
    before = bytes(original)
    frame = memoryview(bytearray(b"head" + before + b"tail"))
    header = header_of(original)
    content = batch.pass_on(frame[4 : 4 + len(before)], header, producer, sequence)
    assert DefaultRecordBatch(content).validate_crc()
    assert content[HEADER_BYTES:] == before[HEADER_BYTES:]
    assert without_place(batch.records(content)) == without_place(written)
    passed = header_of(content)
    assert (passed.base_offset, passed.leader_epoch, passed.codec) == (0, -1, codec)
    assert passed.attributes == header_of(batch.encode(written, codec, producer, sequence)).attributes
    assert passed.is_transactional == in_transaction
    assert (passed.producer_id, passed.producer_epoch, passed.base_sequence) == (*_fields(producer), sequence)
    kept = ("length", "magic", "last_offset_delta", "base_timestamp", "max_timestamp", "record_count")
    assert all(getattr(passed, name) == getattr(header, name) for name in kept)
    assert bytes(frame[:4]) + bytes(frame[-4:]) == b"headtail"


@given(st.lists(contents, min_size=1, max_size=4), st.integers(0, 5000))
def test_a_fetch_yields_its_whole_batches_and_not_the_torn_end(written: list[list[Record]], cut: int) -> None:
    parts = [bytes(batch.encode(each, NONE)) for each in written]
    buffer = b"".join(parts)
    end = max(0, len(buffer) - cut)
    found = [bytes(content) for content, _ in batch.batches(memoryview(buffer), 0, end)]
    ends = [sum(map(len, parts[: number + 1])) for number in range(len(parts))]
    assert found == [part for part, stop in zip(parts, ends, strict=True) if stop <= end]


@pytest.mark.parametrize("position", [21, 30, HEADER_BYTES, -1])
def test_a_damaged_batch_is_refused(position: int) -> None:
    """Passed on, it would get a new checksum, and nobody could tell any more."""
    damaged = bytearray(GOLDEN["java-lz4"])
    damaged[position] ^= 1
    with pytest.raises(CorruptBatch, match="offset 0 does not match its checksum"):
        list(batch.batches(memoryview(damaged), 0, len(damaged)))


def test_a_length_that_cannot_be_is_refused() -> None:
    damaged = bytearray(GOLDEN["java-none"])
    struct.pack_into(">i", damaged, 8, -12)
    with pytest.raises(CorruptBatch, match="-12 bytes"):
        list(batch.batches(memoryview(damaged), 0, len(damaged)))


def test_message_formats_of_the_future_are_refused() -> None:
    new = bytearray(GOLDEN["java-none"])
    new[16] = 3
    with pytest.raises(UnsupportedMagic, match="offset 0 has message format 3"):
        list(batch.batches(memoryview(new), 0, len(new)))


@pytest.mark.parametrize("name", GOLDEN)
def test_data_that_does_not_decode_is_corrupt_and_nothing_else(name: str) -> None:
    torn = memoryview(GOLDEN[name][:-9])
    with pytest.raises(CorruptBatch, match="offset 0"):
        batch.records(torn)


def test_append_time_is_every_records_time() -> None:
    content = logged(GOLDEN["librdkafka-none"])
    struct.pack_into(">h", content, 21, 0x08)
    assert [record.timestamp for record in batch.records(content)] == [TIME + 5] * 3


@given(sequences, st.integers(1, 10_000))
def test_sequences_wrap_as_the_broker_expects(sequence: int, count: int) -> None:
    following = batch.next_sequence(sequence, count)
    assert 0 <= following <= LARGEST_SEQUENCE
    assert following == sequence + count - (2**31 if sequence + count > LARGEST_SEQUENCE else 0)


@given(contents, st.sampled_from(CODECS), producers)
def test_the_same_records_are_recognised_whoever_wrote_them(
    written: list[Record], codec: int, producer: Producer
) -> None:
    original = logged(batch.encode(written, codec), 77)
    copy = batch.encode(written, codec, producer, 3)
    assert batch.same_records(original, copy)
    other = [written[0]._replace(value=(written[0].value or b"") + b"!"), *written[1:]]
    assert not batch.same_records(original, batch.encode(other, codec))
    later = [record._replace(timestamp=record.timestamp + 1) for record in written]
    assert not batch.same_records(original, batch.encode(later, codec))


@pytest.mark.parametrize(("kind", "aborted"), [(0, True), (1, False)])
def test_markers_say_how_a_transaction_ended(kind: int, aborted: bool) -> None:
    marker = Record(0, TIME, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), (), 5)
    assert batch.marker_is_abort(batch.encode([marker], NONE)) is aborted


def _fields(producer: Producer) -> tuple[int, int]:
    return producer.producer_id, producer.epoch


# As log cleaners of Kafka 4.3.1 leave them (made with Java's own classes), and what Java reads in them.
CLEANED: dict[str, Any] = json.loads(Path(__file__).with_name("golden_cleaned_batches.json").read_text())


@pytest.mark.parametrize("name", CLEANED)
def test_what_a_log_cleaner_leaves_is_read_as_java_reads_it(name: str) -> None:
    """Removed records, a delete horizon in place of the base timestamp, nothing left at all; append times, no times."""
    content = memoryview(bytearray(bytes.fromhex(CLEANED[name]["bytes"])))
    ((found, header),) = batch.batches(content, 0, len(content))
    expected = [
        (
            offset,
            timestamp,
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
            tuple(
                (bytes.fromhex(each).decode(), None if part is None else bytes.fromhex(part)) for each, part in headers
            ),
        )
        for offset, timestamp, key, value, headers in CLEANED[name]["records"]
    ]
    assert [each[:5] for each in batch.records(found)] == expected
    assert header.is_dense == (len(expected) == header.next_offset - header.base_offset)
    if header.is_dense and not header.has_append_time:
        passed = batch.pass_on(found, header, Producer(7, 0), 5)
        assert [each[1:5] for each in batch.records(passed)] == [each[1:] for each in expected]


def test_an_emptied_marker_ends_no_transaction_as_aborted() -> None:
    """Compaction keeps a producer's last batch without its records; Java's consumer takes such a one for no abort."""
    content = memoryview(bytes.fromhex(CLEANED["format-2-emptied-marker"]["bytes"]))
    ((found, header),) = batch.batches(content, 0, len(content))
    assert (header.is_control, header.record_count) == (True, 0)
    assert batch.marker_is_abort(found) is False


@given(written=contents, names=st.lists(st.binary(max_size=6), min_size=1, max_size=3), codec=st.sampled_from(CODECS))
def test_header_names_that_are_no_utf_8_are_kept_byte_for_byte(
    written: list[Record], names: list[bytes], codec: int
) -> None:
    """Java would send replacement characters; the copy has the bytes."""
    builder = DefaultRecordBatchBuilder(2, NONE, False, -1, -1, -1, 1 << 30)
    for position, each in enumerate(written):
        builder.append(position, each.timestamp, each.key, each.value, [("?" * len(name), b"v") for name in names])
    content = bytearray(builder.build())
    at = HEADER_BYTES
    for _ in written:
        for name in names:
            at = content.index(b"?" * len(name) + b"\x02v", at)
            content[at : at + len(name)] = name
            at += len(name)
    again = batch.encode(batch.records(memoryview(content)), codec)
    assert batch.compression.decompress(codec, again[HEADER_BYTES:]) == content[HEADER_BYTES:]


@pytest.mark.parametrize("lacking", [1, 2, HEADER_BYTES])
def test_a_batch_that_lacks_its_last_bytes_is_not_yielded(lacking: int) -> None:
    first, second = (batch.encode([Record(0, TIME, b"k", b"v" * 80, (), -1)], NONE) for _ in range(2))
    buffer = memoryview(bytearray(bytes(first) + bytes(second)))
    assert len(list(batch.batches(buffer, 0, len(buffer) - lacking))) == 1
    assert len(list(batch.batches(buffer, 0, len(buffer)))) == 2


ONE = Record(0, TIME, b"k", b"v", (), -1)


@pytest.mark.parametrize(
    "other",
    [
        batch.encode([ONE], GZIP),
        batch.encode([ONE._replace(timestamp=TIME + 1)], NONE),
        batch.encode([ONE._replace(value=b"w")], NONE),
        batch.encode([ONE, ONE], NONE),
    ],
    ids=["codec", "time", "content", "count"],
)
def test_batches_that_differ_in_their_records_are_not_the_same(other: memoryview) -> None:
    this = batch.encode([ONE], NONE, Producer(7, 1), 5)
    assert batch.same_records(this, batch.encode([ONE], NONE, Producer(8, 2), 9))
    assert not batch.same_records(this, other)


@pytest.mark.parametrize(("at", "number"), [("codec", GZIP), ("append time", 0x08), ("count", 2)])
def test_what_only_the_header_says_of_the_records_counts_too(at: str, number: int) -> None:
    """The bytes behind it are the same, and are read as something else."""
    this = batch.encode([ONE], NONE)
    other = memoryview(bytearray(this))
    if at == "count":
        struct.pack_into(">i", other, 57, number)
    else:
        struct.pack_into(">h", other, 21, number)
    assert not batch.same_records(this, other)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_record_that_does_not_end_where_it_says_is_corrupt(by: int) -> None:
    """The length of a record, and those of its fields, must say the same."""
    content = memoryview(bytearray(batch.encode([ONE, ONE], NONE)))
    content[HEADER_BYTES] += 2 * by
    with pytest.raises(CorruptBatch):
        batch.records(content)


def test_a_field_that_reaches_past_the_end_is_corrupt_and_not_cut_short() -> None:
    content = bytearray(batch.encode([Record(0, TIME, None, b"value", (), -1)], NONE))
    # The record and its value say to be one byte longer than there is.
    content[HEADER_BYTES] += 2
    content[content.index(b"value") - 1] += 2
    content[content.index(b"value") + 5 :] = b""
    with pytest.raises(CorruptBatch):
        batch.records(memoryview(content))


def test_sequences_wrap_to_0_behind_the_largest() -> None:
    """As brokers expect them: one more, or one less, is refused as out of order."""
    assert batch.next_sequence(5, 3) == 8
    assert batch.next_sequence(LARGEST_SEQUENCE - 3, 3) == LARGEST_SEQUENCE == 2**31 - 1
    assert [batch.next_sequence(LARGEST_SEQUENCE, count) for count in (1, 2)] == [0, 1]
    assert batch.next_sequence(LARGEST_SEQUENCE - 3, 10) == 6
