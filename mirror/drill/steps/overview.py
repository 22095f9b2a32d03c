"""The overview that a person opens first: every notebook, what it is for, and how it ended in the run under way."""

from __future__ import annotations

from html import escape
from pathlib import Path

from IPython.display import HTML

from mirror.drill.catalogue import load_runbook, runbook_files, runbooks_folder
from mirror.drill.interactive import under_way
from mirror.drill.notebook_display import Sentences
from mirror.drill.plan_table import plan_table
from mirror.drill.runbook import Runbook
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder

__all__ = ["notebooks", "practice_run"]


def notebooks(runbooks: str = "") -> HTML:
    """Return a table of every runbook's notebooks in order, each a link, with its outcome in the run under way."""
    folder = _folder(runbooks)
    runs = folder.absolute().parent / "runs"
    found = [load_runbook(path).runbook for path in runbook_files(folder)]
    return HTML("".join(_table(each, under_way(runs, each.name)) for each in found))


def practice_run(runbooks: str = "") -> Sentences:
    """Return, in sentences, which runs are under way and how they end."""
    held = holder.held(_folder(runbooks).absolute().parent / "runs")
    if not held:
        return Sentences("No practice run is under way; the first notebook of a runbook begins one.")
    lines = [_ending(run) for run in held]
    return Sentences("\n".join(lines), "<br>".join(map(escape, lines)))


def _folder(runbooks: str) -> Path:
    return runbooks_folder(Path(runbooks) if runbooks else None)


def _ending(run: Path) -> str:
    left = holder.abandoned_minutes() - holder.unused_seconds(run) / 60
    return (
        f"{run.name} is under way. If no cell is run it ends in {max(0.0, left):.0f} minutes; "
        f"mirror lab down --run {run} ends it now."
    )


def _table(runbook: Runbook, current: RunDirectory | None) -> str:
    return f"<h3>{escape(runbook.title)}</h3><p>{escape(runbook.purpose)}</p>{plan_table(runbook, current)}"
