"""The plan of a runbook as notebooks show it: every step, how it ended, and behind which there is no return."""

from __future__ import annotations

from html import escape

from mirror.drill.runbook import Runbook, Step
from mirror.evidence.facts import FactError
from mirror.evidence.run_directory import RunDirectory


def plan_table(runbook: Runbook, run: RunDirectory | None, here: Step | None = None) -> str:
    """Return the steps in order as an HTML table, each with a link to its notebook.

    Parameters
    ----------
    run
        the run under way; None: the runbook has none.
    here
        the step whose notebook shows the plan.
    """
    return (
        "<table><thead><tr><th style='text-align:left'>notebook</th><th style='text-align:left'>step</th>"
        "<th style='text-align:left'>state</th></tr></thead><tbody>"
        f"{''.join(_row(step, run, here) for step in runbook.steps)}</tbody></table>"
    )


def notebook_link(step: Step) -> str:
    """Return a link to the notebook of a step, beside the one that shows it."""
    return f"<a href='{escape(step.notebook)}'>{escape(step.notebook)}</a>"


def _row(step: Step, run: RunDirectory | None, here: Step | None) -> str:
    mark = "<br><strong>point of no return</strong>" if step.point_of_no_return else ""
    name = escape(step.notebook) if step == here else notebook_link(step)
    state = "this notebook" if step == here else _state(run, step.name)
    return (
        f"<tr><td style='text-align:left'>{name}</td><td style='text-align:left'>{escape(step.title)}{mark}</td>"
        f"<td style='text-align:left'>{state}</td></tr>"
    )


def _state(run: RunDirectory | None, step: str) -> str:
    if run is None:
        return ""
    try:
        outcome = run.read_outcome(step)
    except (FactError, ValueError):
        return "unreadable"
    return "not run" if outcome is None else outcome.verdict.value
