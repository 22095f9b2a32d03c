"""One record batch made of several that follow one another: records are moved, not decoded.

Inside a batch a record says its timestamp and offset as differences from the batch's first. In all batches but the
first these change, and with them the record's length; keys, values and headers are copied as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mirror.kafka import batch
from mirror.kafka.batch import HEADER, CorruptBatch, Header, Producer


def joined(contents: Sequence[memoryview], producer: Producer, sequence: int) -> memoryview:
    """Return one batch with the records of all, compressed as the first is.

    The batches must be dense and have CreateTime stamps, as those have that were made to be written.

    Raises
    ------
    CorruptBatch
        if the compressed data or the records in it do not hold together.
    """
    headers = [Header._make(HEADER.unpack_from(content)) for content in contents]
    first = headers[0]
    data, count = bytearray(), 0
    for content, header in zip(contents, headers, strict=True):
        part = batch.decompressed(content)
        if count:
            _move(part, header, data, header.base_timestamp - first.base_timestamp, count)
        else:
            data += part
        count += header.record_count
    return batch.assembled(
        bytes(data),
        first.codec,
        count,
        (first.base_timestamp, max(header.max_timestamp for header in headers)),
        producer,
        sequence,
    )


def _move(data: bytes, header: Header, out: bytearray, timestamp_shift: int, offset_shift: int) -> None:
    """Append the records in ``data`` to ``out`` with other differences of timestamp and offset.

    Numbers are read and written on the spot: a function call each would take most of the time.
    """
    position = 0
    try:
        for _ in range(header.record_count):
            # A record: its length, a byte of attributes, the differences of timestamp and offset, the rest.
            byte = data[position]
            position += 1
            value, shift = byte & 0x7F, 7
            while byte & 0x80:
                byte = data[position]
                position += 1
                value |= (byte & 0x7F) << shift
                shift += 7
            end = position + ((value >> 1) ^ -(value & 1))
            attributes = data[position]
            position += 1
            byte = data[position]
            position += 1
            value, shift = byte & 0x7F, 7
            while byte & 0x80:
                byte = data[position]
                position += 1
                value |= (byte & 0x7F) << shift
                shift += 7
            delta = ((value >> 1) ^ -(value & 1)) + timestamp_shift
            moved = bytearray((attributes,))
            value = (delta << 1) ^ (delta >> 63)
            while value > 0x7F:
                moved.append(value & 0x7F | 0x80)
                value >>= 7
            moved.append(value)
            byte = data[position]
            position += 1
            value, shift = byte & 0x7F, 7
            while byte & 0x80:
                byte = data[position]
                position += 1
                value |= (byte & 0x7F) << shift
                shift += 7
            value = ((value >> 1) + offset_shift) << 1
            while value > 0x7F:
                moved.append(value & 0x7F | 0x80)
                value >>= 7
            moved.append(value)
            length = (len(moved) + end - position) << 1
            if not position <= end <= len(data):
                raise CorruptBatch(f"a record of the batch at offset {header.base_offset} does not end where it says")
            while length > 0x7F:
                out.append(length & 0x7F | 0x80)
                length >>= 7
            out.append(length)
            out += moved
            out += data[position:end]
            position = end
    except (IndexError, struct.error) as error:
        raise CorruptBatch(f"the batch at offset {header.base_offset} cannot be moved: {error}") from error
