"""What a run has left behind is sealed in its journal, and the journal's end beside it: whoever touches either is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.drill.gates import JournalIntact
from mirror.drill.judgement import judge
from mirror.drill.run_record import RunStatus, step_settings
from mirror.drill.runner import ResumeRefused, _verdicts, resume_run
from mirror.evidence.digests import seal_of, seal_of_text
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory, write_json
from mirror.evidence.run_evidence import read_evidence
from mirror.evidence.run_model import RunSettings
from mirror.evidence.seals import (
    Wrong,
    broken,
    is_finished,
    outside_the_ledger,
    read_sealed,
    seal_end,
    seal_files,
    seals,
)
from mirror.model.verdict import Verdict
from tests.unit.drill.builders import Told, conclude, loaded, runbook, step, write_notebook
from tests.unit.drill.synthetic_run import STARTED_AT

BOOK = runbook(step("one"), step("two"))
SAMPLE = {"at_ms": 17, "flow": "a->b", "topic": "t", "partition": 0, "lag_records": None, "lag_seconds": None}
PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run of two steps that was finished; the second has failed."""
    run = RunDirectory.create(tmp_path / "runs", "tiny", started_at=STARTED_AT)
    steps = tuple(step_settings(each) for each in BOOK.steps)
    write_json(run.run_json, RunSettings("tiny", "Tiny", "", STARTED_AT, {}, {}, {}, steps).as_json())
    run.journal.append(Event.RUN_STARTED)
    seal_files(run, [run.run_json])
    attempt(run, "one", PASS)
    attempt(run, "two", FAIL)
    end(run)
    return run


def attempt(run: RunDirectory, name: str, verdict: Verdict) -> None:
    """Do what a runner does with a step."""
    run.journal.append(Event.STEP_STARTED, step=name)
    notebook = run.notebooks / f"{name}.ipynb"
    for earlier in (run.outcome_path(name), notebook):
        run.set_aside(earlier)
    run.write_outcome(Outcome(name, verdict))
    notebook.write_text(f"the notebook of {name}, {verdict}")
    part(run, name).parent.mkdir(exist_ok=True)
    part(run, name).write_text(f"sent in {name}")
    seal_files(run, [notebook], step=name)
    run.journal.append(Event.STEP_FINISHED, step=name)


def end(run: RunDirectory) -> None:
    run.lag.write_text(json.dumps(SAMPLE) + "\n")
    seal_files(run, [run.lag])
    seal_end(run.seal, run.journal.append(Event.RUN_FINISHED))


def part(run: RunDirectory, name: str) -> Path:
    return run.ledger / "sends" / f"{name}-0.parquet"


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def resume(run: RunDirectory, tmp_path: Path) -> None:
    """Go on with it; nothing is run where that is refused."""
    for name in ("one", "two"):
        write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", conclude(name))
    resume_run(run, loaded(BOOK, tmp_path / "notebooks"), Told())


TOUCHES: dict[str, tuple[Callable[[RunDirectory], object], str]] = {
    "an outcome edited to PASS": (
        lambda run: replaced(run.outcome_path("two"), "FAIL", "PASS"),
        "evidence altered: outcomes/two.json",
    ),
    "a notebook": (
        lambda run: replaced(run.notebooks / "one.ipynb", "one", "two"),
        "evidence altered: notebooks/one.ipynb",
    ),
    "a notebook removed": (lambda run: (run.notebooks / "one.ipynb").unlink(), "evidence missing: notebooks/one.ipynb"),
    "a part of the ledger": (
        lambda run: replaced(part(run, "one"), "sent", "Sent"),
        "evidence altered: ledger/sends/one-0.parquet",
    ),
    "a part of the ledger removed": (
        lambda run: part(run, "two").unlink(),
        "evidence missing: ledger/sends/two-0.parquet",
    ),
    "a part of the ledger longer": (
        lambda run: part(run, "two").write_text("sent in two, and more"),
        "evidence altered: ledger/sends/two-0.parquet",
    ),
    "a part of the ledger added": (
        lambda run: part(run, "three").write_text("sent in three"),
        "evidence not in the journal: ledger/sends/three-0.parquet",
    ),
    "what was started": (lambda run: replaced(run.run_json, "Tiny", "Tidy"), "evidence altered: run.json"),
    "a sample of lag": (lambda run: replaced(run.lag, "17", "18"), "evidence altered: lag.jsonl"),
}


@pytest.mark.parametrize(("touch", "said"), TOUCHES.values(), ids=TOUCHES.keys())
def test_whoever_touches_the_evidence_is_named_and_the_run_is_neither_believed_nor_resumed(
    run: RunDirectory, tmp_path: Path, touch: Callable[[RunDirectory], object], said: str
) -> None:
    assert (broken(run, run.journal.read().entries), read_sealed(run).problem) == ((), None)
    touch(run)

    assert [str(each) for each in broken(run, run.journal.read().entries)] == [said]
    judgement = judge(read_evidence(run))
    assert judgement.verdict in {FAIL, UNKNOWN}
    assert any(said in reason for reason in judgement.reasons)
    with pytest.raises(ResumeRefused, match=said):
        resume(run, tmp_path)
    gate = JournalIntact().check(run)
    assert (gate.verdict is PASS) is said.endswith("parquet"), "gates look at all but the ledger"


def swapped(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    assert first != second
    one.write_bytes(second)
    other.write_bytes(first)


def with_journal_of(run: RunDirectory, other: RunDirectory) -> None:
    run.journal.path.write_bytes(other.journal.path.read_bytes())


def with_seal_of(run: RunDirectory, other: RunDirectory) -> None:
    with_journal_of(run, other)
    run.seal.write_bytes(other.seal.read_bytes())


EXCHANGES: dict[str, tuple[Callable[[RunDirectory, RunDirectory], object], str]] = {
    "two outcomes swapped": (
        lambda run, _: swapped(run.outcome_path("one"), run.outcome_path("two")),
        "evidence altered: outcomes/one.json",
    ),
    "two notebooks swapped": (
        lambda run, _: swapped(run.notebooks / "one.ipynb", run.notebooks / "two.ipynb"),
        "evidence altered: notebooks/two.ipynb",
    ),
    "two parts of the ledger swapped": (
        lambda run, _: swapped(part(run, "one"), part(run, "two")),
        "evidence altered: ledger/sends/one-0.parquet",
    ),
    "the journal of another run": (with_journal_of, "the journal is not intact"),
    "the journal of another run, with its seal": (with_seal_of, "evidence altered: run.json"),
    "no journal": (lambda run, _: run.journal.path.unlink(), "journal.jsonl"),
    "no seal": (lambda run, _: run.seal.unlink(), "the run has not come to its end"),
    "a seal of a shorter journal": (
        lambda run, _: seal_end(run.seal, run.journal.read().entries[-2]),
        "the run has not come to its end",
    ),
    "a seal that is none": (lambda run, _: run.seal.write_text("{"), "seal.json cannot be read"),
}


@pytest.mark.parametrize(("exchange", "said"), EXCHANGES.values(), ids=EXCHANGES.keys())
def test_a_run_that_passed_does_not_with_anything_exchanged(
    run: RunDirectory, tmp_path: Path, exchange: Callable[[RunDirectory, RunDirectory], object], said: str
) -> None:
    other = RunDirectory.create(tmp_path / "others", "tiny", started_at=STARTED_AT)
    steps = tuple(step_settings(each) for each in BOOK.steps)
    write_json(other.run_json, RunSettings("tiny", "Another", "", STARTED_AT, {}, {}, {}, steps).as_json())
    other.journal.append(Event.RUN_STARTED)
    seal_files(other, [other.run_json])
    for name in ("one", "two", "two"):
        attempt(other, name, PASS)
    end(other)
    attempt(run, "two", PASS)
    end(run)
    assert judge(read_evidence(run)).verdict is PASS
    exchange(run, other)

    judgement = judge(read_evidence(run))
    assert judgement.verdict in {FAIL, UNKNOWN}
    assert any(said in reason for reason in judgement.reasons), judgement.reasons


def test_an_outcome_that_no_step_has_written_is_not_believed(run: RunDirectory) -> None:
    write_json(run.outcomes / "three.json", Outcome("three", PASS).as_json())

    assert [str(each) for each in broken(run, run.journal.read().entries)] == [
        "evidence not in the journal: outcomes/three.json"
    ]


def test_samples_of_lag_that_came_when_the_run_was_over_are_not_believed(run: RunDirectory) -> None:
    samples = run.lag.read_text()
    run.lag.unlink()
    found = [each for each in run.journal.path.read_text().splitlines() if "lag.jsonl" not in each]
    run.journal.path.unlink()
    for entry in map(json.loads, found):
        run.journal.append(Event(entry["event"]), step=entry["step"], facts=entry["facts"])
    assert broken(run, run.journal.read().entries) == ()
    run.lag.write_text(samples)
    assert [str(each) for each in broken(run, run.journal.read().entries)] == ["evidence not in the journal: lag.jsonl"]


@pytest.mark.parametrize("status", [RunStatus.STOPPED, RunStatus.INTERRUPTED])
def test_applications_that_outlive_a_run_that_was_stopped_may_write_their_last_parts(
    run: RunDirectory, status: RunStatus
) -> None:
    seal_end(run.seal, run.journal.append(Event.RUN_FINISHED, facts={"status": status.value}))
    part(run, "three").write_text("sent in three")
    assert broken(run, run.journal.read().entries) == ()

    seal_end(run.seal, run.journal.append(Event.RUN_FINISHED, facts={"status": RunStatus.COMPLETED.value}))
    (wrong,) = broken(run, run.journal.read().entries)
    assert (wrong.file, wrong.wrong) == ("ledger/sends/three-0.parquet", Wrong.UNSEALED)


def test_what_is_sealed_as_an_end_and_is_none_does_not_end_a_run(run: RunDirectory) -> None:
    """A step of it may have been told last; whoever reads it takes it for complete."""
    assert is_finished(run.seal, read_sealed(run))
    seal_end(run.seal, run.journal.append(Event.NOTE))
    reading = read_sealed(run)
    assert (reading.problem, is_finished(run.seal, reading)) == (None, False)


def test_an_outcome_of_an_earlier_attempt_put_back_is_not_believed(run: RunDirectory) -> None:
    attempt(run, "one", FAIL)
    (run.outcomes / "earlier" / "one-1.json").replace(run.outcome_path("one"))
    (wrong,) = broken(run, run.journal.read().entries)

    assert (wrong.file, wrong.wrong) == ("outcomes/one.json", Wrong.STALE)


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_tail_that_was_cut_off_a_finished_run_is_noticed(run: RunDirectory, tmp_path: Path, cut: int) -> None:
    lines = run.journal.path.read_text().splitlines(keepends=True)
    run.journal.path.write_text("".join(lines[:-cut]))
    said = f"journal.jsonl has lost its end: it had {len(lines)} entries, and has {len(lines) - cut}"

    assert run.journal.read().problem is None, "the chain that is left is whole in itself"
    assert read_sealed(run).problem == said
    assert JournalIntact().check(run).observed == said
    assert any(said in reason for reason in judge(read_evidence(run)).reasons)
    with pytest.raises(ResumeRefused, match="has lost its end"):
        resume(run, tmp_path)


def test_a_tail_that_was_written_anew_is_noticed(run: RunDirectory) -> None:
    lines = run.journal.path.read_text().splitlines(keepends=True)
    run.journal.path.write_text("".join(lines[:-1]))
    run.journal.append(Event.RUN_FINISHED, facts={"verdict": "PASS"})

    assert read_sealed(run).problem == (
        f"journal.jsonl was rewritten: entry {len(lines)} is not the one that it ended with"
    )


def test_a_run_that_goes_on_after_its_end_is_whole_and_not_over(run: RunDirectory) -> None:
    run.journal.append(Event.RUN_RESUMED)
    reading = read_sealed(run)

    assert (reading.problem, is_finished(run.seal, reading)) == (None, False)
    assert "the run has not come to its end" in judge(read_evidence(run)).reasons
    attempt(run, "two", PASS)
    end(run)
    assert judge(read_evidence(run)).verdict is PASS


def killed_before_the_outcome(run: RunDirectory) -> None:
    """The outcome is sealed, and not written."""
    run.journal.append(Event.STEP_STARTED, step="two")
    run.set_aside(run.outcome_path("two"))
    run.journal.append(
        Event.EVIDENCE_SEALED, step="two", facts={"files": {"outcomes/two.json": seal_of_text("something")}}
    )


def killed_before_it_was_made_worse(run: RunDirectory) -> None:
    """What the notebook wrote is there, and what the runner knows better is sealed."""
    run.journal.append(Event.STEP_STARTED, step="two")
    run.set_aside(run.outcome_path("two"))
    run.write_outcome(Outcome("two", PASS))
    run.journal.append(
        Event.EVIDENCE_SEALED, step="two", facts={"files": {"outcomes/two.json": seal_of_text("something")}}
    )


def killed_in_a_notebook(run: RunDirectory) -> None:
    """The notebook is written cell by cell."""
    run.journal.append(Event.STEP_STARTED, step="two")
    for earlier in (run.outcome_path("two"), run.notebooks / "two.ipynb"):
        run.set_aside(earlier)
    (run.notebooks / "two.ipynb").write_text("half of it")


def killed_when_a_step_had_begun(run: RunDirectory) -> None:
    """Nothing is set aside yet."""
    run.journal.append(Event.STEP_STARTED, step="two")


def killed_in_a_line(run: RunDirectory) -> None:
    with run.journal.path.open("a") as file:
        file.write('{"at":"2026-')


def killed_before_the_end_was_sealed(run: RunDirectory) -> None:
    """Every step is there, and passed now."""
    attempt(run, "two", PASS)
    run.journal.append(Event.RUN_FINISHED)


@pytest.mark.parametrize(
    "kill",
    [
        killed_before_the_outcome,
        killed_before_it_was_made_worse,
        killed_in_a_notebook,
        killed_when_a_step_had_begun,
        killed_in_a_line,
        killed_before_the_end_was_sealed,
    ],
)
@pytest.mark.parametrize("was_finished_before", [True, False])
def test_a_run_that_was_killed_can_be_resumed_and_what_it_had_not_finished_is_run_again(
    run: RunDirectory, kill: Callable[[RunDirectory], object], was_finished_before: bool
) -> None:
    if not was_finished_before:
        run.seal.unlink()
    kill(run)
    reading = read_sealed(run)
    touched = [each for each in broken(run, reading.entries) if each.wrong is Wrong.ALTERED]

    assert (reading.problem, touched) == (None, [])
    assert _verdicts(run, BOOK, reading).get("one") is PASS
    assert (_verdicts(run, BOOK, reading).get("two") is PASS) is (kill is killed_before_the_end_was_sealed)
    assert judge(read_evidence(run)).verdict is not PASS


def test_parts_of_the_ledger_are_sealed_once_and_those_that_are_not_complete_are_not(run: RunDirectory) -> None:
    (run.ledger / "sends" / ".three-0.parquet.unfinished").write_text("half")
    part(run, "three").write_text("sent later")
    seal_files(run, [])
    seal_files(run, [])
    files = [entry.facts["files"] for entry in run.journal.read().entries if entry.event is Event.EVIDENCE_SEALED]

    assert files[-1] == {"ledger/sends/three-0.parquet": seal_of_text("sent later")}
    named = [name for each in files for name in (each if isinstance(each, dict) else {})]
    assert len([name for name in named if not outside_the_ledger(name)]) == 3


def test_a_rerun_voids_what_a_step_has_sealed_but_for_the_ledger(run: RunDirectory) -> None:
    run.journal.append(Event.STEP_STARTED, step="one")
    known = seals(run.journal.read().entries)

    assert known["notebooks/one.ipynb"].current is None
    assert known["notebooks/two.ipynb"].current is not None
    assert known["ledger/sends/one-0.parquet"].current is not None


def test_a_file_stays_with_the_step_that_made_it(run: RunDirectory) -> None:
    """The first step, run again, writes its file anew: that is no other's."""
    run.mirror_properties.write_text("clusters = a, b")
    for name in ("one", "two"):
        run.journal.append(Event.STEP_STARTED, step=name)
        seal_files(run, [run.mirror_properties], step=name)
    run.journal.append(Event.STEP_STARTED, step="one")
    run.mirror_properties.write_text("clusters = a, c")

    assert "mirror.properties" not in {each.file for each in broken(run, run.journal.read().entries)}


def test_samples_that_come_after_the_end_change_nothing_that_was_sealed(run: RunDirectory) -> None:
    with run.lag.open("a") as file:
        file.write("another\n")

    assert broken(run, run.journal.read().entries) == ()


def test_a_large_file_is_read_in_pieces_and_counted_whole(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_text("x" * 3_000_001)

    assert seal_of(path) == seal_of_text("x" * 3_000_001)
    assert seal_of(path, 2_000_000) == seal_of_text("x" * 2_000_000)
