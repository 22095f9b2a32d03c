"""Record batches of message format 2: read the header, pass a batch on under another producer, decode, encode.

A batch passes from cluster to cluster without being decompressed: only its 61-byte header is rewritten. What the
header cannot express is decoded and encoded again (:func:`records` and :func:`encode`). Older formats are turned into
this one as they are read. The format is the one of Kafka's protocol documentation, "Record Batch".

Invariants:

(a) With a delete horizon the base timestamp is that horizon, and the records' deltas count from it: clearing the flag
    is enough.
(b) Dense is not the same as whole. A batch whose last offset delta + 1 is not its record count (compaction) is
    refused by brokers with INVALID_RECORD; it is encoded anew.
(c) LogAppendTime batches must be encoded anew: passed on raw they would show the producer's time, not the append
    time.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from mirror.kafka import compression, old_format
from mirror.kafka.old_format import OldRecord

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
MAGIC = 2
NO_PRODUCER = -1
LARGEST_SEQUENCE = 2**31 - 1

_LENGTH_COVERS_FROM = 12
_MAGIC_AT = 16
_CRC_AT = 17
_CRC_COVERS_FROM = 21
_CODEC_AT = 22
_PRODUCER_AT = 43
_SEQUENCE_AT = 53
_COUNT_AT = 57

_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40


class CorruptBatch(Exception):
    """A batch that does not hold together; the message says what and at which offset."""


class UnsupportedMagic(Exception):
    """A batch in a message format that is not known yet."""


class Record(NamedTuple):
    """One record as the log holds it. ``timestamp`` in ms; ``producer_id`` is -1 for a plain producer.

    Bytes of a header's name that are not UTF-8 are kept as lone surrogates (``surrogateescape``).
    """

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
    def times(self) -> tuple[int, int]:
        """The oldest and the newest time of its records, in ms: those of the first and of the newest; -1: without."""
        # With a delete horizon the base timestamp is that.
        is_of_first = not self.attributes & (_LOG_APPEND_TIME | _DELETE_HORIZON)
        if not is_of_first or self.base_timestamp > self.max_timestamp:
            return self.max_timestamp, self.max_timestamp
        return self.base_timestamp, self.max_timestamp

    @property
    def is_dense(self) -> bool:
        """Whether every offset the batch spans still has its record; compaction makes batches that are not."""
        return self.record_count == self.last_offset_delta + 1

    def without_transaction(self) -> Header:
        """Return it as it would be had the batch been written outside of transactions."""
        return self._replace(attributes=self.attributes & ~_TRANSACTIONAL)

    def differs_by_writer_only(self, other: Header) -> bool:
        """Whether the batches, with the same bytes behind the header, hold the same records.

        They may differ in offset, leader epoch and who wrote them, inside a transaction or not.
        """
        return (
            self.length == other.length
            and self.record_count == other.record_count
            and self.last_offset_delta == other.last_offset_delta
            and self.base_timestamp == other.base_timestamp
            and self.max_timestamp == other.max_timestamp
            and not (self.attributes ^ other.attributes) & ~(_TRANSACTIONAL | _DELETE_HORIZON)
        )


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


def batches(buffer: memoryview, start: int, end: int) -> Iterator[tuple[memoryview, Header]]:
    """Yield every complete batch between two positions of a fetched buffer, with its header.

    A fetch may end in the middle of a batch; the incomplete rest is not yielded. Messages of formats 0 and 1 come as
    dense batches of format 2 with the same offsets and compression; all others are parts of the buffer.

    Raises
    ------
    UnsupportedMagic
        at the first batch in a message format above 2.
    CorruptBatch
        at the first batch that does not match its checksum: passed on, it would get a new one and the damage be hidden.
    """
    position = start
    while end - position > _MAGIC_AT:
        magic = buffer[position + _MAGIC_AT]
        if magic < MAGIC:
            stop = yield from _of_old_format(buffer, position, end)
            if stop == position:
                return
            position = stop
            continue
        if magic > MAGIC:
            (offset,) = struct.unpack_from(">q", buffer, position)
            raise UnsupportedMagic(f"the batch at offset {offset} has message format {magic}; up to 2 are known")
        if end - position < HEADER_BYTES:
            return
        header = Header._make(HEADER.unpack_from(buffer, position))
        if header.length < HEADER_BYTES - _LENGTH_COVERS_FROM:
            raise CorruptBatch(f"the batch at offset {header.base_offset} says that it is {header.length} bytes long")
        stop = position + _LENGTH_COVERS_FROM + header.length
        if stop > end:
            return
        if crc32c(buffer[position + _CRC_COVERS_FROM : stop]) != header.crc:
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its checksum")
        yield buffer[position:stop], header
        position = stop


def _of_old_format(buffer: memoryview, position: int, end: int) -> Generator[tuple[memoryview, Header], None, int]:
    """Yield the next messages of formats 0 and 1 as batches of format 2; return where the buffer goes on."""
    try:
        found = old_format.read(buffer, position, end)
    except old_format.Malformed as problem:
        raise CorruptBatch(str(problem)) from problem
    if found is None:
        return position
    for row in _rows(found.records):
        content = encode([Record(*record, headers=(), producer_id=NO_PRODUCER) for record in row], found.codec)
        struct.pack_into(">q", content, 0, row[0].offset)
        yield content, Header._make(HEADER.unpack_from(content))
    return found.stop


def _rows(found: Sequence[OldRecord]) -> Iterator[list[OldRecord]]:
    """Yield the records in rows without holes: compaction may have made some."""
    row: list[OldRecord] = []
    for record in found:
        if row and record.offset != row[-1].offset + 1:
            yield row
            row = []
        row.append(record)
    yield row


def pass_on(batch: memoryview, header: Header, producer: Producer, sequence: int) -> memoryview:
    """Rewrite the header of a dense data batch in place so that ``producer`` may append it elsewhere; return it.

    Base offset 0, no leader epoch, the given producer and sequence, transactional if the producer is; the CRC follows.
    The records are not touched.
    """
    attributes = header.attributes & ~(_TRANSACTIONAL | _DELETE_HORIZON) | producer.flags
    struct.pack_into(">qiib", batch, 0, 0, header.length, -1, MAGIC)
    struct.pack_into(">h", batch, _CRC_COVERS_FROM, attributes)
    struct.pack_into(">qhi", batch, _PRODUCER_AT, producer.producer_id, producer.epoch, sequence)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(batch[_CRC_COVERS_FROM:]))
    return batch


def renumber(batch: memoryview, sequence: int) -> None:
    """Give a batch that was never appended another sequence, in place."""
    struct.pack_into(">i", batch, _SEQUENCE_AT, sequence)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(batch[_CRC_COVERS_FROM:]))


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
    if not header.record_count:
        # Compaction keeps a producer's last batch although nothing is left in it.
        return []
    data = decompressed(batch)
    try:
        return list(_parse(header, data))
    except (IndexError, struct.error) as error:
        raise CorruptBatch(f"the batch at offset {header.base_offset} cannot be decoded: {error}") from error


def decompressed(batch: memoryview) -> bytes:
    """Return the records of one batch as they are encoded, one after the other.

    Raises
    ------
    CorruptBatch
        if the compressed data do not hold together.
    """
    header = Header._make(HEADER.unpack_from(batch))
    try:
        return compression.decompress(header.codec, batch[HEADER_BYTES:])
    except (compression.DecompressionError, compression.UnknownCodec, IndexError, struct.error) as error:
        raise CorruptBatch(f"the batch at offset {header.base_offset} cannot be decompressed: {error}") from error


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
            headers.append((str(name or b"", "utf-8", "surrogateescape"), content))
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
            _write_nullable(body, name.encode("utf-8", "surrogateescape"))
            _write_nullable(body, content)
        _write_varint(data, len(body))
        data += body
    stamps = (base_timestamp, max(record.timestamp for record in contents))
    return assembled(bytes(data), codec, len(contents), stamps, producer, sequence)


def assembled(
    data: bytes, codec: int, count: int, timestamps: tuple[int, int], producer: Producer, sequence: int
) -> memoryview:
    """Return a dense batch of ``count`` encoded records; ``timestamps`` are the base and the largest."""
    compressed = compression.compress(codec, data)
    batch = bytearray(HEADER_BYTES + len(compressed))
    batch[HEADER_BYTES:] = compressed
    header = Header(
        base_offset=0,
        length=len(batch) - _LENGTH_COVERS_FROM,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | producer.flags,
        last_offset_delta=count - 1,
        base_timestamp=timestamps[0],
        max_timestamp=timestamps[1],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        record_count=count,
    )
    HEADER.pack_into(batch, 0, *header)
    view = memoryview(batch)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(view[_CRC_COVERS_FROM:]))
    return view


def marker_is_abort(batch: memoryview) -> bool:
    """Whether a control batch is an ABORT marker: its record's key is a version and a type (0 abort, 1 commit).

    One that compaction has emptied is none, as for Java's consumer: what it aborted is gone already.
    """
    return any(marker.key is not None and struct.unpack_from(">hh", marker.key)[1] == 0 for marker in records(batch))


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


def varint(number: int) -> bytes:
    """Return a number as records hold it: zigzag, seven bits a byte."""
    out = bytearray()
    _write_varint(out, number)
    return bytes(out)


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
