"""The report says what the evidence says, needs nothing but itself, and is made of whatever a run left behind."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mirror.drill.report import render_report, summarise, write_report
from mirror.evidence.journal import Event, Journal
from mirror.evidence.outcome import Outcome
from mirror.evidence.pictures import PALETTE, RunFigure, svg
from mirror.evidence.plots import lag_plot, rto_chain_plot, timeline_marks, timeline_plot
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import Evidence, read_evidence
from mirror.model.verdict import Verdict
from tests.unit.drill.synthetic_run import STRANDED, SyntheticRun, with_more_lag_partitions


class Page(HTMLParser):
    """Collects ids, references and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take up ids and references."""
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in {"href", "src", "xlink:href"} and value:
                self.references.append(value)

    def handle_data(self, data: str) -> None:
        """Take up text."""
        self.text += data


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDirectory]:
    """One run of each fate."""
    folder = tmp_path_factory.mktemp("runs")
    fates = ("passed", "lost", "crashed", "until_verified")
    return {fate: getattr(SyntheticRun(folder / fate), fate)() for fate in fates}


@pytest.fixture(scope="module")
def evidence(runs: dict[str, RunDirectory]) -> Evidence:
    return read_evidence(runs["passed"])


@pytest.fixture(scope="module")
def html(evidence: Evidence) -> str:
    return render_report(evidence)


def test_the_page_loads_nothing_from_a_network(html: str) -> None:
    outside = [each for each in Page(html).references if re.match(r"[a-z]+:|//", each)]

    assert outside == []
    assert not re.search(r"@import|url\((?!#)", html)
    assert "<script" not in html


def test_links_lead_to_files_of_the_run(html: str, runs: dict[str, RunDirectory]) -> None:
    links = [each for each in Page(html).references if not each.startswith("#")]

    absent = [each for each in links if not (runs["passed"].path / each).exists()]
    assert absent == ["ledger/stranded.parquet"]
    assert "notebooks/40_failover_drill.html" in links
    assert "notebooks/40_failover_drill.ipynb" in links


def test_pictures_have_ids_and_colours_of_their_own_and_a_value_for_light_and_dark(html: str) -> None:
    ids = Page(html).ids
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)

    assert len(ids) == len(set(ids))
    drawn = [re.sub(r"<style>.*?</style>", "", each) for each in pictures]
    assert [colour for colour in PALETTE.values() if any(colour in each for each in drawn)] == []
    assert all(each.count("--fault:") == 2 and "@media(prefers-color-scheme:dark)" in each for each in pictures)


def test_a_passed_drill_says_what_it_cost(evidence: Evidence, html: str) -> None:
    summary = summarise(evidence)

    assert summary.headline == "Failover drill: passed"
    assert "1,018 acknowledged records (1.1 MB, reaching back 830 ms)" in summary.sentences[0]
    assert "9.9 s after the fault" in summary.sentences[1]
    assert [card.tone for card in summary.objectives] == ["good", "good"]
    assert "balances: nothing is unexplained" in html
    assert evidence.journal.head in html


def test_a_failed_drill_names_the_loss_and_where(runs: dict[str, RunDirectory]) -> None:
    lost = read_evidence(runs["lost"])
    page = Page(render_report(lost))

    assert summarise(lost).headline == "Failover drill: failed"
    assert "3 acknowledged records are lost" in page.text
    assert "97,001 of 97,004 acknowledged records are accounted for" in page.text
    assert "9,001" in page.text
    assert "load-1 : 3311" in page.text
    assert next(card.tone for card in summarise(lost).totals if card.title == "lost") == "bad"


def test_a_crashed_drill_says_where_it_stands(runs: dict[str, RunDirectory]) -> None:
    crashed = summarise(read_evidence(runs["crashed"]))

    assert crashed.headline == "Failover drill: not proven"
    assert "crashed in cell 9 (Move the groups): WaitTimeout" in crashed.judgement.reasons[0]
    assert "The point of no return had been crossed." in crashed.sentences


def test_a_report_with_stranded_records_does_not_say_that_nothing_was_stranded(runs: dict[str, RunDirectory]) -> None:
    passed = replace(read_evidence(runs["passed"]), findings=())
    assert passed.totals is not None
    assert passed.totals.stranded
    text = Page(render_report(passed)).text
    assert "stranded, as the account above says" in text
    assert "nothing that was lost, stranded" not in text


def test_a_report_tells_what_the_procedure_did_and_what_it_had_begun_when_it_was_interrupted(
    runs: dict[str, RunDirectory], tmp_path: Path
) -> None:
    """What is known of the loss, the groups and the cut stood in its journal alone."""
    run = RunDirectory(shutil.copytree(runs["until_verified"].path, tmp_path / "run"))
    (run.path / "failover").mkdir()
    journal = Journal(run.path / "failover" / "journal.jsonl")
    journal.append(Event.STEP_STARTED, step="stop")
    passed = {"verdict": "PASS", "seconds": 2.5, "detail": "the applications on east are stopped"}
    journal.append(Event.STEP_FINISHED, step="stop", facts=passed)
    journal.append(Event.STEP_STARTED, step="drain")
    text = Page(render_report(read_evidence(run))).text
    assert "What the procedure did: failover" in text
    assert "the applications on east are stopped" in text
    assert "begun; nothing is on record of how it ended" in text


def test_what_was_not_measured_is_said_to_be_so(runs: dict[str, RunDirectory]) -> None:
    page = Page(render_report(read_evidence(runs["until_verified"])))

    assert page.text.count("Not measured in this run.") == 3
    assert "Not made: the run did not get as far as the failback." in page.text
    assert "No acknowledged record was lost" not in page.text


def test_markup_in_evidence_is_text(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path).until_verified()
    path = run.outcome_path("verify")
    path.write_text(path.read_text().replace("every record", "<script>alert(1)</script>"))

    assert "<script" not in write_report(run)[0].read_text()


def test_every_partition_is_accounted_for_on_the_page(html: str) -> None:
    text = Page(html).text

    assert all(f"orders-{partition}" in text for partition in range(len(STRANDED)))


def test_a_figure_shows_itself_in_a_notebook(evidence: Evidence) -> None:
    """Without pyplot: figures made through it would be kept alive by it."""
    for figure in (timeline_plot(evidence), lag_plot(evidence), rto_chain_plot(evidence)):
        assert isinstance(figure, RunFigure)
        assert "src='data:image/svg+xml;base64," in figure._repr_html_()
    assert "<svg" in svg(rto_chain_plot(evidence))


def test_the_fault_is_shaded_wherever_time_is_drawn(evidence: Evidence) -> None:
    for figure in (timeline_plot(evidence), lag_plot(evidence, "east->west"), lag_plot(evidence, "west->east")):
        assert "var(--fault)" in svg(figure)


def test_marks_are_numbered_in_the_order_of_time(evidence: Evidence) -> None:
    marks = timeline_marks(evidence)

    assert [mark.number for mark in marks] == list(range(1, len(marks) + 1))
    assert [mark.at_ms for mark in marks] == sorted(mark.at_ms for mark in marks)
    assert ("group reads new records", "billing") in [(mark.label, mark.detail) for mark in marks]


def test_the_timeline_and_the_chain_tell_one_instant_of_what_was_noticed_later_than_it_happened(
    evidence: Evidence, html: str
) -> None:
    assert evidence.failover is not None
    instants = evidence.failover.instants
    assert instants is not None
    told = {(mark.label, mark.detail.removeprefix("west").strip()): mark.at_ms for mark in timeline_marks(evidence)}

    assert told["first accepted write", ""] == instants.first_write_at_ms
    for group, at_ms in instants.groups_reading_at_ms.items():
        assert told["group reads new records", group] == at_ms
    noticed = {entry.at_ms for entry in evidence.journal.entries if entry.event is Event.FIRST_WRITE}
    assert instants.first_write_at_ms not in noticed
    assert all(said in Page(html).text for said in ("+6.1 s", "+7.3 s", "+9.9 s"))


def test_many_partitions_share_one_line_for_the_rest(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path).until_failed_over()
    with_more_lag_partitions(run, range(6, 20))

    assert "worst of the 12 others" in svg(lag_plot(read_evidence(run)))


def test_lag_is_not_drawn_where_it_was_not_measured(evidence: Evidence) -> None:
    """The source is dead: the lines end there instead of falling to zero."""
    figure = lag_plot(evidence, "east->west")
    last = max(
        float(at)
        for line in figure.axes[0].get_lines()
        if not str(line.get_label()).startswith("_")
        for at, lag in zip(line.get_xdata(), line.get_ydata(), strict=True)  # type: ignore[arg-type]
        if lag == lag  # noqa: PLR0124 - is not NaN
    )

    assert 0 <= last < 0.6


def test_a_test_failover_is_told_by_group_and_nothing_is_said_of_steps_it_does_not_have(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path).until_verified()
    described = json.loads(run.run_json.read_text())
    described["steps"] = [step for step in described["steps"] if step["name"] == "verify"]
    run.run_json.write_text(json.dumps(described))
    group = {"group": "billing", "verdict": "FAIL", "partitions": 4, "records": 400, "forecast_skipped": 0}
    group |= {"skipped": 2, "forecast_read_again": 64, "read_again": [3, 64], "seconds_to_first": 0.789}
    run.write_outcome(Outcome("verify", Verdict.FAIL, {"rehearsed": [group]}))
    text = " ".join(Page(render_report(read_evidence(run))).text.split())

    assert "44002 (0)3 to 64 (64)789 ms" in text, "cells have nothing between them but markup"
    assert "0 of 1 group would have gone on where they stood. 2 records would have been skipped, at most 64" in text
    assert "Recovery time" not in text
    assert "Final account" not in text
