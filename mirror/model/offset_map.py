"""The exact offset map: which downstream offset each upstream offset was copied to, as runs.

A run says that ``length`` consecutive upstream offsets became as many consecutive downstream offsets. What lies
between two runs upstream (transaction markers, records removed by compaction, aborted data, gaps) has no copy; what
lies between them downstream (markers, other writers) is no copy. So a position translates exactly, in both directions,
and a hole is known to be a hole.

Downstream a reader passes a hole of the source: nothing of it is there. Back upstream it does not: what was not copied
it has not read. So there and back leads no further than where one began.

Invariants:

(a) Going back cuts the offset map. Runs at and behind the divergence are forgotten in one batch with the position;
    orphaned copies stay on the target, and both directions stay in order. A re-created topic starts a new map.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple

from mirror.model.mm2_trace import Pair
from mirror.model.packed_runs import packed, unpacked
from mirror.model.translation import Bounded, Exact, NotMirrored, Same, TooOld, Translation


class Run(NamedTuple):
    """``length`` consecutive records: upstream offsets from ``upstream``, downstream offsets from ``downstream``."""

    upstream: int
    downstream: int
    length: int

    @property
    def upstream_end(self) -> int:
        """One past the last upstream offset of the run."""
        return self.upstream + self.length

    @property
    def downstream_end(self) -> int:
        """One past the last downstream offset of the run."""
        return self.downstream + self.length


def extend(runs: list[Run], later: Run) -> None:
    """Append ``later`` to ``runs`` in place, as part of the last run where it continues it."""
    if runs:
        upstream, downstream, length = runs[-1]
        if later.upstream == upstream + length and later.downstream == downstream + length:
            runs[-1] = Run(upstream, downstream, length + later.length)
            return
    runs.append(later)


def runs_of(offsets: Iterable[int], downstream: int) -> list[Run]:
    """Return the runs of records with these ascending upstream offsets, copied densely from ``downstream`` on."""
    runs: list[Run] = []
    for position, upstream in enumerate(offsets):
        extend(runs, Run(upstream, downstream + position, 1))
    return runs


def cut(spans: Sequence[tuple[int, int]], count: int) -> tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]:
    """Return spans (first offset, count) of records in two parts, the first with ``count`` records."""
    before: list[tuple[int, int]] = []
    for position, (offset, length) in enumerate(spans):
        if length > count:
            head = [(offset, count)] if count else []
            return [*before, *head], [(offset + count, length - count), *spans[position + 1 :]]
        before.append((offset, length))
        count -= length
    return before, ()


def runs_before(runs: Iterable[Run], upstream: int) -> tuple[Run, ...]:
    """Return what the runs say of the offsets before the position ``upstream``."""
    return tuple(
        run if run.upstream_end <= upstream else Run(run.upstream, run.downstream, upstream - run.upstream)
        for run in runs
        if run.upstream < upstream
    )


def runs_from(runs: Iterable[Run], upstream: int) -> tuple[Run, ...]:
    """Return what the runs say of the offsets from the position ``upstream`` on."""
    return tuple(
        Run(run.upstream + past, run.downstream + past, run.length - past)
        for run in runs
        if (past := max(0, upstream - run.upstream)) < run.length
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some runs in a row as they are written down; only where they begin and end is unpacked before they are needed.

    Attributes
    ----------
    content
        the packed runs, JSON.
    upstream, downstream
        where the first run begins.
    upstream_end, downstream_end
        one past the last run.
    """

    content: bytes
    upstream: int
    downstream: int
    upstream_end: int
    downstream_end: int

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Chunk:
        """Return the chunk of these runs, which ascend in both offsets."""
        return cls.parse(json.dumps(packed(tuple(runs)), separators=(",", ":")).encode())

    @classmethod
    def parse(cls, content: bytes) -> Chunk:
        """Read a chunk.

        Raises
        ------
        KeyError, TypeError, ValueError
            if it is none.
        """
        value = json.loads(content)
        if not value["runs"]:
            return cls(content, 0, 0, 0, 0)
        (upstream, downstream), (upstream_end, downstream_end) = value["from"], value["to"]
        return cls(content, upstream, downstream, upstream_end, downstream_end)

    @property
    def is_empty(self) -> bool:
        """Whether there is no run in it."""
        return self.upstream == self.upstream_end

    def runs(self) -> tuple[Run, ...]:
        """Return the runs."""
        return tuple(Run(*numbers) for numbers in unpacked(json.loads(self.content)))


class Runs:
    """The runs of a map, in ascending order of both offsets, packed in chunks.

    A million runs are some megabytes; to look one up, one chunk is unpacked.
    """

    __slots__ = ("_chunks",)

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        """Take the chunks as they are."""
        self._chunks = tuple(chunk for chunk in chunks if not chunk.is_empty)

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Runs:
        """Return these runs."""
        return cls([Chunk.of(runs)])

    def __iter__(self) -> Iterator[Run]:
        return (run for chunk in self._chunks for run in chunk.runs())

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Runs) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Runs.of({list(self)})"

    @property
    def first(self) -> Run | None:
        """The first run."""
        return self._chunks[0].runs()[0] if self._chunks else None

    def before(self, upstream: int) -> Runs:
        """Return what is said of the offsets before the position ``upstream``."""
        kept = [chunk for chunk in self._chunks if chunk.upstream < upstream]
        return Runs(
            chunk if chunk.upstream_end <= upstream else Chunk.of(runs_before(chunk.runs(), upstream)) for chunk in kept
        )

    def within(self, start: int, end: int) -> Runs:
        """Return what is said of the upstream offsets from ``start`` up to, not including, ``end``."""
        first = bisect_right(self._chunks, start, key=lambda chunk: chunk.upstream_end)
        kept = takewhile(lambda chunk: chunk.upstream < end, islice(self._chunks, first, None))
        return Runs(
            chunk
            if start <= chunk.upstream and chunk.upstream_end <= end
            else Chunk.of(runs_from(runs_before(chunk.runs(), end), start))
            for chunk in kept
        )

    def behind(self, upstream: int) -> Run | None:
        """Return the first run that reaches beyond an upstream position."""
        at = bisect_right(self._chunks, upstream, key=lambda chunk: chunk.upstream_end)
        runs = self._chunks[at].runs() if at < len(self._chunks) else ()
        return _first(runs, bisect_right(runs, upstream, key=lambda run: run.upstream_end))

    def behind_copy(self, downstream: int) -> Run | None:
        """Return the first run that reaches beyond a downstream position."""
        at = bisect_right(self._chunks, downstream, key=lambda chunk: chunk.downstream_end)
        runs = self._chunks[at].runs() if at < len(self._chunks) else ()
        return _first(runs, bisect_right(runs, downstream, key=lambda run: run.downstream_end))

    def last_before_copy(self, downstream: int) -> Run | None:
        """Return the last run with a copy before a downstream position."""
        at = bisect_left(self._chunks, downstream, key=lambda chunk: chunk.downstream)
        runs = self._chunks[at - 1].runs() if at else ()
        index = bisect_left(runs, downstream, key=lambda run: run.downstream)
        return runs[index - 1] if index else None

    def not_copied(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what of the downstream offsets from ``start`` up to, not including, ``end`` is in no run."""
        while start < end:
            run = self.behind_copy(start)
            if run is None or run.downstream > start:
                yield start, end if run is None else min(end, run.downstream)
            if run is None:
                return
            start = run.downstream_end

    def records_between(self, start: int, end: int) -> int:
        """Return how many records with upstream offsets from ``start`` up to, not including, ``end`` were copied."""
        first = bisect_right(self._chunks, start, key=lambda chunk: chunk.upstream_end)
        count = 0
        for chunk in takewhile(lambda chunk: chunk.upstream < end, islice(self._chunks, first, None)):
            count += sum(max(0, min(run.upstream_end, end) - max(run.upstream, start)) for run in chunk.runs())
        return count

    def copies_between(self, start: int, end: int) -> int:
        """Return how many copies have downstream offsets from ``start`` up to, not including, ``end``."""
        first = bisect_right(self._chunks, start, key=lambda chunk: chunk.downstream_end)
        count = 0
        for chunk in takewhile(lambda chunk: chunk.downstream < end, islice(self._chunks, first, None)):
            count += sum(max(0, min(run.downstream_end, end) - max(run.downstream, start)) for run in chunk.runs())
        return count


@dataclass(frozen=True, slots=True)
class SparseOffsetMap:
    """A stretch that Java MirrorMaker copied and of which only its offset syncs are known.

    Attributes
    ----------
    start, end
        the upstream offsets it spans, ``end`` not included.
    downstream_start, downstream_end
        where what was copied of them stands.
    pairs
        what its syncs say, ascending in both offsets; behind each a reader misses nothing.
    """

    start: int
    end: int
    downstream_start: int
    downstream_end: int
    pairs: tuple[Pair, ...]

    def translate(self, position: int) -> Translation:
        """Return where a reader at an upstream position inside goes on downstream, at least."""
        index = bisect_right(self.pairs, position, key=lambda pair: pair.upstream) - 1
        if index < 0:
            return TooOld(self.pairs[0].upstream if self.pairs else self.end)
        upstream, downstream = self.pairs[index]
        if upstream == position:
            return Exact(downstream)
        following = self.pairs[index + 1].downstream if index + 1 < len(self.pairs) else self.downstream_end
        return _between(downstream + 1, position - upstream - 1, following)

    def translate_back(self, position: int) -> Translation:
        """Return where a reader at a downstream position inside goes on upstream, at least."""
        index = bisect_right(self.pairs, position, key=lambda pair: pair.downstream) - 1
        if index < 0:
            return TooOld(self.pairs[0].downstream if self.pairs else self.downstream_end)
        upstream, downstream = self.pairs[index]
        if downstream == position:
            before = self.pairs[index - 1] if index else None
            # Of what lies between two copies in a row there is none.
            return Exact(before.upstream + 1 if before and before.downstream + 1 == downstream else upstream)
        following = self.pairs[index + 1].upstream if index + 1 < len(self.pairs) else self.end
        return _between(upstream + 1, position - downstream - 1, following)

    @property
    def read_through(self) -> int:
        """The upstream position of a reader who has read all that was copied of it."""
        last = self.pairs[-1] if self.pairs else None
        return last.upstream + 1 if last and last.downstream + 1 == self.downstream_end else self.end


def _between(position: int, behind: int, following: int) -> Translation:
    """Return a position that is at most ``behind`` records, and not further than ``following``, from the exact one."""
    behind = min(behind, following - position)
    return Bounded(position, behind) if behind > 0 else Exact(position)


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """The runs of one partition, in order, and the ends of what they speak of.

    Attributes
    ----------
    origin
        the upstream position where copying began, nothing before it was ever copied.
    complete_from_origin
        whether nothing older existed upstream when copying began, so that a position before ``origin`` is exact too.
    runs
        in ascending order of both offsets.
    upstream_next, downstream_next
        the positions up to which the map speaks.
    sparse maps
        what Java MirrorMaker copied, known only by its syncs; in ascending order.
    is_pruned
        whether runs before the first were forgotten, because the target has nothing of them any more. A position among
        them leads to the first run; back, nothing is known of what was read before it.
    same_offsets
        whether the copy has the source's offsets: where it has no record, readers pass what fills the offset.
    """

    origin: int
    complete_from_origin: bool
    runs: Runs
    upstream_next: int
    downstream_next: int
    sparse_maps: tuple[SparseOffsetMap, ...] = ()
    is_pruned: bool = False
    same_offsets: bool = False

    @property
    def has_copies(self) -> bool:
        """Whether it speaks of any copy, so that a position in the copy tells what was read."""
        return bool(self.runs or self.sparse_maps)

    @property
    def expected_runs(self) -> Runs:
        """Where each record is to lie; with the source's offsets that does not depend on what is on record."""
        end = min(self.upstream_next, self.downstream_next)
        if not self.same_offsets or end <= self.origin:
            return self.runs
        return Runs.of([Run(self.origin, self.origin, end - self.origin)])

    def translate(self, position: int) -> Translation:
        """Return where a reader at upstream ``position`` goes on downstream: at the first copied record not before it.

        A position past what was copied is bounded: the reader goes to the end of the copy and will meet, at most, the
        records between ``upstream_next`` and its position again once they are mirrored.
        """
        if position > self.upstream_next:
            return Bounded(self.downstream_next, position - self.upstream_next)
        if self.same_offsets and self.origin <= position <= self.downstream_next:
            return Same(position)
        for sparse_map in self.sparse_maps:
            if sparse_map.start <= position < sparse_map.end:
                return sparse_map.translate(position)
        if position < self.origin and not self.complete_from_origin:
            return TooOld(self.origin)
        run = self.runs.behind(position)
        if run is None:
            return Exact(self.downstream_next)
        return Exact(run.downstream + max(0, position - run.upstream))

    def translate_back(self, position: int) -> Translation:
        """Return where a reader at downstream ``position`` goes on upstream: behind the source of the last copy before.

        Not at the source of the first copy that follows: what lies between the two has no copy, so it was not read.
        Where nothing was copied yet there are markers alone, which consumers pass: they have read nothing.
        """
        if position > self.downstream_next:
            return Bounded(self.upstream_next, position - self.downstream_next)
        passed: SparseOffsetMap | None = None
        for sparse_map in self.sparse_maps:
            if sparse_map.downstream_start <= position < sparse_map.downstream_end:
                return sparse_map.translate_back(position)
            if sparse_map.downstream_end <= position:
                passed = sparse_map
        run = self.runs.last_before_copy(position)
        if run is not None and (passed is None or passed.downstream_end <= run.downstream):
            return Exact(run.upstream + min(position - run.downstream, run.length))
        if passed is not None:
            return Exact(passed.read_through)
        first = self.runs.first
        if first is None:
            return Exact(self.origin) if self.complete_from_origin and not self.is_pruned else NotMirrored()
        if self.is_pruned or (position < first.downstream and not self.complete_from_origin):
            return TooOld(first.downstream)
        return Exact(self.origin)

    def source_of(self, position: int) -> int | None:
        """Return the upstream offset of the first copy at or behind a downstream position; None if it is not known.

        Where none follows: where the next one will come from.
        """
        sparse_map = self.sparse_map_behind(position)
        if sparse_map is not None:
            return next((pair.upstream for pair in sparse_map.pairs if pair.downstream == position), None)
        first = self.runs.first
        if first is None or position > self.downstream_next:
            return None
        if position < first.downstream and not (self.complete_from_origin or self.is_pruned):
            return None
        run = self.runs.behind_copy(position)
        return self.upstream_next if run is None else run.upstream + max(0, position - run.downstream)

    def sparse_map_behind(self, position: int) -> SparseOffsetMap | None:
        """Return the stretch of the first copy at or behind a downstream position; None if that is of a run."""
        sparse_map = next((each for each in self.sparse_maps if position < each.downstream_end), None)
        run = self.runs.behind_copy(position)
        return sparse_map if sparse_map is None or run is None or sparse_map.downstream_start < run.downstream else None


def _first(runs: Sequence[Run], index: int) -> Run | None:
    return runs[index] if index < len(runs) else None
