"""MirrorMaker 2's own positions: Connect's source offsets, byte for byte (spec 3.3).

The value is the offset of the last replicated record, one less than the position. Java finds an entry by its raw key
bytes, so the order of members matters: it is that of a Java HashMap, constant for these names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from mirror.model.partition import TopicPartition

SOURCE_CONNECTOR = "MirrorSourceConnector"

_ESCAPED_BY_JACKSON = re.compile(r"\\(?:u[0-9a-f]{4}|.)|[\U00010000-\U0010ffff]")


def source_key(source_alias: str, partition: TopicPartition) -> bytes:
    """Return the key under which the position of a source partition is kept."""
    where = {"cluster": source_alias, "partition": partition.partition, "topic": partition.topic}
    return _compact([SOURCE_CONNECTOR, where])


def source_value(last_replicated: int) -> bytes:
    """Return the value for the offset of the last replicated record."""
    return _compact({"offset": last_replicated})


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of the offsets topic a key belongs to: Kafka's default partitioner, murmur2."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def read_source_positions(
    records: Iterable[tuple[bytes | None, bytes | None]], source_alias: str
) -> dict[TopicPartition, int]:
    """Return the position (not the last offset) of each source partition; the newest record of a key counts.

    A tombstone is a reset: the partition has no position. Entries of other connectors, other clusters, and what does
    not parse are passed over.
    """
    positions: dict[TopicPartition, int] = {}
    for key, value in records:
        partition = _partition_in(key, source_alias)
        if partition is None:
            continue
        offset = _offset_in(value)
        if offset is None:
            positions.pop(partition, None)
        else:
            positions[partition] = offset + 1
    return positions


def _partition_in(key: bytes | None, source_alias: str) -> TopicPartition | None:
    match _parsed(key):
        case ["MirrorSourceConnector", {"cluster": cluster, "partition": int(number), "topic": str(topic)}] if (
            cluster == source_alias
        ):
            return TopicPartition(topic, number)
    return None


def _offset_in(value: bytes | None) -> int | None:
    match _parsed(value):
        case {"offset": int(offset)}:
            return offset
    return None


def _parsed(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return None


def _compact(content: Any) -> bytes:
    """Return compact JSON with Jackson's escapes: hexadecimal in capitals, and characters beyond 16 bits as pairs."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPED_BY_JACKSON.sub(_escaped_by_jackson, text).encode()


def _escaped_by_jackson(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith("\\"):
        return f"\\u{found[2:].upper()}" if found.startswith("\\u") else found
    pair = found.encode("utf-16-be").hex().upper()
    return f"\\u{pair[:4]}\\u{pair[4:]}"


def _murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash with the seed of Kafka's default partitioner, unsigned."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    result = (0x9747B28C ^ len(data)) & mask
    whole = len(data) - len(data) % 4
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little")
        word = word * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        result = result * multiplier & mask ^ word
    rest = data[whole:]
    if rest:
        result = (result ^ int.from_bytes(rest, "little")) * multiplier & mask
    result = (result ^ result >> 13) * multiplier & mask
    return result ^ result >> 15
