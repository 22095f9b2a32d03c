"""The commands ``mirror failover`` and ``mirror failback``: what they ask, carry out and print."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from mirror.asking import ANSWER_SECONDS, yes_or_no
from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.consent import consent_typed
from mirror.control.groups import GroupAction
from mirror.control.tick import now_ms
from mirror.display import going_on, waits_on
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.kafka.problems import KafkaProblem
from mirror.model.flow import Flow
from mirror.model.progress import Watch
from mirror.model.verdict import Verdict, worst
from mirror.recovery.applications import Applications, Commands, Nobody, Person
from mirror.recovery.failback import FailbackPlan, stranded_rows
from mirror.recovery.failover import DETECT, FailoverPlan, Mode
from mirror.recovery.making_anew import MAKE_ANEW
from mirror.recovery.move import CUT, GROUPS
from mirror.recovery.probing import REFUSES_LOGIN
from mirror.recovery.procedure import (
    Procedure,
    Request,
    failback_directory,
    plan_failback,
    plan_failover,
    stopped_applications,
    stopped_message,
)
from mirror.recovery.quiet_source import without_writers
from mirror.recovery.run import FAILBACK, FAILOVER
from mirror.recovery.step_facts import named, position_rows, positions_of, rows_in
from mirror.recovery.steps import BEYOND_RETURN, TAKEN_BY_OTHERS, Result, StepResult
from mirror.tables import print_rows
from mirror.terminal import Remark
from mirror.waiting import watched

PASSED, NOT_PASSED = 0, 1


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
    fences
        whether a failover denies writes to the source by ACLs.
    makes_anew
        whether a failback may delete topics of the old cluster, and have them made anew.
    leaves_behind
        whether what others have written into copies may stay on the standby.
    answer_seconds
        how long each answer of a person is waited for while the run is under way.
    """

    groups: str | None
    applications: Path | None
    run_directory: Path | None
    dry_run: bool
    yes: bool
    as_json: bool
    takes_back: bool = False
    given_up: str | None = None
    fences: bool = False
    makes_anew: bool = False
    leaves_behind: bool = False
    answer_seconds: float = ANSWER_SECONDS


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where people read, and how far something long is shown."""

    out: Console
    err: Console
    progress: Callable[[], AbstractContextManager[Watch]]

    def looking(self) -> AbstractContextManager[None]:
        """Show, once it takes long, that both clusters of a flow are looked at."""
        return going_on(self.err, "looking at both clusters")

    def tell(self, message: str, command: str) -> None:
        """Tell how something stands, and by which command it goes on: in a line of its own, which can be copied."""
        self.err.print(Remark(message))
        if command:
            self.err.print(f"  {command}", soft_wrap=True)


def fail_over(
    settings: MirrorSettings, chosen: FlowSettings, mode: Mode | None, asked: Asked, terminal: Terminal
) -> int:
    """Fail a flow over, or take a run up; return the exit code.

    Raises
    ------
    ConfigError
        if it is not begun: what was asked for cannot be done, or nobody agrees to it.
    KafkaProblem
        if a cluster does not answer that is needed to begin.
    """
    with _stopped_named(asked.run_directory, chosen.flow.source, terminal), terminal.looking():
        procedure = plan_failover(_request(settings, chosen, asked, terminal), mode)
    return _perform(_Session(settings.path, procedure, asked, terminal))


def fail_back(settings: MirrorSettings, chosen: FlowSettings, asked: Asked, terminal: Terminal) -> int:
    """Move the applications of a flow back, or take a run up; return the exit code.

    The exceptions are those of :func:`fail_over`.
    """
    stopped = _stopped_named(failback_directory(asked.run_directory), chosen.flow.target, terminal)
    with stopped, terminal.looking():
        procedure = plan_failback(_request(settings, chosen, asked, terminal))
    return _perform(_Session(settings.path, procedure, asked, terminal))


@contextmanager
def _stopped_named(directory: Path | None, cluster: str, terminal: Terminal) -> Iterator[None]:
    """Say which applications a run has stopped, if it cannot be planned on for want of a cluster."""
    try:
        yield
    except KafkaProblem:
        if directory is not None and (message := stopped_message(directory, cluster)):
            terminal.err.print(Remark(message))
        raise


def _request(settings: MirrorSettings, chosen: FlowSettings, asked: Asked, terminal: Terminal) -> Request:
    return Request(
        settings,
        chosen,
        asked.groups,
        asked.run_directory,
        lambda along: _applications(along, asked),
        terminal.progress,
        asked.given_up,
        fences=asked.fences,
        makes_anew=asked.makes_anew,
        leaves_behind=asked.leaves_behind,
    )


@dataclass(frozen=True, slots=True)
class _Session:
    """One call of a command: what it is about, and how it talks."""

    file: Path
    planned: Procedure
    asked: Asked
    terminal: Terminal

    @property
    def flow(self) -> Flow:
        """Return the flow that is failed over; of a failback too."""
        return self.planned.flow

    @property
    def plan(self) -> FailoverPlan | FailbackPlan:
        """Return what will be done."""
        return self.planned.plan

    @property
    def run_directory(self) -> Path:
        """Return where the run keeps what it has done."""
        return self.planned.run.directory.path

    def print_plan(self) -> None:
        """Print what will be done, and what is known before it."""
        if self.asked.as_json:
            return
        plan, out = self.plan, self.terminal.out
        name = f"{self.planned.procedure} of {self.flow} ({self.planned.mode})"
        if self.asked.takes_back:
            if (why := self.planned.not_taken_back) is not None:
                out.print(f"{name}: nothing is taken back of it", markup=False, style="bold")
                out.print(Remark(why))
                return
            out.print(f"{name}: what is taken back of it", markup=False, style="bold")
            for number, step in enumerate(self.planned.to_take_back, 1):
                out.print(Remark(f"{number:>2}. {step.name}, which was to {step.doing}"))
            return
        out.print(name, markup=False, style="bold")
        lost, what = (
            (plan.loss, f"{self.flow.target} lacks of {self.flow.source}")
            if isinstance(plan, FailoverPlan)
            else (plan.stranded, f"stranded on {self.flow.source}")
        )
        out.print(Remark(f"{what}: {lost}"))
        for note in plan.notes:
            out.print(Remark(f"note: {note}", "dim"))
        before = self.planned.before
        for number, step in enumerate(plan.steps, 1):
            already = f" ({before[step.name]})" if step.name in before else ""
            out.print(Remark(f"{number:>2}. {step.name}{already}: {step.doing}"))
        if plan.moves is not None:
            if plan.moves.positions:
                print_rows(out, "Where groups go on, as things stand", self.planned.group_rows())
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
        verdict = f"{found.verdict:>7}", VERDICT_STYLES[found.verdict]
        detail = without_writers(found) if step.was_proven else found.detail
        out.print(Remark(f"  {step.name} ({time}): {detail}", lead=verdict))

    def concluded(
        self, steps: Sequence[StepResult], rows: Sequence[Any], positions: Sequence[Any], refusal: str | None = None
    ) -> int:
        """Print how it ended, or the plan alone, or why it was not begun (``refusal``); return the exit code."""
        verdict = worst(each.result.verdict for each in steps)
        facts = {each.name: each.result.facts for each in steps}
        is_there = not self.asked.dry_run and (refusal is None or not self.planned.run.is_new)
        if self.asked.as_json:
            content = {
                "verdict": verdict.value,
                "flow": str(self.flow),
                "mode": self.planned.mode,
                "steps": [each.as_json() | self._before(each.name) for each in steps],
                "groups": list(rows),
                "positions": list(positions),
                "run_directory": str(self.run_directory) if is_there or not self.planned.run.is_new else None,
                "notes": list(self.plan.notes),
            }
            if isinstance(self.plan, FailbackPlan):
                stated = stranded_rows(facts.get("stranded", {}))
                content["stranded"] = stated if "stranded" in facts else self.plan.stranded.rows()
            json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")
        elif not self.asked.dry_run:
            out = self.terminal.out
            if rows and refusal is None:
                print_rows(out, "Groups", rows)
            out.print(Text.assemble("verdict ", (verdict.value, VERDICT_STYLES[verdict])))
            if is_there:
                out.print(f"What happened is in {self.run_directory}", markup=False, soft_wrap=True)
        if refusal is not None:
            self.terminal.err.print(refusal, markup=False)
        elif not self.asked.dry_run and verdict is not Verdict.PASS:
            self.terminal.tell(*self.stands(steps))
        elif self.asked.takes_back and not self.asked.dry_run:
            self.terminal.tell("All is taken back.", "")
        return NOT_PASSED if refusal is not None or (verdict is not Verdict.PASS and is_there) else PASSED

    def _before(self, step: str) -> dict[str, str]:
        """Return, of a plan, how far the run has got with a step that it has begun."""
        before = self.planned.before if self.asked.dry_run and not self.asked.takes_back else {}
        return {"before": before[step]} if step in before else {}

    def print_interrupted(self) -> None:
        """Say where a run stands that somebody has interrupted, and how it goes on."""
        self._tell_it_stands("Interrupted.")

    def print_broken_off(self) -> None:
        """Say where a run stands that has met a defect, which is shown behind that, and how it goes on."""
        self._tell_it_stands("It ended in the middle of a step by what is a defect of this program, shown below.")

    def _tell_it_stands(self, why: str) -> None:
        self.terminal.tell(f"{why} The run stands where it is. {self._ways}", self.again)

    @property
    def _ways(self) -> str:
        """Return which applications are stopped, and which ways there are from here."""
        if self.planned.is_beyond_return:
            return "To go on:"
        ways, source = "To go on, or with --take-back to undo it", self.planned.move.flow.source
        stopped = stopped_applications(self.run_directory, source)
        if not stopped:
            return f"{ways}:"
        by_hand = f" (but for the applications: start them on {source} yourself)" if self.planned.starts_none else ""
        return f"{stopped} {ways}{by_hand}:"

    def other_modes(self, *, is_refused: bool) -> str:
        """Return how a source is failed over that answers, or refuses the login of the file."""
        modes = "planned, or cut-off if the flow cannot be copied any more"
        if is_refused:
            modes = "planned once it lets the login of the file in, or cut-off, which can do without"
        return f"While {self.flow.source} answers: --mode {modes}"

    @property
    def again(self) -> str:
        """Return the command by which the run is resumed."""
        named = ["--flow", str(self.flow), "--run-directory", str(self.run_directory)]
        if self.planned.deletion:
            named.append("--make-anew")
        if self.asked.leaves_behind:
            named.append("--leave-behind")
        if self.asked.applications is not None:
            named += ["--applications", str(self.asked.applications)]
        return shlex.join(["mirror", self.planned.procedure, str(self.file), *named])

    def stands(self, steps: Sequence[StepResult]) -> tuple[str, str]:
        """Return where a run stands that has not passed, and the command by which it goes on; empty: none does."""
        again = self.again
        failed = next((each for each in steps if each.result.verdict is Verdict.FAIL), None)
        # What was taken back before it failed, because a moment had passed, says nothing of how it stands.
        back = [each for each in steps[steps.index(failed) :] if each.name.startswith("back: ")] if failed else []
        if failed is None:
            unknown = [each.name for each in steps if each.result.verdict is Verdict.UNKNOWN]
            if self.asked.takes_back:
                return f"All is taken back; nobody has looked at: {', '.join(unknown)}", ""
            at_its_moment = {each.name for each in self.planned.agreed_steps() if each.is_of_its_moment}
            late = [name for name in unknown if name in at_its_moment]
            open_ = [name for name in unknown if name not in at_its_moment]
            gone = f" What cannot be found out any more, and stays UNKNOWN: {', '.join(late)}." if late else ""
            if not open_:
                return f"All is done.{gone}", ""
            return f"All is done; nobody has looked at: {', '.join(open_)}.{gone} With somebody who has:", again
        if not back and failed is not steps[-1]:
            unseen = ", ".join(each.name for each in steps if each.result.verdict is not Verdict.PASS)
            return f"All is done, and on record; what was not seen: {unseen}. To look again:", again
        if failed.name == DETECT and self.planned.run.is_new:
            modes = self.other_modes(is_refused=REFUSES_LOGIN in failed.result.detail)
            return f"Nothing was changed. {modes}, in a run directory of its own. Once it is gone:", again
        if back and all(each.result.verdict is not Verdict.FAIL for each in back):
            unseen = ", ".join(each.name for each in back if each.result.verdict is Verdict.UNKNOWN)
            anew = next((f", but: {each.result.detail}" for each in back if each.name == f"back: {MAKE_ANEW}"), "")
            looked = f", but nobody has looked at: {unseen}" if unseen else ""
            message = f"It stopped at {failed.name}, and everything is as it was before{anew}{looked}"
            return f"{message}. To try again:", again
        if any(TAKEN_BY_OTHERS in each.result.facts for each in back):
            message = (
                "By what is on record this run is not as its directory says: nothing of it is to be taken back, "
                "and applications may be at work on either cluster. What is on record:"
            )
            return message, shlex.join(["mirror", "status", str(self.file)])
        left = "".join(f" Not taken back: {each.name[6:]}." for each in back if each.result.verdict is Verdict.FAIL)
        if failed.result.detail == BEYOND_RETURN and self.planned.procedure == FAILOVER:
            home = ["--flow", str(self.flow), "--run-directory", str(self.run_directory)]
            return "Nothing is taken back. To fail back:", shlex.join(["mirror", FAILBACK, str(self.file), *home])
        return f"It stands at {failed.name}.{left} {self._ways}", again


def _perform(session: _Session) -> int:
    """Carry a run out as planned, if somebody agrees; return the exit code."""
    asked, plan, planned = session.asked, session.plan, session.planned
    if asked.takes_back and planned.run.is_new:
        given = f", and {asked.run_directory} holds no run" if asked.run_directory is not None else ""
        message = f"takes back what a run has done: name its directory by --run-directory{given}"
        raise ConfigError(session.file, None, "--take-back", message)
    if plan.refusal is not None and not asked.takes_back:
        raise ConfigError(session.file, None, "--flow", plan.refusal)
    session.print_plan()
    # Groups that are gone by now keep nobody from ending the cut, and starting the applications again.
    if planned.nobody is not None and not asked.takes_back:
        raise ConfigError(session.file, None, "--groups", planned.nobody)
    refusal = _not_begun(planned)
    if asked.dry_run and isinstance(plan, FailoverPlan) and plan.still_there is not None and not asked.takes_back:
        # A run waits for the source to be gone; whoever looks ahead is told that it is not.
        is_refused = any(REFUSES_LOGIN in each for each in plan.notes)
        while_there = f"Could not be carried out now: {plan.still_there}. {session.other_modes(is_refused=is_refused)}"
        refusal = while_there if refusal is None else f"{while_there}. {refusal}"
    if asked.dry_run and asked.takes_back:
        refusal = planned.not_taken_back
    if asked.dry_run or (refusal is not None and not asked.takes_back):
        none = asked.takes_back and refusal is not None
        listed = () if none else planned.to_take_back if asked.takes_back else plan.steps
        steps = [StepResult(each.name, Result(Verdict.UNKNOWN, each.doing), 0.0) for each in listed]
        if refusal is not None:
            steps.append(StepResult("plan", Result(Verdict.FAIL, refusal), 0.0))
        positions = {each: position.upstream for each, position in plan.copied.positions.items()}
        return session.concluded(steps, planned.group_rows(), position_rows(positions), refusal)
    target = session.flow.source if planned.procedure == FAILBACK else session.flow.target
    means = (
        "What the run has done is taken back, and the applications that it has stopped are started again."
        if asked.takes_back
        else f"The applications move to {target}.{planned.deletion}"
    )
    consent_typed(session.file, means, str(session.flow), yes=asked.yes)
    try:
        with watched(waits_on(session.terminal.err)):
            carried = planned.carry_out(session.print_step, takes_back=asked.takes_back)
    except KeyboardInterrupt:
        session.print_interrupted()
        return NOT_PASSED
    except OSError as problem:
        # What goes wrong with a step is in its result; without its journal the run cannot go on.
        if problem.filename is not None:
            message = f"It ended in the middle of a step: {problem.filename} cannot be written. See to that, then:"
            session.terminal.tell(message, session.again)
        raise
    except (ConfigError, KafkaProblem):
        raise
    except Exception:
        session.print_broken_off()
        raise
    facts = {each.name: each.result.facts for each in carried}
    return session.concluded(carried, rows_in(facts.get(GROUPS, {})), positions_of(facts.get(CUT, {})))


def _not_begun(planned: Procedure) -> str | None:
    """Return, for people, that nothing is done since groups cannot be moved, and which; None: all can be."""
    if not planned.refused:
        return None
    nothing = "Nothing was begun" if planned.run.is_new else "Nothing more was done"
    message = f"{nothing}, since this cannot be moved: {named(planned.refused)}"
    moves = planned.plan.moves
    if moves is not None and any(each.action is GroupAction.SKIP_ACTIVE for each in moves.decisions):
        message += ". A cluster that has just come back remembers the members its groups had until their sessions time "
        message += "out (45 s by default): then try again"
    return f"{message}; {planned.without_refused}" if planned.without_refused else message


def _applications(along: Flow, asked: Asked) -> Applications:
    if asked.applications is not None:
        return Commands.load(asked.applications, str(along), (along.source, along.target))
    if asked.yes or asked.dry_run or not sys.stdin.isatty():
        return Nobody()
    return Person(_asked, now_ms, asked.answer_seconds)


def _asked(question: str, seconds: float) -> bool | None:
    try:
        return yes_or_no(question, seconds)
    except typer.Abort:
        # The run has begun, and stands where it is.
        raise KeyboardInterrupt from None
