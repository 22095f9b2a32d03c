"""The picture of a series: what went wrong in each scenario, and how long service was away, for whoever copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.ticker import FuncFormatter

from mirror.evidence.pictures import RunFigure, add_legend, draw_spreads, empty_figure, styled
from mirror.evidence.statistics import Spread, spread
from mirror.scenario.declaration import Replicator
from mirror.scenario.formatting import NAMES
from mirror.scenario.summary import Line

_ROW_INCHES = 0.34
_PANELS: tuple[tuple[str, Callable[[Line], Spread | None]], ...] = (
    ("wrong, records", lambda line: spread([line.wrong_records / max(1, line.runs)])),
    ("read again, records", lambda line: line.redelivered),
    ("in service after, s", lambda line: line.rto_seconds),
)


@styled()
def comparison_plot(lines: Sequence[Line]) -> RunFigure:
    """Draw a row a scenario: records that are wrong in the copies, records that groups read again, seconds to serve."""
    names = list(dict.fromkeys(line.scenario for line in lines))
    known = {(line.scenario, line.replicator): line for line in lines}
    shown = [each for each in Replicator if any(line.replicator is each for line in lines)]
    figure = empty_figure(1.1 + _ROW_INCHES * len(names))
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for axes, (title, measured) in zip(panels, _PANELS, strict=True):
        found = {each: [_of(known.get((name, each)), measured) for name in names] for each in shown}
        draw_spreads(axes, names, {NAMES[each]: spreads for each, spreads in found.items()})
        axes.set_title(title)
        axes.grid(visible=True, axis="both")
        is_records = title.endswith("records")
        if is_records:
            axes.set_xscale("symlog", linthresh=1)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        farthest = max((each.high for spreads in found.values() for each in spreads if each is not None), default=1.0)
        axes.set_xlim(-0.3 if is_records else 0.0, max(1.5, 1.6 * farthest))
    add_legend(figure, panels[0], len(shown))
    return figure


def _of(line: Line | None, measured: Callable[[Line], Spread | None]) -> Spread | None:
    return None if line is None else measured(line)
