"""Notebooks in real kernels: the verdict is the one written, anything else is UNKNOWN, and the evidence is always there."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest

from mirror.drill.catalogue import LoadedRunbook
from mirror.drill.gates import StepsPassed
from mirror.drill.notebook import NotebookRefused, NotebookResult, run_notebook
from mirror.drill.report import write_report
from mirror.drill.runbook import Decision
from mirror.drill.runner import ResumeRefused, RunStatus, resume_run, start_run
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory, write_json
from mirror.evidence.run_evidence import read_evidence
from mirror.model.verdict import Verdict
from tests.unit.drill.builders import Told, conclude, loaded, runbook, step, write_notebook

pytestmark = pytest.mark.notebook

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(tmp_path / "runs", "tiny")
    write_json(run.run_json, {})
    return run


def executed(run: RunDirectory, tmp_path: Path, *code: str, budget_seconds: float = 60.0) -> NotebookResult:
    """Run a notebook of the given cells as the step ``tiny``."""
    source = write_notebook(tmp_path / "notebooks" / "tiny.ipynb", *code)
    return run_notebook(source, run, "tiny", {}, budget_seconds=budget_seconds)


#: The control channel answers the request to shut down when the process ends, if it does before that is answered. What
#: runs then is written to a file.
LATE_CONTROL_CHANNEL = """
import atexit, pathlib, threading

kernel, ends = get_ipython().kernel, threading.Event()
publish = kernel._publish_status_and_flush

def late(*args):
    if kernel._shutdown_message:
        ends.wait(0.5)
    publish(*args)

def end():
    pathlib.Path("threads").write_text(" ".join(each.name for each in threading.enumerate()))
    ends.set()

kernel._publish_status_and_flush = late
atexit.register(end)
"""


def outputs(path: Path) -> str:
    """All that an executed notebook's cells printed."""
    notebook = nbformat.read(path, as_version=4)
    return "".join(
        output.get("text", "") for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    )


def test_a_kernel_answers_the_request_to_shut_down_before_its_process_ends(run: RunDirectory, tmp_path: Path) -> None:
    """Otherwise the answer may wait for a thread that has ended, until the process is killed."""
    executed(run, tmp_path, LATE_CONTROL_CHANNEL)

    threads = (run.path / "threads").read_text().split()
    assert "IOPub" in threads
    assert "Control" not in threads


def test_a_notebook_that_passes(run: RunDirectory, tmp_path: Path) -> None:
    """Its kernel is this interpreter, runs in the run's directory and knows that nobody is there to be asked."""
    told = Told()
    asked = "import os, sys\nprint(sys.executable, os.getcwd(), os.environ['MIRROR_UNATTENDED'])"
    source = write_notebook(tmp_path / "notebooks" / "tiny.ipynb", asked, conclude("tiny"))

    result = run_notebook(source, run, "tiny", {}, budget_seconds=60.0, progress=told.cell_began)

    assert result.outcome.verdict is PASS
    assert result.outcome.facts == {"seen": 1}
    assert result.crash is None
    assert outputs(result.executed).split() == [sys.executable, str(run.path), "1"]
    assert next(each.heading for each in told.cells if each.heading.startswith("Part")) == "Part 1"
    assert {each.cells for each in told.cells} == {7}
    page = result.page.read_text(encoding="utf-8") if result.page else ""
    assert "Report of this run" in page
    assert "cdnjs" not in page
    assert "<script src" not in page


def test_a_notebook_that_says_fail_is_fail_and_not_a_crash(run: RunDirectory, tmp_path: Path) -> None:
    result = executed(run, tmp_path, conclude("tiny", "FAIL", "3 records are missing"), "print('never')")

    assert result.outcome.verdict is FAIL
    assert result.outcome.reasons == ("3 records are missing",)
    assert result.crash is None
    assert "never" not in outputs(result.executed)


def test_a_notebook_that_crashes_is_unknown_with_the_exception_s_words_and_place(
    run: RunDirectory, tmp_path: Path
) -> None:
    result = executed(run, tmp_path, "print('so far')", "raise OSError('broker 1 is gone')", conclude("tiny"))

    told = "crashed in cell 7 (Part 2): OSError: broker 1 is gone"
    assert result.outcome.verdict is UNKNOWN
    assert result.outcome.reasons == (told,)
    assert run.read_outcome("tiny") == result.outcome
    assert "so far" in outputs(result.executed)
    assert result.page is not None
    assert "broker 1 is gone" in result.page.read_text(encoding="utf-8")


def test_a_crash_after_a_written_pass_is_unknown_and_keeps_the_facts(run: RunDirectory, tmp_path: Path) -> None:
    result = executed(run, tmp_path, conclude("tiny"), "1 / 0")

    assert result.outcome.verdict is UNKNOWN
    assert result.outcome.facts == {"seen": 1}
    assert result.outcome.reasons[0].endswith("ZeroDivisionError: division by zero")
    assert run.read_outcome("tiny") == result.outcome


def test_a_notebook_without_an_outcome_is_unknown(run: RunDirectory, tmp_path: Path) -> None:
    assert executed(run, tmp_path, "1 + 1").outcome.reasons == ("ended without writing an outcome",)


def test_an_outcome_of_an_earlier_attempt_proves_nothing(run: RunDirectory, tmp_path: Path) -> None:
    assert executed(run, tmp_path, conclude("tiny")).outcome.verdict is PASS

    assert executed(run, tmp_path, "1 + 1").outcome.verdict is UNKNOWN
    assert [path.name for path in (run.outcomes / "earlier").iterdir()] == ["tiny-1.json"]
    assert sorted(path.name for path in (run.notebooks / "earlier").iterdir()) == ["tiny-1.html", "tiny-1.ipynb"]


def test_a_notebook_that_uses_up_its_budget_is_stopped_and_unknown(run: RunDirectory, tmp_path: Path) -> None:
    endless = "print('waiting', flush=True)\nwhile True: pass"
    result = executed(run, tmp_path, endless, conclude("tiny"), budget_seconds=4.0)

    assert result.outcome.verdict is UNKNOWN
    assert result.outcome.reasons == (
        "crashed in cell 5 (Part 1): BudgetExhausted: the step's budget of 4 s was used up",
    )
    assert "waiting" in outputs(result.executed)


def test_a_kernel_that_dies_leaves_the_step_unknown(run: RunDirectory, tmp_path: Path) -> None:
    result = executed(run, tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", conclude("tiny"))

    assert result.outcome.verdict is UNKNOWN
    assert "KernelDied" in result.outcome.reasons[0]
    assert result.executed.exists()


def tiny(tmp_path: Path, **code: tuple[str, ...]) -> LoadedRunbook:
    """A runbook of three steps, the second of no return; ``code`` replaces a step's cells."""
    names = ("one", "two", "three")
    for name in names:
        write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", *code.get(name, (conclude(name),)))
    book = runbook(
        step("one"), step("two", StepsPassed(("one",)), no_return=True), step("three", StepsPassed(("one", "two")))
    )
    return loaded(book, tmp_path / "notebooks")


def test_a_runbook_stops_at_the_first_step_that_does_not_pass_and_is_resumed_there(tmp_path: Path) -> None:
    told = Told()
    result = start_run(tiny(tmp_path, two=("raise OSError('east is gone')",)), {}, tmp_path / "runs", told)

    assert (result.status, result.verdict, result.exit_status) == (RunStatus.STOPPED, UNKNOWN, 1)
    assert told.lines == [
        "one:run two:run three:run",
        "began one",
        "ended one PASS",
        "no return two",
        "began two",
        "ended two UNKNOWN",
    ]
    assert result.reasons == ("Step two: crashed in cell 5 (Part 1): OSError: east is gone", "Step three: not run")
    assert "not proven" in write_report(result.run)[0].read_text(encoding="utf-8")

    told = Told()
    resumed = resume_run(RunDirectory.open(result.run.path), tiny(tmp_path), told)

    assert (resumed.status, resumed.verdict, resumed.exit_status) == (RunStatus.COMPLETED, PASS, 0)
    assert told.lines[0] == "one:skip two:run three:run"
    assert [item.decision for item in resumed.steps] == [Decision.SKIP, Decision.RUN, Decision.RUN]
    assert read_evidence(resumed.run).journal.problem is None
    events = [entry.event for entry in read_evidence(resumed.run).journal.entries]
    assert events.index(Event.POINT_OF_NO_RETURN) < events.index(Event.STEP_STARTED, events.index(Event.GATE_CHECKED))
    assert (resumed.run.notebooks / "earlier" / "two-1.ipynb").exists()


def test_a_point_of_no_return_that_is_not_confirmed_is_not_crossed(tmp_path: Path) -> None:
    result = start_run(tiny(tmp_path), {}, tmp_path / "runs", Told(), confirm=lambda _: False)

    assert result.verdict is UNKNOWN
    assert result.steps[-1].outcome.reasons == ("the point of no return was not confirmed",)
    assert Event.POINT_OF_NO_RETURN not in [entry.event for entry in result.run.journal.read().entries]


def test_nothing_is_started_when_any_notebook_would_be_refused(tmp_path: Path) -> None:
    """Better before the first step than in the middle of a failover."""
    book = tiny(tmp_path)
    write_notebook(tmp_path / "notebooks" / "three.ipynb", conclude("three"), tags=())

    with pytest.raises(NotebookRefused, match=r"three\.ipynb"):
        start_run(book, {}, tmp_path / "runs", Told())

    assert not (tmp_path / "runs").exists()


def test_an_altered_run_is_not_resumed(tmp_path: Path) -> None:
    result = start_run(tiny(tmp_path, one=("1 / 0",)), {}, tmp_path / "runs", Told())
    journal = result.run.journal.path
    journal.write_text(journal.read_text().replace("ZeroDivisionError", "ZeroMultiplication"))

    with pytest.raises(ResumeRefused, match=r"was altered: .*; an altered run is kept as it is"):
        resume_run(result.run, tiny(tmp_path), Told())
