"""A run that ended between two of its steps and is taken up, or taken back, by the next process: what came meanwhile counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.evidence.journal import Event, Journal
from mirror.kafka.problems import ConnectionFailed
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.verdict import Verdict, worst
from mirror.recovery.applications import Nobody
from mirror.recovery.failback import look_home, steps_home
from mirror.recovery.failover import Mode, look_ahead, steps_of
from mirror.recovery.flow_ends import Copied
from mirror.recovery.move import Times
from mirror.recovery.recent_writers import RecentWriter, Writers
from mirror.recovery.steps import TAKEN_BY_OTHERS, Progress, Step, StepResult, carry_out, take_back
from tests.unit.recovery.world import EAST, ENTRY, ORDERS, THERE, WEST, StandInEnds, World, move_home, move_of


class Ended(Exception):
    """The process is killed."""


class Behind(Journal):
    """A journal right behind whose entry of the end of a step, or of its beginning, something happens."""

    def __init__(
        self, directory: Path, step: str, happens: Callable[[], object], event: Event = Event.STEP_FINISHED
    ) -> None:
        super().__init__(directory / "journal.jsonl")
        self._at = event, step
        self._happens = happens

    def append(self, event: Event, **named: object) -> object:
        entry = super().append(event, **named)
        if (event, named.get("step")) == self._at:
            self._happens()
        return entry


def run_until(steps: Sequence[Step], directory: Path, step: str) -> None:
    def ends() -> None:
        raise Ended

    with pytest.raises(Ended):
        carry_out(steps, Behind(directory, step, ends), goes_back=True)


def taken_up(steps: Sequence[Step], directory: Path) -> dict[str, StepResult]:
    results = carry_out(steps, Journal(directory / "journal.jsonl"), goes_back=True)
    return {each.name: each for each in results}


NEVER_TOLD = Writers((), {ORDERS: "it has no leader"})
SLOW = Writers((RecentWriter(ORDERS, 5, 0, 1_000, None),))


@pytest.mark.parametrize("step", ["drain", "verify", "last look"])
@pytest.mark.parametrize(("writers", "is_told"), [(NEVER_TOLD, True), (NEVER_TOLD, False), (SLOW, False)])
def test_what_was_written_behind_a_fence_that_was_unknown_is_copied_before_the_applications_move(
    tmp_path: Path, step: str, writers: Writers, is_told: bool
) -> None:
    """The fence fixed new ends, and what had reached the old ones stayed proven: 5 records were left behind."""
    world = World(writers=writers, is_told_of_stops=is_told)
    times = Times(quiet=0.05, fence=0.3, drain=0.3, slow=0.1, seen=0.0)
    steps = steps_of(Mode.PLANNED, replace(move_of(world, tmp_path), times=times), None)
    run_until(steps, tmp_path, step)
    world.written[EAST] += 5
    found = taken_up(steps, tmp_path)
    assert found["fence"].result.verdict is Verdict.UNKNOWN
    assert (world.at_work, world.copied[EAST]) == ({WEST}, world.written[EAST])
    assert not found["drain"].was_proven
    assert not found["verify"].was_proven


@pytest.mark.parametrize("step", ["cut", "verify", "last look"])
def test_what_is_written_while_a_fence_that_was_unknown_is_looked_at_again_is_copied_too(
    tmp_path: Path, step: str
) -> None:
    """It was quiet when the run was taken up, and the new ends, once it was quiet again, were nobody's to copy."""
    world = World(writers=SLOW, is_told_of_stops=False)
    times = Times(quiet=0.05, fence=0.3, drain=0.3, slow=0.1, seen=0.0)
    steps = steps_of(Mode.PLANNED, replace(move_of(world, tmp_path), times=times), None)
    run_until(steps, tmp_path, step)

    def write() -> None:
        world.written[EAST] += 5

    carry_out(steps, Behind(tmp_path, "fence", write, Event.STEP_STARTED), goes_back=True)
    assert (world.at_work, world.copied[EAST]) == ({WEST}, world.written[EAST])


def test_applications_that_write_again_behind_the_fence_are_stopped_again(tmp_path: Path) -> None:
    """A supervisor had started them; that they were stopped once was taken for that they are, and the fence passed."""
    world = World(writers=SLOW)
    times = Times(quiet=0.05, fence=0.3, drain=0.3, slow=0.1, seen=0.0)
    steps = steps_of(Mode.PLANNED, replace(move_of(world, tmp_path), times=times), None)
    run_until(steps, tmp_path, "verify")
    world.written[EAST] += 5
    found = taken_up(steps, tmp_path)
    assert world.done.count("stop on east") == 2
    assert found["fence"].result.verdict is Verdict.PASS
    assert (world.at_work, world.copied[EAST]) == ({WEST}, world.written[EAST])


def test_the_last_look_of_an_earlier_process_says_nothing(tmp_path: Path) -> None:
    world = World()
    steps = steps_of(Mode.PLANNED, move_of(world, tmp_path), None)
    run_until(steps, tmp_path, "last look")
    world.groups[EAST]["audit"] = 9
    found = taken_up(steps, tmp_path)
    assert found["last look"].result.verdict is Verdict.FAIL
    assert world.at_work == {EAST}


def test_steps_that_are_not_of_the_plan_keep_a_run_from_being_taken_back(tmp_path: Path) -> None:
    """An option of the run was left out: what they did would stay, with nothing on record of it."""
    world = World()
    steps = steps_of(Mode.PLANNED, move_of(world, tmp_path), None)
    run_until(steps, tmp_path, "cut")
    before = len(world.done)
    found = taken_back([each for each in steps if each.name != "cut"], tmp_path)
    assert {each.result.verdict for each in found.values()} == {Verdict.FAIL}
    assert found["back"].result.detail.endswith("the run has begun steps that are not of this plan: cut")
    assert len(world.done) == before


def taken_back(steps: Sequence[Step], directory: Path) -> dict[str, StepResult]:
    return {each.name: each for each in take_back(steps, Journal(directory / "journal.jsonl"))}


def test_a_cut_off_run_that_is_taken_back_starts_the_applications_where_they_were(tmp_path: Path) -> None:
    """They stayed stopped, on both sides, and the verdict was PASS."""
    world = World()
    steps = steps_of(Mode.CUT_OFF, move_of(world, tmp_path, mode="cut-off"), None)
    run_until(steps, tmp_path, "groups")
    assert world.at_work == set()
    found = taken_back(steps, tmp_path)
    assert worst(each.result.verdict for each in found.values()) is Verdict.PASS
    assert (world.at_work, world.paused, world.record) == ({EAST}, set(), {})


def test_an_unplanned_run_that_is_taken_back_says_that_the_applications_stay_stopped(tmp_path: Path) -> None:
    """Their cluster was found to be gone: there is nothing to start them on."""
    world = World(is_up={EAST: False, WEST: True})
    steps = steps_of(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None)
    run_until(steps, tmp_path, "groups")
    found = taken_back(steps, tmp_path)
    assert "the applications on east, which was gone, stay stopped" in found["back: stop"].result.detail
    assert (world.at_work, world.record) == (set(), {})


@pytest.mark.parametrize("mode", list(Mode))
def test_a_run_that_others_have_given_up_meanwhile_starts_no_applications(tmp_path: Path, mode: Mode) -> None:
    """Another run moves the groups by then; only a planned one looked, an unplanned one ended with itself as done."""
    world = World(is_up={EAST: mode is not Mode.UNPLANNED, WEST: True})

    def others_give_it_up() -> None:
        world.record = {"theirs": replace(ENTRY, run="theirs", phase=Phase.UNDER_WAY)}

    journal = Behind(tmp_path, "positions", others_give_it_up)
    results = carry_out(steps_of(mode, move_of(world, tmp_path, mode=str(mode)), None), journal, goes_back=False)
    assert results[-1].result.verdict is Verdict.FAIL
    assert "others have given it up" in results[-1].result.detail
    assert "start on west" not in world.done
    assert set(world.record) == {"theirs"}
    assert not any(each.event is Event.POINT_OF_NO_RETURN for each in journal.read().entries)


@pytest.mark.parametrize("mode", list(Mode))
def test_an_older_copy_of_the_run_directory_takes_nothing_back_from_under_the_applications(
    tmp_path: Path, mode: Mode
) -> None:
    """The run goes on where its directory was copied to, and waits for the first write; somebody finds the old one."""
    newer, older = tmp_path / "newer", tmp_path / "older"
    newer.mkdir()
    world = World(is_up={EAST: mode is not Mode.UNPLANNED, WEST: True})
    run_until(steps_of(mode, move_of(world, newer, mode=str(mode)), None), newer, "last look")
    shutil.copytree(newer, older)
    run_until(steps_of(mode, move_of(world, newer, mode=str(mode)), None), newer, "start")
    stands = (set(world.at_work), set(world.paused), dict(world.groups[WEST]))
    assert stands[0] == {WEST}
    move = move_of(world, older, mode=str(mode))
    found = taken_back(steps_of(mode, move, None), older)
    assert worst(each.result.verdict for each in found.values()) is Verdict.FAIL
    assert "this is an older copy of its directory" in found["back: begin"].result.detail
    assert found["back: begin"].result.facts == {TAKEN_BY_OTHERS: True}
    assert (world.at_work, world.paused, world.groups[WEST]) == stands
    assert set(world.record) == {"ours"}
    plan = look_ahead(mode, move, None, Progress.of(Journal(older / "journal.jsonl").read().entries))
    assert "this is an older copy of its directory" in str(plan.refusal)
    *_, last = taken_up(steps_of(mode, move, None), older).values()
    assert "older copy" in last.result.detail
    assert (world.at_work, world.paused, world.groups[WEST]) == stands


def test_an_older_copy_of_a_failback_takes_nothing_back_either(tmp_path: Path) -> None:
    newer, older = tmp_path / "newer", tmp_path / "older"
    newer.mkdir()
    world = World(at_work={WEST}, paused={THERE.flow}, record={"one": replace(ENTRY, run="one", phase=Phase.DONE)})
    world.groups[WEST] = {"audit": 7}

    def steps(directory: Path) -> Sequence[Step]:
        return steps_home(move_home(world, directory), StandInEnds(world, THERE.flow))

    run_until(steps(newer), newer, "last look")
    shutil.copytree(newer, older)
    run_until(steps(newer), newer, "start")
    stands = (set(world.at_work), set(world.paused))
    assert stands[0] == {EAST}
    assert worst(each.result.verdict for each in taken_back(steps(older), older).values()) is Verdict.FAIL
    assert (world.at_work, world.paused) == stands
    assert world.record["home"].is_beyond_return
    plan = look_home(
        move_home(world, older),
        StandInEnds(world, THERE.flow),
        Progress.of(Journal(older / "journal.jsonl").read().entries),
    )
    assert "this is an older copy of its directory" in str(plan.refusal)


@pytest.mark.parametrize("is_readable", [True, False])
def test_behind_the_point_of_no_return_applications_are_started_at_home_although_the_standby_is_down(
    tmp_path: Path, is_readable: bool
) -> None:
    """They are stopped on both sides by then, and the old cluster has all there is."""
    world = World(at_work={WEST}, paused={THERE.flow}, record={"one": replace(ENTRY, run="one", phase=Phase.DONE)})
    world.groups[WEST] = {"audit": 7}

    class Down(StandInEnds):
        def copied(self) -> Copied:
            if not is_readable:
                raise ConnectionFailed("west is gone")
            return super().copied()

        def put(self, entry: FailoverEntry) -> None:
            raise ConnectionFailed("west is gone")

    move, forward = move_home(world, tmp_path), StandInEnds(world, THERE.flow)
    run_until(steps_home(move, forward), tmp_path, "last look")
    (start,) = (
        each for each in steps_home(replace(move, record=Down(world, THERE.flow)), forward) if each.name == "start"
    )
    found = start.act({})
    assert (found.verdict, world.at_work) == (Verdict.PASS, {EAST})
    assert found.detail.endswith(
        "; not on record, so take nothing back with an older copy of the run directory: west is gone"
    )


def test_a_failback_that_was_given_up_behind_its_point_of_no_return_does_not_undo_a_later_failover(
    tmp_path: Path,
) -> None:
    """The process dies as it starts the applications at home; a second operator gives the run up and ends the
    failback; weeks later the flow is failed over again, and somebody goes on with the first directory.
    """
    world = World(at_work={WEST}, paused={THERE.flow}, record={"one": replace(ENTRY, run="one", phase=Phase.DONE)})
    world.groups[WEST] = {"audit": 7}
    move, forward = move_home(world, tmp_path), StandInEnds(world, THERE.flow)
    journal = Journal(tmp_path / "journal.jsonl")
    steps = steps_home(move, forward)
    start = [each.name for each in steps].index("start")
    carry_out(steps[:start], journal, goes_back=True)
    journal.append(Event.POINT_OF_NO_RETURN, step="start")
    journal.append(Event.STEP_STARTED, step="start")
    # Others: `mirror failback --give-up home`, to its end, and a later failover of the flow, done.
    world.record = {"two": replace(ENTRY, run="two", phase=Phase.DONE)}
    world.at_work, world.paused = {WEST}, {THERE.flow}
    plan = look_home(move, forward, Progress.of(journal.read().entries))
    assert "others have given it up" in str(plan.refusal)
    # The same where it is given up between the plan and the step.
    results = carry_out(steps, journal, goes_back=True)
    assert (results[-1].name, results[-1].result.verdict) == ("start", Verdict.FAIL)
    assert (world.at_work, world.paused) == ({WEST}, {THERE.flow})


@pytest.mark.parametrize("mode", ["planned", "cut-off"])
def test_a_failover_whose_older_copy_was_taken_back_starts_nothing_on_the_target(mode: str, tmp_path: Path) -> None:
    """The process dies between the point of no return and putting that on record; the copy is of before the cut."""
    newer, older = tmp_path / "newer", tmp_path / "older"
    newer.mkdir()
    world = World()

    def steps(directory: Path) -> Sequence[Step]:
        return steps_of(Mode(mode), move_of(world, directory, mode=mode), None)

    run_until(steps(newer), newer, "stop")
    shutil.copytree(newer, older)
    run_until(steps(newer), newer, "last look")
    journal = Journal(newer / "journal.jsonl")
    journal.append(Event.POINT_OF_NO_RETURN, step="start")
    journal.append(Event.STEP_STARTED, step="start")
    assert worst(each.result.verdict for each in taken_back(steps(older), older).values()) is Verdict.PASS
    assert (world.at_work, world.record) == ({EAST}, {})
    *_, last = taken_up(steps(newer), newer).values()
    assert (last.name, last.result.verdict, world.at_work) == ("start", Verdict.FAIL, {EAST})
    assert "others have given it up" in last.result.detail


@pytest.mark.parametrize("only_reads", [False, True])
@pytest.mark.parametrize("mode", ["planned", "cut-off", "failback"])
def test_what_an_older_copy_has_begun_to_take_back_starts_nothing_on_the_other_side(
    mode: str, only_reads: bool, tmp_path: Path
) -> None:
    """It was killed as it had started the applications where they were: the run is still on record."""
    newer, older = tmp_path / "newer", tmp_path / "older"
    newer.mkdir()
    world, where = World(only_reads=only_reads), EAST
    if mode == "failback":
        done = {"one": replace(ENTRY, run="one", phase=Phase.DONE)}
        world, where = replace(world, at_work={WEST}, paused={THERE.flow}, record=done), WEST
        world.groups[WEST] = {"audit": 7}

    def steps(directory: Path) -> Sequence[Step]:
        if mode == "failback":
            return steps_home(move_home(world, directory), StandInEnds(world, THERE.flow))
        return steps_of(Mode(mode), move_of(world, directory, mode=mode), None)

    run_until(steps(newer), newer, "stop")
    shutil.copytree(newer, older)
    start = [each.name for each in steps(newer)].index("start")
    journal = Journal(newer / "journal.jsonl")
    carry_out(steps(newer)[:start], journal, goes_back=True)
    journal.append(Event.POINT_OF_NO_RETURN, step="start")
    journal.append(Event.STEP_STARTED, step="start")

    def ends() -> None:
        raise Ended

    with pytest.raises(Ended):
        take_back(steps(older), Behind(older, "stop", ends, Event.STEP_UNDONE))
    assert world.at_work == {where}
    *_, last = taken_up(steps(newer), newer).values()
    assert (last.name, last.result.verdict, world.at_work) == ("start", Verdict.FAIL, {where})
    assert f"applications are at work on {where} again" in last.result.detail


@pytest.mark.parametrize("mode", ["planned", "cut-off"])
def test_applications_that_nobody_has_started_again_are_not_taken_back_with_a_pass(mode: str, tmp_path: Path) -> None:
    """`mirror failover --take-back --yes` without an applications file: they stay stopped on both sides."""
    world = World()
    move = replace(move_of(world, tmp_path, mode=mode), applications=Nobody())
    steps = steps_of(Mode(mode), move, None)
    world.at_work = set()  # somebody has stopped them
    journal = Journal(tmp_path / "journal.jsonl")
    carry_out(steps[: [each.name for each in steps].index("groups")], journal, goes_back=False)
    results = take_back(steps, journal)
    (stop,) = (each for each in results if each.name == "back: stop")
    assert "nobody has looked" in stop.result.detail
    assert worst(each.result.verdict for each in results) is Verdict.UNKNOWN
    assert world.record == {}


def test_the_plan_of_an_unplanned_failover_names_stopped_copies_and_how_far_a_run_had_got_that_is_given_up(
    tmp_path: Path,
) -> None:
    """Of a partition whose position is not understood nothing was lacking, and nothing was said."""
    stopped = {ORDERS: "the record of its position is not understood"}

    class Stopped(StandInEnds):
        def copied(self) -> Copied:
            return replace(super().copied(), stops=stopped)

    theirs = replace(ENTRY, run="theirs", is_beyond_return=True)
    world = World(is_up={EAST: False, WEST: True}, record={"theirs": theirs})
    move = replace(move_of(world, tmp_path), ends=Stopped(world, THERE.flow), given_up="theirs")
    notes = look_ahead(Mode.UNPLANNED, move, None).notes
    assert any(
        each.endswith("than is on record: orders-0: the record of its position is not understood") for each in notes
    )
    assert any("the run that is given up has begun to start the applications on west" in each for each in notes)


def test_a_plan_says_what_a_run_that_is_given_up_has_started_and_where(tmp_path: Path) -> None:
    """Groups of a migration were not named, and a failback was said to have started them on the standby."""
    moving = replace(ENTRY, run="theirs", mode="migration", started=("audit", "billing"))
    world = World(record={"theirs": moving})
    move = replace(move_of(world, tmp_path), given_up="theirs")
    said = "the run that is given up has begun to start the applications of groups audit, billing on west"
    assert any(said in each for each in look_ahead(Mode.PLANNED, move, None).notes)
    other = look_ahead(Mode.PLANNED, move_of(world, tmp_path), None).refusal
    assert "and has begun to start the applications of groups audit, billing where they go" in str(other)
    world.record = {
        "one": replace(ENTRY, run="one", phase=Phase.DONE),
        "theirs": replace(ENTRY, run="theirs", phase=Phase.RETURNING, is_beyond_return=True),
    }
    notes = look_home(replace(move_home(world, tmp_path), given_up="theirs"), StandInEnds(world, THERE.flow)).notes
    assert any("has begun to start the applications on east: see first which are at work" in each for each in notes)
