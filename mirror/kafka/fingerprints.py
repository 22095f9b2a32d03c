"""Fingerprints of records: what tells whether two logs hold the same record, several times cheaper than decoding it.

A record is stored as length, attributes, timestamp delta, offset delta, and then key, value and headers. Only the
deltas depend on the batch it lies in, so the bytes behind them are hashed as they are. The hash is Python's own,
64 bits under a key of this process: prints of two processes cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mirror.kafka import batch
from mirror.kafka.batch import Header

Numbers: TypeAlias = NDArray[np.int64]


class Fingerprints(NamedTuple):
    """The records of one batch: of each its offset, its timestamp in ms, and the hash of key, value and headers.

    Attributes
    ----------
    has_append_time
        whether the log stamped the records itself, so that their timestamps say nothing of where they come from.
    """

    producer_id: int
    has_append_time: bool
    offsets: Numbers
    times: Numbers
    hashes: Numbers

    def from_offset(self, offset: int) -> Fingerprints:
        """Return the prints of the records from an offset on."""
        first = int(np.searchsorted(self.offsets, offset))
        if first == 0:
            return self
        return self._replace(offsets=self.offsets[first:], times=self.times[first:], hashes=self.hashes[first:])


def prints(content: memoryview, header: Header) -> Fingerprints:
    """Return the prints of a data batch.

    Raises
    ------
    CorruptBatch
        if it does not hold together.
    """
    data = batch.decompressed(content)
    try:
        times, deltas, hashes = _scan(data, header.record_count)
    except IndexError as error:
        raise batch.CorruptBatch(f"the batch at offset {header.base_offset} cannot be decoded: {error}") from error
    count = len(hashes)
    if header.has_append_time:
        stamps = np.full(count, header.max_timestamp, np.int64)
    else:
        stamps = np.array(times, np.int64) + header.base_timestamp
    offsets = np.array(deltas, np.int64) + header.base_offset
    return Fingerprints(header.producer_id, header.has_append_time, offsets, stamps, np.array(hashes, np.int64))


def all_fingerprints(batches: Iterable[tuple[memoryview, Header]]) -> Iterator[Fingerprints]:
    """Yield the prints of each batch that holds a record."""
    for content, header in batches:
        if header.record_count > 0:
            yield prints(content, header)


def _scan(data: bytes, count: int) -> tuple[list[int], list[int], list[int]]:
    """Return timestamp deltas, offset deltas and hashes; one loop without calls, since it sees every record."""
    times, deltas, hashes = [], [], []
    position = 0
    for _ in range(count):
        byte = data[position]
        position += 1
        number, shift = byte & 0x7F, 7
        while byte > 0x7F:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
        # One byte of attributes lies before the deltas.
        end, position = position + (number >> 1), position + 1
        byte = data[position]
        position += 1
        number, shift = byte & 0x7F, 7
        while byte > 0x7F:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
        times.append((number >> 1) ^ -(number & 1))
        byte = data[position]
        position += 1
        number, shift = byte & 0x7F, 7
        while byte > 0x7F:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
        deltas.append(number >> 1)
        if not position <= end <= len(data):
            raise IndexError(f"a record ends at {end}")
        hashes.append(hash(data[position:end]))
        position = end
    return times, deltas, hashes
