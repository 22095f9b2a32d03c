"""One partition in a copy task: from fetched batches to acknowledged positions and the offset map.

Invariants:

(a) Markers advance the position only when nothing before them is under way, else a crash would skip unacknowledged
    records.
(b) A single offset between two batches need not be a marker. A transaction leaves one only where it has written; a lane
    knows when one follows, and otherwise the log is asked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from mirror.copier import gaps, oversized, resume
from mirror.copier.backoff import Backoff
from mirror.copier.foreign_batches import ForeignBatches, LeftOut
from mirror.copier.merging import CopiedBatch, Merging
from mirror.copier.mirrored import Mirrored
from mirror.copier.oversized import DeadLetter
from mirror.copier.streams import Gate, Piece, Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.transforming import change
from mirror.copier.work import Handover, PartitionResult, PartitionWork
from mirror.kafka import batch, codes
from mirror.kafka.aborted_transactions import AbortedTransactions
from mirror.kafka.batch import Header, Producer, Record
from mirror.kafka.topic_ids import differ
from mirror.kafka.wire import FetchedPartition
from mirror.model.copied import NO_TIME, Ages, Copied, Waiting
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd, epochs_before
from mirror.model.offset_map import Run, extend, runs_of
from mirror.model.offset_sync import OffsetSync
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import RUNS_PER_CHUNK, chunk_record
from mirror.model.stretches import between, hold, united

# More than this waiting for the target, and the source is not asked for more.
BACKLOG_BYTES = 8 << 20
# How long the source of a partition is left alone when it refuses to be read.
FIRST_BACKOFF_SECONDS = 0.2
LONGEST_BACKOFF_SECONDS = 2.0
_UNSURE = {*codes.SEQUENCE_ERRORS, codes.UNKNOWN_TOPIC}


class Lane:
    """Copies one partition: cuts fetched data into batches for the target and keeps account of what was acknowledged.

    Attributes
    ----------
    trouble
        what keeps the source from being read, None while all goes well.
    stopped
        why the partition is given up until somebody looks at it.
    leader_epoch
        the epoch of the leader it is fetched from, as the cluster told; -1 when not known.
    replica
        the follower that it is read from, as its leader asked for (KIP-392); None: it is read from its leader.
    read_epoch
        the leader epoch under which the source wrote what was read last; -1 when not known.
    owes_mm2
        whether MM2's position is not written yet although ours is.
    keeps_offsets
        whether the copy has the source's offsets.
    was_resumed
        whether it begins where somebody stopped without saying how far it got.
    """

    keeps_offsets = False

    def __init__(
        self,
        work: PartitionWork,
        handover: Handover,
        producer: Producer,
        sequence: int,
        syncs: PartitionSyncs | None,
        parked_topic: str | None = None,
        gate: Gate | None = None,
        mirrored: Mirrored | None = None,
    ) -> None:
        """Begin at ``handover``, which must be clean, writing as ``producer`` from ``sequence`` on.

        Without a topic for parked records, one that the target finds too large stops the partition. With a ``gate``,
        inside transactions: only what :meth:`recorded` was called for counts. ``mirrored`` knows what is left out.
        """
        self.work = work
        self.producer = producer
        self.sequence = sequence
        self.acknowledged_sequence = sequence
        self.merging = self._new_merging(producer)
        self.stream: Stream = Stream(
            work.target, self._acknowledged, self._refused, pipelined=True, merge=self.merging, gate=gate
        )
        self.stream.topic_id = handover.position.target_id
        self.fetch_position = handover.position.read_from if handover.read_from is None else handover.read_from
        self.backoff = Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
        self.backoff_until = 0.0
        self.trouble: str | None = None
        self.stopped: str | None = None
        forgotten = resume.forgotten(work, handover.position)
        self.is_dirty = not handover.is_recorded or bool(forgotten)
        self.owes_mm2 = False
        self.syncs = syncs
        self._parked_topic = parked_topic
        self._too_large: CopiedBatch | None = None
        self._dead_letter: DeadLetter | None = None
        self._is_parked = self._is_offered_parked = False
        self.was_resumed = work.handover is not None and not work.handover.clean
        self._dead_letters = 0
        self.leader_epoch = NOT_KNOWN
        self.replica: int | None = None
        self.read_epoch = handover.position.epochs[-1].epoch if handover.position.epochs else NOT_KNOWN
        self._epochs = list(handover.position.epochs[:-1])
        self._source_end = handover.position.source_end
        self._first_end: int | None = None
        self._lost: str | None = None
        self._doubts: str | None = None
        self._target_ended_at: int | None = None
        self._begun_at = handover.position
        self._upstream, self._downstream, self._chunk = (
            handover.position.upstream,
            handover.position.downstream,
            handover.position.chunk,
        )
        self._passed_gaps = handover.position.passed_gaps
        self._runs = list(handover.runs)
        self._unwritten = [*handover.unwritten, *forgotten]
        self._offered: int | None = None
        self._records = self._bytes = self._batches = self._slow_records = 0
        self._read, self._answered = Ages(), Ages()
        self._reported = Copied()
        self._next_batch = handover.position.next_batch
        self._left_out = LeftOut(handover.position.left_out)
        self._mirrored = mirrored if work.left_out else None
        end = handover.position.downstream
        # What was sent before this producer began here, and arrives all the same, shows before its first batch; where
        # that was to the source's offsets nothing refuses it behind that, by whatever name the copy goes.
        is_looked_at = work.is_watched or handover.position.same_offsets
        self._foreign = (
            ForeignBatches(
                end,
                has_markers=gate is not None,
                first_only=not is_looked_at,
                is_marker_next=gate is not None and handover.is_marker_next,
            )
            if is_looked_at or sequence == 0
            else None
        )
        if syncs is not None and handover.owes_sync and handover.runs:
            last = handover.runs[-1]
            syncs.owe_again(last.upstream + last.length - 1, last.downstream + last.length - 1)
        self._committed_sync: OffsetSync | None = syncs.take_due() if gate and syncs else None
        self._committed = self._append_point() if gate else None

    def _new_merging(self, producer: Producer) -> Merging:
        return Merging(producer, self._set_aside)

    @property
    def upstream(self) -> int:
        """The position up to which everything is acknowledged."""
        return self._upstream

    @property
    def _position(self) -> Position:
        read = (*self._epochs, EpochEnd(self.read_epoch, self.fetch_position))
        return replace(
            self._begun_at,
            upstream=self._upstream,
            downstream=self._downstream,
            chunk=self._chunk,
            epochs=epochs_before(read, self._upstream) if self.read_epoch != NOT_KNOWN else (),
            source_end=max(self._source_end, self._upstream),
            atomic=self.stream.transactional_id is not None,
            settled=False,
            left_out=self._left_out.count,
            next_batch=self._next_batch,
            same_offsets=self.keeps_offsets,
            passed_gaps=tuple(each for each in self._passed_gaps if self._upstream < each[1]),
        )

    def pass_by_foreign(self, target_end: int) -> None:
        """Count what others have written into the copy as passed: all of ours lies before ``target_end``.

        A task that resumes here need not read it.
        """
        if target_end > self._downstream:
            if self._foreign is not None:
                self._foreign.appended(target_end, target_end)
            self._downstream = target_end
            self.is_dirty = True

    def wants_data(self, now: float) -> bool:
        """Whether the source should be asked for more."""
        return not (self.is_over or now < self.backoff_until) and self.stream.bytes < BACKLOG_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, and nothing has to be written down."""
        is_recorded = not self.is_dirty and self._offered is None and self._committed_sync is None
        return self.stream.is_idle and is_recorded and (self.syncs is None or self.syncs.is_settled)

    @property
    def is_over(self) -> bool:
        """Whether the source is not to be read any further."""
        return self.stopped is not None or self.is_lost or self.stream.closed

    @property
    def is_lost(self) -> bool:
        """Whether it must be looked up on both clusters where the copy stands, which only the next epoch does."""
        return self._lost is not None

    def pause(self, trouble: str) -> None:
        """Leave its source alone for a while, longer each time."""
        self.trouble = trouble
        self.backoff_until = time.monotonic() + self.backoff.next_seconds()

    def check_topic(self, topic_id: str) -> None:
        """Read no further if the source topic has another id than the one copied so far."""
        if differ(self._begun_at.topic_id, topic_id):
            self.look_again(f"{self.work.source.topic} on the source was deleted and created anew")

    @property
    def why_troubled(self) -> str | None:
        """What keeps it from being copied, None while nothing does."""
        return self._lost or self.stream.trouble or self.trouble

    @property
    def doubts(self) -> str | None:
        """Why it is not known how far the target has got, None when it is."""
        return self._doubts

    def take(
        self, frame: memoryview, part: FetchedPartition, *, read_committed: bool, received_at: float = 0.0
    ) -> None:
        """Turn the fetched batches, which were here at ``received_at``, into batches for the target.

        Whole, dense batches pass on with a new header; all others are decoded and encoded again.

        Raises
        ------
        CorruptBatch, UnsupportedMagic
            if a batch cannot be copied; those before it are on their way.
        Undecided
            if it cannot be known now whether a batch is to be left out; those before it are on their way.
        """
        if self._first_end is None:
            self._first_end = part.high_watermark
        if part.high_watermark > self._source_end:
            self._source_end, self.is_dirty = part.high_watermark, True
        aborted = AbortedTransactions(part.aborted if read_committed else ())
        taken: list[tuple[int, int]] = []
        count = 0
        for content, header in batch.batches(frame, part.start, part.stop):
            is_data = not aborted.covers(content, header) and not header.is_control
            if header.next_offset <= self.fetch_position:
                continue
            if header.leader_epoch != self.read_epoch and not self._begin_epoch(header.leader_epoch):
                break
            if is_data and header.record_count > 0 and not self._leaves_out(header, received_at):
                taken.append(header.times)
                count += header.record_count
                self._put(content, header)
                if self.is_over:
                    break
            self.fetch_position = header.next_offset
        if taken:
            self._read.add(time.time() * 1000, min(taken)[0], max(newest for _, newest in taken), count)
        self._settle()

    def skip_gap(self, log_start: int, now_ms: int) -> None:
        """Go on at the start of the source's log, or stop; what was lost before it is kept as a gap."""
        policy, downstream = self.work.gaps, self._downstream if self.stream.is_idle else None
        for start, end in between(self._passed_gaps, self.fetch_position, log_start):
            position = replace(self._begun_at, upstream=start)
            found = gaps.parts(gaps.overtaken(self.work, position, end, downstream, now_ms), policy)
            self._unwritten += [record for each in found for record in gaps.news(each, policy)]
            self.is_dirty = True
            gap = found[-1]
            if not gap.passed:
                self.stop(gaps.stop_reason(gap))
                return
            self._note_passed(start, end)
        self.fetch_position = log_start
        self._settle()

    def _note_passed(self, start: int, end: int) -> None:
        if self.keeps_offsets:
            known = (*self._passed_gaps, (start, end))
            self._passed_gaps = united(known, 0, max(last for _, last in known))

    def look_again(self, reason: str) -> None:
        """Read no further: the next epoch finds out what became of the source, or of the copy, and where to go on."""
        self._lost = self._lost or reason

    def _doubt(self, reason: str) -> None:
        """Take it for unknown how far the target has got."""
        self._doubts = self._doubts or reason
        self.look_again(reason)

    def stop(self, reason: str) -> None:
        """Read no further until somebody looks at it; what was read is still copied."""
        self.stopped = reason

    def unrecorded(self) -> list[StateRecord]:
        """Return the records of the state topic that bring it up to date; :meth:`recorded` says that they are in."""
        self.is_dirty = False
        if self.syncs is not None:
            self.syncs.promote_delayed()
        self._offered = len(self._unwritten)
        position, gaps = self._position, []
        if self._dead_letter is not None and self._is_parked:
            self._is_offered_parked = True
            position = replace(position, upstream=self._dead_letter.upstream_next)
            gaps.append(self._dead_letter.gap.record())
        return [
            *self._unwritten,
            *gaps,
            chunk_record(self.work.source, self._chunk, self._runs),
            position.record(self.work.source),
        ]

    def recorded(self) -> None:
        """What was last returned by :meth:`unrecorded` is in the state topic."""
        del self._unwritten[: self._offered or 0]
        self._offered = None
        if self._dead_letter is not None and self._is_offered_parked:
            self._go_on_behind_parked(self._dead_letter)
        if self._committed is not None:
            if self._foreign is not None:
                self._foreign.committed()
            self._committed = self._append_point()
            self._committed_sync = (self.syncs.take_due() if self.syncs else None) or self._committed_sync

    def take_due_sync(self) -> OffsetSync | None:
        """Return the offset sync that is to be written now, if any; inside transactions only of what is committed."""
        if self._committed is None:
            return self.syncs.take_due() if self.syncs else None
        due, self._committed_sync = self._committed_sync, None
        return due

    def lose(self, reason: str) -> None:
        """Take what was acknowledged since the last commit for undone: its transaction will not be committed."""
        self._doubt(reason)
        self.stream.close()

    @property
    def is_held(self) -> bool:
        """Whether the partition waits until a record is parked and that is recorded."""
        return self._dead_letter is not None

    @property
    def dead_letter(self) -> DeadLetter | None:
        """What is to be written to the topic of parked records now; the partition waits until that is recorded."""
        return None if self._is_parked or self.stopped or self.is_lost else self._dead_letter

    @property
    def is_perhaps_parked(self) -> bool:
        """Whether the dead letter may be one that was written before, and not accounted for."""
        return self._dead_letters == 0 and (self.was_resumed or self._records == 0)

    @property
    def awaits_commit(self) -> bool:
        """Whether the partition waits for its position to be recorded."""
        return self._is_parked and not self._is_offered_parked

    def parked(self) -> None:
        """The dead letter is written; the partition goes on once its gap, and the position behind it, are recorded."""
        self._is_parked = self.is_dirty = True

    def cannot_park(self, reason: str) -> None:
        """Stop before the record that can be neither copied nor parked."""
        if self._dead_letter is not None:
            self.stopped = (
                f"the record at upstream offset {self._dead_letter.offset} cannot be copied: "
                f"{self._dead_letter.message}; nor parked in {self._parked_topic}: {reason}"
            )

    def news(self) -> Copied | None:
        """Return what became of the partition up to now; None if that was reported before."""
        counted = self._committed
        records, size = (counted.records, counted.bytes) if counted else (self._records, self._bytes)
        oldest = self.stream.oldest
        waiting = None
        if isinstance(oldest, CopiedBatch) and oldest.times[0] > NO_TIME:
            waiting = Waiting(oldest.times[0], len(oldest.content) / oldest.count)
        before = self._reported
        is_news = (records, waiting) != (before.records, before.waiting) or self._read.count or self._answered.count
        if not is_news:
            return None
        self._reported = Copied(records, size, self._read, self._answered, waiting)
        self._read, self._answered = Ages(), Ages()
        return self._reported

    def result(self) -> PartitionResult:
        """Say what became of the partition."""
        now = self._append_point()
        if self._committed is None or self._committed.handover is None:
            return now
        handover = replace(
            self._committed.handover,
            clean=not self.is_lost,
            target_ended_at=self._target_ended_at,
            owes_sync=self._owes_sync,
        )
        return replace(self._committed, handover=handover, stopped=now.stopped, trouble=now.trouble)

    @property
    def _owes_sync(self) -> bool:
        return self.syncs is not None and not self.syncs.is_settled

    def _append_point(self) -> PartitionResult:
        handover = Handover(
            self._position,
            tuple(self._runs),
            clean=self.stream.is_settled and not self.is_lost,
            is_recorded=not (self.is_dirty or self.owes_mm2) and self._offered is None,
            unwritten=tuple(self._unwritten),
            target_ended_at=self._target_ended_at,
            owes_sync=self._owes_sync,
            is_marker_next=self._foreign is not None and self._foreign.is_marker_next,
        )
        return PartitionResult(
            self.work.flow,
            self.work.source,
            handover,
            records=self._records,
            bytes=self._bytes,
            batches=self._batches,
            slow_records=self._slow_records,
            stopped=self.stopped,
            trouble=self.why_troubled,
            foreign=self._foreign.found if self._foreign is not None else (),
            read=self._read,
            acknowledged=self._answered,
            source_end=self._first_end,
        )

    def _begin_epoch(self, epoch: int) -> bool:
        """Note that what follows was written under another leader; return whether it can be of the same log."""
        if NOT_KNOWN < epoch < self.read_epoch:
            self.look_again(
                f"{self.work.source} on the source goes on in leader epoch {epoch} behind epoch {self.read_epoch}: it "
                "is not the log that was read before"
            )
            return False
        self._epochs.append(EpochEnd(self.read_epoch, self.fetch_position))
        self.read_epoch = epoch
        return True

    def _leaves_out(self, header: Header, received_at: float) -> bool:
        """Whether a flow has mirrored the batch into the source, whose copies are not copied on."""
        if self._mirrored is None or not self._mirrored.has_written(
            header.producer_id, self.work.left_out, received_at
        ):
            return False
        self._left_out.add(header.next_offset, min(header.record_count, header.next_offset - self.fetch_position))
        return True

    def _put(self, content: memoryview, header: Header) -> None:
        is_whole = header.is_dense and header.base_offset >= self.fetch_position
        upstream_next = header.next_offset
        if is_whole and not header.has_append_time and self.work.transform is None:
            content = batch.pass_on(content, header, self.producer, self.sequence)
            spans = ((header.base_offset, header.record_count),)
            self._put_piece(content, spans, upstream_next, header.times)
        else:
            kept = [record for record in batch.records(content) if record.offset >= self.fetch_position]
            changed = change(self.work, kept)
            kept = changed.records
            for gap in changed.gaps:
                if self.keeps_offsets and hold(self._passed_gaps, gap.start, gap.end):
                    # It was left out before, and its offset is not filled yet.
                    continue
                self._unwritten.append(gap.record())
                self.is_dirty = True
                self._note_passed(gap.start, gap.end)
            if changed.failed is not None:
                upstream_next = self.fetch_position = changed.failed.offset
                self.stop(changed.failed.reason)
            if not kept:
                return
            self._slow_records += len(kept)
            self._put_records(kept, header, upstream_next)

    def _put_records(self, kept: Sequence[Record], header: Header, upstream_next: int) -> None:
        content = batch.encode(kept, header.codec, self.producer, self.sequence)
        spans = [(run.upstream, run.length) for run in runs_of([record.offset for record in kept], 0)]
        self._put_piece(content, spans, upstream_next, header.times)

    def _put_piece(
        self, content: memoryview, spans: Sequence[tuple[int, int]], upstream_next: int, times: tuple[int, int]
    ) -> None:
        piece = CopiedBatch(content, spans, upstream_next, self.sequence, times)
        self.sequence = piece.next_sequence
        self.stream.put(piece)

    def _acknowledged(self, piece: Piece, base_offset: int, _appended_at: int) -> None:
        assert isinstance(piece, CopiedBatch)
        self.acknowledged_sequence = piece.next_sequence
        if self._target_ended_at is None and base_offset < self._downstream:
            self._target_ended_at = base_offset
            self.look_again(
                f"the target appends at offset {base_offset}, before the position {self._downstream} already written"
            )
            self.stream.give_up()
        if self._target_ended_at is not None:
            is_lost = self._runs[-1].downstream_end > self._target_ended_at if self._runs else self._chunk > 0
            if not is_lost:
                # What others had written was cut off: behind the last copy it is where it should be, and is matched.
                return
            ends = piece.spans[0][0], piece.upstream_next
            again = gaps.copied_before(self.work, self._begun_at, ends, base_offset, int(time.time() * 1000))
            self._unwritten.append(again.record())
            self.is_dirty = True
            return
        if self._foreign is not None:
            self._foreign.appended(base_offset, base_offset + piece.count)
        downstream = base_offset
        for upstream, count in piece.spans:
            extend(self._runs, Run(upstream, downstream, count))
            if self.syncs is not None:
                self.syncs.acknowledged(upstream, downstream, count)
            downstream += count
        self._next_batch = NextBatch(self.producer.producer_id, self.producer.epoch, piece.next_sequence)
        self._advance(piece.upstream_next, downstream)
        self._records += piece.count
        self._bytes += len(piece.content)
        self._answered.add(time.time() * 1000, *piece.times, piece.count)
        self._batches += len(piece.parts) or 1
        if piece.parts:
            self._slow_records += piece.count
        self._settle()

    def _advance(self, upstream: int, downstream: int) -> None:
        if len(self._runs) > RUNS_PER_CHUNK:
            # The last run may still grow, so it moves on to the next chunk.
            self._unwritten.append(chunk_record(self.work.source, self._chunk, self._runs[:-1]))
            self._runs = self._runs[-1:]
            self._chunk += 1
        self._upstream, self._downstream = upstream, downstream
        self._left_out.pass_by(upstream)
        self.is_dirty = True

    def _settle(self) -> None:
        """Count markers and other holes behind the last record as copied, once nothing before them is under way."""
        if self.fetch_position > self._upstream and self.stream.is_idle:
            self._advance(self.fetch_position, self._downstream)

    def _refused(self, code: int, message: str) -> None:
        refusal = f"{codes.name(code)} {message}".strip()
        if self._doubts is not None:
            return
        is_fenced = self._committed is not None and code in codes.TRANSACTION_ERRORS
        if is_fenced or code in _UNSURE or (code in codes.TOO_LARGE and not self.stream.is_settled):
            self._doubt(f"the target answers {refusal}; what was written is looked up before going on")
        elif code in codes.TOO_LARGE and self._too_large is not None:
            self.stopped = (
                f"the target refuses the record at upstream offset {self._too_large.spans[0][0]}: {refusal}; with "
                f"{len(self._too_large.content)} bytes as a batch it is more than the max.message.bytes of "
                f"{self.work.target.topic}: raise that, or set mirror.oversized.records = park and restart all engines"
            )
        else:
            self.stopped = f"the target refuses the batch behind upstream offset {self.upstream}: {refusal}"

    def _set_aside(self, piece: CopiedBatch, message: str) -> bool:
        """Prepare to park a record that the target finds too large; return whether that is done."""
        if piece.count > 1:
            return False
        self._too_large = piece
        if self._parked_topic is None:
            return False
        ((offset, _),) = piece.spans
        flow = self.work.flow
        self._dead_letter = oversized.dead_letter(
            piece.content,
            flow.source,
            self.work.source,
            offset,
            piece.upstream_next,
            self._parked_topic,
            f"{self.work.target} on {flow.target} takes no batch of {len(piece.content)} bytes {message}".rstrip(),
            int(time.time() * 1000),
        )
        return self._dead_letter is not None

    def _go_on_behind_parked(self, dead_letter: DeadLetter) -> None:
        """Count the parked record as done; what follows takes its sequence."""
        self._upstream = dead_letter.upstream_next
        self.sequence = self.acknowledged_sequence
        for piece in self.stream.release():
            assert isinstance(piece, CopiedBatch)
            self.sequence = piece.renumber(self.sequence)
        self._dead_letter = self._too_large = None
        self._dead_letters += 1
        self._is_parked = self._is_offered_parked = False
        self._settle()
