"""The commands of a failover: readiness, failover, failback, stranded, rehearse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from mirror.asking import ANSWER_SECONDS
from mirror.commands.arguments import (
    EVERY_GROUP,
    MOST_SECONDS,
    AnswerWithin,
    ApplicationsFile,
    AsJson,
    ChosenGroups,
    File,
    FlowName,
    GivenUp,
    GroupPattern,
    PlanOnly,
    RunFolder,
    ShowAll,
    TakeBack,
    Yes,
)
from mirror.commands.failover import Asked, fail_back, fail_over
from mirror.commands.invocation import VERDICT_NOT_PASS, errors_explained, flow_meant, interruptible
from mirror.commands.output import err, out, print_json, print_table, progress, streams
from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.kafka.answers import ItemResult
from mirror.kafka.group_reader import ReadLimits
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.shadow import TakenFrom
from mirror.model.verdict import Verdict
from mirror.recovery import rehearsal_rows
from mirror.recovery.applications import Nobody
from mirror.recovery.failover import Mode
from mirror.recovery.procedure import Request, stranded_on
from mirror.recovery.readiness import Readiness, judge
from mirror.recovery.readiness_reader import read_facts
from mirror.recovery.readiness_rows import summed_up
from mirror.recovery.rehearsal import Rehearsal, clean_up, left_behind
from mirror.recovery.rehearsal import rehearse as carry_out
from mirror.recovery.rehearsal_plan import RehearsalPlan, plan_rehearsal
from mirror.recovery.step_facts import named, rows_of
from mirror.signals import sigterm_interrupts
from mirror.tables import MOST_ROWS, print_rows
from mirror.terminal import Remark

_LIMITS = ReadLimits()
_NO_RECORDS = (
    "markers of transactions, aborted records, what a log cleaner has removed, and what the flow back has copied there"
)


def readiness(
    file: File,
    flow: FlowName = None,
    rpo_seconds: Annotated[
        float,
        typer.Option(
            "--rpo-seconds", min=0, max=MOST_SECONDS, help="How far the copy may be behind.", metavar="SECONDS"
        ),
    ] = 30.0,
    as_json: AsJson = False,
    show_all: ShowAll = False,
) -> None:
    """Check whether a failover is possible now: lists what would block it or lose records; changes nothing.

    Exit code 0: ready. 1: something blocks a failover or loses records, or what matters could not be looked at.
    """
    with errors_explained(file):
        settings = load(file, applies_transforms=False)
        chosen = flow_meant(settings, flow)
        with streams().looking():
            found = judge(read_facts(settings, chosen, rpo_seconds=rpo_seconds))
    if as_json:
        print_json(found.as_json())
    else:
        _print_readiness(found, show_all=show_all)
    if found.verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


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
            help="Deny writes to the source's topics by ACLs (planned, cut-off); --take-back or the failback admits "
            "them again as before.",
        ),
    ] = False,
    answer_within: AnswerWithin = ANSWER_SECONDS,
    dry_run: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Fail over: stop the applications on the source, end copying, move the groups, start them on the target.

    A run that was interrupted is resumed by the same command with its --run-directory. Exit code 1 unless the verdict
    is PASS: what nobody has looked at is UNKNOWN.
    """
    with errors_explained(file), sigterm_interrupts():
        settings = load(file, applies_transforms=False)
        asked = Asked(
            *(group, applications, run_directory, dry_run, yes, as_json, back, given_up, fences),
            answer_seconds=answer_within,
        )
        code = interruptible(lambda: fail_over(settings, flow_meant(settings, flow), mode, asked, streams()))
    raise typer.Exit(code)


def failback(
    file: File,
    flow: FlowName = None,
    group: ChosenGroups = None,
    applications: ApplicationsFile = None,
    run_directory: RunFolder = None,
    back: TakeBack = False,
    given_up: GivenUp = None,
    makes_anew: Annotated[
        bool,
        typer.Option(
            "--make-anew",
            help="With the source's offsets under unchanged names: topics of the old cluster with records that the "
            "standby lacks are saved, deleted, and made anew from the standby.",
        ),
    ] = False,
    leaves_behind: Annotated[
        bool,
        typer.Option(
            "--leave-behind",
            help="Records that others have written into copies on the standby, which no flow copies back, are saved "
            "in the run's directory, and stay there. Without it they stop the failback.",
        ),
    ] = False,
    answer_within: AnswerWithin = ANSWER_SECONDS,
    dry_run: PlanOnly = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Fail back: move the applications back to the old cluster, once everything is copied back.

    --flow names the flow that was failed over, --run-directory its run. States what only the old cluster has, waits
    until the flow back has copied everything, and moves the groups; then both flows copy again. Exit code 1 unless the
    verdict is PASS.
    """
    with errors_explained(file), sigterm_interrupts():
        settings = load(file, applies_transforms=False)
        asked = Asked(
            *(group, applications, run_directory, dry_run, yes, as_json, back, given_up),
            makes_anew=makes_anew,
            leaves_behind=leaves_behind,
            answer_seconds=answer_within,
        )
        code = interruptible(lambda: fail_back(settings, flow_meant(settings, flow), asked, streams()))
    raise typer.Exit(code)


def stranded(
    file: File,
    flow: FlowName = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Save them in this new folder: a file of JSON lines a partition.", metavar="DIR"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the records that a flow's source has and its target lacks, by partition and offset; --export saves them.

    Exit code 0: there are none. 1: there are some, or some were removed or lie in a gap, or not every topic could be
    checked.
    """
    with errors_explained(file), sigterm_interrupts():
        settings = load(file, applies_transforms=False)
        chosen = flow_meant(settings, flow)
        if export is not None and export.exists():
            raise ConfigError(export, None, "--export", "is there already: name a folder that is not")
        request = Request(settings, chosen, None, None, lambda _: Nobody(), progress)
        source, loss, uncounted = stranded_on(request)
        saved = None
        if export is not None and loss.lacking and loss.bound is None:
            stretches = {each.partition: (each.start, each.end) for each in loss.lacking}
            saved = source.save_stretches(stretches, export.absolute())
            if problems := saved.problems():
                raise ConfigError(export, None, "--export", named(problems))
    is_short = bool(loss.lacking or loss.removed or loss.gaps)
    is_open = not loss.is_exact or bool(uncounted)
    verdict = Verdict.FAIL if is_short and loss.bound is None else Verdict.UNKNOWN if is_open else Verdict.PASS
    files = () if saved is None else saved.files
    if as_json:
        answer = {"verdict": verdict.value, "flow": str(chosen.flow), "stranded": loss.rows(), "reason": loss.bound}
        more = {"uncounted": list(uncounted), "files": [each.as_json() for each in files]}
        gone = {"removed": loss.removed_rows(), "gone": rows_of(loss.gone), "gaps": list(loss.gaps)}
        print_json(answer | gone | more)
    else:
        out.print(f"{chosen.flow.target} lacks of {chosen.flow.source}: {loss}", markup=False, highlight=False)
        if loss.bound is not None:
            out.print(
                Remark(f"Once {chosen.flow.source} can be read this command names them, and --export saves them.")
            )
        for each in uncounted:
            out.print(Remark(each))
        if saved is not None:
            out.print(f"Saved in {export}: {counted(saved.records, 'record')}", markup=False, highlight=False)
            if (empty := sum(each.end - each.start for each in loss.lacking) - saved.records) > 0:
                out.print(Remark(f"Offsets without a record to save: {empty:,} ({_NO_RECORDS})"))
        for file_saved in files:
            out.print(Remark(str(file_saved)))
        out.print(Text.assemble("verdict ", (verdict.value, VERDICT_STYLES[verdict])))
    if export is not None and saved is None and loss.bound is not None:
        err.print(f"Nothing is saved: {loss.bound}", markup=False)
    if verdict is not Verdict.PASS:
        raise typer.Exit(VERDICT_NOT_PASS)


def rehearse(
    file: File,
    flow: FlowName = None,
    group: GroupPattern = EVERY_GROUP,
    positions: Annotated[
        TakenFrom, typer.Option(help="As if the source were lost (checkpoints), or as in a planned move (source).")
    ] = TakenFrom.CHECKPOINTS,
    records: Annotated[int, typer.Option(min=1, help="Read at most so many records of a partition.")] = _LIMITS.records,
    size_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Read at most so many bytes of a partition.")
    ] = _LIMITS.size_bytes,
    seconds: Annotated[
        float, typer.Option(min=1, max=MOST_SECONDS, help="Read for at most so long with each group.")
    ] = _LIMITS.seconds,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, the forecast and the rights needed; make nothing.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only delete what rehearsals that were killed have left behind.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test a failover while mirroring goes on: shadow groups read on the target, and what they read is discarded.

    Says of each group what it would skip and read again, forecast and measured. No other group is touched, and the
    shadows are deleted. Exit code 1 unless the verdict is PASS. A dry run proves nothing; it ends with 1 if a group
    could not be tried, or would skip records by the forecast, or there is none.
    """
    with errors_explained(file), sigterm_interrupts():
        settings = load(file)
        chosen = flow_meant(settings, flow)
        if clean:
            _clean_up(settings, chosen.flow, dry_run=dry_run, as_json=as_json)
            return
        with streams().looking():
            plan = plan_rehearsal(settings, chosen, pattern=group, taken_from=positions)
        if not as_json:
            _print_rehearsal_plan(plan)
        if dry_run:
            if as_json:
                print_json(rehearsal_rows.plan_as_json(plan) | {"verdict": Verdict.UNKNOWN.value})
            if not plan.is_in_order:
                raise typer.Exit(VERDICT_NOT_PASS)
            return
        try:
            with progress() as watch:
                found = carry_out(settings, plan, ReadLimits(records, size_bytes, seconds), watch=watch)
        except KeyboardInterrupt:
            message = f"Interrupted. Shadow groups are deleted; make sure with: mirror rehearse {file} --clean"
            err.print(message, markup=False)
            raise typer.Exit(VERDICT_NOT_PASS) from None
    if as_json:
        print_json(rehearsal_rows.as_json(found))
    else:
        _print_rehearsal(found)
    if found.verdict is not Verdict.PASS:
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
        print_json(shown)
    elif not shown:
        out.print("There is no shadow group.")
    else:
        print_table("Shadow groups" if dry_run else "Shadow groups deleted", shown)
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
        print_rows(out, f"{found.flow}: differences, the worst first", rows, most=most)
        out.print("To mend them:", style="bold")
        for number, each in enumerate(differences[:most], 1):
            # In one line, however narrow the terminal: commands are there to be copied.
            for place, line in enumerate(each.mend.splitlines()):
                lead = f"  {number}. " if place == 0 else " " * len(f"  {number}. ")
                out.print(f"{lead}{line}", markup=False, highlight=False, soft_wrap=True)
    style = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.UNKNOWN: "bold yellow"}[found.verdict]
    out.print(Text.assemble("verdict ", (found.verdict.value, style)))
    out.print(found.closing(differences), markup=False, highlight=False)


def _print_rehearsal_plan(plan: RehearsalPlan) -> None:
    for right in plan.rights:
        out.print(f"  needs {right}", markup=False, style="dim")
    for note in (*plan.notes, *plan.unknown_positions):
        out.print(Remark(f"note: {note}", "dim"))
    title = f"Rehearsal {plan.stamp} of {plan.settings.flow}, positions from the {plan.taken_from}: forecast"
    print_table(title, rehearsal_rows.plan_table(plan))


def _print_rehearsal(found: Rehearsal) -> None:
    print_table("Measured", rehearsal_rows.group_table(found))
    style = VERDICT_STYLES[found.verdict]
    for reason in found.reasons:
        out.print(f"  {reason}", markup=False)
    for line in rehearsal_rows.aftermath(found):
        out.print(f"  {line}", markup=False, style="dim")
    out.print(Text.assemble("verdict ", (found.verdict.value, style)))
