"""The commands that look at flows: status, record, offsets, verify, and gaps, which can be acknowledged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mirror.commands.arguments import (
    EVERY_GROUP,
    MOST_SECONDS,
    AsJson,
    File,
    FlowName,
    GroupPattern,
    ShowAll,
    WhoSays,
    Yes,
)
from mirror.commands.invocation import STANDARD_ERROR, VERDICT_NOT_PASS, current_user, errors_explained, flow_meant
from mirror.commands.output import err, out, print_json, print_table, progress
from mirror.commands.status_page import Looking, duration, page
from mirror.commands.status_page import watch as watch_status
from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.consent import consent_typed
from mirror.control.flow_log import NeverRun
from mirror.control.gaps import Choice, GapEntry, acknowledge, has_topic, iso_time, list_gaps, never_run_as_json
from mirror.control.group_view import GroupView, view_groups
from mirror.control.tick import now_ms
from mirror.engine.run_log import LogFormat, LogLevel, set_up
from mirror.history.kept import Bounds
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.gap import Acknowledgement
from mirror.model.offset_ranges import Ranges
from mirror.model.translation import Same
from mirror.model.verdict import Verdict
from mirror.proof.left_out import LeftOut
from mirror.recovery.fenced_side import late_writers
from mirror.signals import stop_on_signal
from mirror.tables import MOST_ROWS
from mirror.terminal import Remark

_MOST_ABSENCES = 20


_GAP_COLUMNS = ("topic", "partition", "from", "to", "count", "kind", "found_at")


_VERIFIED_COUNTS = (
    "missing", "extra", "altered", "reordered", "misplaced", "foreign", "parked", "gaps", "filtered", "cleaned"
)  # fmt: skip

_NO_DIFFERENCES = {
    "foreign": "records that others than the flow have written to the copy, where they may",
    "parked": "records too large for the target, kept in its topic of parked records",
    "gaps": "records that the flow has on record as a gap (mirror gaps)",
    "filtered": "records that transforms leave out",
    "cleaned": "records that one side alone has, since the log cleaner of the other has removed them",
}


_WAYS_COMPARED = {"by_bytes": "by their bytes", "by_record": "record by record", "remembered": "earlier (remembered)"}


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
        float,
        typer.Option(
            help="With --watch: seconds from one look to the next.", metavar="SECONDS", min=0.5, max=MOST_SECONDS
        ),
    ] = 2.0,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Show the state of every flow, the reasons for it, and the partitions that are stopped or lag most.

    For a flow that is failed over it also names who still writes to the old cluster. Exit code 1 if somebody does, or
    if the state of a flow cannot be known (FAILED); with --check also if one is STARTING, DEGRADED, PAUSED or STOPPED.
    With --watch it is 0, whatever was seen.
    """
    if watch and check:
        raise typer.BadParameter("--check asks once, --watch goes on: one of the two")
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        looking = Looking(settings, [flow_meant(settings, flow)] if flow else settings.enabled_flows)
        if watch:
            stop = threading.Event()
            stop_on_signal(stop, lambda _: None)
            watch_status(looking, file, out, interval, stop, as_json=as_json, show_all=show_all)
            return
        found = looking.once()
    if as_json:
        print_json({"flows": [one.as_json() for one in found]})
    else:
        for one in found:
            out.print(page(one.status, file, out.width, most_rows=None if show_all else MOST_ROWS))
    states = [one.status.state for one in found]
    if late_writers([one.side for one in found]) or any(
        state != "RUNNING" if check else state == "FAILED" for state in states
    ):
        raise typer.Exit(VERDICT_NOT_PASS)


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
            help="Seconds between samples; by default as the properties file says, else 10.",
            metavar="SECONDS",
            min=0.5,
            max=MOST_SECONDS,
        ),
    ] = None,
    log_level: Annotated[
        LogLevel,
        typer.Option(help="The lowest level that is logged; the log goes to standard error.", case_sensitive=False),
    ] = LogLevel.INFO,
) -> None:
    """Keep a history of the flows from outside, whoever copies them, until told to stop (SIGTERM or Ctrl-C).

    An engine of this program keeps one by itself if mirror.history.directory is set. Beside Java MirrorMaker 2 it goes
    by the positions and offset syncs that MirrorMaker writes, and by the ends of the copies. Files beyond
    mirror.history.retention.hours or .bytes are removed, which is reported.
    """
    stop = threading.Event()
    set_up(log_level, LogFormat.TEXT, STANDARD_ERROR)
    log = logging.getLogger(__name__)
    stop_on_signal(stop, lambda name: log.info("stops: %s", name))
    from mirror.history.recorder import record_flows  # other commands need no Arrow
    from mirror.history.store import HistoryWriter, check_writable

    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        chosen = [flow_meant(settings, flow)] if flow else settings.enabled_flows
        history = settings.engine.history
        if (folder := directory or history.directory) is None:
            raise ConfigError(file, None, "--directory", "say where: there is no mirror.history.directory in the file")
        seconds = history.interval_seconds if interval is None else interval
        try:
            check_writable(folder)
        except OSError as problem:
            key = "--directory" if directory else "mirror.history.directory"
            raise ConfigError(
                file, None, key, f"nothing can be written to {folder}: {problem.strerror}; give another folder"
            ) from problem
        writer = HistoryWriter(folder, Bounds(history.retention_seconds, history.retention_bytes))
        log.info("records %s to %s, every %g s", ", ".join(str(each.flow) for each in chosen), folder, seconds)
        record_flows(settings, chosen, writer, seconds, stop)
    kept = writer.kept
    log.info("%s of %s recorded", counted(kept.samples, "sample"), counted(kept.rows, "row"))
    if kept.trouble is not None or kept.lost_rows:
        raise typer.Exit(VERDICT_NOT_PASS)


def offsets(
    file: File,
    flow: FlowName = None,
    group: GroupPattern = EVERY_GROUP,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Show the position at which each group would go on on the target; works without the source, from checkpoints.

    Exit code 1 if the source does not tell the position of some group (which, and why, is printed too), no
    group matches the pattern that was given, or the flow has never run.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        chosen = flow_meant(settings, flow)
        try:
            view = view_groups(chosen, settings.clusters, pattern=group, flows=settings.enabled_flows, with_ages=True)
        except NeverRun as never:
            err.print(f"{chosen.flow}: {never}", markup=False)
            raise typer.Exit(VERDICT_NOT_PASS) from None
    if view.source_problem:
        message = f"The positions are those of the checkpoints on {chosen.flow.target}: {view.source_problem}"
        err.print(message, markup=False)
    rows = [one.as_json() | {"report_age_seconds": view.report_age_seconds} for one in view.positions]
    if as_json:
        print_json(rows)
    else:
        is_same = bool(rows) and all(isinstance(one.translation, Same) for one in view.positions)
        title = f"Groups of {chosen.flow}" + (f": positions are the same on {chosen.flow.target}" if is_same else "")
        shown = [_position_row(row, is_same=is_same) for row in rows]
        print_table(title, shown, most=None if show_all else MOST_ROWS)
        out.print(_last_report(view, chosen.flow), markup=False, highlight=False)
    for each in view.unknown_positions:
        err.print(f"Not reported, so not among these: {each}", markup=False)
    is_nobody = group != EVERY_GROUP and view.unmatched is not None
    if is_nobody:
        err.print(view.unmatched, markup=False)
    if view.unknown_positions or is_nobody:
        raise typer.Exit(VERDICT_NOT_PASS)


def gaps(
    file: File,
    flow: FlowName = None,
    topic: Annotated[str | None, typer.Option(help="Gaps of one topic, named as on the source.")] = None,
    partition: Annotated[int | None, typer.Option(help="Gaps of one partition.")] = None,
    confirm: Annotated[
        bool, typer.Option("--acknowledge", help="Acknowledge the gaps that are shown; a stopped copy then goes on.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why they are taken as they are.", metavar="TEXT")] = None,
    by: WhoSays = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what --acknowledge would acknowledge; write nothing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """List what the copies lack, and where; exit code 1 while somebody still has to acknowledge a gap.

    Exit code 1 also for a flow that has never run: whether there is a gap is not known then.

    An acknowledgement cannot be undone: the flow's name is asked for, unless --yes is given. With --dry-run the exit
    code is 0.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        if confirm and not (reason or "").strip():
            raise ConfigError(file, None, "--reason", "say why the gaps are taken as they are")
        choice, listed = Choice(topic, partition), dict[Flow, list[GapEntry]]()
        never_run: dict[Flow, NeverRun] = {}
        chosen = [flow_meant(settings, flow)] if flow else settings.enabled_flows
        for each in chosen:
            try:
                found = list_gaps(each, settings.clusters, choice)
                listed[each.flow] = [one for one in found if not (confirm and one.acknowledgement)]
            except NeverRun as never:
                never_run[each.flow] = never
        if topic is not None and listed and not any(listed.values()):
            led = [each for each in chosen if each.flow in listed]
            if not any(has_topic(each, settings.clusters, topic) for each in led):
                message = f"{', '.join(str(each.flow) for each in led)}: no topic {topic} is on record"
                raise ConfigError(file, None, "--topic", message)
        if confirm and reason and not dry_run:
            open_gaps = {each: of for each, of in listed.items() if of}
            if open_gaps and not yes and not as_json:
                _print_gaps(_all_of(open_gaps), was_acknowledged=False)
            for name, of in open_gaps.items():
                message = f"{counted(len(of), 'gap')} of {name}: the copy goes on without these records, for good."
                consent_typed(file, message, str(name), yes=yes)
            known = Acknowledgement(by or current_user(file), reason, now_ms())
            for each in chosen:
                if each.flow in open_gaps:
                    listed[each.flow] = acknowledge(each, settings.clusters, open_gaps[each.flow], known)
    shown = _all_of(listed)
    if as_json:
        lacking = [never_run_as_json(*each) for each in never_run.items()]
        print_json([*(one.as_json() for one in shown), *lacking])
    else:
        for name, why in never_run.items():
            out.print(f"{name}: {why}", markup=False, soft_wrap=True)
        if len(never_run) < len(chosen):
            _print_gaps(shown, was_acknowledged=confirm)
    if not (confirm and dry_run) and (never_run or any(one.acknowledgement is None for one in shown)):
        raise typer.Exit(VERDICT_NOT_PASS)


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
    """Compare the copy with its source, as far as it is copied: batches by their bytes, those that differ by record.

    Exit code 1 unless the verdict is PASS.
    """
    from mirror.recovery.verify import verify_flow

    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        chosen = flow_meant(settings, flow)
        with progress() as watch:
            found = verify_flow(
                chosen,
                settings.clusters,
                settings.enabled_flows,
                remember=remember,
                others_write=others_write,
                watch=watch,
            )
    if as_json:
        print_json(found.as_json())
    else:
        _print_verification(f"{chosen.flow}: {found.verdict}", found.as_json())
        _print_left_out(found.left_out)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def _last_report(view: GroupView, flow: Flow) -> str:
    """Return when the engine last reported: what it reports then tells whether it looks at groups at all."""
    report, age = view.report, view.report_age_seconds
    if report is None or age is None:
        return f"No engine of {flow} has reported yet."
    wrong = "" if report.state == "RUNNING" else f", that it is {report.state}: mirror status says why"
    return f"The engine of {flow} last reported {duration(age)} ago ({iso_time(report.at_ms)}){wrong}."


def _position_row(row: Mapping[str, Any], *, is_same: bool) -> dict[str, Any]:
    """Return a row of `mirror offsets` without what its note says; ``is_same``: with no note, and one position."""
    seconds = row["checkpoint_age_seconds"]
    age = {"checkpoint age, s": None if seconds is None else round(seconds)}
    shown = {name: row[name] for name in ("group", "topic", "partition")}
    if is_same:
        return {**shown, "position": row["upstream"], **age}
    return {**shown, "upstream": row["upstream"], "downstream": row["downstream"], **age, "note": row["note"]}


def _all_of(listed: Mapping[Flow, Sequence[GapEntry]]) -> list[GapEntry]:
    return [one for of in listed.values() for one in of]


def _print_gaps(found: Sequence[GapEntry], *, was_acknowledged: bool) -> None:
    if not found:
        out.print("No gap waits for an acknowledgement." if was_acknowledged else "There is no gap.")
    for flow in dict.fromkeys(one.flow for one in found):
        own = [one for one in found if one.flow == flow]
        print_table(f"Gaps of {flow}", [_gap_row(one) for one in own])
        for one in own:
            stops = " The copy is stopped." if one.stops and not one.acknowledgement else ""
            out.print(f"{one.gap.source} from {one.gap.start}: {one.gap.reason}.{stops}", markup=False)


def _print_verification(title: str, found: dict[str, Any]) -> None:
    partitions = found["partitions"]
    if not partitions:
        because = f": {found['nothing']}" if found["nothing"] else ""
        out.print(f"{title}: nothing was compared{because}", markup=False, highlight=False, soft_wrap=True)
        return
    # What is zero everywhere would only take room; that nothing differs is what the verdict says.
    shown = [name for name in _VERIFIED_COUNTS if any(each[name] != 0 for each in partitions)]
    print_table(
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
    for name in shown:
        if name in _NO_DIFFERENCES:
            out.print(Remark(f"{name}: {_NO_DIFFERENCES[name]}; no difference", "dim"))
    for each in partitions:
        where = f"{each['topic']}-{each['partition']}"
        first = each["first_difference"]
        if first is not None:
            ends = (("upstream", first["upstream_offset"]), ("downstream", first["downstream_offset"]))
            offsets = ", ".join(f"{log} {offset}" for log, offset in ends if offset is not None)
            out.print(f"{where}: {first['what']} first at {offsets}: {first['detail']}", markup=False)
        for what, log in (("missing", "the source"), ("extra", "the copy")):
            if (each[what] or 0) > 1:
                out.print(f"{where}: {what} at offsets of {log}: {Ranges.from_json(each[f'{what}_at'])}", markup=False)
    for line in _partition_messages(partitions):
        out.print(line, markup=False, highlight=False)
    absences = [(each, absence) for each in partitions for absence in each["absences"]]
    for each, absence in absences[:_MOST_ABSENCES]:
        known = "" if absence["acknowledged"] is not False else "; not acknowledged"
        out.print(
            f"{each['topic']}-{each['partition']} from {absence['from']} to {absence['to'] - 1}: {absence['records']} "
            f"{absence['what']}: {absence['reason']}{known}",
            markup=False,
        )
    if len(absences) > _MOST_ABSENCES:
        out.print(f"and {len(absences) - _MOST_ABSENCES} more: --json lists all", markup=False)
    how = found["compared"]
    # Of what is small, or was compared before, the time is that of asking.
    speed = f", {how['mb_per_second']:,.0f} MB/s of the source" if round(how["mb_per_second"]) else ""
    amounts = (
        f"{counted(how[name]['records'], 'record')} ({how[name]['bytes'] / 1e6:,.1f} MB) {words}"
        for name, words in _WAYS_COMPARED.items()
        if how[name]["records"]
    )
    out.print(
        f"Compared {', '.join(amounts) or 'nothing'}; {how['seconds']:.1f} s{speed}.",
        markup=False,
        highlight=False,
    )
    if waiting := found["uncopied"]:
        most = max(waiting, key=lambda each: each["offsets"])
        amount = counted(sum(each["offsets"] for each in waiting), "offset")
        out.print(
            f"Not copied when this began, and so not compared: {amount} of {counted(len(waiting), 'partition')}, most "
            f"in {most['topic']}-{most['partition']} ({most['offsets']:,}); mirror status says why, "
            "and mirror stranded lists those that the source alone has.",
            markup=False,
            highlight=False,
        )


def _partition_messages(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say what there is to know of partitions: what is the same of several but for their names once, of the first."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for each in partitions:
        where = f"{each['topic']}-{each['partition']}"
        for message in filter(None, (each["problem"], *each["notes"])):
            alike.setdefault(message.replace(where, ""), []).append((where, message))
    for (where, message), *others in alike.values():
        yield f"{where}{f' (and {len(others):,} more)' if others else ''}: {message}"


def _print_left_out(found: Sequence[LeftOut]) -> None:
    in_order = sorted(found, key=lambda each: not each.is_unchecked)
    for each in in_order[:_MOST_ABSENCES]:
        out.print(str(each), markup=False, style="" if each.is_unchecked else "dim", highlight=False)
    if len(found) > _MOST_ABSENCES:
        out.print(f"and {len(found) - _MOST_ABSENCES} more left out: --json lists all", markup=False)


def _gap_row(one: GapEntry) -> dict[str, Any]:
    shown = {name: value for name, value in one.as_json().items() if name in _GAP_COLUMNS}
    # For people the last one, as in all that is said of offsets.
    shown["to"] = max(one.gap.start, one.gap.end - 1)
    known = one.acknowledgement
    return {**shown, "acknowledged": f"{known.by}, {iso_time(known.at_ms)}: {known.reason}" if known else "no"}
