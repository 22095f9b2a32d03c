"""A checkpoint: where a group stands on the source, and where that is on the target."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from mirror.model.partition import TopicPartition
from mirror.model.side_records import Malformed, read_numbers, read_string, string

_PARTITION = struct.Struct(">i")
_VALUE = struct.Struct(">hqq")
_VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The position of ``group`` on a partition.

    Attributes
    ----------
    topic_partition
        on the target.
    upstream, downstream
        the group's position on the source, and on the target.
    metadata
        what the group committed with it (CKP-08).
    offset, at_ms
        where it stands in the checkpoints topic, and since when, in ms since the epoch; None if it does not (yet).
        They are no part of the checkpoint itself.
    """

    group: str
    topic_partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""
    offset: int | None = field(default=None, compare=False)
    at_ms: int | None = field(default=None, compare=False)

    def key_bytes(self) -> bytes:
        """Return the key as MM2 writes it (spec 3.2)."""
        topic, partition = self.topic_partition
        return string(self.group) + string(topic) + _PARTITION.pack(partition)

    def value_bytes(self) -> bytes:
        """Return the value as MM2 writes it (spec 3.2)."""
        return _VALUE.pack(_VERSION, self.upstream, self.downstream) + string(self.metadata)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Checkpoint | None:
        """Read a record of a checkpoints topic; None for one that is none (CKP-03)."""
        try:
            group, position = read_string(key or b"", 0)
            topic, position = read_string(key or b"", position)
            (partition,) = read_numbers(_PARTITION, key or b"", position)
            _, upstream, downstream = read_numbers(_VALUE, value or b"", 0)
            metadata, _ = read_string(value or b"", _VALUE.size)
        except Malformed:
            return None
        return cls(group, TopicPartition(topic, partition), upstream, downstream, metadata)

    def is_news_after(self, previous: Checkpoint | None) -> tuple[bool, str]:
        """Say whether it is to be written after ``previous``, and why (CKP-05, CKP-06).

        It is when there was none, when the group went back on the source, or when the target position moved forward.
        """
        if previous is None:
            return True, "the first checkpoint of this position"
        if self.upstream < previous.upstream:
            return True, f"the group went back on the source, from {previous.upstream} to {self.upstream}"
        if self.downstream > previous.downstream:
            return True, f"the position on the target moved on, from {previous.downstream} to {self.downstream}"
        if self.downstream < previous.downstream:
            return False, f"it would take the group back on the target, from {previous.downstream} to {self.downstream}"
        return False, f"the position on the target is {self.downstream} already"


# How brokers without topic ids spell one, and how one is written down that was never known.
_NO_IDS = frozenset({"", "A" * 22})


@dataclass(frozen=True, slots=True)
class CopyId:
    """Which copy of which log downstream offsets are of.

    Attributes
    ----------
    source_id, target_id
        the ids of the topic and of its copy.
    incarnation
        how many times the copy has gone back, or begun anew.
    """

    source_id: str
    target_id: str
    incarnation: int

    def has_same_source(self, other: CopyId) -> bool:
        """Whether both are of one source topic, as far as is known."""
        return self.source_id == other.source_id or not _NO_IDS.isdisjoint((self.source_id, other.source_id))

    def has_same_target(self, other: CopyId) -> bool:
        """Whether both are in one topic on the target, as far as is known."""
        return self.target_id == other.target_id or not _NO_IDS.isdisjoint((self.target_id, other.target_id))

    def is_same(self, other: CopyId) -> bool:
        """Whether offsets of the one are offsets of the other."""
        return self.incarnation == other.incarnation and self.has_same_source(other) and self.has_same_target(other)


@dataclass(frozen=True, slots=True)
class CheckpointedCopy:
    """Checkpoints of a partition of the target are of ``copy`` from the offset ``since`` of their topic on."""

    partition: TopicPartition
    copy: CopyId
    since: int
