"""A gate is open only where its condition was seen to hold: everything else keeps the step from beginning."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror.drill.gates import FreeSpace, GateResult, JournalIntact, StepsPassed
from mirror.drill.runner import start_run
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.seals import seal_files
from mirror.model.verdict import Verdict
from tests.unit.drill.builders import Told, conclude, loaded, runbook, step, write_notebook


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run in which the steps setup and mirror have passed."""
    run = RunDirectory.create(tmp_path, "tiny", started_at=datetime(2026, 3, 14, tzinfo=UTC))
    run.journal.append(Event.RUN_STARTED)
    for name in ("setup", "mirror"):
        run.journal.append(Event.STEP_STARTED, step=name)
        run.write_outcome(Outcome(name, Verdict.PASS))
    return run


def test_steps_that_have_all_passed_open_the_gate(run: RunDirectory) -> None:
    seen = StepsPassed(("setup", "mirror")).check(run)

    assert (seen.verdict, seen.observed) == (Verdict.PASS, "setup, mirror: PASS")


def damaged(text: str) -> Callable[[RunDirectory], object]:
    """What somebody has written in its place."""
    return lambda run: run.outcome_path("mirror").write_text(text)


def unreadable(run: RunDirectory) -> None:
    """Write, and seal, what is no outcome: as another version may."""
    text = '{"step": "mirror"}'
    run.outcome_path("mirror").write_text(text)
    seal_files(run, [run.outcome_path("mirror")], step="mirror")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: run.write_outcome(Outcome("mirror", Verdict.FAIL)), "mirror is FAIL"),
        (lambda run: run.write_outcome(Outcome("mirror", Verdict.UNKNOWN)), "mirror is UNKNOWN"),
        (lambda run: run.outcome_path("mirror").unlink(), "mirror has not been run"),
        (unreadable, "mirror has an unreadable outcome"),
        (damaged('{"step": "mirr'), "evidence altered: outcomes/mirror.json"),
        (
            damaged('{"step": "mirror", "verdict": "PASS", "reasons": [], "facts": {}}'),
            "evidence altered: outcomes/mirror.json",
        ),
        (lambda run: run.journal.append(Event.STEP_STARTED, step="mirror"), "evidence of an earlier attempt"),
    ],
    ids=["failed", "unknown", "not run", "unreadable", "torn", "altered", "stale"],
)
def test_a_step_that_is_not_known_to_have_passed_shuts_the_gate(
    run: RunDirectory, spoil: Callable[[RunDirectory], object], said: str
) -> None:
    """Wherever it stands among the others."""
    spoil(run)

    for steps in (("setup", "mirror"), ("mirror", "setup")):
        seen = StepsPassed(steps).check(run)
        assert seen.verdict is Verdict.FAIL
        assert said in seen.observed


def test_every_step_that_has_not_passed_is_named(run: RunDirectory) -> None:
    seen = StepsPassed(("setup", "verify", "failover")).check(run)

    assert seen.observed == "verify has not been run; failover has not been run"


def test_a_whole_journal_opens_the_gate(run: RunDirectory) -> None:
    seen = JournalIntact().check(run)

    assert (seen.verdict, seen.observed) == (Verdict.PASS, "5 entries, every hash matches")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text(path.read_text().replace("setup", "other")), "line 2 (entry 2, step_started)"),
        (lambda path: path.write_text(path.read_text().splitlines(keepends=True)[1]), "entry 1 is missing"),
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["altered", "a line removed", "emptied", "removed"],
)
def test_a_journal_that_does_not_hold_shuts_the_gate(
    run: RunDirectory, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(run.journal.path)
    seen = JournalIntact().check(run)

    assert seen.verdict is Verdict.FAIL
    assert said in seen.observed


@pytest.mark.parametrize(("free", "verdict"), [(2e9, Verdict.PASS), (1.999e9, Verdict.FAIL), (0, Verdict.FAIL)])
def test_as_much_space_as_is_asked_for_must_be_free(
    run: RunDirectory, free: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(total=9e9, used=0, free=free))

    assert FreeSpace(2).check(run).verdict is verdict


class ShutGate:
    """A gate that says no, does not know, or cannot be measured."""

    title = "east answers"

    def __init__(self, says: GateResult | Exception) -> None:
        self._says = says

    def check(self, run: RunDirectory) -> GateResult:
        """Say it, or break."""
        if isinstance(self._says, Exception):
            raise self._says
        return self._says


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (GateResult(Verdict.FAIL, "it does not"), "gate not met: east answers: it does not"),
        (GateResult(Verdict.UNKNOWN, "nobody looked"), "gate not met: east answers: nobody looked"),
        (TimeoutError("no answer"), "gate not met: east answers: could not be measured: TimeoutError: no answer"),
    ],
    ids=["failed", "unknown", "breaks"],
)
def test_a_step_behind_a_shut_gate_is_not_started(tmp_path: Path, says: GateResult | Exception, said: str) -> None:
    write_notebook(tmp_path / "notebooks" / "one.ipynb", conclude("one"))
    told = Told()
    book = loaded(runbook(step("one", ShutGate(says))), tmp_path / "notebooks")

    result = start_run(book, {}, tmp_path / "runs", told)

    assert result.verdict is Verdict.UNKNOWN
    assert result.steps[0].outcome.reasons == (said,)
    assert told.lines[1:] == ["ended one UNKNOWN"]
    assert list(result.run.notebooks.iterdir()) == []
