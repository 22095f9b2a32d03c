"""Outcomes are kept as JSON, added up to lines, and told in words, in the report and on the page."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mirror.display import Lines
from mirror.evidence.facts import FactError
from mirror.evidence.statistics import Spread
from mirror.model.failover_instants import RtoLink
from mirror.model.shadow import Forecast
from mirror.model.verdict import Verdict
from mirror.scenario import formatting
from mirror.scenario.declaration import Judged, Replicator
from mirror.scenario.outcome import Figures, GroupFigures, RunOutcome, unknown
from mirror.scenario.page import render as render_page
from mirror.scenario.perform import finish
from mirror.scenario.report import render
from mirror.scenario.series import Series, read_results, run_series, wanted_runs, write_results
from mirror.scenario.summary import summarise
from tests.unit.scenario.builders import SMALL

FIGURES = Figures(
    acked=1000,
    anomalies={Judged.COPY: {"duplicated": 5, "stranded": 7}, Judged.SOURCE: {}},
    silent_losses=2,
    rpo_seconds=0.5,
    rpo_records=7,
    rto_seconds=12.0,
    rto_links=(RtoLink("detected", 1.5), RtoLink("fenced", None)),
    groups=(GroupFigures("billing", 900, 3, 1, 0, 40, 0),),
)
RUN = RunOutcome("small", Replicator.MIRROR, 1, Verdict.PASS, (), FIGURES, seconds=30.0)
FAILED = replace(RUN, replicator=Replicator.MM2, verdict=Verdict.FAIL, reasons=("5 duplicated",))


def test_outcomes_come_back_from_their_file_as_they_were(tmp_path: Path) -> None:
    write_results(tmp_path / "results.json", [FAILED, RUN])

    assert read_results(tmp_path / "results.json") == (RUN, FAILED)


def test_a_file_that_is_no_outcome_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"runs": [{"scenario": 3}]}')

    with pytest.raises(FactError, match=r"results\.json"):
        read_results(tmp_path / "results.json")


def test_a_line_adds_up_its_runs_and_tells_the_copied_tail_from_what_is_wrong() -> None:
    (line,) = summarise([RUN, replace(RUN, seed=2, figures=replace(FIGURES, rto_seconds=20.0))])

    assert (line.runs, line.verdict, line.wrong_records, line.silent) == (2, Verdict.PASS, 10, 4)
    assert line.rto_seconds is not None
    assert (line.rto_seconds.median, line.rto_seconds.high) == (16.0, 20.0)
    assert formatting.anomalies(line) == "10 duplicated, 14 stranded"
    assert formatting.losses(line) == "4 silent"
    assert formatting.verdict(line) == "PASS (2/2 as they should be, 95 % [0.34, 1.00])"


def test_a_run_that_proves_nothing_counts_as_a_run_and_not_as_figures() -> None:
    (line,) = summarise([RUN, replace(RUN, seed=2, verdict=Verdict.UNKNOWN, figures=Figures())])

    assert (line.verdict, line.is_as_expected, line.acked) == (Verdict.UNKNOWN, False, 1000)
    assert line.rpo_seconds == Spread(0.5, 0.5, 0.5)


def test_a_scenario_with_a_defect_has_done_its_job_when_it_fails() -> None:
    assert replace(FAILED, must_fail=True).is_as_expected
    assert not replace(FAILED, must_fail=True, beside=("another was found",)).is_as_expected
    assert not replace(RUN, must_fail=True).is_as_expected
    assert not FAILED.is_as_expected


def test_a_run_that_proves_nothing_is_never_as_expected() -> None:
    """Nor does it show that a defect is found."""
    for must_fail in (True, False):
        assert not replace(RUN, verdict=Verdict.UNKNOWN, must_fail=must_fail).is_as_expected


def test_what_was_forecast_of_all_groups_is_known_only_if_it_was_said_of_each() -> None:
    (told,) = FIGURES.groups
    untold = replace(told, group="reports", forecast_skipped=None)
    several = replace(
        FIGURES, groups=(told, replace(told, group="audits", forecast_redelivered=None, forecast_skipped=2))
    )

    assert FIGURES.forecast == Forecast(0, 40)
    assert several.forecast == Forecast(2, 40)
    assert replace(FIGURES, groups=(told, untold)).forecast is None
    assert Figures().forecast is None


def test_the_report_and_the_page_show_both_replicators_and_escape_what_they_are_told() -> None:
    outcomes = [RUN, replace(FAILED, reasons=("a <b> record",))]
    report, page = render("a-series", [SMALL], outcomes), render_page([SMALL], summarise(outcomes))

    assert "1 of 2 runs ended as they should" in report
    assert "a &lt;b&gt; record" in report
    assert "<svg" in report
    assert (
        "| mirror | PASS | 1 | 1,000 | 5 duplicated, 7 stranded | 2 silent | 3 (forecast: up to 40) | 1 (forecast: 0) | 0.5 s | 12.0 s |"
        in page
    )
    assert "| Java MM2 | FAIL |" in page


def test_the_page_shows_the_links_of_a_whole_chain_at_their_medians() -> None:
    def run(seed: int, detected: float, seconds: float | None = 9.0) -> RunOutcome:
        links = (RtoLink("detected", detected), RtoLink("fenced", None if seconds is None else 2.0))
        return replace(RUN, seed=seed, figures=replace(FIGURES, rto_seconds=seconds, rto_links=links))

    (line,) = summarise([run(1, 1.0), run(2, 2.0), run(3, 7.0), run(4, 50.0, seconds=None)])
    assert formatting.links(line) == "detected 2.0 s, fenced 2.0 s"
    assert "Links of the RTO, at the median:\n\n* mirror: detected 2.0 s, fenced 2.0 s\n" in render_page(
        [SMALL], [line]
    )


def test_of_several_runs_the_worst_fact_stands_beside_the_worst_forecast() -> None:
    (group,) = RUN.figures.groups
    more = replace(group, redelivered=50, forecast_redelivered=60)
    (line,) = summarise([RUN, replace(RUN, seed=2, figures=replace(RUN.figures, groups=(more,)))])

    assert formatting.read_again(line) == "26 [3, 50] (forecast: up to 50 [40, 60])"
    assert formatting.skipped(line) == "1 (forecast: 0)"


def test_a_series_that_is_taken_up_again_does_not_run_what_was_finished(tmp_path: Path) -> None:
    series, said = Series(tmp_path), io.StringIO()
    runs = wanted_runs([(Path("small.py"), SMALL)], list(Replicator), range(1, 3))
    for run, outcome in zip(runs, (RUN, FAILED), strict=False):
        series.folder(run.plan).path.mkdir()
        finish(series.folder(run.plan), outcome)

    assert [run.plan.name for run in runs] == ["small-mirror-1", "small-mm2-1", "small-mirror-2", "small-mm2-2"]
    assert run_series(series, runs[:2], parallel=1, display=Lines(Console(file=said))) == (RUN, FAILED)
    assert said.getvalue().splitlines() == [
        "series: 2",
        "[small-mirror-1] PASS, done before",
        "[small-mm2-1] FAIL, done before",
    ]
    assert series.outcome(runs[2].plan) is None


def test_a_verdict_that_was_edited_is_none_and_the_run_is_performed_again(tmp_path: Path) -> None:
    series = Series(tmp_path)
    (run,) = wanted_runs([(Path("small.py"), SMALL)], [Replicator.MM2], [1])
    folder = series.folder(run.plan)
    (folder.ledger / "sends").mkdir(parents=True)
    part = folder.ledger / "sends" / "p-0.parquet"
    part.write_text("rows")
    finish(folder, FAILED)
    text, journal = folder.verdict.read_text(), folder.journal.path.read_text()

    def said() -> tuple[Verdict, tuple[str, ...]]:
        outcome = series.outcome(run.plan)
        assert outcome is not None
        assert outcome.is_proof is (outcome.verdict is Verdict.FAIL)
        return outcome.verdict, outcome.reasons

    assert said() == (Verdict.FAIL, ("5 duplicated",))
    folder.verdict.write_text(text.replace('"FAIL"', '"PASS"'))
    assert said() == (Verdict.UNKNOWN, ("evidence altered: verdict.json",))
    folder.verdict.write_text(text)
    part.write_text("ROWS")
    assert said() == (Verdict.UNKNOWN, ("evidence altered: ledger/sends/p-0.parquet",))
    part.write_text("rows")
    added = folder.ledger / "sends" / "p-1.parquet"
    added.write_text("rows")
    assert said() == (Verdict.UNKNOWN, ("evidence not in the journal: ledger/sends/p-1.parquet",))
    added.unlink()
    folder.journal.path.write_text("".join(journal.splitlines(keepends=True)[:-1]))
    assert said() == (Verdict.UNKNOWN, ("journal.jsonl has lost its end: it had 2 entries, and has 1",))
    folder.seal.unlink()
    assert said() == (Verdict.UNKNOWN, ("journal.jsonl does not say that the run was finished",))


def test_what_proves_nothing_is_no_reason_not_to_run_again() -> None:
    assert RUN.is_proof
    assert FAILED.is_proof
    assert not replace(RUN, verdict=Verdict.UNKNOWN).is_proof


def test_a_run_that_proves_nothing_is_unknown() -> None:
    outcome = unknown("small", Replicator.MIRROR, 7, ["it was late"], must_fail=True)
    assert (outcome.verdict, outcome.reasons, outcome.must_fail) == (Verdict.UNKNOWN, ("it was late",), True)
