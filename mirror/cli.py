"""The command ``mirror``: reads arguments, calls, prints.

Exit codes: 0; 1 a verdict other than PASS, a flow that is FAILED, a plan with problems; 2 bad usage or configuration;
3 could not start, or not write its output; 4 a part of the engine ended by a defect.
"""

from __future__ import annotations

import errno
import getpass
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID
from rich.text import Text

from mirror import terminal
from mirror.background_process import detach
from mirror.config.explained import Explained, explain_file
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import read
from mirror.config.settings import ConfigError, FlowSettings, MirrorSettings, load, settings_of
from mirror.control.flow_log import NeverRun
from mirror.control.gaps import Choice, GapEntry, acknowledge, iso_time, list_gaps, never_run_as_json
from mirror.control.group_view import GroupView, view_groups
from mirror.control.plan import FlowPlan, plan_flow
from mirror.control.tick import now_ms
from mirror.drill.commands import app as runbook_app
from mirror.drill.own_folder import init
from mirror.engine.refusals import NotReachable, not_reachable, unusable
from mirror.engine.run_log import LogFormat, LogLevel, set_up
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.extras import extra_of
from mirror.failover_commands import Asked, Terminal, fail_back, fail_over
from mirror.history.kept import Bounds
from mirror.kafka.channel import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.cluster import ClusterError, ClusterUnreachable, ItemResult
from mirror.kafka.group_reader import ReadLimits
from mirror.kafka.security import UnsupportedSetting
from mirror.lab.bench.command import bench
from mirror.lab.commands import app as lab_app
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.flow_state import Acknowledgement
from mirror.model.offset_ranges import Ranges
from mirror.model.progress import Watch
from mirror.model.shadow import TakenFrom
from mirror.model.verdict import Verdict
from mirror.no_spark import SparkDidNotStart
from mirror.proof.left_out import LeftOut
from mirror.recovery import rehearsal_rows
from mirror.recovery.failover import Mode
from mirror.recovery.fence import FencePlan, apply_fence, lift_fence, plan_fence, watch_fenced
from mirror.recovery.fence_record import FenceRecord
from mirror.recovery.fenced_side import late_writers
from mirror.recovery.group_moves import MovePlan, apply_moves, plan_moves
from mirror.recovery.group_snapshot import GroupSnapshot, RestoreAction, look_at, restore
from mirror.recovery.pause import PausedPosition, PausePlan, plan_pause
from mirror.recovery.pause import pause as pause_flow
from mirror.recovery.pause import resume as resume_flow
from mirror.recovery.readiness import Readiness, judge, summed_up
from mirror.recovery.readiness_reader import read_facts
from mirror.recovery.rehearsal import Rehearsal, clean_up, left_behind
from mirror.recovery.rehearsal import rehearse as carry_out
from mirror.recovery.rehearsal_plan import RehearsalPlan, plan_rehearsal
from mirror.recovery.sentinel import Watched
from mirror.scenario.commands import app as scenario_app
from mirror.signals import sigterm_interrupts, stop_when_told
from mirror.spark_conf import BadSparkConf, read_spark_conf
from mirror.status_page import Looking, duration, page
from mirror.status_page import watch as watch_status
from mirror.tables import MOST_ROWS, print_rows

VERDICT_NOT_PASS, BAD_USAGE, COULD_NOT_START, PART_ENDED = 1, 2, 3, 4
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

_STANDARD_ERROR = 2
_MOST_ABSENCES = 20
_MOST_NAMED = 10
_EVERY_GROUP = ".*"
_GAP_COLUMNS = ("topic", "partition", "from", "to", "count", "kind", "found_at")

_VERIFIED_COUNTS = (
    "missing", "extra", "altered", "reordered", "misplaced", "foreign", "parked", "gaps", "filtered", "cleaned"
)  # fmt: skip
_WAYS_COMPARED = {"by_bytes": "by their bytes", "by_record": "record by record", "remembered": "earlier (remembered)"}

app = typer.Typer(
    name="mirror",
    help="Replicate Kafka clusters from an unchanged connect-mirror-maker.properties, and prove what a failover loses.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Else lines end in help where they end in the source.
    rich_markup_mode="markdown",
)
app.add_typer(lab_app, name="lab")
app.add_typer(runbook_app, name="runbook")
app.add_typer(scenario_app, name="scenario")
app.command()(bench)
lab_app.command()(init)


def _require_pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as problem:
        raise typer.BadParameter(f"{text!r} is not a regular expression: {problem}") from None
    return text


File = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, a stable form, instead of tables.")]
ShowAll = Annotated[bool, typer.Option("--all", help="Show every row of long tables.")]
GroupPattern = Annotated[
    str,
    typer.Option("--group", "--groups", help="Groups whose whole id matches.", metavar="RE", callback=_require_pattern),
]
TopicPattern = Annotated[
    str | None,
    typer.Option(
        "--topics", help="Only topics of the source whose whole name matches.", metavar="RE", callback=_require_pattern
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
WhoSays = Annotated[str | None, typer.Option(help="Who says so; by default who runs this.", metavar="NAME")]
ChosenGroups = Annotated[
    str | None,
    typer.Option(
        "--group",
        "--groups",
        help="Groups whose whole id matches; all of them by default.",
        metavar="RE",
        callback=lambda text: None if text is None else _require_pattern(text),
    ),
]
ApplicationsFile = Annotated[
    Path | None,
    typer.Option(help="Commands that stop, start and probe the applications of each cluster.", metavar="TOML"),
]
RunFolder = Annotated[
    Path | None,
    typer.Option(help="Where the run keeps its record; one that is there is gone on with.", metavar="DIR"),
]
TakeBack = Annotated[
    bool,
    typer.Option("--take-back", help="Take back what a run has done that has not passed the point of no return."),
]
GivenUp = Annotated[
    str | None,
    typer.Option("--give-up", help="Another run that is on record, and that nobody goes on with.", metavar="RUN"),
]
PlanOnly = Annotated[bool, typer.Option("--dry-run", help="Show the plan; change nothing.")]
FlowName = Annotated[str | None, typer.Option("--flow", help="One flow, quoted: 'east->west'.", metavar="'A->B'")]

_LIMITS = ReadLimits()

_out = terminal.console()
_err = terminal.console(stderr=True, soft_wrap=True, highlight=False)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        _out.print(f"mirror {version('mirrorbook')}", highlight=False)
        raise typer.Exit


@app.callback()
def _mirror(
    *,
    _: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Take what stands in front of a command."""


@app.command()
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
        LogLevel, typer.Option(help="From which level on the log, on standard error, has lines.", case_sensitive=False)
    ] = LogLevel.INFO,
    status_port: Annotated[
        int | None,
        typer.Option(
            help="Serve /metrics, /health, /ready and /status there; 0: any free port, which the log tells.",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How the log is written.")] = LogFormat.TEXT,
) -> None:
    """Replicate the enabled flows until told to stop (SIGTERM or Ctrl-C).

    Clusters that do not answer are waited for. A file that changes is read anew, at once if SIGHUP is sent; what of it
    needs a restart is told. Exit code 3 if Spark cannot be started, or if no target can be reached
    and waiting helps none (a refused login, a host's name that nobody has).
    Exit code 4 if a part of the engine ended by a defect of its own, and the rest was stopped.
    """
    stop, asked = threading.Event(), threading.Event()
    set_up(log_level, log_format, _STANDARD_ERROR)
    log = logging.getLogger(__name__)
    # Before anything else: importing PySpark takes a second, in which somebody may think better of it.
    stop_when_told(stop, lambda name: log.info("stops: %s", name), asked)
    from mirror.engine.followed_file import following
    from mirror.engine.run import Engine, PartEnded  # other commands need none of PySpark
    from mirror.monitoring.watch import served, watched

    with _explained(file):
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
        engine = Engine(settings, clusters=targets, master=master, spark_conf=conf, tells_copied=is_watched)
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


@app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def legacy(context: typer.Context) -> None:
    """Copy topics as MirrorMaker 1, kafka-mirror-maker.sh, does, with its options: --help lists them.

    Exit code 1 for bad usage and files, 255 if a stream ended by itself; as MirrorMaker 1's.
    """
    from mirror.legacy.command import run as run_legacy  # other commands need none of its client

    raise typer.Exit(run_legacy(context.args))


@app.command()
def plan(
    file: File,
    flow: FlowName = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say instead what each key of the file does here; asks no cluster.")
    ] = False,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Say what the engine would create and change now, topics, settings, ACLs; touches nothing.

    Exit code 1 if something stands in the way.
    """
    with _explained(file):
        settings = load(file)
        if explain:
            _print_explained(explain_file(file), as_json=as_json)
            return
        chosen = [_flow(settings, flow)] if flow else settings.flows
        found = [plan_flow(each, settings.clusters) for each in chosen]
    if as_json:
        _print_json({"ignored": list(settings.ignored), "flows": [one.as_json() for one in found]})
    else:
        for line in settings.ignored:
            _err.print(line, markup=False, style="yellow")
        for one in found:
            _print_plan(one, show_all=show_all)
    if any(one.has_problems for one in found):
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def status(
    file: File,
    flow: FlowName = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="For monitoring: exit code 1 unless every flow is RUNNING (so also if one is PAUSED)."
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Go on until Ctrl-C: in a terminal in place, elsewhere one page, or line of JSON, after the other.",
        ),
    ] = False,
    interval: Annotated[
        float, typer.Option(help="With --watch: how often is looked.", metavar="SECONDS", min=0.5)
    ] = 2.0,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Say where every flow stands: state, reasons, and the partitions that need somebody most.

    Of a flow that is failed over it is looked who still writes to its old cluster. Exit code 1 if somebody does, or the
    state of a flow cannot be told (FAILED); with --check also if one is STARTING, DEGRADED, PAUSED or STOPPED. With
    --watch it is 0, whatever was seen.
    """
    if watch and check:
        raise typer.BadParameter("--check asks once, --watch goes on: one of the two")
    with _explained(file):
        settings = load(file, applies_transforms=False)
        looking = Looking(settings, [_flow(settings, flow)] if flow else settings.enabled_flows)
        if watch:
            stop = threading.Event()
            stop_when_told(stop, lambda _: None)
            watch_status(looking, file, _out, interval, stop, as_json=as_json, show_all=show_all)
            return
        found = looking.once()
    if as_json:
        _print_json({"flows": [one.as_json() for one in found]})
    else:
        for one in found:
            _out.print(page(one.status, file, _out.width, most_rows=None if show_all else MOST_ROWS))
    states = [one.status.state for one in found]
    if late_writers([one.side for one in found]) or any(
        state != "RUNNING" if check else state == "FAILED" for state in states
    ):
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def record(
    file: File,
    flow: FlowName = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the history is kept; by default mirror.history.directory.", metavar="DIR"),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            help="How far samples are apart; by default mirror.history.interval.seconds.", metavar="SECONDS", min=0.5
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="From which level on the log, on standard error, has lines.", case_sensitive=False)
    ] = LogLevel.INFO,
) -> None:
    """Keep a history of the flows from outside, whoever copies them, until told to stop (SIGTERM or Ctrl-C).

    An engine of this program keeps one by itself, by mirror.history.directory. Of Java MirrorMaker 2 the positions are
    read that it leaves, its offset syncs, and the ends of the copies. What is older or more than
    mirror.history.retention.hours and .bytes is removed, and that is told.
    """
    stop = threading.Event()
    set_up(log_level, LogFormat.TEXT, _STANDARD_ERROR)
    log = logging.getLogger(__name__)
    stop_when_told(stop, lambda name: log.info("stops: %s", name))
    from mirror.history.recorder import record_flows  # other commands need no Arrow
    from mirror.history.store import HistoryWriter

    with _explained(file):
        settings = load(file, applies_transforms=False)
        chosen = [_flow(settings, flow)] if flow else settings.enabled_flows
        history = settings.engine.history
        if (folder := directory or history.directory) is None:
            raise ConfigError(file, None, "--directory", "say where: there is no mirror.history.directory in the file")
        seconds = history.interval_seconds if interval is None else interval
        writer = HistoryWriter(folder, Bounds(history.retention_seconds, history.retention_bytes))
        log.info("records %s to %s, every %g s", ", ".join(str(each.flow) for each in chosen), folder, seconds)
        record_flows(settings, chosen, writer, seconds, stop)
    kept = writer.kept
    log.info("%s of %s recorded", counted(kept.samples, "sample"), counted(kept.rows, "row"))
    if kept.trouble is not None or kept.lost_rows:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def offsets(
    file: File,
    flow: FlowName = None,
    group: GroupPattern = _EVERY_GROUP,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Say where each group would go on, on the target; works without the source, from the checkpoints.

    Exit code 1 if the source does not tell the position of some group (which, and why, is said beside the others), no
    group matches the pattern that was given, or the flow has never run.
    """
    with _explained(file):
        settings = load(file, applies_transforms=False)
        chosen = _flow(settings, flow)
        try:
            view = view_groups(chosen, settings.clusters, pattern=group, flows=settings.enabled_flows, with_ages=True)
        except NeverRun as never:
            _err.print(f"{chosen.flow}: {never}", markup=False)
            raise typer.Exit(VERDICT_NOT_PASS) from None
    if view.source_problem:
        said = f"The positions are those of the checkpoints on {chosen.flow.target}: {view.source_problem}"
        _err.print(said, markup=False)
    rows = [one.as_json() | {"report_age_seconds": view.report_age_seconds} for one in view.positions]
    if as_json:
        _print_json(rows)
    else:
        _print_table(
            f"Groups of {chosen.flow}", [_position_row(row) for row in rows], most=None if show_all else MOST_ROWS
        )
        _out.print(_last_report(view, chosen.flow), markup=False, highlight=False)
    for each in view.unread:
        _err.print(f"Not told, so not among these: {each}", markup=False)
    is_nobody = group != _EVERY_GROUP and view.unmatched is not None
    if is_nobody:
        _err.print(view.unmatched, markup=False)
    if view.unread or is_nobody:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def readiness(
    file: File,
    flow: FlowName = None,
    rpo_seconds: Annotated[
        float, typer.Option("--rpo-seconds", min=0, help="How far the copy may be behind.", metavar="SECONDS")
    ] = 30.0,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Say whether one could fail over now: every difference of the two sides, the worst first; touches nothing.

    Exit code 0: ready. 1: something blocks a failover or loses records, or what matters could not be looked at.
    """
    with _explained(file):
        settings = load(file, applies_transforms=False)
        chosen = _flow(settings, flow)
        found = judge(read_facts(settings, chosen, rpo_seconds=rpo_seconds))
    if as_json:
        _print_json(found.as_json())
    else:
        _print_readiness(found, show_all=show_all)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def groups(
    file: File,
    flow: FlowName = None,
    group: GroupPattern = _EVERY_GROUP,
    apply: Annotated[
        bool, typer.Option("--apply", help="Move the groups: write their positions on the target.")
    ] = False,
    undo: Annotated[
        Path | None, typer.Option("--restore", help="Put back what a move has changed.", metavar="SNAPSHOT")
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(help="Where the positions are saved before they change.", metavar="PATH"),
    ] = None,
    taken_from: Annotated[
        TakenFrom, typer.Option("--positions", help="Where groups stand: by the source, or by the checkpoints.")
    ] = TakenFrom.SOURCE,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move groups to where they go on, on the target, or put them back; the positions before are saved first.

    A group in use is refused by name. What the plan says is what is written: if the target has changed meanwhile,
    nothing is. --dry-run alone shows the plan of --apply. Exit code 1 if a group that should have been moved was not.
    """
    with _explained(file):
        settings = load(file, applies_transforms=False)
        if (apply and undo is not None) or not (apply or undo is not None or dry_run):
            raise ConfigError(file, None, None, "say either --apply or --restore SNAPSHOT, or --dry-run for the plan")
        if undo is not None:
            saved_before = GroupSnapshot.load(undo)
            chosen = _flow(settings, flow or str(saved_before.flow))
            _restore_groups(
                settings, chosen, undo, saved_before.of_groups(group), dry_run=dry_run, yes=yes, as_json=as_json
            )
            return
        chosen = _flow(settings, flow)
        plan = plan_moves(
            chosen,
            settings.clusters,
            pattern=group,
            ask_source=taken_from is TakenFrom.SOURCE,
            flows=settings.enabled_flows,
            back=settings.back_of(chosen.flow),
        )
        _move_groups(settings, plan, group, snapshot, dry_run=dry_run, yes=yes, as_json=as_json)


@app.command()
def pause(
    file: File,
    flow: FlowName = None,
    topics: TopicPattern = None,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout", min=0, help="How long to wait until it is confirmed.", metavar="SECONDS")
    ] = 60.0,
    by: WhoSays = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Copy nothing more of a flow, or of some topics, until resumed; engines that run and later ones keep to it.

    Returns when nothing more is appended to the copies, and says how far each partition is copied. Exit code 1 if that
    is not confirmed in time (the wish stays on record), or some position is not final.
    """
    with _explained(file):
        settings = load(file, applies_transforms=False)
        chosen = _flow(settings, flow)
        plan = plan_pause(settings, chosen, topics)
        _show_pause_plan(plan, dry_run=dry_run, as_json=as_json)
        if dry_run:
            return
        _consent(file, f"Pause {_topics_meant(topics)} of {chosen.flow}?", yes=yes)
        found = pause_flow(settings, chosen, topics, timeout_seconds=timeout_seconds, by=by or _user(file))
    if as_json:
        _print_json(found.as_json())
    else:
        _print_table(f"Copied of {chosen.flow}", [_paused_row(each) for each in found.positions], most=MOST_ROWS)
        confirmed = found.confirmed_by and f"confirmed by: {found.confirmed_by}"
        for said in filter(None, (confirmed, found.limit and f"not promised: {found.limit}", found.problem)):
            _out.print(f"  {said}", markup=False)
        _out.print(f"verdict {found.verdict}", highlight=False)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def resume(
    file: File,
    flow: FlowName = None,
    topics: TopicPattern = None,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout", min=0, help="How long to wait for the engine.", metavar="SECONDS")
    ] = 60.0,
    by: WhoSays = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Copy a flow, or some of its topics, again after a pause, from where that left them.

    Exit code 1 if the engine that leads the flow does not take it in in time; the wish stays on record.
    """
    with _explained(file):
        settings = load(file, applies_transforms=False)
        chosen = _flow(settings, flow)
        plan = plan_pause(settings, chosen, topics, is_pause=False)
        _show_pause_plan(plan, dry_run=dry_run, as_json=as_json)
        if dry_run:
            return
        _consent(file, f"Copy {_topics_meant(topics)} of {chosen.flow} again?", yes=yes)
        found = resume_flow(settings, chosen, topics, timeout_seconds=timeout_seconds, by=by or _user(file))
    if as_json:
        _print_json(found.as_json())
    else:
        said = found.problem or f"resumed; {found.confirmed_by or 'no engine leads the flow: the next one copies it'}"
        _out.print(f"{chosen.flow}: {said}", markup=False)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def fence(
    file: File,
    cluster: Annotated[str, typer.Option(help="The cluster, by its alias.", metavar="A")],
    lift: Annotated[bool, typer.Option("--lift", help="Take back exactly what fencing has added.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="Where it is on record what is added; by default fence-A.json.", metavar="PATH")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--watch", min=0, help="Change nothing; say who writes in so many seconds.", metavar="SECONDS"),
    ] = None,
    by: WhoSays = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Keep producers from writing to a cluster: by ACLs, or, where it looks at none, hold them back by quotas.

    What is added is put on record in a file first, from which it is lifted; what is under way is taken up. Exit code 1
    unless nothing is written any more for some seconds: quotas alone never prove that.
    """
    with _explained(file):
        settings = load(file, applies_transforms=False)
        if cluster not in settings.clusters:
            known = ", ".join(settings.clusters)
            raise ConfigError(file, None, "--cluster", f"{cluster} is not among clusters: {known}")
        path = record or Path(f"fence-{cluster}.json")
        if lift:
            _lift_fence(settings, cluster, path, dry_run=dry_run, yes=yes, as_json=as_json)
            return
        plan = plan_fence(settings, cluster, path, by=by or _user(file))
        if seconds is not None:
            _say_who_writes(cluster, watch_fenced(plan, settings, seconds), as_json=as_json)
            return
        if not as_json:
            _print_fence_plan(plan)
        if dry_run:
            if as_json:
                _print_json(plan.as_json() | {"verdict": Verdict.UNKNOWN.value})
            return
        _consent(file, f"Fence {cluster}?", yes=yes)
        found = apply_fence(plan, settings, path)
    if as_json:
        _print_json(found.as_json() | {"record": str(path)})
    else:
        for problem in found.problems:
            _out.print(f"  {problem}", markup=False)
        for said in found.watched.said():
            _out.print(f"  still written: {said}", markup=False)
        _out.print(f"Lift it with: mirror fence {file} --cluster {cluster} --lift --record {path}", markup=False)
        _out.print(f"verdict {found.verdict}", highlight=False)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def failover(
    file: File,
    flow: FlowName = None,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="unplanned (default): the source is gone. planned: nothing is lost, or nothing is moved. cut-off: the "
            "target cannot copy from it, whether or not it lives."
        ),
    ] = None,
    group: ChosenGroups = None,
    applications: ApplicationsFile = None,
    run_directory: RunFolder = None,
    back: TakeBack = False,
    given_up: GivenUp = None,
    fences: Annotated[
        bool,
        typer.Option(
            "--fence",
            help="Deny writes to the source's topics by ACLs (planned, cut-off); taken back, or led home, they are "
            "admitted again as before.",
        ),
    ] = False,
    dry_run: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move the applications of a flow from its source to its target: stopped, cut, groups moved, started, seen at work.

    A run that ended anywhere is gone on with by the same command and its --run-directory. Exit code 1 unless the
    verdict is PASS: what nobody has looked at is UNKNOWN.
    """
    with _explained(file), sigterm_interrupts():
        settings = load(file, applies_transforms=False)
        asked = Asked(group, applications, run_directory, dry_run, yes, as_json, back, given_up, fences)
        code = _guarded(lambda: fail_over(settings, _flow(settings, flow), mode, asked, _terminal()))
    raise typer.Exit(code)


@app.command()
def failback(
    file: File,
    flow: FlowName = None,
    group: ChosenGroups = None,
    applications: ApplicationsFile = None,
    run_directory: RunFolder = None,
    back: TakeBack = False,
    given_up: GivenUp = None,
    dry_run: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Lead the applications of a flow home that was failed over; --flow names that flow, --run-directory its run.

    States what only the old cluster has, has the flow back copy everything home, and moves the groups; then both flows
    copy again. Exit code 1 unless the verdict is PASS.
    """
    with _explained(file), sigterm_interrupts():
        settings = load(file, applies_transforms=False)
        asked = Asked(group, applications, run_directory, dry_run, yes, as_json, back, given_up)
        code = _guarded(lambda: fail_back(settings, _flow(settings, flow), asked, _terminal()))
    raise typer.Exit(code)


def _guarded(perform: Callable[[], int]) -> int:
    """Return the exit code of a run; one that is interrupted stands where it is."""
    try:
        return perform()
    except KeyboardInterrupt:
        _err.print("Interrupted. The run stands where it is: go on with it by its --run-directory.", markup=False)
        return VERDICT_NOT_PASS


def _terminal() -> Terminal:
    return Terminal(_out, _err, _progress)


@app.command()
def rehearse(
    file: File,
    flow: FlowName = None,
    group: GroupPattern = _EVERY_GROUP,
    positions: Annotated[
        TakenFrom, typer.Option(help="As if the source were lost (checkpoints), or as in a planned move (source).")
    ] = TakenFrom.CHECKPOINTS,
    records: Annotated[int, typer.Option(min=1, help="Most records read of a partition.")] = _LIMITS.records,
    size_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Most bytes read of a partition.")
    ] = _LIMITS.size_bytes,
    seconds: Annotated[float, typer.Option(min=1, help="Longest reading of a group.")] = _LIMITS.seconds,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, the forecast and the rights needed; make nothing.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only delete what rehearsals that were killed have left behind.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Try a failover out while mirroring goes on: shadows of the groups read on the target, to nowhere.

    Says of each group what it would skip and read again, forecast and measured. No other group is touched, and the
    shadows are deleted. Exit code 1 unless the verdict is PASS. A dry run proves nothing; it ends with 1 if a group
    could not be tried, or would skip records by the forecast, or there is none.
    """
    with _explained(file), sigterm_interrupts():
        settings = load(file)
        chosen = _flow(settings, flow)
        if clean:
            _clean_up(settings, chosen.flow, dry_run=dry_run, as_json=as_json)
            return
        plan = plan_rehearsal(settings, chosen, pattern=group, taken_from=positions)
        if not as_json:
            _print_rehearsal_plan(plan)
        if dry_run:
            if as_json:
                _print_json(rehearsal_rows.plan_as_json(plan) | {"verdict": Verdict.UNKNOWN.value})
            if not plan.is_in_order:
                raise typer.Exit(VERDICT_NOT_PASS)
            return
        try:
            with _progress() as watch:
                found = carry_out(settings, plan, ReadLimits(records, size_bytes, seconds), watch=watch)
        except KeyboardInterrupt:
            said = f"Interrupted. Shadow groups are deleted; make sure with: mirror rehearse {file} --clean"
            _err.print(said, markup=False)
            raise typer.Exit(VERDICT_NOT_PASS) from None
    if as_json:
        _print_json(rehearsal_rows.as_json(found))
    else:
        _print_rehearsal(found)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def gaps(
    file: File,
    flow: FlowName = None,
    topic: Annotated[str | None, typer.Option(help="Gaps of one topic, named as on the source.")] = None,
    partition: Annotated[int | None, typer.Option(help="Gaps of one partition.")] = None,
    confirm: Annotated[
        bool, typer.Option("--acknowledge", help="Say that the gaps shown are known; a stopped copy then goes on.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why they are taken as they are.", metavar="TEXT")] = None,
    by: WhoSays = None,
    as_json: AsJson = False,
) -> None:
    """List what the copies lack, and where; exit code 1 while somebody still has to acknowledge a gap."""
    with _explained(file):
        settings = load(file, applies_transforms=False)
        if confirm and not (reason or "").strip():
            raise ConfigError(file, None, "--reason", "say why the gaps are taken as they are")
        choice, found = Choice(topic, partition), list[GapEntry]()
        never_run: dict[Flow, NeverRun] = {}
        chosen = [_flow(settings, flow)] if flow else settings.enabled_flows
        for each in chosen:
            try:
                listed = list_gaps(each, settings.clusters, choice)
            except NeverRun as never:
                never_run[each.flow] = never
                continue
            if confirm and reason:
                known = Acknowledgement(by or _user(file), reason, now_ms())
                listed = acknowledge(each, settings.clusters, listed, known)
            found += listed
    if as_json:
        lacking = [never_run_as_json(*each) for each in never_run.items()]
        _print_json([*(one.as_json() for one in found), *lacking])
    else:
        for name, why in never_run.items():
            _out.print(f"{name}: {why}", markup=False, soft_wrap=True)
        if len(never_run) < len(chosen):
            _print_gaps(found, was_acknowledged=confirm)
    if any(one.acknowledgement is None for one in found):
        raise typer.Exit(VERDICT_NOT_PASS)


@app.command()
def verify(
    file: File,
    flow: FlowName = None,
    remember: Annotated[
        Path | None,
        typer.Option(
            help="Keep in this file what was found equal, and read only what came since it was last written.",
            metavar="PATH",
        ),
    ] = None,
    others_write: Annotated[
        bool,
        typer.Option(
            help="Producers of the target write to copies under unchanged names, although no flow back and no failover "
            "is known: count their records as foreign, not as extra."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the copy with its source up to where the flow stands now: the bytes of batches, else record by record.

    Exit code 1 unless the verdict is PASS.
    """
    from mirror.recovery.verify import verify_flow

    with _explained(file):
        settings = load(file, applies_transforms=False)
        chosen = _flow(settings, flow)
        with _progress() as watch:
            found = verify_flow(
                chosen,
                settings.clusters,
                settings.enabled_flows,
                remember=remember,
                others_write=others_write,
                watch=watch,
            )
    if as_json:
        _print_json(found.as_json())
    else:
        _print_verification(f"{chosen.flow}: {found.verdict}", found.as_json())
        _print_left_out(found.left_out)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def main() -> None:
    """Run the command line; output that cannot be written ends it in one line, or none if nobody reads any more."""
    try:
        try:
            app()
        finally:
            if sys.__stdout__ is not None:
                sys.stdout.flush()
    except ModuleNotFoundError as missing:
        if (extra := extra_of(missing.name or "")) is None:
            raise
        told = f"{missing.name} is not installed, which this needs: pip install 'mirrorbook[{extra}]'"
        _err.print(told, style="red", markup=False)
        raise SystemExit(BAD_USAGE) from None
    except OSError as problem:
        if problem.errno not in (*_DISK_FULL, errno.EPIPE):
            raise
        # What is left in the buffer would be written once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if problem.errno == errno.EPIPE:
            raise SystemExit(VERDICT_NOT_PASS) from None
        _err.print(problem.strerror, style="red", markup=False)
        raise SystemExit(COULD_NOT_START) from None


def connect_mirror_maker() -> None:
    """Run ``connect-mirror-maker.sh [-daemon] FILE [--clusters ALIAS...]``, which is `mirror run` (CLI-01)."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["-daemon"]:
        log = detach([sys.executable, "-m", "mirror", "run", *arguments[1:]], "mirrorMaker")
        _err.print(f"It runs by itself; its log is {log}", markup=False)
        return
    sys.argv[1:] = ["run", *arguments]
    main()


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Turn what can be wrong with a file or a cluster into one message, with its place there, and an exit code."""
    try:
        yield
    except NotReachable as error:
        told, code = str(error), COULD_NOT_START
    except UnsupportedSetting as error:
        told, code = str(unusable(file, error)), BAD_USAGE
    except (ConfigError, FileNotFoundError) as error:
        told, code = str(error), BAD_USAGE
    except (ClusterUnreachable, ConnectionFailed) as error:
        told, code = str(not_reachable(file, error)), COULD_NOT_START
    except (ClusterError, BrokerRefused, LeaderUnknown, SparkDidNotStart) as error:
        told, code = str(error), COULD_NOT_START
    else:
        return
    _err.print(told, style="red", markup=False)
    raise typer.Exit(code)


@contextmanager
def _progress() -> Iterator[Watch]:
    """Show how far something long is, where somebody looks on."""
    with Progress(terminal.progress_text(), BarColumn(), MofNCompleteColumn(), console=_err, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def watch(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total)
            bars.update(tasks[doing], completed=done, total=total)

        yield watch


def _move_groups(
    settings: MirrorSettings,
    plan: MovePlan,
    pattern: str,
    snapshot: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Move groups as planned; exit code 1 if one that should have been moved was not, or there is none."""
    file, flow = settings.path, plan.settings.flow
    if plan.source_problem and not as_json:
        _err.print(f"The positions are those of the checkpoints: {plan.source_problem}", markup=False)
    saved = None
    refused, left = plan.refused, plan.left
    if not as_json:
        _print_table(f"Groups of {flow}, to be moved to {flow.target}", plan.rows())
    if plan.writes and not dry_run:
        _consent(file, f"Write {counted(len(plan.writes), 'position')} on {flow.target}?", yes=yes)
        saved = snapshot or Path(f"groups-{flow.source}-{flow.target}-{now_ms()}.json")
        moves = apply_moves(plan, settings.clusters, snapshot=saved)
        refused, left = moves.refused, moves.left
        # Where nothing was changed there is none.
        saved = saved if saved.exists() else None
    found_none = not plan.positions and not refused
    if as_json:
        _print_json(
            {
                "verdict": _verdict_of_change(refused, is_unproven=dry_run or found_none).value,
                "flow": str(flow),
                "groups": plan.rows(),
                "refused": [str(each) for each in refused],
                "left": [str(each) for each in left],
                "snapshot": str(saved) if saved else None,
            }
        )
    else:
        for each in refused:
            _out.print(f"  refused: {each}", markup=False)
        for each in left:
            _out.print(f"  left as it is: {each}", markup=False, style="dim")
        if saved:
            said = f"The positions before are in {saved}; put them back with: mirror groups {file} --restore {saved}"
            _out.print(said, markup=False)
        if found_none:
            said = plan.unmatched or f"no group of {flow} whose id matches {pattern} has a position"
            _err.print(f"{said}: none was moved", markup=False)
    if refused or found_none:
        raise typer.Exit(VERDICT_NOT_PASS)


def _verdict_of_change(refused: Sequence[object], *, is_unproven: bool) -> Verdict:
    return Verdict.FAIL if refused else Verdict.UNKNOWN if is_unproven else Verdict.PASS


def _topics_meant(topics: str | None) -> str:
    return "all topics" if topics is None else f"topics that match {topics}"


def _show_pause_plan(plan: PausePlan, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        if dry_run:
            _print_json(plan.as_json())
        return
    verb = "paused" if plan.is_pause else "copied again"
    named = ", ".join(plan.changed[:_MOST_NAMED]) + (" and others" if len(plan.changed) > _MOST_NAMED else "")
    _out.print(f"{plan.flow}: to be {verb}: {named or 'no topic that is on record'}", markup=False)
    _out.print(f"  {plan.leader or 'no engine'} leads the flow", markup=False, style="dim")


def _print_fence_plan(plan: FencePlan) -> None:
    rows = [
        {"quota": str(key), "before": each.before, "fenced": each.fenced} for key, each in plan.record.quotas.items()
    ]
    rows += [{"ACL": str(each)} for each in plan.record.acls]
    title = f"To fence {plan.record.cluster}" + (", as on record" if plan.is_taken_up else "")
    _print_table(title, rows, most=MOST_ROWS)
    for topic, why in list(plan.left_open.items())[:_MOST_NAMED]:
        _out.print(f"  not fenced: {topic}: {why}", markup=False, style="dim")
    for warning in plan.warnings:
        _out.print(f"  note: {warning}", markup=False)
    for each in plan.open_to:
        _out.print(f"  it does not stop {each}", markup=False)


def _say_who_writes(cluster: str, found: Watched, *, as_json: bool) -> None:
    """Say who writes to a fenced cluster; exit code 1 if anybody does, or it is not known."""
    verdict = Verdict.FAIL if found.written else Verdict.UNKNOWN if found.unknown else Verdict.PASS
    if as_json:
        unknown = [{"partition": str(each), "reason": why} for each, why in sorted(found.unknown.items())]
        written = found.as_json(cluster)
        _print_json({"verdict": verdict.value, "cluster": cluster, "still_written": written, "unknown": unknown})
    else:
        for said in found.said():
            _out.print(f"  {said}", markup=False)
        _out.print(f"verdict {verdict}", highlight=False)
    if verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def _lift_fence(settings: MirrorSettings, cluster: str, path: Path, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take a fence back; exit code 1 if something of it is left."""
    record = FenceRecord.load(path)
    if dry_run:
        added = [*map(str, record.acls), *map(str, record.quotas)]
        if as_json:
            _print_json({"verdict": Verdict.UNKNOWN.value, "cluster": record.cluster, "put_back": added})
        else:
            _print_table(f"To be taken back on {record.cluster}", [{"added": each} for each in added], most=MOST_ROWS)
        return
    _consent(settings.path, f"Lift the fence of {cluster}, by {record.by} at {iso_time(record.at_ms)}?", yes=yes)
    found = lift_fence(settings, cluster, path)
    if as_json:
        _print_json(found.as_json())
    else:
        for said in (*found.left, *found.problems):
            _out.print(f"  {said}", markup=False)
        _out.print(f"verdict {found.verdict}", highlight=False)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def _paused_row(each: PausedPosition) -> dict[str, Any]:
    return {
        "partition": str(each.source),
        "copied up to": each.upstream,
        "copy": str(each.copy),
        "up to": each.downstream,
        "open end": each.open_end or ("something may still arrive" if each.may_arrive is not None else ""),
    }


def _restore_groups(
    settings: MirrorSettings,
    flow: FlowSettings,
    path: Path,
    saved: GroupSnapshot,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Put groups back where a move found them; exit code 1 if one could not be."""
    cluster = settings.clusters[flow.flow.target]
    decisions = look_at(saved, flow.flow, cluster, path)
    if not as_json:
        _print_table(f"Groups of {flow.flow}, to be put back on {cluster.alias}", [each.row() for each in decisions])
    changes = sum(each.is_change for each in decisions)
    if changes and not dry_run:
        _consent(settings.path, f"Change {counted(changes, 'position')} on {cluster.alias}?", yes=yes)
        decisions = restore(decisions, cluster, saved)
    refused = [each for each in decisions if each.action is RestoreAction.REFUSED]
    if as_json:
        verdict = _verdict_of_change(refused, is_unproven=dry_run or not decisions)
        shown = {"verdict": verdict.value, "flow": str(flow.flow), "groups": [each.row() for each in decisions]}
        _print_json(shown | {"snapshot": str(path)})
    else:
        for each in refused:
            _out.print(f"  refused: group {each.saved.group}, {each.saved.partition}: {each.reason}", markup=False)
        if not decisions:
            _err.print(f"{path} holds no such group: none was put back", markup=False)
    if refused or not decisions:
        raise typer.Exit(VERDICT_NOT_PASS)


def _consent(file: Path, question: str, *, yes: bool) -> None:
    """Ask before something is changed; without somebody to ask it is refused.

    Raises
    ------
    ConfigError
        if nobody can be asked.
    typer.Exit
        with code 1 if the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(file, None, "--yes", "there is no terminal to ask on; say --yes, or --dry-run for the plan")
    if not typer.confirm(question, err=True):
        _err.print("Nothing was changed.")
        raise typer.Exit(VERDICT_NOT_PASS)


def _clean_up(settings: MirrorSettings, flow: Flow, *, dry_run: bool, as_json: bool) -> None:
    """Delete, or only list, the shadow groups on both ends of a flow; exit code 1 while there is one left."""
    ends = (flow.target, flow.source)
    if dry_run:
        found = [(alias, ItemResult(name, "there")) for alias, name in left_behind(settings, ends)]
    else:
        found = clean_up(settings, ends)
    shown = [{"cluster": alias, "group": each.item, "problem": each.problem} for alias, each in found]
    if as_json:
        _print_json(shown)
    elif not shown:
        _out.print("There is no shadow group.")
    else:
        _print_table("Shadow groups" if dry_run else "Shadow groups deleted", shown)
    if any(each.problem for _, each in found):
        raise typer.Exit(VERDICT_NOT_PASS)


def _print_readiness(found: Readiness, *, show_all: bool) -> None:
    """Print the differences, of each rule in one row unless all are asked for, what mends them, and the answer."""
    differences = found.differences if show_all else summed_up(found.differences)
    most = None if show_all else MOST_ROWS
    if differences:
        rows = [
            {
                "difference": f"{number}. {each.impact}{'' if each.is_looked_at else '?'}: {each.what}",
                "where": each.where,
                "source": each.source,
                "target": each.target,
            }
            for number, each in enumerate(differences, 1)
        ]
        print_rows(_out, f"{found.flow}: differences, the worst first", rows, most=most)
        _out.print("To mend them:", style="bold")
        for number, each in enumerate(differences[:most], 1):
            # In one line, however narrow the terminal: commands are there to be copied.
            _out.print(f"  {number}. {each.mend}", markup=False, highlight=False, soft_wrap=True)
    style = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.UNKNOWN: "bold yellow"}[found.verdict]
    _out.print(Text.assemble("verdict ", (found.verdict.value, style)))
    _out.print(found.closing(), markup=False, highlight=False)


def _print_plan(plan: FlowPlan, *, show_all: bool) -> None:
    if plan.problem is not None:
        _out.print(f"{plan.flow}: {plan.problem}", markup=False, style="red", soft_wrap=True)
        return
    if not plan.enabled:
        _out.print(f"{plan.flow}: not enabled", markup=False)
    for kind, rows in plan.tables().items() or ([("changes", [])] if plan.enabled else []):
        problems_first = sorted(rows, key=lambda row: row["action"] != "problem")
        _print_table(f"{plan.flow}: {kind}", problems_first, most=None if show_all else MOST_ROWS)
    for note in plan.notes:
        _out.print(f"  note: {note}", markup=False, style="dim")


def _print_rehearsal_plan(plan: RehearsalPlan) -> None:
    for right in plan.rights:
        _out.print(f"  needs {right}", markup=False, style="dim")
    for note in (*plan.notes, *plan.unread):
        _out.print(f"  note: {note}", markup=False, style="dim")
    title = f"Rehearsal {plan.stamp} of {plan.settings.flow}, positions from the {plan.taken_from}: forecast"
    _print_table(title, rehearsal_rows.plan_table(plan))


def _print_rehearsal(found: Rehearsal) -> None:
    _print_table("Measured", rehearsal_rows.group_table(found))
    style = VERDICT_STYLES[found.verdict]
    for reason in found.reasons:
        _out.print(f"  {reason}", markup=False)
    for line in rehearsal_rows.aftermath(found):
        _out.print(f"  {line}", markup=False, style="dim")
    _out.print(Text.assemble("verdict ", (found.verdict.value, style)))


def _user(file: Path) -> str:
    """Return who runs this.

    Raises
    ------
    ConfigError
        if the system does not know.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError(file, None, "--by", "the system does not know your name; say who you are") from None


def _flow(settings: MirrorSettings, name: str | None) -> FlowSettings:
    """Return the flow called ``name``, or the only one.

    Raises
    ------
    ConfigError
        if there is no such flow, or several and none was named.
    """
    enabled = {flow.flow: flow for flow in settings.enabled_flows}
    if name is None and len(enabled) == 1:
        return next(iter(enabled.values()))
    known = ", ".join(map(str, enabled))
    if name is None:
        raise ConfigError(settings.path, None, "--flow", f"name one of the enabled flows: {known}")
    try:
        return enabled[Flow.parse(name)]
    except (KeyError, ValueError):
        # Of east->west a shell leaves east-, and writes what is printed to a file called west.
        hint = "; quote it, as in --flow 'A->B': a shell takes > for a redirection" if name.endswith("-") else ""
        said = f"{name} is not an enabled flow; there are {known}{hint}"
        raise ConfigError(settings.path, None, "--flow", said) from None


def _print_json(content: Any) -> None:
    json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def _last_report(view: GroupView, flow: Flow) -> str:
    """Return when the engine last reported: what it reports then tells whether it looks at groups at all."""
    report, age = view.report, view.report_age_seconds
    if report is None or age is None:
        return f"No engine of {flow} has reported yet."
    wrong = "" if report.state == "RUNNING" else f", that it is {report.state}: mirror status says why"
    return f"The engine of {flow} last reported {duration(age)} ago ({iso_time(report.at_ms)}){wrong}."


def _position_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `mirror offsets` without what its note says."""
    age = row["checkpoint_age_seconds"]
    shown = {name: row[name] for name in ("group", "topic", "partition", "upstream", "downstream")}
    return {**shown, "checkpoint age, s": None if age is None else round(age), "note": row["note"]}


def _print_explained(found: Sequence[Explained], *, as_json: bool) -> None:
    if as_json:
        _print_json({"keys": [each.as_json() for each in found]})
        return
    for scope in dict.fromkeys(each.scope for each in found):
        rows = [
            {"line": each.line, "key": each.name, "value": each.value, "effect": each.effect.value, "why": each.why}
            for each in found
            if each.scope == scope
        ]
        _print_table(f"Keys of {scope}", rows)


def _print_gaps(found: list[GapEntry], *, was_acknowledged: bool) -> None:
    if not found:
        _out.print("No gap waits for an acknowledgement." if was_acknowledged else "There is no gap.")
    for flow in dict.fromkeys(one.flow for one in found):
        own = [one for one in found if one.flow == flow]
        _print_table(f"Gaps of {flow}", [_gap_row(one) for one in own])
        for one in own:
            stops = " The copy is stopped." if one.stops and not one.acknowledgement else ""
            _out.print(f"{one.gap.source} from {one.gap.start}: {one.gap.reason}.{stops}", markup=False)


def _print_verification(title: str, found: dict[str, Any]) -> None:
    partitions = found["partitions"]
    # What is zero everywhere would only take room; that nothing differs is what the verdict says.
    shown = [name for name in _VERIFIED_COUNTS if any(each[name] != 0 for each in partitions)]
    _print_table(
        title,
        [
            {
                "partition": f"{each['topic']}-{each['partition']}",
                "up to": f"{each['upstream_end']} -> {each['downstream_end']}",
                "records": each["records"],
                **{name: "not compared" if each[name] is None else each[name] for name in shown},
                "verdict": each["verdict"],
            }
            for each in partitions
        ],
    )
    for each in partitions:
        where = f"{each['topic']}-{each['partition']}"
        first = each["first_difference"]
        if first is not None:
            ends = (("upstream", first["upstream_offset"]), ("downstream", first["downstream_offset"]))
            offsets = ", ".join(f"{log} {offset}" for log, offset in ends if offset is not None)
            _out.print(f"{where}: {first['what']} first at {offsets}: {first['detail']}", markup=False)
        for what, log in (("missing", "the source"), ("extra", "the copy")):
            if (each[what] or 0) > 1:
                _out.print(f"{where}: {what} at offsets of {log}: {Ranges.from_json(each[f'{what}_at'])}", markup=False)
        for told in filter(None, (each["problem"], *each["notes"])):
            _out.print(f"{where}: {told}", markup=False)
    absences = [(each, absence) for each in partitions for absence in each["absences"]]
    for each, absence in absences[:_MOST_ABSENCES]:
        known = "" if absence["acknowledged"] is not False else "; not acknowledged"
        _out.print(
            f"{each['topic']}-{each['partition']} from {absence['from']} to {absence['to'] - 1}: {absence['records']} "
            f"{absence['what']}: {absence['reason']}{known}",
            markup=False,
        )
    if len(absences) > _MOST_ABSENCES:
        _out.print(f"and {len(absences) - _MOST_ABSENCES} more: --json lists all", markup=False)
    how = found["compared"]
    amounts = (
        f"{counted(how[name]['records'], 'record')} ({how[name]['bytes'] / 1e6:,.1f} MB) {words}"
        for name, words in _WAYS_COMPARED.items()
        if how[name]["records"]
    )
    _out.print(
        f"Compared {', '.join(amounts) or 'nothing'}; "
        f"{how['seconds']:.1f} s, {how['mb_per_second']:,.0f} MB/s of the source.",
        markup=False,
        highlight=False,
    )


def _print_left_out(found: Sequence[LeftOut]) -> None:
    in_order = sorted(found, key=lambda each: not each.is_unchecked)
    for each in in_order[:_MOST_ABSENCES]:
        _out.print(str(each), markup=False, style="" if each.is_unchecked else "dim", highlight=False)
    if len(found) > _MOST_ABSENCES:
        _out.print(f"and {len(found) - _MOST_ABSENCES} more left out: --json lists all", markup=False)


def _gap_row(one: GapEntry) -> dict[str, Any]:
    shown = {name: value for name, value in one.as_json().items() if name in _GAP_COLUMNS}
    # For people the last one, as in all that is said of offsets.
    shown["to"] = max(one.gap.start, one.gap.end - 1)
    known = one.acknowledgement
    return {**shown, "acknowledged": f"{known.by}, {iso_time(known.at_ms)}: {known.reason}" if known else "no"}


def _print_table(title: str | None, rows: list[dict[str, Any]], *, most: int | None = None) -> None:
    if rows:
        print_rows(_out, title, [_for_people(row) for row in rows], most=most, under="group")
    else:
        _out.print(f"{title}: nothing", markup=False)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with one column for topic and partition, and words for keys."""
    shown = dict(row)
    if "topic" in shown and "partition" in shown:
        where = f"{shown.pop('topic')}-{shown['partition']}"
        shown = {name: where if name == "partition" else value for name, value in shown.items()}
    return {name.replace("_", " "): value for name, value in shown.items()}
