"""Offset syncs as MirrorMaker 2 writes and reads them; when one is owed, `mirror.copier.syncs` decides.

Invariants:

(a) An offset sync names the source partition, not the copy. Flows that differ in their aliases only share the topic
    and its keys. An empty copy that only syncs speak of begins like a new one if it has never had a record; if it
    begins and ends at a later offset it was emptied, and stops. A recorded position has the alias in its key.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mirror.model.partition import TopicPartition
from mirror.model.side_records import Malformed, read_numbers, read_string, string

_PARTITION = struct.Struct(">i")
_VALUE = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Proof that the record at offset ``upstream`` of a source partition landed at offset ``downstream``."""

    topic_partition: TopicPartition
    upstream: int
    downstream: int

    def key_bytes(self) -> bytes:
        """Return the key as MM2 writes it: the source topic and partition (spec 3.2)."""
        topic, partition = self.topic_partition
        return string(topic) + _PARTITION.pack(partition)

    def value_bytes(self) -> bytes:
        """Return the value as MM2 writes it; it has no version (spec 3.2)."""
        return _VALUE.pack(self.upstream, self.downstream)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> OffsetSync | None:
        """Read a record of an offset-syncs topic; None for one that is none."""
        try:
            topic, position = read_string(key or b"", 0)
            (partition,) = read_numbers(_PARTITION, key or b"", position)
            upstream, downstream = read_numbers(_VALUE, value or b"", 0)
        except Malformed:
            return None
        return cls(TopicPartition(topic, partition), upstream, downstream)
