"""The report of a series: one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mirror.evidence.environment import describe_environment
from mirror.evidence.pages import page_templates
from mirror.evidence.pictures import picture
from mirror.model.verdict import Verdict
from mirror.scenario import formatting
from mirror.scenario.declaration import Scenario
from mirror.scenario.outcome import RunOutcome
from mirror.scenario.pictures import comparison_plot
from mirror.scenario.series import Series
from mirror.scenario.summary import summarise

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(series: Series, scenarios: Sequence[Scenario], outcomes: Sequence[RunOutcome]) -> Path:
    """Write the page about all runs of a series; return its path."""
    series.report.write_text(render(series.path.name, scenarios, outcomes), encoding="utf-8")
    return series.report


def render(name: str, scenarios: Sequence[Scenario], outcomes: Sequence[RunOutcome]) -> str:
    """Return the page."""
    lines = summarise(outcomes)
    good = sum(outcome.is_as_expected for outcome in outcomes)
    failed = any(outcome.verdict is Verdict.FAIL and (not outcome.must_fail or outcome.beside) for outcome in outcomes)
    open_ones = any(not outcome.is_as_expected for outcome in outcomes)
    verdict = Verdict.FAIL if failed else Verdict.UNKNOWN if open_ones or not outcomes else Verdict.PASS
    return (
        page_templates(_TEMPLATES)
        .get_template("series.html.j2")
        .render(
            name=name,
            verdict=verdict.value,
            headline=f"{good} of {len(outcomes)} runs ended as they should",
            lines=lines,
            outcomes=outcomes,
            scenarios={scenario.name: scenario for scenario in scenarios},
            picture=picture("series", "What went wrong", comparison_plot(lines)),
            words=formatting,
            environment=describe_environment(),
            written_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )
    )
