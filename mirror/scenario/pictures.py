"""The picture of a series: what went wrong in each scenario, and how long service was away, for whoever copied."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mirror.evidence.plots import PALETTE, empty_figure, styled
from mirror.scenario.declaration import Replicator
from mirror.scenario.formatting import NAMES
from mirror.scenario.summary import Line

_COLOURS = {Replicator.MIRROR: PALETTE["series-0"], Replicator.MM2: PALETTE["series-1"]}
_ROW_INCHES = 0.34


@styled()
def comparison_plot(lines: Sequence[Line], *, narrow: bool = False) -> Figure:
    """Draw a row a scenario: records that are wrong in the copies, records that groups read again, seconds to service.

    A dot a replicator, at the median of its runs, with the interval around it where there were several.
    """
    names = list(dict.fromkeys(line.scenario for line in lines))
    height = 1.1 + _ROW_INCHES * len(names)
    figure = empty_figure(narrow, 3 * height if narrow else height)
    panels = figure.subplots(3, 1) if narrow else figure.subplots(1, 3, sharey=True)
    titles = ("wrong in the copies, records", "read again by groups, records", "back in service after, seconds")
    for number, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        axes.set_title(title)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(visible=True, axis="both")
        if number < 2:
            axes.set_xscale("symlog", linthresh=1)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        for line in lines:
            _mark(axes, number, line, names.index(line.scenario))
        farthest = max((value for value in (_value(number, line) for line in lines) if value is not None), default=1.0)
        axes.set_xlim(-0.3 if number < 2 else 0.0, max(1.5, 1.6 * farthest))
    shown = [replicator for replicator in Replicator if any(line.replicator is replicator for line in lines)]
    handles = [panels[0].plot([], [], "o", color=_COLOURS[each], label=NAMES[each])[0] for each in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _value(number: int, line: Line) -> float | None:
    """Return how far to the right a line reaches in a panel; None where it has nothing to show."""
    if number == 0:
        return line.wrong_records / max(1, line.runs)
    found = line.redelivered if number == 1 else line.rto_seconds
    return None if found is None else found.median.high


def _mark(axes: Axes, number: int, line: Line, row: int) -> None:
    place = row + (0.14 if line.replicator is Replicator.MM2 else -0.14)
    colour = _COLOURS[line.replicator]
    if number == 0:
        axes.plot([line.wrong_records / max(1, line.runs)], [place], "o", color=colour)
        return
    found = line.redelivered if number == 1 else line.rto_seconds
    if found is not None:
        axes.plot([found.median.low, found.median.high], [place, place], "-", color=colour, linewidth=2)
        axes.plot([found.median.value], [place], "o", color=colour)
