"""Batches as logs hold them, made for the tests of this folder."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from mirror.copier.tail_match import Batch
from mirror.kafka import batch
from mirror.kafka.batch import HEADER, PLAIN, Header, Producer, Record

TIME = 1_700_000_000_000


def record(offset: int, value: bytes | None = None) -> Record:
    """A record that no other offset has the like of."""
    content = b"value %d" % offset if value is None else value
    return Record(offset, TIME + offset, b"key %d" % (offset % 3), content, (("header", b"%d" % offset),), -1)


def as_logged(content: bytes | bytearray | memoryview, base_offset: int) -> Batch:
    """A batch with the base offset its log has given it."""
    kept = memoryview(bytearray(content))
    struct.pack_into(">q", kept, 0, base_offset)
    return kept, Header._make(HEADER.unpack_from(kept))


def dense(records: Sequence[Record], codec: int = 0, producer: Producer = PLAIN, sequence: int = -1) -> Batch:
    """A batch whose records follow one another from the first one's offset on."""
    return as_logged(batch.encode(records, codec, producer, sequence), records[0].offset)


def sparse(records: Sequence[Record], base_offset: int, next_offset: int, codec: int = 0) -> Batch:
    """A batch of which compaction has left only some records."""
    builder = DefaultRecordBatchBuilder(2, codec if codec <= 1 else 0, False, -1, -1, -1, 1 << 30)
    for each in records:
        headers = [(name, content) for name, content in each.headers]
        builder.append(each.offset - base_offset, each.timestamp, each.key, each.value, headers)
    content, _ = as_logged(builder.build(), base_offset)
    struct.pack_into(">i", content, 23, next_offset - base_offset - 1)
    return _sealed(content)


def flagged(one: Batch, flags: int) -> Batch:
    """The batch with more bits of its attributes set."""
    content, header = one
    struct.pack_into(">h", content, 21, header.attributes | flags)
    return _sealed(content)


def _sealed(content: memoryview) -> Batch:
    """The batch with the checksum that goes with its contents."""
    struct.pack_into(">I", content, 17, crc32c(content[21:]))
    return content, Header._make(HEADER.unpack_from(content))
