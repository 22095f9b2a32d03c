"""The commands ``mirror runbook ...``: thin; exit status 0 for PASS, 1 for any other verdict, 2 for bad usage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from mirror import terminal
from mirror.asking import ANSWER_SECONDS, limit_message, yes_or_no
from mirror.config.errors import ConfigError
from mirror.consent import consent_typed
from mirror.definition_files import DefinitionRefused
from mirror.drill.catalogue import (
    LoadedRunbook,
    find_runbook,
    load_runbook,
    runbook_files,
    runbooks_folder,
)
from mirror.drill.runbook import Runbook, Step, plan_steps
from mirror.drill.unattended import is_unattended
from mirror.evidence.facts import FactError
from mirror.evidence.refusal import Refused
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_model import ParameterValue
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.lab import holder
from mirror.model.counts import counted
from mirror.model.verdict import Verdict
from mirror.signals import sigterm_interrupts

if TYPE_CHECKING:
    from mirror.display import Display
    from mirror.drill.runner import Confirm, Resumption, RunResult

app = typer.Typer(help="Procedures as notebooks: list, show, run, resume, report.", no_args_is_help=True)

RunbooksOption = Annotated[
    Path | None,
    typer.Option("--runbooks", help="Folder of runbooks; otherwise ./runbooks, or the one beside the package."),
]
NameArgument = Annotated[str, typer.Argument(help="Name of the runbook, e.g. failover-drill.")]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN_DIRECTORY", help="Directory of a run, e.g. runs/20261128T101500Z-failover-drill.")
]
ConfirmOption = Annotated[bool, typer.Option("--confirm", help="Ask before the point of no return is crossed.")]


# Whoever asks for `mirror status` shall not wait for papermill and matplotlib: what needs them is imported where it is
# used.


@app.command("list")
def list_runbooks(
    runbooks: RunbooksOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a stable form, instead of a table.")] = False,
) -> None:
    """List the runbooks there are; one that cannot be loaded is listed with what is wrong in it."""
    console = terminal.console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("runbook", no_wrap=True)
    table.add_column("steps", justify="right")
    table.add_column("purpose")
    found: list[dict[str, object]] = []
    try:
        files = runbook_files(runbooks_folder(runbooks))
    except Refused as refused:
        _refuse(refused)
    for path in files:
        try:
            runbook = load_runbook(path).runbook
            known = {"steps": len(runbook.steps), "purpose": runbook.purpose, "problem": None}
            found.append({"runbook": runbook.name, **known})
            table.add_row(runbook.name, str(len(runbook.steps)), runbook.purpose)
        except DefinitionRefused as refused:
            name = path.stem.replace("_", "-")
            found.append({"runbook": name, "steps": None, "purpose": None, "problem": str(refused)})
            table.add_row(name, "", Text(str(refused), style="red"))
    if as_json:
        console.print_json(data=found)
    else:
        console.print(table)
    if any(each["problem"] is not None for each in found):
        raise typer.Exit(2)


@app.command()
def show(name: NameArgument, runbooks: RunbooksOption = None) -> None:
    """Show a runbook: its page of prose, its parameters, its steps."""
    console = terminal.console()
    try:
        loaded = find_runbook(name, runbooks_folder(runbooks))
    except (Refused, FactError) as refused:
        _refuse(refused)
    runbook = loaded.runbook
    console.print(Markdown(loaded.prose or f"# {runbook.title}\n\n{runbook.purpose}"))
    console.print()
    console.print(_parameter_table(runbook, {}))
    console.print()
    console.print(_step_table(runbook))


@app.command()
def run(
    name: NameArgument,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="Set a parameter; repeatable.")
    ] = None,
    runs_directory: Annotated[Path, typer.Option(help="Where run directories are made.")] = Path("runs"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check notebooks and parameters, show the plan, start nothing.")
    ] = False,
    confirm: ConfirmOption = False,
    runbooks: RunbooksOption = None,
) -> None:
    """Run a runbook from its first step and write the report; the last line printed is the report's path.

    A dry run proves nothing, so its verdict is UNKNOWN; it ends with 0 if all is in order, with 2 if not.
    """
    from mirror.display import display_for
    from mirror.drill.progress import ShownRun
    from mirror.drill.runner import start_run

    console = terminal.console()
    try:
        loaded = find_runbook(name, runbooks_folder(runbooks))
        given = loaded.runbook.parse(parameter or [])
        if dry_run:
            _show_plan(console, loaded, given)
            return
        with sigterm_interrupts(), display_for(console) as display:
            result = start_run(
                loaded, given, runs_directory, ShownRun(display), confirm=_asker(confirm, display), keep=_may_go_on()
            )
    except (Refused, FactError) as refused:
        _refuse(refused)
    _finish(console, result)


@app.command()
def resume(
    run_directory: RunArgument,
    recheck: Annotated[
        list[str] | None, typer.Option("--recheck", metavar="STEP", help="Run a passed step again; repeatable.")
    ] = None,
    seen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="Your word that a group which a migration has moved is at work there, though nobody saw it read; "
            "repeatable.",
        ),
    ] = None,
    confirm: ConfirmOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check run and notebooks, show what is left to do, start nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether --seen is so.")] = False,
    runbooks: RunbooksOption = None,
) -> None:
    """Go on with a run where it stopped: steps that passed are skipped, the parameters stay.

    --seen cannot be undone, so the run's name is asked for.
    """
    from mirror.display import display_for
    from mirror.drill.progress import ShownRun
    from mirror.drill.runner import plan_resumption, resume_run
    from mirror.evidence.run_evidence import read_settings

    console = terminal.console()
    try:
        directory = RunDirectory.open(run_directory)
        loaded = find_runbook(read_settings(directory).runbook, runbooks_folder(runbooks))
        if dry_run:
            console.print(_resumption_table(plan_resumption(directory, loaded, recheck=recheck or (), seen=seen or ())))
            return
        if seen:
            word = f"The groups behind {', '.join(seen)} are moved because you say that it is at work."
            consent_typed(directory.path, word, directory.name, yes=yes)
        with sigterm_interrupts(), display_for(console) as display:
            result = resume_run(
                *(directory, loaded, ShownRun(display)),
                recheck=recheck or (),
                seen=seen or (),
                confirm=_asker(confirm, display),
                keep=_may_go_on(),
            )
    except (Refused, FactError, ConfigError) as refused:
        _refuse(refused)
    _finish(console, result)


@app.command()
def report(run_directory: RunArgument) -> None:
    """Write the report of a run again, finished or not; print its path.

    Exit code 1 if the run's evidence was changed since the run; what was changed is reported on standard error.
    """
    from mirror.drill.report import write_report

    try:
        path, judgement = write_report(RunDirectory.open(run_directory))
    except (Refused, FactError) as refused:
        _refuse(refused)
    terminal.console().print(str(path), soft_wrap=True, highlight=False)
    if judgement.tampered:
        message = f"the evidence of {run_directory} is not as the run left it: {'; '.join(judgement.tampered)}"
        terminal.console(stderr=True).print(message, soft_wrap=True, highlight=False)
        raise typer.Exit(1)


def _show_plan(console: Console, loaded: LoadedRunbook, given: dict[str, ParameterValue]) -> None:
    """Show what a run would do; the checks that need no run have been made by then."""
    from mirror.drill.runner import check_runbook

    values = check_runbook(loaded, given)
    console.print(_parameter_table(loaded.runbook, values))
    console.print()
    console.print(_step_table(loaded.runbook))
    console.print()
    steps = len(plan_steps(loaded.runbook, {}))
    console.print(f"Notebooks and parameters are in order; {counted(steps, 'step')} would be run. Nothing was started.")
    console.print(
        Text.assemble(
            "verdict ", (Verdict.UNKNOWN.value, VERDICT_STYLES[Verdict.UNKNOWN]), ": a dry run proves nothing"
        )
    )


def _parameter_table(runbook: Runbook, values: dict[str, ParameterValue]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("parameter", "value" if values else "default", "unit", "meaning"):
        table.add_column(column, overflow="fold")
    for parameter in runbook.parameters:
        value = values.get(parameter.name, parameter.default)
        table.add_row(parameter.name, str(value), parameter.unit, parameter.help)
    return table


def _step_table(runbook: Runbook) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("step", "title", "budget", "gates", "undo"):
        table.add_column(column, justify="right" if column == "budget" else "left")
    for step in runbook.steps:
        title = Text(step.title)
        if step.point_of_no_return:
            title.append(" point of no return", style="bold red")
        gates = "; ".join(gate.title for gate in step.gates)
        table.add_row(step.name, title, f"{step.budget_seconds:g} s", gates, step.undo)
    return table


def _resumption_table(resumption: Resumption) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("step", "title", "decision", "because"):
        table.add_column(column, overflow="fold")
    for item in resumption.planned:
        table.add_row(item.step.name, item.step.title, item.decision.value, item.reason)
    return table


def _may_go_on() -> bool:
    """Tell whether a person is there who could resume a run that stops; else nothing may be left running."""
    return sys.stdin.isatty() and not is_unattended()


def _asker(confirm: bool, display: Display) -> Confirm | None:
    if not confirm:
        return None

    def ask(step: Step) -> bool:
        with display.paused():
            limit = limit_message(ANSWER_SECONDS, "the run stops before it")
            return yes_or_no(f"Cross it ({step.name})? {limit}", ANSWER_SECONDS) or False

    return ask


def _finish(console: Console, result: RunResult) -> NoReturn:
    """Write the report, print verdict, reasons and the report's path, and exit with the verdict's status."""
    from mirror.drill.report import write_report
    from mirror.drill.run_record import RunStatus

    path, _ = write_report(result.run)
    line = Text.assemble("verdict ", (result.verdict.value, VERDICT_STYLES[result.verdict]), f", run {result.status}")
    console.print(line)
    for reason in result.reasons:
        console.print(f"  {reason}", soft_wrap=True, markup=False, highlight=False)
    if holder.holder_of(result.run.path) is not None:
        kept = (
            f"What it has started goes on for {holder.abandoned_minutes():g} minutes at most: "
            f"mirror runbook resume {result.run.path} goes on with it, "
            f"mirror lab down --run {result.run.path} ends it."
        )
        console.print(kept, soft_wrap=True, markup=False, highlight=False)
    elif result.status is not RunStatus.COMPLETED:
        again = f"mirror runbook resume {result.run.path} goes on with it: what has passed is not done again."
        console.print(again, soft_wrap=True, markup=False, highlight=False)
    console.print(f"report {path}", soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(result.exit_status)


def _refuse(refused: Exception) -> NoReturn:
    terminal.console(stderr=True).print(f"mirror runbook: {refused}", soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(2)
