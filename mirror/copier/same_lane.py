"""One partition whose copy has the source's offsets: batches go out where they belong, and holes are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirror.copier.lane import Lane
from mirror.copier.merging import CopiedBatch, Merging
from mirror.copier.mirrored import Mirrored
from mirror.copier.same_offsets import Unexpected, unexpected
from mirror.copier.standing import Standing
from mirror.copier.streams import Piece
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka.batch import Header, Producer, Record
from mirror.kafka.problems import KafkaProblem
from mirror.model.offset_map import runs_of
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Hole:
    """What is to be filled in a copy before anything else is appended to it: up to, not including, ``until``."""

    copy: TopicPartition
    standing: Standing
    until: int


class SameOffsetsLane(Lane):
    """Copies one partition to the source's offsets: a batch goes out once the copy ends where its first record belongs.

    What keeps the next one from going out is a :attr:`hole`, which somebody else fills; :meth:`filled` takes that in.
    """

    def __init__(
        self,
        work: PartitionWork,
        handover: Handover,
        producer: Producer,
        standing: Standing,
        syncs: PartitionSyncs | None,
        parked_topic: str | None = None,
        mirrored: Mirrored | None = None,
    ) -> None:
        """Begin where the copy stands, as ``handover`` says but for a head that is not filled yet."""
        self.standing = standing
        # Whether something was appended that is not in its place: what comes behind it is not recorded.
        self._is_shifted = False
        # Whether it has stopped at a hole.
        self._is_too_long = False
        super().__init__(work, handover, producer, standing.sequence, syncs, parked_topic, None, mirrored)
        # What others write is noticed by the first offset that is not the expected one.
        self._others = None

    def _new_merging(self, producer: Producer) -> Merging:
        return _Unbroken(producer, self._set_aside, lambda: self.standing.end)

    @property
    def hole(self) -> Hole | None:
        """What is to be filled now, None if nothing is, may be, or something is on its way."""
        if self.is_lost or self.stream.closed or self.is_held or not self.stream.is_answered:
            return None
        if self._is_shifted or self._is_too_long or self.work.is_paused:
            return None
        if (begins_at := self.standing.begins_at) >= 0:
            return Hole(self.work.target, self.standing, begins_at)
        waiting = self.stream.waiting[:1]
        until = _first(waiting[0]) if waiting else self.fetch_position
        return Hole(self.work.target, self.standing, until) if until > self.standing.end else None

    def may_fill(self, hole: Hole) -> bool:
        """Whether a hole is to be filled; one that is longer than somebody wants to have filled stops the partition."""
        limit = self.work.pad_limit
        if limit is None or hole.until - hole.standing.end <= limit or hole.standing.begins_at >= 0:
            return True
        self._is_too_long = True
        self.stop(
            f"{self.work.source} has no record from offset {hole.standing.end} up to {hole.until}, and "
            f"mirror.offsets.pad.limit is {limit}: raise it, or delete the copy {self.work.target} to have it made anew"
        )
        return False

    def not_filled(self, problem: Unexpected | KafkaProblem) -> None:
        """Take in why a hole is not filled now, or why it never will be."""
        if isinstance(problem, Unexpected):
            self._is_shifted = True
            self.stop(str(problem))
        else:
            self.stream.pause(str(problem))

    def filled(self, hole: Hole, standing: Standing) -> None:
        """Take in how far a hole is filled."""
        if standing.end > hole.until:
            self.look_again(f"{self.work.target} goes on at {standing.end}, behind the hole that was to be filled")
            return
        self.standing = standing
        if standing.begins_at < 0 and standing.end > self._downstream:
            # A record that is parked is behind the position before its offset is filled.
            self._advance(max(standing.end, self._upstream), standing.end)
        sequence = self.acknowledged_sequence = standing.sequence
        for piece in self.stream.waiting:
            assert isinstance(piece, CopiedBatch)
            sequence = piece.renumber(sequence)
        self.sequence = sequence
        self.stream.go_on()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, nothing is to be filled, and nothing has to be written down."""
        return super().is_idle and self.hole is None

    def pass_by_others(self, target_end: int) -> None:
        """Stop if somebody else has written into the copy."""
        if target_end > self.standing.end and self.hole is None:
            self.stop(unexpected(self.work.target, self.standing.end, target_end))

    def _put_records(self, kept: Sequence[Record], header: Header, upstream_next: int) -> None:
        """Make a batch of each stretch without a hole: within a batch a broker numbers densely."""
        first = 0
        for _, _, length in runs_of([record.offset for record in kept], 0):
            super()._put_records(kept[first : first + length], header, upstream_next)
            first += length

    def _put_piece(
        self, content: memoryview, spans: Sequence[tuple[int, int]], upstream_next: int, times: tuple[int, int]
    ) -> None:
        # What the source has removed at the end of a batch is a hole like any other.
        last, count = spans[-1]
        super()._put_piece(content, spans, min(last + count, upstream_next), times)

    def _acknowledged(self, piece: Piece, base_offset: int) -> None:
        assert isinstance(piece, CopiedBatch)
        if self._is_shifted or base_offset != _first(piece):
            if not self._is_shifted:
                self._is_shifted = True
                self.stop(unexpected(self.work.target, _first(piece), base_offset))
            self.stream.give_up()
            return
        super()._acknowledged(piece, base_offset)
        # Whoever is next looks at the copy in any case.
        self._next_batch = None
        self.standing = Standing(
            base_offset + piece.count, piece.next_sequence, self.standing.is_compacted, self.standing.begins_at
        )

    def _settle(self) -> None:
        """Count nothing as copied that has no place in the copy yet: holes are filled."""


class _Unbroken(Merging):
    """Lets a batch out, or into one with others, only where the offset of its first record comes next."""

    def __init__(
        self, producer: Producer, sets_aside: Callable[[CopiedBatch, str], bool], end: Callable[[], int]
    ) -> None:
        super().__init__(producer, sets_aside)
        self._end = end

    def follows(self, before: Sequence[Piece], following: Piece) -> bool:
        """Whether the copy will end then where the first record of ``following`` belongs."""
        if not before:
            return _first(following) == self._end()
        last = before[-1]
        assert isinstance(last, CopiedBatch)
        offset, count = last.spans[-1]
        return _first(following) == offset + count


def _first(piece: Piece) -> int:
    assert isinstance(piece, CopiedBatch)
    return piece.spans[0][0]
