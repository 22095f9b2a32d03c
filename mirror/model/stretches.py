"""Stretches of a log: offsets from one up to, not including, another; in order, and apart from each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from mirror.model.offset_map import Run

Stretch: TypeAlias = tuple[int, int]


def add(stretches: list[Stretch], start: int, end: int) -> None:
    """Append a stretch that begins behind all others, in place, as part of the last where it continues it."""
    if end <= start:
        return
    if stretches and stretches[-1][1] == start:
        start = stretches.pop()[0]
    stretches.append((start, end))


def united(stretches: Iterable[Stretch], start: int, end: int) -> tuple[Stretch, ...]:
    """Return what these stretches, which may overlap, cover from ``start`` up to, not including, ``end``."""
    found: list[Stretch] = []
    for first, last in sorted((max(first, start), min(last, end)) for first, last in stretches):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif last > first:
            found.append((first, last))
    return tuple(found)


def between(stretches: Iterable[Stretch], start: int, end: int) -> tuple[Stretch, ...]:
    """Return what lies between the stretches, from ``start`` up to, not including, ``end``."""
    found: list[Stretch] = []
    for first, last in united(stretches, start, end):
        add(found, start, first)
        start = last
    add(found, start, end)
    return tuple(found)


def hold(stretches: Sequence[Stretch], start: int, end: int) -> bool:
    """Whether one of the stretches holds all offsets from ``start`` up to, not including, ``end``."""
    index = bisect_right(stretches, start, key=lambda stretch: stretch[0]) - 1
    return index >= 0 and end <= stretches[index][1]


def runs_within(runs: Iterable[Run], stretches: Sequence[Stretch]) -> Iterator[Run]:
    """Yield the parts of the runs whose upstream offsets lie in the stretches."""
    index = 0
    for run in runs:
        while index < len(stretches) and stretches[index][1] <= run.upstream:
            index += 1
        for at in range(index, len(stretches)):
            if stretches[at][0] >= run.upstream_end:
                break
            start, end = max(run.upstream, stretches[at][0]), min(run.upstream_end, stretches[at][1])
            yield Run(start, run.downstream + start - run.upstream, end - start)
