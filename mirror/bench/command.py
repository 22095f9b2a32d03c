"""``mirror bench``: measure, show tables; exit status 2 for bad usage, 3 for a bench that did not come to its end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from mirror import terminal
from mirror.bench.contenders import USUAL, parse_contenders
from mirror.bench.cores import plan_cores, present_cores
from mirror.bench.figures import Run, as_json
from mirror.bench.shapes import Codec, Shape, matrix, plan_shape
from mirror.bench.tables import copy_table, latency_table, matrix_table
from mirror.display import display_for
from mirror.kafka.problems import ClusterError
from mirror.lab.errors import BadRequest, LabError
from mirror.model.counts import counted
from mirror.signals import sigterm_interrupts

_BAD_USAGE = 2
_COULD_NOT_START = 3
_INTERRUPTED = 130
_WIDTH_OF_FILES = 120

_Measured = list[tuple[Shape, list[Run]]]


def bench(
    *,
    records: Annotated[int, typer.Option(min=1, help="Records to copy; of 1,000 bytes with --matrix.")] = 1_000_000,
    record_bytes: Annotated[
        int, typer.Option(min=64, max=900_000, help="Size of a record, key and value together.")
    ] = 1000,
    records_per_batch: Annotated[int, typer.Option(min=1, help="Records in each batch on the source.")] = 100,
    codec: Annotated[Codec, typer.Option(help="Compression of the batches on the source.")] = Codec.LZ4,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic.")] = 8,
    contenders: Annotated[
        str,
        typer.Option(
            help="Who is measured, comma-separated: mirror, mirror-same (with the source's offsets), mirror-name and "
            "mirror-same-name (names unchanged, both ways), mm2, mm2-tuned, floor, no-mirror.",
            show_default=", ".join(USUAL),
        ),
    ] = ",".join(USUAL),
    rounds: Annotated[int, typer.Option(min=1, help="How often each has its turn.")] = 1,
    rates: Annotated[
        str, typer.Option(help="Records a second at which latency is measured, comma-separated.")
    ] = "200,5000",
    latency_seconds: Annotated[
        float, typer.Option(min=0, help="How long latency is measured at each rate; 0: not at all.")
    ] = 20.0,
    target_cores: Annotated[
        int, typer.Option(min=0, help="Cores for the target broker alone, as if on its own machine; 0: it shares all.")
    ] = 0,
    many: Annotated[
        bool,
        typer.Option("--matrix", help="Copy records of 100, 1,000, 10,000 bytes in batches of 1, 10, 100, and codecs."),
    ] = False,
    directory: Annotated[Path, typer.Option(help="Each bench makes a directory of its own in it.")] = Path(
        "runs/bench"
    ),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file too.")] = None,
) -> None:
    """Measure this engine against Java MirrorMaker 2 and a bare producer on practice clusters."""
    # Other commands need neither a producer nor pictures.
    from mirror.bench.run import BenchPlan, run_bench

    console = terminal.console(stderr=True, highlight=False, soft_wrap=True)
    try:
        who = parse_contenders(contenders)
        asked = () if many or not latency_seconds else parse_rates(rates)
        cores = plan_cores(target_cores, present_cores())
        shapes = (
            matrix(records, partitions)
            if many
            else (plan_shape(records, record_bytes, records_per_batch, codec, partitions),)
        )
    except BadRequest as problem:
        console.print(str(problem), style="red", markup=False)
        raise typer.Exit(_BAD_USAGE) from None
    plans = [BenchPlan(shape, who, rounds, asked, latency_seconds, cores) for shape in shapes]
    own_directory = directory / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    own_directory.mkdir(parents=True, exist_ok=True)
    measured: _Measured = []
    status = 0
    with sigterm_interrupts(), display_for(console) as display:
        display.count("turns", sum(len(list(plan.turns())) for plan in plans))
        try:
            for number, plan in enumerate(plans):
                runs: list[Run] = []
                measured.append((plan.shape, runs))
                home = own_directory / f"shape-{number}" if many else own_directory
                with closing(run_bench(plan, home, display)) as turns:
                    runs.extend(turns)
        except (LabError, ClusterError) as problem:
            console.print(str(problem), style="red", markup=False)
            status = _COULD_NOT_START
        except KeyboardInterrupt:
            console.print("interrupted", style="red", markup=False)
            status = _INTERRUPTED
    if any(runs for _, runs in measured):
        _report(
            measured,
            asked,
            own_directory,
            json_file,
            f"{counted(rounds, 'round')}{_target_cores_message(target_cores)}",
        )
    if status:
        raise typer.Exit(status)


def parse_rates(text: str) -> tuple[int, ...]:
    """Read numbers separated by commas.

    Raises
    ------
    BadRequest
        naming what is not a rate.
    """
    rates = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if not part.isdecimal() or not int(part):
            raise BadRequest(f"--rates: {part!r} is no number of records a second")
        rates.append(int(part))
    return tuple(rates)


def _target_cores_message(target_cores: int) -> str:
    return f", {counted(target_cores, 'core')} for the target broker alone" if target_cores else ""


def _report(measured: _Measured, rates: Sequence[int], home: Path, json_file: Path | None, how: str) -> None:
    """Write everything down, draw it, and print tables."""
    from mirror.bench import chart

    text = json.dumps(document(measured), indent=2) + "\n"
    for path in filter(None, (home / "bench.json", json_file)):
        path.write_text(text, "utf-8")
    out = terminal.console()
    if not out.is_terminal:
        out = terminal.console(width=_WIDTH_OF_FILES)
    many = len(measured) > 1
    if many:
        title = f"mirror as multiples of the others, {how}"
        rows = chart.rows_of_shapes(measured)
        out.print(matrix_table(title, measured, out.width))
    else:
        ((shape, runs),) = measured
        title = f"{shape.records:,} records: {shape}, {how}"
        rows = chart.rows_of_figures(runs, rates)
        out.print(copy_table(title, runs, out.width))
        for rate in rates:
            out.print(latency_table(runs, rate, out.width))
    if rows:
        chart.save(rows, title, home / "bench.svg")
    out.print(f"figures and logs: {home}", soft_wrap=True, highlight=False)


def document(measured: _Measured) -> dict[str, Any]:
    """Return all figures as ``bench.json`` has them: the machine, and for each shape what ``as_json`` says."""
    return {
        "machine": {"cores": psutil.cpu_count(), "memory_bytes": psutil.virtual_memory().total},
        "shapes": [{"shape": asdict(shape), **as_json(runs)} for shape, runs in measured],
    }
