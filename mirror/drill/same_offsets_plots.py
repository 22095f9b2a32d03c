"""What lies at each offset of two logs, side by side: a partition and its copy with the same offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from matplotlib.patches import Patch

from mirror.evidence.pictures import PALETTE, RunFigure, figure_of, styled


class Lies(StrEnum):
    """What lies at an offset."""

    REMOVED = "removed"
    """on the source by retention"""
    PADDING = "padding, removed"
    """on the copy: empty records that took the offsets before the source's start"""
    RECORDS = "records"
    ABORTED = "aborted records"
    MARKERS = "markers"
    """of transactions; on the copy also of empty ones, in place of what was not copied"""


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets from ``start`` up to, not including, ``end`` at which the same kind of thing lies."""

    start: int
    end: int
    what: Lies

    @property
    def offsets(self) -> int:
        """How many there are."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class LogPicture:
    """What lies at each offset of one log, from 0 to its end."""

    name: str
    pieces: tuple[Piece, ...]

    def count(self, what: Lies) -> int:
        """Return at how many offsets it lies."""
        return sum(each.offsets for each in self.pieces if each.what is what)


def picture_of(
    name: str, bounds: tuple[int, int], batches: Iterable[tuple[int, int]], committed: Iterable[int], head: Lies
) -> LogPicture:
    """Sort the offsets of a log.

    Parameters
    ----------
    bounds
        the first offset still there, and one past the last.
    batches
        of each data batch the first offset and one past the last.
    committed
        where batches begin that readers of committed transactions see.
    head
        what was before the start.
    """
    start, end = bounds
    seen = set(committed)
    found = [Piece(0, start, head)] if start else []
    at = start
    for first, behind in batches:
        if first > at:
            found.append(Piece(at, first, Lies.MARKERS))
        found.append(Piece(max(first, at), behind, Lies.RECORDS if first in seen else Lies.ABORTED))
        at = behind
    if end > at:
        found.append(Piece(at, end, Lies.MARKERS))
    return LogPicture(name, tuple(_joined(found)))


_COLOURS = {
    Lies.REMOVED: "rest",
    Lies.PADDING: "series-4",
    Lies.RECORDS: "series-0",
    Lies.ABORTED: "fault",
    Lies.MARKERS: "series-2",
}
_HATCHED = frozenset({Lies.REMOVED, Lies.PADDING})


@styled()
def offsets_plot(logs: Sequence[LogPicture]) -> RunFigure:
    """Draw logs below one another, on one axis of offsets."""
    figure, axes = figure_of(1.4 + 0.55 * len(logs))
    for row, log in enumerate(logs):
        for each in log.pieces:
            colour = PALETTE[_COLOURS[each.what]]
            # What is gone is drawn as an outline: nobody can read it.
            gone = each.what in _HATCHED
            axes.barh(
                row,
                each.offsets,
                left=each.start,
                height=0.6,
                color="none" if gone else colour,
                edgecolor=colour if gone else "none",
                hatch="////" if gone else None,
                linewidth=0.6,
            )
    axes.set_yticks(range(len(logs)), [log.name for log in logs])
    axes.set_ylim(len(logs) - 0.5, -0.5)
    axes.set_xlabel("offset")
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    there = [what for what in Lies if any(log.count(what) for log in logs)]
    handles = [
        Patch(
            facecolor="none" if what in _HATCHED else PALETTE[_COLOURS[what]],
            edgecolor=PALETTE[_COLOURS[what]],
            hatch="////" if what in _HATCHED else None,
            label=what.value,
        )
        for what in there
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8.5)
    return figure


def _joined(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Yield pieces of which no two that touch are alike."""
    last: Piece | None = None
    for each in pieces:
        if last is not None and last.what is each.what and last.end == each.start:
            last = Piece(last.start, each.end, last.what)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last
