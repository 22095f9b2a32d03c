"""A series: scenarios, replicators and seeds, each performed once in a process of its own; taken up again where it
stopped.

Invariants:

(a) A scenario's run is a process of its own that owns all it starts; one warm Spark judges all runs of a series. FAIL
    for an anomaly that is not tolerated, any silent loss, a record on its source and not on its copy, a copied
    aborted transaction, a missed objective; UNKNOWN when evidence is missing or the fault could not be brought about.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from mirror.display import Display
from mirror.evidence.facts import FactError, Facts
from mirror.evidence.run_directory import PathWithin, new_folder, read_json, write_json
from mirror.evidence.seals import is_finished, seals, touched, with_end
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.lab import processes
from mirror.lab.processes import ManagedProcess
from mirror.model.verdict import Verdict
from mirror.scenario.declaration import Replicator, Scenario
from mirror.scenario.disks import PRIVATE_MOUNTS
from mirror.scenario.folder import RunFolder
from mirror.scenario.outcome import RunOutcome, unknown
from mirror.scenario.plan import RunPlan, plan_run
from mirror.waiting import WaitTimeout, wait_until

_JUDGES = "judges"
_LONGEST_RUN_SECONDS = 2400.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run that a series is to have; ``file`` defines its scenario."""

    file: Path
    scenario: Scenario
    plan: RunPlan


@dataclass(frozen=True, slots=True)
class Series:
    """The directory of a series."""

    path: Path

    @classmethod
    def create(cls, runs: Path, name: str) -> Series:
        """Make ``runs/<utc>-scenario-<name>/``, with ``-2``, ``-3``, ... where that is there already."""
        return cls(new_folder(runs, f"scenario-{name}", datetime.now(UTC)))

    results = PathWithin("results.json")
    """The file with the verdicts of all runs."""
    report = PathWithin("report.html")
    """The page about all of them."""
    logs = PathWithin("logs")
    """The folder of the processes that perform and judge."""

    def folder(self, plan: RunPlan) -> RunFolder:
        """Return the directory of one run."""
        return RunFolder(self.path / plan.name)

    def outcome(self, plan: RunPlan) -> RunOutcome | None:
        """Return the outcome of a run that was finished, None of one that was not; UNKNOWN if its evidence was touched.

        Raises
        ------
        FactError
            naming the file, if it is no outcome.
        """
        folder = self.folder(plan)
        if not folder.verdict.is_file():
            return None
        outcome = RunOutcome.from_json(read_json(folder.verdict))
        problems = _problems(folder)
        if not problems:
            return outcome
        return unknown(plan.scenario, plan.replicator, plan.seed, problems, must_fail=outcome.must_fail)


def wanted_runs(
    scenarios: Sequence[tuple[Path, Scenario]], replicators: Sequence[Replicator], seeds: Sequence[int]
) -> tuple[Wanted, ...]:
    """Return the runs: every scenario with every seed by every replicator that it is for, those to compare together."""
    return tuple(
        Wanted(file, scenario, plan_run(scenario, replicator, seed))
        for file, scenario in scenarios
        for seed in seeds
        for replicator in replicators
        if replicator in scenario.replicators
    )


def run_series(series: Series, wanted: Sequence[Wanted], *, parallel: int, display: Display) -> tuple[RunOutcome, ...]:
    """Perform the runs that have no verdict yet, so many side by side; return all outcomes, in the order of ``wanted``.

    One that is UNKNOWN proves nothing and is performed again. What a run that was interrupted has left behind is moved
    aside.
    """
    display.count("series", len(wanted))
    outcomes = {each.plan.name: found for each in wanted if (found := series.outcome(each.plan)) and found.is_proof}
    for each in wanted:
        if each.plan.name in outcomes:
            _show_end(display, outcomes[each.plan.name], each, "done before")
    left = [each for each in wanted if each.plan.name not in outcomes]
    judges = _start_judges(series) if left else None
    try:
        with ThreadPoolExecutor(max(1, parallel)) as pool:
            running: set[Future[RunOutcome]] = set()
            names = {}
            try:
                for each in left:
                    future = pool.submit(_shown, series, each, display)
                    running.add(future)
                    names[future] = each.plan.name
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    outcomes |= {names[future]: future.result() for future in done}
                    write_results(series.results, list(outcomes.values()))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                processes.end(processes.running(series.logs, "run-"), timeout_seconds=_STOP_SECONDS)
                raise
    finally:
        if judges is not None:
            processes.end([judges], timeout_seconds=_STOP_SECONDS)
    return tuple(outcomes[each.plan.name] for each in wanted)


def write_results(path: Path, outcomes: Sequence[RunOutcome]) -> None:
    """Write the outcomes of several runs into one file."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.key)
    write_json(path, {"runs": [outcome.as_json() for outcome in ordered]})


def read_results(path: Path) -> tuple[RunOutcome, ...]:
    """Read a file of outcomes.

    Raises
    ------
    FactError
        naming the file, if it is none.
    """
    runs = read_json(path).get("runs", list[dict[str, Any]]) or ()
    return tuple(RunOutcome.from_json(Facts(each, f"{path.name} runs[{at}]")) for at, each in enumerate(runs))


def _problems(folder: RunFolder) -> list[str]:
    """Return why a verdict is not what the run has come to."""
    reading = with_end(folder.seal, folder.journal)
    if reading.problem is not None:
        return [reading.problem]
    if not is_finished(folder.seal, reading) or folder.verdict.name not in seals(reading.entries):
        return [f"{folder.journal.path.name} does not say that the run was finished"]
    return [str(each) for each in touched(folder.path, reading.entries)]


def _start_judges(series: Series) -> ManagedProcess:
    address = _address(series)
    address.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "mirror.proof.service", str(address)]
    process = processes.start(series.logs, _JUDGES, argv, owner_pid=os.getpid())
    wait_until(lambda: address.exists() or not process.is_alive(), "the judges to listen", timeout_seconds=math.inf)
    return process


def _address(series: Series) -> Path:
    return series.logs / "judges-address.txt"


def _shown(series: Series, wanted: Wanted, display: Display) -> RunOutcome:
    outcome = _perform(series, wanted, partial(display.at, wanted.plan.name))
    _show_end(display, outcome, wanted, f"{outcome.seconds:.0f} s")
    return outcome


def _show_end(display: Display, outcome: RunOutcome, wanted: Wanted, how: str) -> None:
    style = VERDICT_STYLES[Verdict.PASS if outcome.is_as_expected else outcome.verdict]
    display.end(wanted.plan.name, (outcome.verdict.value, style), (f", {how}", "dim"))


def _perform(series: Series, wanted: Wanted, on_progress: Callable[[str], None]) -> RunOutcome:
    plan, folder = wanted.plan, series.folder(wanted.plan)
    _set_aside(folder.path)
    argv = [sys.executable, "-m", "mirror.scenario.perform", str(wanted.file), plan.replicator.value, str(plan.seed)]
    argv += [str(folder.path), str(_address(series))]
    if any(site.disk_megabytes is not None for site in wanted.scenario.sites):
        argv = [*PRIVATE_MOUNTS, *argv]
    name = f"run-{plan.name}"
    process = processes.start(series.logs, name, argv, owner_pid=os.getpid())
    shown = ""

    def is_over() -> bool:
        nonlocal shown
        alive = process.is_alive()
        latest = process.log_tail(1)
        if latest != shown:
            shown = latest
            on_progress(latest)
        return not alive

    try:
        wait_until(is_over, f"{plan.name} to end", timeout_seconds=_LONGEST_RUN_SECONDS)
    except WaitTimeout as late:
        processes.end([process], timeout_seconds=_STOP_SECONDS)
        return _unknown(wanted, str(late))
    try:
        outcome = series.outcome(plan)
    except FactError as problem:
        return _unknown(wanted, str(problem))
    if outcome is None:
        tail = process.log_tail(3).replace("\n", " / ")
        outcome = _unknown(wanted, f"the run ended without a verdict; it said last: {tail}")
    return outcome


def _unknown(wanted: Wanted, reason: str) -> RunOutcome:
    plan, scenario = wanted.plan, wanted.scenario
    return unknown(scenario.name, plan.replicator, plan.seed, [reason], must_fail=scenario.must_fail)


def _set_aside(path: Path) -> None:
    """Move what an interrupted run has left out of the way: it is evidence of something, though not of a verdict."""
    if not path.exists():
        return
    attempt = 1
    while (aside := path.with_name(f"{path.name}.interrupted-{attempt}")).exists():
        attempt += 1
    path.rename(aside)
