"""The commands that change one thing by itself: groups, pause, resume, fence."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from mirror.commands.arguments import (
    EVERY_GROUP,
    MOST_SECONDS,
    AsJson,
    DryRun,
    File,
    FlowName,
    GroupPattern,
    TopicPattern,
    WhoSays,
    Yes,
)
from mirror.commands.invocation import (
    VERDICT_NOT_PASS,
    current_user,
    errors_explained,
    flow_meant,
    verdict_of_change,
)
from mirror.commands.output import err, out, print_json, print_table
from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.consent import consent
from mirror.control.gaps import iso_time
from mirror.control.tick import now_ms
from mirror.display import waits_on
from mirror.model.counts import counted
from mirror.model.shadow import TakenFrom
from mirror.model.verdict import Verdict
from mirror.recovery.fence import FencePlan, apply_fence, copied_topics, lift_fence, plan_fence, watch_fenced
from mirror.recovery.fence_record import FenceRecord
from mirror.recovery.group_moves import MovePlan, apply_moves, plan_moves
from mirror.recovery.group_snapshot import GroupSnapshot, RestoreAction, look_at, restore
from mirror.recovery.pause import PausedPosition, PausePlan, plan_pause
from mirror.recovery.pause import pause as pause_flow
from mirror.recovery.pause import resume as resume_flow
from mirror.recovery.sentinel import Watched
from mirror.tables import MOST_ROWS
from mirror.terminal import Remark
from mirror.waiting import watched

_MOST_NAMED = 10


def groups(
    file: File,
    flow: FlowName = None,
    group: GroupPattern = EVERY_GROUP,
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
        TakenFrom, typer.Option("--positions", help="Take the positions from the source, or from the checkpoints.")
    ] = TakenFrom.SOURCE,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Set the positions of groups on the target to where they left off on the source, or restore them from a snapshot.

    A group in use is refused by name. What the plan says is what is written: if the target has changed meanwhile,
    nothing is. --dry-run alone shows the plan of --apply. Exit code 1 if a group that should have been moved was not.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        if (apply and undo is not None) or not (apply or undo is not None or dry_run):
            raise ConfigError(file, None, None, "say either --apply or --restore SNAPSHOT, or --dry-run for the plan")
        if undo is not None:
            saved_before = GroupSnapshot.load(undo)
            chosen = flow_meant(settings, flow or str(saved_before.flow))
            _restore_groups(
                settings, chosen, undo, saved_before.of_groups(group), dry_run=dry_run, yes=yes, as_json=as_json
            )
            return
        chosen = flow_meant(settings, flow)
        plan = plan_moves(
            chosen,
            settings.clusters,
            pattern=group,
            ask_source=taken_from is TakenFrom.SOURCE,
            flows=settings.enabled_flows,
            back=settings.back_of(chosen.flow),
        )
        _move_groups(settings, plan, group, snapshot, dry_run=dry_run, yes=yes, as_json=as_json)


def pause(
    file: File,
    flow: FlowName = None,
    topics: TopicPattern = None,
    timeout_seconds: Annotated[
        float,
        typer.Option(
            "--timeout", min=0, max=MOST_SECONDS, help="How long to wait until it is confirmed.", metavar="SECONDS"
        ),
    ] = 60.0,
    by: WhoSays = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Stop copying a flow, or some of its topics, until resumed; also for engines that are started later.

    Returns when nothing more is appended to the copies, and says how far each partition is copied. Exit code 1 if that
    is not confirmed in time (the pause stays on record), or some position is not final.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        chosen = flow_meant(settings, flow)
        plan = plan_pause(settings, chosen, topics)
        _show_pause_plan(plan, dry_run=dry_run, as_json=as_json)
        if dry_run:
            return
        consent(file, f"Pause {_topics_meant(topics)} of {chosen.flow}?", yes=yes)
        with watched(waits_on(err)):
            found = pause_flow(settings, chosen, topics, timeout_seconds=timeout_seconds, by=by or current_user(file))
    verdict = _verdict_of(plan, found.verdict)
    if as_json:
        print_json(found.as_json() | {"verdict": verdict.value})
    else:
        print_table(f"Copied of {chosen.flow}", [_paused_row(each) for each in found.positions], most=MOST_ROWS)
        confirmed = found.confirmed_by and f"confirmed by: {found.confirmed_by}"
        for message in filter(None, (confirmed, found.limit and f"not promised: {found.limit}", found.problem)):
            out.print(f"  {message}", markup=False)
        out.print(f"verdict {verdict}", highlight=False)
    _require_matched(plan)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def resume(
    file: File,
    flow: FlowName = None,
    topics: TopicPattern = None,
    timeout_seconds: Annotated[
        float,
        typer.Option("--timeout", min=0, max=MOST_SECONDS, help="How long to wait for the engine.", metavar="SECONDS"),
    ] = 60.0,
    by: WhoSays = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Resume copying a flow, or some of its topics, where a pause has stopped it.

    Exit code 1 if the engine that leads the flow does not resume it in time; the request to resume stays on record.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        chosen = flow_meant(settings, flow)
        plan = plan_pause(settings, chosen, topics, is_pause=False)
        _show_pause_plan(plan, dry_run=dry_run, as_json=as_json)
        if dry_run:
            return
        ends = f", and end the cut of {plan.ends_cut}" if plan.ends_cut else ""
        consent(file, f"Copy {_topics_meant(topics)} of {chosen.flow} again{ends}?", yes=yes)
        with watched(waits_on(err)):
            found = resume_flow(settings, chosen, topics, timeout_seconds=timeout_seconds, by=by or current_user(file))
    if as_json:
        print_json(found.as_json() | {"verdict": _verdict_of(plan, found.verdict).value})
    else:
        message = (
            found.problem or f"resumed; {found.confirmed_by or 'no engine leads the flow: the next one copies it'}"
        )
        out.print(f"{chosen.flow}: {message}", markup=False)
        if plan.paused:
            out.print(f"  still paused: {'; '.join(plan.paused)}", markup=False)
    _require_matched(plan)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def fence(
    file: File,
    cluster: Annotated[str, typer.Option(help="The cluster, by its alias.", metavar="A")],
    lift: Annotated[bool, typer.Option("--lift", help="Take back exactly what fencing has added.")] = False,
    record: Annotated[
        Path | None, typer.Option(help="The file that records what is added; by default fence-A.json.", metavar="PATH")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--watch",
            min=0,
            max=MOST_SECONDS,
            help="Change nothing; watch for so many seconds who writes.",
            metavar="SECONDS",
        ),
    ] = None,
    by: WhoSays = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Keep producers from writing to a cluster: by ACLs or, without an authorizer, by quotas that throttle them.

    What is added is recorded in a file first, from which --lift removes it; a fence that was interrupted is completed.
    Exit code 1 unless nothing is written any more for some seconds: quotas alone never prove that.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        if cluster not in settings.clusters:
            known = ", ".join(settings.clusters)
            raise ConfigError(file, None, "--cluster", f"{cluster} is not among clusters: {known}")
        path = record or Path(f"fence-{cluster}.json")
        if lift:
            _lift_fence(settings, cluster, path, dry_run=dry_run, yes=yes, as_json=as_json)
            return
        copied, untold = copied_topics(settings, cluster)
        plan = plan_fence(settings, cluster, path, by=by or current_user(file), known=copied)
        plan = replace(plan, open_to=(*plan.open_to, *untold))
        if seconds is not None:
            with watched(waits_on(err)):
                found_writers = watch_fenced(plan, settings, seconds)
            _print_writers(cluster, found_writers, as_json=as_json)
            return
        if not as_json:
            _print_fence_plan(plan)
        if dry_run:
            if as_json:
                print_json(plan.as_json() | {"verdict": Verdict.UNKNOWN.value})
            return
        consent(file, f"Fence {cluster}?", yes=yes)
        with watched(waits_on(err)):
            found = apply_fence(plan, settings, path)
    if as_json:
        print_json(found.as_json() | {"record": str(path)})
    else:
        for problem in found.problems:
            out.print(f"  {problem}", markup=False)
        for message in found.watched.messages():
            out.print(f"  {'still written: ' if found.watched.written else ''}{message}", markup=False)
        command = shlex.join(["mirror", "fence", str(file), "--cluster", cluster, "--lift", "--record", str(path)])
        out.print(f"Lift it with: {command}", markup=False, soft_wrap=True)
        out.print(f"verdict {found.verdict}", highlight=False)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


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
        err.print(f"The positions are those of the checkpoints: {plan.source_problem}", markup=False)
    saved = None
    refused, left = plan.refused, plan.left
    if not as_json:
        print_table(f"Groups of {flow}, to be moved to {flow.target}", plan.rows())
    if plan.writes and not dry_run:
        consent(file, f"Write {counted(len(plan.writes), 'position')} on {flow.target}?", yes=yes)
        saved = snapshot or Path(f"groups-{flow.source}-{flow.target}-{now_ms()}.json")
        moves = apply_moves(plan, settings.clusters, snapshot=saved)
        refused, left = moves.refused, moves.left
        # Where nothing was changed there is none.
        saved = saved if saved.exists() else None
    found_none = not plan.positions and not refused
    if as_json:
        print_json(
            {
                "verdict": verdict_of_change(refused, is_unproven=dry_run or found_none).value,
                "flow": str(flow),
                "source_problem": plan.source_problem,
                "groups": plan.rows(),
                "refused": [str(each) for each in refused],
                "left": [str(each) for each in left],
                "snapshot": str(saved) if saved else None,
            }
        )
    else:
        for each in refused:
            out.print(f"  refused: {each}", markup=False)
        for each in left:
            out.print(f"  left as it is: {each}", markup=False, style="dim")
        if saved:
            command = shlex.join(["mirror", "groups", str(file), "--restore", str(saved)])
            message = f"The positions before are in {saved}; put them back with: {command}"
            out.print(message, markup=False, soft_wrap=True)
        if found_none:
            message = plan.unmatched or f"no group of {flow} whose id matches {pattern} has a position"
            err.print(f"{message}: none was moved", markup=False)
    if refused or found_none:
        raise typer.Exit(VERDICT_NOT_PASS)


def _topics_meant(topics: str | None) -> str:
    return "all topics" if topics is None else f"topics that match {topics}"


def _verdict_of(plan: PausePlan, found: Verdict) -> Verdict:
    """Return what is known of a wish: nothing of one by a name that may be mistyped."""
    return found if plan.is_matched else Verdict.UNKNOWN


def _require_matched(plan: PausePlan) -> None:
    """End with exit code 1, and say so, where a pattern matches nothing that is copied: it may be mistyped."""
    if not plan.is_matched:
        verb = "paused" if plan.is_pause else "copied again"
        message = f"no topic on record of {plan.flow} matches {plan.topics}: only one that comes later would be {verb}"
        err.print(message, markup=False)
        raise typer.Exit(VERDICT_NOT_PASS)


def _show_pause_plan(plan: PausePlan, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        if dry_run:
            print_json(plan.as_json())
        return
    verb = "paused" if plan.is_pause else "copied again"
    named = ", ".join(plan.changed[:_MOST_NAMED]) + (" and others" if len(plan.changed) > _MOST_NAMED else "")
    out.print(f"{plan.flow}: to be {verb}: {named or 'no topic that is on record'}", markup=False)
    led = (
        f"led by {plan.leader}, as on record: mirror status says whether it runs"
        if plan.leader
        else "no engine leads it"
    )
    out.print(f"  {led}", markup=False, style="dim")
    if plan.warning is not None:
        out.print(Remark(f"note: {plan.warning}"))


def _print_fence_plan(plan: FencePlan) -> None:
    rows = [
        {"quota": str(key), "before": each.before, "fenced": each.fenced} for key, each in plan.record.quotas.items()
    ]
    rows += [{"ACL": str(each)} for each in plan.record.acls]
    title = f"To fence {plan.record.cluster}" + (", as on record" if plan.is_taken_up else "")
    print_table(title, rows, most=MOST_ROWS)
    for topic, why in list(plan.left_open.items())[:_MOST_NAMED]:
        out.print(f"  not fenced: {topic}: {why}", markup=False, style="dim")
    for warning in (*plan.lacking, *plan.warnings):
        out.print(Remark(f"note: {warning}"))
    for each in plan.open_to:
        out.print(f"  it does not stop {each}", markup=False)


def _print_writers(cluster: str, found: Watched, *, as_json: bool) -> None:
    """Say who writes to a fenced cluster; exit code 1 if anybody does, or it is not known."""
    if as_json:
        unknown = [{"partition": str(each), "reason": why} for each, why in sorted(found.unknown.items())]
        written = {"still_written": found.as_json(cluster), "unknown": unknown, "lacking": found.lacking}
        print_json({"verdict": found.verdict.value, "cluster": cluster, **written})
    else:
        for message in found.messages():
            out.print(f"  {message}", markup=False)
        out.print(f"verdict {found.verdict}", highlight=False)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def _lift_fence(settings: MirrorSettings, cluster: str, path: Path, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take a fence back; exit code 1 if something of it is left."""
    record = FenceRecord.load(path)
    if dry_run:
        added = [*map(str, record.acls), *map(str, record.quotas)]
        if as_json:
            print_json({"verdict": Verdict.UNKNOWN.value, "cluster": record.cluster, "put_back": added})
        else:
            print_table(f"To be taken back on {record.cluster}", [{"added": each} for each in added], most=MOST_ROWS)
        return
    consent(settings.path, f"Lift the fence of {cluster}, by {record.by} at {iso_time(record.at_ms)}?", yes=yes)
    found = lift_fence(settings, cluster, path)
    if as_json:
        print_json(found.as_json())
    else:
        for message in (*found.left, *found.notes, *found.problems):
            out.print(f"  {message}", markup=False)
        out.print(f"verdict {found.verdict}", highlight=False)
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
        print_table(f"Groups of {flow.flow}, to be put back on {cluster.alias}", [each.row() for each in decisions])
    changes = sum(each.is_change for each in decisions)
    if changes and not dry_run:
        consent(settings.path, f"Change {counted(changes, 'position')} on {cluster.alias}?", yes=yes)
        decisions = restore(decisions, cluster, saved)
    refused = [each for each in decisions if each.action is RestoreAction.REFUSED]
    if as_json:
        verdict = verdict_of_change(refused, is_unproven=dry_run or not decisions)
        shown = {"verdict": verdict.value, "flow": str(flow.flow), "groups": [each.row() for each in decisions]}
        print_json(shown | {"snapshot": str(path)})
    else:
        for each in refused:
            out.print(f"  refused: group {each.saved.group}, {each.saved.partition}: {each.reason}", markup=False)
        if not decisions:
            err.print(f"{path} holds no such group: none was put back", markup=False)
    if refused or not decisions:
        raise typer.Exit(VERDICT_NOT_PASS)
