"""The steps that move the applications of a flow: the failover in each mode, and the failback."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import pandas as pd

from mirror.drill.notebook_display import Sentences, text_html
from mirror.drill.steps import practice
from mirror.drill.steps.flow_in_use import FlowInUse
from mirror.drill.steps.resumption import done
from mirror.drill.steps.stage import DrillStage
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_model import Factual
from mirror.evidence.seals import seal_files
from mirror.kafka.problems import KafkaProblem
from mirror.model.counts import counted
from mirror.model.verdict import Verdict, worst
from mirror.recovery.failback import FailbackPlan
from mirror.recovery.failover import DETECT, Mode
from mirror.recovery.migration import facts_of
from mirror.recovery.move import CUT, GROUPS
from mirror.recovery.procedure import (
    Procedure,
    plan_failback,
    plan_failover,
    plan_migration,
    stopped_applications,
    stopped_message,
)
from mirror.recovery.run import FAILBACK, FAILOVER, MIGRATION
from mirror.recovery.step_facts import positions_of, rows_in
from mirror.recovery.steps import StepResult

__all__ = [
    "CUT_OFF_FAILOVER",
    "FAIL_BACK",
    "MIGRATE",
    "PLANNED_FAILOVER",
    "UNPLANNED_FAILOVER",
    "carry_out",
    "conclude",
    "groups_table",
    "known",
    "plan",
    "planned_groups",
    "planned_steps",
    "positions_table",
    "practise",
    "steps_table",
]

UNPLANNED_FAILOVER, PLANNED_FAILOVER = "unplanned_failover", "planned_failover"
CUT_OFF_FAILOVER, FAIL_BACK, MIGRATE = "cut_off_failover", "failback", "migration"

_MODES = {
    UNPLANNED_FAILOVER: Mode.UNPLANNED,
    PLANNED_FAILOVER: Mode.PLANNED,
    CUT_OFF_FAILOVER: Mode.CUT_OFF,
}
_PRACTICE_FAILOVER = "practice-failover"
_SERVED_SECONDS = 1.0
_LINE = 100


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of each step of the procedure."""

    steps: tuple[StepResult, ...]

    @property
    def verdict(self) -> Verdict:
        """Return the worst of all."""
        return worst(each.result.verdict for each in self.steps)

    @property
    def group_rows(self) -> Sequence[Any]:
        """Return a row for each position of a group that was written."""
        return [row for facts in facts_of(self.steps, GROUPS) for row in rows_in(facts)]

    @property
    def positions(self) -> list[Any]:
        """Return a row a partition: the last record of the source that was copied."""
        return [row for facts in facts_of(self.steps, CUT) for row in positions_of(facts)]


def practise(used: FlowInUse) -> str:
    """Bring about, on practice clusters, what the step is for; on one's own nothing is done."""
    stage = used.practice
    if stage is None:
        return f"{used.chosen.flow} of {used.settings.path}"
    if used.step == UNPLANNED_FAILOVER:
        return practice.kill_active(stage, used.step)
    if used.step == CUT_OFF_FAILOVER:
        return practice.stop_copying(stage, used.step)
    if used.step == FAIL_BACK:
        return _fail_over_first(used, stage)
    if used.step == MIGRATE:
        return _started_where_they_belong(used, stage)
    return f"practice: the applications are at work on {used.chosen.flow.source}"


def plan(used: FlowInUse) -> Procedure:
    """Plan the procedure, or the rest of it; nothing is changed.

    Raises
    ------
    StepNotPassed
        if a cluster does not answer without which there is no plan.
    """
    procedure = {FAIL_BACK: FAILBACK, MIGRATE: MIGRATION}.get(used.step, FAILOVER)
    request = used.request(procedure)
    try:
        if procedure == FAILBACK:
            return plan_failback(request)
        if procedure == MIGRATION:
            return plan_migration(request)
        return plan_failover(request, _MODES[used.step])
    except KafkaProblem as problem:
        directory, flow = used.run.path / procedure, used.chosen.flow
        stopped = stopped_message(directory, flow.target if procedure == FAILBACK else flow.source)
        nothing = "nothing more" if directory.exists() else "nothing"
        reason = f"{problem}; {nothing} was changed: once that answers, mirror runbook resume {used.run.path} goes on"
        reason += f"; {stopped}" if stopped else ""
        used.conclude(Outcome(used.step, Verdict.FAIL, {"flow": str(used.chosen.flow)}, ("there is no plan", reason)))
        raise


def known(procedure: Procedure) -> Sentences:
    """Return what is known before anything is done, a line each."""
    plan, flow = procedure.plan, procedure.flow
    lost = (
        f"stranded on {flow.source}: {plan.stranded}"
        if isinstance(plan, FailbackPlan)
        else f"{flow.target} lacks of {flow.source}: {plan.loss}"
    )
    notes = (f"note: {each}" for each in plan.notes)
    lines = (lost, *notes, *(f"refused: {each}" for each in procedure.against))
    return Sentences("\n".join(lines), "".join(map(text_html, lines)))


def planned_steps(procedure: Procedure) -> pd.DataFrame:
    """Return a row for each step that will be taken."""
    return pd.DataFrame([{"step": each.name, "what it does": each.doing} for each in procedure.plan.steps])


def planned_groups(procedure: Procedure) -> pd.DataFrame:
    """Return a row for each position of a group, as things stand."""
    return pd.DataFrame(procedure.group_rows()).convert_dtypes()


def carry_out(used: FlowInUse, procedure: Procedure) -> Carried:
    """Ask for the word, then carry the procedure out; each step is reported as it ends.

    Raises
    ------
    StepNotPassed
        if the plan says that it must not begin: nothing was done.
    NotConfirmed
        if a person was asked and did not agree.
    """
    against = procedure.against
    if against:
        used.conclude(Outcome(used.step, Verdict.FAIL, _facts(procedure), ("nothing was begun", *against)))
    target = procedure.flow.source if procedure.procedure == FAILBACK else procedure.flow.target
    moves = f"The applications move to {target}; what is written there from then on is on {target} only."
    used.confirm(moves + procedure.deletion, is_begun=procedure.is_beyond_return)
    facts = {"procedure": procedure.procedure, "run_directory": procedure.run.directory.path.name}
    used.run.journal.append(Event.ACTION, step=used.step, facts=facts)
    try:
        return Carried(procedure.carry_out(_print_step))
    except KeyboardInterrupt:
        print(_interrupted(used, procedure), flush=True)
        raise


def _interrupted(used: FlowInUse, procedure: Procedure) -> str:
    """Return where a procedure stands that somebody has interrupted, and how it goes on or is taken back."""
    directory, source = procedure.run.directory.path, procedure.move.flow.source
    stopped = stopped_applications(directory, source)
    named = ["--flow", str(procedure.flow), "--run-directory", str(directory)]
    # Whoever takes it back starts the applications again.
    if used.applications_file is not None:
        named += ["--applications", str(used.applications_file)]
    undo = shlex.join(["mirror", procedure.procedure, str(used.settings.path), *named, "--take-back"])
    back = "" if procedure.is_beyond_return or procedure.procedure == MIGRATION else f", to undo it: {undo}"
    return (
        f"Interrupted. The run stands where it is. {stopped}{stopped and ' '}To go on: run this cell again, or "
        f"mirror runbook resume {shlex.quote(str(used.run.path))}{back}"
    )


def steps_table(carried: Carried) -> pd.DataFrame:
    """Return a row for each step that was taken."""
    return pd.DataFrame([each.as_json() for each in carried.steps])


def groups_table(carried: Carried) -> pd.DataFrame:
    """Return a row for each position of a group that was written."""
    return pd.DataFrame([dict(each) for each in carried.group_rows]).convert_dtypes()


def positions_table(carried: Carried) -> pd.DataFrame:
    """Return a row a partition: the last record of the source that was copied."""
    return pd.DataFrame(carried.positions).convert_dtypes()


def conclude(used: FlowInUse, procedure: Procedure, carried: Carried) -> None:
    """Write the outcome: that of the procedure. What nobody has observed is UNKNOWN, with everything done."""
    messages = [
        f"{each.name}: {each.result.detail}" for each in carried.steps if each.result.verdict is not Verdict.PASS
    ]
    if any(each.name == DETECT and each.result.verdict is Verdict.FAIL for each in carried.steps):
        answers = f"while {procedure.flow.source} answers, these runbooks move the applications"
        messages.append(f"{answers}: planned-failover, or cut-off-failover if the flow cannot be copied any more")
    directory = procedure.run.directory
    if carried.verdict is Verdict.PASS:
        if used.practice is not None:
            practice.end(used.practice)
        seal_files(used.run, (each for each in directory.path.rglob("*") if each.suffix in _EVIDENCE), step=used.step)
    last = directory.journal.read().entries[-1]
    facts: Factual = {
        **_facts(procedure),
        "journal_entries": last.n,
        "journal_head": last.hash,
        "procedure_steps": [each.as_json() for each in carried.steps],
        "moved_groups": [dict(each) for each in carried.group_rows],
        "last_mirrored": [dict(each) for each in carried.positions],
    }
    passed = (f"{counted(len(carried.steps), 'step')} of the {procedure.procedure} passed",)
    used.conclude(Outcome(used.step, carried.verdict, facts, tuple(messages) or passed))


_EVIDENCE = {".json", ".jsonl"}


def _facts(procedure: Procedure) -> Factual:
    return {
        "flow": str(procedure.flow),
        "mode": str(procedure.mode),
        "procedure_directory": procedure.run.directory.path.name,
    }


def _print_step(step: StepResult) -> None:
    time = "proven" if step.was_proven else f"{step.seconds:.1f} s"
    message = f"{step.result.verdict:>8}  {step.name} ({time}): {step.result.detail}"
    # Jupyter breaks longer lines in the middle of words.
    print(fill(message, _LINE, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False), flush=True)


def _started_where_they_belong(used: FlowInUse, stage: DrillStage) -> str:
    """Start what ended with an earlier runner; what a step has stopped, and not started yet, is that step's."""
    flow = used.chosen.flow
    if (used.run.path / MIGRATION).exists():
        places = plan_migration(used.request(MIGRATION)).migration.whereabouts()
        applications = practice.moved_applications(stage)
        for group, alias in places.items():
            if alias is not None:
                applications.start_part(alias, group)
    return f"practice: the applications move from {flow.source} to {flow.target}, group by group"


def _fail_over_first(used: FlowInUse, stage: DrillStage) -> str:
    """Fail the practice over, once, and let the applications write on the standby."""
    before = done(stage, Event.ACTION, used.step)
    if before is None or before.facts.get("practice") == "begun":
        stage.run.journal.append(Event.ACTION, step=used.step, facts={"practice": "begun"})
        carried = Carried(plan_failover(used.request(_PRACTICE_FAILOVER), Mode.PLANNED).carry_out(_print_step))
        if carried.verdict is not Verdict.PASS:
            reasons = tuple(each.result.detail for each in carried.steps if each.result.verdict is not Verdict.PASS)
            used.conclude(Outcome(used.step, carried.verdict, {}, ("the practice was not failed over", *reasons)))
        # They ended with an earlier runner, if that was killed behind the last step that would have started them.
        practice.moved_applications(stage).start(stage.standby)
        stage.wait_for_load(stage.standby, rate=practice.RATE, seconds=_SERVED_SECONDS)
        stage.run.journal.append(Event.ACTION, step=used.step, facts={"practice": "failed over"})
    return f"practice: the applications were failed over to {stage.standby}, and have written there"
