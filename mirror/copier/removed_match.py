"""Matching the tail where the source has removed the head of what was copied last: retention, or deleted records.

An engine was killed, and came back when the source no longer had what lies behind the position it had recorded. The
copy is in the order of the source, so its tail is made of records that are gone, and behind them of the first that are
left.

Invariants:

(a) How many records of a tail are of what the source still has is taken for known only if no other number fits: by
    contents, and because no more records can be gone than there were offsets. Where records are alike it is not known,
    nor where the tail itself has lost some.
(b) Which offsets the records had that are gone is not known where some held none. The offset map takes them for the
    last ones: a group then goes on no later than where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from mirror.copier.tail_match import Batch, Matched, Mismatch
from mirror.kafka import batch
from mirror.kafka.batch import Record
from mirror.model.offset_map import Run, extend


def match_removed(
    source: Iterable[Batch],
    tail: Iterable[Batch],
    upstream: int,
    is_ours: Callable[[int], bool],
    changed: Callable[[memoryview], Sequence[Record]] | None = None,
    *,
    start: int,
    downstream: int,
) -> Matched | Mismatch:
    """Match as :func:`mirror.copier.tail_match.match_tail` does, of a source that begins behind the position by now.

    Parameters
    ----------
    start
        where the source begins; behind ``upstream``.
    downstream
        the recorded downstream position, from which on nothing of the tail may be missing.
    """
    ours = _ours(tail, is_ours, downstream)
    if isinstance(ours, Mismatch):
        return ours
    copies, has_times = ours
    originals = [_known(each) for each in islice(_records(source, start, changed or batch.records), len(copies))]
    present, wanted = ([each.with_time if has_times else each.content for each in side] for side in (originals, copies))
    fitting = [count for count in _overlaps(present, wanted) if len(copies) - count <= start - upstream]
    count = fitting[0] if len(fitting) == 1 else -1
    gone = len(copies) - count
    # What stands where nothing was copied yet is perhaps the record itself, and another one is missing.
    if count < 0 or not set(wanted[:gone]).isdisjoint(present[count:]):
        return Mismatch(
            f"the target holds {len(copies)} records from offset {downstream} on, written by this flow, and which of "
            f"them are of what the source still has, from offset {start} on, cannot be known"
        )
    runs: list[Run] = []
    offsets = (*range(start - gone, start), *(each.offset for each in originals[:count]))
    for offset, copy in zip(offsets, copies, strict=True):
        extend(runs, Run(offset, copy.offset, 1))
    return Matched(originals[count - 1].offset + 1 if count else start, tuple(runs), len(copies))


class _Known(NamedTuple):
    """A record by its offset and digests of what it holds: a tail can be long, and its values large."""

    offset: int
    with_time: int
    content: int


def _known(record: Record) -> _Known:
    return _Known(record.offset, hash(tuple(record)[1:5]), hash(tuple(record)[2:5]))


def _ours(
    tail: Iterable[Batch], is_ours: Callable[[int], bool], downstream: int
) -> tuple[list[_Known], bool] | Mismatch:
    """Return the flow's records in a tail, and whether the target has kept their timestamps."""
    found: list[_Known] = []
    has_times, expected = True, downstream
    for content, header in tail:
        is_foreign = header.is_transactional or not is_ours(header.producer_id)
        records = [] if is_foreign else batch.records(content)
        places = [each.offset for each in records] or [header.base_offset]
        if places[0] != expected or any(after != before + 1 for before, after in pairwise(places)):
            return Mismatch(f"the target has lost some of what lay from offset {expected} on")
        expected = header.next_offset
        has_times = has_times and not (records and header.has_append_time)
        found += map(_known, records)
    return found, has_times


def _overlaps(first: Sequence[int], last: Sequence[int]) -> Iterator[int]:
    """Yield of how many elements a beginning of ``first`` can be that is an end of ``last``, the longest first."""
    # Of each beginning of ``first``: how long the longest shorter one is that it ends with.
    shorter = [0] * (len(first) + 1)
    length = 0
    for at in range(1, len(first)):
        while length and first[at] != first[length]:
            length = shorter[length]
        length += first[at] == first[length]
        shorter[at + 1] = length
    length = 0
    for each in last:
        while length and (length == len(first) or each != first[length]):
            length = shorter[length]
        length += length < len(first) and each == first[length]
    while length:
        yield length
        length = shorter[length]
    yield 0


def _records(
    batches: Iterable[Batch], start: int, decode: Callable[[memoryview], Sequence[Record]]
) -> Iterator[Record]:
    for content, _ in batches:
        yield from (record for record in decode(content) if record.offset >= start)
