"""The figures of a bench as tables for people; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from mirror.lab.bench import figures
from mirror.lab.bench.contenders import Contender
from mirror.lab.bench.figures import Run, Spread, contenders_of, keys_of, ratios, spread, spread_of
from mirror.lab.bench.shapes import Shape

_NAMES = {
    Contender.MIRROR: "mirror",
    Contender.SAME: "same offsets",
    Contender.NAME: "same name",
    Contender.SAME_NAME: "same offsets and name",
    Contender.MM2: "Java MM2",
    Contender.MM2_TUNED: "Java MM2 tuned",
    Contender.FLOOR: "bare producer",
    Contender.NO_MIRROR: "no mirror",
}


@dataclass(frozen=True, slots=True)
class _Column:
    """A figure as a column: its key, its heading, and how a value is written."""

    key: str
    heading: str
    write: Callable[[float], str]


_COPY = (
    _Column(figures.RATE, "records/s", lambda value: f"{value:,.0f}"),
    _Column(figures.SECOND_HALF_RATE, "second half", lambda value: f"{value:,.0f}"),
    _Column(figures.CPU_PER_GB, "CPU s/GB", lambda value: f"{value:.2f}"),
    _Column(figures.FIRST_RECORD, "first record s", lambda value: f"{value:.1f}"),
    _Column(figures.CPU_BEFORE, "CPU s before", lambda value: f"{value:.1f}"),
    _Column(figures.MEMORY, "peak RSS MB", lambda value: f"{value:,.0f}"),
)


def copy_table(title: str, runs: Sequence[Run]) -> Table:
    """Return throughput, CPU, start and memory of each contender, and ``mirror`` as multiples of the others."""
    return _table(title, runs, _COPY)


def latency_table(runs: Sequence[Run], rate: int) -> Table:
    """Return the percentiles at a rate, and ``mirror`` as multiples of the others."""
    columns = [
        _Column(figures.latency_key(rate, percent), f"p{percent} ms", lambda value: f"{value:.2f}")
        for percent in figures.PERCENTS
    ]
    columns.append(_Column(figures.cpu_key(rate), "CPU % of a core", lambda value: f"{value:.0f}"))
    return _table(f"{rate:,} records/s, from the producer to a reader on the target", runs, columns)


def matrix_table(title: str, of_shapes: Sequence[tuple[Shape, Sequence[Run]]]) -> Table:
    """Return a row for each shape: the records a second of ``mirror``, and it as multiples of the others."""
    others = [
        contender
        for contender in dict.fromkeys(each for _, runs in of_shapes for each in contenders_of(runs))
        if contender is not Contender.MIRROR
    ]
    table = Table(title=title, title_justify="left")
    for name in ("record", "a batch", "codec", "records/s"):
        table.add_column(name, justify="left" if name == "codec" else "right")
    for contender in others:
        table.add_column(f"speed / {_NAMES[contender]}", justify="right")
        table.add_column("CPU /", justify="right")
    for shape, runs in of_shapes:
        own = spread(runs, Contender.MIRROR, figures.RATE)
        cells = [f"{shape.record_bytes:,} B", f"{shape.records_per_batch}", shape.codec.value]
        cells.append(_cell(own, lambda value: f"{value:,.0f}"))
        for contender in others:
            cells += [
                _cell(spread_of(ratios(runs, Contender.MIRROR, contender, key)), _ratio)
                for key in (figures.RATE, figures.CPU_PER_GB)
            ]
        table.add_row(*cells)
    return table


def _table(title: str, runs: Sequence[Run], columns: Sequence[_Column]) -> Table:
    there = set(keys_of(runs))
    columns = [column for column in columns if column.key in there]
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, justify="right")
    shown = [
        contender for contender in contenders_of(runs) if any(spread(runs, contender, column.key) for column in columns)
    ]
    for contender in shown:
        cells = [_cell(spread(runs, contender, column.key), column.write) for column in columns]
        table.add_row(_NAMES[contender], *cells, end_section=contender is shown[-1])
    for contender in shown:
        if contender is not Contender.MIRROR and Contender.MIRROR in shown:
            cells = [
                _cell(spread_of(ratios(runs, Contender.MIRROR, contender, column.key)), _ratio) for column in columns
            ]
            table.add_row(f"mirror / {_NAMES[contender]}", *cells)
    return table


def _cell(found: Spread | None, write: Callable[[float], str]) -> str:
    """Write the median, and below it the smallest and the largest where they differ."""
    if found is None:
        return "-"
    if found.low == found.high:
        return write(found.median)
    return f"{write(found.median)}\n{write(found.low)} - {write(found.high)}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"
