"""Scenarios on real brokers: a defect put in on purpose is found, named, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.model.verdict import Verdict
from mirror.scenario.declaration import Judged
from mirror.scenario.files import SCENARIOS
from mirror.scenario.series import Series, read_results
from tests.brokers.command import mirror


@pytest.mark.long
def test_one_record_removed_in_secret_is_found_and_nothing_else_is(tmp_path: Path) -> None:
    done = mirror("scenario", "run", "copies-removed-in-secret", "--runs-directory", str(tmp_path), timeout_seconds=180)

    assert done.returncode == 0, done.stdout + done.stderr
    (series,) = [Series(path) for path in tmp_path.iterdir()]
    (outcome,) = read_results(series.results)
    figures = outcome.figures
    assert outcome.verdict is Verdict.FAIL, outcome.reasons
    assert figures.anomalies == {Judged.SOURCE: {}, Judged.COPY: {"lost": 1}}
    assert (figures.silent_losses, figures.uncopied, figures.told_losses) == (1, 1, 0)
    assert figures.acked > 100
    assert done.stdout.splitlines()[-1] == f"report {series.report}"


@pytest.mark.scenarios
@pytest.mark.parametrize("name", [path.stem for path in SCENARIOS.files(SCENARIOS.folder())])
def test_every_scenario_ends_as_it_should(name: str, tmp_path: Path) -> None:
    done = mirror("scenario", "run", name, "--runs-directory", str(tmp_path), timeout_seconds=1500)

    assert done.returncode == 0, done.stdout + done.stderr
