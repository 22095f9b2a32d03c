"""Showing a run while it goes on: what each step is at, and its verdict when it ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mirror.display import Display
from mirror.drill.notebook import CellProgress
from mirror.drill.runbook import Decision, PlannedStep, Step
from mirror.drill.runner import StepResult
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.verdict_styles import VERDICT_STYLES


@dataclass(frozen=True, slots=True)
class ShownRun:
    """An observer of a run that tells a display."""

    display: Display

    def run_began(self, run: RunDirectory, planned: Collection[PlannedStep]) -> None:
        """Name the run directory and the number of steps."""
        self.display.print(f"run directory {run.path}")
        self.display.count("steps", len(planned))

    def point_of_no_return(self, step: Step) -> None:
        """Name the point of no return."""
        warning = ("point of no return: ", "bold red"), (f"{step.title}. ", "bold")
        self.display.print(*warning, f"The way back afterwards: {step.undo}.")

    def step_began(self, step: Step) -> None:
        """Name the step and its budget."""
        self.display.at(step.name, f"{step.title} (budget {step.budget_seconds:g} s)")

    def cell_began(self, progress: CellProgress) -> None:
        """Name the part of the notebook."""
        self.display.at(progress.step, progress.heading, progress.cell - 1, progress.cells)

    def step_ended(self, result: StepResult) -> None:
        """Tell verdict, duration and the first reason; where the run ends all of them are reported, each in a line."""
        verdict = result.outcome.verdict
        because = ""
        if result.decision is Decision.RUN and result.outcome.reasons:
            first, *others = result.outcome.reasons
            because = f": {first}" + (f" (and {len(others)} more)" if others else "")
        self.display.end(result.step.name, (verdict.value, VERDICT_STYLES[verdict]), f" {_took(result)}{because}")


def _took(result: StepResult) -> str:
    if result.executed is not None:
        return f"{result.executed.seconds:.1f} s"
    return "passed before" if result.decision is Decision.SKIP else "not run"
