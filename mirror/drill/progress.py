"""Showing a run while it goes on: a live table in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mirror.drill.notebook import CellProgress
from mirror.drill.runbook import Decision, PlannedStep, Step
from mirror.drill.runner import StepResult
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.verdict_styles import VERDICT_STYLES


@dataclass(slots=True)
class _Row:
    """What is known of one step while the run goes on."""

    step: Step
    began: float | None = None
    cell: CellProgress | None = None
    result: StepResult | None = None


class LiveTable:
    """An observer that redraws one table of all steps; for terminals. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw a last time; the table stays on the screen."""
        self._live.stop()

    def run_began(self, run: RunDirectory, planned: Collection[PlannedStep]) -> None:
        """Name the run directory and take up the steps."""
        self._console.print(f"run directory {run.path}", soft_wrap=True)
        self._rows = {item.step.name: _Row(item.step) for item in planned}

    def point_of_no_return(self, step: Step) -> None:
        """Name the point of no return above the table."""
        self._console.print(_no_return(step))

    def step_began(self, step: Step) -> None:
        """Start the step's clock."""
        self._rows[step.name].began = time.monotonic()

    def cell_began(self, progress: CellProgress) -> None:
        """Move the step's bar."""
        self._rows[progress.step].cell = progress

    def step_ended(self, result: StepResult) -> None:
        """Show the step's verdict."""
        self._rows[result.step.name].result = result

    def pause(self) -> None:
        """Stop drawing, so that a question can be asked."""
        self._live.stop()

    def proceed(self) -> None:
        """Draw again after a question."""
        self._live.start()

    def _table(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("")
        table.add_column("step")
        table.add_column("took", justify="right")
        table.add_column("budget", justify="right")
        table.add_column("")
        for row in self._rows.values():
            table.add_row(*self._cells(row))
        return Group(Text(), table)

    @staticmethod
    def _cells(row: _Row) -> tuple[RenderableType, ...]:
        title, budget = Text(row.step.title), f"{row.step.budget_seconds:g} s"
        if row.result is not None:
            return _verdict(row.result), title, _took(row.result), budget, Text(_because(row.result), style="dim")
        if row.began is None:
            return Text("·", style="dim"), Text(row.step.title, style="dim"), "", Text(budget, style="dim"), ""
        took = f"{time.monotonic() - row.began:.0f} s"
        if row.cell is None:
            return Text("runs", style="cyan"), title, took, budget, Text("starting its kernel", style="dim")
        bar = ProgressBar(total=row.cell.cells, completed=row.cell.cell - 1, width=16)
        where = Table.grid(padding=(0, 1))
        where.add_row(bar, Text(row.cell.heading, style="dim"))
        return Text("runs", style="cyan"), title, took, budget, where


class PlainLines:
    """An observer that prints one line for each thing that happens; for logs and pipes. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._heading = ""

    def __enter__(self) -> Self:
        """Have nothing to prepare."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have nothing to clear away."""

    def run_began(self, run: RunDirectory, planned: Collection[PlannedStep]) -> None:
        """Name the run directory and the number of steps."""
        to_run = sum(1 for item in planned if item.decision is Decision.RUN)
        self._print(f"run directory {run.path}")
        self._print(f"{to_run} of {len(planned)} steps to run")

    def point_of_no_return(self, step: Step) -> None:
        """Name the point of no return."""
        self._print(_no_return(step).plain)

    def step_began(self, step: Step) -> None:
        """Name the step and its budget."""
        self._heading = ""
        self._print(f"[{step.name}] {step.title} (budget {step.budget_seconds:g} s)")

    def cell_began(self, progress: CellProgress) -> None:
        """Name the part of the notebook, once for all cells under one heading."""
        if progress.heading != self._heading:
            self._heading = progress.heading
            self._print(f"[{progress.step}]   {progress.cell}/{progress.cells} {progress.heading}")

    def step_ended(self, result: StepResult) -> None:
        """Print verdict, duration and reasons."""
        because = _because(result)
        told = f"[{result.step.name}] {_verdict(result).plain} {_took(result)}"
        self._print(told.rstrip() + (f": {because}" if because else ""))

    def pause(self) -> None:
        """Have nothing to stop."""

    def proceed(self) -> None:
        """Have nothing to start."""

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def observer_for(console: Console) -> LiveTable | PlainLines:
    """Return the observer that suits the console."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)


def _no_return(step: Step) -> Text:
    text = Text("point of no return: ", style="bold red")
    text.append(f"{step.title}. ", style="bold")
    text.append(f"The way back afterwards: {step.undo}.", style="not bold")
    return text


def _verdict(result: StepResult) -> Text:
    return Text(result.outcome.verdict.value, style=VERDICT_STYLES[result.outcome.verdict])


def _took(result: StepResult) -> str:
    if result.executed is not None:
        return f"{result.executed.seconds:.1f} s"
    return "passed before" if result.decision is Decision.SKIP else "not run"


def _because(result: StepResult) -> str:
    """Return the first reason; where the run ends all of them are told, each in a line."""
    if result.decision is Decision.SKIP or not result.outcome.reasons:
        return ""
    first, *others = result.outcome.reasons
    return f"{first} (and {len(others)} more)" if others else first
