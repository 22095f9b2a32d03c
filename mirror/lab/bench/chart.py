"""The ratios of a bench as a picture: a dot for each round, a bar at their median."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from mirror.lab.bench import figures
from mirror.lab.bench.contenders import Contender
from mirror.lab.bench.figures import Run, contenders_of, ratios
from mirror.lab.bench.shapes import Shape

_COLOURS = {Contender.MM2: "#2a6fbb", Contender.MM2_TUNED: "#c8553d", Contender.FLOOR: "#2f8f6b"}
_OTHER_COLOUR = "#5b6775"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "svg.fonttype": "none",
    # The same figures give the same file.
    "svg.hashsalt": "mirror bench",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e8ec",
    "ytick.major.size": 0,
    "figure.facecolor": "white",
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the chart: multiples, one a round, by the contender they are multiples of."""

    label: str
    multiples: Mapping[Contender, Sequence[float]]


def rows_of_figures(runs: Sequence[Run], rates: Sequence[int]) -> tuple[Row, ...]:
    """Return a row for each figure worth a look: speed, CPU, start, memory, latencies."""
    labels = {
        figures.RATE: "records a second",
        figures.CPU_PER_GB: "CPU per GB",
        figures.FIRST_RECORD: "start to first record",
        figures.MEMORY: "peak memory",
    }
    for rate in rates:
        labels |= {
            figures.latency_key(rate, percent): f"latency p{percent} at {rate:,}/s" for percent in figures.PERCENTS
        }
    return _rows((label, runs, key) for key, label in labels.items())


def rows_of_shapes(of_shapes: Sequence[tuple[Shape, Sequence[Run]]]) -> tuple[Row, ...]:
    """Return a row for each shape: records a second."""
    return _rows(
        (f"{shape.record_bytes:,} B, {shape.records_per_batch} a batch, {shape.codec}", runs, figures.RATE)
        for shape, runs in of_shapes
    )


def _rows(wanted: Iterable[tuple[str, Sequence[Run], str]]) -> tuple[Row, ...]:
    rows = []
    for label, runs, key in wanted:
        multiples: dict[Contender, Sequence[float]] = {
            contender: found
            for contender in contenders_of(runs)
            if contender is not Contender.MIRROR and (found := ratios(runs, Contender.MIRROR, contender, key))
        }
        if multiples:
            rows.append(Row(label, multiples))
    return tuple(rows)


def save(rows: Sequence[Row], title: str, path: Path) -> None:
    """Draw the rows from top to bottom on a logarithmic scale and write an SVG."""
    contenders = list(dict.fromkeys(contender for row in rows for contender in row.multiples))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.0, 1.3 + 0.42 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for place, contender in enumerate(contenders):
            colour = _COLOURS.get(contender, _OTHER_COLOUR)
            # Side by side within a row, so that none hides another.
            shift = 0.6 * ((place + 0.5) / len(contenders) - 0.5)
            for line, row in enumerate(rows):
                multiples = row.multiples.get(contender, ())
                if multiples:
                    axes.plot(multiples, [line + shift] * len(multiples), "o", color=colour, markersize=4, alpha=0.6)
                    axes.plot([median(multiples)], [line + shift], "|", color=colour, markersize=13, markeredgewidth=2)
            axes.plot([], [], "o", color=colour, label=f"mirror / {contender}")
        axes.axvline(1.0, color=_OTHER_COLOUR, linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_title(title, loc="left")
        figure.legend(loc="outside lower center", ncols=max(1, len(contenders)))
        figure.savefig(path, format="svg", metadata={"Date": None})
