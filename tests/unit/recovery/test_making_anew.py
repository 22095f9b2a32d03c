"""The way home of topics that hold other records than the standby at the same offsets: saved, deleted, made anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirror.control.groups import GroupAction
from mirror.evidence.journal import Journal
from mirror.kafka.old_topics import OldTopic
from mirror.model.failover import Phase
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict, worst
from mirror.recovery.failback import FailbackPlan, look_home, steps_home
from mirror.recovery.flow_ends import Copied, Ends
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.making_anew import _grown, made_anew
from mirror.recovery.move import Move
from mirror.recovery.rewritten import Rewritten
from mirror.recovery.steps import Progress, StepResult, carry_out, take_back
from mirror.recovery.stranded_files import Stranded, StrandedFile, saved_in
from mirror.waiting import WaitTimeout
from tests.unit.recovery.world import EAST, ENTRY, HOME, ORDERS, THERE, WEST, Killed, StandInEnds, World, move_home


@dataclass(frozen=True)
class SameOffsets(StandInEnds):
    """Copies with the source's offsets under unchanged names, of which the old cluster has more than the standby."""

    def copy_of(self, topic: str) -> str:
        return topic

    def ends(self) -> Ends:
        found = super().ends()
        return found if self.flow == HOME.flow or self.world.east_topic else replace(found, ends={})

    def copied(self) -> Copied:
        world = self.world
        if world.east_topic == "id anew" and HOME.flow not in world.paused:
            world.written[EAST] = world.copied[EAST] = world.written[WEST]
        found = super().copied()
        if self.is_stopped:
            world.copied[WEST] = 10
            found = replace(found, positions={ORDERS: replace(found.positions[ORDERS], upstream=10, downstream=10)})
        # The flow that is cut does not look what has become of its source meanwhile.
        is_cut = self.flow == THERE.flow and self.flow in world.paused
        there, here = "id there", "id here" if is_cut else world.east_topic or ""
        ids = (here, there) if self.flow == THERE.flow else (there, here)
        positions = {
            each: replace(position, same_offsets=True, topic_id=ids[0], target_id=ids[1])
            for each, position in found.positions.items()
        }
        stops = {ORDERS: "with records that west does not have there"} if self.is_stopped else {}
        return replace(found, positions=positions, stops=stops)

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        plan = super().plan_groups(ask_source=ask_source)
        world = self.world
        if self.flow == THERE.flow or world.written[EAST] >= max(each.upstream for each in plan.positions):
            return plan
        action = GroupAction.SKIP_BEYOND_END if world.east_topic else GroupAction.SKIP_ABSENT
        return replace(plan, decisions=tuple(replace(each, action=action) for each in plan.decisions))

    @property
    def is_stopped(self) -> bool:
        return self.flow == HOME.flow and self.world.east_topic == "id here"

    def rewritten(self, *, by_epochs: bool = False) -> Rewritten:
        found = super().rewritten(by_epochs=by_epochs)
        is_new = self.world.east_topic == "id anew"
        return replace(found, differences={ORDERS: "it was deleted and created anew"}) if is_new else found


def stranded_world() -> World:
    world = World(
        at_work={WEST}, paused={THERE.flow}, record={"before": replace(ENTRY, run="before", phase=Phase.DONE)}
    )
    world.groups[WEST] = {"audit": 9}
    world.written.update({EAST: 12, WEST: 15})  # two of them are stranded
    world.copied.update({EAST: 10, WEST: 10})
    return world


def look(world: World, directory: Path, *, makes_anew: bool = True) -> FailbackPlan:
    journal = directory / "journal.jsonl"
    progress = Progress.of(Journal(journal).read().entries if journal.exists() else ())
    move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
    return look_home(move, SameOffsets(world, THERE.flow), progress, makes_anew=makes_anew)


def performed(world: World, directory: Path, *, makes_anew: bool = True) -> tuple[StepResult, ...]:
    directory.mkdir(exist_ok=True)
    plan = look(world, directory, makes_anew=makes_anew)
    assert plan.refusal is None, plan.refusal
    assert plan.moves is None or plan.moves.refused == (), "the command goes no further"
    move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
    whole = steps_home(move, SameOffsets(world, THERE.flow), None, plan.anew)
    return carry_out(whole, Journal(directory / "journal.jsonl"), goes_back=True)


def verdict(results: Sequence[StepResult]) -> Verdict:
    return worst(each.result.verdict for each in results)


def offsets_saved(directory: Path) -> list[int]:
    (file,) = saved_in(directory)["orders"].files
    return [json.loads(line)["offset"] for line in file.path.read_text().splitlines()]


def test_without_a_word_nothing_is_deleted_and_the_refusal_names_the_option(tmp_path: Path) -> None:
    refusal = look(stranded_world(), tmp_path, makes_anew=False).refusal or ""
    assert "orders-0: 2 offsets, from 10 to 11" in refusal
    assert "--make-anew" in refusal


def test_the_plan_says_what_is_deleted_and_what_becomes_of_its_records(tmp_path: Path) -> None:
    world = stranded_world()
    plan = look(world, tmp_path)
    assert (plan.refusal, plan.anew) == (None, {"orders"})
    names = [each.name for each in plan.steps]
    assert names[:6] == ["begin", "returned", "stranded", "save stranded", "make anew", "mirror home"]
    assert any("orders on east: deleted, and made anew from west" in each for each in plan.notes)
    assert world.east_topic == "id here"


def test_the_plan_says_how_much_is_to_be_copied_and_how_long_that_may_take(tmp_path: Path) -> None:
    """Whoever decides has to know whether the old cluster is back in minutes or in a day."""
    (note,) = [each for each in look(stranded_world(), tmp_path).notes if "records/s" in each]
    assert note.startswith("to be copied from west to east before applications are stopped: about 15 records (5.0 MB,")
    assert "about 1 min 30 s: assumed are" in note
    hidden = replace(stranded_world(), hides_logs=True)
    plan = look(hidden, tmp_path)
    assert plan.refusal is None
    (note,) = [each for each in plan.notes if each.startswith("to be copied from west to east")]
    assert "how much and how long is not known (cluster west: looking at its logs: TOPIC_AUTHORIZATION_FAILED)" in note


def test_of_aborted_records_the_plan_speaks_only_where_the_flow_copies_them(tmp_path: Path) -> None:
    """It said "unless isolation.level = read_committed was set", also where that is what the file says."""
    world = stranded_world()
    (note,) = [each for each in look(world, tmp_path).notes if "had aborted" in each]
    assert note.startswith("east->west reads uncommitted")
    world.reads_committed = True
    assert not any("had aborted" in each for each in look(world, tmp_path).notes)


def test_what_is_stranded_is_saved_before_the_topic_is_deleted_and_made_anew(tmp_path: Path) -> None:
    world, directory = stranded_world(), tmp_path / "run"
    results = performed(world, directory)
    assert verdict(results) is Verdict.PASS
    # What the flow home copies into other partitions meanwhile would count as written since they were saved.
    pause = "pause west->east"
    assert world.done[:7] == [pause, "save", pause, "close", "delete", "create", "resume west->east"]
    (positions,) = directory.glob("*/group-positions.csv")
    assert positions.read_text() == "audit,orders,0,7\n"
    assert (offsets_saved(directory), world.east_topic, world.at_work) == ([10, 11], "id anew", {EAST})
    (saved,) = [each.result.detail for each in results if each.name == "save stranded"]
    assert "(those whose copies west has removed, by its log cleaner or retention, are among them, so that" in saved
    assert (world.written[EAST] >= 15, world.record) == (True, {})


def test_a_topic_that_stopped_only_after_the_plan_is_made_anew_when_the_command_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow back had not reported yet that only markers, or aborted records, lie there."""

    class Reported(SameOffsets):
        """Both topics, once the first is made anew."""

        def copied(self) -> Copied:
            found = super().copied()
            is_late = self.flow == HOME.flow and self.world.east_topic == "id anew"
            return replace(found, stops={TopicPartition("void", 0): "records of its own"}) if is_late else found

    def lacks(_: Move, *__: object, **___: object) -> str:
        raise WaitTimeout("east lacks records, and their copy has stopped: void-0: records of its own")

    monkeypatch.setattr(Move, "await_copy", lacks)
    monkeypatch.setattr("tests.unit.recovery.test_making_anew.SameOffsets", Reported)
    failed = next(each for each in performed(stranded_world(), tmp_path / "run") if each.result.verdict is Verdict.FAIL)
    assert failed.name == "mirror home"
    assert "west->east had not reported on void when the run was planned: called again" in failed.result.detail


def test_nothing_is_deleted_to_which_somebody_writes_after_it_was_saved(tmp_path: Path) -> None:
    world, directory = stranded_world(), tmp_path / "run"
    world.is_written_while_closed = True
    failed = next(each for each in performed(world, directory) if each.result.verdict is Verdict.FAIL)
    assert failed.name == "make anew"
    assert "orders-0 ended at 12, and ends at 13" in failed.result.detail
    assert (world.east_topic, world.is_closed, HOME.flow in world.paused) == ("id here", False, False)
    # Once that has ended, all of it is saved.
    world.is_written_while_closed = False
    assert verdict(performed(world, directory)) is Verdict.PASS
    assert offsets_saved(directory) == [10, 11, 12]


def test_what_was_closed_takes_records_again_also_where_nothing_is_taken_back(tmp_path: Path) -> None:
    world, directory = stranded_world(), tmp_path / "run"
    plan = look(world, directory)
    move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
    whole = steps_home(move, SameOffsets(world, THERE.flow), None, plan.anew)
    directory.mkdir()
    world.is_written_while_closed = True
    results = carry_out(whole, Journal(directory / "journal.jsonl"), goes_back=False)
    assert (results[-1].name, results[-1].result.verdict) == ("make anew", Verdict.FAIL)
    assert (world.east_topic, world.is_closed) == ("id here", False)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("")])
def test_nothing_is_deleted_whose_file_is_not_whole(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    world, directory = stranded_world(), tmp_path / "run"
    plan = look(world, directory)
    move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
    whole = steps_home(move, SameOffsets(world, THERE.flow), None, plan.anew)
    directory.mkdir()
    journal = Journal(directory / "journal.jsonl")
    carry_out(whole[:4], journal, goes_back=True)
    (file,) = saved_in(directory)["orders"].files
    spoil(file.path)
    assert whole[4].act({}).verdict is Verdict.FAIL
    assert world.east_topic == "id here"
    # It is noticed on resumption, and saved anew.
    assert verdict(performed(world, directory)) is Verdict.PASS
    assert offsets_saved(directory) == [10, 11]


def test_killed_at_any_moment_it_ends_in_the_same_state_and_nothing_is_deleted_that_is_not_saved(
    tmp_path: Path,
) -> None:
    whole = stranded_world()
    assert verdict(performed(whole, tmp_path / "whole")) is Verdict.PASS
    for number in range(1, whole.calls + 1):
        world, directory = stranded_world(), tmp_path / str(number)
        world.dies_at = number
        with pytest.raises(Killed):
            performed(world, directory)
        # What it was told once it need not be told again where the topic is deleted.
        is_told = not made_anew(directory, SameOffsets(world, THERE.flow))
        results = performed(world, directory, makes_anew=is_told)
        assert verdict(results) is Verdict.PASS, (number, results)
        assert (world.at_work, world.paused, world.record) == (whole.at_work, whole.paused, whole.record), number
        assert (world.groups, world.east_topic, world.is_closed) == (whole.groups, "id anew", False), number
        assert offsets_saved(directory) == [10, 11], number


@pytest.mark.parametrize("is_told", [True, False])
def test_killed_at_any_moment_and_taken_back_the_topic_is_open_and_home_is_copied(
    tmp_path: Path, *, is_told: bool
) -> None:
    """Without the option once more the topic stayed closed, and the flow home cut, with nothing on record of it."""
    whole = stranded_world()
    performed(whole, tmp_path / "whole")
    for number in range(1, whole.calls + 1):
        world, directory = stranded_world(), tmp_path / str(number)
        world.dies_at = number
        with pytest.raises(Killed):
            performed(world, directory)
        if EAST in world.at_work:
            continue
        plan = look(world, directory, makes_anew=is_told)
        move = replace(move_home(world, directory), ends=SameOffsets(world, HOME.flow))
        journal = Journal(directory / "journal.jsonl")
        taken = take_back(steps_home(move, SameOffsets(world, THERE.flow), None, plan.anew), journal)
        assert verdict(taken) is Verdict.PASS or "point of no return" in str(taken), number
        if verdict(taken) is Verdict.PASS:
            assert (world.is_closed, HOME.flow in world.paused, set(world.record)) == (False, False, {"before"}), number
            is_named = f"what only east had is in {directory / 'stranded-1'} alone" in str(taken)
            assert is_named == (world.east_topic != "id here"), number


@dataclass(frozen=True)
class OfMarkers(SameOffsets):
    """What the old cluster has alone are markers, or records of transactions that were aborted when it came back."""

    def holding(self, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
        return {}


def test_a_tail_of_markers_in_the_place_of_the_standby_s_records_is_made_anew_too(tmp_path: Path) -> None:
    """With the option the failback was refused by the words of the stop, which names the option; nobody got home."""
    world = stranded_world()
    move = replace(move_home(world, tmp_path), ends=OfMarkers(world, HOME.flow))
    forward = OfMarkers(world, THERE.flow)
    refused = look_home(move, forward)
    assert refused.refusal is not None
    assert "orders-0: 2 offsets, from 10 to 11. With --make-anew" in refused.refusal
    plan = look_home(move, forward, makes_anew=True)
    assert (plan.refusal, plan.anew) == (None, {"orders"})
    done = carry_out(steps_home(move, forward, None, plan.anew), Journal(tmp_path / "journal.jsonl"), goes_back=True)
    assert verdict(done) is Verdict.PASS
    assert (world.east_topic, world.at_work) == ("id anew", {EAST})


class StartedAgain(OfMarkers):
    """The engine was started again: of what is paused it does not find out that it has stopped."""

    def copied(self) -> Copied:
        found = super().copied()
        return replace(found, stops={}) if self.flow in self.world.paused else found


def test_what_was_closed_is_opened_where_the_engine_has_forgotten_why_it_had_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine of both went down: the topic stayed closed, and taking back refused for steps not of this plan."""
    world = stranded_world()
    move, forward = replace(move_home(world, tmp_path), ends=OfMarkers(world, HOME.flow)), OfMarkers(world, THERE.flow)
    plan = look_home(move, forward, makes_anew=True)
    journal = Journal(tmp_path / "journal.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(
            OfMarkers, "close_topics", lambda *_: world.__dict__.update(is_closed=True, dies_at=world.calls + 1)
        )
        with pytest.raises(Killed):
            carry_out(steps_home(move, forward, None, plan.anew), journal, goes_back=True)
    assert (world.is_closed, HOME.flow in world.paused) == (True, True)
    move, forward = replace(move, ends=StartedAgain(world, HOME.flow)), StartedAgain(world, THERE.flow)
    again = look_home(move, forward, Progress.of(journal.read().entries))
    assert (again.refusal, again.anew) == (None, {"orders"})
    assert verdict(take_back(steps_home(move, forward, None, again.anew), journal)) is Verdict.PASS
    assert (world.is_closed, HOME.flow in world.paused) == (False, False)


def test_a_topic_that_was_deleted_by_hand_and_made_anew_by_the_flow_home_is_led_home(tmp_path: Path) -> None:
    """The flow that is cut still has the former topic on record."""
    world = stranded_world()
    world.east_topic = "id anew"
    world.written[EAST] = world.copied[EAST] = 15
    plan = look(world, tmp_path, makes_anew=False)
    assert (plan.refusal, plan.anew) == (None, set())
    results = performed(world, tmp_path / "run", makes_anew=False)
    assert verdict(results) is Verdict.PASS
    (stranded,) = (each.result.detail for each in results if each.name == "stranded")
    assert "made anew since, by another run, in whose directory (stranded-N) is what only east had" in stranded


@pytest.mark.parametrize(("count", "named"), [(0, []), (7, ["orders-1 ended at 0, and ends at 7"])])
def test_a_partition_that_was_added_since_and_has_records_was_not_saved(
    count: int, named: list[str], tmp_path: Path
) -> None:
    """It went with the topic that was deleted."""
    topic = OldTopic("orders", "id here", 1, 1, {})
    saved = {"orders": Stranded(tmp_path, (topic,), (StrandedFile(ORDERS, tmp_path, 0, "", 12),))}

    class Added(StandInEnds):
        def ends(self) -> Ends:
            return Ends("east", {}, {ORDERS: 12, TopicPartition("orders", 1): count})

    assert _grown(Added(World(), THERE.flow), saved, ()) == named
