"""What a load generator sends: keys, values, headers and places, all from one seed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple

from mirror.model.ledger import Headers, RecordId


class HeaderKind(StrEnum):
    """Which headers records carry beside the one of the ledger."""

    NONE = "none"
    PLAIN = "plain"
    MIXED = "mixed"


_HEADER_SETS: dict[HeaderKind, tuple[tuple[tuple[str, bytes | None], ...], ...]] = {
    HeaderKind.NONE: ((),),
    HeaderKind.PLAIN: ((("trace", b"00-4bf92f3577b34da6"),),),
    # What clients really send, and what a copy by way of a dictionary, or of a text, would break.
    HeaderKind.MIXED: (
        (),
        (("trace", b"00-4bf92f3577b34da6"),),
        (("trace", b"first"), ("trace", b"second"), ("trace", b"first")),
        (("absent", None), ("empty", b"")),
        (("größe", b"\x00\xff\x80"), ("absent", None), ("absent", b"not this time")),
    ),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """The shape of a load.

    Parameters
    ----------
    partitions
        Topics to write to, with their number of partitions.
    keys
        How many different keys there are in a topic; a key always goes to the same partition.
    value_bytes
        Size of a value.
    tombstones
        Fraction of records whose value is null, 0 to 1.
    headers
        Which headers records carry beside ``ledger``.
    seed
        The same seed gives the same records.
    large, large_bytes
        Fraction of records with a value of another size, and that size.
    """

    partitions: tuple[tuple[str, int], ...]
    keys: int = 1000
    value_bytes: int = 512
    tombstones: float = 0.0
    headers: HeaderKind = HeaderKind.MIXED
    seed: int = 0
    large: float = 0.0
    large_bytes: int = 0


class PlannedRecord(NamedTuple):
    """A record to be sent."""

    id: RecordId
    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: Headers


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition a key belongs to: explicit, so that it does not depend on a client's own partitioner."""
    return zlib.crc32(key) % partitions


def _values(random: Random, size: int) -> list[bytes]:
    """Return values that compress about as well as JSON does (to a half or a third)."""
    words = [random.randbytes(4).hex().encode() for _ in range(64)]
    values = []
    for _ in range(256):
        text = bytearray()
        while len(text) < size:
            text += random.choice(words)
            text += random.randbytes(2)
        values.append(bytes(text[:size]))
    return values


def planned_records(workload: Workload, producer: str) -> Iterator[PlannedRecord]:
    """Yield the records of one producer without end; sequences count from 0 over all its topics."""
    random = Random(f"{workload.seed}/{producer}")
    values = _values(random, workload.value_bytes)
    # Of chance bytes, which no compression makes small; drawn apart, so that all else stays as it is without them.
    large_ones = Random(f"{workload.seed}/{producer}/large")
    large_value = large_ones.randbytes(workload.large_bytes) if workload.large else b""
    places: Sequence[tuple[str, list[tuple[bytes, int]]]] = [
        (topic, [(key, partition_of(key, count)) for key in (b"key-%d" % number for number in range(workload.keys))])
        for topic, count in workload.partitions
    ]
    header_sets = _HEADER_SETS[workload.headers]
    uniform = random.random
    sequence = 0
    while True:
        topic, keys = places[int(uniform() * len(places))]
        key, partition = keys[int(uniform() * len(keys))]
        value = None if uniform() < workload.tombstones else values[int(uniform() * 256)]
        if workload.large and large_ones.random() < workload.large:
            value = large_value
        identity = RecordId(producer, sequence)
        extra = header_sets[int(uniform() * len(header_sets))]
        yield PlannedRecord(identity, topic, partition, key, value, [identity.header(), *extra])
        sequence += 1
