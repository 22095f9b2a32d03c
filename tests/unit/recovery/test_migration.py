"""A migration: each group by itself, the producers last, and nothing of it done twice wherever a process ends."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mirror.control.group_view import TranslatedPosition
from mirror.evidence.journal import Event, Journal
from mirror.evidence.plots import happened_to
from mirror.model.failover import Phase
from mirror.model.partition import TopicPartition
from mirror.model.translation import Bounded, Exact
from mirror.model.verdict import Verdict
from mirror.recovery.applications import Answer, Done, NotDone
from mirror.recovery.flow_ends import Copied
from mirror.recovery.group_moves import GroupMoves, MovePlan
from mirror.recovery.migration import Migration, Word, kept_groups
from mirror.recovery.remaining import Remaining
from mirror.recovery.step_facts import rows_of
from mirror.recovery.steps import NOT_BEGUN, Progress, Step, StepResult, carry_out
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
    move_of,
)

GROUPS = ("audit", "billing")


@dataclass
class Town(World):
    """A world in which each group's applications run by themselves; ``None`` are the producers."""

    groups: dict[str, dict[str, int]] = field(default_factory=lambda: {EAST: {"audit": 7, "billing": 5}, WEST: {}})
    places: dict[str | None, str | None] = field(default_factory=lambda: dict.fromkeys((None, *GROUPS), EAST))
    lingering: set[str] = field(default_factory=set)
    remaining: Remaining = field(default_factory=Remaining)


@dataclass(frozen=True)
class TownEnds(StandInEnds):
    """The ends of a flow of the town, seen for some groups."""

    world: Town
    pattern: str = ".*"

    def of_groups(self, pattern: str) -> TownEnds:
        return replace(self, pattern=pattern)

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        plan = super().plan_groups(ask_source=ask_source)
        kept = tuple(replace(each, source=ORDERS) for each in plan.positions if re.fullmatch(self.pattern, each.group))
        decisions = tuple(each for each in plan.decisions if re.fullmatch(self.pattern, each.group))
        return replace(plan, positions=kept, decisions=decisions)

    def members(self, groups: Sequence[str]) -> Sequence[str]:
        self.world.call()
        there = [each for each in groups if self.world.places[each] == self.flow.source or each in self.world.lingering]
        return [f"group {each}" for each in there]

    def remaining(self, moved: Collection[str]) -> Remaining:
        self.world.call()
        return self.world.remaining


@dataclass(frozen=True)
class TownApplications(StandInApplications):
    """Its applications; all of them at once are asked for nothing but what they did."""

    world: Town

    def stop(self, cluster: str) -> Answer:
        raise AssertionError(f"all of {cluster} stopped")

    def start(self, cluster: str) -> Answer:
        raise AssertionError(f"all of {cluster} started")

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        if self.world.places[group] == cluster:
            self.world.places[group] = None
        if group is None:
            self.world.at_work.discard(cluster)
        self.world.call(f"stop {group} on {cluster}")
        return Done("stopped")

    def start_part(self, cluster: str, group: str | None) -> Answer:
        assert self.world.places[group] in (None, cluster), f"{group} would run on two clusters"
        assert group is None or cluster == EAST or group in self.world.groups[WEST], "before it was moved"
        self.world.places[group] = cluster
        if group is None:
            self.world.at_work.add(cluster)
            self.world.written[cluster] += 1
        self.world.call(f"start {group} on {cluster}")
        return Done("started")

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        self.world.call(f"{group} reads on {cluster}")
        return Done("seen", since_ms + 1) if self.world.places[group] == cluster else NotDone("it is not there")


def migration(world: Town, directory: Path) -> Migration:
    directory.mkdir(exist_ok=True)
    ends = TownEnds(world, THERE.flow)
    move = replace(move_of(world, directory), ends=ends, record=ends, applications=TownApplications(world))
    return Migration(move, TownEnds(world, HOME.flow), GROUPS, directory)


def carried(world: Town, directory: Path) -> tuple[StepResult, ...]:
    return migration(world, directory).carry_out(lambda _: None)


def of_parts(world: Town) -> list[str]:
    """What was done with applications, in order."""
    return [each for each in world.done if each.split()[0] in {"stop", "start"} or " reads on " in each]


def assert_there(world: Town, results: Sequence[StepResult]) -> None:
    assert [each for each in results if each.result.verdict is not Verdict.PASS] == []
    assert set(world.places.values()) == {WEST}
    assert world.groups[WEST] == world.groups[EAST] == {"audit": 7, "billing": 5}
    assert [each.phase for each in world.record.values()] == [Phase.DONE]
    assert world.paused == {THERE.flow}


@dataclass(frozen=True)
class ReadOn(TownEnds):
    """A group is started again on the old cluster once its positions are moved, reads on, or is set back, and ends."""

    by: int = 0

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        moves = super().move_groups(plan, snapshot)
        self.world.groups[EAST]["audit"] += self.by if self.pattern == "audit" else 0
        return moves


@dataclass(frozen=True)
class FailedOver(TownEnds):
    """The flow back was failed over since the migration was planned."""

    def copied(self) -> Copied:
        return replace(super().copied(), failovers=(replace(ENTRY, run="theirs", phase=Phase.DONE),))


def test_a_migration_does_not_begin_beside_a_failover_the_other_way(tmp_path: Path) -> None:
    world = Town()
    begun = replace(migration(world, tmp_path), back=FailedOver(world, HOME.flow))
    (failed,) = begun.carry_out(lambda _: None)
    assert (failed.name, failed.result.verdict) == ("begin", Verdict.FAIL)
    assert "is failed over already" in failed.result.detail
    assert (world.record, of_parts(world)) == ({}, [])


@pytest.mark.parametrize("by", [2, -2])
def test_a_group_that_reads_on_the_old_cluster_once_it_is_moved_is_not_started_on_the_new_one(
    tmp_path: Path, by: int
) -> None:
    """It read again what its rows called exact, or passed what it was set back to."""
    world = Town()
    planned = migration(world, tmp_path)
    move = replace(planned.move, ends=ReadOn(world, THERE.flow, by=by))
    results = replace(planned, move=move).carry_out(lambda _: None)
    (failed,) = [each for each in results if each.result.verdict is Verdict.FAIL]
    assert failed.name == "audit: last look"
    assert (world.places["audit"], world.groups[WEST]) == (EAST, {})


def test_each_group_reads_on_the_new_cluster_before_the_next_is_stopped_and_the_producers_are_last(
    tmp_path: Path,
) -> None:
    world = Town()
    results = carried(world, tmp_path)
    assert_there(world, results)
    assert of_parts(world) == [
        *(f"{what} on {where}" for group in GROUPS for what, where in _of_group(group)),
        "stop None on east",
        "start None on west",
    ]
    assert [each.name for each in results] == [each.name for each in migration(world, tmp_path).steps()]
    assert [each.name for each in results][:3] == ["begin", "audit: stop", "audit: copied"]
    assert results[-1].name == "producers: what remains"


def test_producers_are_stopped_once_what_is_copied_was_compared_and_behind_the_stop_only_the_rest_is(
    tmp_path: Path,
) -> None:
    world = Town()
    carried(world, tmp_path)
    done = [each for each in world.done if "None" in each or "verify" in each]
    assert done == ["verify so far", "stop None on east", "verify the rest", "start None on west"]


def test_a_difference_ends_a_migration_before_its_producers_are_stopped(tmp_path: Path) -> None:
    world = Town(verdict_so_far=Verdict.FAIL)
    (failed,) = [each for each in carried(world, tmp_path) if each.result.verdict is Verdict.FAIL]
    assert failed.name == "producers: verify so far"
    assert world.places == {None: EAST, "audit": WEST, "billing": WEST}
    assert "stop None on east" not in world.done
    world.verdict_so_far = Verdict.PASS
    assert_there(world, carried(world, tmp_path))


def test_each_point_of_no_return_names_whose_it_is(tmp_path: Path) -> None:
    """A migration has one a group and one of the producers, and the timeline shows all of them."""
    carried(Town(), tmp_path)
    crossed = [
        entry
        for path in sorted(tmp_path.glob("**/journal.jsonl"))
        for entry in Journal(path).read().entries
        if entry.event is Event.POINT_OF_NO_RETURN
    ]
    assert [entry.facts for entry in crossed] == [
        {"group": "audit"}, {"group": "billing"}, {"applications": "producers"}
    ]  # fmt: skip
    assert [happened_to(entry) for entry in crossed] == [
        "start: group audit",
        "start: group billing",
        "start: producers",
    ]


def _of_group(group: str) -> list[tuple[str, str]]:
    return [(f"stop {group}", EAST), (f"start {group}", WEST), (f"{group} reads", WEST)]


def test_a_group_that_fails_before_it_is_started_goes_on_where_it_was_and_those_before_it_stay(tmp_path: Path) -> None:
    world = Town(lingering={"billing"})
    results = carried(world, tmp_path)
    failed = [each for each in results if each.result.verdict is Verdict.FAIL]
    assert [(each.name, "somebody still reads on east" in each.result.detail) for each in failed] == [
        ("billing: stop", True)
    ]
    assert world.places == {None: EAST, "audit": WEST, "billing": EAST}
    assert [each.phase for each in world.record.values()] == [Phase.UNDER_WAY]
    assert migration(world, tmp_path).whereabouts() == world.places
    world.lingering.clear()
    before = len(world.done)
    assert_there(world, carried(world, tmp_path))
    assert not [each for each in world.done[before:] if "audit" in each], "it is there already"


def test_a_kill_anywhere_leaves_what_the_same_run_goes_on_from(tmp_path: Path) -> None:
    whole = Town()
    carried(whole, tmp_path / "whole")
    assert whole.calls > 40
    for number in range(1, whole.calls + 1):
        world, directory = Town(dies_at=number), tmp_path / str(number)
        with pytest.raises(Killed):
            carried(world, directory)
        journal = Journal(directory / "journal.jsonl")
        progress = Progress.of(journal.read().entries) if journal.path.exists() else NOT_BEGUN
        assert "older copy" not in str(migration(world, directory).plan(progress).refusal), number
        assert_there(world, carried(world, directory))
        for group in GROUPS:
            assert world.done.count(f"write {group} on west") == 1, number
            began = [each for each in world.done if each == f"start {group} on west"]
            assert len(began) <= 2, "started once more only where nobody knew that it was"


@pytest.mark.parametrize(
    ("copied_at", "killed_at"),
    [
        ("stop None on east", "start None on west"),
        ("stop billing on east", "start None on west"),
        ("stop audit on east", "start audit on west"),
    ],
    ids=["producers", "a group behind the producers' start", "a group"],
)
def test_an_older_copy_of_the_run_directory_starts_nothing_on_the_old_cluster_that_works_on_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied_at: str, killed_at: str
) -> None:
    """It took its own steps back: producers wrote, and groups read, on both clusters."""
    world, newer, older = Town(), tmp_path / "newer", tmp_path / "older"

    def call(town: Town, what: str = "") -> None:
        if what == copied_at:
            shutil.copytree(newer, older)
        if what == killed_at:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Town, "call", call)
        with pytest.raises(Killed):
            carried(world, newer)
    stands, paused = dict(world.places), set(world.paused)
    plan = migration(world, older).plan(NOT_BEGUN)
    assert plan.refusal is not None
    assert "this is an older copy of its directory" in plan.refusal
    # The same where the newer one has got so far since it was planned.
    results = carried(world, older)
    assert [each for each in results if each.result.verdict is Verdict.FAIL]
    assert (world.places, world.paused) == (stands, paused)
    assert_there(world, carried(world, newer))


@pytest.mark.parametrize("group", [None, "billing"], ids=["producers", "a group"])
def test_what_an_older_copy_has_started_on_the_old_cluster_is_not_started_on_the_new_one(
    tmp_path: Path, group: str | None
) -> None:
    """The process dies between its point of no return and putting that on record; the copy took itself back."""
    world = Town()
    (start,) = (each for each in migration(world, tmp_path).steps() if each.name == f"{group or 'producers'}: start")
    world.record["ours"] = replace(ENTRY, started=("audit",))
    known = {"fence": {"ends": rows_of({ORDERS: world.written[EAST]})}} if group is None else {}
    world.places[group], world.at_work = None, set()
    assert start.again(known) is None
    world.places[group] = EAST
    world.written[EAST] += 1
    problem = str(start.again(known))
    assert problem.startswith("nothing is started, since applications are at work on east again (")
    world.record["ours"] = replace(ENTRY, started=("audit", "billing"), is_beyond_return=True)
    assert start.again(known) is None, "it is on record: older copies take nothing back"


def test_a_run_found_behind_its_point_of_no_return_asks_before_it_starts_anything_again(tmp_path: Path) -> None:
    said = "they are at work there again"
    start = Step("start", "", lambda _: pytest.fail("it was started"), is_point_of_no_return=True, again=lambda _: said)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(Event.POINT_OF_NO_RETURN, step="start")
    (result,) = carry_out([start], journal, goes_back=True)
    assert (result.result.verdict, result.result.detail) == (Verdict.FAIL, said)


@dataclass(frozen=True)
class WithIdleGroups(TownApplications):
    """Applications of which some groups have nothing to read: nobody ever sees those reading."""

    idle: frozenset[str] = frozenset({"audit"})

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        return NotDone("not within 300 s") if group in self.idle else super().group_reads(cluster, group, since_ms)

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        answers = super().first_reads(cluster, groups, since_ms)
        return {group: NotDone("not within 300 s") if group in self.idle else each for group, each in answers.items()}


def idle_one(world: Town, directory: Path, **words: Word) -> tuple[StepResult, ...]:
    planned = migration(world, directory)
    move = replace(planned.move, applications=WithIdleGroups(world))
    return replace(planned, move=move, words=words).carry_out(lambda _: None)


def test_a_group_that_nobody_sees_reading_stops_the_migration_and_says_what_a_person_does(tmp_path: Path) -> None:
    world = Town()
    for _ in range(2):
        last = idle_one(world, tmp_path)[-1]
        assert (last.name, last.result.verdict) == ("audit: reads", Verdict.FAIL)
        assert "start its applications there and resume the run" in last.result.detail
        assert "mirror runbook resume DIRECTORY --seen 'audit'" in last.result.detail
        assert world.places == {None: EAST, "audit": WEST, "billing": EAST}


def test_a_persons_word_for_such_a_group_lets_the_migration_go_on(tmp_path: Path) -> None:
    world = Town()
    idle_one(world, tmp_path)
    # The group was started at 100: what was said before is not about that.
    assert idle_one(world, tmp_path, audit=Word("ann", 99))[-1].name == "audit: reads"
    results = idle_one(world, tmp_path, audit=Word("ann", 100))
    assert_there(world, results)
    (told,) = [each.result.detail for each in results if each.name == "audit: reads"]
    assert told == "not seen; a person says that group audit is at work on west (ann, 1970-01-01T00:00:00Z)"


def test_what_a_group_has_read_of_a_topic_mirrored_from_the_new_cluster_is_not_waited_for(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class BothWays(TownEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            plan = super().plan_groups(ask_source=ask_source)
            mirrored = TopicPartition("west.orders", 0)
            back = tuple(
                TranslatedPosition(each.group, *ORDERS, 3, Exact(3), source=mirrored) for each in plan.positions
            )
            return replace(plan, positions=(*plan.positions, *back))

    world = Town()
    planned = migration(world, tmp_path)
    move = replace(planned.move, ends=BothWays(world, THERE.flow))
    assert_there(world, replace(planned, move=move).carry_out(lambda _: None))


def test_what_remains_is_named_until_nothing_does(tmp_path: Path) -> None:
    world = Town(
        remaining=Remaining(("group reports (Stable, 1 member)",), ("audit-log-0 (5 offsets, copied by nobody)",))
    )
    assert "group reports" in " ".join(migration(world, tmp_path).plan(NOT_BEGUN).notes)
    last = carried(world, tmp_path)[-1]
    assert (last.name, last.result.verdict) == ("producers: what remains", Verdict.FAIL)
    assert "must not be switched off" in last.result.detail
    assert "group reports (Stable, 1 member); audit-log-0 (5 offsets" in last.result.detail
    world.written[EAST] += 1
    world.remaining = Remaining()
    assert "producers: logs of east do not end where they did" in carried(world, tmp_path)[-1].result.detail
    # What the flow back has copied into a log of the same name is nobody's write.
    world.is_copied_back = True
    assert_there(world, carried(world, tmp_path))


def test_a_journal_of_a_group_that_was_cut_short_is_not_gone_on_with(tmp_path: Path) -> None:
    world = Town(lingering={"billing"})
    carried(world, tmp_path)
    journal = tmp_path / "group-001" / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-2]))
    before = list(world.done)
    last = carried(world, tmp_path)[-1]
    assert (last.name, last.result.verdict, world.done) == ("audit: stop", Verdict.FAIL, before)
    assert "nothing can be taken up from" in last.result.detail


def test_another_run_under_way_refuses_it(tmp_path: Path) -> None:
    world = Town()
    world.record["other"] = replace(migration(world, tmp_path).move.entry, run="other")
    refusal = migration(world, tmp_path).plan(NOT_BEGUN).refusal
    assert refusal is not None
    assert "under way" in refusal
    assert carried(world, tmp_path)[-1].name == "begin"
    assert of_parts(world) == []


def test_the_groups_of_a_migration_are_those_with_which_it_was_begun(tmp_path: Path) -> None:
    assert kept_groups(tmp_path) is None
    carried(Town(), tmp_path)
    assert kept_groups(tmp_path) == GROUPS


def test_positions_that_are_not_exact_are_told_before_the_group_is_started(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Approximate(TownEnds):
        def plan_groups(self, *, ask_source: bool) -> MovePlan:
            plan = super().plan_groups(ask_source=ask_source)
            return replace(plan, positions=tuple(replace(each, translation=Bounded(5, 2)) for each in plan.positions))

    world = Town()
    planned = migration(world, tmp_path)
    move = replace(planned.move, ends=Approximate(world, THERE.flow))
    results = replace(planned, move=move).carry_out(lambda _: None)
    (told,) = [each.result.detail for each in results if each.name == "audit: positions"]
    assert "some records may be read again: orders-0" in told


@dataclass(frozen=True)
class Asked(TownApplications):
    """Applications of which a person says of every group that it is at work."""

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        super().group_reads(cluster, group, since_ms)
        return Done("a person says so", since_ms + 1, is_word=True)


def test_a_group_that_is_said_to_be_at_work_and_shows_nothing_of_it_holds_up_those_behind_it(tmp_path: Path) -> None:
    world = Town(resting={"audit": "it has no member on west"})
    planned = migration(world, tmp_path)
    asked = replace(planned, move=replace(planned.move, applications=Asked(world)))
    results = asked.carry_out(lambda _: None)
    assert (results[-1].name, results[-1].result.verdict) == ("audit: reads", Verdict.FAIL)
    assert "a person says so, but it has no member on west" in results[-1].result.detail
    assert world.places["billing"] == EAST
    world.resting.clear()
    assert_there(world, asked.carry_out(lambda _: None))


def test_by_a_word_on_record_the_migration_goes_on_and_is_no_pass_until_the_group_shows_it(tmp_path: Path) -> None:
    world = Town(resting={"audit": "it has no member on west"})
    results = idle_one(world, tmp_path, audit=Word("carla", 5_000))
    unknown = [each for each in results if each.result.verdict is Verdict.UNKNOWN]
    assert [each.name for each in unknown] == ["audit: reads"]
    assert "carla" in unknown[0].result.detail
    assert "but it has no member on west" in unknown[0].result.detail
    assert set(world.places.values()) == {WEST}
    world.resting.clear()
    assert_there(world, idle_one(world, tmp_path, audit=Word("carla", 5_000)))
