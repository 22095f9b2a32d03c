"""One partition in a copy task: from fetched batches to acknowledged positions and the offset map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirror.copier import gaps
from mirror.copier.streams import Piece, Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionResult, PartitionWork
from mirror.kafka import batch, codes
from mirror.kafka.batch import Header, Producer
from mirror.kafka.transactions import AbortedTransactions
from mirror.kafka.wire import FetchedPartition
from mirror.model.flow_state import RUNS_PER_CHUNK, Position, StateRecord, chunk_record
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd, epochs_before
from mirror.model.offset_map import Run, extend, runs_of

# More than this waiting for the target, and the source is not asked for more.
BACKLOG_BYTES = 8 << 20


# Batches smaller than this are merged with their neighbours when they queue up, to no more than that.
SMALL_BATCH_BYTES = 16 << 10
MERGED_BYTES = 128 << 10


class CopiedBatch:
    """A batch on its way: where it came from, and where the source goes on behind it.

    Attributes
    ----------
    spans
        (first upstream offset, count) of the consecutive records in ``content``, in order.
    parts
        the batches it was merged from, if it was.
    """

    __slots__ = ("content", "count", "next_sequence", "parts", "sequence", "spans", "upstream_next")

    def __init__(
        self,
        content: memoryview,
        spans: Sequence[tuple[int, int]],
        upstream_next: int,
        sequence: int,
        parts: Sequence[CopiedBatch] = (),
    ) -> None:
        """Say where the records in ``content``, with ``sequence`` for the first, come from."""
        self.content = content
        self.spans = spans
        self.count = sum(count for _, count in spans)
        self.upstream_next = upstream_next
        self.sequence = sequence
        self.next_sequence = batch.next_sequence(sequence, self.count)
        self.parts = parts


class Merging:
    """Makes one batch of small ones in a row: each record is decoded and encoded again, but goes at once."""

    def __init__(self, producer: Producer) -> None:
        """Write as ``producer``."""
        self._producer = producer

    def fits(self, pieces: Sequence[Piece], following: Piece) -> bool:
        """Whether all are small, together too, and compressed alike."""
        return (
            len(pieces[-1].content) < SMALL_BATCH_BYTES
            and len(following.content) < SMALL_BATCH_BYTES
            and sum(len(piece.content) for piece in pieces) + len(following.content) <= MERGED_BYTES
            and batch.codec_of(pieces[0].content) == batch.codec_of(following.content)
        )

    def merged(self, pieces: Sequence[Piece]) -> Piece:
        """Return one batch with the records of all, and the first one's sequence."""
        parts = [piece for piece in pieces if isinstance(piece, CopiedBatch)]
        records = [record for part in parts for record in batch.records(part.content)]
        content = batch.encode(records, batch.codec_of(parts[0].content), self._producer, parts[0].sequence)
        spans = [span for part in parts for span in part.spans]
        return CopiedBatch(content, spans, parts[-1].upstream_next, parts[0].sequence, parts)

    def taken_apart(self, piece: Piece) -> Sequence[Piece]:
        """Return what a batch was merged from; itself if it was not."""
        assert isinstance(piece, CopiedBatch)
        return piece.parts or (piece,)


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
    read_epoch
        the leader epoch under which the source wrote what was read last; -1 when not known.
    """

    def __init__(
        self, work: PartitionWork, handover: Handover, producer: Producer, sequence: int, syncs: PartitionSyncs | None
    ) -> None:
        """Begin at ``handover``, which must be clean, writing as ``producer`` from ``sequence`` on."""
        self.work = work
        self.producer = producer
        self.sequence = sequence
        self.acknowledged_sequence = sequence
        self.stream: Stream = Stream(
            work.target, self._acknowledged, self._refused, pipelined=True, merge=Merging(producer)
        )
        self.fetch_position = handover.position.upstream
        self.rest_until = 0.0
        self.trouble: str | None = None
        self.stopped: str | None = None
        self.is_dirty = not handover.is_recorded
        self.syncs = syncs
        self.leader_epoch = NOT_KNOWN
        self.read_epoch = handover.position.epochs[-1].epoch if handover.position.epochs else NOT_KNOWN
        self._epochs = list(handover.position.epochs[:-1])
        self._source_end = handover.position.source_end
        self._lost: str | None = None
        self._target_ended_at: int | None = None
        self._begun_at = handover.position
        self._upstream, self._downstream, self._chunk = (
            handover.position.upstream,
            handover.position.downstream,
            handover.position.chunk,
        )
        self._runs = list(handover.runs)
        self._unwritten = list(handover.unwritten)
        self._offered: int | None = None
        self._records = self._bytes = self._batches = self._slow_records = 0

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
        )

    def wants_data(self, now: float) -> bool:
        """Whether the source should be asked for more."""
        return not (self.is_over or now < self.rest_until) and self.stream.bytes < BACKLOG_BYTES

    @property
    def is_over(self) -> bool:
        """Whether the source is not to be read any further."""
        return self.stopped is not None or self.is_lost or self.stream.closed

    @property
    def is_lost(self) -> bool:
        """Whether it must be looked up on both clusters where the copy stands, which only the next epoch does."""
        return self._lost is not None

    def check_topic(self, topic_id: str) -> None:
        """Read no further if the source topic has another id than the one copied so far."""
        if gaps.differ(self._begun_at.topic_id, topic_id):
            self.look_again(f"{self.work.source.topic} on the source was deleted and created anew")

    @property
    def is_troubled(self) -> bool:
        """Whether something keeps it from being copied, for now or for good."""
        return bool(self.stopped or self.trouble or self.stream.trouble or self.is_lost)

    def take(self, frame: memoryview, part: FetchedPartition, *, read_committed: bool) -> None:
        """Turn the fetched batches into batches for the target.

        Whole, dense batches pass on with a new header; all others are decoded and encoded again.

        Raises
        ------
        CorruptBatch, UnsupportedMagic
            if a batch cannot be copied; those before it are on their way.
        """
        if part.high_watermark > self._source_end:
            self._source_end, self.is_dirty = part.high_watermark, True
        aborted = AbortedTransactions(part.aborted if read_committed else ())
        for start, stop, header in batch.batches(frame, part.start, part.stop):
            is_data = not aborted.covers(frame[start:stop], header) and not header.is_control
            if header.next_offset <= self.fetch_position:
                continue
            if header.leader_epoch != self.read_epoch and not self._begin_epoch(header.leader_epoch):
                break
            if is_data and header.record_count > 0:
                self._put(frame, start, stop, header)
            self.fetch_position = header.next_offset
        self._settle()

    def skip_gap(self, log_start: int, now_ms: int) -> None:
        """Go on at the start of the source's log, or stop; what was lost before it is kept as a gap."""
        policy, position = self.work.gaps, replace(self._begun_at, upstream=self.fetch_position)
        downstream = self._downstream if self.stream.is_idle else None
        gap = gaps.settle(gaps.overtaken(self.work, position, log_start, downstream, now_ms), policy)
        self._unwritten += gaps.news(gap, policy)
        self.is_dirty = True
        if not gap.passed:
            self.stop(gaps.stop_reason(gap))
            return
        self.fetch_position = log_start
        self._settle()

    def look_again(self, reason: str) -> None:
        """Read no further: the next epoch finds out what became of the source, or of the copy, and where to go on."""
        self._lost = self._lost or reason

    def stop(self, reason: str) -> None:
        """Read no further until somebody looks at it; what was read is still copied."""
        self.stopped = reason

    def unrecorded(self) -> list[StateRecord]:
        """Return the records of the state topic that bring it up to date; :meth:`recorded` says that they are in."""
        self.is_dirty = False
        if self.syncs is not None:
            self.syncs.promote_delayed()
        self._offered = len(self._unwritten)
        return [
            *self._unwritten,
            chunk_record(self.work.source, self._chunk, self._runs),
            self._position.record(self.work.source),
        ]

    def recorded(self) -> None:
        """What was last returned by :meth:`unrecorded` is in the state topic."""
        del self._unwritten[: self._offered or 0]
        self._offered = None

    def result(self) -> PartitionResult:
        """Say what became of the partition."""
        handover = Handover(
            self._position,
            tuple(self._runs),
            clean=self.stream.is_settled and not self.is_lost,
            is_recorded=not self.is_dirty and self._offered is None,
            unwritten=tuple(self._unwritten),
            target_ended_at=self._target_ended_at,
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
            trouble=self._lost or self.stream.trouble or self.trouble,
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

    def _put(self, frame: memoryview, start: int, stop: int, header: Header) -> None:
        spans: Sequence[tuple[int, int]]
        if header.is_dense and not header.has_append_time and header.base_offset >= self.fetch_position:
            content = batch.pass_on(frame, start, stop, header, self.producer, self.sequence)
            spans = ((header.base_offset, header.record_count),)
        else:
            kept = [record for record in batch.records(frame[start:stop]) if record.offset >= self.fetch_position]
            if not kept:
                return
            content = batch.encode(kept, header.codec, self.producer, self.sequence)
            spans = [(run.upstream, run.length) for run in runs_of([record.offset for record in kept], 0)]
            self._slow_records += len(kept)
        piece = CopiedBatch(content, spans, header.next_offset, self.sequence)
        self.sequence = piece.next_sequence
        self.stream.put(piece)

    def _acknowledged(self, piece: Piece, base_offset: int) -> None:
        assert isinstance(piece, CopiedBatch)
        self.acknowledged_sequence = piece.next_sequence
        if self._target_ended_at is None and base_offset < self._downstream:
            self._target_ended_at = base_offset
            self.look_again(
                f"the target appends at offset {base_offset}, before the position {self._downstream} already written"
            )
            self.stream.give_up()
        if self._target_ended_at is not None:
            return
        downstream = base_offset
        for upstream, count in piece.spans:
            extend(self._runs, Run(upstream, downstream, count))
            if self.syncs is not None:
                self.syncs.acknowledged(upstream, downstream, count)
            downstream += count
        self._advance(piece.upstream_next, downstream)
        self._records += piece.count
        self._bytes += len(piece.content)
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
        self.is_dirty = True

    def _settle(self) -> None:
        """Count markers and other holes behind the last record as copied, once nothing before them is under way."""
        if self.fetch_position > self._upstream and self.stream.is_idle:
            self._advance(self.fetch_position, self._downstream)

    def _refused(self, code: int, message: str) -> None:
        said = f"{codes.name(code)} {message}".strip()
        if code in codes.SEQUENCE_ERRORS:
            self.look_again(f"the target answers {said}; what was written is looked up before going on")
        else:
            self.stopped = f"the target refuses the batch behind upstream offset {self.upstream}: {said}"
