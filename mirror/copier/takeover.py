"""Taking over from Java MirrorMaker: how much of the source already lies on the target, told by syncs and contents.

MirrorMaker records its position every 60 s; what it wrote after that, up to its death, is on the target and nowhere
written down. Its producers leave no mark: by default they have no producer id, and every start makes another. What is
known is an *anchor* (:mod:`mirror.model.mm2_trace`), a place where both logs correspond, and what MirrorMaker does:

* within one life of its task it copies the source in order and leaves nothing out;
* a new life goes back to the recorded position, which is never past what was copied, and begins with a batch of its
  own; an offset sync says where;
* its producer cuts batches anew, compresses them its own way, and may send one again.

From the anchor on the batches of the target are taken one by one. The law, in this order:

1. A sync that points into a batch says which source record stands there. The contents must agree.
2. Otherwise a batch whose records are the next ones of the source, behind the last copy or behind the furthest, is
   their copy.
3. Otherwise a batch whose records are earlier ones of the source is a copy made again: a life that began without
   leaving a sync, or a batch sent twice. If there are several places that would lead to different ends, the match
   fails as ambiguous.
4. Otherwise it is not MirrorMaker's, and passed over, if it can be of another writer: it has a producer id that no copy
   has, or others may write to the topic, as they do when it is not renamed.
5. Otherwise nothing is guessed: the match fails, and says where.

Records are compared by timestamp, key, value and headers; by the latter three where the target stamps records itself,
or the source's have no timestamp (REC-03). A record that the source no longer has (compaction, retention) is passed
over where the source has a hole, no more of them than the hole is wide.

Without any sync an anchor is looked for by contents: MirrorMaker's last recorded record, or the source's first. Where
several places fit and lead to different ends, as with records that are all alike, the match fails as ambiguous.

The copy goes on behind the furthest record found. What is found twice stays there twice; it was MirrorMaker's doing, is
counted, and the offset map leads a reader to the last copy behind which nothing is missing.

Invariants:

(a) Syncs can hide a rewind: when the target grew by more than the source between two syncs, MirrorMaker may have gone
    back; the match begins before that.
(b) Connect switches its producers' idempotence off, so MirrorMaker's batches carry no producer id; only its syncs say
    what is its own.
(c) A later copy is not always the better one for a reader: it counts only once it got as far as the former.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mirror.copier.tail_match import Batch
from mirror.kafka.batch import NO_PRODUCER
from mirror.kafka.fingerprints import Fingerprints, Numbers
from mirror.model.mm2_trace import Anchor, Pair, Stretch
from mirror.model.offset_map import Run, extend, runs_before

_NO_TIMESTAMP = -1
# More places than these where the copy could begin are not tried: the records are too much alike.
_MOST_PLACES = 16


@dataclass(frozen=True, slots=True)
class Found:
    """How much of the source was found on the target.

    Attributes
    ----------
    upstream
        where copying goes on.
    runs
        what lies where, ascending in both offsets.
    records
        how many records of the target are copies; ``doubled`` of them are there for a second time.
    foreign
        records of other writers; ``gone`` records that the source no longer has.
    """

    upstream: int
    runs: tuple[Run, ...]
    records: int = 0
    doubled: int = 0
    foreign: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Unclear:
    """The logs do not say how much was copied."""

    reason: str


class JavaWrote(Exception):
    """A sync points into a batch on the target that none of this flow's writers has written."""


def watched(tail: Iterable[Batch], stretches: Iterable[Stretch], is_ours: Callable[[int], bool]) -> Iterator[Batch]:
    """Yield the batches of a tail; only a mirror leaves syncs, so one in another's batch is Java MirrorMaker's.

    Raises
    ------
    JavaWrote
        at the first such batch.
    """
    marks = [pair.downstream for stretch in stretches for pair in stretch]
    for content, header in tail:
        mark = bisect_left(marks, header.base_offset)
        if mark < len(marks) and marks[mark] < header.next_offset and not is_ours(header.producer_id):
            raise JavaWrote
        yield content, header


class SourceLog:
    """The prints of the source from an offset on, read as far as needed and kept."""

    def __init__(self, batches: Iterable[Fingerprints], start: int) -> None:
        """Begin at offset ``start``; the first batch may begin before it."""
        self.start = start
        self._batches = iter(batches)
        self._count = 0
        self._offsets, self._times, self._hashes = (np.empty(1024, np.int64) for _ in range(3))
        self._order: Numbers = np.empty(0, np.int64)
        self._sorted: Numbers = self._order

    @property
    def offsets(self) -> Numbers:
        """The offsets of the records read so far."""
        return self._offsets[: self._count]

    def first_timestamp(self) -> int | None:
        """Return the timestamp of the first record in ms, None when there is none."""
        return int(self._times[0]) if self.has(1) else None

    def has(self, count: int) -> bool:
        """Read on until there are ``count`` records; return whether there are so many."""
        while self._count < count and self._read():
            pass
        return self._count >= count

    def index_of(self, offset: int) -> int:
        """Return the index of the first record at or behind an offset."""
        while (not self._count or self._offsets[self._count - 1] < offset) and self._read():
            pass
        return int(np.searchsorted(self.offsets, offset))

    def hole_before(self, index: int) -> int:
        """Return how many offsets before a record, or the end, have none."""
        if not self.has(index + 1):
            return 0
        previous = int(self._offsets[index - 1]) if index else self.start - 1
        return int(self._offsets[index]) - previous - 1

    def agrees(self, index: int, copy: Fingerprints) -> bool:
        """Whether the records from ``index`` on are those of ``copy``."""
        stop = index + len(copy.hashes)
        if index < 0 or not self.has(stop) or not np.array_equal(self._hashes[index:stop], copy.hashes):
            return False
        times = self._times[index:stop]
        return copy.has_append_time or bool(np.all((times == copy.times) | (times == _NO_TIMESTAMP)))

    def record_agrees(self, index: int, copy: Fingerprints, number: int) -> bool:
        """Whether the record at ``index`` is the one in ``copy`` with that number."""
        return (
            self.has(index + 1)
            and self._hashes[index] == copy.hashes[number]
            and (copy.has_append_time or self._times[index] in (copy.times[number], _NO_TIMESTAMP))
        )

    def copies_of_first(self, copy: Fingerprints) -> list[int]:
        """Return the numbers of those records in ``copy`` that are the first one of the source."""
        numbers = np.flatnonzero(copy.hashes == self._hashes[0]) if self.has(1) else ()
        return [int(number) for number in numbers if self.record_agrees(0, copy, int(number))]

    def places(self, copy: Fingerprints, before: int) -> list[int]:
        """Return the indices below ``before`` from which the records are those of ``copy``."""
        if before - len(self._order) > max(len(self._order), 1 << 12):
            self._order = np.argsort(self._hashes[:before], kind="stable")
            self._sorted = self._hashes[self._order]
        first = copy.hashes[0]
        low, high = np.searchsorted(self._sorted, first, "left"), np.searchsorted(self._sorted, first, "right")
        known = [int(index) for index in self._order[low:high] if index < before]
        tail = np.flatnonzero(self._hashes[len(self._order) : before] == first) + len(self._order)
        return [index for index in (*known, *(int(each) for each in tail)) if self.agrees(index, copy)]

    def _read(self) -> bool:
        """Take in one more batch; return whether there was one."""
        following = next(self._batches, None)
        if following is None:
            return False
        more = following.from_offset(self.start)
        count = self._count + len(more.offsets)
        while count > len(self._offsets):
            self._offsets, self._times, self._hashes = (
                np.concatenate([each, np.empty_like(each)]) for each in (self._offsets, self._times, self._hashes)
            )
        here = slice(self._count, count)
        self._offsets[here], self._times[here], self._hashes[here] = more.offsets, more.times, more.hashes
        self._count = count
        return True


def match(
    source: SourceLog,
    target: Iterable[Fingerprints],
    anchor: Anchor,
    position: int | None,
    *,
    is_ours: Callable[[int], bool],
    is_shared: bool,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Found | Unclear:
    """Find out from an anchor on how much of the source lies on the target.

    Parameters
    ----------
    source
        from ``anchor.source_from`` on.
    target
        the committed data batches from ``anchor.at.downstream`` on; the first may begin before it.
    position
        MirrorMaker's recorded position, if any.
    is_ours
        whether a producer id is one of this flow's own writers, who copy in order as well.
    is_shared
        whether others may write to the target topic.
    on_progress
        is given how many records of the target were looked at, now and then.
    """
    walk = _Walk(source, anchor, is_ours=is_ours, is_shared=is_shared)
    return walk.take_all(target, on_progress) or walk.found(position)


def search(
    source: SourceLog,
    target: Sequence[Fingerprints],
    position: int | None,
    *,
    is_ours: Callable[[int], bool],
    is_shared: bool,
) -> Found | Unclear | None:
    """Find out without any sync how much of the source lies on the target.

    Parameters
    ----------
    source
        from the last record before ``position`` on, or from its beginning.
    target
        the committed data batches from where the first copy of any of that can stand.

    Returns
    -------
    None when nothing of it is there
    """
    if not source.has(1):
        return None
    first = int(source.offsets[0])
    places = [
        Pair(first, int(copy.offsets[number]))
        for copy in target
        for number in source.copies_of_first(copy)
        if source.agrees(0, copy.from_offset(int(copy.offsets[number])))
    ]
    if len(places) > _MOST_PLACES:
        return Unclear(f"the target has {len(places)} records like the one at upstream offset {first}")
    if not places:
        if position is not None and first < position:
            return Unclear(f"the record at upstream offset {first}, the last one it recorded, is not on the target")
        return None
    found: list[Found] = []
    unclear: list[Unclear] = []
    left = places
    while left:
        walk = _Walk(source, Anchor(left[0], False, first, {}), is_ours=is_ours, is_shared=is_shared)
        problem = walk.take_all(target)
        if problem is None:
            found.append(walk.found(position))
            # These have been understood as the same record copied again.
            left = [place for place in left[1:] if place.downstream not in walk.first_copies]
        else:
            unclear.append(problem)
            left = left[1:]
    if len({outcome.upstream for outcome in found}) > 1:
        ends = ", ".join(str(outcome.upstream) for outcome in found)
        return Unclear(
            f"the record at upstream offset {first} can be any of {len(found)} on the target, after which copying "
            f"would go on at {ends}"
        )
    return found[0] if found else unclear[0]


class _Walk:
    """Follows the batches of the target through the source.

    Attributes
    ----------
    first_copies
        where on the target the first record of the source was found.
    """

    def __init__(self, source: SourceLog, anchor: Anchor, *, is_ours: Callable[[int], bool], is_shared: bool) -> None:
        self._source = source
        self._anchor = anchor
        marks = [Pair(upstream, downstream) for downstream, upstream in anchor.marks.items()]
        self._marks = [anchor.at, *marks] if anchor.is_record else marks
        self._is_ours = is_ours
        self._is_shared = is_shared
        self._writers: set[int] = set()
        self.first_copies: set[int] = set()
        self._begin = self._cursor = self._frontier = source.index_of(anchor.at.upstream)
        self._runs: list[Run] = []
        # What is copied again, from where MirrorMaker went back to; it counts once it gets as far as before.
        self._again: list[Run] | None = None
        self._again_from = 0
        self._hole_used = (0, 0)
        self._records = self._doubled = self._foreign = self._gone = 0

    def take_all(
        self, target: Iterable[Fingerprints], on_progress: Callable[[int], None] = lambda _: None
    ) -> Unclear | None:
        """Take in the batches of the target; return why one cannot be understood, if so."""
        seen = 0
        for each in target:
            copy = each.from_offset(self._anchor.at.downstream)
            if len(copy.offsets):
                unclear = self._take(copy)
                if unclear is not None:
                    return unclear
                seen += len(copy.offsets)
                on_progress(seen)
        return None

    def _take(self, copy: Fingerprints) -> Unclear | None:
        marked = self._marked(copy)
        start = self._cursor if marked is None else marked
        if start > self._frontier:
            return Unclear(
                f"an offset sync says that upstream offset {self._offset(start)} was copied to the batch at "
                f"{copy.offsets[0]} of the target, but nothing from {self._offset(self._frontier)} on was found before"
            )
        indices = self._aligned(start, copy)
        if marked is None and indices is None and self._cursor < self._frontier:
            start, indices = self._frontier, self._aligned(self._frontier, copy)
        if marked is not None and indices is None:
            return self._not_the_sources(copy)
        if indices is not None and (marked is not None or np.any(indices >= 0) or not self._can_be_foreign(copy)):
            if not self._marks and self._is_ambiguous(copy):
                return self._ambiguous(copy)
            self._took(start, indices, copy)
            return None
        places = self._source.places(copy, self._frontier)
        ends = {max(self._frontier, place + len(copy.hashes)) for place in places}
        if len(ends) > 1:
            return self._ambiguous(copy)
        if places:
            self._took(max(places), np.arange(max(places), max(places) + len(copy.hashes)), copy)
            return None
        if self._can_be_foreign(copy):
            self._foreign += len(copy.hashes)
            return None
        return self._not_the_sources(copy)

    def found(self, position: int | None) -> Found:
        """Return what was found, when the target has ended."""
        upstream = self._offset(self._frontier - 1) + 1 if self._frontier > self._begin else self._anchor.at.upstream
        if position is not None and position > upstream:
            # Between the two the source has no record: MirrorMaker has been past it.
            has_more = self._source.has(self._frontier + 1)
            if not has_more or self._offset(self._frontier) >= position:
                upstream = position
        return Found(upstream, tuple(self._runs), self._records, self._doubled, self._foreign, self._gone)

    def _offset(self, index: int) -> int:
        if self._source.has(index + 1):
            return int(self._source.offsets[index])
        return int(self._source.offsets[-1]) + 1 if len(self._source.offsets) else self._source.start

    def _marked(self, copy: Fingerprints) -> int | None:
        """Return the index of the batch's first record as a sync says; None when none points into the batch."""
        first = bisect_left(self._marks, int(copy.offsets[0]), key=lambda mark: mark.downstream)
        if first == len(self._marks) or self._marks[first].downstream > copy.offsets[-1]:
            return None
        upstream, downstream = self._marks[first]
        number = int(np.searchsorted(copy.offsets, downstream))
        return max(0, self._source.index_of(upstream) - number) if copy.offsets[number] == downstream else None

    def _aligned(self, start: int, copy: Fingerprints) -> Numbers | None:
        """Return the index of each record of the batch, -1 for what the source no longer has; None if it differs."""
        count = len(copy.hashes)
        if self._source.agrees(start, copy):
            return np.arange(start, start + count)
        index, used = start, self._used_before(start)
        indices = np.full(count, -1, np.int64)
        for number in range(count):
            if self._source.record_agrees(index, copy, number):
                indices[number] = index
                index, used = index + 1, 0
            elif used < self._source.hole_before(index):
                used += 1
            else:
                return None
        return indices

    def _used_before(self, start: int) -> int:
        """Return how many records the hole before a record has explained: it explains no more than it is wide."""
        index, used = self._hole_used
        return used if index == start else 0

    def _took(self, start: int, indices: Numbers, copy: Fingerprints) -> None:
        if start < self._cursor:
            self._goes_back(start)
        elif start > self._cursor:
            # It begins again further on than the last life got, so that one is no way on for a reader.
            self._again, self._again_from = ([], start) if start < self._frontier else (None, 0)
        there = indices >= 0
        upstream, downstream = self._source.offsets[indices[there]], copy.offsets[there]
        runs = self._runs if self._again is None else self._again
        for run in _runs(upstream, downstream):
            extend(runs, run)
        if len(upstream):
            self._writers.add(copy.producer_id)
        self._records += len(upstream)
        self.first_copies.update(int(offset) for offset in copy.offsets[indices == 0])
        self._doubled += int(np.count_nonzero(indices[there] < self._frontier))
        self._gone += len(indices) - len(upstream)
        if len(upstream):
            self._cursor = int(indices[there][-1]) + 1
            self._hole_used = (self._cursor, int(np.argmax(there[::-1])))
        else:
            self._hole_used = (start, self._used_before(start) + len(indices))
        if self._again is not None and self._cursor >= self._frontier:
            self._runs = [*runs_before(self._runs, self._offset(self._again_from)), *self._again]
            self._again = None
        self._frontier = max(self._frontier, self._cursor)

    def _goes_back(self, start: int) -> None:
        if self._again is None or start <= self._again_from:
            self._again, self._again_from = [], start
        else:
            self._again = list(runs_before(self._again, self._offset(start)))
        self._cursor = start

    def _is_ambiguous(self, copy: Fingerprints) -> bool:
        """Whether a batch that can be the next one can be an earlier one, too; with syncs a going back would show."""
        return self._cursor == self._frontier and bool(self._source.places(copy, self._frontier))

    def _can_be_foreign(self, copy: Fingerprints) -> bool:
        producer_id = copy.producer_id
        if self._is_ours(producer_id):
            return False
        if producer_id == NO_PRODUCER:
            return self._is_shared or (bool(self._writers) and NO_PRODUCER not in self._writers)
        return producer_id not in self._writers

    def _ambiguous(self, copy: Fingerprints) -> Unclear:
        return Unclear(
            f"the {len(copy.hashes)} records from offset {copy.offsets[0]} of the target on can be copies of different "
            f"ones of the source, which are too much alike"
        )

    def _not_the_sources(self, copy: Fingerprints) -> Unclear:
        return Unclear(
            f"the {len(copy.hashes)} records from offset {copy.offsets[0]} of the target on (producer id "
            f"{copy.producer_id}) are not the source's from offset {self._offset(self._cursor)} on, nor earlier ones"
        )


def _runs(upstream: Numbers, downstream: Numbers) -> Iterator[Run]:
    """Yield the runs of records with these offsets."""
    breaks = np.flatnonzero((np.diff(upstream) != 1) | (np.diff(downstream) != 1)) + 1
    for first, last in zip((0, *breaks), (*breaks, len(upstream)), strict=True):
        if last > first:
            yield Run(int(upstream[first]), int(downstream[first]), int(last - first))
