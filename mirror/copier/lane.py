"""One partition in a copy task: from fetched batches to acknowledged positions and the offset map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirror.copier.streams import Gate, Piece, Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionResult, PartitionWork
from mirror.kafka import batch, codes
from mirror.kafka.batch import Header, Producer
from mirror.kafka.transactions import AbortedTransactions
from mirror.kafka.wire import FetchedPartition
from mirror.model.flow_state import RUNS_PER_CHUNK, Gap, Position, StateRecord, chunk_record
from mirror.model.offset_map import Run, extend, runs_of
from mirror.model.offset_sync import OffsetSync

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
    """

    def __init__(
        self,
        work: PartitionWork,
        handover: Handover,
        producer: Producer,
        sequence: int,
        syncs: PartitionSyncs | None,
        gate: Gate | None = None,
    ) -> None:
        """Begin at ``handover``, which must be clean, writing as ``producer`` from ``sequence`` on.

        With a ``gate``, inside transactions: only what :meth:`recorded` was called for counts.
        """
        self.work = work
        self.producer = producer
        self.sequence = sequence
        self.acknowledged_sequence = sequence
        self.stream: Stream = Stream(
            work.target, self._acknowledged, self._refused, pipelined=True, merge=Merging(producer), gate=gate
        )
        self.fetch_position = handover.position.upstream
        self.rest_until = 0.0
        self.trouble: str | None = None
        self.stopped: str | None = None
        self.is_dirty = not handover.is_recorded
        self.syncs = syncs
        self._sequence_lost: str | None = None
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
        self._committed = self._standing() if gate else None
        self._committed_sync: OffsetSync | None = None

    @property
    def upstream(self) -> int:
        """The position up to which everything is acknowledged."""
        return self._upstream

    @property
    def _position(self) -> Position:
        return replace(
            self._begun_at,
            upstream=self._upstream,
            downstream=self._downstream,
            chunk=self._chunk,
            atomic=self.stream.transactional_id is not None,
        )

    def wants_data(self, now: float) -> bool:
        """Whether the source should be asked for more."""
        return not (self.is_over or now < self.rest_until) and self.stream.bytes < BACKLOG_BYTES

    @property
    def is_over(self) -> bool:
        """Whether the source is not to be read any further."""
        return self.stopped is not None or self.stream.closed

    @property
    def lost(self) -> str | None:
        """Why it is not known how far the target has got, None when it is."""
        return self._sequence_lost

    def take(self, frame: memoryview, part: FetchedPartition, *, read_committed: bool) -> None:
        """Turn the fetched batches into batches for the target.

        Whole, dense batches pass on with a new header; all others are decoded and encoded again.

        Raises
        ------
        CorruptBatch, UnsupportedMagic
            if a batch cannot be copied; those before it are on their way.
        """
        aborted = AbortedTransactions(part.aborted if read_committed else ())
        for start, stop, header in batch.batches(frame, part.start, part.stop):
            is_data = not aborted.covers(frame[start:stop], header) and not header.is_control
            if header.next_offset <= self.fetch_position:
                continue
            if is_data and header.record_count > 0:
                self._put(frame, start, stop, header)
            self.fetch_position = header.next_offset
        self._settle()

    def skip_gap(self, log_start: int, found_at_ms: int) -> None:
        """Go on at the start of the source's log; what was lost before it is kept as a gap."""
        reason = "the source no longer had these offsets (retention or deleted records) when they were to be copied"
        self._unwritten.append(Gap(self.work.source, self.fetch_position, log_start, reason, found_at_ms).record())
        self.is_dirty = True
        self.fetch_position = log_start
        self._settle()

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
        if self._committed is not None:
            self._committed = self._standing()
            self._committed_sync = (self.syncs.take_due() if self.syncs else None) or self._committed_sync

    def take_due_sync(self) -> OffsetSync | None:
        """Return the offset sync that is to be written now, if any; inside transactions only of what is committed."""
        if self._committed is None:
            return self.syncs.take_due() if self.syncs else None
        due, self._committed_sync = self._committed_sync, None
        return due

    def lose(self, reason: str) -> None:
        """Take what was acknowledged since the last commit for undone: its transaction will not be committed."""
        self._sequence_lost = self._sequence_lost or reason
        self.stream.close()

    def result(self) -> PartitionResult:
        """Say what became of the partition."""
        now = self._standing()
        if self._committed is None or self._committed.handover is None:
            return now
        handover = replace(self._committed.handover, clean=self._sequence_lost is None)
        return replace(self._committed, handover=handover, stopped=now.stopped, trouble=now.trouble)

    def _standing(self) -> PartitionResult:
        handover = Handover(
            self._position,
            tuple(self._runs),
            clean=self.stream.is_settled and self._sequence_lost is None,
            is_recorded=not self.is_dirty and self._offered is None,
            unwritten=tuple(self._unwritten),
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
            trouble=self._sequence_lost or self.stream.trouble or self.trouble,
        )

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
        if self._sequence_lost is not None:
            return
        if code in codes.SEQUENCE_ERRORS or (self._committed is not None and code in codes.TRANSACTION_ERRORS):
            self._sequence_lost = f"the target answers {said}; what was written is looked up before going on"
        else:
            self.stopped = f"the target refuses the batch behind upstream offset {self.upstream}: {said}"
