"""A standby's own application goes on while the others are led home: named in the plan, and neither awaited nor moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.evidence.journal import Journal
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupDescription, GroupListing, GroupPosition
from mirror.model.failover import Phase
from mirror.model.partition import TopicPartition
from mirror.model.topics import IdentityReplicationPolicy
from mirror.model.verdict import Verdict
from mirror.recovery import staying
from mirror.recovery.failback import look_home, steps_home
from mirror.recovery.move import Move
from mirror.recovery.staying import NOBODY, Staying, find_staying, staying_of
from mirror.recovery.steps import StepResult, carry_out
from tests.unit.recovery.world import EAST, ENTRY, HOME, THERE, WEST, StandInEnds, World, move_home

LOCAL = Staying({"local": ("inventory",)}, frozenset({"inventory"}))


@pytest.fixture
def world() -> World:
    """Applications that were failed over, and beside them one of the standby, which writes and reads all the time."""
    world = World(at_work={WEST}, own=3, staying=LOCAL, groups={EAST: {"audit": 7}, WEST: {"audit": 9, "local": 2}})
    world.record["ours"] = ENTRY.at(Phase.DONE, 1)
    return world


def led_home(move: Move, directory: Path) -> Sequence[StepResult]:
    steps = steps_home(move, StandInEnds(move.ends.world, THERE.flow))  # type: ignore[attr-defined]
    return carry_out(steps, Journal(directory / "journal.jsonl"), goes_back=True)


def test_the_plan_names_who_stays_before_anything_is_stopped(world: World, tmp_path: Path) -> None:
    plan = look_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow))
    assert plan.refusal is None
    assert [each for each in plan.notes if "group local (inventory)" in each and "stop them before" in each]
    assert plan.moves is not None
    assert {each.group for each in plan.moves.positions} == {"audit"}
    assert world.at_work == {WEST}


def test_who_stays_is_neither_awaited_nor_moved_and_reads_on(world: World, tmp_path: Path) -> None:
    class ReadsOn(StandInEnds):
        def move_groups(self, *given: object) -> object:  # type: ignore[override]
            self.world.groups[WEST]["local"] += 1
            return super().move_groups(*given)  # type: ignore[arg-type]

    move = move_home(world, tmp_path)
    results = led_home(replace(move, ends=ReadsOn(world, move.flow), agreed=frozenset({"audit"})), tmp_path)
    assert [(each.name, each.result.detail) for each in results if each.result.verdict is not Verdict.PASS] == []
    assert (world.at_work, world.groups[EAST]) == ({EAST}, {"audit": 9})
    (fence,) = [each.result for each in results if each.name == "fence"]
    assert "group local (inventory)" in fence.detail
    assert Staying.of(fence.facts) == LOCAL


def test_who_was_agreed_to_be_moved_does_not_stay(world: World, tmp_path: Path) -> None:
    """It was stopped when the plan was made, and is at work again."""
    world.own = None
    results = led_home(replace(move_home(world, tmp_path), agreed=frozenset({"audit", "local"})), tmp_path)
    (failed,) = [each for each in results if each.result.verdict is Verdict.FAIL]
    assert (failed.name, "still reads on west: group local" in failed.result.detail) == ("fence", True)
    assert world.at_work == {WEST}


def test_who_writes_to_topics_of_nobody_who_stays_is_waited_for(world: World, tmp_path: Path) -> None:
    world.staying = NOBODY
    world.groups[WEST].pop("local")
    results = led_home(move_home(world, tmp_path), tmp_path)
    (failed,) = [each for each in results if each.result.verdict is Verdict.FAIL]
    assert "inventory-0 ended at" in failed.result.detail
    assert world.at_work == {WEST}


def test_what_somebody_who_moves_reads_too_is_not_apart() -> None:
    found = staying_of({"local": ("inventory", "prices")}, {"audit": ["orders", "prices"]})
    assert found.topics == {"inventory"}
    assert Staying.of(found.facts()) == found
    assert found.without(["local", "audit"]) == NOBODY
    two = staying_of({"local": ("inventory",), "other": ("inventory", "stock")}, {})
    assert two.without(["other"]) == Staying({"local": ("inventory",)}, frozenset())
    assert (NOBODY.facts(), Staying.of({})) == ({}, NOBODY)


@dataclass(frozen=True)
class Side:
    """A cluster with its topics, and who reads what there; those at work are in capitals."""

    names: Sequence[str] = ()
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    untold: Sequence[str] = ()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def groups(self) -> list[GroupListing]:
        return [GroupListing(group, "consumer", "Stable", "classic") for group in self.reads]

    def positions_of_groups(self, names: Sequence[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        return Found(
            {
                group: Found(
                    {TopicPartition(topic, 0): GroupPosition(1) for topic in self.reads[group]},
                    {TopicPartition("more", 0): "no leader"} if group in self.untold else {},
                )
                for group in names
            }
        )

    def describe_groups(self, names: Sequence[str]) -> Found[str, GroupDescription]:
        return Found(
            {each: GroupDescription("Stable", 1) if each.isupper() else GroupDescription("Empty", 0) for each in names}
        )

    def topics(self, names: Collection[str]) -> Found[str, str]:
        return Found({each: each for each in names if each in self.names}, {"seen.by.nobody": "denied"})


@pytest.mark.parametrize(
    ("reads", "stays"),
    [
        ({"LOCAL": ["inventory"]}, {"LOCAL"}),
        ({"LOCAL": ["inventory.v1", "stock"]}, {"LOCAL"}),
        ({"local": ["inventory"]}, set()),
        ({"LOCAL": []}, set()),
        ({"LOCAL": ["inventory", "orders"]}, set()),
        ({"LOCAL": ["inventory", "east.orders"]}, set()),
        ({"LOCAL": ["bills"]}, set()),
        ({"LOCAL": ["seen.by.nobody"]}, set()),
        ({"UNTOLD": ["inventory"]}, set()),
        ({"PUT": ["inventory"]}, set()),
        ({"LOCAL": ["inventory"], "AUDIT": ["inventory", "orders"]}, {"LOCAL"}),
    ],
)
def test_who_is_at_work_in_topics_of_the_standby_alone_stays(
    reads: Mapping[str, Sequence[str]], stays: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`orders` was copied, `bills` is empty on the old cluster; both may change sides."""
    monkeypatch.setattr(staying, "Cluster", SimpleNamespace(connect=lambda side: side))
    clusters: Any = {WEST: Side(reads=reads, untold=["UNTOLD"]), EAST: Side(["bills"])}
    found = find_staying(HOME, clusters, {"orders"}, {("PUT", "orders")})
    assert found.groups.keys() == stays
    apart = {topic for group in stays for topic in reads[group]} if len(reads) == 1 else set()
    assert found.topics == apart


def test_under_unchanged_names_nobody_stays() -> None:
    unchanged = replace(HOME, policy=IdentityReplicationPolicy())
    assert find_staying(unchanged, {}, (), ()) == NOBODY
