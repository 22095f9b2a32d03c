"""An engine that begins to lead reads back where the flow stands, once nothing can change that any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, cast

import pytest

from mirror.clock import steady_seconds
from mirror.control.closed_copies import Opened
from mirror.control.tick import TickReport
from mirror.copier.work import ForeignUntil
from mirror.engine import flow_control
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.answers import Found
from mirror.kafka.batch import Producer
from mirror.kafka.cluster_model import Topic
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import (
    ClosedCopy,
    DataProducer,
    claim_record,
    producer_asked_for_record,
    source_record,
    transactional_id_record,
    writer_record,
)
from tests.unit.control.builders import flow_settings, topic

ORDERS = TopicPartition("orders", 0)
UNCHANGED = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TRANSACTIONS = "west.exactly.once.source.support = enabled"
TERM = 3
NEW, USED = Producer(7, 0), Producer(7, 4)


class Brokers:
    """A cluster, and how many records its topics hold."""

    def __init__(self, cluster_id: str, **ends: int) -> None:
        self.cluster_id = cluster_id
        self.ends = {name.replace("_", "-"): end for name, end in ends.items()}
        self.leaderless: set[str] = set()

    def topics(self, names: Collection[str] | None = None) -> Found[str, Topic]:
        return Found({name: topic(name) for name in self.ends if names is None or name in names})

    def offsets(self, partitions: Sequence[TopicPartition], _: str) -> Found[TopicPartition, int]:
        led = {each: self.ends[each.topic] for each in partitions if each.topic not in self.leaderless}
        return Found(led, {each: "no broker leads it" for each in partitions if each not in led})


class StateTopic:
    """The flow's state topic, as who reads and who writes it sees it."""

    def __init__(self, *records: StateRecord) -> None:
        self.state = FlowState()
        self.loss: str | None = None
        self.written: list[StateRecord] = []
        #: What another engine writes before the next look.
        self.to_come: list[StateRecord] = []
        self.takes(claim_record(Claim("this", TERM)), *records)

    def takes(self, *records: StateRecord) -> None:
        for key, value in records:
            self.state.apply(key, value)

    def poll(self) -> FlowState:
        self.takes(*self.to_come)
        return self.state

    def records(self) -> list[StateRecord]:
        return []

    def restored(self) -> None:
        self.loss = None

    def append(self, _topic: str, _partition: int, records: Sequence[tuple[bytes, bytes | None, object, int]]) -> None:
        found = [(key, value) for key, value, *_ in records]
        self.written += found
        self.takes(*found)


class ProducersInMemory:
    """Gives the producers of the flow."""

    def __init__(self, held: TakenProducers) -> None:
        self.held = held
        self.unrefused: DataProducer | None = None
        self.has_sent_unrefused = False
        self.weakness = self.note = None
        self.taken = 0
        self.has_unended = self.take_fails = self.is_known_to_cluster = False
        self.used_meanwhile: set[str] = set()
        self.done: list[str] = []
        self.next = Producer(7, 9)
        self.before_next = lambda: None

    def take(self, *_: object, **__: object) -> TakenProducers:
        if self.take_fails:
            raise ConnectionFailed("west: hung up")
        self.taken += 1
        return self.held

    def was_given(self, _: FlowState) -> bool:
        return self.is_known_to_cluster

    def next_producer(self, _: int) -> Producer:
        self.before_next()
        return self.next

    def foreign_until(
        self, positions: Mapping[TopicPartition, Position], _: Set[int]
    ) -> Mapping[TopicPartition, ForeignUntil]:
        self.done.append(f"asked about {sorted(positions)}")
        return {each: ForeignUntil(40, 2) for each in positions}

    def fence(self, partitions: Set[TopicPartition]) -> Mapping[TopicPartition, str]:
        self.done.append(f"fenced {sorted(partitions)}")
        return {}


class Engine:
    """An engine that leads east->west in term 3."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *lines: str,
        held: TakenProducers,
        known: Sequence[StateRecord] = (),
        copied: int = 0,
    ) -> None:
        monkeypatch.setattr(flow_control, "read_traces", lambda *_, **__: Mm2Traces())
        self.runtime = FlowRuntime(flow_settings(*lines, "east->west.topics = orders"))
        self.runtime.lead(TERM, was_settled=False)
        self.log = StateTopic(*known)
        self.producers = ProducersInMemory(held)
        self.source = Brokers("the east", orders=5)
        name = self.runtime.settings.copy_of("orders")
        self.target = Brokers("the west", **{name: copied})
        self.control = FlowControl(
            self.runtime,
            cast(Any, self.source),
            cast(Any, self.target),
            cast(Any, None),
            cast(Any, self.producers),
            matches_mm2=True,
        )

    def read_back(self) -> TickReport:
        report = self.control._keep_known(cast(Any, self.log), cast(Any, self.log))
        assert report.is_ok, report.problems
        return report


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ((), TakenProducers(producer=USED, was_used_before=True)),
        ((TRANSACTIONS,), TakenProducers((("east-0", USED),), was_used_before=True)),
    ],
)
def test_unchanged_names_with_all_of_the_state_lost_are_known_to_have_been_copied_by_the_flows_producer(
    lines: tuple[str, ...], held: TakenProducers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions, syncs and checkpoints may be gone, or never written; the cluster remembers the transactional id."""
    engine = Engine(monkeypatch, UNCHANGED, *lines, held=held, copied=5)
    engine.read_back()
    assert engine.runtime.loss is not None
    assert "the flow has run before" in engine.runtime.loss
    assert engine.log.state.loss is not None
    assert engine.runtime.is_known


@pytest.mark.parametrize(
    ("copied", "was_used_before", "known", "others"),
    [
        pytest.param(0, True, (), {}, id="nothing is in the copy"),
        pytest.param(5, False, (), {}, id="nobody has had the producer"),
        pytest.param(5, True, (source_record("the east"),), {}, id="the state is there"),
        pytest.param(5, True, (), {"mm2_configs.east.internal": 1}, id="Java MirrorMaker has run"),
    ],
)
def test_a_flow_that_begins_on_a_topic_of_others_has_lost_nothing(
    copied: int,
    was_used_before: bool,  # as in the table above
    known: Sequence[StateRecord],
    others: Mapping[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = TakenProducers(producer=USED, was_used_before=was_used_before)
    engine = Engine(monkeypatch, UNCHANGED, held=held, known=known, copied=copied)
    engine.target.ends |= Brokers("", **others).ends
    engine.read_back()
    assert (engine.runtime.loss, engine.runtime.is_known) == (None, True)


def test_default_names_with_all_of_the_state_lost_are_known_by_what_the_flow_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW))
    engine.target.ends["east.checkpoints.internal"] = 3
    engine.read_back()
    assert engine.runtime.loss is not None
    assert engine.log.state.loss is not None


@pytest.mark.parametrize(
    ("lines", "is_taken"), [((), False), ((UNCHANGED,), True)], ids=["default names", "unchanged names"]
)
def test_a_copy_that_nobody_leads_is_not_taken_for_empty(
    lines: tuple[str, ...],
    is_taken: bool,
    monkeypatch: pytest.MonkeyPatch,  # as in the table above
) -> None:
    """What was lost is told once it is known whether the flow has run before; until then nothing is begun."""
    engine = Engine(monkeypatch, *lines, held=TakenProducers(producer=USED, was_used_before=True), copied=5)
    (copy,) = engine.target.leaderless = set(engine.target.ends)
    for _ in range(2):
        (problem,) = engine.control._keep_known(cast(Any, engine.log), cast(Any, engine.log)).problems
        assert f"{copy}-0 on west: no broker leads it" in problem
        assert (engine.runtime.is_known, engine.log.state.source_id) == (False, "")
        assert engine.producers.taken == int(is_taken), "each time it is taken an epoch of the producer is used up"
    engine.target.leaderless.clear()
    engine.read_back()
    assert engine.log.state.loss is not None
    assert engine.runtime.is_known


def test_of_copies_one_that_holds_anything_is_enough_whoever_leads_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), copied=5)
    engine.target.ends["east.checkpoints.internal"] = 0
    engine.target.leaderless = {"east.checkpoints.internal"}
    engine.read_back()
    assert engine.log.state.loss is not None


def test_a_copy_that_was_left_closed_is_opened_before_anything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever offsets it is copied to by now: what is sent there would be refused, or parked."""
    left = ClosedCopy("east.orders", "C" * 22)
    known = (source_record("the east"), left.record())
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=known)

    def opened(_: object, copies: Iterable[ClosedCopy]) -> Opened:
        assert not engine.runtime.is_known
        return Opened([each.no_record() for each in copies], {})

    monkeypatch.setattr(flow_control, "open_again", opened)
    engine.read_back()
    assert (engine.log.state.closed, engine.runtime.is_known) == ({}, True)


def test_while_the_source_does_not_answer_the_flow_is_taken_over_by_what_the_target_has_on_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that it can be paused; where nothing says whose records these are, the source alone could."""
    for known, is_known in (((source_record("the east"),), True), ((), False)):
        engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=known)
        engine.control._source = None
        monkeypatch.setattr(flow_control, "read_traces", None)
        engine.read_back()
        assert engine.runtime.is_known is is_known
        assert engine.control._is_known_without_source is is_known
        assert engine.producers.taken == int(is_known), "each time it is taken an epoch of the producer is used up"


def test_that_the_source_is_another_cluster_than_before_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=[source_record("the lost east")])
    engine.read_back()
    assert (engine.log.state.source_id, engine.log.state.former_sources) == ("the east", ("the lost east",))


def test_positions_that_were_read_without_the_source_are_not_taken_once_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Java MirrorMaker has left there is unknown to them."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=[source_record("the east")])
    found, engine.control._source = engine.control._source, None
    poll = engine.log.poll

    def answer() -> FlowState:
        engine.control._source = found
        return poll()

    monkeypatch.setattr(engine.control, "_lacking", lambda *_: engine.log.__setattr__("poll", answer) or [])
    engine.read_back()
    assert not engine.runtime.is_known


@pytest.mark.parametrize("positions", [(), (Position(3, 3, 0, True).record(ORDERS),)], ids=["none", "of its tasks"])
def test_what_was_lost_is_told_too_by_who_comes_after_one_that_was_killed_while_it_took_the_producer(
    positions: Sequence[StateRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then there are writers, as if the positions were of an older version: it is on record before."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=positions, copied=3)
    engine.producers.take_fails = True
    assert not engine.control._keep_known(cast(Any, engine.log), cast(Any, engine.log)).is_ok
    assert engine.log.state.loss is not None
    left = [*positions, *engine.log.written, writer_record(7, 1), DataProducer(7, 0, "id").record()]
    for _ in range(2):
        after = Engine(monkeypatch, held=TakenProducers(producer=USED), known=left, copied=3)
        after.read_back()
        assert after.runtime.loss == engine.log.state.loss.reason
        assert after.log.state.loss == engine.log.state.loss
        assert after.log.state.unsettled == {ORDERS for _ in positions}
        assert after.log.state.source_id == "the east"


@pytest.mark.parametrize("lines", [(), (TRANSACTIONS,)], ids=["one producer", "transactions"])
def test_that_the_cluster_knows_the_flows_producer_is_on_record_as_a_loss_before_it_is_asked_for(
    lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes after one that was killed at that could not tell who was the first to ask for it."""
    engine = Engine(monkeypatch, UNCHANGED, *lines, held=TakenProducers(producer=NEW), copied=5)
    engine.producers.is_known_to_cluster = engine.producers.take_fails = True
    assert not engine.control._keep_known(cast(Any, engine.log), cast(Any, engine.log)).is_ok
    left = [*engine.log.written, producer_asked_for_record("id"), transactional_id_record("east-0", 5)]
    after = Engine(monkeypatch, UNCHANGED, *lines, held=TakenProducers(producer=USED), known=left, copied=5)
    after.read_back()
    assert after.runtime.loss is not None
    assert "the flow has run before" in after.runtime.loss


@pytest.mark.parametrize("known", [(), (source_record("the east"),)], ids=["of nobody", "of this flow"])
def test_nothing_is_written_beside_into_a_state_of_which_it_is_not_known_what_was_lost(
    known: Sequence[StateRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow that has one is kept up also while its producer is not to be had."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=known)
    engine.producers.take_fails = True
    assert not engine.control._keep_known(cast(Any, engine.log), cast(Any, engine.log)).is_ok
    assert engine.control._may_keep_up.is_set() is bool(known)
    engine.producers.take_fails = False
    engine.read_back()
    assert engine.control._may_keep_up.is_set()


@pytest.mark.parametrize("copy_trouble", [None, "the last epoch failed"])
def test_in_transactions_nothing_is_certain_of_a_state_that_was_lost_with_an_epoch(
    monkeypatch: pytest.MonkeyPatch, copy_trouble: str | None
) -> None:
    """What that epoch had committed was recorded in the topic that is gone; no tail tells of it."""
    engine = Engine(
        monkeypatch, TRANSACTIONS, held=TakenProducers((("east-0", NEW),)), known=[source_record("the east")]
    )
    engine.log.takes(Position(5, 5, 0, True).record(ORDERS))
    engine.log.loss = "deleted and created anew"
    engine.runtime.copy_trouble = copy_trouble
    engine.read_back()
    assert engine.log.state.loss is not None
    assert engine.log.state.loss.are_tails_unknown is (copy_trouble is not None)


def test_nothing_is_read_back_while_the_leader_before_may_write_what_nothing_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=[source_record("the east")])
    engine.runtime.lead(TERM, was_settled=False, lease=Lease(600.0))
    engine.producers.unrefused = DataProducer(6, 1)
    engine.read_back()
    assert not engine.runtime.is_known
    engine.runtime.lease = Lease(0.0)
    engine.runtime.tasks_write_until = steady_seconds() + 600
    engine.read_back()
    assert not engine.runtime.is_known, "a task of an epoch that failed may"
    engine.runtime.tasks_write_until = 0.0
    engine.read_back()
    assert engine.runtime.is_known
    assert engine.producers.taken == 1, "each time it is taken an epoch of the producer is used up"


@pytest.mark.parametrize("was_settled", [True, False])
def test_behind_a_clean_stop_there_is_nothing_to_be_refused(
    monkeypatch: pytest.MonkeyPatch, *, was_settled: bool
) -> None:
    """Nor is there later in the term, when an epoch has failed and the clean stop does not count any more."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=[source_record("the east")])
    engine.runtime.lead(TERM, was_settled=was_settled)
    engine.runtime.lease = Lease(0.0)
    engine.producers.unrefused = former = DataProducer(6, 1)
    engine.read_back()
    assert engine.runtime.is_known
    assert engine.producers.unrefused == (None if was_settled else former)


@pytest.mark.parametrize("meanwhile", ["another engine leads", "another term has begun", "other topics are chosen"])
def test_positions_that_are_past_by_the_time_they_are_read_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW), known=[source_record("the east")])

    def happens(*_: object) -> list[StateRecord]:
        match meanwhile:
            case "another engine leads":
                engine.log.to_come.append(claim_record(Claim("another", TERM + 1)))
            case "another term has begun":
                # Its claim is not in the log as it was read here.
                engine.runtime.stand_by()
                engine.runtime.lead(TERM + 2, was_settled=False)
            case _:
                engine.runtime.take_settings(replace(engine.runtime.settings))
        return []

    with monkeypatch.context() as while_reading:
        while_reading.setattr(engine.control, "_lacking", happens)
        engine.read_back()
    assert not engine.runtime.is_known
    if meanwhile == "other topics are chosen":
        engine.read_back()
        assert engine.runtime.is_known


def test_before_a_copy_is_fenced_it_is_asked_whether_anything_lies_behind_its_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind the fence the target does not tell any more."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=USED), known=[source_record("the east")])
    engine.log.takes(Position(5, 5, 0, True, target="east.orders", next_batch=NextBatch(7, 3, 5)).record(ORDERS))
    engine.read_back()
    assert engine.control._fence(cast(Any, engine.log)).is_ok
    copy = TopicPartition("east.orders", 0)
    assert engine.producers.done == [f"asked about {[copy]}", f"fenced {[copy]}"]
    assert engine.runtime.handovers[ORDERS].foreign_until == ForeignUntil(40, 2)
    assert engine.runtime.to_fence() == frozenset()


def test_a_producer_that_was_obtained_after_the_successors_is_not_written_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its epoch may be the higher one: the successor's requests would be refused for it."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=NEW))
    before = engine.runtime.writing
    engine.producers.before_next = lambda: engine.log.to_come.append(claim_record(Claim("another", TERM + 1)))
    assert not engine.control._take_next_producer(cast(Any, engine.log))
    assert engine.runtime.writing == before
    alone = Engine(monkeypatch, held=TakenProducers(producer=NEW))
    assert alone.control._take_next_producer(cast(Any, alone.log))
    assert alone.runtime.writing.producer == alone.producers.next


def test_a_copy_with_the_source_s_offsets_that_could_not_be_fenced_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is fenced by its own producer, which the flow's does not stand for."""
    engine = Engine(monkeypatch, held=TakenProducers(producer=USED), known=[source_record("the east")])
    engine.log.takes(Position(5, 5, 0, True, target="east.orders", next_batch=NextBatch(7, 3, 5)).record(ORDERS))
    engine.read_back()
    copy = TopicPartition("east.orders", 0)
    troubles = {copy: "no leader"}
    monkeypatch.setattr(flow_control, "fence_same_offsets", lambda _, asked: {each: troubles[each] for each in asked})
    assert engine.control._fence(cast(Any, engine.log)).is_ok
    assert engine.runtime.to_fence() == {copy}
