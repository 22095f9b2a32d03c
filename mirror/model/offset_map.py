"""The exact offset map: which downstream offset each upstream offset was copied to, as runs.

A run says that ``length`` consecutive upstream offsets became as many consecutive downstream offsets. What lies
between two runs upstream (transaction markers, records removed by compaction, aborted data, gaps) has no copy; what
lies between them downstream (markers, other writers) is no copy. So a position translates exactly, in both directions,
and a hole is known to be a hole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror.model.mm2_trace import Pair
from mirror.model.translation import Bounded, Exact, NotMirrored, TooOld, Translation


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
class Sketch:
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
            return Exact(upstream)
        following = self.pairs[index + 1].upstream if index + 1 < len(self.pairs) else self.end
        return _between(upstream + 1, position - downstream - 1, following)


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
    sketches
        what Java MirrorMaker copied, known only by its syncs; in ascending order.
    """

    origin: int
    complete_from_origin: bool
    runs: tuple[Run, ...]
    upstream_next: int
    downstream_next: int
    sketches: tuple[Sketch, ...] = ()

    def translate(self, position: int) -> Translation:
        """Return where a reader at upstream ``position`` goes on downstream: at the first copied record not before it.

        A position past what was copied is bounded: the reader goes to the end of the copy and will meet, at most, the
        records between ``upstream_next`` and its position again once they are mirrored.
        """
        if position > self.upstream_next:
            return Bounded(self.downstream_next, position - self.upstream_next)
        for sketch in self.sketches:
            if sketch.start <= position < sketch.end:
                return sketch.translate(position)
        if position < self.origin and not self.complete_from_origin:
            return TooOld(self.origin)
        run = _first(self.runs, bisect_right(self.runs, position, key=lambda run: run.upstream_end))
        if run is None:
            return Exact(self.downstream_next)
        return Exact(run.downstream + max(0, position - run.upstream))

    def translate_back(self, position: int) -> Translation:
        """Return where a reader at downstream ``position`` goes on upstream: at the source of the first copy there."""
        if position > self.downstream_next:
            return Bounded(self.upstream_next, position - self.downstream_next)
        for sketch in self.sketches:
            if sketch.downstream_start <= position < sketch.downstream_end:
                return sketch.translate_back(position)
        if self.runs and position < self.runs[0].downstream and not self.complete_from_origin:
            return TooOld(self.runs[0].downstream)
        if not self.runs:
            return NotMirrored()
        run = _first(self.runs, bisect_right(self.runs, position, key=lambda run: run.downstream_end))
        if run is None:
            return Exact(self.upstream_next)
        return Exact(run.upstream + max(0, position - run.downstream))


def _first(runs: Sequence[Run], index: int) -> Run | None:
    return runs[index] if index < len(runs) else None
