"""Small batches joined into larger ones, where the line to the target is what takes the time.

Invariants:

(a) Batches are joined only where the line, not the broker, sets the pace. Inside the joined batch only differences of
    time and offset are rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mirror.copier.streams import Piece
from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch, Producer
from mirror.kafka.joining import joined
from mirror.model.offset_map import cut

# Batches smaller than this are merged with their neighbours when they queue up, to no more than that.
SMALL_BATCH_BYTES = 16 << 10
MERGED_BYTES = 128 << 10


class CopiedBatch:
    """A batch on its way: where it came from, and where the source goes on behind it.

    Attributes
    ----------
    spans
        (first upstream offset, count) of the consecutive records in ``content``, in order.
    times
        the oldest and the newest time of its records, in ms, as far as its header tells.
    parts
        the batches it was merged from, if it was.
    """

    __slots__ = ("content", "count", "next_sequence", "parts", "sequence", "spans", "times", "upstream_next")

    def __init__(
        self,
        content: memoryview,
        spans: Sequence[tuple[int, int]],
        upstream_next: int,
        sequence: int,
        times: tuple[int, int],
        parts: Sequence[CopiedBatch] = (),
    ) -> None:
        """Say where the records in ``content``, with ``sequence`` for the first, come from."""
        self.content = content
        self.spans = spans
        self.count = sum(count for _, count in spans)
        self.upstream_next = upstream_next
        self.sequence = sequence
        self.next_sequence = batch.next_sequence(sequence, self.count)
        self.times = times
        self.parts = parts

    def renumber(self, sequence: int) -> int:
        """Give a batch that was never appended another sequence; return the one after it."""
        batch.renumber(self.content, sequence)
        self.sequence = sequence
        self.next_sequence = batch.next_sequence(sequence, self.count)
        for part in self.parts:
            sequence = part.renumber(sequence)
        return self.next_sequence

    def halves(self, producer: Producer) -> Sequence[CopiedBatch]:
        """Return two batches with half of the records each; itself if that cannot be done."""
        if self.count == 1:
            return (self,)
        try:
            records = batch.records(self.content)
        except CorruptBatch:
            return (self,)
        middle, codec = self.count // 2, batch.codec_of(self.content)
        before, behind = cut(self.spans, middle)
        sequence = batch.next_sequence(self.sequence, middle)
        first = batch.encode(records[:middle], codec, producer, self.sequence)
        second = batch.encode(records[middle:], codec, producer, sequence)
        return (
            CopiedBatch(first, before, behind[0][0], self.sequence, self.times),
            CopiedBatch(second, behind, self.upstream_next, sequence, self.times),
        )


class Merging:
    """Makes one batch of several in a row, or several of one too large.

    Small ones are merged always, large ones too where the line asks for it.
    """

    def __init__(self, producer: Producer, sets_aside: Callable[[CopiedBatch, str], bool]) -> None:
        """Write as ``producer``; ``sets_aside`` says whether a batch that cannot be made smaller is held back."""
        self._producer = producer
        #: No batch is made larger than this; learned from refusals.
        self.largest = math.inf
        self._sets_aside = sets_aside

    def follows(self, before: Sequence[Piece], following: Piece) -> bool:  # noqa: ARG002  # each does
        """Whether a batch may go out behind those in flight."""
        return True

    def fits(self, last: Piece, size: int, following: Piece, most_bytes: int) -> bool:
        """Whether all are small or the line is long, the whole is not too large, and they are compressed alike."""
        if not self.follows((last,), following):
            return False
        together = size + len(following.content)
        if together > self.largest or batch.codec_of(last.content) != batch.codec_of(following.content):
            return False
        are_small = len(last.content) < SMALL_BATCH_BYTES and len(following.content) < SMALL_BATCH_BYTES
        return together <= most_bytes or (are_small and together <= MERGED_BYTES)

    def merged(self, pieces: Sequence[Piece]) -> Piece | None:
        """Return one batch with the records of all, and the first one's sequence; None if one cannot be read."""
        parts = [piece for piece in pieces if isinstance(piece, CopiedBatch)]
        try:
            content = joined([part.content for part in parts], self._producer, parts[0].sequence)
        except CorruptBatch:
            return None
        spans = [span for part in parts for span in part.spans]
        times = min(part.times[0] for part in parts), max(part.times[1] for part in parts)
        return CopiedBatch(content, spans, parts[-1].upstream_next, parts[0].sequence, times, parts)

    def taken_apart(self, piece: Piece) -> Sequence[Piece]:
        """Return what a batch was merged from, or its halves; itself if it is a single record."""
        assert isinstance(piece, CopiedBatch)
        if not piece.parts:
            return piece.halves(self._producer)
        self.largest = min(self.largest, len(piece.content) // 2)
        return piece.parts

    def sets_aside(self, piece: Piece, message: str) -> bool:
        """Whether a batch that cannot be made smaller is held back."""
        assert isinstance(piece, CopiedBatch)
        return self._sets_aside(piece, message)
