"""Message formats 0 and 1, as brokers older than 0.11 stored them and newer ones still serve them: read, never written.

A log of these formats is a row of messages, each with its own offset and CRC-32. A compressed message is a wrapper: its
value is a row of messages. In format 0 those carry their offsets; in format 1 offsets relative to one another, and the
wrapper has the offset of the last. A timestamp came with format 1. Layouts are those of Kafka's protocol documentation,
"Message Set"; oddities are those that Java's consumer knows too.

Invariants:

(a) Old message formats end at the reader: ``batch.batches()`` turns them into dense batches of format 2, so nothing
    behind it knows them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from mirror.kafka import compression

# Plain messages in a row are read together up to so many bytes, as one batch would hold them.
MOST_BYTES_TOGETHER = 128 << 10

NO_TIMESTAMP = -1

_HEAD = struct.Struct(">qiIBB")
_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_SIZE_COVERS_FROM = 12
_CRC_COVERS_FROM = 16
_LEAST_SIZE = 14
_LARGEST_MAGIC = 1

_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08


class Malformed(ValueError):
    """A message that does not hold together; the text says what, and at which offset."""


class OldRecord(NamedTuple):
    """One record: ``timestamp`` in ms, -1 in format 0, which knows none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class OldMessages(NamedTuple):
    """The records of one wrapper, or of plain messages in a row; the buffer goes on at ``stop``."""

    records: list[OldRecord]
    codec: int
    stop: int


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    stop: int

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_MASK

    def record(self) -> OldRecord:
        key, value = (None if field is None else bytes(field) for field in (self.key, self.value))
        return OldRecord(self.offset, self.timestamp, key, value)


def read(buffer: memoryview, start: int, end: int) -> OldMessages | None:
    """Return the first records between two positions of a buffer; None if not even one message is there whole.

    Raises
    ------
    Malformed
        if the first message does not hold together; what comes before such a one is returned first.
    """
    first = _message(buffer, start, end)
    if first is None:
        return None
    if first.codec:
        return OldMessages(list(_unwrapped(first)), first.codec, first.stop)
    records, stop = [first.record()], first.stop
    for message in _plain_messages(buffer, stop, min(end, start + MOST_BYTES_TOGETHER)):
        records.append(message.record())
        stop = message.stop
    return OldMessages(records, compression.NONE, stop)


def _plain_messages(buffer: memoryview, position: int, end: int) -> Iterator[_Message]:
    """Yield messages up to the first that is a wrapper, damaged, of another format, or not there whole."""
    while end - position > _CRC_COVERS_FROM and buffer[position + _CRC_COVERS_FROM] <= _LARGEST_MAGIC:
        try:
            message = _message(buffer, position, end)
        except Malformed:
            return
        if message is None or message.codec:
            return
        yield message
        position = message.stop


def _unwrapped(wrapper: _Message) -> Iterator[OldRecord]:
    """Yield the records in a wrapper."""
    messages = list(_inner_messages(wrapper))
    if not messages:
        raise Malformed(f"the compressed message at offset {wrapper.offset} has no messages in it")
    base = 0
    # Some versions of librdkafka left the wrapper's offset at 0; the messages' are then right as they are.
    if wrapper.magic > 0 and wrapper.offset > 0:
        base = wrapper.offset - messages[-1].offset
        if base < 0:
            raise Malformed(
                f"the last message in the compressed one at offset {wrapper.offset} has the offset "
                f"{messages[-1].offset} in it"
            )
    for message in messages:
        record = message.record()._replace(offset=base + message.offset)
        yield record._replace(timestamp=wrapper.timestamp) if wrapper.attributes & _LOG_APPEND_TIME else record


def _inner_messages(wrapper: _Message) -> Iterator[_Message]:
    if wrapper.value is None or wrapper.codec > compression.LZ4:
        raise Malformed(f"the message at offset {wrapper.offset} (codec {wrapper.codec}) cannot be decompressed")
    content = wrapper.value
    try:
        if wrapper.codec == compression.LZ4 and wrapper.magic == 0:
            content = compression.with_lz4_header_checksum(content)
        data = memoryview(compression.decompress(wrapper.codec, content))
    except (compression.DecompressionError, struct.error, IndexError) as error:
        raise Malformed(f"the message at offset {wrapper.offset} cannot be decompressed: {error}") from error
    position = 0
    while position < len(data):
        message = _message(data, position, len(data))
        if message is None or message.codec or message.magic != wrapper.magic:
            raise Malformed(f"the compressed message at offset {wrapper.offset} holds what is no plain message")
        yield message
        position = message.stop


def _message(buffer: memoryview, position: int, end: int) -> _Message | None:
    """Read one message; None if it is not there whole."""
    if end - position < _SIZE_COVERS_FROM + _LEAST_SIZE:
        return None
    offset, size, crc, magic, attributes = _HEAD.unpack_from(buffer, position)
    if size < _LEAST_SIZE or magic > _LARGEST_MAGIC:
        raise Malformed(f"the message at offset {offset} says that it has {size} bytes in message format {magic}")
    stop = position + _SIZE_COVERS_FROM + size
    if stop > end:
        return None
    if zlib.crc32(buffer[position + _CRC_COVERS_FROM : stop]) != crc:
        raise Malformed(f"the message at offset {offset} does not match its checksum")
    at, timestamp = position + _HEAD.size, NO_TIMESTAMP
    if magic > 0:
        (timestamp,) = _TIMESTAMP.unpack_from(buffer, at)
        at += _TIMESTAMP.size
    key, at = _field(buffer, at, stop)
    value, at = _field(buffer, at, stop)
    if at != stop:
        raise Malformed(f"the message at offset {offset} has {stop - at} bytes too many or too few")
    return _Message(offset, magic, attributes if magic > 0 else attributes & _CODEC_MASK, timestamp, key, value, stop)


def _field(buffer: memoryview, position: int, stop: int) -> tuple[memoryview | None, int]:
    """Read a nullable byte string; the position behind it may lie beyond ``stop`` if it is damaged."""
    if position + _LENGTH.size > stop:
        return None, stop + 1
    (length,) = _LENGTH.unpack_from(buffer, position)
    position += _LENGTH.size
    return (None, position) if length < 0 else (buffer[position : position + length], position + length)
