"""The run directory keeps every outcome, whole or not at all, and belongs to one process at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from mirror.evidence.facts import FactError
from mirror.evidence.outcome import Outcome, StepNotPassed
from mirror.evidence.run_directory import NotARunDirectory, RunDirectory, RunInUse, write_json
from mirror.model.verdict import Verdict

AT = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path, "tiny", started_at=AT)


def test_a_run_is_named_by_time_and_runbook(run: RunDirectory) -> None:
    assert run.name == "20260314T092653Z-tiny"
    assert sorted(path.name for path in run.path.iterdir()) == [
        "lab",
        "ledger",
        "logs",
        "notebooks",
        "outcomes",
        "plots",
    ]


def test_two_runs_of_the_same_second_do_not_share_a_directory(run: RunDirectory, tmp_path: Path) -> None:
    assert RunDirectory.create(tmp_path, "tiny", started_at=AT).name == f"{run.name}-2"


def test_a_directory_without_run_json_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunDirectory, match=r"has no run\.json"):
        RunDirectory.open(tmp_path)


def test_an_outcome_is_read_back_as_it_was_written(run: RunDirectory) -> None:
    outcome = Outcome("verify", Verdict.FAIL, {"missing": 3, "where": {"orders": [0, 2]}}, ("3 records are missing",))
    run.write_outcome(outcome)

    assert run.read_outcome("verify") == outcome
    assert run.read_outcome("setup") is None
    assert [path.name for path in run.outcomes.iterdir()] == ["verify.json"]


def test_numbers_of_a_data_frame_become_plain_numbers(run: RunDirectory) -> None:
    run.write_outcome(
        Outcome("verify", Verdict.PASS, {"records": pd.Series([3, 4]).sum(), "seconds": pd.Series([0.5]).max()})
    )

    assert json.loads(run.outcome_path("verify").read_text())["facts"] == {"records": 7, "seconds": 0.5}


@pytest.mark.parametrize(("value", "said"), [(float("nan"), "is nan"), (object(), "is a object"), (b"x", "is a bytes")])
def test_what_is_not_data_is_refused_by_its_key(run: RunDirectory, value: object, said: str) -> None:
    with pytest.raises(FactError, match=r"facts\.rpo\.seconds " + said):
        run.write_outcome(Outcome("drill", Verdict.PASS, {"rpo": {"seconds": value}}))

    assert run.read_outcome("drill") is None


def test_conclude_writes_first_and_raises_then(run: RunDirectory) -> None:
    failed = Outcome("verify", Verdict.FAIL, {}, ("3 records are missing",))

    with pytest.raises(StepNotPassed, match="step verify: FAIL: 3 records are missing"):
        run.conclude(failed)

    assert run.read_outcome("verify") == failed


def test_conclude_of_a_pass_raises_nothing(run: RunDirectory) -> None:
    run.conclude(Outcome("verify", Verdict.PASS))

    assert run.read_outcome("verify") == Outcome("verify", Verdict.PASS)


def test_a_damaged_outcome_is_named(run: RunDirectory) -> None:
    run.outcome_path("verify").write_text("{")

    with pytest.raises(FactError, match=r"verify\.json: not JSON"):
        run.read_outcome("verify")


def test_files_of_earlier_attempts_are_kept(run: RunDirectory) -> None:
    for verdict in (Verdict.UNKNOWN, Verdict.FAIL):
        run.write_outcome(Outcome("verify", verdict))
        run.set_aside(run.outcome_path("verify"))

    kept = sorted((run.outcomes / "earlier").iterdir())
    assert [path.name for path in kept] == ["verify-1.json", "verify-2.json"]
    assert [json.loads(path.read_text())["verdict"] for path in kept] == ["UNKNOWN", "FAIL"]
    assert run.read_outcome("verify") is None


def test_a_run_is_owned_by_one_at_a_time(run: RunDirectory) -> None:
    write_json(run.run_json, {})
    with run.owned(), pytest.raises(RunInUse, match="is being run by process"), RunDirectory.open(run.path).owned():
        pass
    with run.owned():
        pass


def test_a_run_keeps_the_procedure_and_that_of_each_group_of_a_migration(run: RunDirectory) -> None:
    kept = ("failover/failback", "failover", "migration/group-001", "migration/group-002", "migration")
    for each in (*kept, "practice-failover"):
        (run.path / each).mkdir(parents=True, exist_ok=True)
        (run.path / each / "journal.jsonl").touch()
    assert [str(each.parent.relative_to(run.path)) for each in run.procedures] == list(kept)
