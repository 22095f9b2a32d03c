"""The commands that replicate, or say what would be replicated: run, legacy, plan."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated

import typer

from mirror.commands.arguments import AsJson, File, FlowName, ShowAll
from mirror.commands.invocation import PART_ENDED, STANDARD_ERROR, VERDICT_NOT_PASS, errors_explained, flow_meant
from mirror.commands.output import err, out, print_json, print_table, streams
from mirror.config.errors import ConfigError
from mirror.config.explained import Explained, explain_file
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import read
from mirror.config.resolving import load, settings_of
from mirror.control.plan import FlowPlan, plan_flow
from mirror.engine.run_log import LogFormat, LogLevel, set_up
from mirror.signals import stop_on_signal
from mirror.spark_conf import BadSparkConf, read_spark_conf
from mirror.tables import MOST_ROWS
from mirror.terminal import Remark

#: What a row of :attr:`FlowPlan.offsets` has where nothing is to be filled.
_NO_COST = frozenset({"", "0", "none", "0.0"})


def run(
    file: File,
    more_clusters: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    clusters: Annotated[
        list[str] | None, typer.Option(help="Only flows whose target is among these.", metavar="ALIAS...")
    ] = None,
    master: Annotated[str | None, typer.Option(help="A Spark master; this machine by default.", metavar="URL")] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(help="A setting of Spark; ${env:NAME} and ${file:PATH:KEY} stand for secrets.", metavar="K=V"),
    ] = None,
    log_level: Annotated[
        LogLevel,
        typer.Option(help="The lowest level that is logged; the log goes to standard error.", case_sensitive=False),
    ] = LogLevel.INFO,
    status_port: Annotated[
        int | None,
        typer.Option(
            help="Serve /metrics, /health, /ready and /status there; 0: any free port, which the log shows.",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How the log is written.")] = LogFormat.TEXT,
) -> None:
    """Replicate the enabled flows until told to stop (SIGTERM or Ctrl-C).

    Clusters that do not answer are waited for. A file that changes is read again, at once on SIGHUP; changes that need
    a restart are reported. Exit code 3 if Spark cannot be started, or if no target can be reached and waiting would
    not help (a refused login, a host name that does not resolve).
    Exit code 4 if a part of the engine ended by a defect of its own, and the rest was stopped.
    """
    stop, asked = threading.Event(), threading.Event()
    set_up(log_level, log_format, STANDARD_ERROR)
    log = logging.getLogger(__name__)
    # Before anything else: importing PySpark takes a second, in which somebody may think better of it.
    stop_on_signal(stop, lambda name: log.info("stops: %s", name), asked)
    from mirror.engine.followed_file import following
    from mirror.engine.run import Engine, PartEnded  # other commands need none of PySpark
    from mirror.monitoring.watch import served, watched

    with errors_explained(file):
        config = MirrorMakerConfig.of(read(file))
        settings = settings_of(config, file)
        if more_clusters and not clusters:
            raise ConfigError(file, None, None, f"one file, and nothing after it but options: {more_clusters[0]}")
        # As connect-mirror-maker.sh has it (CLI-01): --clusters X Y.
        targets = [*(clusters or ()), *(more_clusters or ())]
        port = settings.engine.status_port if status_port is None else status_port
        is_watched = port is not None or settings.engine.history.directory is not None
        try:
            conf = read_spark_conf(spark_conf or ())
        except BadSparkConf as problem:
            raise ConfigError(file, None, None, str(problem)) from problem
        engine = Engine(settings, clusters=targets, master=master, spark_conf=conf, reports_copied=is_watched)
        asked_by = "mirror.status.port" if status_port is None else "--status-port"
        try:
            with ExitStack() as around:
                around.enter_context(following(engine, config, file, asked))
                if is_watched:
                    watching = around.enter_context(watched(engine, stop))
                    if port is not None:
                        around.enter_context(served(engine, watching, port, asked_by))
                engine.run(stop)
        except PartEnded as ended:
            log.critical("stopped, because a part ended by a defect: %s: %r", ended, ended.__cause__)
            raise typer.Exit(PART_ENDED) from None
    log.info("stopped")


def legacy(context: typer.Context) -> None:
    """Copy topics as MirrorMaker 1, kafka-mirror-maker.sh, does, with its options: --help lists them.

    Exit code 1 for bad usage and files, 255 if a stream ended by itself; as MirrorMaker 1's.
    """
    from mirror.legacy.command import run as run_legacy  # other commands need none of its client

    raise typer.Exit(run_legacy(context.args))


def plan(
    file: File,
    flow: FlowName = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain each key of the file instead; asks no cluster.")
    ] = False,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Show what the engine would create and change now (topics, settings, ACLs); changes nothing.

    Exit code 1 if something stands in the way.
    """
    with errors_explained(file):
        settings = load(file)
        if explain:
            _print_explained(explain_file(file), as_json=as_json)
            return
        chosen = [flow_meant(settings, flow)] if flow else settings.flows
        with streams().looking():
            found = [plan_flow(each, settings.clusters, settings.back_of(each.flow)) for each in chosen]
    if as_json:
        print_json({"ignored": list(settings.ignored), "flows": [one.as_json() for one in found]})
    else:
        for line in settings.ignored:
            err.print(line, markup=False, style="yellow")
        for one in found:
            _print_plan(one, show_all=show_all)
    if any(one.has_problems for one in found):
        raise typer.Exit(VERDICT_NOT_PASS)


def _print_plan(plan: FlowPlan, *, show_all: bool) -> None:
    if plan.problem is not None:
        out.print(f"{plan.flow}: {plan.problem}", markup=False, style="red")
        return
    if not plan.enabled:
        out.print(f"{plan.flow}: not enabled", markup=False)
    for kind, rows in plan.tables().items() or ([("changes", [])] if plan.enabled else []):
        problems_first = sorted(rows, key=lambda row: row["action"] != "problem")
        # A problem has no costs: all rows have the columns of the one that has most.
        columns = [
            name
            for name in max(rows, key=len, default={})
            if kind != "offsets" or any(row.get(name, "") not in _NO_COST for row in rows)
        ]
        shown = [_for_people({name: row.get(name, "") for name in columns}) for row in problems_first]
        most = None if show_all else MOST_ROWS
        print_table(f"{plan.flow}: {kind}", shown, most=most, unbroken=frozenset({"topic", "detail"}))
    for note in plan.notes:
        out.print(Remark(f"note: {note}", "dim"))


def _for_people(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row that begins with its topic, if it has one, and whose detail does not name that once more."""
    if "topic" not in row or "cluster" not in row:
        return dict(row)
    beside = f"topic {row['topic']} on {row['cluster']} "
    others = {name: value for name, value in row.items() if name != "topic"}
    return {"topic": row["topic"] or "-", **others, "detail": row["detail"].removeprefix(beside)}


def _print_explained(found: Sequence[Explained], *, as_json: bool) -> None:
    if as_json:
        print_json({"keys": [each.as_json() for each in found]})
        return
    for scope in dict.fromkeys(each.scope for each in found):
        rows = [
            {"key": each.name, "line": each.line, "value": each.value, "effect": each.effect.value, "why": each.why}
            for each in found
            if each.scope == scope
        ]
        print_table(f"Keys of {scope}", rows, unbroken=frozenset({"key"}))
