"""The runbooks of a flow whose runner, kernel and holder are killed as steps begin and end, and that are resumed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import pytest

from mirror.evidence.journal import Entry, Event, Journal
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder
from mirror.recovery.steps import Progress
from mirror.waiting import wait_until
from tests.drill.killing import begun_again, command, kill

pytestmark = [pytest.mark.drill, pytest.mark.soak]

SECONDS = 600.0
# A step of a procedure, and one of a runbook, alike: where it begins a process is killed in the middle of it.
Boundary: TypeAlias = tuple[str, Event, str | None]
BEGINS, ENDS = BOUNDARIES = (Event.STEP_STARTED, Event.STEP_FINISHED)
RUN = "."
RUNBOOKS = (
    "unplanned-failover",
    "planned-failover",
    "cut-off-failover",
    "failback",
    "test-failover",
    "migration",
    "readiness-review",
)
# The engine ends with its holder. Here none is started again behind the fault: before the cut nobody would know how far
# it had copied.
WITHOUT_AN_ENGINE = {"unplanned-failover", "cut-off-failover"}
# A step that is over sooner may be so by the time that a process is killed; the commands, which carry out the same
# steps, are ended exactly at each write (tests/brokers/killing.py).
LOOK_SECONDS = 1.0


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs"
    for run in holder.held(tmp_path / "runs"):
        holder.release(run)


@pytest.mark.parametrize("runbook", RUNBOOKS)
def test_a_runbook_that_is_killed_as_its_steps_begin_and_end_passes_and_does_none_twice(
    runs: Path, runbook: str
) -> None:
    runner = command("run", runbook, "-p", "practice=true", "--runs-directory", str(runs))
    (directory,) = wait_until(
        lambda: [path for path in runs.glob("*") if (path / "journal.jsonl").exists()], "a run", timeout_seconds=SECONDS
    )
    run, victims = RunDirectory.open(directory), cycle(("runner", "kernel", "holder"))
    killed: set[Boundary] = set()
    seen: dict[Path, int] = {}
    while found := wait_until(
        boundaries(directory, seen, killed, runner),
        "the end of a step",
        timeout_seconds=SECONDS,
        until=lambda new: new is not None,
        longest_pause_seconds=0.05,
    ):
        killed |= found
        victim = next(victims)
        # Where a step of the runbook itself has ended its kernel has, too.
        has_no_kernel = victim == "kernel" and any(where == RUN and event is ENDS for where, event, _ in found)
        spares_holder = victim == "holder" and not may_lose_its_holder(runbook, directory)
        kill("runner" if has_no_kernel or spares_holder else victim, runner, run)
        seen = {path: len(entries) for path, entries in journals(directory).items()}
        runner = command("resume", str(directory))
    said, _ = runner.communicate(timeout=SECONDS)

    assert runner.returncode == 0, said
    outcome = json.loads(run.outcome_path(runbook.replace("-", "_")).read_text())
    assert outcome["verdict"] == "PASS", outcome["reasons"]
    # While nothing is copied groups go on reading what the target lacks: there they begin where the copy ends.
    moved = outcome["facts"].get("moved_groups", ())
    assert runbook == "cut-off-failover" or all(each["exact"] for each in moved)
    for path, entries in journals(directory).items():
        where = where_of(path, directory)
        assert {each.step for each in entries if lasted(each)} <= {
            step for journal, event, step in killed if (journal, event) == (where, BEGINS)
        }
        if where != RUN:
            assert begun_again(Journal(path)) == [], where
    assert holder.held(runs) == []


def may_lose_its_holder(runbook: str, directory: Path) -> bool:
    """Tell whether there is a holder by now, and the run can go on without what ends with it."""
    if holder.holder_of(directory) is None:
        return False
    return runbook not in WITHOUT_AN_ENGINE or any(
        Progress.of(entries).is_beyond_return for entries in journals(directory).values()
    )


def journals(directory: Path) -> dict[Path, tuple[Entry, ...]]:
    """Return what the journals of a run say: its own, and those of its procedure."""
    return {path: Journal(path).read().entries for path in sorted(directory.rglob("journal.jsonl"))}


def boundaries(
    directory: Path, seen: dict[Path, int], killed: set[Boundary], runner: subprocess.Popen[str]
) -> Callable[[], set[Boundary] | None]:
    """Return what looks for beginnings and ends of steps at which nothing was killed yet; none: the runner has ended."""

    def look() -> set[Boundary] | None:
        has_ended = runner.poll() is not None
        new = {
            (where_of(path, directory), each.event, each.step)
            for path, entries in journals(directory).items()
            for each in entries[seen.get(path, 0) :]
            if each.event in BOUNDARIES
        } - killed
        return set() if has_ended else new or None

    return look


def lasted(entry: Entry) -> bool:
    """Tell whether a step has ended that took longer than a look."""
    return entry.event is ENDS and float(str(entry.facts.get("seconds") or 0)) > LOOK_SECONDS


def where_of(journal: Path, directory: Path) -> str:
    return str(journal.parent.relative_to(directory))
