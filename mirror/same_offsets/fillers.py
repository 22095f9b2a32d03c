"""The batches that fill offsets: empty records, and tombstones of one reserved key."""

from __future__ import annotations

from functools import lru_cache

from mirror.kafka import batch, compression
from mirror.kafka.batch import Header, Producer, Record

RESERVED_KEY = b"\0mirror.offsets"
"""The key of all tombstones: the cleaner keeps one of them at most."""

_KEYS = (None, RESERVED_KEY)

PADDING_BYTES, TOMBSTONE_BYTES = 0.66, 0.4
"""What one filler takes in a full batch, compressed."""


def padding(count: int, producer: Producer, sequence: int, timestamp: int) -> memoryview:
    """Return a batch of ``count`` records without key and value."""
    return _batch(count, None, producer, sequence, timestamp)


def tombstones(count: int, producer: Producer, sequence: int, timestamp: int) -> memoryview:
    """Return a batch of ``count`` records of the reserved key, without value."""
    return _batch(count, RESERVED_KEY, producer, sequence, timestamp)


def are_fillers(content: memoryview, header: Header) -> bool:
    """Tell whether all records of a batch are such, or what the cleaner has left of them.

    Raises
    ------
    CorruptBatch
        if it cannot be decoded.
    """
    data = batch.decompressed(content)
    return any(data == _empty(header.record_count, key) for key in _KEYS) or all(map(is_filler, batch.records(content)))


def is_filler(record: Record) -> bool:
    """Tell whether a record is such, padding or tombstone, by what it holds."""
    return record.value is None and record.key in _KEYS and not record.headers


def is_tombstone(record: Record) -> bool:
    """Tell whether a record is of the reserved key, without value."""
    return record.value is None and record.key == RESERVED_KEY


def _batch(count: int, key: bytes | None, producer: Producer, sequence: int, timestamp: int) -> memoryview:
    return batch.assembled(_empty(count, key), compression.ZSTD, count, (timestamp, timestamp), producer, sequence)


@lru_cache(maxsize=2)
def _empty(count: int, key: bytes | None) -> bytes:
    """Return encoded records of a key, without value, header and a time of their own."""
    content = b"\1" if key is None else batch.varint(len(key)) + key
    out = bytearray()
    for number in range(count):
        body = b"\0\0" + batch.varint(number) + content + b"\1\0"
        out += batch.varint(len(body)) + body
    return bytes(out)
