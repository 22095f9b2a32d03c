"""Notebooks that a person opens and runs: which run they belong to, what the person is asked, what is recorded.

A notebook that the runner executes is given its run's directory, gates and journal. One that is opened by hand finds
its run here: the first notebook of the practice runbook makes one, or takes up the one under way; the others take it
up. What has been started goes on between notebooks, in the run's holder (`mirror.lab.holder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
from IPython.core.getipython import get_ipython
from IPython.display import HTML, display

from mirror.asking import ANSWER_SECONDS, NOTHING_DONE, answered, limit_message
from mirror.drill.catalogue import LoadedRunbook, find_runbook, runbooks_folder
from mirror.drill.notebook_display import Sentences
from mirror.drill.plan_table import notebook_link, plan_table
from mirror.drill.run_record import RunStatus, create_run, record_beginning, record_end
from mirror.drill.runbook import Runbook, Step
from mirror.drill.unattended import is_unattended
from mirror.evidence.facts import FactError
from mirror.evidence.journal import Entry, Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.refusal import Refused
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import read_evidence, read_settings
from mirror.evidence.run_model import ParameterValue
from mirror.lab import holder
from mirror.model.verdict import Verdict

PRACTICE = "failover-drill"
"""The runbook whose notebooks need nothing but practice clusters of their own."""


class NoRun(Refused):
    """No run can be taken up by this notebook; the message says what to do."""


_NO_INPUT = (
    "this front end takes no input, so nothing was done: run the notebook in JupyterLab, or the whole runbook by "
    "mirror runbook run; MIRROR_UNATTENDED=1 says that nobody is to be asked"
)


class NotConfirmed(Refused):
    """The point of no return was not confirmed; nothing was done."""


@dataclass(frozen=True, slots=True)
class Interactive:
    """One step of a run that a person takes by running its notebook.

    Attributes
    ----------
    run_message
        what the person should know of the run, in sentences.
    """

    run: RunDirectory
    loaded: LoadedRunbook
    step: Step
    run_message: str

    def introduce(self) -> None:
        """Show which run this is, and the plan."""
        display(Sentences(self.run_message))
        display(HTML(plan_table(self.loaded.runbook, self.run, self.step)))

    def confirm(self, word: str, consequence: str, *, is_begun: bool | None = None) -> None:
        """Have the person type a word before the step's point of no return, and record that it was typed.

        Who has typed it is not asked again, unless the step says that it was not crossed (``is_begun`` is False): it
        may have been interrupted before, and somebody else goes on.

        Raises
        ------
        NotConfirmed
            if anything else is typed, or nothing can be.
        """
        is_confirmed = _crossed(self.run.journal.read().entries) == self.step.name
        if is_confirmed and is_begun is not False:
            return
        if not is_unattended():
            limit = limit_message(ANSWER_SECONDS, NOTHING_DONE)
            question = f"{consequence}\nType {word} to go on, anything else to stop {limit}: "
            try:
                typed = answered(lambda: input(question), ANSWER_SECONDS)
            except NotImplementedError:
                # As a kernel raises it whose front end has said that it has no place to type.
                raise NotConfirmed(_NO_INPUT) from None
            if (typed or "").strip() != word:
                raise NotConfirmed(f"{word} was not typed: nothing was done; run the cell again to be asked again")
        if not is_confirmed:
            self.run.journal.append(Event.POINT_OF_NO_RETURN, step=self.step.name, facts={"undo": self.step.undo})

    def conclude(self, outcome: Outcome) -> None:
        """Write the outcome of the step; behind the last one end the run and write its report.

        Raises
        ------
        StepNotPassed
            unless the outcome is PASS.
        """
        self.run.write_outcome(outcome)
        facts = {"verdict": outcome.verdict.value, "reasons": list(outcome.reasons), "seconds": None, "crash": None}
        self.run.journal.append(Event.STEP_FINISHED, step=self.step.name, facts=facts)
        outcome.require()
        display(_judged(self.step.title, outcome.verdict, outcome.reasons or ("nothing was found wrong",)))
        steps = self.loaded.runbook.steps
        following = steps[steps.index(self.step) + 1 :]
        if not following:
            self._end()
            return
        ahead = following[0]
        link = f"Next: {notebook_link(ahead)}, {escape(ahead.title)}"
        display(Sentences(f"Next: {ahead.notebook}, {ahead.title}", link))

    def _end(self) -> None:
        # They take their time to import, and only the last step needs them.
        from mirror.drill.report import write_report
        from mirror.evidence.plots import timeline_marks, timeline_plot

        judgement = record_end(self.run, RunStatus.COMPLETED)
        holder.release(self.run.path)
        report, _ = write_report(self.run)
        evidence = read_evidence(self.run)
        display(timeline_plot(evidence))
        display(
            pd.DataFrame(
                {"": mark.number, "seconds": (mark.at_ms - evidence.began_at_ms) / 1000, "what": mark.label}
                | {"where": mark.detail}
                for mark in timeline_marks(evidence)
            )
        )
        display(_judged("The whole run", judgement.verdict, judgement.reasons or ("every objective was met",)))
        display(Sentences(f"report {report}", f"report <code>{escape(str(report))}</code>"))


def take_up(
    name: str,
    *,
    runbook: str = PRACTICE,
    given: Mapping[str, ParameterValue] | None = None,
    runs: Path | None = None,
) -> Interactive:
    """Return the step of that name in the run under way; the first step makes a run where none is.

    Parameters
    ----------
    name
        of the step.
    runbook
        the runbook it is of.
    given
        values of the runbook's parameters, which a run that is taken up must have; None: the defaults, or whatever
        that run has.
    runs
        where directories of runs are; by default ``runs`` beside the folder of runbooks.

    Raises
    ------
    NoRun
        if no run is under way that this step can be taken in.
    ParameterRefused
        if a run cannot be made with these values.
    RunInUse
        if the runner is at work in it.
    """
    folder = runbooks_folder()
    loaded = find_runbook(runbook, folder)
    values = loaded.runbook.checked(given or {})
    runs = folder.absolute().parent / "runs" if runs is None else runs
    steps = loaded.runbook.steps
    step = next(each for each in steps if each.name == name)
    is_practice = not values.get("properties_file")
    run = under_way(runs, runbook)
    if run is None and not is_practice:
        run = _left_unfinished(runs, runbook, values)
    if run is not None and given is not None and read_settings(run).parameters != values:
        raise NoRun(f"{run.name} is under way with other parameters; give those, or end it: {_ending(run)}")
    if run is None:
        if step != steps[0]:
            raise NoRun(f"no practice run is under way in {runs}: run {steps[0].notebook} first")
        run = create_run(loaded, values, runs)
        record_beginning(run, loaded, values)
    with run.owned():  # else a runner is at work in it
        problem = _too_late(run, loaded.runbook, step)
        if problem is not None:
            raise NoRun(f"{problem}; go on with the notebook that comes next, or end the run: {_ending(run)}")
        if run.journal.read().entries[-1].event is Event.RUN_FINISHED:
            run.journal.append(Event.RUN_RESUMED, facts={"by_hand": True})
        for gate in step.gates:
            seen = gate.check(run)
            facts = {"gate": gate.title, "verdict": seen.verdict.value, "observed": seen.observed}
            run.journal.append(Event.GATE_CHECKED, step=step.name, facts=facts)
            if seen.verdict is not Verdict.PASS:
                raise NoRun(f"{step.title}: {gate.title}: {seen.observed}")
        run.set_aside(run.outcome_path(step.name))
        run.journal.append(Event.STEP_STARTED, step=step.name, facts={"notebook": step.notebook, "by_hand": True})
    holder.hold(run.path)
    return Interactive(run, loaded, step, _run_message(run, loaded.runbook, is_practice=is_practice))


def _left_unfinished(runs: Path, runbook: str, values: Mapping[str, ParameterValue]) -> RunDirectory | None:
    """Return the newest run about the same clusters that has begun to move applications and is not over.

    Nobody holds it any more, but nothing of it has ended with its holder: what it has done there is as it was, and a
    new run would be refused because of it.
    """
    for journal in sorted(runs.glob("*/*/journal.jsonl"), reverse=True):
        try:
            run = RunDirectory.open(journal.parents[1])
            settings = read_settings(run)
        except (Refused, FactError):
            continue
        is_over = run.journal.read().entries[-1:] and run.journal.read().entries[-1].event is Event.RUN_FINISHED
        if settings.runbook == runbook and settings.parameters == values and not is_over:
            return run
    return None


def _run_message(run: RunDirectory, runbook: Runbook, *, is_practice: bool) -> str:
    """Return, in sentences, which run it is and what becomes of it."""
    last, minutes = runbook.steps[-1].notebook, f"{holder.abandoned_minutes():g} minutes"
    where = f"This is the run {run.name}, in {run.path.parent}."
    if is_practice:
        return (
            f"{where} What it starts goes on between notebooks. It ends when {last} has passed, when no cell is run "
            f"for {minutes}, or by: {_ending(run)}"
        )
    return (
        f"{where} It works on clusters of your own: nothing of it goes on running between cells, and what a cell has "
        f"done there stays when it ends. It ends when {last} has passed, when no cell is run for {minutes}, or by: "
        f"{_ending(run)}. If applications have begun to move by then, the same notebook with the same parameters goes "
        f"on with it, as does mirror runbook resume {run.path}"
    )


def under_way(runs: Path, runbook: str = PRACTICE) -> RunDirectory | None:
    """Return the newest run of a runbook that is still held."""
    for path in reversed(holder.held(runs)):
        try:
            run = RunDirectory.open(path)
            if read_settings(run).runbook == runbook:
                return run
        except (Refused, FactError):
            continue
    return None


def _too_late(run: RunDirectory, runbook: Runbook, step: Step) -> str | None:
    """Return why a step cannot be taken (again): it would undo what lies behind the point of no return."""
    names = [each.name for each in runbook.steps]
    crossed = _crossed(run.journal.read().entries)
    if crossed is None or names.index(step.name) > names.index(crossed):
        return None
    outcome = run.read_outcome(crossed)
    if step.name == crossed and (outcome is None or outcome.verdict is not Verdict.PASS):
        return None
    return f"{run.name} is past its point of no return ({crossed})"


def _ending(run: RunDirectory) -> str:
    return f"mirror lab down --run {run.path}"


def keep_in_use(run: Path) -> None:
    """Have every cell that is run from now on in this kernel count as use of the run, from its beginning to its end."""
    shell = get_ipython()
    if shell is not None:
        for moment in ("pre_run_cell", "post_run_cell"):
            shell.events.register(moment, lambda _: holder.use(run))


def _judged(what: str, verdict: Verdict, reasons: Sequence[str]) -> Sentences:
    """Return a verdict and what it rests on, a line each."""
    listed = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    text = f"{what}: {verdict}: {'; '.join(reasons)}"
    return Sentences(text, f"{escape(what)}: <strong>{verdict}</strong><ul>{listed}</ul>")


def _crossed(entries: Sequence[Entry]) -> str | None:
    """Return the step whose point of no return was crossed."""
    return next((entry.step for entry in entries if entry.event is Event.POINT_OF_NO_RETURN), None)
