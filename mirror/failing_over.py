"""The commands ``mirror failover`` and ``mirror failback``: what they ask, carry out and print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.tick import now_ms
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.model.counts import counted
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.verdict import Verdict, worst
from mirror.model.watch import Watch
from mirror.recovery.applications import Applications, Commands, Nobody, Person
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.failback import FailbackPlan, look_home, steps_home, stranded_rows
from mirror.recovery.failover import FailoverPlan, Mode, look_ahead, steps_of
from mirror.recovery.flow_ends import ClusterEnds
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.move import CUT, GROUPS, Move, Times, named, position_rows, positions_of
from mirror.recovery.run import FAILBACK, FAILOVER, Run, Wanted, read_run
from mirror.recovery.steps import Progress, Result, Step, StepResult, carry_out, take_back
from mirror.tables import print_rows

PASSED, NOT_PASSED = 0, 1
_ALL = ".*"
# A broker at the end of a long line takes longer to answer than one of a practice cluster.
_PROBE_SECONDS = 1.0
_TIMES = Times()
_COLUMNS = ("group", "topic", "partition", "upstream", "before", "after", "exact")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says.

    Attributes
    ----------
    groups
        a regular expression; None: all of them, or those of the failover that is undone.
    takes_back
        whether an earlier attempt is to be taken back, and nothing else.
    given_up
        another run, which nobody goes on with any more.
    """

    groups: str | None
    applications: Path | None
    run_directory: Path | None
    dry_run: bool
    yes: bool
    as_json: bool
    takes_back: bool = False
    given_up: str | None = None


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where people read, and how far something long is shown."""

    out: Console
    err: Console
    progress: Callable[[], AbstractContextManager[Watch]]


def fail_over(
    settings: MirrorSettings, chosen: FlowSettings, mode: Mode | None, asked: Asked, terminal: Terminal
) -> int:
    """Fail a flow over, or take a run up; return the exit code.

    What is not said, mode and groups, is as in the run that is taken up; in a new one unplanned, and all groups.

    Raises
    ------
    ConfigError
        if it is not begun: what was asked for cannot be done, or nobody agrees to it.
    ClusterError, BrokerRefused, ConnectionFailed, LeaderUnknown
        if a cluster does not answer that is needed to begin.
    """
    begun = _begun(asked.run_directory)
    mode = mode or Mode(begun.get("mode", Mode.UNPLANNED))
    groups = asked.groups or begun.get("groups", _ALL)
    run = Run.of(asked.run_directory, Wanted(FAILOVER, chosen.flow, mode, groups))
    back = settings.flow(Flow(chosen.flow.target, chosen.flow.source))
    is_planned = mode is Mode.PLANNED
    ends = _ends(settings, chosen, groups, terminal, awaits_open_ends=is_planned)
    back_ends = _ends(settings, back, groups, terminal, awaits_open_ends=True) if back and back.enabled else None
    entry = FailoverEntry(run.run, mode, Phase.UNDER_WAY, run.where, now_ms())
    applications = _applications(chosen.flow, asked)
    move = Move(
        ends,
        ends,
        applications,
        entry,
        run.directory.path,
        is_planned=is_planned,
        given_up=asked.given_up,
        times=_TIMES,
    )
    plan = look_ahead(mode, move, back_ends, _progress(run))
    session = _Session(settings.path, FAILOVER, chosen.flow, mode, run, plan, asked, terminal)
    return _perform(session, move, lambda agreed: steps_of(mode, agreed, back_ends))


def fail_back(settings: MirrorSettings, chosen: FlowSettings, asked: Asked, terminal: Terminal) -> int:
    """Lead the applications of a flow home, or take a run up; return the exit code.

    The exceptions are those of :func:`fail_over`.
    """
    home = settings.flow(Flow(chosen.flow.target, chosen.flow.source))
    if home is None or not home.enabled:
        flow = Flow(chosen.flow.target, chosen.flow.source)
        said = f"the file must enable it: what was written on {flow.source} is copied home by it"
        raise ConfigError(settings.path, None, f"{flow}.enabled", said)
    directory, begun = asked.run_directory, _begun(asked.run_directory)
    groups = asked.groups or begun.get("groups", _ALL)
    if directory is not None and begun.get("procedure") == FAILOVER:
        if begun["flow"] != str(chosen.flow):
            raise ConfigError(directory, None, "--flow", f"its run is of {begun['flow']}, not of {chosen.flow}")
        directory = directory / FAILBACK
    run = Run.of(directory, Wanted(FAILBACK, chosen.flow, FAILBACK, groups))
    forward = _ends(settings, chosen, groups, terminal, awaits_open_ends=True)
    home_ends = _ends(settings, home, groups, terminal, awaits_open_ends=True)
    entry = FailoverEntry(run.run, FAILBACK, Phase.RETURNING, run.where, now_ms())
    applications = _applications(home.flow, asked)
    move = Move(
        home_ends,
        forward,
        applications,
        entry,
        run.directory.path,
        is_planned=True,
        given_up=asked.given_up,
        times=_TIMES,
    )
    plan = look_home(move, forward, _progress(run))
    session = _Session(settings.path, FAILBACK, chosen.flow, FAILBACK, run, plan, asked, terminal)
    return _perform(session, move, lambda agreed: steps_home(agreed, forward))


@dataclass(frozen=True, slots=True)
class _Session:
    """One call of a command: what it is about, and how it talks."""

    file: Path
    procedure: str
    flow: Flow
    mode: str
    run: Run
    plan: FailoverPlan | FailbackPlan
    asked: Asked
    terminal: Terminal

    def print_plan(self) -> None:
        """Print what will be done, and what is known before it."""
        if self.asked.as_json:
            return
        plan, out = self.plan, self.terminal.out
        out.print(f"{self.procedure} of {self.flow} ({self.mode})", markup=False, style="bold")
        lost, what = (
            (plan.loss, f"{self.flow.target} lacks of {self.flow.source}")
            if isinstance(plan, FailoverPlan)
            else (plan.stranded, f"stranded on {self.flow.source}")
        )
        out.print(f"  {what}: {lost}", markup=False, highlight=False)
        for note in plan.notes:
            out.print(f"  note: {note}", markup=False, style="dim")
        for number, step in enumerate(plan.steps, 1):
            out.print(f"  {number:>2}. {step.name}: {step.doing}", markup=False, highlight=False)
        if plan.moves is not None:
            if plan.moves.positions:
                print_rows(out, "Where groups go on, as things stand", _group_rows(plan.moves))
            else:
                out.print("  no group has a position, so none is moved", markup=False)
            for each in plan.moves.refused:
                out.print(f"  cannot be moved: {each}", markup=False, style="red")

    def print_step(self, step: StepResult) -> None:
        """Print what came of a step, as it comes."""
        if self.asked.as_json:
            return
        found, out = step.result, self.terminal.out
        time = "proven" if step.was_proven else f"{step.seconds:.1f} s"
        out.print(f"{found.verdict:>8}", style=VERDICT_STYLES[found.verdict], end="", highlight=False)
        out.print(f"  {step.name} ({time}): {found.detail}", markup=False, highlight=False, soft_wrap=True)

    def concluded(self, steps: Sequence[StepResult], rows: Sequence[Any], positions: Sequence[Any]) -> int:
        """Print how it ended, or the plan alone; return the exit code."""
        verdict = worst(each.result.verdict for each in steps)
        facts = {each.name: each.result.facts for each in steps}
        if self.asked.as_json:
            content = {
                "verdict": verdict.value,
                "flow": str(self.flow),
                "mode": self.mode,
                "steps": [each.as_json() for each in steps],
                "groups": list(rows),
                "positions": list(positions),
                "run_directory": None if self.asked.dry_run else str(self.run.directory.path),
            }
            if isinstance(self.plan, FailbackPlan):
                stated = stranded_rows(facts.get("stranded", {}))
                content["stranded"] = stated if "stranded" in facts else self.plan.stranded.rows()
            json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")
        elif not self.asked.dry_run:
            out = self.terminal.out
            if rows:
                print_rows(out, "Groups", [dict(each) for each in rows])
            out.print(f"verdict [{VERDICT_STYLES[verdict]}]{verdict}[/]")
            out.print(f"What happened is in {self.run.directory.path}", markup=False, soft_wrap=True)
            if verdict is not Verdict.PASS:
                self.terminal.err.print(self.stands(steps), markup=False)
        return PASSED if verdict is Verdict.PASS or self.asked.dry_run else NOT_PASSED

    def stands(self, steps: Sequence[StepResult]) -> str:
        """Return where a run stands that has not passed, and how it goes on."""
        again = f"mirror {self.procedure} {self.file} --flow '{self.flow}' --run-directory {self.run.directory.path}"
        if self.asked.applications is not None:
            again += f" --applications {self.asked.applications}"
        failed = next((each for each in steps if each.result.verdict is Verdict.FAIL), None)
        # What was taken back before it failed, because a moment had passed, says nothing of how it stands.
        back = [each for each in steps[steps.index(failed) :] if each.name.startswith("back: ")] if failed else []
        if failed is None:
            unseen = ", ".join(each.name for each in steps if each.result.verdict is Verdict.UNKNOWN)
            return f"All is done; nobody has looked at: {unseen}. With somebody who has: {again}"
        if back and all(each.result.verdict is Verdict.PASS for each in back):
            return f"It stopped at {failed.name}, and everything is as it was before. To try again: {again}"
        left = "".join(f" Not taken back: {each.name[6:]}." for each in back if each.result.verdict is not Verdict.PASS)
        return f"It stands at {failed.name}.{left} To go on: {again}"


def _begun(directory: Path | None) -> Mapping[str, str]:
    """Return what the run in a directory is about; nothing if there is none yet."""
    if directory is None or not (directory / "run.json").exists():
        return {}
    return read_run(directory)


def _perform(session: _Session, move: Move, steps: Callable[[Move], Sequence[Step]]) -> int:
    """Carry a run out as planned, if somebody agrees; return the exit code."""
    asked, plan, run = session.asked, session.plan, session.run
    if asked.takes_back and run.is_new:
        told = "takes back what a run has done: name its directory by --run-directory"
        raise ConfigError(session.file, None, "--take-back", told)
    if plan.refusal is not None and not asked.takes_back:
        raise ConfigError(session.file, None, "--flow", plan.refusal)
    session.print_plan()
    refused = plan.moves.refused if plan.moves is not None else ()
    if asked.groups is not None and plan.moves is not None and not plan.moves.positions and not refused:
        told = f"no group of {session.flow} whose whole id matches {asked.groups} has a position"
        raise ConfigError(session.file, None, "--groups", told)
    if asked.dry_run or (refused and not asked.takes_back):
        planned = [StepResult(each.name, Result(Verdict.UNKNOWN, each.doing), 0.0) for each in plan.steps]
        if refused:
            told = f"nothing was begun, since this cannot be moved: {named([str(each) for each in refused])}"
            planned.append(StepResult("plan", Result(Verdict.FAIL, told), 0.0))
        positions = {each: position.upstream for each, position in plan.copied.positions.items()}
        session.concluded(planned, _group_rows(plan.moves), position_rows(positions))
        return NOT_PASSED if refused else PASSED
    _agree(session)
    move = replace(move, agreed=_groups_of(plan.moves))
    with run.held():
        journal = run.directory.journal
        carried = (
            take_back(steps(move), journal, told=session.print_step)
            if asked.takes_back
            else carry_out(steps(move), journal, goes_back=move.is_planned, told=session.print_step)
        )
        run.seal()
    facts = {each.name: each.result.facts for each in carried}
    rows = facts.get(GROUPS, {}).get("rows")
    return session.concluded(carried, rows if isinstance(rows, list) else [], positions_of(facts.get(CUT, {})))


def _agree(session: _Session) -> None:
    """Have somebody agree to what cannot be undone, by typing the flow's name.

    Raises
    ------
    ConfigError
        if nobody can be asked.
    typer.Exit
        if they do not.
    """
    if session.asked.yes:
        return
    if not sys.stdin.isatty():
        told = "there is no terminal to ask on; say --yes, or --dry-run for the plan"
        raise ConfigError(session.file, None, "--yes", told)
    target = session.flow.source if session.procedure == FAILBACK else session.flow.target
    typed = typer.prompt(f"The applications move to {target}. Type {session.flow} to go on", err=True, default="")
    if typed.strip() != str(session.flow):
        session.terminal.err.print("Nothing was changed.")
        raise typer.Exit(NOT_PASSED)


def _applications(along: Flow, asked: Asked) -> Applications:
    if asked.applications is not None:
        return Commands.load(asked.applications, str(along), (along.source, along.target))
    if asked.yes or asked.dry_run or not sys.stdin.isatty():
        return Nobody()
    return Person(lambda question: typer.confirm(question, err=True), now_ms)


def _ends(
    settings: MirrorSettings, chosen: FlowSettings, groups: str, terminal: Terminal, *, awaits_open_ends: bool
) -> ClusterEnds:
    def compare(flow: FlowSettings) -> tuple[Verdict, str]:
        from mirror.recovery.verify import verify_flow  # importing PySpark takes a second

        with terminal.progress() as watch:
            found = verify_flow(flow, settings.clusters, settings.enabled_flows, watch=watch)
        wrong = [f"{each.source}: {each.verdict}" for each in found.partitions if each.verdict is not Verdict.PASS]
        unchecked = [str(each) for each in found.left_out if each.is_unchecked]
        said = (
            f"{counted(len(found.partitions), 'partition')} and "
            f"{counted(sum(each.records for each in found.partitions), 'record')} compared"
        )
        return found.verdict, "; ".join((said, *filter(None, (named(wrong), named(unchecked)))))

    pausing = EnginePausing(settings, awaits_open_ends)
    return ClusterEnds(settings, chosen, pausing, compare, groups, _PROBE_SECONDS)


def _progress(run: Run) -> Progress:
    journal = run.directory.journal
    return Progress.of(journal.read().entries if not run.is_new else ())


def _groups_of(moves: MovePlan | None) -> frozenset[str] | None:
    return None if moves is None else frozenset(each.group for each in moves.positions)


def _group_rows(moves: MovePlan | None) -> list[dict[str, Any]]:
    return [] if moves is None else [{name: row[name] for name in _COLUMNS} for row in moves.rows()]
