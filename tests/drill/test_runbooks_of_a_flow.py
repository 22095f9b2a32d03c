"""The runbooks for one's own flow, on practice clusters: the commands' procedure, from notebooks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirror.evidence.journal import Event, Journal
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.seals import broken, read_sealed
from mirror.lab import holder, processes
from mirror.recovery.steps import Progress
from mirror.waiting import wait_until

pytestmark = pytest.mark.drill

ROOT = Path(__file__).parents[2]
SECONDS = 600.0


def run(*arguments: str) -> tuple[int, str]:
    argv = [sys.executable, "-m", "mirror", "runbook", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def practised(runs: Path, runbook: str) -> tuple[RunDirectory, dict[str, Any]]:
    """Run a runbook on practice clusters, which passes; return its run and the facts of its only step."""
    status, said = run("run", runbook, "-p", "practice=true", "--runs-directory", str(runs))
    (directory,) = runs.iterdir()
    assert status == 0, said
    return RunDirectory.open(directory), facts_of(directory, runbook)


def facts_of(directory: Path, runbook: str) -> dict[str, Any]:
    outcome = json.loads((directory / "outcomes" / f"{runbook.replace('-', '_')}.json").read_text())
    assert outcome["verdict"] == "PASS", outcome["reasons"]
    facts: dict[str, Any] = outcome["facts"]
    return facts


def at_ends_of_run(taken: RunDirectory) -> None:
    """Its evidence is as it was sealed, the procedure's own run with it, and nothing of it runs."""
    reading = read_sealed(taken)
    assert (reading.problem, broken(taken, reading.entries)) == (None, ())
    assert holder.holder_of(taken.path) is None
    wait_until(
        lambda: processes.running(taken.logs), "the end of all processes", timeout_seconds=60, until=lambda p: not p
    )


@pytest.mark.soak
def test_a_readiness_review_finds_practice_clusters_ready(tmp_path: Path) -> None:
    taken, facts = practised(tmp_path, "readiness-review")
    assert facts["flow"] == "east->west"
    assert [each for each in facts["differences"] if each["class"] in {"blocks", "loses"}] == []
    at_ends_of_run(taken)


@pytest.mark.soak
def test_a_test_failover_tries_out_every_group_of_the_practice(tmp_path: Path) -> None:
    taken, facts = practised(tmp_path, "test-failover")
    assert {(each["group"], each["verdict"]) for each in facts["rehearsed"]} == {("audit", "PASS"), ("billing", "PASS")}
    at_ends_of_run(taken)


@pytest.mark.soak
def test_an_unplanned_failover_moves_every_group_and_keeps_the_procedure_with_the_run(tmp_path: Path) -> None:
    taken, facts = practised(tmp_path, "unplanned-failover")
    steps = [each["name"] for each in facts["procedure_steps"]]
    assert (steps[0], steps[-1]) == ("detect", "finish")
    assert {each["group"] for each in facts["moved_groups"]} == {"audit", "billing"}
    assert all(each["exact"] for each in facts["moved_groups"])
    procedure = Journal(taken.path / "failover" / "journal.jsonl").read()
    assert procedure.problem is None
    assert (facts["journal_entries"], facts["journal_head"]) == (procedure.entries[-1].n, procedure.head)
    sealed = {
        file
        for entry in taken.journal.read().entries
        if entry.event is Event.EVIDENCE_SEALED
        for file in dict(entry.facts["files"])  # type: ignore[call-overload]
    }
    assert {
        "failover/journal.jsonl",
        "failover/run.json",
        "failover/seal.json",
        "failover/groups-before-1.json",
    } <= sealed
    at_ends_of_run(taken)


@pytest.mark.soak
@pytest.mark.parametrize("runbook", ["planned-failover", "cut-off-failover", "failback"])
def test_the_other_moves_pass_on_practice_clusters(tmp_path: Path, runbook: str) -> None:
    taken, facts = practised(tmp_path, runbook)
    assert facts["procedure_steps"][-1]["name"] == "finish"
    assert {each["group"] for each in facts["moved_groups"]} == {"audit", "billing"}
    at_ends_of_run(taken)


@pytest.mark.long
def test_a_migration_moves_group_by_group_and_leaves_nothing_behind(tmp_path: Path) -> None:
    taken, facts = practised(tmp_path, "migration")
    names = [each["name"] for each in facts["procedure_steps"]]
    assert (names[0], names[1], names[-1]) == ("begin", "audit: stop", "producers: what remains")
    assert names.index("audit: reads") < names.index("billing: stop") < names.index("producers: stop")
    assert {each["group"] for each in facts["moved_groups"]} == {"audit", "billing"}
    assert all(each["exact"] for each in facts["moved_groups"])
    assert {each["last_mirrored_upstream"] > 0 for each in facts["last_mirrored"]} == {True}
    at_ends_of_run(taken)


@pytest.mark.soak
@pytest.mark.parametrize("step", ["stop", "groups", "start"])
def test_a_migration_whose_runner_is_killed_in_the_middle_of_a_group_is_resumed(tmp_path: Path, step: str) -> None:
    argv = [sys.executable, "-m", "mirror", "runbook", "run", "migration", "-p", "practice=true"]
    runner = subprocess.Popen([*argv, "--runs-directory", str(tmp_path)], cwd=ROOT, stdout=subprocess.DEVNULL)

    def begun() -> bool:
        journals = list(tmp_path.glob("*/migration/group-002/journal.jsonl"))
        return runner.poll() is not None or any(
            step in Progress.of(Journal(each).read().entries).begun for each in journals
        )

    wait_until(begun, "the second group", timeout_seconds=SECONDS, first_pause_seconds=0.02)
    assert runner.poll() is None, "the runner has ended before that"
    runner.kill()
    runner.communicate(timeout=SECONDS)
    (directory,) = tmp_path.iterdir()
    status, said = run("resume", str(directory))
    assert status == 0, said
    facts = facts_of(directory, "migration")
    again = {each["name"]: each["verdict"] for each in facts["procedure_steps"]}
    assert set(again.values()) == {"PASS"}
    first = Journal(directory / "migration" / "group-001" / "journal.jsonl").read().entries
    assert [each.event for each in first if each.step == "start"].count(Event.STEP_STARTED) == 1
    at_ends_of_run(RunDirectory.open(directory))


@pytest.mark.soak
def test_a_failover_whose_runner_is_killed_behind_the_cut_is_resumed_by_its_runbook(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "mirror", "runbook", "run", "unplanned-failover", "-p", "practice=true"]
    runner = subprocess.Popen([*argv, "--runs-directory", str(tmp_path)], cwd=ROOT, stdout=subprocess.DEVNULL)

    def cut() -> bool:
        journals = list(tmp_path.glob("*/failover/journal.jsonl"))
        return runner.poll() is not None or any(
            "cut" in Progress.of(Journal(each).read().entries).proven for each in journals
        )

    wait_until(cut, "the cut", timeout_seconds=SECONDS)
    assert runner.poll() is None, "the runner has ended before the cut"
    runner.kill()
    runner.communicate(timeout=SECONDS)
    (directory,) = tmp_path.iterdir()
    status, said = run("resume", str(directory))
    assert status == 0, said
    facts_of(directory, "unplanned-failover")
    began = [each for each in Journal(directory / "failover" / "journal.jsonl").read().entries if each.step == "cut"]
    assert [each.event for each in began].count(Event.STEP_STARTED) == 1
    at_ends_of_run(RunDirectory.open(directory))
