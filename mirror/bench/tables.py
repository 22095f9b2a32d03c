"""The figures of a bench as tables for people; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from mirror import tables
from mirror.bench import figures
from mirror.bench.contenders import Contender
from mirror.bench.figures import Run, contenders_of, keys_of, of_contender, ratios
from mirror.bench.shapes import Shape
from mirror.evidence.statistics import Spread, spread

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
    _Column(figures.RATE, "records/s", "{:,.0f}".format),
    _Column(figures.SECOND_HALF_RATE, "second half", "{:,.0f}".format),
    _Column(figures.CPU_PER_GB, "CPU s/GB", "{:.2f}".format),
    _Column(figures.FIRST_RECORD, "first record s", "{:.1f}".format),
    _Column(figures.CPU_BEFORE, "CPU s before", "{:.1f}".format),
    _Column(figures.MEMORY, "peak RSS MB", "{:,.0f}".format),
)


def copy_table(title: str, runs: Sequence[Run], width: int) -> RenderableType:
    """Return throughput, CPU, start and memory of each contender, and ``mirror`` as multiples of the others."""
    return _table(title, runs, _COPY, width)


def latency_table(runs: Sequence[Run], rate: int, width: int) -> RenderableType:
    """Return the percentiles at a rate, and ``mirror`` as multiples of the others."""
    columns = [
        _Column(figures.latency_key(rate, percent), f"p{percent} ms", "{:.2f}".format) for percent in figures.PERCENTS
    ]
    columns.append(_Column(figures.cpu_key(rate), "CPU % of a core", "{:.0f}".format))
    return _table(f"{rate:,} records/s, from the producer to a reader on the target", runs, columns, width)


def matrix_table(title: str, of_shapes: Sequence[tuple[Shape, Sequence[Run]]], width: int) -> RenderableType:
    """Return a row for each shape: the records a second of ``mirror``, and it as multiples of the others."""
    others = [
        contender
        for contender in dict.fromkeys(each for _, runs in of_shapes for each in contenders_of(runs))
        if contender is not Contender.MIRROR
    ]
    rows = []
    for shape, runs in of_shapes:
        row = {
            "record": _right(f"{shape.record_bytes:,} B"),
            "a batch": shape.records_per_batch,
            "codec": shape.codec.value,
            "records/s": _cell(spread(of_contender(runs, Contender.MIRROR, figures.RATE)), "{:,.0f}".format),
        }
        for each in others:
            for heading, key in (("speed", figures.RATE), ("CPU", figures.CPU_PER_GB)):
                row[f"{heading} / {_NAMES[each]}"] = _ratio(runs, each, key)
        rows.append(row)
    return tables.table(title, rows, width)


def _table(title: str, runs: Sequence[Run], columns: Sequence[_Column], width: int) -> RenderableType:
    columns = [column for column in columns if column.key in keys_of(runs)]
    shown = [each for each in contenders_of(runs) if any(of_contender(runs, each, column.key) for column in columns)]
    rows: list[dict[str, object]] = [
        {"": _NAMES[each]}
        | {column.heading: _cell(spread(of_contender(runs, each, column.key)), column.write) for column in columns}
        for each in shown
    ]
    rows += [
        {"": f"mirror / {_NAMES[each]}"} | {column.heading: _ratio(runs, each, column.key) for column in columns}
        for each in shown
        if each is not Contender.MIRROR and Contender.MIRROR in shown
    ]
    return tables.table(title, rows, width)


def _ratio(runs: Sequence[Run], other: Contender, key: str) -> Text:
    return _cell(spread(ratios(runs, Contender.MIRROR, other, key)), "{:.2f}".format)


def _cell(found: Spread | None, write: Callable[[float], str]) -> Text:
    return _right("-" if found is None else found.describe(write, "\n"))


def _right(text: str) -> Text:
    return Text(text, justify="right")
