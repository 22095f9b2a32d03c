"""Which transactional ids an engine takes over before it reads positions, and with which ones it goes on to write."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import kafka.errors
import pytest

from mirror.config.settings import TransactionSettings
from mirror.engine import flow_producers
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.batch import Producer
from mirror.kafka.channel import LATEST, View
from mirror.kafka.coordinator import Unended
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord, term_of
from mirror.model.state_values import (
    DataProducer,
    WrittenAs,
    producer_asked_for_record,
    source_record,
    transactional_id_record,
    writer_record,
)
from tests.flows import EAST_WEST

SICK, FINE = (TopicPartition(name, 0) for name in ("east.sick", "east.fine"))
STATE = TopicPartition("mm2-state.east.internal", 0)
DATA_ID = "mm2-state.east.internal.west"
TWO_TASKS = TransactionSettings("east-", 1, 60_000, 1.0, None)


class Target:
    """The target cluster: its transaction coordinator, and the state topic of the flow.

    Attributes
    ----------
    asked
        which transactional ids were taken over, in order, and for how long an answer was waited for.
    last
        the last transaction of an id, where it has not ended.
    decided_after
        how often the end of what is committed is asked for before all transactions in the state topic have ended.
    from_other_flows
        what another engine has written there in such a transaction.
    """

    def __init__(self, *known: StateRecord, **last: Unended) -> None:
        self.state = FlowState()
        for key, value in known:
            self.state.apply(key, value)
        self.last = {name.replace("_", "-"): transaction for name, transaction in last.items()}
        self.asked: list[tuple[str, object]] = []
        self.written: list[StateRecord] = []
        self.terms: set[int | None] = set()
        self.decided_after = 0
        self.from_other_flows: list[StateRecord] = []
        self.open_channels = self.connections = 0
        self.taken: Producer | BrokerRefused = Producer(7, 0)
        self._epochs: dict[str, int] = {}
        self.javas = {"east-0"}

    def connect(self, *_: object, **__: object) -> Target:
        self.open_channels += 1
        self.connections += 1
        return self

    def close(self) -> None:
        self.open_channels -= 1

    def append(self, topic: str, partition: int, records: Sequence[Any]) -> None:
        assert TopicPartition(topic, partition) == STATE
        assert records, "there is nothing to say"
        for key, value, headers, _ in records:
            self.written.append((key, value))
            self.terms.add(term_of(headers))

    def offsets(self, partitions: list[TopicPartition], where: int, view: View | None = None) -> Mapping[Any, int]:
        assert (partitions, where) == ([STATE], LATEST)
        if view is View.STABLE:
            self.decided_after -= 1
        return {STATE: 5 if view is View.STABLE and not self.is_decided else 9}

    @property
    def is_decided(self) -> bool:
        return self.decided_after < 0

    def poll(self) -> FlowState:
        seen = [*self.written, *(self.from_other_flows if self.is_decided else ())]
        for key, value in seen:
            self.state.apply(key, value)
        return self.state

    def take_over(self, _: object, transactional_id: str, timeout_ms: int, **how: Any) -> Producer:
        said = transactional_id_record(transactional_id, 0)[0]
        if not how.get("writes_transactions", True):
            if isinstance(self.taken, BrokerRefused):
                raise self.taken
            return self.taken
        assert timeout_ms == TWO_TASKS.timeout_ms
        is_known = transactional_id in self.state.transactional_ids | self.javas
        assert is_known or said in dict(self.written), "who takes the flow over next must know of it"
        self.asked.append((transactional_id, how.get("patience_seconds")))
        if transactional_id in self.last:
            raise BrokerRefused("west: the transactional id", kafka.errors.ConcurrentTransactionsError)
        self._epochs[transactional_id] = epoch = self._epochs.get(transactional_id, -1) + 1
        return Producer(id_of(transactional_id), epoch, is_transactional=True)

    def new_producer(self) -> Producer:
        return Producer(90, 0)

    def has_topic(self, _: str) -> bool:
        return True

    def undecided(self, _: object, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        return {each for each in partitions if any(each in last.partitions for last in self.last.values())}

    def unended(self, _: object, transactional_id: str) -> Unended | None:
        return self.last.get(transactional_id)


def id_of(transactional_id: str) -> int:
    """Return the producer id that the coordinator gives for a transactional id."""
    return 100 + sum(transactional_id.encode())


class Engine:
    """An engine with two tasks that takes the flow's transactional ids."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, target: Target, transactions: TransactionSettings | None = TWO_TASKS
    ) -> None:
        self.target = target
        self.producers = FlowProducers(EAST_WEST, {}, transactions, slots=2)
        monkeypatch.setattr(flow_producers, "Channel", target.connect)
        monkeypatch.setattr(flow_producers, "LogWriter", target.connect)
        monkeypatch.setattr(flow_producers.coordinator, "take_over", target.take_over)
        monkeypatch.setattr(flow_producers.coordinator, "unended", target.unended)
        monkeypatch.setattr(flow_producers.coordinator, "last_written_as", lambda *_: None)
        monkeypatch.setattr(flow_producers.coordinator, "abort_empty", lambda *_: {})
        monkeypatch.setattr(flow_producers.partition_state, "unable_to_append", lambda *_: {})
        monkeypatch.setattr(flow_producers.partition_state, "undecided", target.undecided)

    def take(self, term: int = 4, **given_up: Producer) -> TakenProducers:
        names = {name.replace("_", "-"): producer for name, producer in given_up.items()}
        held = self.producers.take(cast(Any, self.target), term, names)
        assert self.target.open_channels == 0
        return held

    def names(self, **given_up: Producer) -> list[str]:
        return [name for name, _ in self.take(**given_up).slots]


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(monkeypatch, getattr(request, "param", None) or Target())


def test_each_task_writes_with_an_id_of_its_own_that_is_on_record_before_it_is_used(engine: Engine) -> None:
    held = engine.take()
    assert [(name, producer.producer_id) for name, producer in held.slots] == [
        ("east-0", id_of("east-0")),
        ("east-1", id_of("east-1")),
    ]
    assert (held.producer, held.is_first) == (None, False), "nothing was ever written outside of transactions"
    assert engine.target.asked == [("east-0", None), ("east-1", None)]
    assert engine.target.state.transactional_ids == {"east-0", "east-1"}
    assert engine.target.terms == {4}
    state = engine.target.poll()
    assert state.writers == {id_of("east-0"), id_of("east-1")}
    assert state.written_as == {each: WrittenAs(id_of(each), 0, 4) for each in ("east-0", "east-1")}
    engine.target.written.clear()
    engine.take()
    assert [key for key, _ in engine.target.written] == [
        transactional_id_record(each, 0)[0] for each in ("east-0", "east-1")
    ], "a writer is on record once, and so is an id; as whom it is written is, each time"
    assert engine.target.poll().written_as == {each: WrittenAs(id_of(each), 1, 4) for each in ("east-0", "east-1")}


def test_every_id_is_taken_over_that_java_or_an_engine_before_may_have_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier engine may have had more tasks, or another prefix; Java's are known by their number alone."""
    known = [transactional_id_record(each, 0) for each in ("east-0", "former-5")]
    many = TransactionSettings("east-", 4, 60_000, 1.0, None)
    engine = Engine(monkeypatch, Target(*known), many)
    engine.target.javas = {"east-0", "east-1", "east-2", "east-3"}
    assert engine.names() == ["east-0", "east-1"]
    assert sorted(engine.target.asked) == [
        (each, None) for each in ("east-0", "east-1", "east-2", "east-3", "former-5")
    ]


def test_an_id_that_another_engine_registers_meanwhile_is_taken_over_too(engine: Engine) -> None:
    """What it wrote in a transaction is read only once that is decided."""
    engine.target.from_other_flows = [transactional_id_record("east-7", 0)]
    engine.target.decided_after = 2
    assert engine.names() == ["east-0", "east-1"]
    assert [name for name, _ in engine.target.asked] == ["east-0", "east-1", "east-7"]


def test_a_flow_is_not_taken_while_somebodys_transaction_in_its_state_does_not_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_producers, "_DECIDED_SECONDS", 0.05)
    engine.target.decided_after = 1000
    with pytest.raises(BrokerRefused, match=r"west: waited .* for the transactions in mm2-state.* to end"):
        engine.take()
    assert engine.target.open_channels == 0


@pytest.mark.parametrize("has_written", [False, True])
def test_without_transactions_only_ids_that_were_once_used_are_taken_over(
    monkeypatch: pytest.MonkeyPatch, *, has_written: bool
) -> None:
    engine = Engine(monkeypatch, Target(*[transactional_id_record("east-0", 0)] * has_written), None)
    held = engine.take()
    assert (held.slots, held.producer, held.is_first) == ((), Producer(7, 0), True)
    assert [name for name, _ in engine.target.asked] == ["east-0"] * has_written


def test_what_is_written_outside_of_transactions_goes_on_where_it_once_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such batches may still be on their way although the flow is written in transactions now."""
    held = Engine(monkeypatch, Target(DataProducer(7, 3, "id").record())).take()
    assert [name for name, _ in held.slots] == ["east-0", "east-1"]
    assert (held.producer, held.is_first) == (Producer(7, 0), False)


@pytest.mark.parametrize("transactions", [TWO_TASKS, None])
@pytest.mark.parametrize(
    ("known", "epoch", "was_used_before"),
    [
        ((), 0, False),
        ((), 4, True),
        # An engine was killed right after it had taken the ids, before it had said what was lost.
        ((DataProducer(7, 3, "id").record(),), 4, True),
        ((transactional_id_record("east-0", 0),), 4, True),
        ((writer_record(7, 1),), 4, True),
        ((writer_record(7, 1), source_record("the id of east")), 4, False),
        ((writer_record(7, 1), Position(3, 3, 0, True).record(TopicPartition("orders", 0))), 4, False),
    ],
)
def test_a_producer_that_the_cluster_knows_and_the_state_topic_does_not_tells_of_a_state_that_is_lost(
    transactions: TransactionSettings | None,
    known: tuple[StateRecord, ...],
    epoch: int,
    was_used_before: bool,  # as in the table above
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(*known)
    target.taken, target._epochs = Producer(7, epoch), dict.fromkeys(("east-0", "east-1"), epoch - 1)
    assert Engine(monkeypatch, target, transactions).take().was_used_before is was_used_before


@pytest.mark.parametrize(
    ("transactions", "asked"), [(TWO_TASKS, ["east-0", "east-1", DATA_ID]), (None, [DATA_ID])], ids=["tasks", "one"]
)
def test_the_cluster_is_asked_for_the_flows_ids_before_anybody_can_have_asked_for_them_since(
    transactions: TransactionSettings | None, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not any more once an engine was about to: it may have been given them, and nothing be lost."""
    found: list[str] = []
    answers: dict[str, bool | None] = {DATA_ID: True}

    def is_known(_: object, name: str, **__: object) -> bool | None:
        found.append(name)
        return answers.get(name)

    monkeypatch.setattr(flow_producers.coordinator, "is_known", is_known)
    target = Target()
    engine = Engine(monkeypatch, target, transactions)
    assert engine.producers.was_given(target.state)
    assert (found, target.open_channels) == (asked, 0)
    for answer in (False, None):
        answers[DATA_ID] = answer
        assert not engine.producers.was_given(target.state)
    answers[DATA_ID] = True
    for known in (
        producer_asked_for_record(DATA_ID),
        transactional_id_record("east-0", 0),
        writer_record(7, 1),
        source_record("the id of east"),
        Position(3, 3, 0, True).record(TopicPartition("orders", 0)),
    ):
        assert not Engine(monkeypatch, target, transactions).producers.was_given(Target(known).state)
    engine.take()
    assert not engine.producers.was_given(FlowState()), "by this engine"


def test_that_a_producer_was_used_before_is_told_until_the_flow_has_a_state_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in another term, where it could not be found out in this one what that means."""
    target = Target()
    target.taken = Producer(7, 4)
    engine = Engine(monkeypatch, target, None)
    assert engine.take().was_used_before
    target.poll()
    assert engine.take(term=5).was_used_before
    target.state.apply(*source_record("the id of east"))
    assert not engine.take(term=5).was_used_before


def test_an_epoch_that_this_engine_may_have_raised_itself_tells_of_nobody_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer to its first request was lost."""
    target = Target()
    engine = Engine(monkeypatch, target, None)
    monkeypatch.setattr(flow_producers.coordinator, "take_over", unanswered)
    with pytest.raises(ConnectionFailed):
        engine.take()
    monkeypatch.setattr(flow_producers.coordinator, "take_over", target.take_over)
    target.taken = Producer(7, 1)
    assert not engine.take().was_used_before


def test_a_new_flow_whose_first_engine_was_killed_has_no_other_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(writer_record(7, 1))
    target.taken = Producer(7, 1)
    assert not Engine(monkeypatch, target, None).take(term=2).was_used_before


def test_nor_has_one_whose_first_engine_was_killed_before_it_could_write_down_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That it was about to ask is on record. Of a flow whose state was lost the cluster counts more than that."""
    for epoch, was_used_before in ((0, False), (1, True), (4, True)):
        target = Target()
        monkeypatch.setattr(flow_producers.coordinator, "take_over", unanswered)
        first = Engine(monkeypatch, target, None)
        monkeypatch.setattr(flow_producers.coordinator, "take_over", unanswered)
        with pytest.raises(ConnectionFailed):
            first.take(term=1)
        target.taken = Producer(7, epoch + 1)
        target.poll()
        assert Engine(monkeypatch, target, None).take(term=2).was_used_before is was_used_before


def unanswered(*_: object, **__: object) -> Producer:
    raise ConnectionFailed("west does not answer")


def stuck(*partitions: TopicPartition) -> Unended:
    return Unended(id_of("east-0"), 3, frozenset(partitions or {SICK}))


BEFORE = Producer(id_of("east-0"), 3, is_transactional=True)


def test_the_id_of_a_task_that_came_back_gives_place_to_another_while_its_last_transaction_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That is on record, so that an engine that leads next does the same; and so that it ends once the marker is in."""
    engine = Engine(monkeypatch, Target(east_0=stuck()))
    held = engine.take(east_0=BEFORE)
    assert [name for name, _ in held.slots] == ["east-1", "east-2"]
    assert held.unended == {SICK}
    assert dict(engine.target.asked)["east-0"] == flow_producers._ENDING_SECONDS
    engine.target.poll()
    assert engine.target.state.unended == {"east-0": (BEFORE.producer_id, 3)}
    assert engine.target.state.transactional_ids == {"east-0", "east-1", "east-2"}

    following = Engine(monkeypatch, engine.target)
    assert following.names() == ["east-1", "east-2"]
    assert engine.target.poll().unended == {"east-0": (BEFORE.producer_id, 3)}, "it stays on record"
    assert following.producers.fence({SICK}) == {
        SICK: "the last transaction of east-0 has not ended there: its replicas take no marker"
    }
    engine.target.last.clear()
    engine.target.written.clear()
    assert following.producers.fence({SICK}) == {}
    assert engine.target.terms == {4}
    engine.target.poll()
    assert engine.target.state.unended == {}
    assert following.names() == ["east-0", "east-1"]


def test_a_transaction_that_has_ended_by_the_next_time_is_taken_from_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = transactional_id_record("east-0", 0, (BEFORE.producer_id, 3)), transactional_id_record("other", 0, (1, 1))
    target = Target(*known, other=Unended(1, 1, frozenset()))
    engine = Engine(monkeypatch, target)
    held = engine.take()
    assert [name for name, _ in held.slots] == ["east-1", "east-2"], "until it is known that it has ended"
    target.poll()
    assert target.state.unended == {"other": (1, 1)}
    assert engine.names() == ["east-0", "east-1"]


@pytest.mark.parametrize("given_up", [{}, {"east_0": Producer(7, 7)}, {"east_1": BEFORE}])
def test_an_id_that_somebody_may_still_write_with_is_waited_for(
    given_up: Mapping[str, Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(monkeypatch, Target(east_0=stuck()))
    with pytest.raises(BrokerRefused):
        engine.take(**given_up)
    assert engine.target.asked[0] == ("east-0", flow_producers._ENDING_SECONDS if "east_0" in given_up else None)
    assert engine.target.open_channels == 0
    assert engine.target.state.unended == {}


def test_each_time_it_is_seen_anew_which_transactions_have_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, Target(east_0=stuck()))
    assert engine.take(east_0=BEFORE).unended == {SICK}
    engine.target.poll()
    engine.target.last.clear()
    assert engine.take().unended == frozenset()


def test_the_partitions_that_have_the_marker_meanwhile_are_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(monkeypatch, Target(east_0=stuck(SICK, FINE)))
    assert engine.take(east_0=BEFORE).unended == {SICK, FINE}
    engine.target.last["east-0"] = stuck(SICK)
    assert engine.producers.fence({SICK, FINE}).keys() == {SICK}


def test_where_nothing_is_to_be_fenced_nobody_is_asked(engine: Engine) -> None:
    assert engine.producers.fence(set()) == {}
    assert engine.target.connections == 0


DENIED = BrokerRefused("the transactional id", kafka.errors.TransactionalIdAuthorizationFailedError)


def test_once_the_cluster_gives_the_id_it_is_no_weakness_any_more_that_it_did_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer is on record when the flow is taken, so that the next one begins where this one ended."""
    target = Target()
    engine = Engine(monkeypatch, target, None)
    target.taken = DENIED
    assert engine.take().producer == Producer(90, 0)
    assert (engine.producers.weakness is None, engine.producers.unrefused) == (False, None)
    assert target.state.producer == DataProducer(90, 0)
    assert engine.take().producer == Producer(90, 1)
    assert engine.producers.unrefused == DataProducer(90, 0)
    target.taken = Producer(7, 4)
    assert engine.producers.next_producer(4) == Producer(7, 4)
    assert (engine.producers.weakness, target.open_channels) == (None, 0)
    target.poll()
    target.taken = Producer(7, 5)
    assert engine.take(term=5).producer == Producer(7, 5)
    assert (engine.producers.weakness, engine.producers.note, engine.producers.unrefused) == (None, None, None)


def test_what_was_sent_with_another_producer_id_is_not_refused_whenever_the_id_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while the engine leads, and for as long: an epoch that fails has the producer taken once more."""
    target = Target()
    engine = Engine(monkeypatch, target, None)
    target.taken = DENIED
    engine.take()
    assert engine.producers.unrefused is None
    target.taken = Producer(7, 4)
    engine.producers.next_producer(4)
    target.poll()
    target.taken = Producer(7, 5)
    for take in (lambda: None, lambda: engine.producers.next_producer(4), engine.take):
        take()
        target.poll()
        assert engine.producers.unrefused == DataProducer(90, 0)
        assert engine.producers.note is not None
        assert "former producer id 90" in engine.producers.note


def test_whether_this_engine_alone_has_sent_what_is_not_refused_is_known_for_its_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only of an id that it was the first to have."""
    for known, is_own in ((None, True), (DataProducer(80, 3), False)):
        target = Target(*([known.record()] if known is not None else []))
        engine = Engine(monkeypatch, target, None)
        target.taken = DENIED
        engine.take()
        target.poll()
        target.taken = Producer(7, 4)
        engine.take()
        assert engine.producers.unrefused is not None
        assert engine.producers.has_sent_unrefused is is_own
    target.poll()
    engine.take(term=5)
    assert not engine.producers.has_sent_unrefused


def test_what_the_engine_before_sent_as_another_is_not_refused_after_an_epoch_that_failed_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(DataProducer(80, 3).record())
    engine = Engine(monkeypatch, target, None)
    for epoch in (4, 5):
        target.taken = Producer(7, epoch)
        engine.take()
        target.poll()
        assert engine.producers.unrefused == DataProducer(80, 3)
        assert engine.producers.note is not None
    target.taken = DENIED
    engine.take()
    assert engine.producers.unrefused == DataProducer(80, 3), "no batch of any later producer refuses that"
    assert engine.producers.weakness is not None


def test_a_partition_whose_leader_knows_no_epoch_of_the_producer_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(monkeypatch, Target(), None)
    monkeypatch.setattr(flow_producers.coordinator, "abort_empty", lambda *_: {SICK: "the marker is not there yet"})
    monkeypatch.setattr(flow_producers.partition_state, "producer_epochs", lambda *_: {})
    assert engine.take().is_first
    assert engine.producers.fence({SICK, FINE}) == {SICK: "the marker is not there yet"}
