"""One partition in a copy task: from fetched batches to acknowledged positions and the offset map."""

from __future__ import annotations

from mirror.copier.streams import Piece, Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionResult, PartitionWork
from mirror.kafka import batch, codes
from mirror.kafka.batch import Header, Producer
from mirror.kafka.wire import FetchedPartition
from mirror.model.flow_state import RUNS_PER_CHUNK, Gap, Position, StateRecord, chunk_record
from mirror.model.offset_map import Run, extend, runs_of

# More than this waiting for the target, and the source is not asked for more.
BACKLOG_BYTES = 8 << 20


class CopiedBatch:
    """A batch on its way: where it came from, and where the source goes on behind it."""

    __slots__ = ("content", "next_sequence", "offsets", "upstream_next")

    def __init__(self, content: memoryview, offsets: range | list[int], upstream_next: int, next_sequence: int) -> None:
        """Keep the upstream offset of each record in ``content``, in order."""
        self.content = content
        self.offsets = offsets
        self.upstream_next = upstream_next
        self.next_sequence = next_sequence


class Lane:
    """Copies one partition: cuts fetched data into batches for the target and keeps account of what was acknowledged."""

    def __init__(
        self, work: PartitionWork, handover: Handover, producer: Producer, sequence: int, syncs: PartitionSyncs | None
    ) -> None:
        """Begin at ``handover``, which must be clean, writing as ``producer`` from ``sequence`` on."""
        self.work = work
        self.producer = producer
        self.sequence = sequence
        self.acknowledged_sequence = sequence
        self.stream: Stream = Stream(work.target, self._acknowledged, self._refused, pipelined=True)
        self.fetch_position = handover.position.upstream
        self.high_watermark = -1
        self.rest_until = 0.0
        self.trouble: str | None = None
        self.stopped: str | None = None
        self.sequence_lost = False
        self.is_dirty = False
        self.syncs = syncs
        self._position = handover.position
        self._runs = list(handover.runs)
        self._full_chunks: list[StateRecord] = []
        self._gaps: list[Gap] = []
        self._records = self._bytes = self._batches = self._slow_records = 0

    @property
    def upstream(self) -> int:
        """The position up to which everything is acknowledged."""
        return self._position.upstream

    def wants_data(self, now: float) -> bool:
        """Whether the source should be asked for more."""
        return not (self.stream.closed or now < self.rest_until) and self.stream.bytes < BACKLOG_BYTES

    def take(self, frame: memoryview, part: FetchedPartition, *, read_committed: bool) -> None:
        """Turn the fetched batches into batches for the target.

        Whole, dense batches pass on with a new header; all others are decoded and encoded again.
        """
        self.high_watermark = part.high_watermark
        aborted = _AbortedTransactions(part) if read_committed else None
        for start, stop, header in batch.batches(frame, part.start, part.stop):
            if header.next_offset <= self.fetch_position:
                continue
            is_data = not header.is_control and header.record_count > 0
            if aborted and aborted.covers(frame[start:stop], header):
                is_data = False
            if is_data:
                self._put(frame, start, stop, header)
            self.fetch_position = header.next_offset
        self._settle()

    def skip_gap(self, log_start: int, found_at_ms: int) -> None:
        """Go on at the start of the source's log; what was lost before it is kept as a gap."""
        reason = "the source no longer had these offsets (retention or deleted records) when they were to be copied"
        self._gaps.append(Gap(self.work.source, self.fetch_position, log_start, reason, found_at_ms))
        self.fetch_position = log_start
        self._settle()

    def stop(self, reason: str) -> None:
        """Give the partition up until somebody looks at it."""
        self.stopped = reason
        self.stream.close()

    def unrecorded(self) -> list[StateRecord]:
        """Return the records of the state topic that bring it up to date, and regard them as written."""
        self.is_dirty = False
        if self.syncs is not None:
            self.syncs.promote_delayed()
        records = [*self._full_chunks, *(gap.record() for gap in self._gaps)]
        records.append(chunk_record(self.work.source, self._position.chunk, self._runs))
        records.append(self._position.record(self.work.source))
        self._full_chunks, self._gaps = [], []
        return records

    def result(self) -> PartitionResult:
        """Say what became of the partition."""
        clean = self.stream.is_idle or (self.stream.closed and not self.sequence_lost and not self.stream.in_flight)
        return PartitionResult(
            self.work.flow,
            self.work.source,
            Handover(self._position, tuple(self._runs), clean),
            records=self._records,
            bytes=self._bytes,
            batches=self._batches,
            slow_records=self._slow_records,
            stopped=self.stopped,
            trouble=self.trouble,
        )

    def _put(self, frame: memoryview, start: int, stop: int, header: Header) -> None:
        offsets: range | list[int]
        if header.is_dense and not header.has_append_time and header.base_offset >= self.fetch_position:
            content = batch.pass_on(frame, start, stop, header, self.producer, self.sequence)
            offsets = range(header.base_offset, header.next_offset)
        else:
            kept = [record for record in batch.records(frame[start:stop]) if record.offset >= self.fetch_position]
            if not kept:
                return
            content = batch.encode(kept, header.codec, self.producer, self.sequence)
            offsets = [record.offset for record in kept]
            self._slow_records += len(kept)
        self.sequence = batch.next_sequence(self.sequence, len(offsets))
        self.stream.put(CopiedBatch(content, offsets, header.next_offset, self.sequence))

    def _acknowledged(self, piece: Piece, base_offset: int) -> None:
        assert isinstance(piece, CopiedBatch)
        self.acknowledged_sequence = piece.next_sequence
        count = len(piece.offsets)
        runs = (
            [Run(piece.offsets.start, base_offset, count)]
            if isinstance(piece.offsets, range)
            else runs_of(piece.offsets, base_offset)
        )
        for run in runs:
            extend(self._runs, run)
            if self.syncs is not None:
                self.syncs.acknowledged(*run)
        self._advance(piece.upstream_next, base_offset + count)
        self._records += count
        self._bytes += len(piece.content)
        self._batches += 1
        self._settle()

    def _advance(self, upstream: int, downstream: int) -> None:
        old = self._position
        chunk = old.chunk
        if len(self._runs) > RUNS_PER_CHUNK:
            # The last run may still grow, so it moves on to the next chunk.
            self._full_chunks.append(chunk_record(self.work.source, chunk, self._runs[:-1]))
            self._runs = self._runs[-1:]
            chunk += 1
        self._position = Position(upstream, downstream, old.origin, old.complete, chunk, old.topic_id)
        self.is_dirty = True

    def _settle(self) -> None:
        """Count markers and other holes behind the last record as copied, once nothing before them is under way."""
        if self.stream.is_idle and self.fetch_position > self._position.upstream:
            self._advance(self.fetch_position, self._position.downstream)

    def _refused(self, code: int, message: str) -> None:
        said = f"{codes.name(code)} {message}".strip()
        if code in codes.SEQUENCE_ERRORS:
            self.sequence_lost = True
            self.trouble = f"the target answered {said}; what was written is looked up before going on"
        else:
            self.stopped = f"the target refuses the batch behind upstream offset {self.upstream}: {said}"


class _AbortedTransactions:
    """Which batches of one fetch belong to aborted transactions, told by the abort index and the markers in between."""

    def __init__(self, part: FetchedPartition) -> None:
        self._coming = sorted(part.aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open: set[int] = set()

    def covers(self, content: memoryview, header: Header) -> bool:
        """Whether the batch is aborted data; to be asked for every batch in order, markers included."""
        while self._coming and self._coming[-1].first_offset < header.next_offset:
            self._open.add(self._coming.pop().producer_id)
        if header.is_control:
            if batch.marker_is_abort(content):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open
