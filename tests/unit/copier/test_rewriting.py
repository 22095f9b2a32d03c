"""Whatever batch comes in, what goes out is one that a broker takes, with the records that a reader of the source sees."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror.copier.lane import Lane
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import HEADER, HEADER_BYTES, LARGEST_SEQUENCE, Header, Producer, Record
from mirror.kafka.wire import FetchedPartition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from tests.unit.copier.builders import dense, flagged, sparse

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
OURS = Producer(7, 4)
THEIRS = Producer(12, 3)
APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
NONE, GZIP = 0, 1

nullable = st.none() | st.binary(max_size=20)
names = st.text(max_size=4) | st.binary(max_size=4).map(lambda name: str(name, "utf-8", "surrogateescape"))
values = st.tuples(
    st.integers(-1, 2**45),
    nullable,
    nullable | st.binary(min_size=300, max_size=300),
    st.lists(st.tuples(names, nullable), max_size=3).map(tuple),
)
kinds = st.sampled_from(
    ["dense", "dense", "compacted", "emptied", "append time", "horizon", "transactional", "marker", "old 0", "old 1"]
)
shapes = st.lists(
    st.tuples(
        kinds, st.lists(values, min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 2), st.integers(1, 30)
    ),
    min_size=1,
    max_size=5,
)


@dataclass(frozen=True)
class Log:
    """A source log in parts, the records that a reader of it sees, and where it ends."""

    parts: tuple[bytes, ...]
    records: tuple[Record, ...]
    end: int


def log_of(drawn: Sequence[Any]) -> Log:
    parts, seen, offset = [], [], 0
    for kind, drawn_values, codec, hole, kept in drawn:
        offset += hole
        records = [Record(offset + place, *each, producer_id=-1) for place, each in enumerate(drawn_values)]
        offset += len(records)
        match kind:
            case "dense":
                made = dense(records, codec, THEIRS, 9)
            case "append time":
                made = flagged(dense(records, codec), APPEND_TIME)
                records = [each._replace(timestamp=made[1].max_timestamp) for each in records]
            case "horizon":
                # The base timestamp is the horizon then, and the records' are told from it all the same.
                made = flagged(dense(records, codec), DELETE_HORIZON)
            case "transactional":
                made = flagged(dense(records, codec, THEIRS, 9), TRANSACTIONAL)
            case "compacted":
                plain = [each._replace(headers=()) for each in records]
                records = [each for place, each in enumerate(plain) if kept >> place & 1] or plain[-1:]
                made = sparse(records, plain[0].offset, offset, codec)
            case "emptied":
                made = dense(records[:1], NONE)
                head = bytearray(made[0][:HEADER_BYTES])
                struct.pack_into(">i", head, 8, HEADER_BYTES - 12)
                struct.pack_into(">i", head, 23, len(records) - 1)
                struct.pack_into(">i", head, 57, 0)
                struct.pack_into(">I", head, 17, crc32c(head[21:]))
                made, records = (memoryview(head), Header._make(HEADER.unpack_from(head))), []
            case "marker":
                commit = Record(records[0].offset, 5, struct.pack(">hh", 0, 1), bytes(6), (), -1)
                made = flagged(dense([commit], NONE, THEIRS, -1), CONTROL | TRANSACTIONAL)
                offset, records = commit.offset + 1, []
            case _:
                magic = int(kind[-1])
                builder = LegacyRecordBatchBuilder(magic, codec if codec == GZIP else NONE, 1 << 30)
                for place, each in enumerate(records):
                    shown = place if codec == GZIP and magic else each.offset
                    builder.append(shown, each.timestamp, each.key, each.value)
                old = bytearray(builder.build())
                if codec == GZIP:
                    struct.pack_into(">q", old, 0, offset - 1)
                parts.append(bytes(old))
                seen += [each._replace(headers=(), timestamp=each.timestamp if magic else -1) for each in records]
                continue
        parts.append(bytes(made[0]))
        seen += records
    return Log(tuple(parts), tuple(seen), offset)


def assert_a_broker_takes(content: memoryview, sequence: int) -> Header:
    """Check what brokers check of a batch that a producer sends (``LogValidator`` and the producer's state)."""
    header = Header._make(HEADER.unpack_from(content))
    assert header.length == len(content) - 12
    assert header.magic == 2
    assert header.crc == crc32c(content[21:])
    assert header.attributes & ~0x07 == 0
    assert header.record_count == header.last_offset_delta + 1 > 0
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 4, sequence)
    assert header.base_offset == 0
    found = batch.records(content)
    assert [each.offset for each in found] == list(range(header.record_count))
    # The broker goes by this one where it does not look at each record.
    assert header.max_timestamp == max(each.timestamp for each in found)
    return header


@given(shapes, st.integers(0, 30), st.sampled_from([0, 5, LARGEST_SEQUENCE - 3]), st.booleans())
def test_any_batch_in_broker_valid_batches_out_and_the_records_are_equal(
    drawn: Any, start: int, sequence: int, queues_up: bool
) -> None:
    """Any kind, any codec, any start; one by one or merged; the sequences have no hole."""
    log = log_of(drawn)
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "", None)
    handover = Handover(Position(start, 0, start, True), (), clean=True)
    lane = Lane(work, handover, OURS, sequence, None)
    sent: list[Record] = []
    for part in [b"".join(log.parts)] if queues_up else log.parts:
        frame = memoryview(bytearray(b"head" + part + b"tail"))
        lane.take(frame, FetchedPartition(SOURCE, 0, 99, 99, 0, (), 4, 4 + len(part)), read_committed=False)
        while lane.stream.can_send(float("inf")):
            content = lane.stream.take().content
            header = assert_a_broker_takes(content, sequence)
            sequence = batch.next_sequence(sequence, header.record_count)
            lane.stream.answered(0, len(sent), "")
            found = batch.records(content)
            sent += found
            if header.codec in (NONE, GZIP) and all(_is_text(name) for each in found for name, _ in each.headers):
                assert another_implementation_reads(content) == [tuple(each[1:5]) for each in found]
        assert (bytes(frame[:4]), bytes(frame[-4:])) == (b"head", b"tail")
    assert [tuple(each[1:5]) for each in sent] == [tuple(each[1:5]) for each in log.records if each.offset >= start]
    assert lane.upstream == max(start, log.end)


def another_implementation_reads(content: memoryview) -> list[tuple[Any, ...]]:
    """Return timestamps, keys, values and headers."""
    read = DefaultRecordBatch(content)
    assert read.validate_crc()
    return [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in read]


def _is_text(name: str) -> bool:
    """Whether the name of a header is UTF-8, which the other implementation insists on."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
