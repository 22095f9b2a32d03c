"""The steps of a move, each by itself: what ends it, and what it must not pass over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirror.kafka.cluster_model import GroupPosition
from mirror.model.failover import FailoverEntry
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery.applications import Answer, NotDone
from mirror.recovery.flow_ends import Copied
from mirror.recovery.group_moves import GroupMoves, MovePlan, Unmoved
from mirror.recovery.group_snapshot import GroupSnapshot, SavedPosition
from mirror.recovery.move import Move
from mirror.recovery.steps import NotTakenBack, Result
from mirror.recovery.verify_steps import verify_step
from mirror.waiting import WaitTimeout
from tests.unit.recovery.world import (
    EAST,
    ENTRY,
    ORDERS,
    THERE,
    WEST,
    Killed,
    StandInApplications,
    StandInEnds,
    World,
    move_of,
)

PASS, FAIL = Verdict.PASS, Verdict.FAIL


@dataclass(frozen=True)
class Told(StandInEnds):
    """The ends of the flow, of which something else is so than in the world."""

    stops: tuple[str, ...] = ()
    open_gaps: tuple[str, ...] = ()
    source_problem: str | None = None
    refused: tuple[Unmoved, ...] = ()
    not_put_back: tuple[str, ...] = ()

    def copied(self) -> Copied:
        told = super().copied()
        return replace(
            told, stops=dict.fromkeys((ORDERS,), self.stops[0]) if self.stops else {}, open_gaps=self.open_gaps
        )

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        return replace(super().plan_groups(ask_source=ask_source), source_problem=self.source_problem)

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        return replace(super().move_groups(plan, snapshot), refused=self.refused)

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        super().restore_groups(snapshot)
        return self.not_put_back


def move(directory: Path, ends: StandInEnds, mode: str = "planned") -> Move:
    return replace(move_of(ends.world, directory, mode=mode), ends=ends, record=ends)


def ends_of(world: World, flow: Flow = THERE.flow, **told: object) -> Told:
    world.record["ours"] = ENTRY
    return Told(world, flow, **told)  # type: ignore[arg-type]


def test_one_record_that_is_not_copied_lacks(tmp_path: Path) -> None:
    one = move(tmp_path, ends_of(World()))
    copied = one.ends.copied()
    assert one.behind({ORDERS: 10}, copied) == []
    assert one.behind({ORDERS: 11}, copied) == ["orders-0 from 10 to 10"]
    assert one.behind({ORDERS: 1, TopicPartition("bills", 0): 2}, copied) == ["bills-0 from 0 to 1"]


def test_a_copy_that_has_stopped_before_the_end_does_not_arrive(tmp_path: Path) -> None:
    one = move(tmp_path, ends_of(World(), stops=("at a gap",)))
    with pytest.raises(WaitTimeout, match=r"west lacks records, and their copy has stopped: orders-0: at a gap"):
        one.await_copy({ORDERS: 12})
    assert one.await_copy({ORDERS: 10}) == "west has all records of 1 partition"


def test_a_copy_with_gaps_that_nobody_has_acknowledged_is_not_the_same(tmp_path: Path) -> None:
    world = World()
    found = verify_step(ends_of(world, open_gaps=("orders-0 from 3 to 4",)), tmp_path).act({})
    assert (found.verdict, "orders-0 from 3 to 4" in found.detail) == (FAIL, True)
    assert world.done == [], "what is known to lack need not be looked for"


def test_a_group_that_was_refused_when_it_was_to_be_written_fails_the_move(tmp_path: Path) -> None:
    found = move(tmp_path, ends_of(World(), refused=(Unmoved("audit", ORDERS, "in use"),))).groups().act({})
    assert found.verdict is FAIL
    assert "group audit, orders-0: in use" in found.detail


@pytest.mark.parametrize(("mode", "verdict"), [("planned", FAIL), ("unplanned", PASS)])
def test_only_an_unplanned_move_goes_by_the_checkpoints_where_the_source_does_not_tell(
    tmp_path: Path, mode: str, verdict: Verdict
) -> None:
    """They are older than what the groups have read, and nothing may be read again."""
    world = World()
    found = move(tmp_path, ends_of(world, source_problem="not authorized"), mode).groups().act({})
    assert (found.verdict, found.detail.endswith("by the checkpoints") or "not authorized" in found.detail) == (
        verdict,
        True,
    )
    assert world.groups[WEST] == ({} if verdict is FAIL else {"audit": 7})


def saved(directory: Path, number: int, before: int | None) -> None:
    position = None if before is None else GroupPosition(before)
    one = SavedPosition("audit", ORDERS, "", position, GroupPosition(7))
    GroupSnapshot(THERE.flow, "id", (one,)).save(directory / f"groups-before-{number}.json")


def test_positions_are_put_back_to_what_was_there_before_the_first_of_several_attempts(tmp_path: Path) -> None:
    world = World(groups={EAST: {"audit": 7}, WEST: {"audit": 7}})
    for number, before in ((1, 2), (2, 5), (10, 6)):
        saved(tmp_path, number, before)
    undo = move(tmp_path, ends_of(world)).groups().undo
    assert undo is not None
    undo()
    assert world.groups[WEST] == {"audit": 2}


@dataclass(frozen=True)
class Strict(StandInEnds):
    """Ends that put back, as a cluster does, only what the move has written or what is as before already."""

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        there = self.world.groups[self.flow.target]
        for each in GroupSnapshot.load(snapshot).positions:
            before = None if each.before is None else each.before.position
            if there.get(each.group) not in (before, each.after.position):
                return [f"group {each.group} has changed since"]
        return super().restore_groups(snapshot)


@pytest.mark.parametrize("dies_at", [1, 2])
def test_who_is_killed_while_positions_of_two_attempts_are_put_back_puts_them_back_by_the_next_try(
    tmp_path: Path, dies_at: int
) -> None:
    world = World(groups={EAST: {"audit": 9}, WEST: {"audit": 9}})
    for number, before, after in ((1, 2, 7), (2, 7, 9)):
        one = SavedPosition("audit", ORDERS, "", GroupPosition(before), GroupPosition(after))
        GroupSnapshot(THERE.flow, "id", (one,)).save(tmp_path / f"groups-before-{number}.json")
    ends = Strict(world, THERE.flow)
    world.record["ours"] = ENTRY
    undo = replace(move_of(world, tmp_path), ends=ends).groups().undo
    assert undo is not None
    world.dies_at = dies_at + 1  # behind the look at the record
    with pytest.raises(Killed):
        undo()
    undo()
    assert world.groups[WEST] == {"audit": 2}
    assert len(list(tmp_path.glob("groups-put-back-*.json"))) == 2, "nothing that was saved is lost"


def test_what_was_saved_next_is_never_called_as_what_was_put_back(tmp_path: Path) -> None:
    world = World(groups={EAST: {"audit": 7}, WEST: {"audit": 2}})
    groups = move(tmp_path, ends_of(world)).groups()
    assert groups.undo is not None
    for _ in range(2):
        assert groups.act({}).verdict is PASS
        groups.undo()
    assert world.groups[WEST] == {"audit": 2}
    assert {each.name for each in tmp_path.glob("groups-*")} == {"groups-put-back-1.json", "groups-put-back-2.json"}


def test_a_position_that_could_not_be_put_back_is_named(tmp_path: Path) -> None:
    saved(tmp_path, 1, None)
    undo = move(tmp_path, ends_of(World(), not_put_back=("group audit is in use",))).groups().undo
    assert undo is not None
    with pytest.raises(NotTakenBack, match="group audit is in use"):
        undo()


@dataclass(frozen=True)
class Busy(StandInApplications):
    """Applications that nobody could stop."""

    def stop(self, cluster: str) -> Answer:
        return NotDone("exit code 1")


@pytest.mark.parametrize(("mode", "is_advised"), [("unplanned", True), ("cut-off", True), ("planned", False)])
def test_who_cannot_stop_applications_is_told_what_to_do_where_the_source_may_be_gone(
    tmp_path: Path, mode: str, is_advised: bool
) -> None:
    world = World()
    one = replace(move(tmp_path, ends_of(world), mode), applications=Busy(world))
    found: Result = one.stop().act({})
    assert (found.verdict, "leave the stop command of east out" in found.detail) == (FAIL, is_advised)


@dataclass(frozen=True)
class Raced(StandInEnds):
    """A target where another run comes on record in the same moment, before this one."""

    def put(self, entry: FailoverEntry) -> None:
        self.world.record["theirs"] = replace(entry, run="theirs", where="elsewhere")
        super().put(entry)


def test_of_two_runs_that_begin_in_the_same_moment_only_the_first_in_the_log_goes_on(tmp_path: Path) -> None:
    world = World()
    found = move(tmp_path, Raced(world, THERE.flow)).begin().act({})
    assert (found.verdict, "elsewhere" in found.detail) == (FAIL, True)
    assert list(world.record) == ["theirs"]


def test_while_groups_still_have_members_on_the_source_it_is_not_quiet(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Read(StandInEnds):
        def members(self, groups: Sequence[str]) -> Sequence[str]:
            return [f"group {each}: 2 members" for each in groups]

    found = move(tmp_path, Read(World(at_work=set()), THERE.flow)).fence().act({})
    assert (found.verdict, found.detail) == (FAIL, "somebody still reads on east: group audit: 2 members")


@pytest.mark.parametrize("leave", [True, False])
def test_members_that_brokers_remember_of_stopped_applications_are_waited_for(tmp_path: Path, *, leave: bool) -> None:
    """Static members do not leave: their session times out, 45 s after the last heartbeat."""
    seen: list[int] = []

    @dataclass(frozen=True)
    class Remembered(StandInEnds):
        def members(self, groups: Sequence[str]) -> Sequence[str]:
            seen.append(1)
            return [f"group {each}: 1 member" for each in groups] if len(seen) < 3 or not leave else []

    ends = Remembered(World(at_work=set()), THERE.flow)
    moving = replace(move(tmp_path, ends), times=replace(move(tmp_path, ends).times, fence=0.5))
    found = moving.fence().act({"stop": {"confirmed": True}})
    expected = (PASS, "") if leave else (FAIL, "group audit: 1 member, also 0.5 s after the applications were stopped")
    assert found.verdict is expected[0]
    assert expected[1] in found.detail
