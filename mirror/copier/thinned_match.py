"""Matching the tail where compaction has thinned the source or the target since it was copied.

Then records of the tail have no original any more, and originals no copy, and both logs have holes where they were. The
copy is in the order of the source, so the last record of the tail that still has its original says how far it had got:
all that the source has left before it was copied. What came behind it and is gone from the source was replaced there by
a later record of its key, which is still to be copied.

What is not explained by holes is no compaction, and a mismatch as ever. Where nothing tells (a record is gone from the
source and the same, to the millisecond, stands there once more), rather too little is taken for copied than too much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from mirror.copier.tail_match import Batch, Matched, Mismatch
from mirror.kafka import batch
from mirror.kafka.batch import Record
from mirror.model.offset_map import Run, extend


def match_thinned(
    source: Iterable[Batch],
    tail: Iterable[Batch],
    upstream: int,
    is_ours: Callable[[int], bool],
    changed: Callable[[memoryview], Sequence[Record]] | None = None,
    *,
    holes_from: tuple[int, int],
    source_end: int,
) -> Matched | Mismatch:
    """Match as :func:`mirror.copier.tail_match.match_tail` does, with holes on both sides (REC-07).

    Parameters
    ----------
    holes_from
        offsets of source and target from which on an offset without a record is a hole: the recorded positions, or the
        starts of the logs if these lie behind them.
    source_end
        where the source ends.
    """
    originals = _Originals(source, upstream, changed)
    runs: list[Run] = []
    position, count = upstream, 0
    first, expected = holes_from
    # Offsets of the target that hold nothing now, without those that originals were found for, and records of the tail
    # that have no original now. They are not begun anew with each pair: where records are alike it may be a wrong one.
    absent, gone = 0, 0
    for content, header in tail:
        if header.is_transactional or not is_ours(header.producer_id):
            # What others wrote is no hole; of theirs, too, some may be gone.
            absent += max(0, header.base_offset - expected)
            expected = max(expected, header.next_offset)
            continue
        # A target that stamps records itself has not kept their timestamps.
        kept = slice(2, 5) if header.has_append_time else slice(1, 5)
        for record in batch.records(content):
            absent += record.offset - expected
            expected = record.offset + 1
            skipped = originals.find(tuple(record)[kept], kept, most_skipped=absent)
            if skipped is not None:
                found = originals.take(skipped)
                extend(runs, Run(found, record.offset, 1))
                position, absent = found + 1, absent - skipped
                count += 1
                continue
            gone += 1
            if gone > originals.holes(first, source_end, skipped=absent):
                return Mismatch(
                    f"the target holds a record at offset {record.offset}, written by this flow (producer id "
                    f"{header.producer_id}), that is not the source's from offset {position} on, nor can compaction "
                    "have removed it there"
                )
    return Matched(position, tuple(runs), count)


class _Originals:
    """The records of the source from a position on, with a look ahead."""

    def __init__(
        self, batches: Iterable[Batch], upstream: int, changed: Callable[[memoryview], Sequence[Record]] | None
    ) -> None:
        self._records = _records(batches, upstream, changed or batch.records)
        self._ahead: deque[Record] = deque()
        self._passed = 0

    def find(self, wanted: tuple[object, ...], kept: slice, *, most_skipped: int) -> int | None:
        """Return how many records stand before a wanted one, if it is among the next."""
        self._look(most_skipped + 1)
        candidates = islice(self._ahead, most_skipped + 1)
        return next((skipped for skipped, record in enumerate(candidates) if tuple(record)[kept] == wanted), None)

    def take(self, skipped: int) -> int:
        """Pass on behind a record that was found, and return its offset."""
        for _ in range(skipped):
            self._ahead.popleft()
        self._passed += skipped + 1
        return self._ahead.popleft().offset

    def holes(self, first: int, end: int, *, skipped: int) -> int:
        """Return how many offsets from ``first`` on hold nothing, up to behind so many more records that are there."""
        self._look(skipped + 1)
        if len(self._ahead) > skipped:
            return self._ahead[skipped].offset - first - self._passed - skipped
        return end - first - self._passed - len(self._ahead)

    def _look(self, count: int) -> None:
        while len(self._ahead) < count:
            record = next(self._records, None)
            if record is None:
                return
            self._ahead.append(record)


def _records(
    batches: Iterable[Batch], upstream: int, decode: Callable[[memoryview], Sequence[Record]]
) -> Iterator[Record]:
    for content, _ in batches:
        for record in decode(content):
            if record.offset >= upstream:
                yield record
