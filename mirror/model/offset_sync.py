"""Offset syncs: when MirrorMaker 2 emits one, and how it translates with them.

Both halves of the law stand here, since they must agree: between two syncs nothing is known but that records follow one
another, so a position behind a sync translates to *one* past it and never further.

Named invariants of the store, for slots i < j that hold different syncs (OST-05):

near enough
    ``upstream[i] - upstream[j] <= 2**j - 2**i``
far enough
    ``upstream[i] - upstream[j] >= 2**max(i - 2, 0)``
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mirror.model.partition import TopicPartition
from mirror.model.side_records import Malformed, read_numbers, read_string, string
from mirror.model.translation import NotMirrored, TooOld

SLOTS = 64

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


class SyncWriter:
    """The emission rule of one partition, record by record (OSW-01, OSW-02)."""

    def __init__(self, offset_lag_max: int) -> None:
        """Start a writer's life; the first record is always a sync (OSW-08)."""
        self._offset_lag_max = offset_lag_max
        self._previous_upstream = -1
        self._previous_downstream = -1
        self._last_sync_downstream = -1

    def update(self, upstream: int, downstream: int) -> bool:
        """Take in one acknowledged record; return whether it owes a sync at once."""
        no_previous_sync = self._last_sync_downstream == -1
        translation_too_stale = downstream - (self._last_sync_downstream + 1) >= self._offset_lag_max
        skipped_upstream = upstream - self._previous_upstream != 1
        truncated_downstream = downstream < self._previous_downstream
        owes = no_previous_sync or translation_too_stale or skipped_upstream or truncated_downstream
        if owes:
            self._last_sync_downstream = downstream
        self._previous_upstream, self._previous_downstream = upstream, downstream
        return owes


@dataclass(frozen=True, slots=True)
class Translated:
    """MM2's answer: a downstream position that misses nothing, and may read records again."""

    downstream: int


@dataclass(frozen=True, slots=True)
class NotReady:
    """The topic has not been read to its end yet (OST-09)."""


SyncTranslation = Translated | TooOld | NotMirrored | NotReady


class OffsetSyncStore:
    """What MM2's checkpoint task remembers of offset syncs: 64 slots a partition, sparser towards the past (OST-01)."""

    def __init__(self, *, checkpoints_readable: bool = True) -> None:
        """Begin the initial read; without readable checkpoints only the newest sync of it may be used (OST-04)."""
        self._keeps_history = checkpoints_readable
        self._is_ready = False
        self._slots: dict[TopicPartition, list[OffsetSync]] = {}

    def finish_initial_read(self) -> None:
        """Say that the topic has been read to its end once; from now on positions are translated."""
        self._is_ready = True
        self._keeps_history = True

    def take(self, sync: OffsetSync) -> None:
        """Take in a sync, in the order of the log."""
        slots = self._slots.get(sync.topic_partition)
        is_rewind = slots is not None and sync.upstream < slots[0].upstream
        if slots is None or is_rewind or not self._keeps_history:
            self._slots[sync.topic_partition] = [sync] * SLOTS
        else:
            self._slots[sync.topic_partition] = _with(slots, sync)

    def slots(self, partition: TopicPartition) -> tuple[OffsetSync, ...]:
        """Return the slots of a partition, the newest first; empty when nothing is known of it."""
        return tuple(self._slots.get(partition, ()))

    def translate(self, partition: TopicPartition, position: int) -> SyncTranslation:
        """Translate an upstream position (OST-07); for one older than every sync kept, MM2 answers -1."""
        if not self._is_ready:
            return NotReady()
        slots = self._slots.get(partition)
        if slots is None:
            return NotMirrored()
        sync = next((sync for sync in slots if sync.upstream <= position), None)
        if sync is None:
            return TooOld(slots[-1].upstream)
        return Translated(sync.downstream if sync.upstream == position else sync.downstream + 1)


def _with(old: list[OffsetSync], sync: OffsetSync) -> list[OffsetSync]:
    """Return the slots after ``sync``: each older sync moves back only as far as the invariants need (OST-05)."""
    slots = [sync, *old[1:]]
    candidate, place = sync, 0
    for current in range(1, SLOTS):
        newer = slots[current - 1]
        while True:
            offered = old[place]
            is_far_enough = _is_far_enough(newer, offered, current - 1)
            fits = (
                _is_near_enough(newer, offered, current)
                and is_far_enough
                and (current + 1 == SLOTS or _is_far_enough(offered, slots[current + 1], current))
            )
            if fits:
                candidate = offered
            # Identity, not equality: a sync that came twice is two syncs.
            skippable = offered is old[min(place + 1, SLOTS - 1)] or not is_far_enough
            if fits or skippable:
                place += 1
            if not (place < current and skippable):
                break
        if _is_near_enough(newer, slots[current], current):
            break
        slots[current] = candidate
    return slots


def _is_near_enough(newer: OffsetSync, older: OffsetSync, slot: int) -> bool:
    """Whether ``older`` may stand in ``slot`` behind ``newer`` in the one before."""
    return newer.upstream - older.upstream <= (1 << slot) - (1 << (slot - 1))


def _is_far_enough(newer: OffsetSync, older: OffsetSync, slot: int) -> bool:
    """Whether ``older`` is worth a slot of its own behind ``newer`` in ``slot``."""
    return newer.upstream - older.upstream >= 1 << max(slot - 2, 0)
