"""The verdict on a run: the worst of its steps, and never better than its evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirror.drill.judgement import judge
from mirror.evidence.facts import Facts, Json, plain_object
from mirror.evidence.journal import Event, Journal
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import read_evidence
from mirror.evidence.run_model import Failback, Failover
from mirror.evidence.seals import seal_end
from mirror.model.verdict import Verdict
from tests.unit.drill.synthetic_run import SyntheticRun


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A drill that passed."""
    return SyntheticRun(tmp_path_factory.mktemp("runs")).passed()


@pytest.fixture
def run(finished: RunDirectory, tmp_path: Path) -> RunDirectory:
    """A copy of it to be damaged, without its notebooks."""
    for path in (
        finished.run_json,
        finished.journal.path,
        finished.seal,
        finished.lag,
        *finished.procedures,
        *finished.outcomes.glob("*.json"),
    ):
        copy = tmp_path / path.relative_to(finished.path)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return RunDirectory.open(tmp_path)


def change(run: RunDirectory, step: str, edit: Callable[[dict[str, Json]], object]) -> None:
    """Have a step say other facts, and whoever runs it end the run after that."""
    document = json.loads(run.outcome_path(step).read_text())
    edit(document["facts"])
    run.write_outcome(Facts(document, step).read(Outcome))
    seal_end(run.seal, run.journal.append(Event.RUN_FINISHED))


def test_a_drill_in_order_passes(run: RunDirectory) -> None:
    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.PASS
    assert judgement.reasons == ()


def test_a_step_that_did_not_pass_and_does_not_say_why_counts(run: RunDirectory) -> None:
    document = json.loads(run.outcome_path("failback").read_text())
    run.write_outcome(Facts(document | {"verdict": "UNKNOWN", "reasons": []}, "failback").read(Outcome))
    seal_end(run.seal, run.journal.append(Event.RUN_FINISHED))

    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reasons == ("Fail back to east and account for every record: no reason was given",)


def test_as_many_records_as_were_promised_may_lack_and_not_one_more(run: RunDirectory) -> None:
    evidence = read_evidence(run)
    assert evidence.failover is not None
    assert evidence.failover.rpo is not None
    rpo = replace(evidence.failover.rpo, records=5, objective_seconds=None)
    for promised, verdict in ((5, Verdict.PASS), (4, Verdict.FAIL)):
        failover = replace(evidence.failover, rpo=replace(rpo, objective_records=promised))
        assert judge(replace(evidence, failover=failover)).verdict is verdict


def test_a_step_that_was_not_run_is_unknown(run: RunDirectory) -> None:
    run.outcome_path("failback").unlink()

    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reasons == (
        "Fail back to east and account for every record: not run",
        "evidence missing: outcomes/failback.json",
    )


@pytest.mark.parametrize(
    ("step", "edit", "said"),
    [
        ("failback", lambda facts: facts.update(acked_records=97_005), "97,004 of 97,005 acknowledged records"),
        ("failback", lambda facts: facts.update(balances=False), "the account does not balance"),
        ("failback", lambda facts: facts["totals"].update(lost=2), "2 acknowledged records are lost"),
        (
            "failover_drill",
            lambda facts: facts["rpo"].update(seconds=6.0),
            "RPO of 6.0 s is beyond its objective of 5 s",
        ),
        ("failover_drill", lambda facts: facts["rpo"].update(objective_records=10), "RPO of 1,018 records is beyond"),
        ("failover_drill", lambda facts: facts.update(rto_objective_seconds=9.0), "RTO of 9.9 s is beyond"),
    ],
)
def test_figures_outweigh_what_a_step_claims(
    run: RunDirectory, step: str, edit: Callable[[dict[str, Json]], object], said: str
) -> None:
    """Every step says PASS; the figures it wrote say otherwise."""
    change(run, step, edit)

    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.FAIL
    assert said in judgement.reasons[0]


def test_an_objective_that_is_just_met_is_met(run: RunDirectory) -> None:
    """RPO in seconds and records, RTO in seconds."""
    evidence = read_evidence(run)
    assert evidence.failover is not None
    assert evidence.failover.rpo is not None
    achieved, seconds = evidence.failover.rpo, evidence.failover.rto_seconds
    met = replace(achieved, objective_seconds=achieved.seconds, objective_records=achieved.records)
    just = replace(evidence, failover=replace(evidence.failover, rpo=met, rto_objective_seconds=seconds))

    assert judge(just).verdict is Verdict.PASS


def test_a_run_without_steps_is_unknown(run: RunDirectory) -> None:
    """Also where nothing else is wrong with its evidence."""
    judgement = judge(replace(read_evidence(run), steps=()))

    assert (judgement.verdict, judgement.reasons) == (Verdict.UNKNOWN, ("the run has no steps",))


def test_what_makes_the_verdict_comes_first_among_the_reasons(run: RunDirectory) -> None:
    run.outcome_path("setup").unlink()
    change(run, "failback", lambda facts: facts.update(balances=False))
    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.FAIL
    assert judgement.reasons[0] == "the account does not balance"
    assert judgement.reasons[1].endswith("not run")


def test_an_outcome_is_only_ever_made_worse_and_says_why_first() -> None:
    failed = Outcome("verify", Verdict.FAIL, {"missing": 1}, ("1 is missing",))

    assert failed.worsened(Verdict.UNKNOWN, "the disk is full") == Outcome(
        "verify", Verdict.FAIL, {"missing": 1}, ("the disk is full", "1 is missing")
    )
    assert Outcome("verify", Verdict.PASS).worsened(Verdict.UNKNOWN, "the disk is full").verdict is Verdict.UNKNOWN


def test_a_touched_journal_is_never_pass(run: RunDirectory) -> None:
    text = run.journal.path.read_text()
    run.journal.path.write_text(text.replace("brokers killed", "brokers paused"))

    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "fault_injected) was altered" in judgement.reasons[0]


def test_a_failed_outcome_that_was_edited_to_pass_is_not_believed(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path).lost()
    path = run.outcome_path("failback")
    path.write_text(
        path.read_text().replace('"verdict": "FAIL"', '"verdict": "PASS"').replace('"lost": 3', '"lost": 0')
    )
    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reasons == (
        "Fail back to east and account for every record: evidence altered: outcomes/failback.json",
    )


def test_a_touched_journal_of_the_procedure_is_never_pass(run: RunDirectory) -> None:
    """The chain of the recovery time rests on it."""
    (journal,) = run.procedures
    journal.write_text(journal.read_text().replace('"detect"', '"cut"'))
    judgement = judge(read_evidence(run))
    assert judgement.verdict is Verdict.UNKNOWN
    assert "the journal of the procedure in failover is not intact: journal.jsonl line 1" in judgement.reasons[0]


def test_what_the_procedure_did_first_stands_first(run: RunDirectory) -> None:
    """By their names a failback stands before the failover in whose directory it is kept."""
    (failover,) = run.procedures
    home = failover.parent / "failback" / "journal.jsonl"
    home.parent.mkdir()
    Journal(home, now=lambda: datetime.now(UTC) + timedelta(days=1)).append(Event.RUN_STARTED)
    assert run.procedures == (home, failover)
    assert [each.path for each in read_evidence(run).procedures] == [failover, home]


def test_a_run_whose_journal_has_no_end_is_not_a_pass(tmp_path: Path) -> None:
    """Killed before its end, or with its last line cut off and nothing beside it that tells."""
    run = SyntheticRun(tmp_path).passed()
    lines = run.journal.path.read_text().splitlines(keepends=True)
    run.journal.path.write_text("".join(lines[:-1]))
    run.seal.unlink()

    assert judge(read_evidence(run)).reasons == ("the run has not come to its end",)
    assert judge(replace(read_evidence(run), is_over=True)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("step", "edit", "said"),
    [
        (
            "failover_drill",
            lambda facts: facts["rpo"].pop("bytes"),
            "facts.rpo: Object missing required field `bytes`",
        ),
        (
            "failover_drill",
            lambda facts: facts["rto_chain"][2].update(seconds="1"),
            "facts.rto_chain[2].seconds: Expected `float`",
        ),
        (
            "failover_drill",
            lambda facts: facts["rto_chain"][2].update(seconds=0.61),
            "facts.rto_chain: links of [2.13, 0.28, 0.61, 1.18, 0.87, 3.87] s, and the instants beside it give",
        ),
        ("setup", lambda facts: facts.update(versions=["4.3.1"]), "facts.versions: Expected `object`"),
        ("failback", lambda facts: facts["totals"].update(lost=-0.5), "facts.totals.lost: Expected `int | null`"),
    ],
)
def test_facts_in_another_form_than_agreed_are_named_and_never_pass(
    run: RunDirectory, step: str, edit: Callable[[dict[str, Json]], object], said: str
) -> None:
    change(run, step, edit)

    judgement = judge(read_evidence(run))

    assert judgement.verdict is Verdict.UNKNOWN
    assert said in judgement.reasons[0]
    assert f"outcomes/{step}.json" in judgement.reasons[0]


def test_a_damaged_lag_sample_is_named_and_a_torn_last_one_is_not(run: RunDirectory) -> None:
    samples = len(read_evidence(run).lag)
    with run.lag.open("a") as file:
        file.write('{"at_ms": 17')
    assert len(read_evidence(run).lag) == samples
    assert read_evidence(run).problems == ()

    with run.lag.open("a") as file:
        file.write("\n")
    assert f"lag.jsonl line {samples + 1}" in read_evidence(run).problems[0]


def test_the_fault_interval_is_the_journal_s(run: RunDirectory) -> None:
    fault = read_evidence(run).fault

    assert fault is not None
    assert fault.what == "east brokers killed"
    assert fault.until_ms is not None
    assert fault.until_ms - fault.from_ms == 24_900


def test_what_the_steps_write_is_what_the_report_reads(run: RunDirectory) -> None:
    evidence = read_evidence(run)
    assert evidence.failover is not None
    assert evidence.failback is not None

    assert Failover.from_facts(Facts(evidence.failover.as_facts(), "")) == evidence.failover
    assert Facts(plain_object(evidence.failback), "").read(Failback) == evidence.failback
