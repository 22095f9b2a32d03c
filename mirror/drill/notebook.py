"""The strict notebook runner: the only way a notebook is started.

papermill runs a notebook without a ``parameters`` tag with its defaults and calls that a success, and it only warns of
parameters the notebook does not know. In a drill either means acting on the wrong cluster, so both are refused here
before a kernel starts.

A notebook that ran has a verdict: the one it wrote. Whatever else happened (a crash, no outcome, the budget used up)
is UNKNOWN, and the outcome file says so too, so that nothing later can mistake an unfinished step for a passed one.

Invariants:

(a) papermill runs a notebook without a parameters tag with its defaults, and only warns of unknown parameters. Only
    the strict runner starts notebooks.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from mirror.drill.kernel import OwnInterpreterKernelManager
from mirror.drill.notebook_page import write_page
from mirror.drill.runbook import RUN_DIRECTORY_PARAMETER
from mirror.evidence.facts import FactError
from mirror.evidence.outcome import Outcome, StepNotPassed
from mirror.evidence.refusal import Refused
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_model import ParameterValue
from mirror.model.verdict import Verdict

_TYPES: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,)}
INTERRUPTED = "Interrupted"
"""The kind of crash that is no failure of the notebook: whoever runs it said stop."""

# On a busy machine a kernel may take so long to answer at all, and a cell's last output to follow its end.
_KERNEL_START_SECONDS = 600
_LAST_OUTPUT_SECONDS = 60

_REQUIRED = frozenset({"None", '""', "''"})

logging.getLogger("papermill").addHandler(logging.NullHandler())


class NotebookRefused(Refused):
    """A notebook was not started: it, or the parameters for it, break a rule; the message names notebook and rule."""

    def __init__(self, notebook: Path, reason: str) -> None:
        super().__init__(f"{notebook.name}: {reason}")
        self.notebook = notebook
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NotebookParameter:
    """A parameter as a notebook declares it.

    Attributes
    ----------
    annotation
        the declared type, ``None`` when there is none.
    default
        the default's source text.
    """

    name: str
    annotation: str | None
    default: str
    help: str

    @property
    def is_required(self) -> bool:
        """Return whether the default stands for "none given": ``None`` or an empty text."""
        return self.default.strip() in _REQUIRED


@dataclass(frozen=True, slots=True)
class NotebookInspection:
    """What can be said of a notebook without running it."""

    path: Path
    title: str
    parameters: Mapping[str, NotebookParameter]
    cells: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CellProgress:
    """A cell has begun: its place among the notebook's cells (from 1), and the heading it stands under."""

    step: str
    cell: int
    cells: int
    heading: str


@dataclass(frozen=True, slots=True)
class Crash:
    """What ended a notebook before its end.

    Attributes
    ----------
    cell
        place of the cell among the notebook's cells (from 1), None when no cell had begun.
    heading
        the heading the cell stands under.
    """

    cell: int | None
    heading: str
    kind: str
    message: str

    def __str__(self) -> str:
        """Return one sentence: where, what kind, the exception's own words."""
        where = "before the first cell" if self.cell is None else f"in cell {self.cell} ({self.heading})"
        return f"crashed {where}: {self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class NotebookResult:
    """A notebook that was started: the step's outcome, and where the evidence is.

    Attributes
    ----------
    executed
        the executed notebook.
    page
        its HTML page, None when the executed notebook could not be written either.
    seconds
        from the start of the kernel to its end, by the monotonic clock.
    crash
        what ended it early, None when it ran to its end or ended by its own verdict.
    """

    outcome: Outcome
    executed: Path
    page: Path | None
    seconds: float
    crash: Crash | None


Progress = Callable[[CellProgress], None]
"""Is told of every cell that begins."""


def inspect(path: Path) -> NotebookInspection:
    """Check a notebook against the rules that need no kernel.

    Raises
    ------
    NotebookRefused
        when it is missing or unreadable, has no or several cells tagged ``parameters``, has code before that cell,
        carries injected parameters of an earlier run, or lets a cell raise and goes on.
    """
    if not path.is_file():
        raise NotebookRefused(path, f"there is no such notebook in {path.parent}")
    content = path.read_bytes()
    try:
        notebook = nbformat.reads(content.decode("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    except (ValueError, nbformat.ValidationError) as unreadable:
        raise NotebookRefused(path, f"not a notebook: {unreadable}") from None
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tags = [set(cell.metadata.get("tags", [])) for cell in code]
    tagged = [index for index, names in enumerate(tags) if "parameters" in names]
    if not tagged:
        raise NotebookRefused(
            path, "no code cell has the tag `parameters`: values given to it would be silently overwritten"
        )
    if len(tagged) > 1:
        raise NotebookRefused(path, f"{len(tagged)} cells have the tag `parameters`: there must be exactly one")
    if any("injected-parameters" in names for names in tags):
        raise NotebookRefused(
            path, "it carries injected parameters of an earlier run: it is an executed copy, not a source"
        )
    if tagged[0] != 0:
        raise NotebookRefused(
            path, "code stands before the cell tagged `parameters`: it would run before the values are known"
        )
    if any("raises-exception" in names for names in tags) or notebook.metadata.get("allow_errors"):
        raise NotebookRefused(
            path, "a cell is allowed to raise (`raises-exception`): a step never goes on after an error"
        )
    declared = papermill.inspect_notebook(str(path))
    parameters = {
        name: NotebookParameter(
            name=name,
            annotation=None if found["inferred_type_name"] == "None" else str(found["inferred_type_name"]),
            default=str(found["default"]),
            help=str(found["help"]),
        )
        for name, found in declared.items()
    }
    title = next((_heading(cell.source) for cell in notebook.cells if cell.cell_type == "markdown"), "") or path.stem
    return NotebookInspection(path, title, parameters, len(notebook.cells), hashlib.sha256(content).hexdigest())


def check_parameters(inspection: NotebookInspection, given: Mapping[str, ParameterValue]) -> None:
    """Check values against what a notebook declares.

    Raises
    ------
    NotebookRefused
        for a value the notebook does not know, one it requires and does not get, or one of another type than declared.
    """
    for name in given:
        if name not in inspection.parameters:
            known = ", ".join(inspection.parameters) or "none"
            raise NotebookRefused(inspection.path, f"unknown parameter {name!r}; it declares {known}")
    for name, parameter in inspection.parameters.items():
        if name not in given:
            if parameter.is_required:
                raise NotebookRefused(
                    inspection.path, f"parameter {name!r} is required (its default is {parameter.default})"
                )
            continue
        allowed = _TYPES.get(parameter.annotation or "")
        value = given[name]
        if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            found = f"{value!r} ({type(value).__name__})"
            raise NotebookRefused(
                inspection.path, f"parameter {name!r} is declared {parameter.annotation}, got {found}"
            )


def run_notebook(
    notebook: Path,
    run: RunDirectory,
    step: str,
    parameters: Mapping[str, ParameterValue],
    *,
    budget_seconds: float,
    progress: Progress | None = None,
) -> NotebookResult:
    """Run a notebook as a step of a run; the executed copy and the outcome are written whatever happens.

    ``run_directory`` is added to the parameters. The notebook runs in the run's directory, in a kernel of its own that
    ends with it.

    Raises
    ------
    NotebookRefused
        before anything was started or set aside.
    """
    values = {RUN_DIRECTORY_PARAMETER: str(run.path), **parameters}
    inspection = inspect(notebook)
    check_parameters(inspection, values)
    executed = run.notebooks / notebook.name
    page = executed.with_suffix(".html")
    for earlier in (run.outcome_path(step), executed, page):
        run.set_aside(earlier)
    execution = _Execution(step, _headings(notebook), budget_seconds, progress)
    crash = execution.run(notebook, executed, values, run)
    seconds = time.monotonic() - execution.began
    outcome = _outcome(run, step, crash)
    run.write_outcome(outcome)
    return NotebookResult(
        outcome=outcome,
        executed=executed,
        page=write_page(executed, page) if executed.exists() else None,
        seconds=seconds,
        crash=crash,
    )


class _Execution:
    """One execution through papermill: follows the cells, keeps the budget."""

    def __init__(self, step: str, headings: tuple[str, ...], budget_seconds: float, progress: Progress | None) -> None:
        self.began = time.monotonic()
        self._step = step
        self._headings = headings
        self._budget_seconds = budget_seconds
        self._progress = progress
        self._cell: int | None = None

    def run(
        self, notebook: Path, executed: Path, values: Mapping[str, ParameterValue], run: RunDirectory
    ) -> Crash | None:
        """Execute; return what ended it early. A raised `StepNotPassed` is a verdict, not a crash."""
        log = run.logs / f"notebook-{self._step}.log"
        try:
            papermill.execute_notebook(
                str(notebook),
                str(executed),
                parameters=dict(values),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                cwd=str(run.path),
                config=Config({OwnInterpreterKernelManager.__name__: {"log_path": str(log)}}),
                kernel_manager_class=OwnInterpreterKernelManager,
                timeout_func=self._remaining_seconds,
                start_timeout=_KERNEL_START_SECONDS,
                iopub_timeout=_LAST_OUTPUT_SECONDS,
                on_cell_start=self._cell_started,
            )
        except PapermillExecutionError as failure:
            if failure.ename == StepNotPassed.__name__:
                return None
            return self._crash(str(failure.ename), str(failure.evalue))
        except CellTimeoutError:
            return self._crash("BudgetExhausted", f"the step's budget of {self._budget_seconds:g} s was used up")
        except KeyboardInterrupt:
            return self._crash(INTERRUPTED, "the run was told to stop")
        except DeadKernelError:
            return self._crash("KernelDied", f"the notebook's process ended: killed, or out of memory; see {log.name}")
        except Exception as failure:  # noqa: BLE001 - whatever breaks here leaves the step unjudged, not the run lost
            return self._crash(type(failure).__name__, str(failure))
        return None

    def _crash(self, kind: str, message: str) -> Crash:
        heading = self._headings[self._cell] if self._cell is not None else ""
        return Crash(None if self._cell is None else self._cell + 1, heading, kind, message.strip() or "no message")

    def _remaining_seconds(self, _cell: object) -> int:
        # nbclient takes 0 and less for "no limit".
        return max(1, round(self._budget_seconds - (time.monotonic() - self.began)))

    def _cell_started(self, *, cell: object, cell_index: int) -> None:
        del cell  # nbclient passes both by name
        self._cell = min(cell_index, len(self._headings) - 1)
        if self._progress is not None:
            progress = CellProgress(self._step, self._cell + 1, len(self._headings), self._headings[self._cell])
            self._progress(progress)


def _outcome(run: RunDirectory, step: str, crash: Crash | None) -> Outcome:
    """Return what the step wrote, worsened by what happened to it."""
    try:
        written = run.read_outcome(step)
    except (FactError, ValueError) as unreadable:
        unknown = Outcome(step, Verdict.UNKNOWN, reasons=(f"the outcome it wrote cannot be read: {unreadable}",))
        run.set_aside(run.outcome_path(step))
        return unknown if crash is None else unknown.worsened(Verdict.UNKNOWN, str(crash))
    if written is None:
        reason = "ended without writing an outcome" if crash is None else str(crash)
        return Outcome(step, Verdict.UNKNOWN, reasons=(reason,))
    return written if crash is None else written.worsened(Verdict.UNKNOWN, str(crash))


def _headings(path: Path) -> tuple[str, ...]:
    """Return, for each cell as it will be executed, the heading it stands under.

    papermill inserts one cell of injected parameters after the tagged one.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    headings: list[str] = []
    current = path.stem
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            current = _heading(cell.source) or current
        headings.append(current)
        if "parameters" in cell.metadata.get("tags", []):
            headings.append(current)
    return tuple(headings)


def _heading(source: str) -> str:
    """Return the text of the first Markdown heading in a cell; empty when there is none."""
    found = re.search(r"^#{1,6}\s+(.+?)\s*#*$", source, flags=re.MULTILINE)
    return found.group(1) if found else ""
