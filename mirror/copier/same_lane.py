"""One partition whose copy has the source's offsets: batches go out where they belong, and holes are reported."""

from __future__ import annotations

import enum
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from mirror.copier.append_point import AppendPoint
from mirror.copier.lane import Lane
from mirror.copier.merging import CopiedBatch, Merging
from mirror.copier.mirrored import Mirrored
from mirror.copier.same_offsets import ForeignWrite, Moved, NotFilled, foreign_write
from mirror.copier.streams import Piece
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Header, Producer, Record
from mirror.kafka.wire import NO_APPEND_TIME, FetchedPartition
from mirror.model.flow import Flow
from mirror.model.offset_map import Run, extend, runs_of
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of

_NOT_LOOKED = -1
# How long after an answer that a copy ends before where it did its leader is asked again.
_AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Hole:
    """What is to be filled in a copy, as whom, before anything else is appended: up to, not including, ``until``."""

    copy: TopicPartition
    append_point: AppendPoint
    until: int
    producer: Producer


class Content(enum.Enum):
    """What a stretch of a copy holds."""

    #: Records that the flow has not written.
    OTHERS = enum.auto()
    #: Of records those alone that the flow has written.
    OWN = enum.auto()
    #: No record: markers, records of aborted transactions, or nothing any more.
    NOTHING = enum.auto()


@dataclass(frozen=True, slots=True)
class Doubt:
    """Offsets at which a copy has something that the source has not, by what was fetched of it: it is to be read.

    Attributes
    ----------
    at
        where the copy ended for the lane.
    start, until
        the offsets, from one up to, not including, another.
    original
        from where on the source has records that no flow has copied there; ``until`` if it has none.
    asked_at
        up to where the source was fetched when it was asked where the copy ends.
    end
        where the copy ends.
    since
        in monotonic seconds.
    own
        the producer id that the flow writes the copy with.
    read_committed
        whether records of aborted transactions are none.
    """

    copy: TopicPartition
    at: int
    start: int
    until: int
    original: int
    asked_at: int
    end: int
    since: float
    own: int
    read_committed: bool


class SameOffsetsLane(Lane):
    """Copies one partition to the source's offsets: a batch goes out once the copy ends where its first record belongs.

    What keeps the next one from going out is a :attr:`hole`, which somebody else fills; :meth:`filled` takes that in.

    Invariants:

    (a) Under an unchanged name the copy may be what applications write to, and what is read of the source may have come
        from there. So before anything is appended behind a pause it is looked up where the copy ends
        (:attr:`wants_look`), after the records were fetched: what another flow has copied from there is below that end.
        What is told of that end while a hole is being filled may count what fills it: it is asked again behind that,
        and behind an append that was acknowledged since. That a copy ends before where it did is believed once whoever
        leads it then says so again; nothing is appended meanwhile.
    (b) What the flow in the other direction has copied into the source is passed by as far as the copy reaches: it is
        there, at the same offset. Where the copy holds something else behind its position, the partition stops before
        anything is appended. Where the source has nothing at these offsets, because of retention, compaction, markers,
        or since the flow back has left records out, both have the same up to where that flow is by its record; behind
        that the copy is read (:attr:`doubt`), and records of others are waited with until that flow is behind them.
    (c) What leaves the copy without a record of the source is on record as a gap before its offsets are filled. Behind
        a crash the copy's end is all that tells where to go on: a gap before that is not found again.
    """

    keeps_offsets = True

    def __init__(
        self,
        work: PartitionWork,
        handover: Handover,
        producer: Producer,
        append_point: AppendPoint,
        syncs: PartitionSyncs | None,
        parked_topic: str | None = None,
        mirrored: Mirrored | None = None,
    ) -> None:
        """Begin where the copy stands, as ``handover`` says but for a head that is not filled yet."""
        self.append_point = append_point
        # Whether something was appended that is not in its place: what comes behind it is not recorded.
        self._is_shifted = False
        # Whether it has stopped at a hole.
        self._is_too_long = False
        # Whether the copy may be what applications write to, so that its end is looked up before anything is appended.
        self._looks = work.source.topic == work.target.topic
        # Up to where the source was fetched when that was asked last, -1 when something may have come since.
        self._looked_until = _NOT_LOOKED if self._looks else math.inf
        self._asked_at = _NOT_LOOKED
        #: Before then it is not asked where the copy ends, in monotonic seconds.
        self.look_at = 0.0
        self._was_shorter = False
        self._is_being_filled = False
        #: Whether what was to fill a hole may be in the copy, or come, without an answer that says so.
        self.may_get_fillers = False
        back = producer_of(Flow(work.flow.target, work.flow.source))
        self._back: int | None = back.producer_id if work.is_two_way else None
        # What of the source, from where the copy ends on, the flow back has copied there, and what others have written.
        self._copied_back: deque[tuple[int, int]] = deque()
        self._originals: deque[tuple[int, int]] = deque()
        self._copied_back_until = work.copied_back.filled_until if work.copied_back and work.is_original else 0
        #: What of the copy is to be read before it is passed by, if anything is.
        self.doubt: Doubt | None = None
        self._reads_committed = True
        super().__init__(work, handover, producer, append_point.sequence, syncs, parked_topic, None, mirrored)
        # What others write is noticed by the first offset that is not the expected one.
        self._foreign = None

    def _new_merging(self, producer: Producer) -> Merging:
        return _Unbroken(producer, self._set_aside, lambda: self.append_point.end, self._may_go)

    @property
    def _may_append(self) -> bool:
        """Whether something may be appended to the copy now, and nothing is on its way."""
        is_open = not (self.is_lost or self.stream.closed or self.is_held) and self.stream.is_answered
        return is_open and not (self._is_shifted or self._is_too_long or self.work.is_paused)

    @property
    def wants_look(self) -> bool:
        """Whether it is to be looked up where the copy ends before anything more is appended to it."""
        is_busy = self._is_being_filled or self.doubt is not None
        if self.append_point.begins_at >= 0 or is_busy or not self._may_append:
            return False
        following = self.stream.next_piece
        if self._looked_until == _NOT_LOOKED:
            return following is not None or self.fetch_position > self.append_point.end
        return (following is not None and not self._may_go(following)) or self._hole_until > self._looked_until

    def asks(self) -> None:
        """Note that it is asked now where the copy ends."""
        self._asked_at = self.fetch_position

    def looked(self, end: int) -> bool:
        """Take in where the copy ended when that was asked; what was fetched since is not spoken of.

        Return whether that can be: False if the leader is to be asked again, which may be another one by now.
        """
        if self._asked_at == _NOT_LOOKED or not self.wants_look:
            return True
        at, asked_at, copy = self.append_point.end, self._asked_at, self.work.target
        if end < at:
            if self._was_shorter:
                self.look_again(f"{copy} ends at {end}, and ended at {at} before")
            self._was_shorter, self._looked_until = True, _NOT_LOOKED
            self.look_at = time.monotonic() + _AGAIN_SECONDS
            return self.is_lost
        self._was_shorter = False
        self._forget_passed()
        passed = min(end, asked_at) if self._back is not None else end
        first = at if self._back is None else self._originals[0][0] if self._originals else passed
        original, known = min(max(at, first), passed), max(at, self._copied_back_until)
        start = min(original, known)
        if start < passed:
            now = time.monotonic()
            own = self.producer.producer_id
            self.doubt = Doubt(copy, at, start, passed, original, asked_at, end, now, own, self._reads_committed)
        else:
            self._go_on_behind(passed, asked_at, end)
        return True

    def _go_on_behind(self, passed: int, asked_at: int, end: int) -> None:
        if self._pass_by(passed) and end == self.append_point.end:
            self._looked_until = asked_at
            self.stream.go_on()

    def read(self, doubt: Doubt, content: Content) -> None:
        """Take in what was read of the copy; a doubt that is over is not spoken of."""
        if self.doubt is not doubt:
            return
        self.doubt = None
        if self.append_point.end != doubt.at:
            return
        if content is Content.OWN:
            self.look_again(f"{doubt.copy} has from {doubt.start} on what an engine of this flow had sent before")
        elif doubt.original < doubt.until:
            self._conflicts(min(doubt.start, doubt.original), doubt.end)
        elif content is Content.OTHERS:
            # How far the flow back is may have been told since this epoch began: the next one knows. It is not to end
            # this one, which would hold up all others where that stays so.
            self.stream.pause(only_there(self.work.source, doubt.copy, self.work.flow, doubt.start, doubt.until))
        else:
            self._go_on_behind(doubt.until, doubt.asked_at, doubt.end)

    def _may_go(self, piece: Piece) -> bool:
        """Whether a batch may be appended if its place is next; one that was copied back only if that was looked up.

        None before the padding of the head is removed: what removes it must not find records behind it.
        """
        if self.append_point.begins_at >= 0:
            return False
        first = _first(piece)
        return first < self._looked_until or (
            self._looked_until != _NOT_LOOKED and not any(start <= first < end for start, end in self._copied_back)
        )

    def _forget_passed(self) -> None:
        for stretches in (self._copied_back, self._originals):
            while stretches and stretches[0][1] <= self.append_point.end:
                stretches.popleft()

    def _conflicts(self, offset: int, end: int) -> None:
        self._is_shifted = True
        self.stop(in_both(self.work.source, self.work.target, self.work.flow, offset, end))

    def _pass_by(self, until: int) -> bool:
        """Go on at ``until``, below which the copy has what was fetched; False: a batch reaches over it."""
        at = self.append_point.end
        if until <= at:
            return True
        pieces = tuple(takewhile(lambda piece: _first(piece) < until, self.stream.waiting))
        if pieces and _end(pieces[-1]) > until:
            self.look_again(f"{self.work.target} ends within what {self.work.flow} has read")
            return False
        self.stream.drop(len(pieces))
        extend(self._runs, Run(at, at, until - at))
        if self.syncs is not None:
            self.syncs.acknowledged(at, at, until - at)
        self._advance(max(until, self._upstream), until)
        self.append_point = replace(self.append_point, end=until)
        self._renumber()
        return True

    def _renumber(self) -> None:
        """Number what waits from the last sequence on the target on: fillers took some, or others were passed by."""
        sequence, following = self.acknowledged_sequence, self.stream.next_piece
        if isinstance(following, CopiedBatch) and following.sequence == sequence:
            # So it does already: behind a marker, which takes none. Thousands may wait.
            return
        for piece in self.stream.waiting:
            assert isinstance(piece, CopiedBatch)
            sequence = piece.renumber(sequence)
        self.sequence = sequence

    @property
    def hole(self) -> Hole | None:
        """What is to be filled now, None if nothing is, may be, or something is on its way."""
        if not self._may_append:
            return None
        point = self.append_point
        if point.begins_at >= 0:
            return Hole(self.work.target, point, point.begins_at, self.producer)
        if not self._is_at_hole or self._unwritten:
            return None
        return Hole(self.work.target, point, self._hole_until, self.producer)

    @property
    def _is_at_hole(self) -> bool:
        return self.append_point.end < self._hole_until <= self._looked_until

    @property
    def awaits_commit(self) -> bool:
        """Whether the partition waits for its position, or for a gap, to be recorded."""
        owes_gap = bool(self._unwritten) and self._offered is None and self._may_append and self._is_at_hole
        return owes_gap or super().awaits_commit

    @property
    def _hole_until(self) -> int:
        """Up to where the source has nothing behind where the copy ends."""
        following = self.stream.next_piece
        return _first(following) if following is not None else self.fetch_position

    def may_fill(self, hole: Hole) -> bool:
        """Whether a hole is to be filled; one that is longer than somebody wants to have filled stops the partition."""
        limit = self.work.pad_limit
        if limit is None or hole.until - hole.append_point.end <= limit or hole.append_point.begins_at >= 0:
            return True
        self._is_too_long = True
        self.stop(
            f"{self.work.source} has no record from offset {hole.append_point.end} up to {hole.until}, and "
            f"mirror.offsets.pad.limit is {limit}: raise it, or delete the copy {self.work.target} to have it made anew"
        )
        return False

    def being_filled(self) -> None:
        """Note that what fills its hole may arrive from now on, until :meth:`filled` or :meth:`not_filled`."""
        self._is_being_filled = self.may_get_fillers = True
        self._asked_at = _NOT_LOOKED

    def not_filled(self, problem: NotFilled, *, may_arrive: bool = True) -> None:
        """Take in why a hole is not filled now, or why it never will be, and whether what was sent may still arrive."""
        self._is_being_filled, self.may_get_fillers = False, may_arrive
        if isinstance(problem, ForeignWrite):
            self._is_shifted = True
            self.stop(str(problem))
        elif isinstance(problem, Moved):
            self.look_again(str(problem))
        else:
            self.stream.pause(str(problem))

    def filled(self, hole: Hole, append_point: AppendPoint, *, may_arrive: bool = False) -> None:
        """Take in how far a hole is filled, and whether more of what was sent may still arrive."""
        self._is_being_filled, self.may_get_fillers = False, may_arrive
        if append_point.end > hole.until:
            self.look_again(f"{self.work.target} goes on at {append_point.end}, behind the hole that was to be filled")
            return
        self.append_point = append_point
        if append_point.begins_at < 0 and append_point.end > self._downstream:
            # A record that is parked is behind the position before its offset is filled.
            self._advance(max(append_point.end, self._upstream), append_point.end)
        self.acknowledged_sequence = append_point.sequence
        self._renumber()
        self._forget_passed()
        self.stream.go_on()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, nothing is to be filled, and nothing has to be written down."""
        is_busy = self._is_being_filled or self.hole is not None or self.wants_look or self.doubt is not None
        return super().is_idle and not is_busy

    def pass_by_foreign(self, target_end: int) -> None:
        """Stop if somebody else has written into the copy, and no flow copies that into the source."""
        # One that is lost is looked up by the next epoch: what lies there may be its own, of which no answer came.
        is_known = not self.is_lost and self.hole is None
        if self._back is None and is_known and target_end > self.append_point.end:
            self.stop(foreign_write(self.work.target, self.append_point.end, target_end))

    def skip_gap(self, log_start: int, now_ms: int) -> None:
        """Go on at the start of the source's log; what the flow back has written before that is not missing."""
        if self.work.begins_with_copy(log_start):
            self._copied_back_until = log_start
        self.fetch_position = max(self.fetch_position, min(log_start, self._copied_back_until))
        super().skip_gap(log_start, now_ms)

    def take(
        self, frame: memoryview, part: FetchedPartition, *, read_committed: bool, received_at: float = 0.0
    ) -> None:
        """Take in what was fetched; see :meth:`Lane.take`."""
        if self._looks and self.stream.is_idle:
            self._looked_until = _NOT_LOOKED
        self._reads_committed = read_committed
        if self._back is not None:
            for _, header in batch.batches(frame, part.start, part.stop):
                if header.producer_id == self._back:
                    self._copied_back_until = max(self._copied_back_until, header.next_offset)
                is_new = header.next_offset > max(self.fetch_position, self.append_point.end)
                if is_new and not header.is_control:
                    stretches = self._copied_back if header.producer_id == self._back else self._originals
                    # Of a batch in which the log starts by now the records before that are not read.
                    stretches.append((max(header.base_offset, self.fetch_position), header.next_offset))
            if self.doubt is not None and self.doubt.until <= min(self.doubt.original, self._copied_back_until):
                self.doubt = None
        super().take(frame, part, read_committed=read_committed, received_at=received_at)

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

    def _acknowledged(self, piece: Piece, base_offset: int, appended_at: int) -> None:
        assert isinstance(piece, CopiedBatch)
        if not self._is_shifted and appended_at != NO_APPEND_TIME and not self.append_point.has_append_time:
            # It may be what an engine before had sent of an offset that the source has removed since, and a marker
            # fills: that takes no sequence, so what comes late behind it fits, and answers for what is next.
            self._is_shifted = True
            self.look_again(f"{self.work.target} has had a batch at offset {base_offset} before: it is compared")
        if self._is_shifted or base_offset != _first(piece):
            if not self._is_shifted:
                self._is_shifted = True
                self.stop(foreign_write(self.work.target, _first(piece), base_offset))
            self.stream.give_up()
            return
        super()._acknowledged(piece, base_offset, appended_at)
        # Whoever is next looks at the copy in any case.
        self._next_batch = None
        # What went out with the question may have been answered before it.
        self._asked_at = _NOT_LOOKED
        self.append_point = replace(self.append_point, end=base_offset + piece.count, sequence=piece.next_sequence)
        self._forget_passed()

    def _settle(self) -> None:
        """Count nothing as copied that has no place in the copy yet: holes are filled."""


class _Unbroken(Merging):
    """Lets a batch out, or into one with others, only where the offset of its first record comes next."""

    def __init__(
        self,
        producer: Producer,
        sets_aside: Callable[[CopiedBatch, str], bool],
        end: Callable[[], int],
        may_go: Callable[[Piece], bool],
    ) -> None:
        super().__init__(producer, sets_aside)
        self._end = end
        self._may_go = may_go

    def follows(self, before: Sequence[Piece], following: Piece) -> bool:
        """Whether the copy will end then where the first record of ``following`` belongs."""
        end = _end(before[-1]) if before else self._end()
        return _first(following) == end and self._may_go(following)


def _first(piece: Piece) -> int:
    assert isinstance(piece, CopiedBatch)
    return piece.spans[0][0]


def _end(piece: Piece) -> int:
    assert isinstance(piece, CopiedBatch)
    offset, count = piece.spans[-1]
    return offset + count


def in_both(source: TopicPartition, copy: TopicPartition, flow: Flow, offset: int, end: int) -> str:
    """Return that two topics of one name hold different records at the same offsets, and what somebody can do."""
    return (
        f"{copy} on {flow.target} goes up to offset {end} with records that {flow.source} does not have there, from "
        f"{offset} on, and {source} on {flow.source} has other records or markers of transactions: nothing is written "
        f"to it. Behind a failover mirror failback --make-anew mends that; otherwise save what is to be kept (mirror "
        f"stranded), and delete the topic on the cluster whose records may go, to have it made anew from the other"
    )


def only_there(source: TopicPartition, copy: TopicPartition, flow: Flow, offset: int, end: int) -> str:
    """Return that a copy has records at offsets at which the source has none, and what somebody can do."""
    return (
        f"{copy} on {flow.target} has records from offset {offset} to {end - 1}, where {source} on {flow.source} has "
        f"none: waits until {flow.target}->{flow.source} has passed them. If that flow is cut, they are on "
        f"{flow.target} alone: mirror stranded lists them, and mirror failback --make-anew moves the applications back"
    )
