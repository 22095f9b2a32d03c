"""The overview that a person opens first: every notebook, what it is for, and how it ended in the run under way."""

from __future__ import annotations

from html import escape
from pathlib import Path

from IPython.display import HTML

from mirror.drill.by_hand import under_way
from mirror.drill.catalogue import load_runbook, runbook_files, runbooks_folder
from mirror.drill.plan_table import plan_table
from mirror.drill.runbook import Runbook
from mirror.drill.shown import Sentences
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import read_settings
from mirror.lab import holder


def notebooks(runbooks: str = "") -> HTML:
    """Return a table of every runbook's notebooks in order, each a link, with its outcome in the run under way."""
    folder = _folder(runbooks)
    run = under_way(folder.absolute().parent / "runs")
    tables = [_table(load_runbook(path).runbook, run) for path in runbook_files(folder)]
    return HTML("".join(tables))


def practice_run(runbooks: str = "") -> Sentences:
    """Return, in sentences, which practice run is under way and how it ends."""
    runs = _folder(runbooks).absolute().parent / "runs"
    run = under_way(runs)
    if run is None:
        return Sentences("No practice run is under way; 10_setup.ipynb begins one.")
    left = holder.abandoned_minutes() - holder.unused_seconds(run.path) / 60
    return Sentences(
        f"{run.name} is under way. If no cell is run it ends in {max(0.0, left):.0f} minutes; "
        f"mirror lab down --run {run.path} ends it now."
    )


def _folder(runbooks: str) -> Path:
    return runbooks_folder(Path(runbooks) if runbooks else None)


def _table(runbook: Runbook, run: RunDirectory | None) -> str:
    current = run if run is not None and read_settings(run).runbook == runbook.name else None
    return f"<h3>{escape(runbook.title)}</h3><p>{escape(runbook.purpose)}</p>{plan_table(runbook, current)}"
