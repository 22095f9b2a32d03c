"""A drill whose kernel, runner or holder is killed again and again, and that is resumed each time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.evidence.journal import Entry, Event, Journal
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder
from mirror.recovery.run import FAILBACK, FAILOVER
from mirror.waiting import wait_until
from tests.drill.killing import begun_again, command, kill

pytestmark = [pytest.mark.drill, pytest.mark.soak]

SECONDS = 600.0
STEPS = ("setup", "mirror", "verify", "failover_drill", "failback")

# The journals of a run: its own, and those of the procedure, there and home.
RUN, THERE, HOME = ".", FAILOVER, f"{FAILOVER}/{FAILBACK}"
# When something is killed (the newest entry of a journal says so), and what. Each moment comes once: what it is about
# is in the journal by then, and is not done again.
MOMENTS = [
    (RUN, Event.STEP_STARTED, "setup", "kernel"),
    (RUN, Event.STEP_FINISHED, "setup", "runner"),
    (RUN, Event.LOAD_STARTED, None, "holder"),
    (RUN, Event.STEP_STARTED, "verify", "runner"),
    (RUN, Event.STEP_FINISHED, "verify", "holder"),
    (RUN, Event.STEP_STARTED, "failover_drill", "kernel"),
    (RUN, Event.ACTION, "failover_drill", "runner"),
    (RUN, Event.FAULT_INJECTED, "failover_drill", "kernel"),
    (THERE, Event.FAULT_DETECTED, "detect", "runner"),
    (THERE, Event.FENCED, "stop", "holder"),
    (THERE, Event.CUT, "cut", "kernel"),
    (THERE, Event.OFFSETS_APPLIED, "groups", "runner"),
    (THERE, Event.FIRST_WRITE, "first write", "holder"),
    (RUN, Event.STEP_FINISHED, "failover_drill", "runner"),
    (RUN, Event.FAULT_HEALED, "failback", "kernel"),
    (HOME, Event.DRAINED, "drain", "holder"),
    (HOME, Event.OFFSETS_APPLIED, "groups", "runner"),
    (HOME, Event.POINT_OF_NO_RETURN, "start", "kernel"),
    (RUN, Event.LOAD_STARTED, None, "holder"),
]
# Every attempt at a step begins and ends, and applications that were ended are started again.
REPEATED = (Event.STEP_STARTED, Event.STEP_FINISHED, Event.LOAD_STARTED)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs"
    for run in holder.held(tmp_path / "runs"):
        holder.release(run)


def test_a_drill_that_is_killed_everywhere_ends_as_one_that_was_not(runs: Path) -> None:
    """Nothing lost, twice, out of order or altered, the account balances, and what was proven was not done again."""
    far = [part for name in ("rto", "rpo", "lag") for part in ("-p", f"{name}_objective_seconds=100000")]
    runner = command("run", "failover-drill", "--runs-directory", str(runs), *far)
    (directory,) = wait_until(
        lambda: [path for path in runs.glob("*") if (path / "journal.jsonl").exists()],
        "a run",
        timeout_seconds=SECONDS,
    )
    run = RunDirectory.open(directory)
    behind = dict.fromkeys((RUN, THERE, HOME), 0)
    for journal, event, step, what in MOMENTS:
        looks = newer(Journal(directory / journal / "journal.jsonl"), behind[journal], event, step, runner)
        found = wait_until(looks, f"{event} of {step}", timeout_seconds=SECONDS, until=bool)
        assert isinstance(found, Entry), found
        behind[journal] = found.n
        kill(what, runner, run)
        runner = command("resume", str(directory))
    said, _ = runner.communicate(timeout=2 * SECONDS)

    assert runner.returncode == 0, said
    outcomes = {name: json.loads(run.outcome_path(name).read_text()) for name in STEPS}
    assert {name: each["verdict"] for name, each in outcomes.items()} == dict.fromkeys(STEPS, "PASS")
    failback = outcomes["failback"]["facts"]
    assert failback["balances"]
    assert [failback["totals"][kind] for kind in ("lost", "duplicated", "reordered", "altered")] == [0, 0, 0, 0]
    happened = [(entry.event, entry.step) for entry in run.journal.read().entries]
    for event, step in {
        (event, step) for journal, event, step, _ in MOMENTS if journal == RUN and event not in REPEATED
    }:
        assert event is Event.ACTION or happened.count((event, step)) == 1, (event, step)
    for journal in (THERE, HOME):
        assert begun_again(Journal(directory / journal / "journal.jsonl")) == []
    assert holder.held(runs) == []


def newer(
    journal: Journal, behind: int, event: Event, step: str | None, runner: subprocess.Popen[str]
) -> Callable[[], Entry | str | None]:
    """Return what looks for the next entry of that kind; a runner that has ended before is told with what it said."""

    def look() -> Entry | str | None:
        for entry in journal.read().entries:
            if entry.n > behind and entry.event is event and step in (None, entry.step):
                return entry
        if runner.poll() is not None:
            return f"the runner ended with {runner.returncode}: {runner.communicate()[0]}"
        return None

    return look
