"""``mirror bench``: measure, show a table; exit status 2 for bad usage, 3 for a bench that could not be run."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import psutil
import typer
from rich.console import Console
from rich.table import Table

from mirror.kafka.cluster import ClusterError
from mirror.lab.bench.figures import Figures, Replicator, Run, as_json, medians, ratios
from mirror.lab.errors import LabError

_COULD_NOT_START = 3
_NAMES = {Replicator.MM2: "Java MM2", Replicator.MIRROR: "mirror"}


class Compression(StrEnum):
    """How the records on the source are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def bench(
    records: Annotated[int, typer.Option(min=1000, help="Records to copy.")] = 1_000_000,
    value_bytes: Annotated[int, typer.Option(min=16, max=900_000, help="Size of a value.")] = 1024,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic.")] = 8,
    compression: Annotated[Compression, typer.Option(help="Compression of the records.")] = Compression.LZ4,
    rounds: Annotated[int, typer.Option(min=1, help="How often each copies; the medians are compared.")] = 1,
    directory: Annotated[Path, typer.Option(help="Each bench makes a directory of its own in it.")] = Path(
        "runs/bench"
    ),
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure this engine against Java MirrorMaker 2 on practice clusters."""
    # Other commands need no producer.
    from mirror.lab.bench.run import BenchPlan, run_bench

    told = Console(stderr=True, highlight=False, soft_wrap=True)

    def tell(line: str) -> None:
        told.print(f"{datetime.now(UTC):%H:%M:%S} {line}", style="dim", markup=False)

    plan = BenchPlan(records, value_bytes, partitions, compression.value, rounds)
    own_directory = directory / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        with _interruptible():
            runs = run_bench(plan, own_directory, tell)
    except (LabError, ClusterError) as problem:
        told.print(str(problem), style="red", markup=False)
        raise typer.Exit(_COULD_NOT_START) from None
    machine = {"cores": psutil.cpu_count(), "memory_bytes": psutil.virtual_memory().total}
    result = json.dumps({"machine": machine, "workload": asdict(plan), **as_json(runs)}, indent=2)
    (own_directory / "bench.json").write_text(result + "\n", "utf-8")
    if as_json_text:
        print(result)
        return
    title = f"{records:,} records of {value_bytes:,} bytes, {compression}, {partitions} partitions, {rounds} round(s)"
    Console().print(render_table(title, runs))


def render_table(title: str, runs: Sequence[Run]) -> Table:
    """Return the medians of both replicators, and this engine's as multiples of Java MM2's."""
    table = Table(title=title, title_justify="left")
    table.add_column("replicator")
    for name in ("records/s", "CPU s/GB", "CPU s before", "first record", "peak RSS"):
        table.add_column(name, justify="right")
    both = {replicator: medians(runs, replicator) for replicator in Replicator}
    for replicator, figures in both.items():
        table.add_row(_NAMES[replicator], *_cells(figures), end_section=replicator is Replicator.MIRROR)
    ratio = ratios(both[Replicator.MIRROR], both[Replicator.MM2])
    table.add_row("mirror / MM2", *(f"{value:.2f}" for value in asdict(ratio).values()))
    return table


def _cells(figures: Figures) -> tuple[str, ...]:
    return (
        f"{figures.records_per_second:,.0f}",
        f"{figures.cpu_seconds_per_gb:.2f}",
        f"{figures.cpu_seconds_to_first_record:.1f}",
        f"{figures.seconds_to_first_record:.1f} s",
        f"{figures.peak_resident_mb:,.0f} MB",
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end a bench as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
