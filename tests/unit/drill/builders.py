"""Tiny notebooks and runbooks for tests of the runbook engine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mirror.drill.catalogue import LoadedRunbook
from mirror.drill.gates import Gate
from mirror.drill.notebook import CellProgress
from mirror.drill.runbook import Parameter, PlannedStep, Runbook, Step
from mirror.drill.runner import StepResult
from mirror.evidence.run_directory import RunDirectory

PARAMETERS = 'run_directory: str = ""  # the run\'s directory'

CONCLUDE = """\
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory
from mirror.model.verdict import Verdict
RunDirectory.open(run_directory).conclude(Outcome("{step}", Verdict.{verdict}, {{"seen": 1}}, ("{reason}",)))"""


def conclude(step: str, verdict: str = "PASS", reason: str = "as expected") -> str:
    """The code of a last cell: write the outcome, raise unless it is PASS."""
    return CONCLUDE.format(step=step, verdict=verdict, reason=reason)


def write_notebook(
    path: Path, *code: str, parameters: str | None = PARAMETERS, tags: tuple[str, ...] = ("parameters",)
) -> Path:
    """Write a notebook: a title, the parameters cell, then each code cell under a heading of its own."""
    cells = [new_markdown_cell(f"# The notebook {path.stem}")]
    if parameters is not None:
        cells.append(new_code_cell(parameters, metadata={"tags": list(tags)}))
    for number, source in enumerate(code, start=1):
        cells += [new_markdown_cell(f"## Part {number}"), new_code_cell(source)]
    notebook = new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def step(name: str, *gates: Gate, no_return: bool = False, point_in_time: bool = False, budget: float = 60.0) -> Step:
    """A step whose notebook has its name."""
    return Step(
        name=name,
        notebook=f"{name}.ipynb",
        title=f"Step {name}",
        gates=gates,
        budget_seconds=budget,
        undo=f"undo {name}",
        point_of_no_return=no_return,
        point_in_time=point_in_time,
    )


def runbook(*steps: Step, parameters: tuple[Parameter, ...] = ()) -> Runbook:
    """A runbook of the given steps."""
    return Runbook("tiny", "Tiny", "To be tested.", steps, parameters)


def loaded(book: Runbook, notebooks: Path) -> LoadedRunbook:
    """The runbook as if it had been loaded from a file beside ``notebooks``."""
    return LoadedRunbook(book, notebooks.parent / "runbooks" / "tiny.py", "", notebooks)


class Told:
    """An observer that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cells: list[CellProgress] = []

    def run_began(self, run: RunDirectory, planned: Collection[PlannedStep]) -> None:
        self.lines.append(" ".join(f"{item.step.name}:{item.decision}" for item in planned))

    def point_of_no_return(self, step: Step) -> None:
        self.lines.append(f"no return {step.name}")

    def step_began(self, step: Step) -> None:
        self.lines.append(f"began {step.name}")

    def cell_began(self, progress: CellProgress) -> None:
        self.cells.append(progress)

    def step_ended(self, result: StepResult) -> None:
        self.lines.append(f"ended {result.step.name} {result.outcome.verdict}")
