"""The procedure in every mode, and home: what it does, what it refuses, and that a kill at any point loses nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mirror.control.group_view import TranslatedPosition
from mirror.control.groups import GroupAction
from mirror.evidence.failover_journal import instants_of
from mirror.evidence.journal import Event, Journal
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.problems import BrokerRefused, ClusterError
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import RunReport
from mirror.model.translation import Exact
from mirror.model.verdict import Verdict, worst
from mirror.recovery.applications import Answer, Done, Nobody, NotDone
from mirror.recovery.denying import Denied
from mirror.recovery.failback import FailbackPlan, look_home, steps_home
from mirror.recovery.failover import DETECT, Mode, copies_again, look_ahead, steps_of
from mirror.recovery.flow_ends import Copied, Ends
from mirror.recovery.group_moves import GroupMoves, MovePlan, Unmoved
from mirror.recovery.move import Times
from mirror.recovery.recent_writers import RecentWriter, Writers
from mirror.recovery.rewritten import Rewritten
from mirror.recovery.seen_at_work import Placed
from mirror.recovery.steps import NotTakenBack, Progress, Result, Step, StepResult, StepsUnderWay, carry_out, take_back
from mirror.waiting import Counted, OnLook, WaitTimeout, watched
from tests.unit.recovery.world import (
    EAST,
    ENTRY,
    HOME,
    ORDERS,
    THERE,
    WEST,
    Killed,
    StandInApplications,
    StandInEnds,
    World,
    move_home,
    move_of,
)


def steps(world: World, directory: Path, mode: Mode = Mode.PLANNED) -> Sequence[Step]:
    return steps_of(mode, move_of(world, directory, mode=mode), StandInEnds(world, HOME.flow))


def homeward(world: World, directory: Path) -> Sequence[Step]:
    return steps_home(move_home(world, directory), StandInEnds(world, THERE.flow))


def performed(
    world: World, directory: Path, make: Callable[[World, Path], Sequence[Step]] = steps
) -> tuple[StepResult, ...]:
    directory.mkdir(exist_ok=True)
    journal = CountedJournal(directory / "journal.jsonl", world)
    return carry_out(make(world, directory), journal, goes_back=make is not unplanned and make is not cut_off)


def unplanned(world: World, directory: Path) -> Sequence[Step]:
    return steps(world, directory, Mode.UNPLANNED)


def cut_off(world: World, directory: Path) -> Sequence[Step]:
    return steps(world, directory, Mode.CUT_OFF)


class CountedJournal(Journal):
    """A journal of which every entry may be the last thing that a process does."""

    def __init__(self, path: Path, world: World) -> None:
        super().__init__(path)
        self._world = world

    def append(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
        entry = super().append(*arguments, **named)  # type: ignore[arg-type]
        self._world.call()
        return entry


def moments(directory: Path) -> set[tuple[str | None, Event, str]]:
    """What the journal of a run says has happened, in which step, and to which group."""
    of_steps = {Event.STEP_STARTED, Event.STEP_FINISHED, Event.STEP_SKIPPED, Event.STEP_UNDONE}
    return {
        (entry.step, entry.event, str(entry.facts.get("group", "")))
        for entry in Journal(directory / "journal.jsonl").read().entries
        if entry.event not in of_steps
    }


def verdict(results: Sequence[StepResult]) -> Verdict:
    return worst(each.result.verdict for each in results)


def lost() -> World:
    """Return a world whose source is gone; applications there are at work on nothing."""
    return World(is_up={EAST: False, WEST: True})


def test_a_planned_failover_copies_everything_before_the_applications_move(tmp_path: Path) -> None:
    world = World()
    results = performed(world, tmp_path)
    assert [each.name for each in results] == [
        "begin", "verify so far", "stop", "fence", "drain", "cut", "verify", "groups", "positions", "last look", "start",
        "copy back", "first write", "first reads", "finish",
    ]  # fmt: skip
    assert verdict(results) is Verdict.PASS
    assert (world.at_work, world.paused, world.groups[WEST]) == ({WEST}, {THERE.flow}, {"audit": 7})
    assert world.copied[EAST] == world.written[EAST]
    assert world.done == [
        "verify so far", "stop on east", "pause east->west", "verify the rest", "write audit on west", "start on west"
    ]  # fmt: skip
    assert world.record["ours"].phase is Phase.DONE


def test_what_is_wrong_with_the_flow_back_is_told_as_it_is_resumed() -> None:
    """Behind a fence by quotas it stood still, and the step "copy back" said nothing of that."""
    world = World()
    assert copies_again(StandInEnds(world, HOME.flow)) == "west->east is not cut"
    world.troubles = ("throttled by east for 30.00 s of the last 30.0 s",)
    assert copies_again(StandInEnds(world, HOME.flow)).endswith(
        "; its engine reported last: throttled by east for 30.00 s of the last 30.0 s"
    )


def test_what_a_topic_made_anew_was_stopped_for_is_not_told_as_it_is_copied_again() -> None:
    """It filled thirty lines of a step that had passed, with the advice to do what had just been done."""
    world = World()
    ends = StandInEnds(world, HOME.flow)
    mended, other = f"{min(ends.copied().positions)} is stopped: others are there", "payments-0 is stopped: poison"
    world.troubles = (mended, other, mended.replace(" is stopped", ""))
    topics = {each.topic for each in ends.copied().positions}
    assert copies_again(ends, topics) == f"west->east is not cut; its engine reported last: {other}"
    assert mended in copies_again(ends)


def test_that_it_was_cut_is_no_trouble_of_a_flow_that_is_copied_again() -> None:
    """Every failback said so of both flows, of a report from before they were resumed."""
    world = World()
    world.troubles = RunReport("PAUSED", (), 1_000).left_behind().troubles
    assert world.troubles
    assert copies_again(StandInEnds(world, HOME.flow)) == "west->east is not cut"


def test_a_copy_that_is_waited_for_tells_how_many_records_are_left(tmp_path: Path) -> None:
    class Behind(StandInEnds):
        """Four records are copied between two looks."""

        at = 0

        def copied(self) -> Copied:
            Behind.at = min(10, Behind.at + 4)
            return replace(super().copied(), positions={ORDERS: Position(Behind.at, Behind.at, 0, complete=True)})

    seen: list[object] = []
    waits: list[str] = []

    @contextmanager
    def watcher(what: str) -> Iterator[OnLook]:
        waits.append(what)
        yield seen.append

    world = World()
    with watched(watcher):
        replace(move_of(world, tmp_path), ends=Behind(world, THERE.flow)).await_copy({ORDERS: 10})
    assert waits == ["west to have the records of east"]
    assert seen == [Counted(0, 6), Counted(4, 6), Counted(6, 6)]


def test_an_unplanned_failover_asks_nothing_of_the_source_but_whether_it_is_gone(tmp_path: Path) -> None:
    world = lost()
    results = performed(world, tmp_path, unplanned)
    assert [each.name for each in results] == [
        "detect", "begin", "stop", "cut", "groups", "positions", "last look", "start", "first write", "first reads",
        "finish",
    ]  # fmt: skip
    assert verdict(results) is Verdict.PASS
    assert (world.at_work, world.groups[WEST]) == ({WEST}, {"audit": 7})
    assert not [each for each in world.done if each.startswith("verify")]
    # The journal says when everything happened, as that of a drill does.
    entries = Journal(tmp_path / "journal.jsonl").read().entries
    instants = instants_of(entries, entries[0].at_ms, ["audit"])
    assert (instants.first_write_at_ms, dict(instants.groups_reading_at_ms)) == (101, {"audit": 102})
    assert None not in (
        instants.detected_at_ms,
        instants.fenced_at_ms,
        instants.cut_at_ms,
        instants.offsets_applied_at_ms,
    )


@dataclass(frozen=True)
class WithAnIdleGroup(StandInApplications):
    """Applications of a group that has nothing to read, so that nobody ever sees it reading."""

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        return dict.fromkeys(groups, NotDone("not within 300 s"))


@pytest.mark.parametrize("mode", [Mode.UNPLANNED, Mode.CUT_OFF, Mode.PLANNED])
def test_a_group_with_nothing_to_read_fails_a_failover_and_the_way_home_is_open_all_the_same(
    mode: Mode, tmp_path: Path
) -> None:
    world = lost() if mode is Mode.UNPLANNED else World()
    move = replace(move_of(world, tmp_path, mode=mode), applications=WithAnIdleGroup(world))
    for _ in range(2):
        results = carry_out(steps_of(mode, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=False)
        failed = [each.name for each in results if each.result.verdict is Verdict.FAIL]
        assert (failed, results[-1].name) == (["first reads"], "finish")
        assert [each.phase for each in world.record.values()] == [Phase.DONE]
    world.is_up[EAST] = True
    (tmp_path / "home").mkdir()
    home = replace(move_home(world, tmp_path / "home"), applications=WithAnIdleGroup(world))
    way = steps_home(home, StandInEnds(world, THERE.flow))
    results = carry_out(way, Journal(tmp_path / "home" / "journal.jsonl"), goes_back=True)
    failed = [each.name for each in results if each.result.verdict is Verdict.FAIL]
    assert (failed, world.record) == (["first reads"], {})


def test_an_unplanned_failover_of_a_source_that_lives_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    world = World()
    (result,) = performed(world, tmp_path, unplanned)
    assert (result.result.verdict, result.result.detail) == (Verdict.FAIL, "east still answers")
    assert (world.done, world.record) == ([], {})


def test_a_source_that_comes_back_before_applications_are_started_stops_an_unplanned_failover(tmp_path: Path) -> None:
    world = lost()
    journal = Journal(tmp_path / "journal.jsonl")
    under_way = StepsUnderWay(unplanned(world, tmp_path), journal, goes_back=False)
    under_way.carry_out(through="positions")
    world.is_up[EAST] = True
    (looked,) = under_way.carry_out()
    assert looked.result.verdict is Verdict.FAIL
    assert "east answers again at east:1, and was gone when this run began" in looked.result.detail
    assert (WEST in world.at_work, under_way.is_over) == (False, True)

    # Its brokers are stopped: what was done is not done again.
    world.is_up[EAST] = False
    again = carry_out(unplanned(world, tmp_path), journal, goes_back=False)
    assert {each.name for each in again if each.was_proven} >= {"detect", "begin", "cut", "groups"}
    assert (verdict(again), WEST in world.at_work) == (Verdict.PASS, True)


@pytest.mark.parametrize("made", [steps, unplanned, cut_off], ids=["planned", "unplanned", "cut-off"])
def test_a_cut_that_somebody_ends_is_noticed_before_the_applications_are_started(
    tmp_path: Path, made: Callable[[World, Path], Sequence[Step]]
) -> None:
    """Groups stood by what was copied until then, and the flow wrote into the copies that the applications write to."""
    world = lost() if made is unplanned else World()
    journal = Journal(tmp_path / "journal.jsonl")
    under_way = StepsUnderWay(made(world, tmp_path), journal, goes_back=False)
    under_way.carry_out(through="positions")
    world.paused.clear()
    looked = under_way.carry_out()[-1]
    assert (looked.name, looked.result.verdict, WEST in world.at_work) == ("last look", Verdict.FAIL, False)
    assert looked.result.detail == "the cut of east->west was ended: it may have copied since"

    # The next call cuts it again, and moves the groups to where it stands then.
    again = carry_out(made(world, tmp_path), journal, goes_back=False)
    assert {each.name for each in again if each.was_proven}.isdisjoint({"cut", "groups"})
    assert (WEST in world.at_work, THERE.flow in world.paused) == (True, True)


def test_what_nobody_has_looked_at_is_unknown_and_everything_else_is_done(tmp_path: Path) -> None:
    world = lost()
    move = replace(move_of(world, tmp_path, mode="unplanned"), applications=Nobody())
    journal = Journal(tmp_path / "journal.jsonl")
    results = carry_out(steps_of(Mode.UNPLANNED, move, None), journal, goes_back=False)
    unknown = {each.name for each in results if each.result.verdict is Verdict.UNKNOWN}
    assert unknown == {"stop", "start", "first write", "first reads"}
    assert verdict(results) is Verdict.UNKNOWN
    assert (world.groups[WEST], world.record["ours"].phase) == ({"audit": 7}, Phase.DONE)

    # Somebody has looked meanwhile: what is proven is not done again.
    again = carry_out(unplanned(world, tmp_path), journal, goes_back=False)
    assert {each.name for each in again if each.was_proven} >= {"detect", "begin", "cut", "groups"}
    assert verdict(again) is Verdict.PASS


@pytest.mark.parametrize(
    ("spoiled", "step", "said"),
    [
        (World(stubborn={EAST}), "fence", "somebody still writes to east"),
        (World(open_transactions=("orders-0: producer id 5",)), "fence", "transactions are open on east"),
        (World(paused={THERE.flow}), "drain", "east->west is paused"),
        (World(verdict=Verdict.FAIL), "verify", "FAIL: compared"),
        (World(verdict=Verdict.UNKNOWN), "verify", "UNKNOWN: compared"),
        (World(refused=(Unmoved("audit", ORDERS, "the group is in use"),)), "groups", "group audit, orders-0"),
    ],
)
def test_a_planned_failover_stops_before_the_point_of_no_return_with_everything_as_it_was(
    tmp_path: Path, spoiled: World, step: str, said: str
) -> None:
    before = set(spoiled.paused)
    results = performed(spoiled, tmp_path)
    failed = next(each for each in results if each.result.verdict is Verdict.FAIL)
    assert (failed.name, said in failed.result.detail) == (step, True)
    assert spoiled.at_work == {EAST}
    assert (spoiled.groups, spoiled.record) == ({EAST: {"audit": 7}, WEST: {}}, {})
    assert spoiled.paused == before
    assert "start on west" not in spoiled.done
    # Nothing of it is taken for proven when it is tried again.
    spoiled.stubborn, spoiled.open_transactions, spoiled.paused = set(), (), set()
    spoiled.verdict, spoiled.refused = Verdict.PASS, ()
    assert verdict(performed(spoiled, tmp_path)) is Verdict.PASS
    assert (spoiled.at_work, spoiled.groups[WEST]) == ({WEST}, {"audit": 7})


@pytest.mark.parametrize("make", [steps, unplanned, cut_off, homeward])
def test_a_process_may_be_killed_anywhere_and_the_next_one_ends_in_the_same_state(
    tmp_path: Path, make: Callable[[World, Path], Sequence[Step]]
) -> None:
    def begun() -> World:
        if make is not homeward:
            return lost() if make is unplanned else World()
        world = World(at_work={WEST}, paused={THERE.flow}, record={"before": replace(ENTRY, phase=Phase.DONE)})
        world.record = {"before": replace(ENTRY, run="before", phase=Phase.DONE)}
        world.groups[WEST] = {"audit": 9}
        world.written[EAST] += 2  # stranded
        return world

    def state(world: World) -> object:
        return world.at_work, world.paused, world.groups, world.record, world.verdict

    whole = begun()
    assert verdict(performed(whole, tmp_path / "whole", make)) is Verdict.PASS
    for number in range(1, whole.calls + 1):
        world = begun()
        world.dies_at = number
        directory = tmp_path / str(number)
        with pytest.raises(Killed):
            performed(world, directory, make)
        results = performed(world, directory, make)
        assert verdict(results) is Verdict.PASS, (number, results)
        assert state(world) == state(whole), number
        assert world.copied[EAST] == world.written[EAST] or make is not steps
        assert moments(directory) == moments(tmp_path / "whole"), (number, "the timeline has all that was proven")


@pytest.mark.parametrize(("elsewhere", "wanted"), [(9, 7), (None, 7), (3, 3)])
def test_a_group_that_others_have_moved_before_the_start_is_moved_again_unless_it_only_reads_again(
    tmp_path: Path, elsewhere: int | None, wanted: int
) -> None:
    """Killed before the point of no return; then somebody sets the group on, deletes its position, or sets it back."""
    world, directory = World(), tmp_path / "run"
    whole = list(steps(world, directory))
    directory.mkdir()
    journal = Journal(directory / "journal.jsonl")
    start = [each.is_point_of_no_return for each in whole].index(True)
    carry_out(whole[:start], journal, goes_back=False)
    assert world.groups[WEST] == {"audit": 7}
    world.groups[WEST] = {} if elsewhere is None else {"audit": elsewhere}
    results = carry_out(whole, journal, goes_back=True)
    assert verdict(results) is Verdict.PASS
    assert world.groups[WEST] == {"audit": wanted}
    (groups,) = [each for each in results if each.name == "groups"]
    assert groups.was_proven is (wanted == elsewhere)


def test_a_failback_that_ended_before_it_had_said_so_takes_nothing_that_others_have_put_on_record(
    tmp_path: Path,
) -> None:
    world = World(
        at_work={WEST}, paused={THERE.flow}, record={"before": replace(ENTRY, run="before", phase=Phase.DONE)}
    )
    directory = tmp_path / "run"
    whole = list(homeward(world, tmp_path / "run"))
    finish = whole.pop()
    directory.mkdir()
    journal = Journal(directory / "journal.jsonl")
    carry_out(whole, journal, goes_back=True)
    finish.act({})
    assert world.record == {}
    world.record["theirs"] = replace(ENTRY, run="theirs", phase=Phase.DONE)
    assert verdict(carry_out([*whole, finish], journal, goes_back=True)) is Verdict.PASS
    assert list(world.record) == ["theirs"]


@pytest.mark.parametrize("spoil", ["verify", "groups"])
def test_a_process_may_be_killed_while_it_takes_back_what_it_did(tmp_path: Path, spoil: str) -> None:
    """The next one begins anew with what was taken back, and fails as the first did: then all is as it was."""

    def spoiled() -> World:
        refused = (Unmoved("audit", ORDERS, "in use"),) if spoil == "groups" else ()
        return World(verdict=Verdict.FAIL if spoil == "verify" else Verdict.PASS, refused=refused)

    whole = spoiled()
    performed(whole, tmp_path / "whole")
    for number in range(1, whole.calls + 1):
        world = spoiled()
        world.dies_at = number
        with pytest.raises(Killed):
            performed(world, tmp_path / str(number))
        performed(world, tmp_path / str(number))
        assert (world.at_work, world.paused, world.record) == ({EAST}, set(), {}), number
        assert world.groups == {EAST: {"audit": 7}, WEST: {}}, number


def test_a_run_that_was_killed_before_the_point_of_no_return_can_be_taken_back(tmp_path: Path) -> None:
    whole = World()
    performed(whole, tmp_path / "whole")
    begins = [entry.n for entry in Journal(tmp_path / "whole/journal.jsonl").read().entries]
    assert begins
    for number in range(1, whole.calls + 1):
        world = World(dies_at=number)
        directory = tmp_path / str(number)
        with pytest.raises(Killed):
            performed(world, directory)
        journal = Journal(directory / "journal.jsonl")
        entries = journal.read().entries
        is_beyond = any(entry.event is Event.POINT_OF_NO_RETURN for entry in entries)
        results = take_back(steps(world, directory), journal)
        if is_beyond:
            assert verdict(results) is Verdict.FAIL
        else:
            assert world.at_work == {EAST}, number
            assert (world.paused, world.record, world.groups[WEST]) == (set(), {}, {}), number


def test_a_cut_with_open_ends_is_no_pass_and_names_them(tmp_path: Path) -> None:
    """The engine was killed with its site: the copy may reach further than it had said."""
    killed = {ORDERS: "the engine ended before it had said how far it had copied"}
    world = replace(lost(), open_ends=killed)
    results = performed(world, tmp_path / "unplanned", unplanned)
    (unknown,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unknown.name, unknown.result.verdict) == ("cut", Verdict.UNKNOWN)
    assert "orders-0: the engine ended before" in unknown.result.detail
    # Behind the point of no return nobody can find it out any more: it is not cut again, and is no PASS.
    again = performed(world, tmp_path / "unplanned", unplanned)
    assert [each.name for each in again if not each.was_proven] == []
    assert (verdict(again), world.done.count("pause east->west")) == (Verdict.UNKNOWN, 1)
    world.paused.clear()
    resumed = performed(world, tmp_path / "unplanned", unplanned)
    assert "the cut of east->west was ended: it may have copied since" in resumed[-1].result.detail

    world = World(open_ends=killed)
    results = performed(world, tmp_path / "planned")
    failed = next(each for each in results if each.result.verdict is Verdict.FAIL)
    assert (failed.name, "orders-0" in failed.result.detail) == ("cut", True)
    assert (world.at_work, world.paused, world.groups[WEST]) == ({EAST}, set(), {})


def test_a_cut_behind_which_something_may_still_be_appended_is_no_pass(tmp_path: Path) -> None:
    world = replace(lost(), limit="what was sent before may be appended: grant Write")
    results = performed(world, tmp_path, unplanned)
    (unknown,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unknown.name, unknown.result.verdict) == ("cut", Verdict.UNKNOWN)
    assert "grant Write" in unknown.result.detail


def test_a_copy_that_an_engine_has_left_closed_is_told_of_in_the_plan(tmp_path: Path) -> None:
    """It was about to delete the copy, to make it anew: applications cannot write there (max.message.bytes = 0)."""
    world = replace(lost(), closed=("east.orders on west takes no records",))
    plan = look_ahead(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None)
    assert any(each.endswith("opens it: east.orders on west takes no records") for each in plan.notes)


def test_copies_that_are_closed_are_looked_for_once_more_before_the_applications_are_started(tmp_path: Path) -> None:
    """An engine was about to close one when the flow was cut, and ended: applications could not write, for good."""
    world = replace(lost(), closed=("east.orders on west takes no records",))
    performed(world, tmp_path / "opened", unplanned)
    assert world.closed == ()
    world = replace(lost(), not_opened="east.orders on west takes no records")
    results = performed(world, tmp_path / "refused", unplanned)
    (unknown,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unknown.name, unknown.result.verdict) == ("last look", Verdict.UNKNOWN)
    assert unknown.result.detail.endswith("; but east.orders on west takes no records")


def writer(interval_ms: int | None) -> RecentWriter:
    return RecentWriter(ORDERS, 5, 1, 1_000, interval_ms)


def test_a_producer_that_sends_at_long_intervals_is_waited_for_and_named(tmp_path: Path) -> None:
    """The logs are quiet for as long as a fence waits; then it sends once more."""

    class Slow(StandInEnds):
        def writers(self) -> Writers:
            self.world.at_work.add(EAST)
            return super().writers()

    world = World(writers=Writers((writer(100),)))
    ends = Slow(world, THERE.flow)
    move = replace(
        move_of(world, tmp_path), ends=ends, times=Times(quiet=0.05, fence=0.3, drain=0.3, slow=1.0, seen=0.0)
    )
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    failed = next(each for each in results if each.result.verdict is Verdict.FAIL)
    assert failed.name == "fence"
    assert "somebody still writes to east: orders-0 grew within 0.2 s" in failed.result.detail
    assert "orders-0: producer 5 (epoch 1), last at 1970-01-01T00:00:01Z, every 0.1 s or less" in failed.result.detail
    assert world.groups[WEST] == {}


@pytest.mark.parametrize(
    ("interval_ms", "is_told", "found"),
    [
        (1, False, Verdict.PASS),
        (None, False, Verdict.UNKNOWN),
        (90_000, False, Verdict.UNKNOWN),
        (None, True, Verdict.PASS),
        (90_000, True, Verdict.PASS),
    ],
)
def test_who_wrote_last_is_named_and_is_no_pass_where_it_may_go_on(
    interval_ms: int | None, is_told: bool, found: Verdict, tmp_path: Path
) -> None:
    """Who runs the applications may have said that they are stopped, and of a burst nobody knows an interval."""
    world = World(writers=Writers((writer(interval_ms),)), is_told_of_stops=is_told)
    move = replace(move_of(world, tmp_path), times=Times(quiet=0.05, fence=0.3, drain=0.3, slow=0.1, seen=0.0))
    journal = Journal(tmp_path / "journal.jsonl")
    results = carry_out(steps_of(Mode.PLANNED, move, None), journal, goes_back=True)
    (fence,) = [each.result for each in results if each.name == "fence"]
    assert (fence.verdict, "orders-0: producer 5 (epoch 1)" in fence.detail) == (found, True)
    assert (verdict(results), world.at_work) == (Verdict.PASS if is_told else Verdict.UNKNOWN, {WEST})
    # It is of its moment: nobody asks the old cluster again when the applications are on the new one.
    again = carry_out(steps_of(Mode.PLANNED, move, None), journal, goes_back=True)
    assert [each.name for each in again if not each.was_proven] == ([] if is_told else ["stop"])


class StandInDenying:
    """Denies writes to the old cluster of the world."""

    adds = True

    def __init__(self, found: Denied) -> None:
        self.found = found
        self.is_denied = False

    def plan(self) -> tuple[str, ...]:
        return ("DENY WRITE for everybody on 1 topic of east",)

    def deny(self) -> Denied:
        self.is_denied = self.found.is_denied
        return self.found

    def admit(self) -> str:
        self.is_denied = False
        return "admitted"

    def deny_again(self) -> str:
        self.is_denied = True
        return "denied again"


def test_a_slow_super_user_is_waited_for_although_writes_are_denied(tmp_path: Path) -> None:
    """ACLs do not hold super users up: of one that sends at known intervals the next record is awaited."""

    class Slow(StandInEnds):
        def writers(self) -> Writers:
            self.world.at_work.add(EAST)
            return super().writers()

    world = World(writers=Writers((writer(100),)))
    ends = Slow(world, THERE.flow)
    move = replace(
        move_of(world, tmp_path), ends=ends, times=Times(quiet=0.05, fence=0.3, drain=0.3, slow=1.0, seen=0.0)
    )
    steps_denied = steps_of(Mode.PLANNED, move, None, StandInDenying(Denied(True, "denied")))
    results = carry_out(steps_denied, Journal(tmp_path / "journal.jsonl"), goes_back=True)
    failed = next(each for each in results if each.result.verdict is Verdict.FAIL)
    assert (failed.name, "orders-0 grew within 0.2 s" in failed.result.detail) == ("fence", True)


@pytest.mark.parametrize(
    ("writers", "is_told", "denying", "found"),
    [
        (Writers((), {ORDERS: "it has no leader"}), False, None, Verdict.UNKNOWN),
        (Writers((), {ORDERS: "it has no leader"}), True, None, Verdict.UNKNOWN),
        (Writers((), {ORDERS: "it has no leader"}), True, StandInDenying(Denied(True, "denied")), Verdict.UNKNOWN),
        (Writers((writer(1),), cut_short={ORDERS: (range(205),)}), False, None, Verdict.UNKNOWN),
        (Writers((writer(1),), cut_short={ORDERS: (range(205),)}), True, None, Verdict.PASS),
        (
            Writers((writer(1),), cut_short={ORDERS: (range(205),)}),
            False,
            StandInDenying(Denied(True, "denied")),
            Verdict.PASS,
        ),
    ],
)
def test_where_it_is_not_told_who_writes_the_source_is_not_known_to_be_quiet(
    writers: Writers, is_told: bool, denying: StandInDenying | None, found: Verdict, tmp_path: Path
) -> None:
    world = World(writers=writers, is_told_of_stops=is_told)
    times = Times(quiet=0.05, fence=0.3, drain=0.3, slow=0.1, seen=0.0)
    move = replace(move_of(world, tmp_path), times=times)
    results = carry_out(
        steps_of(Mode.PLANNED, move, None, denying), Journal(tmp_path / "journal.jsonl"), goes_back=True
    )
    (fence,) = [each.result for each in results if each.name == "fence"]
    assert fence.verdict is found
    assert found is Verdict.PASS or "orders-0" in fence.detail
    assert all(each in fence.detail for each in writers.unread())


def test_before_the_point_of_no_return_a_cut_with_open_ends_is_made_again(tmp_path: Path) -> None:
    world = replace(lost(), open_ends={ORDERS: "it was killed"}, refused=(Unmoved("audit", ORDERS, "in use"),))
    assert performed(world, tmp_path, unplanned)[-1].name == "groups"
    world.open_ends, world.refused = {}, ()
    assert verdict(performed(world, tmp_path, unplanned)) is Verdict.PASS


def test_pauses_by_hand_are_told_in_the_plan_and_stop_a_failback_that_needs_the_copy(tmp_path: Path) -> None:
    told = "topics that match audit, paused by ann at 1970-01-01T00:00:00Z"
    world = replace(lost(), by_hand={THERE.flow: told})
    plan = look_ahead(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None)
    assert plan.refusal is None
    assert any(told in each and "after a failback" in each for each in plan.notes)
    world = World(record={"before": replace(ENTRY, run="before", phase=Phase.DONE)}, by_hand={THERE.flow: told})
    plan_home = look_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow))
    assert (plan_home.refusal, any(told in each for each in plan_home.notes)) == (None, True)
    world.by_hand = {HOME.flow: told}
    assert told in (look_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow)).refusal or "")


def test_a_moment_that_passed_is_noticed_and_what_rests_on_it_is_done_again(tmp_path: Path) -> None:
    """Somebody has written to the source after the fence, while the process was dead; the flow was cut by then."""
    world = World()
    whole = World()
    performed(whole, tmp_path / "whole")
    world.dies_at = next(
        number
        for number in range(1, whole.calls)
        if _done_by(number, tmp_path / f"at-{number}")[-1:] == ["verify the rest"]
    )
    directory = tmp_path / "run"
    with pytest.raises(Killed):
        performed(world, directory)
    world.written[EAST] += 5
    results = performed(world, directory)
    assert verdict(results) is Verdict.PASS
    assert world.copied[EAST] == world.written[EAST]
    assert world.done.count("resume east->west") == 1
    assert (world.at_work, world.paused) == ({WEST}, {THERE.flow})


def _done_by(number: int, directory: Path) -> list[str]:
    world = World(dies_at=number)
    with pytest.raises(Killed):
        performed(world, directory)
    return world.done


def test_what_was_there_before_is_told_also_of_groups_that_an_earlier_process_has_moved(tmp_path: Path) -> None:
    """The process ended between two groups; then the first is there already, and was nowhere before the run."""

    def begun(dies_at: int | None = None) -> World:
        return World(groups={EAST: {"audit": 7, "billing": 3}, WEST: {"billing": 1}}, dies_at=dies_at)

    whole = begun()
    performed(whole, tmp_path / "whole")
    for number in range(1, whole.calls + 1):
        world, directory = begun(number), tmp_path / str(number)
        with pytest.raises(Killed):
            performed(world, directory)
        groups = next(each for each in performed(world, directory) if each.name == "groups")
        rows = groups.result.facts["rows"]
        assert isinstance(rows, list)
        assert [(row["group"], row["before"], row["after"]) for row in rows] == [("audit", None, 7), ("billing", 1, 3)]


def test_behind_the_point_of_no_return_a_flow_that_copies_again_is_refused_with_the_difference(tmp_path: Path) -> None:
    world = World()
    performed(world, tmp_path)
    world.paused.clear()
    results = performed(world, tmp_path)
    assert results[-1].name == "cut"
    assert "the cut of east->west was ended: it may have copied since" in results[-1].result.detail
    assert world.done.count("start on west") == 1


def test_two_runs_at_once_do_not_both_go_on_and_one_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    theirs = replace(ENTRY, run="theirs", where="elsewhere")
    for phase, said in ((Phase.UNDER_WAY, "is under way since"), (Phase.DONE, "is failed over already")):
        world = World(record={"theirs": replace(theirs, phase=phase)})
        results = performed(world, tmp_path / phase.name)
        assert (said in results[0].result.detail, "elsewhere" in results[0].result.detail) == (True, True)
        assert (world.done, list(world.record)) == ([], ["theirs"])
        plan = look_ahead(Mode.PLANNED, move_of(world, tmp_path), None)
        assert said in (plan.refusal or "")
        world.groups[WEST] = {}
        given_up = replace(move_of(world, tmp_path), given_up="theirs")
        again = carry_out(
            steps_of(Mode.PLANNED, given_up, None), Journal(tmp_path / f"{phase.name}.jsonl"), goes_back=True
        )
        assert (verdict(again), list(world.record)) == (
            (Verdict.PASS, ["ours"]) if phase is Phase.UNDER_WAY else (Verdict.FAIL, ["theirs"])
        )


def test_the_plan_says_what_lacks_and_changes_nothing(tmp_path: Path) -> None:
    world = World(at_work=set(), paused={THERE.flow})
    world.written[EAST] = 14
    back = StandInEnds(world, HOME.flow)
    plan = look_ahead(Mode.CUT_OFF, move_of(world, tmp_path, mode="cut-off"), back)
    assert str(plan.loss).startswith("4 offsets missing, 4 records at most (")
    assert str(plan.loss).endswith("): orders-0: 4 offsets, from 10 to 13, as the source reports")
    plan = look_ahead(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None)
    assert plan.loss.bound is not None
    assert (
        "what east has acknowledged since a minute at most before 1970-01-01T00:00:00Z, the engine's last"
        in plan.loss.bound
    )
    assert any("enables no flow west->east" in note for note in plan.notes)
    assert world.done == []


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (Phase.UNDER_WAY, "--give-up theirs"),
        (Phase.RETURNING, "--give-up theirs"),
        (Phase.DONE, "east->west is failed over already"),
    ],
)
def test_a_planned_failover_the_other_way_is_refused_while_a_run_is_on_record(
    phase: Phase, said: str, tmp_path: Path
) -> None:
    world = World(at_work={WEST})
    world.record["theirs"] = replace(ENTRY, run="theirs", phase=phase)
    home, there = StandInEnds(world, HOME.flow), StandInEnds(world, THERE.flow)
    plan = look_ahead(Mode.PLANNED, replace(move_of(world, tmp_path), ends=home, record=home), there)
    assert said in str(plan.refusal)


def test_a_planned_failover_is_refused_while_the_state_of_the_flow_back_is_hidden(tmp_path: Path) -> None:
    """It was begun, and failed when the applications were stopped, as nobody could tell who had written there."""

    class Hidden(StandInEnds):
        def copied(self) -> Copied:
            raise BrokerRefused("east: topic mm2-state.west.internal", 29, "Describe on the topic")

    world = World()
    refusal = str(look_ahead(Mode.PLANNED, move_of(world, tmp_path), Hidden(world, HOME.flow)).refusal)
    assert refusal.startswith(
        "whether west->east is failed over, or writes to east, is not known: east: topic mm2-state."
    )
    assert look_ahead(Mode.CUT_OFF, move_of(world, tmp_path, mode="cut-off"), Hidden(world, HOME.flow)).refusal is None


def test_an_engine_that_reports_on_without_its_source_does_not_narrow_what_is_lost(tmp_path: Path) -> None:
    world = replace(lost(), troubles=("east: connection refused",))
    plan = look_ahead(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None)
    assert plan.loss.bound == (
        "what east has acknowledged since an engine last copied from it without trouble (when is not on record: the "
        "last report, 1970-01-01T00:00:00Z, is of trouble already: east: connection refused), is not known (it was not "
        "asked)"
    )


def test_where_it_has_reported_no_trouble_last_bounds_what_is_lost(tmp_path: Path) -> None:
    """Its last report was all that was named: not since when the records are missing."""
    world = replace(lost(), troubles=("east: connection refused",), untroubled_at_ms=60_000)
    plan = look_ahead(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None)
    assert plan.loss.bound == (
        "what east has acknowledged since a minute at most before 1970-01-01T00:01:00Z, when the engine last reported no "
        "trouble (at 1970-01-01T00:00:00Z: east: connection refused), is not known (it was not asked)"
    )


def test_of_what_is_paused_by_hand_more_may_be_lost_than_since_the_last_report(tmp_path: Path) -> None:
    """Nobody looks where the log of a topic ends that is not copied."""
    world = replace(lost(), paused_topics=("bills",))
    bound = look_ahead(Mode.UNPLANNED, move_of(world, tmp_path, mode="unplanned"), None).loss.bound
    assert "the engine's last report, and to bills since that was paused, is not known" in str(bound)


@pytest.mark.parametrize("mode", Mode)
def test_an_unplanned_failover_probes_its_source_while_it_is_planned(mode: Mode, tmp_path: Path) -> None:
    """Not once that is proven, which is looked at again by itself."""
    world = World()
    move = move_of(world, tmp_path, mode=mode)
    look_ahead(mode, move, None)
    detected = StepResult(DETECT, Result(Verdict.PASS, "gone"), 0.0)
    look_ahead(mode, move, None, Progress(frozenset({DETECT}), {DETECT: detected}, is_beyond_return=False))
    assert world.planned_while_probing == [mode is Mode.UNPLANNED, False]
    assert not world.is_probing


def test_what_is_written_to_the_source_behind_its_fence_stops_a_planned_run(tmp_path: Path) -> None:
    """Somebody starts an application on the old cluster while the copy is compared."""

    class Late(StandInEnds):
        def verify(self, remember: Path | None = None) -> tuple[Verdict, str]:
            found = super().verify(remember)
            self.world.written[EAST] += self.world.done[-1] == "verify the rest"
            return found

    world = World()
    move = replace(move_of(world, tmp_path), ends=Late(world, THERE.flow))
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    (failed,) = [each for each in results if each.result.verdict is Verdict.FAIL]
    assert (failed.name, "orders-0 ended at" in failed.result.detail) == ("last look", True)
    assert (world.at_work, world.groups[WEST], world.paused, world.record) == ({EAST}, {}, set(), {})


def test_a_group_that_reads_on_the_source_once_it_is_moved_stops_a_planned_run(tmp_path: Path) -> None:
    """It would read that again on the target, of which its row says that it goes on exactly."""

    class Rejoined(StandInEnds):
        def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
            moves = super().move_groups(plan, snapshot)
            self.world.groups[EAST]["audit"] += 2
            return moves

    world = World()
    move = replace(move_of(world, tmp_path), ends=Rejoined(world, THERE.flow))
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    (failed,) = [each for each in results if each.result.verdict is Verdict.FAIL]
    assert (failed.name, failed.result.detail) == (
        "last look",
        "groups have read on east since they were moved to west: group audit is at 9 of orders-0, and was at 7",
    )
    assert (world.at_work, world.groups[WEST], world.record) == ({EAST}, {}, {})


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"paused": ("audit",)}, "topics are paused, so their copy cannot become complete (mirror resume): audit"),
        ({"stops": {ORDERS: "too large"}}, "has stopped"),
        ({"open_gaps": ("orders-0 from 5",)}, "nobody has acknowledged (mirror gaps FILE --acknowledge)"),
        ({"positions": {}}, "has copied nothing that is on record"),
    ],
)
def test_a_planned_run_whose_copy_cannot_become_complete_is_not_begun(
    tmp_path: Path, found: dict[str, Any], said: str
) -> None:
    class Sick(StandInEnds):
        def copied(self) -> Copied:
            return replace(super().copied(), **found)

    world = World()
    move = replace(move_of(world, tmp_path), ends=Sick(world, THERE.flow))
    assert said in (look_ahead(Mode.PLANNED, move, None).refusal or "")


def test_only_a_planned_run_asks_whether_an_engine_runs_and_is_not_begun_without(tmp_path: Path) -> None:
    """Where an engine has died the answer takes seconds, which nobody has when the source is gone too."""
    asked: list[bool] = []

    class Down(StandInEnds):
        def is_running(self) -> bool:
            asked.append(True)
            return False

    world = World()
    move = replace(move_of(world, tmp_path), ends=Down(world, THERE.flow))
    assert look_ahead(Mode.UNPLANNED, move, None).refusal is None
    assert asked == []
    assert "no engine copies east->west" in (look_ahead(Mode.PLANNED, move, None).refusal or "")


def test_a_copy_that_no_engine_makes_is_waited_for_only_as_long_as_an_engine_may_take_to_start(tmp_path: Path) -> None:
    """The engine is there at the third look; without a minute's patience nobody waits for that."""
    looks: list[bool] = []

    class Starting(StandInEnds):
        def copied(self) -> Copied:
            looks.append(True)
            found = super().copied()
            return found if self.is_running() else replace(found, positions={})

        def is_running(self) -> bool:
            return len(looks) >= 3

    clock = iter(range(0, 10_000, 20))
    world = World()
    move = replace(
        move_of(world, tmp_path),
        ends=Starting(world, THERE.flow),
        times=Times(drain=3600.0, engine=60.0),
        monotonic=lambda: float(next(clock)),
    )
    assert "has all records of 1 partition" in move.await_copy({ORDERS: 10})
    looks.clear()
    with pytest.raises(WaitTimeout, match="for 10 s no engine has copied east->west: mirror run FILE") as refused:
        replace(move, times=replace(move.times, engine=10.0)).await_copy({ORDERS: 10})
    assert "west lacks records: orders-0 from 0 to 9" in str(refused.value)


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (Phase.DONE, "east->west is failed over already .*: mirror failback is the way back"),
        (Phase.RETURNING, "a failback of east->west is under way"),
        (Phase.UNDER_WAY, r"a failover \(planned\) of east->west is under way"),
    ],
)
def test_applications_that_were_moved_one_way_are_not_moved_back_but_by_a_failback(
    tmp_path: Path, phase: Phase, said: str
) -> None:
    world = World()
    performed(world, tmp_path)
    world.record["ours"] = replace(world.record["ours"], phase=phase)
    home = StandInEnds(world, HOME.flow)
    move = replace(move_of(world, tmp_path), ends=home, record=home)
    assert re.search(said, look_ahead(Mode.PLANNED, move, StandInEnds(world, THERE.flow)).refusal or "")
    world.record.clear()
    assert look_ahead(Mode.PLANNED, move, StandInEnds(world, THERE.flow)).refusal is None


def test_groups_of_which_no_checkpoint_can_tell_are_counted_and_named_in_the_plan_and_by_the_move(
    tmp_path: Path,
) -> None:
    class Narrow(StandInEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            return replace(super().plan_groups(ask_source=ask_source), unseen=("group reports in audit-1",))

    world = lost()
    move = replace(move_of(world, tmp_path, mode="unplanned"), ends=Narrow(world, THERE.flow))
    said = "1 group may have read copies on east that topics of east->west leaves out"
    assert any(said in each for each in look_ahead(Mode.UNPLANNED, move, None).notes)
    results = carry_out(steps_of(Mode.UNPLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=False)
    (found,) = [each.result.detail for each in results if each.name == "groups"]
    assert said in found
    assert "group reports in audit-1" in found


def test_groups_whose_state_nobody_mirrors_are_named_in_the_plan_and_a_planned_failover_is_no_pass(
    tmp_path: Path,
) -> None:
    """On the target they begin where their own setting says, by default at the end: that was said to pass nothing."""

    class Queues(StandInEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            queue = Unmoved("queue", None, "the state of share groups is not mirrored")
            return replace(super().plan_groups(ask_source=ask_source), unmirrored=(queue,))

    world, said = World(), "group queue: the state of share groups is not mirrored"
    move = replace(move_of(world, tmp_path), ends=Queues(world, THERE.flow))
    (step,) = (each for each in look_ahead(Mode.PLANNED, move, None).steps if each.name == "positions")
    assert said in step.doing
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    (found,) = (each.result for each in results if each.name == "positions")
    assert (found.verdict, said in found.detail) == (Verdict.UNKNOWN, True)
    assert results[-1].name == "finish", "it goes on: the others are moved"


def test_groups_that_the_plan_showed_must_be_found_again(tmp_path: Path) -> None:
    world = lost()
    move = move_of(world, tmp_path, mode="unplanned", agreed=frozenset({"audit", "billing"}))
    results = carry_out(steps_of(Mode.UNPLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=False)
    assert results[-1].name == "groups"
    assert "billing" in results[-1].result.detail
    assert world.groups[WEST] == {}


def test_the_way_home_states_what_is_stranded_and_leads_back_to_both_flows(tmp_path: Path) -> None:
    world = World()
    performed(world, tmp_path / "there")
    world.groups[WEST]["audit"] = 9
    world.written[EAST] += 3
    plan = look_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow))
    assert plan.refusal is None
    assert plan.stranded.rows() == [
        {"topic": "orders", "partition": 0, "from": world.copied[EAST], "to": world.written[EAST]}
    ]
    results = performed(world, tmp_path / "home", homeward)
    assert verdict(results) is Verdict.PASS
    assert (world.at_work, world.paused, world.record) == ({EAST}, set(), {})
    assert (world.groups[EAST], world.copied[WEST]) == ({"audit": 9}, world.written[WEST])


INTO_COPY = {TopicPartition("east.orders", 0): (10, 12)}


def test_what_others_have_written_into_a_copy_keeps_a_failback_from_beginning_by_name(tmp_path: Path) -> None:
    """Nobody copies it home: whoever reads there would never see it."""
    world = World()
    performed(world, tmp_path / "there")
    world.not_copied_back[WEST] = INTO_COPY
    refusal = look_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow)).refusal or ""
    assert "others than east->west have written to west since it was cut" in refusal
    assert "east.orders-0 from 10 to 11" in refusal


def test_where_nobody_knows_whether_others_have_written_since_the_cut_a_failback_is_no_pass_and_goes_on(
    tmp_path: Path,
) -> None:
    world = World()
    performed(world, tmp_path / "there")
    world.untold = {ORDERS: (0, 5)}
    results = performed(world, tmp_path / "home", homeward)
    (unknown,) = (each for each in results if each.result.verdict is not Verdict.PASS)
    assert (unknown.name, unknown.result.verdict, world.at_work) == ("left behind", Verdict.UNKNOWN, {EAST})
    assert "whether others have written orders-0 from 0 to 4 to west before east->west was cut" in unknown.result.detail


def test_what_others_write_into_a_copy_while_a_failback_is_under_way_takes_it_back(tmp_path: Path) -> None:
    world = World()
    performed(world, tmp_path / "there")
    world.not_copied_back[WEST] = INTO_COPY
    results = performed(world, tmp_path / "home", homeward)
    (failed,) = (each for each in results if each.result.verdict is Verdict.FAIL)
    assert (failed.name, world.at_work, [each.phase for each in world.record.values()]) == (
        *("left behind", {WEST}),
        [Phase.DONE],
    )


@pytest.mark.parametrize("leaves_behind", [False, True])
def test_what_others_write_into_a_copy_while_the_copy_is_compared_takes_a_failback_back(
    leaves_behind: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may take hours; the applications were started where nobody saw it."""
    world = World()
    performed(world, tmp_path / "there")
    world.not_copied_back[WEST] = INTO_COPY if leaves_behind else {}
    compare = StandInEnds.verify

    def verify(ends: StandInEnds, remember: Path | None = None) -> tuple[Verdict, str]:
        found = compare(ends, remember)
        if world.done[-1] == "verify the rest":
            world.not_copied_back[WEST] = {each: (start, end + 1) for each, (start, end) in INTO_COPY.items()}
        return found

    def steps(world: World, directory: Path) -> Sequence[Step]:
        return steps_home(move_home(world, directory), StandInEnds(world, THERE.flow), leaves_behind=leaves_behind)

    monkeypatch.setattr(StandInEnds, "verify", verify)
    (failed,) = (each for each in performed(world, tmp_path / "home", steps) if each.result.verdict is Verdict.FAIL)
    assert (failed.name, world.at_work) == ("last look", {WEST})
    assert f"east.orders-0 from {12 if leaves_behind else 10} to 12" in failed.result.detail


def test_what_others_write_while_the_copy_is_compared_takes_a_failback_back_also_where_a_copy_takes_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look was UNKNOWN for the copy that cannot be opened, and looked no further."""
    world = World()
    performed(world, tmp_path / "there")
    compare = StandInEnds.verify

    def verify(ends: StandInEnds, remember: Path | None = None) -> tuple[Verdict, str]:
        found = compare(ends, remember)
        if world.done[-1] == "verify the rest":
            world.not_copied_back[WEST] = INTO_COPY
            world.not_opened = "bills on east takes no records"
        return found

    monkeypatch.setattr(StandInEnds, "verify", verify)
    results = performed(world, tmp_path / "home", homeward)
    (failed,) = (each for each in results if each.result.verdict is Verdict.FAIL)
    assert (failed.name, world.at_work) == ("last look", {WEST})
    assert "east.orders-0 from 10 to 11" in failed.result.detail


def test_what_others_have_written_into_a_copy_is_saved_where_it_may_stay(tmp_path: Path) -> None:
    world = World()
    performed(world, tmp_path / "there")
    world.not_copied_back[WEST] = INTO_COPY
    plan = look_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow), leaves_behind=True)
    assert plan.refusal is None

    def leaving(world: World, directory: Path) -> Sequence[Step]:
        return steps_home(move_home(world, directory), StandInEnds(world, THERE.flow), leaves_behind=True)

    results = performed(world, tmp_path / "home", leaving)
    assert verdict(results) is Verdict.PASS
    (step,) = (each for each in results if each.name == "left behind")
    (file,) = (tmp_path / "home").glob("left-behind/*/east.orders-0.jsonl")
    assert len(file.read_text().splitlines()) == 2
    assert str(file.parent) in step.result.detail


def test_there_is_no_way_home_to_a_cluster_that_lacks_records_or_without_a_failover(tmp_path: Path) -> None:
    world = World()
    forward = StandInEnds(world, THERE.flow)
    plan = look_home(move_home(world, tmp_path), forward)
    assert plan.refusal == "east->west is not failed over, by what is on record on west"
    performed(world, tmp_path / "there")
    world.written[EAST] = 4
    plan = look_home(move_home(world, tmp_path), forward)
    assert "east lacks records that west has" in (plan.refusal or "")
    results = performed(world, tmp_path / "home", homeward)
    assert results[1].name == "returned"
    assert world.at_work == {WEST}
    assert [each.phase for each in world.record.values()] == [Phase.DONE]


class SameOffsets(StandInEnds):
    """Copies with the source's offsets under unchanged names."""

    def copy_of(self, topic: str) -> str:
        return topic

    def copied(self) -> Copied:
        found = super().copied()
        ids = ("id here", "id there") if self.flow == THERE.flow else ("id there", "id here")
        positions = {
            each: replace(position, same_offsets=True, topic_id=ids[0], target_id=ids[1])
            for each, position in found.positions.items()
        }
        return replace(found, positions=positions)


def look_home_at_the_same_offsets(world: World, directory: Path) -> FailbackPlan:
    move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
    return look_home(move, SameOffsets(world, THERE.flow))


def test_copies_with_the_source_s_offsets_are_led_home_where_nothing_lies_at_the_same_offsets(tmp_path: Path) -> None:
    """What the flow home has copied there since is on both clusters, and not stranded."""
    world = World()
    performed(world, tmp_path / "there")
    world.written[EAST] = world.written[WEST] = world.copied[WEST] = 14
    plan = look_home_at_the_same_offsets(world, tmp_path)
    assert (plan.refusal, plan.stranded.rows()) == (None, [])


def test_there_is_no_way_home_where_both_clusters_may_have_other_records_at_the_same_offsets(tmp_path: Path) -> None:
    world = World()
    performed(world, tmp_path / "there")
    world.written[EAST] += 2
    refusal = look_home_at_the_same_offsets(world, tmp_path).refusal or ""
    assert (
        "west may have other records at the offsets that only east has: orders-0: 2 offsets, from 10 to 11" in refusal
    )
    assert "With --make-anew these are saved in the run's directory, the topics on east are deleted" in refusal


def test_a_way_home_that_was_killed_when_applications_write_there_again_is_gone_on_with(tmp_path: Path) -> None:
    """What they have written since is copied only at the end: it was called stranded, and the run refused for good."""
    world, directory = World(), tmp_path / "home"
    performed(world, tmp_path / "there")
    world.written[EAST] = world.written[WEST] = world.copied[WEST] = 14

    def home() -> Sequence[Step]:
        move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
        return steps_home(move, SameOffsets(world, THERE.flow))

    directory.mkdir()
    journal = Journal(directory / "journal.jsonl")
    started = [each.name for each in home()].index("start") + 1
    carry_out(home()[:started], journal, goes_back=True)
    assert world.at_work == {EAST}
    world.written[EAST] += 5
    move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
    plan = look_home(move, SameOffsets(world, THERE.flow), Progress.of(journal.read().entries), makes_anew=True)
    assert (plan.refusal, plan.anew) == (None, set())


def test_a_group_that_was_set_ahead_on_the_standby_is_named_in_the_plan_home_and_is_no_pass(tmp_path: Path) -> None:
    class SetAhead(StandInEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            plan = super().plan_groups(ask_source=ask_source)
            positions = [replace(each, source=ORDERS, leader_epoch=-1) for each in plan.positions]
            return replace(plan, positions=tuple(positions))

    world = World()
    performed(world, tmp_path / "there")
    world.groups[WEST]["audit"] = 9
    move = replace(move_home(world, tmp_path), ends=SetAhead(world, HOME.flow))
    plan = look_home(move, StandInEnds(world, THERE.flow))
    assert not any("group audit" in each for each in plan.notes)
    assert any(
        each.name == "positions" and "group audit is at 9 of orders-0 on west" in each.doing for each in plan.steps
    )
    results = carry_out(
        steps_home(move, StandInEnds(world, THERE.flow)), Journal(tmp_path / "home.jsonl"), goes_back=True
    )
    (unknown,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unknown.name, unknown.result.verdict) == ("positions", Verdict.UNKNOWN)
    assert "group audit is at 9 of orders-0 on west" in unknown.result.detail


def test_there_is_no_way_home_to_a_cluster_that_was_rewritten_and_what_cannot_be_told_is_no_pass(
    tmp_path: Path,
) -> None:
    world = World()
    performed(world, tmp_path / "there")
    forward = StandInEnds(world, THERE.flow)
    world.rewritten = Rewritten({ORDERS: "it has other records than were copied from offset 5 on"})
    plan = look_home(move_home(world, tmp_path), forward)
    assert "orders-0: it has other records than were copied from offset 5 on" in (plan.refusal or "")
    results = performed(world, tmp_path / "home", homeward)
    assert (results[1].name, results[1].result.verdict, world.at_work) == ("returned", Verdict.FAIL, {WEST})

    world.rewritten = Rewritten(unknown={ORDERS: "its records are transformed on their way"})
    plan = look_home(move_home(world, tmp_path), forward)
    assert plan.refusal is None
    assert any("orders-0: its records are transformed" in each for each in plan.notes)
    results = performed(world, tmp_path / "home", homeward)
    (unknown,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unknown.name, unknown.result.verdict) == ("returned", Verdict.UNKNOWN)
    # What it would find now is of another time: the applications are at home, and write there.
    again = performed(world, tmp_path / "home", homeward)
    assert [each.name for each in again if not each.was_proven] == []


@pytest.mark.parametrize("at", ["verify", "groups"])
def test_a_run_that_others_have_given_up_while_it_lives_neither_goes_on_nor_takes_back(tmp_path: Path, at: str) -> None:
    """They have moved the applications themselves by then: what would be taken back is theirs."""

    class GivenUp(StandInEnds):
        def verify(self, remember: Path | None = None) -> tuple[Verdict, str]:
            found = super().verify(remember)
            if at == "verify" and self.world.done[-1] == "verify the rest":
                self.others()
                return Verdict.FAIL, "differs"
            return found

        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            if at == "groups" and "verify the rest" in self.world.done:
                self.others()
            return super().plan_groups(ask_source=ask_source)

        def others(self) -> None:
            self.world.record = {"theirs": replace(ENTRY, run="theirs", phase=Phase.DONE)}
            self.world.at_work, self.world.groups[WEST] = {WEST}, {"audit": 9}

    world = World()
    ends = GivenUp(world, THERE.flow)
    move = replace(move_of(world, tmp_path), ends=ends, record=ends)
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    assert (world.at_work, world.paused, world.groups[WEST]) == ({WEST}, {THERE.flow}, {"audit": 9})
    assert list(world.record) == ["theirs"]
    left = {each.name for each in results if each.name.startswith("back: ") and each.result.verdict is Verdict.FAIL}
    assert left >= {"back: cut", "back: stop"}
    assert all("given it up" in each.result.detail for each in results if each.name in left)


def test_a_run_that_was_given_up_is_not_gone_on_with(tmp_path: Path) -> None:
    whole = World()
    performed(whole, tmp_path / "whole")
    world = World(
        dies_at=next(at for at in range(1, whole.calls) if _done_by(at, tmp_path / f"{at}")[-1:] == ["verify the rest"])
    )
    with pytest.raises(Killed):
        performed(world, tmp_path / "run")
    world.record = {"theirs": replace(ENTRY, run="theirs", phase=Phase.DONE)}
    world.at_work = {WEST}
    assert verdict(performed(world, tmp_path / "run")) is Verdict.FAIL
    assert (world.at_work, world.paused, list(world.record)) == ({WEST}, {THERE.flow}, ["theirs"])


def test_applications_are_started_again_also_when_the_target_died_meanwhile(tmp_path: Path) -> None:
    class Dying(StandInEnds):
        def copied(self) -> Copied:
            if "stop on east" in self.world.done:
                raise ClusterError(WEST, "reading", "it does not answer")
            return super().copied()

    world = World()
    ends = Dying(world, THERE.flow)
    move = replace(move_of(world, tmp_path), ends=ends, record=ends)
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    assert verdict(results) is Verdict.FAIL
    assert world.at_work == {EAST}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (MovePlan(THERE, (), source_problem="it was not asked"), "no checkpoint on west says where any group stands"),
        (
            MovePlan(THERE, (TranslatedPosition("audit", "east.orders", 1, 3, Exact(3)),), source_problem="gone"),
            "no checkpoint says where group audit stands in east.orders-0",
        ),
    ],
)
def test_groups_without_a_checkpoint_are_no_pass(tmp_path: Path, found: MovePlan, said: str) -> None:
    """They go on where ``auto.offset.reset`` says, and that may be behind all that they have not read."""

    class Untold(StandInEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:  # the source is gone
            return found

        def copied(self) -> Copied:
            copied = super().copied()
            return replace(copied, positions={ORDERS: replace(copied.positions[ORDERS], downstream=5)})

    move = replace(move_of(lost(), tmp_path, mode="unplanned"), ends=Untold(lost(), THERE.flow))
    journal = Journal(tmp_path / "journal.jsonl")
    results = carry_out(steps_of(Mode.UNPLANNED, move, None), journal, goes_back=False)
    (unsure,) = [each.result for each in results if each.result.verdict is not Verdict.PASS]
    assert (unsure.verdict, said in unsure.detail) == (Verdict.UNKNOWN, True)
    plan = look_ahead(Mode.UNPLANNED, move, None)
    (told,) = [each for each in (*plan.notes, *(step.doing for step in plan.steps)) if said in each]
    assert told.startswith("name the groups that may skip records they have not read; as things stand: "), "said once"


def test_a_group_that_is_further_on_the_target_than_it_was_on_the_source_is_no_pass(tmp_path: Path) -> None:
    """Somebody has used its name there, and committed the end: what lies between was never read."""

    class Ahead(StandInEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            plan = super().plan_groups(ask_source=ask_source)
            (decision,) = plan.decisions
            left = replace(decision, present=GroupPosition(9), action=GroupAction.SKIP_REWIND)
            return replace(plan, decisions=(left,))

    world = World()
    move = replace(move_of(world, tmp_path), ends=Ahead(world, THERE.flow))
    results = carry_out(steps_of(Mode.PLANNED, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    (unsure,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unsure.name, unsure.result.verdict) == ("positions", Verdict.UNKNOWN)
    assert "group audit is at 9 of orders-0 already, and east says 7" in unsure.result.detail
    (groups,) = [each.result for each in results if each.name == "groups"]
    assert isinstance(groups.facts["rows"], list)
    assert [(row["after"], row["exact"]) for row in groups.facts["rows"]] == [(9, False)]


def test_what_the_source_acknowledges_until_its_applications_are_stopped_is_in_the_loss(tmp_path: Path) -> None:
    class Late(StandInApplications):
        def stop(self, cluster: str) -> Answer:
            self.world.written[cluster] += 4
            return super().stop(cluster)

    class LinkDown(StandInEnds):
        def copied(self) -> Copied:
            before = self.world.copied[EAST]
            found = super().copied()
            self.world.copied[EAST] = before
            return replace(found, positions={ORDERS: replace(found.positions[ORDERS], upstream=before)})

    world = World()
    ends = LinkDown(world, THERE.flow)
    move = replace(move_of(world, tmp_path, mode="cut-off"), ends=ends, record=ends, applications=Late(world))
    results = carry_out(steps_of(Mode.CUT_OFF, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=False)
    facts = {each.name: each.result.facts for each in results}
    assert facts["final loss"]["lacking"] == [
        {"topic": "orders", "partition": 0, "from": 10, "to": world.written[EAST]}
    ]


def test_a_failover_is_not_gone_on_with_while_its_applications_go_home(tmp_path: Path) -> None:
    """Nobody had watched it, so that the same command would start them on the target once more."""
    home = replace(ENTRY, run="home", phase=Phase.RETURNING)
    world = World(record={"ours": replace(ENTRY, phase=Phase.DONE), "home": home})
    plan = look_ahead(Mode.PLANNED, move_of(world, tmp_path), None)
    assert "a failback of east->west is under way" in (plan.refusal or "")
    given_up = replace(move_of(world, tmp_path), given_up="home")
    there = Progress(frozenset(), {}, is_beyond_return=True)
    assert look_ahead(Mode.UNPLANNED, given_up, None, there).refusal is None


def test_writes_that_are_denied_are_admitted_again_by_taking_back_and_on_the_way_home(tmp_path: Path) -> None:
    denying = StandInDenying(Denied(True, "denied"))
    world = World(verdict=Verdict.FAIL)
    move = move_of(world, tmp_path)
    assert "DENY WRITE for everybody on 1 topic of east" in look_ahead(Mode.PLANNED, move, None, denying=denying).notes
    results = carry_out(steps_of(Mode.PLANNED, move, None, denying), Journal(tmp_path / "a.jsonl"), goes_back=True)
    assert tuple(each.name for each in results if each.name.endswith("deny writes")) == (
        "deny writes",
        "back: deny writes",
    )
    assert not denying.is_denied

    # Who is denied need not be waited for.
    world = World(writers=Writers((writer(None),)))
    move = move_of(world, tmp_path)
    results = carry_out(steps_of(Mode.PLANNED, move, None, denying), Journal(tmp_path / "b.jsonl"), goes_back=True)
    assert (verdict(results), denying.is_denied) == (Verdict.PASS, True)
    world.writers = Writers()
    home = steps_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow), denying)
    assert verdict(carry_out(home, Journal(tmp_path / "c.jsonl"), goes_back=True)) is Verdict.PASS
    assert not denying.is_denied


def test_who_writes_although_it_is_denied_stops_a_planned_run_and_what_cannot_be_denied_is_no_pass(
    tmp_path: Path,
) -> None:
    world = World()
    denying = StandInDenying(Denied(True, "denied", ("orders-0 from 3 to 4: producer 5",)))
    steps = steps_of(Mode.PLANNED, move_of(world, tmp_path), None, denying)
    results = carry_out(steps, Journal(tmp_path / "a.jsonl"), goes_back=True)
    failed = next(each for each in results if each.result.verdict is Verdict.FAIL)
    assert (failed.name, "producer 5" in failed.result.detail) == ("deny writes", True)
    assert (world.at_work, denying.is_denied) == ({EAST}, False)

    denying = StandInDenying(Denied(False, "east has no authorizer, so nothing is denied"))
    steps = steps_of(Mode.CUT_OFF, move_of(world, tmp_path, mode="cut-off"), None, denying)
    results = carry_out(steps, Journal(tmp_path / "b.jsonl"), goes_back=False)
    (unknown,) = [each for each in results if each.result.verdict is not Verdict.PASS]
    assert (unknown.name, unknown.result.detail) == ("deny writes", denying.found.detail)


class Refusing(StandInDenying):
    """Cannot take back what denies writes, the first time."""

    def __init__(self, found: Denied) -> None:
        super().__init__(found)
        self.refusals = 1

    def admit(self) -> str:
        if self.refusals:
            self.refusals -= 1
            raise NotTakenBack("writes to east are still denied: east does not answer")
        return super().admit()


def test_what_could_not_be_taken_back_once_is_taken_back_by_the_next_attempt(tmp_path: Path) -> None:
    world, denying = World(verdict=Verdict.FAIL), Refusing(Denied(True, "denied"))
    steps = steps_of(Mode.PLANNED, move_of(world, tmp_path), None, denying)
    journal = Journal(tmp_path / "journal.jsonl")
    failed = {each.name: each.result for each in carry_out(steps, journal, goes_back=True)}
    assert failed["back: deny writes"].verdict is Verdict.FAIL
    assert (failed["back: begin"].verdict, "deny writes" in failed["back: begin"].detail) == (Verdict.FAIL, True)
    assert list(world.record) == ["ours"], "nobody else begins while something of it is left"

    again = {each.name: each.result.verdict for each in take_back(steps, journal)}
    assert again == {"back: deny writes": Verdict.PASS, "back: begin": Verdict.PASS}
    assert (denying.is_denied, world.record) == (False, {})


@dataclass(frozen=True)
class Asked(StandInApplications):
    """Applications of which nobody but a person tells anything, who says yes to everything."""

    is_right: bool = True

    def stop(self, cluster: str) -> Answer:
        if self.is_right:
            self.world.at_work.discard(cluster)
        return Done("a person says so", 50, is_word=True)

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        return Done("a person says so", 51, is_word=True)

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        return dict.fromkeys(groups, Done("a person says so", 52, is_word=True))


def said_yes(world: World, directory: Path, mode: Mode, *, is_right: bool = True) -> dict[str, StepResult]:
    move = replace(move_of(world, directory, mode=mode), applications=Asked(world, is_right=is_right))
    move = replace(move, times=replace(move.times, quiet=0.05))
    steps = steps_of(mode, move, StandInEnds(world, HOME.flow))
    results = carry_out(steps, Journal(directory / "journal.jsonl"), goes_back=mode is Mode.PLANNED)
    return {each.name: each for each in results}


def test_a_yes_that_the_clusters_bear_out_is_a_pass_and_the_first_write_was_when_they_show_it(tmp_path: Path) -> None:
    found = said_yes(World(), tmp_path, Mode.PLANNED)
    assert {each.result.verdict for each in found.values()} == {Verdict.PASS}
    assert found["first write"].result.facts["first_at_ms"] == 100 + 3, "and not when it was said"
    assert found["first reads"].result.facts["first_at_ms"] == {"audit": 52}


def test_a_yes_that_the_standby_does_not_show_is_unknown_and_is_asked_for_again(tmp_path: Path) -> None:
    world = World(shows_writes=False, resting={"audit": "it has no member on west"})
    found = said_yes(world, tmp_path, Mode.PLANNED)
    unknown = {name: each.result.detail for name, each in found.items() if each.result.verdict is not Verdict.PASS}
    assert list(unknown) == ["first write", "first reads"]
    assert "a person says so, but no topic" in unknown["first write"]
    assert "a person says so, but it has no member on west" in unknown["first reads"]
    world.shows_writes, world.resting = True, {}
    again = said_yes(world, tmp_path, Mode.PLANNED)
    assert {each.result.verdict for each in again.values()} == {Verdict.PASS}


def test_what_a_probe_says_of_applications_that_have_just_been_started_is_looked_for_again(tmp_path: Path) -> None:
    """A start command returns before its consumers have joined, and a probe may end with 0 at once."""

    class Joining(StandInEnds):
        looks = 0

        def idle_groups(self, groups: Collection[str], placed: Placed) -> Mapping[str, str]:
            Joining.looks += 1
            return dict.fromkeys(groups, "it has no member on west") if Joining.looks < 3 else {}

    world = World()
    ends = Joining(world, THERE.flow)
    move = replace(move_of(world, tmp_path), ends=ends, record=ends, applications=Asked(world))
    move = replace(move, times=replace(move.times, quiet=0.05, seen=20.0))
    steps = steps_of(Mode.PLANNED, move, StandInEnds(world, HOME.flow))
    results = carry_out(steps, Journal(tmp_path / "journal.jsonl"), goes_back=True)
    assert {each.result.verdict for each in results} == {Verdict.PASS}
    assert Joining.looks == 3


@pytest.mark.parametrize("mode", [Mode.PLANNED, Mode.CUT_OFF])
def test_who_says_too_early_that_everything_is_stopped_is_told_who_still_writes(mode: Mode, tmp_path: Path) -> None:
    world = World()
    found = said_yes(world, tmp_path, mode, is_right=False)
    (failed,) = [each for each in found.values() if each.result.verdict is Verdict.FAIL]
    assert failed.name == ("fence" if mode is Mode.PLANNED else "stop")
    assert "somebody still writes to east: orders-0 grew" in failed.result.detail
    assert (world.at_work, world.paused, world.groups[WEST]) == ({EAST}, set(), {})


def test_where_the_source_cannot_be_asked_a_yes_about_it_stands(tmp_path: Path) -> None:
    class Away(StandInEnds):
        def ends(self) -> Ends:
            raise ClusterError(EAST, "looking", "no broker answers")

    world = World()
    ends = Away(world, THERE.flow)
    move = replace(move_of(world, tmp_path, mode="cut-off"), ends=ends, record=ends, applications=Asked(world))
    results = carry_out(steps_of(Mode.CUT_OFF, move, None), Journal(tmp_path / "journal.jsonl"), goes_back=False)
    assert {each.name: each.result.verdict for each in results}["stop"] is Verdict.PASS


def test_what_the_flow_home_no_longer_selects_is_named_by_a_failback(tmp_path: Path) -> None:
    """The file was narrowed since: what the standby has of it stays there, and no plan mentioned it."""

    class Narrowed(StandInEnds):
        def copied(self) -> Copied:
            return replace(super().copied(), deselected=("invoices",))

    world = World()
    away = steps_of(Mode.PLANNED, move_of(world, tmp_path), StandInEnds(world, HOME.flow))
    carry_out(away, Journal(tmp_path / "journal.jsonl"), goes_back=True)
    move = replace(move_home(world, tmp_path / "home"), ends=Narrowed(world, HOME.flow))
    plan = look_home(move, StandInEnds(world, THERE.flow))
    assert any("invoices" in each for each in plan.notes)


def test_two_operators_cannot_fail_both_flows_over_at_once(tmp_path: Path) -> None:
    """The other one has begun between the plan of this run and the consent to it."""

    class Both(StandInEnds):
        def copied(self) -> Copied:
            theirs = FailoverEntry("theirs", "planned", Phase.UNDER_WAY, "other:/run", 3)
            return replace(super().copied(), failovers=(theirs,))

    world = World()
    made = steps_of(Mode.PLANNED, move_of(world, tmp_path), Both(world, HOME.flow))
    first, *_ = carry_out(made, Journal(tmp_path / "journal.jsonl"), goes_back=True)
    assert (first.name, first.result.verdict) == ("begin", Verdict.FAIL)
    assert (world.at_work, world.record, world.paused) == ({EAST}, {}, set())


def test_an_older_copy_of_a_run_directory_takes_back_nothing_of_a_run_that_is_done(tmp_path: Path) -> None:
    """On another machine it started the applications of the old cluster beside those of the new one."""
    world = World()
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    under_way = StepsUnderWay(steps(world, first), CountedJournal(first / "journal.jsonl", world), goes_back=True)
    under_way.carry_out("cut")
    shutil.copytree(first, second)
    under_way.carry_out()
    assert (world.at_work, world.record["ours"].phase) == ({WEST}, Phase.DONE)
    take_back(steps(world, second), CountedJournal(second / "journal.jsonl", world))
    assert (world.at_work, world.record["ours"].phase) == ({WEST}, Phase.DONE)
