"""Matching the tail where compaction has thinned the source or the target since it was copied.

Then records of the tail have no original any more, and originals no copy, and both logs have holes where they were. The
copy is in the order of the source, so the last record of the tail that still has its original says how far it had got:
all that the source has left before it was copied. What came behind it and is gone from the source was replaced there by
a later record of its key, which is still to be copied.

What is not explained by holes is no compaction, and a mismatch as ever. Where a record is gone from the source and the
same, to the millisecond, stands there once more, the tail may seem to have got further than it had. That shows in what
was passed over to get there: a cleaner removes a copy only for a later one of its key, and keeps the newest of a key.
Where that later one is not found, only what came before is taken for copied: rather too little than too much.

Invariants:

(a) A tail that compaction has thinned is matched by its last record that still has its original
    (``copier/thinned_match.py``): the copy is in the source's order. Offsets without records must explain what is
    gone on either side; a mismatch is what they do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    downstream: int = 0,
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
    debts = _Debts()
    for content, header in tail:
        if header.is_transactional or not is_ours(header.producer_id):
            # What others wrote is no hole; of theirs, too, some may be gone.
            absent += max(0, header.base_offset - expected)
            expected = max(expected, header.next_offset)
            continue
        # A target that stamps records itself has not kept their timestamps.
        kept = slice(2, 5) if header.has_append_time else slice(1, 5)
        for record in batch.records(content):
            if record.offset < downstream:
                continue
            absent += max(0, record.offset - expected)
            expected = max(expected, record.offset + 1)
            skipped = originals.find(tuple(record)[kept], kept, most_skipped=absent)
            if skipped is not None:
                *passed, original = originals.take(skipped + 1)
                found = original.offset
                for each in passed:
                    debts.owe(each.key, position)
                debts.pay(record.key, found)
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
    certain = debts.certain_to()
    if certain is not None:
        position = certain
        runs = [_up_to(run, certain) for run in runs if run.upstream < certain]
        count = sum(run.length for run in runs)
    return Matched(position, tuple(runs), count)


@dataclass(slots=True)
class _Debt:
    """An original was passed over: up to where all had been found before, and the later one of its key."""

    before: int
    paid_by: int | None = None


class _Debts:
    """The later copies of the keys of what was passed over, for which the cleaner can have removed its copy."""

    def __init__(self) -> None:
        self._all: list[_Debt] = []
        self._unpaid: dict[bytes | None, list[_Debt]] = {}

    def owe(self, key: bytes | None, before: int) -> None:
        debt = _Debt(before)
        self._all.append(debt)
        self._unpaid.setdefault(key, []).append(debt)

    def pay(self, key: bytes | None, found: int) -> None:
        for debt in self._unpaid.pop(key, ()):
            debt.paid_by = found

    def certain_to(self) -> int | None:
        """Return the position behind which nothing that was found is certain; nothing if all is."""
        certain: int | None = None
        for debt in reversed(self._all):
            # What was found behind that position pays for nothing.
            if debt.paid_by is None or (certain is not None and debt.paid_by >= certain):
                certain = debt.before
        return certain


def _up_to(run: Run, upstream: int) -> Run:
    return Run(run.upstream, run.downstream, min(run.length, upstream - run.upstream))


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

    def take(self, count: int) -> list[Record]:
        """Pass over so many of the records ahead, and return them."""
        self._passed += count
        return [self._ahead.popleft() for _ in range(count)]

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
