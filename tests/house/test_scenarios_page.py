"""docs/scenarios.md is made, never written: it is what the scenarios and the results beside it give."""

from __future__ import annotations

from pathlib import Path

from mirror.scenario.files import SCENARIOS
from mirror.scenario.page import render, results_of
from mirror.scenario.series import read_results
from mirror.scenario.summary import summarise

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"


def test_the_page_is_what_scenarios_and_results_make_it() -> None:
    scenarios = [SCENARIOS.load(path) for path in SCENARIOS.files(SCENARIOS.folder())]

    assert PAGE.read_text() == render(scenarios, summarise(read_results(results_of(PAGE)))), (
        "run `make scenarios`, which writes it"
    )
