"""`mirror failover` and `mirror failback` as commands: what they print, ask, refuse, and take up."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mirror import asking, consent, terminal
from mirror.cli import app
from mirror.commands import failover
from mirror.control.groups import GroupAction
from mirror.kafka.problems import ClusterUnreachable
from mirror.model.failover import Phase
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.recovery import procedure
from mirror.recovery.applications import Answer, Applications, Nobody, NotDone, Unobserved
from mirror.recovery.group_moves import MovePlan, Unmoved
from mirror.recovery.move import Times
from mirror.recovery.recent_writers import RecentWriter, Writers
from tests.unit.recovery.world import EAST, HOME, ORDERS, THERE, WEST, Killed, StandInApplications, StandInEnds, World

# Before any test puts another one there.
_APPLICATIONS = failover._applications
SHAPE = ["verdict", "flow", "mode", "steps", "groups", "positions", "run_directory", "notes"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.properties"
    path.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\n"
        "east->west.enabled=true\nwest->east.enabled=true"
    )
    return path


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()

    def ends(_: object, chosen: Any, *__: object, **___: object) -> StandInEnds:
        return StandInEnds(made, chosen.flow)

    def applications(*_: object) -> Applications:
        return StandInApplications(made)

    monkeypatch.setattr(procedure, "_ends", ends)
    monkeypatch.setattr(failover, "_applications", applications)
    monkeypatch.setattr(procedure, "_TIMES", Times(quiet=0.0, fence=0.3, drain=0.3, seen=0.0))
    monkeypatch.chdir(tmp_path)
    return made


class Terminal(io.StringIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


def done(world: World, what: str, file: Path, *options: str) -> tuple[int, Any]:
    found = CliRunner().invoke(app, [what, str(file), "--flow", "east->west", *options])
    told = found.stdout if "--json" not in options or not found.stdout else json.loads(found.stdout)
    return found.exit_code, told if found.stdout else found.stderr


def names(told: Any) -> Sequence[str]:
    return [each["name"] for each in told["steps"]]


def test_topics_that_the_file_no_longer_selects_are_named_by_who_counts_what_is_missing(
    world: World, file: Path
) -> None:
    """A name that was mistyped in topics made all of it pass for copied."""
    world.deselected, world.at_work, world.paused = ("bills",), set(), {THERE.flow}
    found = CliRunner().invoke(app, ["stranded", str(file), "--flow", "east->west"])
    assert (found.exit_code, "verdict UNKNOWN" in found.stdout) == (1, True)
    words = "copied once, and no longer selected by topics of east->west, so that nothing of them is counted: bills"
    assert words in " ".join(found.stdout.split())
    code, told = done(world, "stranded", file, "--json")
    assert (code, told["verdict"], told["uncounted"]) == (1, "UNKNOWN", [words])
    world.written[EAST] += 2
    assert done(world, "stranded", file, "--json")[1]["verdict"] == "FAIL"
    world.paused = set()
    code, told = done(world, "failover", file, "--mode", "planned", "--dry-run")
    assert words in " ".join(told.split())


def test_a_defect_in_the_middle_of_a_run_says_where_the_applications_are_and_how_it_goes_on(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was a traceback alone, with the applications stopped."""

    def defect(*_: object) -> Any:
        raise IndexError("list index out of range")

    monkeypatch.setattr(StandInEnds, "open_transactions", defect)
    run = str(tmp_path / "run")
    options = ("--mode", "planned", "--run-directory", run, "--yes")
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", *options])
    assert isinstance(found.exception, IndexError)
    told = " ".join(found.stderr.split())
    assert "a defect of this program, shown below. The run stands where it is." in told
    assert "The applications on east are stopped, and started nowhere yet." in told
    assert f"--run-directory {run}" in told


def test_an_unplanned_run_whose_source_is_back_says_that_applications_are_stopped_and_gives_both_ways(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said how it goes on alone, and nobody wrote on either side."""
    world.is_up[EAST], world.at_work, run = False, set(), str(tmp_path / "run")
    monkeypatch.setattr(StandInEnds, "answering", lambda _: ["east:1"])
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", "--yes", "--run-directory", run])
    told = " ".join(found.stderr.split())
    assert "It stands at last look. The applications on east are stopped, and started nowhere yet." in told
    assert "To go on, or with --take-back to undo it (but for the applications: start them on east yourself):" in told


def test_the_plan_of_a_run_that_has_begun_says_what_it_has_done_already(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--mode", "planned", "--run-directory", str(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(StandInEnds, "open_transactions", _killed)
        with pytest.raises(Killed):
            CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", "--yes", *options])
    _, text = done(world, "failover", file, *options, "--dry-run")
    lines = [" ".join(each.split()) for each in text.splitlines()]
    for words in ("1. begin (passed before): put on record", "4. fence (begun before): make sure", "5. drain: wait"):
        assert any(each.startswith(words) for each in lines), lines
    _, told = done(world, "failover", file, *options, "--dry-run", "--json")
    before = {each["name"]: each.get("before") for each in told["steps"]}
    assert (before["begin"], before["fence"], before["drain"]) == ("passed before", "begun before", None)
    assert told["run_directory"] == str(tmp_path / "run")


def test_who_wrote_last_is_told_when_it_is_found_and_not_by_each_call_behind_it(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.writers = Writers((RecentWriter(ORDERS, 5, 0, 1_000, 10),))
    options = ("--mode", "planned", "--run-directory", str(tmp_path / "run"), "--yes")
    with monkeypatch.context() as patch:
        patch.setattr(StandInEnds, "move_groups", _killed)
        with pytest.raises(Killed):
            CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", *options])
    _, text = done(world, "failover", file, *options)
    told = " ".join(text.split())
    assert ("fence (proven): no log of 1 partition grew" in told, "who wrote last" in told) == (True, False)
    journal = (tmp_path / "run" / "journal.jsonl").read_text()
    assert "; who wrote last: orders-0: producer 5" in journal


def _killed(*_: object) -> Any:
    raise Killed


def test_the_plan_has_the_form_of_the_run_and_nothing_is_made(world: World, file: Path, tmp_path: Path) -> None:
    code, told = done(world, "failover", file, "--mode", "planned", "--dry-run", "--json")
    assert (code, list(told), told["verdict"], told["run_directory"]) == (0, SHAPE, "UNKNOWN", None)
    assert (told["groups"][0]["group"], told["positions"][0]["last_mirrored_upstream"]) == ("audit", 9)
    assert world.done == []
    assert sorted(tmp_path.iterdir()) == [file]
    code, text = done(world, "failover", file, "--mode", "planned", "--dry-run")
    assert code == 0
    for word in ("stop the applications on east", "from here on nothing is taken back", "audit", "east.orders"):
        assert word in " ".join(text.split())


@pytest.mark.parametrize("answer", [NotDone("still there"), Unobserved("nobody is asked")])
def test_of_applications_that_nobody_saw_stop_it_is_said_neither_that_they_are_stopped_nor_that_they_were_told_to(
    answer: Answer, world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.is_up[EAST] = False
    monkeypatch.setattr(StandInApplications, "stop", lambda *_: answer)
    # Where nobody has looked the run goes on, up to here.
    monkeypatch.setattr(StandInEnds, "pause", interrupted)
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", "--yes"])
    told = " ".join(found.stderr.split())
    assert "The applications on east may not all have stopped, and none was started elsewhere yet." in told
    assert "are stopped" not in told
    assert "told to stop" not in told


def test_whoever_takes_back_with_an_older_copy_of_the_directory_is_told_nothing_of_where_the_applications_are(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that they are stopped, and started nowhere yet, while they were at work on the target."""
    world.is_up[EAST], world.at_work, run = False, set(), str(tmp_path / "run")
    monkeypatch.setattr(StandInEnds, "answering", lambda _: ["east:1"])
    options = ("--flow", "east->west", "--yes", "--run-directory", run)
    CliRunner().invoke(app, ["failover", str(file), *options])
    ((name, entry),) = world.record.items()
    world.record[name] = replace(entry, is_beyond_return=True)
    ahead = CliRunner().invoke(app, ["failover", str(file), *options, "--take-back", "--dry-run"])
    assert (ahead.exit_code, "older copy of its directory" in " ".join(ahead.stderr.split())) == (1, True)
    assert "1. " not in ahead.stdout, "it listed what would be taken back, and ended with 0"
    found = CliRunner().invoke(app, ["failover", str(file), *options, "--take-back"])
    told = " ".join(found.stderr.split())
    assert found.exit_code == 1
    assert "nothing is taken back of it" in " ".join(found.stdout.split())
    assert "applications may be at work on either cluster" in told
    assert told.endswith(f"mirror status {file}")
    assert "started nowhere yet" not in told


def test_what_is_told_is_folded_and_the_command_behind_it_is_not() -> None:
    """In 80 columns the closing message was one line of 300 characters."""
    err = terminal.console(width=40)
    err.file = stream = io.StringIO()
    command = f"mirror failover {'f' * 60} --flow 'east->west'"
    failover.Terminal(err, err, nullcontext).tell("It stands at groups, and all of this was told. To go on:", command)  # type: ignore[arg-type]
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == [
        "  It stands at groups, and all of this",
        "    was told. To go on:",
        f"  {command}",
    ]


def test_there_and_home_by_the_directory_of_the_failover(world: World, file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, told = done(world, "failover", file, "--mode", "planned", "--yes", "--json", "--run-directory", str(run))
    assert (code, told["verdict"], told["run_directory"]) == (0, "PASS", str(run))
    assert told["groups"] == [
        {"group": "audit", "topic": "orders", "partition": 0, "upstream": 7, "before": None, "after": 7, "exact": True}
    ]
    assert list(told["steps"][0]) == ["name", "verdict", "seconds", "detail"]
    assert told["positions"] == [{"topic": "orders", "partition": 0, "last_mirrored_upstream": 10}]
    code, again = done(world, "failover", file, "--mode", "planned", "--yes", "--json", "--run-directory", str(run))
    assert (code, names(again)) == (0, names(told))
    code, said = done(world, "failover", file, "--mode", "planned", "--yes")
    assert (code, "failed over already" in " ".join(said.split())) == (2, True)
    world.written[EAST] += 2
    code, told = done(world, "failback", file, "--yes", "--json", "--run-directory", str(run))
    assert (code, told["mode"], list(told)) == (0, "failback", [*SHAPE, "stranded"])
    assert [each["to"] - each["from"] for each in told["stranded"]] == [2]
    assert told["run_directory"] == str(run / "failback")
    assert (world.at_work, world.record) == ({EAST}, {})


@pytest.mark.parametrize("what", ["failover", "failback"])
def test_without_somebody_who_agrees_and_in_a_dry_run_nothing_is_begun(
    world: World, file: Path, tmp_path: Path, what: str
) -> None:
    options = ("--mode", "planned") if what == "failover" else ()
    if what == "failback":
        assert done(world, "failover", file, "--mode", "planned", "--yes")[0] == 0
    before = deepcopy((world.done, world.record, world.paused, world.groups, sorted(tmp_path.rglob("*"))))
    assert done(world, what, file, *options)[0] == 2
    assert done(world, what, file, *options, "--dry-run")[0] == 0
    code, told = done(world, what, file, *options, "--dry-run", "--json")
    assert (code, told["verdict"], told["run_directory"]) == (0, "UNKNOWN", None)
    assert (world.done, world.record, world.paused, world.groups, sorted(tmp_path.rglob("*"))) == before


@pytest.mark.parametrize("what", ["failover", "failback"])
@pytest.mark.parametrize(("typed", "code"), [("east->west", 0), ("yes", 1), ("", 1), (None, 1)])
def test_at_a_terminal_the_name_of_the_flow_is_typed_and_in_time(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch, what: str, typed: str | None, code: int
) -> None:
    options = ("--mode", "planned") if what == "failover" else ()
    if what == "failback":
        assert done(world, "failover", file, "--mode", "planned", "--yes")[0] == 0
    before, asked = len(world.done), list[str]()

    def prompt(question: str, **_: object) -> str:
        asked.append(question)
        if typed is None:
            signal.pause()
        return typed or ""

    monkeypatch.setattr(consent.sys, "stdin", Terminal())
    monkeypatch.setattr(asking.typer, "prompt", prompt)
    monkeypatch.setattr(consent, "ANSWER_SECONDS", 60.0 if typed is not None else 0.2)
    with pytest.raises(SystemExit) as ended:
        app([what, str(file), "--flow", "east->west", *options])
    assert ended.value.code == code
    assert (len(world.done) > before) is (code == 0)
    (question,) = asked
    assert "Type east->west to go on" in question
    assert ("no answer within 1 min is a no" if typed is not None else "no answer within 0.2 s is a no") in question


@pytest.mark.parametrize("problem", [typer.Abort, None])
def test_who_does_not_agree_is_told_that_nothing_was_changed(
    world: World,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: type[Exception] | None,
) -> None:
    """Ctrl-C at the question said "Aborted." and no more."""

    def prompt(*_: object, **__: object) -> str:
        if problem is not None:
            raise problem
        return "no"

    monkeypatch.setattr(consent.sys, "stdin", Terminal())
    monkeypatch.setattr(asking.typer, "prompt", prompt)
    with pytest.raises(SystemExit) as ended:
        app(["failover", str(file), "--flow", "east->west", "--mode", "planned"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.strip() == "Nothing was changed."
    assert world.done == []


def test_lines_of_a_plan_that_go_on_are_indented_further(world: World, file: Path) -> None:
    _, text = done(world, "failover", file, "--mode", "planned", "--dry-run")
    told, *_ = text.split("Where groups go on")
    heading, *lines = told.splitlines()
    assert heading.startswith("failover of east->west")
    assert [line for line in lines if not line.startswith("  ")] == []
    assert any(line.startswith("    ") for line in lines), "of the notes some are longer than a line"


@pytest.mark.parametrize(
    ("is_interrupted", "said"), [(True, "The run stands where it is"), (False, "It stopped at stop")]
)
def test_a_question_about_the_applications_has_its_budget_and_ctrl_c_leaves_the_run_where_it_stands(
    world: World,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_interrupted: bool,
    said: str,
) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        if is_interrupted:
            raise typer.Abort
        return question.startswith("Start")

    monkeypatch.setattr(failover, "_applications", _APPLICATIONS)
    monkeypatch.setattr(consent.sys, "stdin", Terminal())
    monkeypatch.setattr(asking.typer, "confirm", confirm)
    monkeypatch.setattr(asking.typer, "prompt", lambda *_, **__: "east->west")
    with pytest.raises(SystemExit) as ended:
        app(["failover", str(file), "--flow", "east->west", "--mode", "planned", "--answer-within", "120"])
    assert (ended.value.code, len(asked)) == (1, 1 if is_interrupted else 2)
    assert "no answer within 2 min is a no: the run stops at this step" in asked[0]
    told = " ".join(capsys.readouterr().err.split())
    assert said in told
    assert "mirror failover" in told
    assert "--run-directory" in told
    assert (world.groups[WEST], bool(world.record)) == ({}, is_interrupted)


def test_what_failed_says_where_it_stands_and_how_it_goes_on(world: World, file: Path, tmp_path: Path) -> None:
    world.open_transactions = ("orders-0: producer id 5",)
    run = str(tmp_path / "run")
    found = CliRunner().invoke(
        app, ["failover", str(file), "--flow", "east->west", "--mode", "planned", "--yes", "--run-directory", run]
    )
    said = " ".join(found.stderr.split())
    assert found.exit_code == 1
    assert "It stopped at fence, and everything is as it was before" in said
    # In one line, however narrow the terminal: it is there to be copied.
    assert f"mirror failover {file} --flow 'east->west' --run-directory {run}" in found.stderr
    world.open_transactions = ()
    # As it was told to: the mode is that of the run.
    assert done(world, "failover", file, "--yes", "--run-directory", run)[0] == 0


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["for people", "json"])
def test_a_group_that_cannot_be_moved_is_named_and_no_run_is_said_to_be_there(
    world: World, file: Path, tmp_path: Path, form: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = StandInEnds.plan_groups

    def in_use(ends: StandInEnds, *, ask_source: bool) -> MovePlan:
        plan = planned(ends, ask_source=ask_source)
        active = {"action": GroupAction.SKIP_ACTIVE, "reason": "the group is in use"}
        return replace(plan, decisions=tuple(replace(each, **active) for each in plan.decisions))

    monkeypatch.setattr(StandInEnds, "plan_groups", in_use)
    options = ("--mode", "planned", "--yes", *form)
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", *options])
    said = " ".join(found.stderr.split())
    assert found.exit_code == 1
    assert "Nothing was begun, since this cannot be moved: group audit, orders-0: the group is in use." in said
    assert "until their sessions time out" in said
    assert "It stands at" not in said
    assert "What happened is in" not in found.stdout
    if form:
        assert json.loads(found.stdout)["run_directory"] is None
    assert (world.done, sorted(tmp_path.iterdir())) == ([], [file])


def test_whoever_lacks_a_right_on_a_group_is_not_told_to_wait_for_its_members(world: World, file: Path) -> None:
    world.refused = (Unmoved("audit", None, "GROUP_AUTHORIZATION_FAILED: needs Describe on the group"),)
    code, _ = done(world, "failover", file, "--mode", "planned", "--yes", "--json")
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", "--mode", "planned", "--yes"])
    said = " ".join(found.stderr.split())
    assert (code, "needs Describe on the group" in said, "sessions time out" in said) == (1, True, False)


def test_a_group_that_cannot_be_moved_any_more_leaves_a_run_where_it_stands(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.is_up[EAST] = False
    run = str(tmp_path / "run")

    def breaks(*_: object) -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(StandInEnds, "move_groups", breaks)
    assert done(world, "failover", file, "--yes", "--run-directory", run)[0] == 1
    world.refused = (Unmoved("audit", ORDERS, "the group is in use"),)
    found = CliRunner().invoke(
        app, ["failover", str(file), "--flow", "east->west", "--yes", "--json", "--run-directory", run]
    )
    assert (found.exit_code, json.loads(found.stdout)["run_directory"]) == (1, run)
    assert "Nothing more was done, since this cannot be moved: group audit" in " ".join(found.stderr.split())


def test_the_command_that_goes_on_says_what_was_accepted(world: World, file: Path, tmp_path: Path) -> None:
    """Without it the run was refused for what was left behind."""
    run = str(tmp_path / "run")
    assert done(world, "failover", file, "--mode", "planned", "--yes", "--run-directory", run)[0] == 0
    world.not_copied_back = {WEST: {TopicPartition("east.orders", 0): (10, 12)}}
    world.stubborn.add(WEST)
    how = ["--flow", "east->west", "--yes", "--leave-behind", "--run-directory", run]
    found = CliRunner().invoke(app, ["failback", str(file), *how])
    assert found.exit_code == 1
    assert "To try again: mirror failback" in " ".join(found.stderr.split())
    assert found.stderr.rstrip().endswith("--leave-behind")


@pytest.mark.parametrize(
    ("is_asked", "said"),
    [
        (True, "All is done. What cannot be found out any more, and stays UNKNOWN: cut."),
        (
            False,
            "looked at: stop, start, first write, first reads. What cannot be found out any more, and stays UNKNOWN: cut.",
        ),
    ],
)
def test_what_was_not_known_at_its_moment_is_not_asked_of_somebody_who_looks_later(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_asked: bool, said: str
) -> None:
    """The cut stayed UNKNOWN however often the command was given that was said to help."""
    world.is_up[EAST] = False
    world.open_ends = {TopicPartition("east.orders", 0): "its leader is away"}
    if not is_asked:
        monkeypatch.setattr(failover, "_applications", lambda *_: Nobody())
    run = str(tmp_path / "run")
    for _ in range(2):
        found = CliRunner().invoke(
            app, ["failover", str(file), "--flow", "east->west", "--yes", "--run-directory", run]
        )
        told = " ".join(found.stderr.split())
        assert found.exit_code == 1
        assert said in told
        assert ("--run-directory" in told) is not is_asked, "a command only where it helps"


def test_where_a_run_stands_is_said_beside_its_json_too(world: World, file: Path, tmp_path: Path) -> None:
    world.open_transactions = ("orders-0: producer id 5",)
    run = str(tmp_path / "run")
    options = ("--mode", "planned", "--yes", "--json", "--run-directory", run)
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", *options])
    assert (found.exit_code, json.loads(found.stdout)["verdict"]) == (1, "FAIL")
    assert "It stopped at fence, and everything is as it was before" in " ".join(found.stderr.split())


def test_an_unplanned_failover_of_a_source_that_lives_says_which_mode_is_meant_for_that(
    world: World, file: Path, tmp_path: Path
) -> None:
    found = CliRunner().invoke(
        app, ["failover", str(file), "--flow", "east->west", "--yes", "--run-directory", str(tmp_path / "run")]
    )
    told = " ".join(found.stderr.split())
    assert (found.exit_code, world.done) == (1, [])
    assert "Nothing was changed. While east answers: --mode planned, or cut-off" in told


def test_the_dry_run_of_an_unplanned_failover_fails_while_the_source_answers(
    world: World, file: Path, tmp_path: Path
) -> None:
    """Its first step could not pass, and the plan ended with exit code 0."""
    dry = ("failover", str(file), "--flow", "east->west", "--mode", "unplanned", "--dry-run")
    found = CliRunner().invoke(app, dry)
    told = " ".join(found.stderr.split())
    assert found.exit_code == 1
    assert (
        "Could not be carried out now: east answers at east:1, and the step detect passes once no broker does" in told
    )
    assert told.endswith("While east answers: --mode planned, or cut-off if the flow cannot be copied any more")
    assert "1. detect" in found.stdout
    code, plan = done(world, "failover", file, "--dry-run", "--json")
    assert (code, plan["steps"][-1]["name"], plan["steps"][-1]["verdict"]) == (1, "plan", "FAIL")
    assert done(world, "failover", file, "--dry-run", "--mode", "cut-off")[0] == 0
    world.is_up[EAST] = False
    found = CliRunner().invoke(app, dry)
    assert (found.exit_code, found.stderr) == (0, "")
    assert sorted(tmp_path.iterdir()) == [file]


def test_an_unplanned_failover_says_of_a_source_that_refuses_the_login_that_it_is_no_outage(
    world: World, file: Path, tmp_path: Path
) -> None:
    world.refuses_logins.add(EAST)
    code, plan = done(world, "failover", file, "--dry-run", "--json")
    assert (code, "planned once it lets the login of the file in" in plan["steps"][-1]["detail"]) == (1, True)
    assert plan["notes"][0].startswith("east refuses the login of the file (east:1: authentication failed)")
    assert "refuses" not in str(done(world, "failover", file, "--dry-run", "--json", "--mode", "cut-off")[1]["notes"])
    run = tmp_path / "run"
    found = CliRunner().invoke(
        app, ["failover", str(file), "--flow", "east->west", "--yes", "--run-directory", str(run)]
    )
    told = " ".join(found.stderr.split())
    assert (found.exit_code, world.done) == (1, [])
    assert "--mode planned once it lets the login of the file in, or cut-off, which can do without" in told
    journal = (run / "journal.jsonl").read_text()
    assert "refuses the login of the file (east:1: authentication failed): that is no outage" in journal


def test_a_plan_for_some_groups_says_that_the_flow_is_cut_as_a_whole(world: World, file: Path) -> None:
    """Who moves one group expects the others to stay as they were: their topics are paused, too."""
    words = "but east->west is cut as a whole: what other applications write to any of its topics is not copied"
    world.is_up[EAST] = False
    for groups, is_said in ((("--groups", "audit"), True), ((), False)):
        told = done(world, "failover", file, "--dry-run", *groups)[1]
        assert (words in " ".join(told.split())) is is_said


def test_a_run_directory_of_something_else_is_refused(world: World, file: Path, tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    other.mkdir()
    drill = tmp_path / "drill"
    drill.mkdir()
    (drill / "run.json").write_text('{"runbook": "failover-drill"}')
    (other / "notes.txt").write_text("mine")
    world.is_up[EAST] = False
    assert done(world, "failover", file, "--yes", "--run-directory", str(run))[0] == 0
    for options in (
        ("--mode", "cut-off", "--run-directory", str(run)),
        ("--groups", "a.*", "--run-directory", str(run)),
        ("--run-directory", str(other)),
        ("--run-directory", str(drill)),
        ("--groups", "("),
    ):
        code, said = done(world, "failover", file, "--yes", *options)
        assert code == 2, (options, said)
    journal = run / "journal.jsonl"
    altered = journal.read_text().replace("PASS", "FAIL", 1)
    # Without any of it the run would pass for one that has done nothing: the applications would be moved once more.
    for spoil in (lambda: journal.write_text(altered), lambda: journal.write_text(""), journal.unlink):
        spoil()
        code, said = done(world, "failover", file, "--yes", "--run-directory", str(run))
        assert (code, "nothing can be taken up from it" in " ".join(said.split())) == (2, True)


def test_what_a_run_has_stopped_is_said_where_the_target_no_longer_answers(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be taken back then, and a connection that is refused says nothing of applications that stay stopped."""
    run = str(tmp_path / "run")
    monkeypatch.setattr(StandInEnds, "pause", killed)
    with pytest.raises(Killed):
        done(world, "failover", file, "--mode", "planned", "--yes", "--run-directory", run)
    assert world.at_work == set()
    monkeypatch.setattr(StandInEnds, "copied", unreachable)
    found = CliRunner().invoke(
        app, ["failover", str(file), "--flow", "east->west", "--run-directory", run, "--take-back", "--yes"]
    )
    told = " ".join(found.stderr.split())
    assert found.exit_code == 3
    assert (
        "The applications on east are stopped, and started nowhere yet. The same command goes on with the run" in told
    )
    assert "connection refused" in told
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", "--run-directory", f"{run}-2"])
    assert "started nowhere" not in found.stderr
    # A failback of it has stopped nothing, least of all on west.
    found = CliRunner().invoke(app, ["failback", str(file), "--flow", "east->west", "--run-directory", run])
    assert (found.exit_code, "started nowhere" in found.stderr) == (3, False)


def interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def killed(*_: object) -> Any:
    raise Killed


def test_a_run_whose_directory_is_full_says_so_and_how_it_goes_on(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The applications are stopped by then, and 'No space left on device' was all that was said."""
    run, fsync = tmp_path / "run", os.fsync

    def full(descriptor: int) -> None:
        if world.done and Path(f"/proc/self/fd/{descriptor}").resolve().name == "journal.jsonl":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    options = ("--mode", "planned", "--yes", "--run-directory", str(run))
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", *options])
    assert isinstance(found.exception, OSError)
    assert found.exception.filename == str(run / "journal.jsonl")
    assert f"mirror failover {file} --flow 'east->west' --run-directory {run}" in " ".join(found.stderr.split())
    assert done(world, "failover", file, *options)[0] == 0
    assert world.at_work == {WEST}


def unreachable(*_: object) -> Any:
    raise ClusterUnreachable("west", "127.0.0.1:2", "connection refused")


def test_a_run_that_stands_can_be_taken_back(world: World, file: Path, tmp_path: Path) -> None:
    world.is_up[EAST] = False
    run = str(tmp_path / "run")

    def breaks(*_: object) -> Any:
        raise OSError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StandInEnds, "move_groups", breaks)
        code, told = done(world, "failover", file, "--yes", "--json", "--run-directory", run)
    assert (code, names(told)[-1], told["steps"][-1]["detail"]) == (1, "groups", "the disk is full")
    assert (world.paused, world.record[next(iter(world.record))].phase) == ({THERE.flow}, Phase.UNDER_WAY)
    # Who looks ahead is shown what is taken back, and not what the failover was to do.
    code, told = done(world, "failover", file, "--json", "--dry-run", "--run-directory", run, "--take-back")
    assert (code, names(told)) == (0, ["groups", "cut", "stop", "begin"])
    code, said = done(world, "failover", file, "--dry-run", "--run-directory", run, "--take-back")
    assert "failover of east->west (unplanned): what is taken back of it" in said
    assert "2. cut, which was to pause east->west" in said
    code, told = done(world, "failover", file, "--yes", "--json", "--run-directory", run, "--take-back")
    assert (code, names(told)) == (0, ["back: groups", "back: cut", "back: stop", "back: begin"])
    assert (world.paused, world.record, world.groups[WEST]) == (set(), {}, {})


def test_a_run_is_taken_back_also_if_its_groups_have_no_position_any_more(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused: the flow stayed cut, and the applications stopped."""
    world.is_up[EAST] = False
    how = ("--groups", "audit", "--yes", "--run-directory", str(tmp_path / "run"))
    monkeypatch.setattr(StandInEnds, "move_groups", killed)
    with pytest.raises(Killed):
        done(world, "failover", file, *how)
    assert world.paused == {THERE.flow}
    world.groups[EAST] = {}
    code, told = done(world, "failover", file, *how, "--take-back")
    assert (code, world.paused) == (0, set()), told


def test_what_nobody_has_seen_when_it_was_taken_back_is_unknown_the_second_time_too(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, flow = str(tmp_path / "run"), ("--mode", "cut-off", "--yes", "--run-directory")
    monkeypatch.setattr(failover, "_applications", lambda *_: Nobody())
    monkeypatch.setattr(StandInEnds, "move_groups", killed)
    with pytest.raises(Killed):
        done(world, "failover", file, *flow, run)
    assert world.paused == {THERE.flow}
    (first, _), (second, told) = [done(world, "failover", file, *flow, run, "--take-back") for _ in range(2)]
    assert (first, second) == (1, 1), told


def test_a_run_that_is_not_taken_back_any_more_names_the_command_that_leads_back(
    world: World, file: Path, tmp_path: Path
) -> None:
    run = str(tmp_path / "run")
    done(world, "failover", file, "--mode", "planned", "--yes", "--run-directory", run)
    how = ["--flow", "east->west", "--run-directory", run, "--take-back", "--yes"]
    found = CliRunner().invoke(app, ["failover", str(file), *how])
    assert found.exit_code == 1
    assert f"mirror failback {file} --flow 'east->west' --run-directory {run}" in found.stderr
    assert "To go on:" not in found.stderr
    code, told = done(world, "failover", file, "--run-directory", run, "--take-back", "--dry-run", "--json")
    assert (code, told["verdict"], names(told)) == (1, "FAIL", ["plan"]), "nothing is taken back"


@pytest.mark.parametrize("named", [(), ("--run-directory", "elsewhere")])
def test_what_never_began_cannot_be_taken_back(world: World, file: Path, tmp_path: Path, named: Sequence[str]) -> None:
    """Who mistypes the directory must not believe that the run is taken back."""
    code, said = done(world, "failover", file, "--yes", "--take-back", *named)
    assert (code, "name its directory by --run-directory" in " ".join(str(said).split())) == (2, True)
    assert sorted(tmp_path.iterdir()) == [file]


def test_what_a_run_has_taken_back_before_it_failed_is_not_said_to_be_everything(
    world: World, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has resumed its flow: what rested on the cut is taken back, and the cut is made again."""
    world.is_up[EAST] = False
    run = str(tmp_path / "run")

    def breaks(*_: object) -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(StandInEnds, "move_groups", breaks)
    assert done(world, "failover", file, "--yes", "--run-directory", run)[0] == 1
    world.paused.clear()
    found = CliRunner().invoke(app, ["failover", str(file), "--flow", "east->west", "--yes", "--run-directory", run])
    assert (found.exit_code, world.paused) == (1, {THERE.flow})
    assert "back: groups" in found.stdout
    assert "It stands at groups." in " ".join(found.stderr.split())
    assert "everything is as it was" not in found.stderr


def test_there_is_no_way_home_without_a_flow_home(world: World, tmp_path: Path) -> None:
    one_way = tmp_path / "one-way.properties"
    one_way.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true"
    )
    code, said = done(world, "failback", one_way, "--yes")
    assert (code, "west->east.enabled" in said) == (2, True)
    assert HOME.flow == Flow(WEST, EAST)


@pytest.mark.parametrize("what", ["failover", "failback"])
def test_a_command_that_was_killed_anywhere_ends_by_its_run_directory_as_if_it_had_not_been(
    world: World, file: Path, tmp_path: Path, what: str
) -> None:
    """The plan is made anew by what the killed one has left on record, and must not refuse it."""
    if what == "failback":
        there = tmp_path / "there"
        assert done(world, "failover", file, "--mode", "planned", "--yes", "--run-directory", str(there))[0] == 0
    before = deepcopy(vars(world) | {"calls": 0})

    def performed(run: Path) -> tuple[int, Any]:
        mode = ("--mode", "planned") if what == "failover" else ()
        return done(world, what, file, *mode, "--yes", "--json", "--run-directory", str(run))

    def state() -> object:
        return deepcopy((world.at_work, world.paused, world.groups, [each.phase for each in world.record.values()]))

    vars(world).update(deepcopy(before))
    code, whole = performed(tmp_path / "whole")
    assert code == 0
    calls, ended = world.calls, state()
    for number in range(1, calls + 1):
        run = tmp_path / str(number)
        vars(world).update(deepcopy(before) | {"dies_at": number})
        with pytest.raises(Killed):
            performed(run)
        code, told = performed(run)
        assert (code, told["verdict"] if isinstance(told, dict) else told) == (0, "PASS"), number
        assert names(told) == names(whole), number
        assert state() == ended, number


def test_a_directory_in_which_a_run_was_about_to_begin_when_it_was_killed_is_taken(
    world: World, file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".run.json.4711").write_text('{"procedure"')
    options = ("--mode", "planned", "--yes", "--json", "--run-directory", str(run))
    assert done(world, "failover", file, *options)[0] == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").touch()
    code, said = done(world, "failover", file, "--yes", "--run-directory", str(other))
    assert (code, "is not empty, and has no run.json" in " ".join(said.split())) == (2, True)


def test_a_run_that_leaves_records_of_topics_behind_that_the_file_no_longer_selects_does_not_pass(
    world: World, file: Path
) -> None:
    """The file was narrowed since: applications moved away from records that nobody copied."""
    world.deselected = ("bills",)
    code, told = done(world, "failover", file, "--mode", "planned", "--yes", "--json", "--run-directory", "r1")
    home_code, home = done(world, "failback", file, "--yes", "--json", "--run-directory", "r1")
    for found in (told, home):
        assert found["verdict"] == "UNKNOWN"
        (verify,) = (each for each in found["steps"] if each["name"] == "verify")
        assert (verify["verdict"], "no longer selected: bills" in verify["detail"]) == ("UNKNOWN", True)
        assert any("bills" in each for each in found["notes"])
    assert (code, home_code, world.record) == (1, 1, {})
