"""Running a runbook: journal, gates, budgets, a stop at the first verdict that is not PASS, and a resume where it
stopped.

Status and verdict are two things: COMPLETED says that every step was run, PASS that the objectives were met.
What notebooks start for the run and is to outlive them belongs to the run's holder (`mirror.lab.holder`), which is
told to end with the run; one that is to be resumed can keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mirror.drill import confirmations
from mirror.drill.catalogue import LoadedRunbook
from mirror.drill.gates import Gate, GateResult
from mirror.drill.notebook import (
    INTERRUPTED,
    CellProgress,
    NotebookRefused,
    NotebookResult,
    check_parameters,
    inspect,
    run_notebook,
)
from mirror.drill.run_record import RunStatus, create_run, record_beginning, record_end
from mirror.drill.runbook import (
    RUN_DIRECTORY_PARAMETER,
    Decision,
    PlannedStep,
    Runbook,
    Step,
    plan_steps,
)
from mirror.evidence.facts import FactError
from mirror.evidence.journal import Event, JournalReading
from mirror.evidence.outcome import Outcome
from mirror.evidence.refusal import Refused
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import read_settings
from mirror.evidence.run_model import ParameterValue
from mirror.evidence.seals import Wrong, broken, outside_the_ledger, read_sealed, seal_files
from mirror.lab import holder
from mirror.model.verdict import Verdict


class ResumeRefused(Refused):
    """A run cannot be resumed; the message says why."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of one step of a run.

    Attributes
    ----------
    decision
        whether it was run now or had passed before.
    executed
        the notebook's result; None when it was skipped, or a gate was not met.
    """

    step: Step
    decision: Decision
    outcome: Outcome
    executed: NotebookResult | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run.

    Attributes
    ----------
    verdict
        the worst of all steps, where a step that was not run is UNKNOWN, and of the evidence's own consistency.
    reasons
        why it is not PASS.
    """

    run: RunDirectory
    status: RunStatus
    verdict: Verdict
    reasons: tuple[str, ...]
    steps: tuple[StepResult, ...]

    @property
    def exit_status(self) -> int:
        """Return 0 for PASS and 1 for any other verdict."""
        return 0 if self.verdict is Verdict.PASS else 1


class Observer(Protocol):
    """Is told what a run does, as it does it."""

    def run_began(self, run: RunDirectory, planned: Collection[PlannedStep]) -> None:
        """Take note of the plan."""
        ...

    def point_of_no_return(self, step: Step) -> None:
        """Name the point of no return before it is crossed."""
        ...

    def step_began(self, step: Step) -> None:
        """Take note of a step whose gates are open."""
        ...

    def cell_began(self, progress: CellProgress) -> None:
        """Take note of a notebook's cell."""
        ...

    def step_ended(self, result: StepResult) -> None:
        """Take note of a step's end, also of one that was skipped or whose gate was not met."""
        ...


Confirm = Callable[[Step], bool]
"""Asks a person whether to cross a point of no return."""


def check_runbook(loaded: LoadedRunbook, given: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """Check the runbook's notebooks and parameters without starting anything; return every parameter's value.

    This is all a dry run does, beside showing the plan; what it has not run is UNKNOWN.

    Raises
    ------
    ParameterRefused, NotebookRefused
        naming what would not be started, and why.
    """
    values = loaded.runbook.checked(given)
    for step in loaded.runbook.steps:
        inspection = inspect(loaded.notebooks / step.notebook)
        check_parameters(inspection, {RUN_DIRECTORY_PARAMETER: "runs/", **_parameters_of(step, values)})
    return values


def start_run(
    loaded: LoadedRunbook,
    given: Mapping[str, ParameterValue],
    runs: Path,
    observer: Observer,
    *,
    confirm: Confirm | None = None,
    keep: bool = False,
) -> RunResult:
    """Run a runbook from its first step in a new directory under ``runs``.

    With ``keep`` what the run holds goes on when it stops before its end, so that it can be resumed.

    Raises
    ------
    ParameterRefused, NotebookRefused
        before the directory is made.
    """
    values = check_runbook(loaded, given)
    run = create_run(loaded, values, runs)
    with run.owned():
        record_beginning(run, loaded, values)
        planned = plan_steps(loaded.runbook, {})
        return _Running(run, loaded, values, observer, confirm, keep=keep).go(planned)


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a run would be resumed: every parameter's value, and what becomes of each step."""

    values: Mapping[str, ParameterValue]
    planned: tuple[PlannedStep, ...]


def plan_resumption(
    run: RunDirectory, loaded: LoadedRunbook, *, recheck: Collection[str] = (), seen: Collection[str] = ()
) -> Resumption:
    """Check a run that is to be resumed, and plan the rest of it; nothing is started and nothing written.

    Raises
    ------
    ResumeRefused
        when the journal, or what it has sealed, was altered, the runbook is another one or its steps have changed, or
        ``recheck`` names no step.
    ParameterRefused, NotebookRefused
        when the notebooks no longer take the run's parameters.
    NotOfTheMigration
        when the run does not move a group that is seen.
    """
    settings = read_settings(run)
    runbook = loaded.runbook
    if settings.runbook != runbook.name:
        raise ResumeRefused(f"{run.name} is a run of {settings.runbook!r}, not of {runbook.name!r}")
    before, now = [step.name for step in settings.steps], [step.name for step in runbook.steps]
    if before != now:
        raise ResumeRefused(
            f"{run.name} was started with the steps {before}; the runbook now has {now}: start a new run"
        )
    if unknown := sorted(set(recheck) - set(now)):
        raise ResumeRefused(f"no step {', '.join(unknown)} to re-check; the steps are {', '.join(now)}")
    values = check_runbook(loaded, settings.parameters)
    reading = read_sealed(run)
    problem = reading.problem or _unfit(run, reading)
    if problem is not None:
        raise ResumeRefused(f"{run.path}: {problem}; an altered run is kept as it is, start a new one")
    crossed = {
        entry.step for entry in reading.entries if entry.event is Event.POINT_OF_NO_RETURN and entry.step is not None
    }
    confirmations.check(run, seen)
    planned = plan_steps(runbook, _verdicts(run, runbook, reading), crossed=crossed, recheck=recheck)
    return Resumption(values, tuple(planned))


def resume_run(
    run: RunDirectory,
    loaded: LoadedRunbook,
    observer: Observer,
    *,
    recheck: Collection[str] = (),
    seen: Collection[str] = (),
    confirm: Confirm | None = None,
    keep: bool = False,
) -> RunResult:
    """Go on with a run where it stopped, with the parameters it was started with; ``keep`` as for `start_run`.

    Of the groups that are ``seen`` a person says that they are at work where a migration has moved them.

    Raises
    ------
    ResumeRefused, ParameterRefused, NotebookRefused, NotOfTheMigration
        as :func:`plan_resumption` says.
    RunInUse
        when another process is running it.
    """
    with run.owned():
        resumption = plan_resumption(run, loaded, recheck=recheck, seen=seen)
        planned = resumption.planned
        plan = [{"step": item.step.name, "decision": item.decision.value, "reason": item.reason} for item in planned]
        confirmations.give(run, seen)
        run.journal.append(Event.RUN_RESUMED, facts={"plan": plan})
        return _Running(run, loaded, resumption.values, observer, confirm, keep=keep).go(planned)


@dataclass(frozen=True, slots=True)
class _Running:
    """One run in progress."""

    run: RunDirectory
    loaded: LoadedRunbook
    values: Mapping[str, ParameterValue]
    observer: Observer
    confirm: Confirm | None
    keep: bool

    def go(self, planned: Collection[PlannedStep]) -> RunResult:
        """Take the planned steps one after another until one does not pass."""
        is_to_go_on = False
        try:
            result = self._take(planned)
            is_to_go_on = self.keep and result.status is not RunStatus.COMPLETED
            return result
        finally:
            if not is_to_go_on:
                holder.release(self.run.path)

    def _take(self, planned: Collection[PlannedStep]) -> RunResult:
        self.observer.run_began(self.run, planned)
        results: list[StepResult] = []
        status = RunStatus.COMPLETED
        for item in planned:
            try:
                result = self._skip(item) if item.decision is Decision.SKIP else self._step(item.step)
            except KeyboardInterrupt:
                status = RunStatus.INTERRUPTED
                break
            results.append(result)
            self.observer.step_ended(result)
            if result.outcome.verdict is not Verdict.PASS:
                crash = result.executed.crash if result.executed else None
                status = RunStatus.INTERRUPTED if crash and crash.kind == INTERRUPTED else RunStatus.STOPPED
                break
        return self._finish(status, results)

    def _finish(self, status: RunStatus, results: Collection[StepResult]) -> RunResult:
        judgement = record_end(self.run, status)
        return RunResult(self.run, status, judgement.verdict, judgement.reasons, tuple(results))

    def _skip(self, item: PlannedStep) -> StepResult:
        step = item.step
        outcome = self.run.read_outcome(step.name)
        assert outcome is not None, "only a step that passed is skipped"
        self.run.journal.append(Event.STEP_SKIPPED, step=step.name, facts={"reason": item.reason})
        return StepResult(step, Decision.SKIP, outcome, None)

    def _step(self, step: Step) -> StepResult:
        for gate in step.gates:
            seen = self._gate(step, gate)
            if seen.verdict is not Verdict.PASS:
                return self._not_run(step, f"gate not met: {gate.title}: {seen.observed}")
        if step.point_of_no_return:
            self.observer.point_of_no_return(step)
            if self.confirm is not None and not self.confirm(step):
                return self._not_run(step, "the point of no return was not confirmed")
            self.run.journal.append(Event.POINT_OF_NO_RETURN, step=step.name, facts={"undo": step.undo})
        source = self.loaded.notebooks / step.notebook
        parameters = _parameters_of(step, self.values)
        self.run.journal.append(
            Event.STEP_STARTED,
            step=step.name,
            facts={
                "notebook": step.notebook,
                "sha256": inspect(source).sha256,
                "parameters": parameters,
                "budget_seconds": step.budget_seconds,
            },
        )
        self.observer.step_began(step)
        executed = run_notebook(
            source,
            self.run,
            step.name,
            parameters,
            budget_seconds=step.budget_seconds,
            progress=self._cell_began,
        )
        outcome = executed.outcome
        made = [executed.executed, executed.page, self.run.mirror_properties, *self.run.path.glob("*.parquet")]
        seal_files(self.run, filter(None, made), step=step.name)
        self.run.journal.append(
            Event.STEP_FINISHED,
            step=step.name,
            facts={
                "verdict": outcome.verdict.value,
                "reasons": list(outcome.reasons),
                "seconds": round(executed.seconds, 3),
                "crash": str(executed.crash) if executed.crash else None,
            },
        )
        return StepResult(step, Decision.RUN, outcome, executed)

    def _cell_began(self, progress: CellProgress) -> None:
        holder.use(self.run.path)
        self.observer.cell_began(progress)

    def _gate(self, step: Step, gate: Gate) -> GateResult:
        try:
            seen = gate.check(self.run)
        except Exception as failure:  # noqa: BLE001 - a gate that cannot be measured is shut, whatever broke in it
            seen = GateResult(Verdict.UNKNOWN, f"could not be measured: {type(failure).__name__}: {failure}")
        facts = {"gate": gate.title, "verdict": seen.verdict.value, "observed": seen.observed}
        self.run.journal.append(Event.GATE_CHECKED, step=step.name, facts=facts)
        return seen

    def _not_run(self, step: Step, reason: str) -> StepResult:
        self.run.set_aside(self.run.outcome_path(step.name))
        outcome = Outcome(step.name, Verdict.UNKNOWN, reasons=(reason,))
        self.run.write_outcome(outcome)
        self.run.journal.append(
            Event.STEP_FINISHED,
            step=step.name,
            facts={"verdict": outcome.verdict.value, "reasons": [reason], "seconds": None, "crash": None},
        )
        return StepResult(step, Decision.RUN, outcome, None)


def _parameters_of(step: Step, values: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    return {name: values[name] for name in step.parameters}


def _unfit(run: RunDirectory, reading: JournalReading) -> str | None:
    """Return what was touched of a run's evidence; what a run that was killed leaves behind is nothing touched."""
    touched = [
        each
        for each in broken(run, reading.entries)
        if each.wrong is Wrong.ALTERED
        or (each.wrong in {Wrong.MISSING, Wrong.UNSEALED} and not each.file.startswith("outcomes/"))
    ]
    return "; ".join(map(str, touched)) or None


def _verdicts(run: RunDirectory, runbook: Runbook, reading: JournalReading) -> dict[str, Verdict]:
    """Return the verdict of every step with an outcome; one that cannot be read, or was not sealed, is UNKNOWN."""
    verdicts: dict[str, Verdict] = {}
    wrong = {each.file for each in broken(run, reading.entries, outside_the_ledger)}
    for step in runbook.steps:
        path = run.outcome_path(step.name)
        if path.exists() and str(path.relative_to(run.path)) in wrong:
            verdicts[step.name] = Verdict.UNKNOWN
            continue
        try:
            outcome = run.read_outcome(step.name)
        except (FactError, ValueError):
            verdicts[step.name] = Verdict.UNKNOWN
            continue
        if outcome is not None:
            verdicts[step.name] = outcome.verdict
    return verdicts


__all__ = [
    "NotebookRefused",
    "Observer",
    "ResumeRefused",
    "Resumption",
    "RunResult",
    "RunStatus",
    "StepResult",
    "check_runbook",
    "plan_resumption",
    "resume_run",
    "start_run",
]
