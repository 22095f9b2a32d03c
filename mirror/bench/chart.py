"""The ratios of a bench as a picture: a dot at their median, a line from the smallest to the largest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from mirror.bench import figures
from mirror.bench.contenders import Contender
from mirror.bench.figures import Run, contenders_of, ratios
from mirror.bench.shapes import Shape
from mirror.evidence.pictures import PALETTE, add_legend, draw_spreads, figure_of, styled, svg
from mirror.evidence.statistics import Spread, spread


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the chart: multiples, by the contender they are multiples of."""

    label: str
    multiples: Mapping[Contender, Spread]


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
    rows = (
        Row(
            label,
            {
                contender: found
                for contender in contenders_of(runs)
                if contender is not Contender.MIRROR
                and (found := spread(ratios(runs, Contender.MIRROR, contender, key))) is not None
            },
        )
        for label, runs, key in wanted
    )
    return tuple(row for row in rows if row.multiples)


@styled()
def save(rows: Sequence[Row], title: str, path: Path) -> None:
    """Draw the rows on a logarithmic scale and write an SVG."""
    contenders = dict.fromkeys(contender for row in rows for contender in row.multiples)
    figure, axes = figure_of(1.3 + 0.42 * len(rows))
    draw_spreads(
        axes,
        [row.label for row in rows],
        {f"mirror / {each}": [row.multiples.get(each) for row in rows] for each in contenders},
    )
    axes.axvline(1.0, color=PALETTE["muted"], linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(title)
    add_legend(figure, axes, 4)
    path.write_text(svg(figure, title=title), "utf-8")
