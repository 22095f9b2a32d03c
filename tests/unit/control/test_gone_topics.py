"""State of topics that are gone from both clusters is dropped, and that of no other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from mirror.control.flow_log import FlowLog
from mirror.control.gone_topics import GoneTopicsTick
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import Topic
from mirror.kafka.log import NewRecord
from mirror.kafka.problems import ConnectionFailed
from mirror.model import connect_offsets
from mirror.model.checkpoint import CheckpointedCopy, CopyId
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import ForeignWriter, checkpointed_record, chunk_record, placement_record, writer_record
from tests.unit.control.builders import flow_settings, topic

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
GAP = Gap(ORDERS, 5, 9, "gone", 1)
HOUR = 3600.0


class Log:
    """What was read of the state topic."""

    def __init__(self, records: Sequence[StateRecord]) -> None:
        self.state = FlowState()
        for key, value in records:
            self.state.apply(key, value)
        self._records = list(records)

    def records(self) -> list[StateRecord]:
        return self._records


class Brokers:
    """A cluster that has some topics, does not tell of others, or does not answer."""

    def __init__(self, *there: str) -> None:
        self.there = set(there)
        self.hidden: set[str] = set()
        self.answers = True

    def topics(self, names: Collection[str]) -> Found[str, Topic]:
        if not self.answers:
            raise ConnectionFailed("east does not answer")
        return Found(
            {name: topic(name) for name in names if name in self.there},
            {name: "TOPIC_AUTHORIZATION_FAILED" for name in names if name in self.hidden},
        )


def group_records(copy: str) -> tuple[StateRecord, StateRecord]:
    """Return what stays on record of the groups that read a topic of the target."""
    partition = TopicPartition(copy, 0)
    return (
        placement_record(Placement("billing", partition, 3, 3, 3)),
        checkpointed_record(CheckpointedCopy(partition, CopyId("", "", 0), 4)),
    )


class World:
    """A flow that has copied two topics."""

    def __init__(self) -> None:
        self.source, self.target = Brokers("orders", "bills"), Brokers("east.orders", "east.bills")
        self.written: list[tuple[str, int, NewRecord]] = []
        self.forgotten: set[TopicPartition] = set()
        self.now = 0.0
        self.log = Log(
            [
                writer_record(7, 1),
                (b'["a newer kind","orders",0]', b"{}"),
                *(
                    record
                    for source in (ORDERS, BILLS)
                    for record in (
                        chunk_record(source, 0, [Run(0, 0, 5)]),
                        Position(5, 5, 0, True, target=f"east.{source.topic}").record(source),
                        ForeignWriter(TopicPartition(f"east.{source.topic}", 0), 9, 0, 1, 1, 1).record(),
                        *group_records(f"east.{source.topic}"),
                    )
                ),
                GAP.record(),
                Acknowledgement("ann", "a test", 2).record(GAP.key),
            ]
        )
        self._tick = GoneTopicsTick(
            cast(Cluster, self.source),
            cast(Cluster, self.target),
            flow_settings(),
            cast(FlowLog, self.log),
            self,
            self.forgotten.update,
            clock=lambda: 1,
            monotonic=lambda: self.now,
        )

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        self.written += [(topic, partition, record) for record in records]
        return 0

    def look(self, at: float) -> Any:
        self.now = at
        return self._tick.tick()


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_on_record_of_a_topic_gone_from_both_clusters_for_an_hour_is_dropped(world: World) -> None:
    """Of Java MirrorMaker's format first: or a new topic of that name began at that position."""
    world.source.there.remove("orders")
    world.target.there.remove("east.orders")
    assert (world.look(0).notes, world.look(HOUR - 1).done, world.written) == ((), 0, [])
    report = world.look(HOUR)
    assert "orders and its copy have been on neither cluster for 60 min" in report.notes[0]
    (offset, *state) = world.written
    key = connect_offsets.source_key("east", ORDERS)
    assert offset == ("mm2-offsets.east.internal", connect_offsets.partition_of(key, 25), (key, None, (), 1))
    for _, _, (key, value, *_) in state:
        assert value is None
        world.log.state.apply(key, value)
    known = world.log.state
    assert (set(known.positions), known.gaps, known.acknowledgements) == ({BILLS}, {}, {})
    assert {copy.topic for copy, _ in known.foreign} == {"east.bills"}
    assert {copy.topic for _, copy in known.placements} == {"east.bills"}
    assert {copy.topic for copy in known.checkpointed} == {"east.bills"}
    assert (known.writers, len(known.not_understood)) == ({7}, 1)
    assert world.forgotten == {ORDERS}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_one_cluster_has_or_does_not_tell_of_keeps_its_state(side: str, world: World) -> None:
    """RUN-07: a copy that is left is left with its positions; an ACL that hides a topic does not delete it."""
    name = {"source": "orders", "target": "east.orders"}[side]
    world.source.there.discard("orders")
    world.target.there.discard("east.orders")
    kept: Brokers = getattr(world, side)
    kept.there.add(name)
    assert [world.look(at).done for at in (0, 2 * HOUR)] == [0, 0]
    kept.there.remove(name)
    kept.hidden.add(name)
    assert [world.look(at).done for at in (3 * HOUR, 5 * HOUR)] == [0, 0]
    assert world.written == []


def test_the_hour_begins_anew_when_a_topic_comes_back_or_a_cluster_does_not_answer(world: World) -> None:
    world.source.there.remove("orders")
    world.target.there.remove("east.orders")
    world.look(0)
    world.source.there.add("orders")
    world.look(HOUR / 2)
    world.source.there.remove("orders")
    assert [world.look(at).done for at in (HOUR, 1.9 * HOUR)] == [0, 0]
    world.source.answers = False
    assert not world.look(1.95 * HOUR).is_ok
    world.source.answers = True
    assert [world.look(at).done for at in (2 * HOUR, 2.9 * HOUR, 3 * HOUR)] == [0, 0, 1]


def test_what_cannot_be_written_is_dropped_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.source.there.remove("orders")
    world.target.there.remove("east.orders")
    world.look(0)

    def refuse(*_: object) -> int:
        raise ConnectionFailed("west does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(world, "append", refuse)
        assert not world.look(HOUR).is_ok
    assert world.forgotten == set()


def test_a_topic_keeps_its_state_as_long_as_one_of_the_copies_it_had_is_there(world: World) -> None:
    """Also one under a name that it is not copied to any more."""
    second = TopicPartition("orders", 1)
    world.log.state.apply(*Position(5, 5, 0, True, target="renamed").record(second))
    world.source.there.remove("orders")
    world.target.there = {"east.bills", "renamed"}
    world.look(0)
    assert world.look(HOUR).done == 0
    world.target.there.remove("renamed")
    world.look(HOUR)
    assert world.look(2 * HOUR).done == 1


def test_what_is_on_record_of_a_topic_without_a_position_is_dropped_too(world: World) -> None:
    """Where its copy would be; a key that is no JSON is nobody's."""
    gap = Gap(TopicPartition("old", 0), 5, 9, "gone", 1)
    for key, value in (gap.record(), (b"not JSON", b"{}")):
        world.log.state.apply(key, value)
        world.log._records.append((key, value))
    world.target.there.add("east.old")
    world.look(0)
    assert world.look(HOUR).done == 0
    world.target.there.remove("east.old")
    world.look(HOUR)
    assert world.look(2 * HOUR).done == 1
    assert [record[0] for _, _, record in world.written] == [gap.record()[0]]


def test_where_groups_stood_on_copies_that_are_gone_is_dropped_also_without_any_other_record(world: World) -> None:
    """A version that left it behind may have dropped the rest; a copy that came home is read in its original."""
    for name in ("east.old", "home"):
        for record in group_records(name):
            world.log.state.apply(*record)
            world.log._records.append(record)
    world.source.there.add("west.home")
    world.look(0)
    assert world.look(HOUR).done == 1
    dropped = [record[0] for _, _, record in world.written]
    assert dropped == [key for key, _ in group_records("east.old")]
    for key in dropped:
        world.log.state.apply(key, None)
    world.source.there.remove("west.home")
    world.target.there.add("home")
    assert [world.look(at).done for at in (2 * HOUR, 4 * HOUR)] == [0, 0]
    world.target.there.remove("home")
    world.look(5 * HOUR)
    assert "what was on record of them is dropped" in world.look(6 * HOUR).notes[0]
    assert [record[0] for _, _, record in world.written[2:]] == [key for key, _ in group_records("home")]


def test_what_was_dropped_is_said_once(world: World) -> None:
    world.source.there.remove("orders")
    world.target.there.remove("east.orders")
    world.look(0)
    assert len(world.look(HOUR).notes) == 1
    world.log = world._tick.log = Log([])  # type: ignore[assignment]
    assert world.look(HOUR + 1).notes == ()
