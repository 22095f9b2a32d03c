"""``mirror lab``: practice clusters on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from mirror import tables, terminal
from mirror.display import display_for
from mirror.lab import clusters, holder, processes, spark_cluster
from mirror.lab.clusters import Lab, LabCluster, Provider
from mirror.lab.errors import BadRequest, LabError

app = typer.Typer(no_args_is_help=True, help="Practice clusters: real Kafka brokers on this machine.")

Directory = Annotated[Path, typer.Option(help="Where the lab keeps its state, data and logs.")]
_COULD_NOT_START = 3
_BAD_USAGE = 2


@app.command()
def up(
    names: Annotated[str, typer.Option("--clusters", help="Aliases, comma-separated: east,west.")],
    brokers: Annotated[int, typer.Option(min=1, help="Brokers a cluster.")] = 1,
    provider: Annotated[Provider, typer.Option(help="Where the clusters come from.")] = Provider.EMBEDDED,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(
            help="An existing cluster's addresses: ALIAS=HOST:PORT, more of them behind commas; once a cluster."
        ),
    ] = None,
    spark_workers: Annotated[
        int, typer.Option(min=0, help="Workers of a Spark standalone cluster beside them, for `mirror run --master`.")
    ] = 0,
    for_load: Annotated[
        bool, typer.Option("--for-load", help="Tune the brokers for minutes of heavy load; they start more slowly.")
    ] = False,
    directory: Directory = Path(".lab"),
) -> None:
    """Start clusters, or those of an earlier lab in the same directory with their data; they run until `down`."""
    with _reporting(), display_for(terminal.console(stderr=True)) as display:
        addresses = parse_bootstrap(bootstrap or [])
        aliases = [name.strip() for name in names.split(",") if name.strip()]
        lab = clusters.up(
            directory,
            aliases,
            brokers=brokers,
            provider=provider,
            bootstrap=addresses,
            for_load=for_load,
            watch=display.watch,
        )
        if spark_workers and spark_cluster.load(_spark_home(directory)) is None:
            spark_cluster.up(_spark_home(directory), spark_workers)
    _show(lab)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    directory: Directory = Path(".lab"),
    runs_directory: Annotated[Path, typer.Option(help="Where the directories of runs are.")] = Path("runs"),
) -> None:
    """Show the clusters of a lab and what of them runs, and the runs of notebooks that go on here."""
    runs = held_runs(runs_directory)
    with _reporting():
        # A run's clusters are a lab of their own: without one beside them there is nothing to miss.
        lab = None if runs and not clusters.exists(directory) else clusters.load(directory)
    if as_json:
        nothing: dict[str, object] = {"directory": str(directory.absolute()), "spark_master": None, "clusters": []}
        print(json.dumps({**(nothing if lab is None else describe(lab)), "runs": runs}, indent=2))
        return
    if lab is not None:
        _show(lab)
    if runs:
        console = terminal.console()
        console.print(tables.table("Runs that go on", [_shown(row) for row in runs], console.width))
        console.print("mirror lab down --run DIRECTORY ends one.")


@app.command()
def down(
    discard: Annotated[bool, typer.Option("--discard", help="Remove data and logs as well.")] = False,
    directory: Directory = Path(".lab"),
    run: Annotated[
        list[Path] | None,
        typer.Option(help="End what a run of notebooks holds, instead of a lab; its evidence stays. Repeatable."),
    ] = None,
) -> None:
    """Stop the clusters that `up` has started, or all that a run holds; their data stay for the next `up`."""
    if run:
        if discard:
            print("--discard is for labs: a run's directory is its evidence, and stays", file=sys.stderr)
            raise typer.Exit(_BAD_USAGE)
        _end_runs(run)
        return
    with _reporting():
        spark = spark_cluster.load(_spark_home(directory))
        stubborn = spark.stop() if spark else ()
        problems = [
            *(f"{name} did not end when told to, and was killed" for name in stubborn),
            *clusters.down(directory, discard_data=discard),
        ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not discard:
        _show(clusters.load(directory))


def held_runs(runs: Path) -> list[dict[str, object]]:
    """Return the runs under a directory whose processes go on, newest first, as in the JSON of ``status``."""
    return [
        {
            "run": str(path),
            "processes": [each.name for each in processes.running(path / "logs")],
            "unused_seconds": round(holder.unused_seconds(path)),
        }
        for path in reversed(holder.held(runs))
    ]


def _end_runs(runs: list[Path]) -> None:
    held = {path: holder.holder_of(path) for path in runs}
    for path, found in held.items():
        if found is None:
            told = "nothing of this run goes on" if path.is_dir() else "there is no such run"
            print(f"{path}: {told}; mirror lab status lists the runs that go on", file=sys.stderr)
    if None in held.values():
        raise typer.Exit(_BAD_USAGE)
    for path in runs:
        holder.release(path)
        print(f"{path}: ended")


def _shown(row: dict[str, object]) -> dict[str, object]:
    names = row["processes"]
    assert isinstance(names, list)
    return {"run": row["run"], "processes": len(names), "last used": f"{row['unused_seconds']} s ago"}


def parse_bootstrap(options: list[str]) -> dict[str, str]:
    """Return the addresses by alias of ``ALIAS=HOST:PORT[,HOST:PORT...]`` each.

    Raises
    ------
    BadRequest
        naming the first that is not of this form, or an alias that is there twice.
    """
    addresses: dict[str, str] = {}
    for option in options:
        alias, equals, value = option.partition("=")
        if not equals or not alias or not value:
            raise BadRequest(f"--bootstrap is written ALIAS=HOST:PORT[,HOST:PORT...], got {option!r}")
        if "=" in value:
            raise BadRequest(f"--bootstrap is given once for each cluster, got {option!r}")
        if alias in addresses:
            raise BadRequest(f"--bootstrap {alias} is there twice; give all its addresses in one, comma-separated")
        addresses[alias] = value
    return addresses


def describe(lab: Lab) -> dict[str, object]:
    """Return a lab as the JSON of ``status``: ``{"directory", "spark_master", "clusters": [{"alias", ...}]}``."""
    spark = spark_cluster.load(_spark_home(lab.directory))
    return {
        "directory": str(lab.directory),
        "spark_master": spark.master_url if spark else None,
        "clusters": [
            {
                "alias": cluster.alias,
                "provider": cluster.provider,
                "bootstrap_servers": cluster.bootstrap_servers,
                "state": state(cluster),
                "brokers": [{"address": each.address, "alive": each.is_alive()} for each in cluster.brokers],
            }
            for cluster in lab.clusters.values()
        ],
    }


def state(cluster: LabCluster) -> str:
    """Return ``RUNNING``, ``PARTLY`` (some of its brokers run) or ``STOPPED``."""
    alive = [broker.is_alive() for broker in cluster.brokers]
    if all(alive):
        return "RUNNING"
    return "PARTLY" if any(alive) else "STOPPED"


def render_table(lab: Lab, width: int) -> RenderableType:
    """Return a lab as a table for people, in a terminal of so many columns."""
    colours = {"RUNNING": "green", "PARTLY": "yellow", "STOPPED": "red"}
    rows = [
        {
            "alias": cluster.alias,
            "bootstrap servers": cluster.bootstrap_servers.replace(",", "\n"),
            "provider": str(cluster.provider),
            "brokers running": f"{sum(broker.is_alive() for broker in cluster.brokers)} of {len(cluster.brokers)}",
            "state": Text(seen := state(cluster), style=colours[seen]),
            "directory": "-" if cluster.provider == Provider.EXISTING else str(_short(lab.directory / cluster.alias)),
        }
        for cluster in lab.clusters.values()
    ]
    return tables.table(None, rows, width) if rows else Text("There is no cluster.")


def _show(lab: Lab) -> None:
    console = terminal.console()
    console.print(render_table(lab, console.width))
    spark = spark_cluster.load(_spark_home(lab.directory))
    if spark is not None:
        running = sum(worker.is_alive() for worker in spark.workers)
        console.print(f"Spark: {spark.master_url}, {running} of {len(spark.workers)} workers running")


def _spark_home(directory: Path) -> Path:
    return directory.absolute() / "spark"


def _short(path: Path) -> Path:
    """Return the path as a person in the current directory would write it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn what is wrong with a lab into its message and an exit code."""
    try:
        yield
    except LabError as problem:
        print(problem, file=sys.stderr)
        raise typer.Exit(_BAD_USAGE if isinstance(problem, BadRequest) else _COULD_NOT_START) from problem
