"""Notebooks that a person runs: which run they take up, what they refuse, and what the person is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from IPython.core.error import StdinNotImplementedError

from mirror.drill import interactive
from mirror.drill.interactive import Interactive, NoRun, NotConfirmed, take_up
from mirror.drill.runbook import ParameterRefused
from mirror.drill.unattended import UNATTENDED_VARIABLE
from mirror.evidence.journal import Event, Journal
from mirror.evidence.outcome import Outcome, StepNotPassed
from mirror.evidence.run_directory import RunInUse
from mirror.evidence.run_model import ParameterValue
from mirror.lab import holder
from mirror.model.verdict import Verdict


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs are made; their holders are no processes here, but names in a list."""
    held: set[Path] = set()
    monkeypatch.setenv(UNATTENDED_VARIABLE, "")
    monkeypatch.setattr(holder, "hold", held.add)
    monkeypatch.setattr(holder, "release", held.discard)
    monkeypatch.setattr(holder, "held", lambda _: sorted(held))
    return tmp_path / "runs"


def passed(runs: Path, *steps: str) -> Interactive:
    """Take these steps by hand; return the last."""
    for step in steps:
        taken = take_up(step, runs=runs)
        taken.conclude(Outcome(step, Verdict.PASS))
    return taken


def typing(word: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a person type a word whenever asked; return the questions."""
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or word)
    return asked


def test_the_first_notebook_makes_a_run_and_the_others_take_it_up(runs: Path) -> None:
    first = take_up("setup", runs=runs)
    first.conclude(Outcome("setup", Verdict.PASS))
    second = take_up("mirror", runs=runs)

    assert second.run == first.run
    assert f"This is the run {first.run.name}" in second.run_message
    assert f"mirror lab down --run {first.run.path}" in second.run_message
    assert [path.name for path in runs.iterdir()] == [first.run.name]
    assert first.run.journal.read().problem is None


def test_a_run_about_clusters_of_ones_own_says_what_becomes_of_it(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:1\nwest.bootstrap.servers = w:1\neast->west.enabled = true\n"
    )
    given: dict[str, ParameterValue] = {"properties_file": str(file), "flow": "east->west", "practice": False}
    taken = take_up("readiness_review", runbook="readiness-review", given=given, runs=runs)
    assert "nothing of it goes on running between cells" in taken.run_message
    assert f"mirror runbook resume {taken.run.path}" in taken.run_message


def test_a_run_that_has_begun_to_move_applications_is_taken_up_also_when_it_was_abandoned(
    runs: Path, tmp_path: Path
) -> None:
    """Nothing of it has ended with its holder, and a new run would be refused because of it."""
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:1\nwest.bootstrap.servers = w:1\neast->west.enabled = true\n"
    )
    given: dict[str, ParameterValue] = {"properties_file": str(file), "flow": "east->west", "practice": False}

    def taken(**more: ParameterValue) -> Interactive:
        return take_up("planned_failover", runbook="planned-failover", given=given | more, runs=runs)

    looked = taken()
    holder.release(looked.run.path)
    begun = taken()
    assert begun.run != looked.run, "of that one nothing is left anywhere"
    procedure = begun.run.path / "failover"
    procedure.mkdir()
    Journal(procedure / "journal.jsonl").append(Event.STEP_STARTED, step="begin")
    holder.release(begun.run.path)
    assert taken().run == begun.run
    holder.release(begun.run.path)
    assert taken(groups="audit").run != begun.run, "it is about something else"


def test_the_first_notebook_run_again_takes_up_its_own_run(runs: Path) -> None:
    assert take_up("setup", runs=runs).run == take_up("setup", runs=runs).run


def test_without_a_run_a_later_notebook_says_which_comes_first(runs: Path) -> None:
    with pytest.raises(NoRun, match=r"no practice run is under way in .*: run 10_setup.ipynb first"):
        take_up("mirror", runs=runs)


def test_a_run_that_was_ended_is_not_taken_up(runs: Path) -> None:
    ended = take_up("setup", runs=runs).run
    holder.release(ended.path)

    assert take_up("setup", runs=runs).run != ended


def test_a_notebook_whose_gates_are_shut_is_refused_with_what_was_seen(runs: Path) -> None:
    take_up("setup", runs=runs)
    with pytest.raises(NoRun, match="setup has not been run"):
        take_up("mirror", runs=runs)


def test_a_run_that_a_runner_is_at_work_in_is_left_alone(runs: Path) -> None:
    run = passed(runs, "setup").run
    with run.owned(), pytest.raises(RunInUse):
        take_up("mirror", runs=runs)


def test_the_point_of_no_return_is_crossed_by_a_typed_word(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed(runs, "setup", "mirror", "verify")
    step = take_up("failover_drill", runs=runs)
    asked = typing("yes", monkeypatch)
    with pytest.raises(NotConfirmed, match="west was not typed: nothing was done"):
        step.confirm("west", "Every broker is killed.")
    assert "Every broker is killed." in asked[0]
    assert Event.POINT_OF_NO_RETURN not in {entry.event for entry in step.run.journal.read().entries}

    typing(" west ", monkeypatch)
    step.confirm("west", "Every broker is killed.")
    assert Event.POINT_OF_NO_RETURN in {entry.event for entry in step.run.journal.read().entries}
    asked = typing("west", monkeypatch)
    step.confirm("west", "Every broker is killed.")
    assert asked == []

    # Of a procedure that was interrupted before that, or was never begun, whoever goes on may be somebody else.
    asked = typing("no", monkeypatch)
    with pytest.raises(NotConfirmed, match="nothing was done"):
        step.confirm("west", "Every broker is killed.", is_begun=False)
    assert len(asked) == 1


def test_a_front_end_without_input_is_told_what_to_use(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed(runs, "setup", "mirror", "verify")
    step = take_up("failover_drill", runs=runs)

    def without_input(_: str) -> str:
        raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")

    monkeypatch.setattr("builtins.input", without_input)
    with pytest.raises(NotConfirmed, match="takes no input, so nothing was done: run the notebook in JupyterLab"):
        step.confirm("west", "Every broker is killed.")
    assert Event.POINT_OF_NO_RETURN not in {entry.event for entry in step.run.journal.read().entries}


def test_nobody_is_asked_where_nobody_is_there(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed(runs, "setup", "mirror", "verify")
    step = take_up("failover_drill", runs=runs)
    monkeypatch.setenv(UNATTENDED_VARIABLE, "1")
    asked = typing("", monkeypatch)
    step.confirm("west", "Every broker is killed.")
    assert asked == []
    assert Event.POINT_OF_NO_RETURN in {entry.event for entry in step.run.journal.read().entries}


@pytest.mark.parametrize("step", ["setup", "mirror", "verify", "failover_drill"])
def test_behind_the_point_of_no_return_nothing_before_it_is_taken_again(
    runs: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNATTENDED_VARIABLE, "1")
    passed(runs, "setup", "mirror", "verify")
    crossing = take_up("failover_drill", runs=runs)
    crossing.confirm("west", "")
    crossing.conclude(Outcome("failover_drill", Verdict.PASS))

    with pytest.raises(NoRun, match=r"is past its point of no return \(failover_drill\)"):
        take_up(step, runs=runs)
    assert take_up("failback", runs=runs).run == crossing.run


def test_a_step_that_crossed_and_did_not_pass_can_be_taken_again(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNATTENDED_VARIABLE, "1")
    passed(runs, "setup", "mirror", "verify")
    crossing = take_up("failover_drill", runs=runs)
    crossing.confirm("west", "")
    with pytest.raises(StepNotPassed, match="step failover_drill: FAIL: too slow"):
        crossing.conclude(Outcome("failover_drill", Verdict.FAIL, reasons=("too slow",)))

    assert take_up("failover_drill", runs=runs).run == crossing.run
    assert not crossing.run.outcome_path("failover_drill").exists()


def test_a_notebook_begins_with_the_plan_and_ends_with_its_verdict_and_the_way_on(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(interactive, "display", lambda what: shown.append(what._repr_html_()))
    passed(runs, "setup")
    step = take_up("mirror", runs=runs)
    shown.clear()
    step.introduce()
    told, plan = shown
    assert step.run.name in told
    rows = plan.split("<tr>")[2:]
    assert ["PASS" in row for row in rows] == [True, False, False, False, False]
    assert ["this notebook" in row for row in rows] == [False, True, False, False, False]
    assert ["not run" in row for row in rows] == [False, False, True, True, True]
    assert ["point of no return" in row for row in rows] == [False, False, False, True, False]
    assert "<a href='10_setup.ipynb'>" in rows[0]

    shown.clear()
    step.conclude(Outcome("mirror", Verdict.PASS, reasons=("no record waits for > 1 s",)))
    assert shown[0].endswith("<strong>PASS</strong><ul><li>no record waits for &gt; 1 s</li></ul></div>")
    assert "Next: <a href='30_verify.ipynb'>" in shown[1]


def test_the_last_notebook_ends_the_run_and_writes_its_report(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(UNATTENDED_VARIABLE, "1")
    last = passed(runs, "setup", "mirror", "verify", "failover_drill", "failback")

    assert interactive.under_way(runs) is None
    assert f"report {last.run.report}" in capsys.readouterr().out
    assert last.run.report.exists()
    assert last.run.journal.read().entries[-1].event is Event.RUN_FINISHED


def test_a_runbook_of_a_flow_is_taken_up_with_the_values_it_was_begun_with(runs: Path) -> None:
    values: dict[str, ParameterValue] = {"practice": True}
    first = take_up("unplanned_failover", runbook="unplanned-failover", given=values, runs=runs)
    assert take_up("unplanned_failover", runbook="unplanned-failover", given=values, runs=runs).run == first.run
    with pytest.raises(NoRun, match="is under way with other parameters"):
        take_up("unplanned_failover", runbook="unplanned-failover", given={**values, "groups": "billing"}, runs=runs)
    other = take_up("readiness_review", runbook="readiness-review", given=values, runs=runs)
    assert other.run != first.run
    with pytest.raises(NoRun, match="no practice run is under way"):
        take_up("mirror", runs=runs)
    with pytest.raises(ParameterRefused, match="properties_file is missing"):
        take_up("failback", runbook="failback", given={"practice": False}, runs=runs)


def test_a_cell_counts_as_use_from_its_beginning_to_its_end(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for long, and then ends, has not been left alone since it began."""
    registered: dict[str, Callable[[object], object]] = {}

    class Shell:
        class events:  # noqa: N801  # as IPython has it
            register = registered.__setitem__

    used: list[Path] = []
    monkeypatch.setattr(interactive, "get_ipython", Shell)
    monkeypatch.setattr(holder, "use", used.append)
    interactive.keep_in_use(runs)
    for moment in ("pre_run_cell", "post_run_cell"):
        registered[moment](None)
    assert used == [runs, runs]
