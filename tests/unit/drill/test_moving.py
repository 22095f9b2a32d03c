"""The steps that move applications: what they show, what they refuse, what they write down; a world stands in."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.resolving import load
from mirror.drill.steps import moving
from mirror.drill.steps.flow_in_use import FlowInUse
from mirror.drill.steps.stage import DrillStage
from mirror.evidence.journal import Event
from mirror.evidence.outcome import StepNotPassed
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.seals import broken, seals
from mirror.kafka.problems import ClusterUnreachable
from mirror.model.flow import Flow
from mirror.model.verdict import Verdict
from mirror.recovery import procedure
from mirror.recovery.applications import Applications, Nobody
from mirror.recovery.group_moves import Unmoved
from mirror.recovery.move import Times
from mirror.recovery.steps import Result, StepResult
from tests.unit.recovery.world import EAST, WEST, Killed, StandInApplications, StandInEnds, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def ends(_: object, chosen: Any, *__: object, **___: object) -> StandInEnds:
        return StandInEnds(made, chosen.flow)

    def applications(*_: object) -> Applications:
        return StandInApplications(made)

    monkeypatch.setattr(procedure, "_ends", ends)
    monkeypatch.setattr(procedure, "_TIMES", Times(quiet=0.0, fence=0.3, drain=0.3, seen=0.0))
    monkeypatch.setattr(FlowInUse, "_applications", applications)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.properties"
    path.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\n"
        "east->west.enabled=true\nwest->east.enabled=true"
    )
    return path


def used_for(step: str, file: Path, groups: str = ".*") -> FlowInUse:
    run = RunDirectory.create(file.parent / "runs", step, started_at=datetime.now(UTC))
    settings = load(file)
    chosen = settings.flow(Flow(EAST, WEST))
    assert chosen is not None
    return FlowInUse(run, step, settings, chosen, groups, None, None, None)


def outcome(used: FlowInUse) -> Any:
    return json.loads(used.run.outcome_path(used.step).read_text())


def taken(used: FlowInUse) -> Any:
    """Take the step as its notebook does; return the outcome."""
    moving.practise(used)
    planned = moving.plan(used)
    moving.conclude(used, planned, moving.carry_out(used, planned))
    return outcome(used)


@pytest.mark.parametrize("step", [moving.UNPLANNED_FAILOVER, moving.PLANNED_FAILOVER, moving.CUT_OFF_FAILOVER])
def test_the_step_is_the_procedure_whose_run_is_kept_and_sealed_in_the_run(step: str, world: World, file: Path) -> None:
    world.is_up[EAST] = step is not moving.UNPLANNED_FAILOVER
    used = used_for(step, file)
    told = taken(used)
    assert (told["verdict"], told["facts"]["mode"]) == ("PASS", step.removesuffix("_failover").replace("_", "-"))
    assert [each["group"] for each in told["facts"]["moved_groups"]] == ["audit"]
    assert world.at_work == {WEST}
    entries = used.run.journal.read().entries
    assert {"failover/run.json", "failover/journal.jsonl", "failover/seal.json"} <= seals(entries).keys()
    assert broken(used.run, entries) == ()


def test_what_a_step_says_breaks_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Jupyter breaks lines that are too long wherever they end."""
    words = " ".join(f"orders-{number}" for number in range(40))
    moving._print_step(StepResult("fence", Result(Verdict.PASS, words), 3.4))
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("    PASS  fence (3.4 s): orders-0 ")
    assert max(map(len, (first, *others))) <= 100
    assert {each[:17] for each in others} == {" " * 10 + "orders-"}
    assert " ".join(map(str.strip, (first, *others))).endswith(words)


def test_what_is_known_is_shown_before_anything_is_changed(world: World, file: Path) -> None:
    used = used_for(moving.PLANNED_FAILOVER, file)
    planned = moving.plan(used)
    assert "west lacks of east" in moving.known(planned).text
    assert list(moving.planned_steps(planned)["step"])[:3] == ["begin", "verify so far", "stop"]
    assert list(moving.planned_groups(planned)["after"]) == [7]
    assert world.done == []
    assert not (used.run.path / "failover").exists()


@pytest.mark.parametrize(
    ("refused", "groups", "told"),
    [
        ((Unmoved("audit", None, "is in use"),), ".*", "in use"),
        ((), "nobody", "no group of east->west whose whole id matches nobody"),
    ],
)
def test_a_plan_that_must_not_begin_is_a_fail_and_nothing_is_done(
    world: World, file: Path, refused: tuple[Unmoved, ...], groups: str, told: str
) -> None:
    world.refused = refused
    if groups != ".*":
        world.groups[EAST].clear()
    used = used_for(moving.PLANNED_FAILOVER, file, groups)
    with pytest.raises(StepNotPassed, match="nothing was begun"):
        taken(used)
    assert (outcome(used)["verdict"], world.done) == ("FAIL", [])
    assert told in " ".join(outcome(used)["reasons"])


def test_what_nobody_has_observed_is_unknown_with_everything_done_and_can_be_gone_on_with(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.is_up[EAST] = False
    used = used_for(moving.UNPLANNED_FAILOVER, file)
    with monkeypatch.context() as patch:
        patch.setattr(FlowInUse, "_applications", lambda *_: Nobody())
        with pytest.raises(StepNotPassed):
            taken(used)
    assert outcome(used)["verdict"] == "UNKNOWN"
    assert any(each.startswith("first write") for each in outcome(used)["reasons"])
    assert world.groups[WEST] == {"audit": 7}
    assert taken(used)["verdict"] == "PASS"
    assert world.done.count("write audit on west") == 1


def test_a_failback_leads_home_from_the_two_clusters_alone(world: World, file: Path) -> None:
    taken(used_for(moving.PLANNED_FAILOVER, file))
    home = used_for(moving.FAIL_BACK, file)
    assert "stranded on east" in moving.known(moving.plan(home)).text
    assert taken(home)["verdict"] == Verdict.PASS.value
    assert (world.at_work, world.record) == ({EAST}, {})
    assert (home.run.path / "failback" / "journal.jsonl").exists()


def test_practised_on_clusters_the_applications_write_on_the_standby_also_when_they_ended_behind_the_failover(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel was killed when the failover had just passed: what it had started ended with its runner."""
    used = used_for(moving.FAIL_BACK, file)
    seen: list[set[str]] = []
    applications = StandInApplications(world)
    stage = SimpleNamespace(run=used.run, standby=WEST, wait_for_load=lambda *_, **__: seen.append(set(world.at_work)))
    used = replace(used, practice=cast("DrillStage", stage))
    monkeypatch.setattr(moving.practice, "moved_applications", lambda _: applications)
    assert "have written there" in moving.practise(used)
    assert seen == [{WEST}]
    # Nothing of the failover is done twice, and the applications are as they were when the process ended.
    used.run.journal.append(Event.ACTION, step=used.step, facts={"practice": "begun"})
    world.at_work.clear()
    done = list(world.done)
    moving.practise(used)
    assert seen == [{WEST}, {WEST}]
    assert [each for each in world.done[len(done) :] if not each.startswith("start")] == []


def test_a_cluster_that_does_not_answer_yet_is_a_failure_that_changed_nothing(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that the notebook had crashed."""
    used = used_for(moving.FAIL_BACK, file)

    def unreachable(_: object) -> None:
        raise ClusterUnreachable("east", "connecting to e:1", "connection refused")

    monkeypatch.setattr(moving, "plan_failback", unreachable)
    with pytest.raises(StepNotPassed, match="connection refused; nothing was changed: once that answers"):
        moving.plan(used)
    assert outcome(used)["verdict"] == "FAIL"


def test_a_plan_that_cannot_be_made_says_which_applications_its_run_has_stopped(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel was killed behind the stop, and then a cluster did not answer: nothing was changed, it said."""
    used = used_for(moving.PLANNED_FAILOVER, file)

    def killed(*_: object) -> None:
        raise Killed

    def unreachable(_: object) -> None:
        raise ClusterUnreachable("west", "connecting to w:1", "connection refused")

    monkeypatch.setattr(StandInEnds, "pause", killed)
    with pytest.raises(Killed):
        moving.carry_out(used, moving.plan(used))
    assert world.at_work == set()
    monkeypatch.setattr(StandInEnds, "copied", unreachable)
    with pytest.raises(StepNotPassed, match=r"; nothing more was changed: .*: The applications on east are stopped"):
        moving.plan(used)


def test_whoever_interrupts_a_procedure_is_told_what_stands_still_and_what_to_do(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There was a traceback, and no application ran on either cluster."""
    used = replace(used_for(moving.PLANNED_FAILOVER, file), applications_file=Path("apps.toml"))
    planned = moving.plan(used)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StandInEnds, "pause", interrupted)
    with pytest.raises(KeyboardInterrupt):
        moving.carry_out(used, planned)
    told = " ".join(capsys.readouterr().out.split())
    assert "The applications on east are stopped, and started nowhere yet." in told
    assert f"mirror runbook resume {used.run.path}" in told
    assert told.endswith("--applications apps.toml --take-back")


def test_whoever_goes_on_with_what_was_interrupted_is_asked_again_until_there_is_no_return(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = used_for(moving.PLANNED_FAILOVER, file)
    asked: list[bool] = []
    monkeypatch.setattr(FlowInUse, "confirm", lambda _, __, *, is_begun: asked.append(is_begun))
    taken(used)
    moving.carry_out(used, moving.plan(used))
    assert asked == [False, True]


def test_a_source_that_still_answers_is_told_with_the_runbooks_for_that(world: World, file: Path) -> None:
    used = used_for(moving.UNPLANNED_FAILOVER, file)
    with pytest.raises(StepNotPassed, match="planned-failover, or cut-off-failover"):
        taken(used)
