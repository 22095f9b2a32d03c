"""Record batches of message format 2: read the header, pass a batch on under another producer, decode, encode.

A batch passes from cluster to cluster without being decompressed: only its 61-byte header is rewritten. What the
header cannot express is decoded and encoded again (:func:`records` and :func:`encode`). The format is the one of
Kafka's protocol documentation, "Record Batch".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cramjam
from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
MAGIC = 2
NO_PRODUCER = -1
LARGEST_SEQUENCE = 2**31 - 1

_LENGTH_COVERS_FROM = 12
_CRC_AT = 17
_CRC_COVERS_FROM = 21
_CODEC_AT = 22
_PRODUCER_AT = 43
_COUNT_AT = 57

_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

_SNAPPY_STREAM = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK_BYTES = 32 * 1024


class CorruptBatch(Exception):
    """A batch that does not hold together; the message says what and at which offset."""


class UnsupportedMagic(Exception):
    """A batch in a message format older than 2."""


class Record(NamedTuple):
    """One record as the log holds it. ``timestamp`` in ms; ``producer_id`` is -1 for a plain producer."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int


class Header(NamedTuple):
    """The 61 bytes before the records, as numbers."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def next_offset(self) -> int:
        """One past the last offset the batch spans."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether the batch is a transaction marker and no data."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch was written inside a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def has_append_time(self) -> bool:
        """Whether the timestamp of every record is the batch's ``max_timestamp`` (LogAppendTime)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_dense(self) -> bool:
        """Whether every offset the batch spans still has its record; compaction makes batches that are not."""
        return self.record_count == self.last_offset_delta + 1


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes: a producer id with its epoch, as InitProducerId gave them; and whether inside transactions."""

    producer_id: int
    epoch: int
    is_transactional: bool = False

    @property
    def flags(self) -> int:
        """Return the bits that every batch of this producer has among its attributes."""
        return _TRANSACTIONAL if self.is_transactional else 0


PLAIN = Producer(NO_PRODUCER, -1)


def batches(buffer: memoryview, start: int, end: int) -> Iterator[tuple[int, int, Header]]:
    """Yield (start, stop, header) of every complete batch between two positions of a fetched buffer.

    A fetch may end in the middle of a batch; the incomplete rest is not yielded.

    Raises
    ------
    UnsupportedMagic
        at the first batch in message format 0 or 1.
    CorruptBatch
        at the first batch that does not match its checksum: passed on, it would get a new one and the damage be hidden.
    """
    position = start
    while end - position >= HEADER_BYTES:
        magic = buffer[position + 16]
        if magic != MAGIC:
            (offset,) = struct.unpack_from(">q", buffer, position)
            raise UnsupportedMagic(
                f"the batch at offset {offset} has message format {magic}; only format 2 can be copied"
            )
        header = Header._make(HEADER.unpack_from(buffer, position))
        if header.length < HEADER_BYTES - _LENGTH_COVERS_FROM:
            raise CorruptBatch(f"the batch at offset {header.base_offset} says that it is {header.length} bytes long")
        stop = position + _LENGTH_COVERS_FROM + header.length
        if stop > end:
            return
        if crc32c(buffer[position + _CRC_COVERS_FROM : stop]) != header.crc:
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its checksum")
        yield position, stop, header
        position = stop


def pass_on(buffer: memoryview, start: int, stop: int, header: Header, producer: Producer, sequence: int) -> memoryview:
    """Rewrite the header of a dense data batch in place so that ``producer`` may append it elsewhere; return its bytes.

    Base offset 0, no leader epoch, the given producer and sequence, transactional if the producer is; the CRC follows.
    The records are not touched.
    """
    attributes = header.attributes & ~(_TRANSACTIONAL | _DELETE_HORIZON) | producer.flags
    struct.pack_into(">qiib", buffer, start, 0, header.length, -1, MAGIC)
    struct.pack_into(">h", buffer, start + _CRC_COVERS_FROM, attributes)
    struct.pack_into(">qhi", buffer, start + _PRODUCER_AT, producer.producer_id, producer.epoch, sequence)
    batch = buffer[start:stop]
    struct.pack_into(">I", buffer, start + _CRC_AT, crc32c(batch[_CRC_COVERS_FROM:]))
    return batch


def codec_of(batch: memoryview) -> int:
    """Return how a batch is compressed, as :attr:`Header.codec`."""
    return batch[_CODEC_AT] & _CODEC_MASK


def same_records(left: memoryview, right: memoryview) -> bool:
    """Whether two batches carry the same records byte for byte, whoever wrote them at whatever offset."""
    left_header, right_header = Header._make(HEADER.unpack_from(left)), Header._make(HEADER.unpack_from(right))
    return (
        left_header.codec == right_header.codec
        and left_header.has_append_time == right_header.has_append_time
        and left_header.base_timestamp == right_header.base_timestamp
        and left[_COUNT_AT:] == right[_COUNT_AT:]
    )


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence after ``count`` more records; the protocol's sequences wrap to 0 after 2**31 - 1."""
    return (sequence + count) % (LARGEST_SEQUENCE + 1)


def records(batch: memoryview) -> list[Record]:
    """Decode every record of one batch.

    Raises
    ------
    CorruptBatch
        if the compressed data or the records in it do not hold together.
    """
    header = Header._make(HEADER.unpack_from(batch))
    try:
        data = _decompress(header.codec, batch[HEADER_BYTES:])
        return list(_parse(header, data))
    except (cramjam.DecompressionError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise CorruptBatch(f"the batch at offset {header.base_offset} cannot be decoded: {error}") from error


def _parse(header: Header, data: bytes) -> Iterator[Record]:
    position = 0
    for _ in range(header.record_count):
        length, position = _varint(data, position)
        end = position + length
        delta, position = _varint(data, position + 1)
        offset_delta, position = _varint(data, position)
        key, position = _nullable(data, position)
        value, position = _nullable(data, position)
        header_count, position = _varint(data, position)
        headers = []
        for _ in range(header_count):
            name, position = _nullable(data, position)
            content, position = _nullable(data, position)
            headers.append((str(name or b"", "utf-8"), content))
        if position != end:
            raise CorruptBatch(f"a record of the batch at offset {header.base_offset} ends at {position}, not at {end}")
        timestamp = header.max_timestamp if header.has_append_time else header.base_timestamp + delta
        yield Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers), header.producer_id)


def encode(contents: Sequence[Record], codec: int, producer: Producer = PLAIN, sequence: int = -1) -> memoryview:
    """Encode records into one dense batch with CreateTime stamps; their own offsets and producer ids are not kept."""
    base_timestamp = contents[0].timestamp
    data = bytearray()
    for position, record in enumerate(contents):
        body = bytearray(1)
        _write_varint(body, record.timestamp - base_timestamp)
        _write_varint(body, position)
        _write_nullable(body, record.key)
        _write_nullable(body, record.value)
        _write_varint(body, len(record.headers))
        for name, content in record.headers:
            _write_nullable(body, name.encode())
            _write_nullable(body, content)
        _write_varint(data, len(body))
        data += body
    compressed = _compress(codec, bytes(data))
    batch = bytearray(HEADER_BYTES + len(compressed))
    batch[HEADER_BYTES:] = compressed
    header = Header(
        base_offset=0,
        length=len(batch) - _LENGTH_COVERS_FROM,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | producer.flags,
        last_offset_delta=len(contents) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in contents),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        record_count=len(contents),
    )
    HEADER.pack_into(batch, 0, *header)
    view = memoryview(batch)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(view[_CRC_COVERS_FROM:]))
    return view


def marker_is_abort(batch: memoryview) -> bool:
    """Whether a control batch is an ABORT marker: its record's key is a version and a type (0 abort, 1 commit)."""
    (marker,) = records(batch)
    return marker.key is not None and struct.unpack_from(">hh", marker.key)[1] == 0


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    if length < 0:
        return None, position
    if position + length > len(data):
        raise IndexError("a field reaches past the end of the batch")
    return data[position : position + length], position + length


def _write_varint(out: bytearray, number: int) -> None:
    value = (number << 1) ^ (number >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_nullable(out: bytearray, content: bytes | None) -> None:
    if content is None:
        _write_varint(out, -1)
    else:
        _write_varint(out, len(content))
        out += content


def _decompress(codec: int, data: memoryview) -> bytes:
    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(cramjam.gzip.decompress(data))
        case 2:
            return _snappy_decompress(bytes(data))
        case 3:
            return bytes(cramjam.lz4.decompress(data))
        case 4:
            return bytes(cramjam.zstd.decompress(data))
    raise CorruptBatch(f"unknown compression codec {codec}")


def _compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            return _snappy_compress(data)
        case 3:
            # Kafka's Java reader refuses linked blocks.
            stream = cramjam.lz4.Compressor(block_linked=False)
            stream.compress(data)
            return bytes(stream.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"unknown compression codec {codec}")


def _snappy_decompress(data: bytes) -> bytes:
    """Java's producers frame snappy blocks as the xerial stream; others write one raw block."""
    if not data.startswith(_SNAPPY_STREAM[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, position = bytearray(), len(_SNAPPY_STREAM)
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        out += bytes(cramjam.snappy.decompress_raw(data[position : position + length]))
        position += length
    return bytes(out)


def _snappy_compress(data: bytes) -> bytes:
    out = bytearray(_SNAPPY_STREAM)
    for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)
