"""The flow that a runbook is about: one of a properties file, or one between practice clusters made for the run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from mirror.asking import answered
from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.tick import now_ms
from mirror.drill import confirmations
from mirror.drill.conditions import flow_of_file
from mirror.drill.interactive import Interactive, keep_in_use, take_up
from mirror.drill.live import show_waits
from mirror.drill.notebook_display import style_outputs
from mirror.drill.steps import practice as practising
from mirror.drill.steps.stage import DrillStage, be_the_only_kernel
from mirror.drill.unattended import is_unattended
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_model import ParameterValue
from mirror.model.flow import Flow
from mirror.model.progress import Watch, nobody
from mirror.recovery.applications import Applications, Commands, Nobody, Person
from mirror.recovery.procedure import Request

__all__ = ["FlowInUse"]


@dataclass(frozen=True, slots=True)
class FlowInUse:
    """A flow, and the run that keeps the evidence of what a step does with it.

    Attributes
    ----------
    groups
        a regular expression; None: all.
    applications_file
        commands that stop, start and probe the applications; None: there is none.
    practice
        the stage of the practice clusters; None on one's own.
    by_hand
        the step a person takes; None where the runner does.
    makes_anew
        whether a failback may delete topics of the old cluster, and have them made anew.
    leaves_behind
        whether what others have written into copies may stay on the standby at a failback.
    """

    run: RunDirectory
    step: str
    settings: MirrorSettings
    chosen: FlowSettings
    groups: str | None
    applications_file: Path | None
    practice: DrillStage | None
    by_hand: Interactive | None
    makes_anew: bool = False
    leaves_behind: bool = False

    @classmethod
    def open(
        cls,
        run_directory: str,
        step: str,
        properties_file: str,
        flow: str,
        practice: bool,
        groups: str | None = None,
        applications: str | None = None,
        make_anew: bool | None = None,
        leave_behind: bool | None = None,
    ) -> FlowInUse:
        """Read the properties file and choose the flow; for practice, make or take up the clusters first.

        Without a directory the step's runbook is run by hand: on practice clusters unless there is a file.

        Raises
        ------
        FlowRefused
            if there is no such flow, or several and none was named.
        NoRun
            if the step cannot be taken by hand now.
        """
        style_outputs()
        by_hand: Interactive | None = None
        if run_directory:
            run = RunDirectory.open(run_directory)
            be_the_only_kernel(run)
        else:
            practice = practice or not properties_file
            given: dict[str, ParameterValue] = {
                "properties_file": properties_file,
                "flow": flow,
                "practice": practice,
                **({} if groups is None else {"groups": groups}),
                **({} if applications is None else {"applications": applications}),
                **({} if make_anew is None else {"make_anew": make_anew}),
                **({} if leave_behind is None else {"leave_behind": leave_behind}),
            }
            by_hand = take_up(step, runbook=step.replace("_", "-"), given=given)
            by_hand.introduce()
            keep_in_use(by_hand.run.path)
            show_waits()
            run = by_hand.run
        stage = DrillStage.of(run, by_hand) if practice else None
        if stage is not None:
            practising.prepare(stage, step)
        settings = load(Path(properties_file) if stage is None else run.mirror_properties)
        chosen = flow_of_file(settings, flow if stage is None else str(stage.forward))
        file = Path(applications) if applications else None
        choices = bool(make_anew), bool(leave_behind)
        return cls(run, step, settings, chosen, groups, file, stage, by_hand, *choices)

    def request(self, directory: str) -> Request:
        """Return what the procedure is asked for; its own run is kept in ``directory`` of this one."""
        where = self.run.path / directory
        given = confirmations.given(self.run)
        return Request(
            *(self.settings, self.chosen, self.groups, where, self._applications, _quietly),
            makes_anew=self.makes_anew,
            leaves_behind=self.leaves_behind,
            words=given,
        )

    def confirm(self, consequence: str, *, is_begun: bool | None = None) -> None:
        """Have a person type the flow's name before the point of no return; the runner has settled that before.

        ``is_begun``: whether a procedure has passed that already; False: who has agreed before is asked once more.

        Raises
        ------
        NotConfirmed
            if anything else is typed.
        """
        if self.by_hand is not None:
            self.by_hand.confirm(str(self.chosen.flow), consequence, is_begun=is_begun)

    def conclude(self, outcome: Outcome) -> None:
        """Write the step's outcome.

        Raises
        ------
        StepNotPassed
            unless it is PASS.
        """
        (self.by_hand or self.run).conclude(outcome)

    def _applications(self, along: Flow) -> Applications:
        """Return the applications: those of the practice, else commands, else a person who is there, else nobody."""
        if self.practice is not None:
            return practising.moved_applications(self.practice)
        if self.applications_file is not None:
            return Commands.load(self.applications_file, str(along), (along.source, along.target))
        if self.by_hand is None or is_unattended():
            return Nobody("no file of commands was given as applications, and nobody is there to be asked")
        return Person(_asked, now_ms)


def _asked(question: str, seconds: float) -> bool | None:
    typed = answered(lambda: input(f"{question} [y/n] "), seconds)
    return None if typed is None else typed.strip().lower() in {"y", "yes"}


def _quietly() -> AbstractContextManager[Watch]:
    return nullcontext(nobody)
