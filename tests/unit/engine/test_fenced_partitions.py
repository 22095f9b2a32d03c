"""Which partitions refuse what an engine before has sent: those that say so, or are seen to know the new epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.copier.work import ForeignUntil
from mirror.engine import flow_producers, known_producers
from mirror.engine.flow_producers import FlowProducers
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import LARGEST_SEQUENCE, Producer
from mirror.kafka.channel import LATEST, View
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import StateRecord, term_of
from mirror.model.state_values import DataProducer
from tests.flows import EAST_WEST

FINE, SICK, BUSY, KNOWS, GONE = (TopicPartition(name, 0) for name in ("fine", "sick", "busy", "knows", "gone"))


class Target:
    """The target cluster: who may be fenced where, the transaction coordinator, and the state topic."""

    def __init__(self, taken: Producer | BrokerRefused) -> None:
        self.taken = taken
        self.written: list[tuple[StateRecord, int | None]] = []
        self.aborted: list[TopicPartition] = []
        self.asked: list[set[TopicPartition]] = []

    def has_topic(self, topic: str) -> bool:
        return topic != "gone"

    def new_producer(self) -> Producer:
        return Producer(90, 0)

    def find_offsets(
        self, wanted: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> PartitionAnswers[int]:
        assert (at, view) == (LATEST, View.VISIBLE), "what is replicated stays"
        self.asked.append(set(wanted))
        return PartitionAnswers(dict.fromkeys(wanted, 20))

    def leader_epoch(self, _: TopicPartition) -> int:
        return 3

    def close(self) -> None:
        """Nothing is open."""

    def take_over(self, *_: object, **how: object) -> Producer:
        assert how["writes_transactions"] is False
        if isinstance(self.taken, BrokerRefused):
            raise self.taken
        return self.taken

    def unable_to_append(self, _: object, partitions: Set[TopicPartition]) -> dict[TopicPartition, str]:
        return dict.fromkeys({SICK} & partitions, "it has no leader")

    def abort_empty(
        self, _: object, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, str]:
        assert (transactional_id, producer) == ("mm2-state.east.internal.west", self.taken)
        self.aborted = sorted(partitions)
        return {each: "the marker is not there yet" for each in partitions if each != FINE}

    def producer_epochs(self, _: object, partitions: Iterable[TopicPartition], producer_id: int) -> Mapping[Any, int]:
        assert producer_id == 7
        known = {KNOWS: 5, BUSY: 4, SICK: 4}
        return {each: known[each] for each in partitions if each in known}

    def append(self, topic: str, partition: int, records: Iterable[Any]) -> None:
        assert (topic, partition) == ("mm2-state.east.internal", 0)
        self.written += [((key, value), term_of(headers)) for key, value, headers, _ in records]


def leading(
    monkeypatch: pytest.MonkeyPatch, taken: Producer | BrokerRefused, known: DataProducer | None = None
) -> tuple[FlowProducers, Target, flow_producers.TakenProducers]:
    """An engine that has taken the producer of a flow without transactions in term 3."""
    target = Target(taken)
    monkeypatch.setattr(flow_producers, "Channel", lambda *_: target)
    monkeypatch.setattr(flow_producers, "LogWriter", lambda *_, **__: target)
    monkeypatch.setattr(flow_producers.coordinator, "take_over", target.take_over)
    monkeypatch.setattr(flow_producers.coordinator, "abort_empty", target.abort_empty)
    monkeypatch.setattr(flow_producers.partition_state, "unable_to_append", target.unable_to_append)
    monkeypatch.setattr(flow_producers.partition_state, "producer_epochs", target.producer_epochs)
    state = FlowState()
    if known is not None:
        state.apply(*known.record())
    found = FlowProducers(EAST_WEST, {}, None, slots=2)
    return found, target, found.take(cast(Any, SimpleNamespace(state=state, poll=lambda: state)), 3)


WROTE = NextBatch(7, 4, 10)
UP_TO_THEN = ActiveProducer(7, 4, 9, 0)


@pytest.mark.parametrize(
    ("active", "expected", "is_known"),
    [
        ([UP_TO_THEN], WROTE, True),
        ([UP_TO_THEN, ActiveProducer(55, 0, 3, 0)], WROTE, True),
        ([replace(UP_TO_THEN, last_sequence=-1)], NextBatch(7, 4, 0), True),
        ([replace(UP_TO_THEN, last_sequence=10)], WROTE, False),
        ([replace(UP_TO_THEN, epoch=5, last_sequence=-1)], WROTE, False),
        ([replace(UP_TO_THEN, last_sequence=LARGEST_SEQUENCE)], NextBatch(7, 4, 0), False),
        ([], WROTE, False),
        ([UP_TO_THEN, ActiveProducer(6, 0, 3, 0)], WROTE, False),
        ([ActiveProducer(6, 4, 9, 0)], NextBatch(6, 4, 10), False),
        (None, WROTE, False),
    ],
    ids=[
        "nothing since",
        "others since",
        "fenced, and nothing written",
        "more since",
        "fenced since, so that sequences are not known",
        "sequences began again",
        "forgotten",
        "with another id before, or since",
        "as another than was on record last",
        "a broker that does not tell",
    ],
)
def test_nothing_of_the_flow_lies_behind_a_position_where_the_leader_knows_its_last_batch(
    active: list[ActiveProducer] | None, expected: NextBatch, *, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is asked for before: what arrives in between is among what the leader knows, or lies behind the end."""
    is_own_id = all(each.producer_id != 6 for each in active or ())
    writers = {7} if is_own_id else {6, 7}
    held, target, _ = leading(monkeypatch, Producer(7, 5), DataProducer(7, 4, "id" if is_own_id else None))
    told = {} if active is None else {FINE: tuple(active)}

    def active_producers(_: object, asked: Iterable[TopicPartition]) -> PartitionAnswers[Any]:
        assert target.asked == [{FINE, KNOWS}]
        assert set(asked) == {FINE}, "behind the other nothing lies"
        return PartitionAnswers(told)

    monkeypatch.setattr(flow_producers.partition_state, "active_producers", active_producers)
    behind = Position(10, 10, 0, True, next_batch=expected)
    at_end = Position(10, 20, 0, True, next_batch=expected)
    found = held.foreign_until({FINE: behind, KNOWS: at_end, BUSY: replace(behind, next_batch=None)}, writers)
    assert found == ({FINE: ForeignUntil(20, 3)} if is_known else {})


def test_as_whom_it_was_written_until_an_engine_took_the_next_epoch_is_what_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, target, _ = leading(monkeypatch, Producer(7, 5), DataProducer(6, 4))
    monkeypatch.setattr(
        flow_producers.partition_state, "active_producers", lambda *_: PartitionAnswers({FINE: (UP_TO_THEN,)})
    )
    behind = Position(10, 10, 0, True, next_batch=WROTE)
    assert held.foreign_until({FINE: behind}, {7}) == {}
    target.taken = Producer(7, 6)
    held.next_producer(3)
    assert held.foreign_until({FINE: behind}, {7}) == {FINE: ForeignUntil(20, 3)}


@pytest.mark.parametrize(("transactional_id", "is_known"), [("id", False), (None, True)])
def test_where_the_id_is_given_again_another_that_has_written_in_between_may_be_forgotten(
    monkeypatch: pytest.MonkeyPatch, transactional_id: str | None, *, is_known: bool
) -> None:
    """The id is P, then Q without the right to it, then P once more; brokers forget Q by the times of its records."""
    held, _, _ = leading(monkeypatch, Producer(7, 5), DataProducer(7, 4, transactional_id))
    monkeypatch.setattr(
        flow_producers.partition_state, "active_producers", lambda *_: PartitionAnswers({FINE: (UP_TO_THEN,)})
    )
    found = held.foreign_until({FINE: Position(10, 10, 0, True, next_batch=WROTE)}, {6, 7})
    assert found == ({FINE: ForeignUntil(20, 3)} if is_known else {})


def test_what_another_leader_knows_than_the_one_that_told_the_end_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By metadata of a broker that is cut off it is the one of before, which does not know what was written since."""
    held, target, _ = leading(monkeypatch, Producer(7, 5), DataProducer(7, 4, "id"))

    def cut_off(*_: object) -> PartitionAnswers[Any]:
        monkeypatch.setattr(target, "leader_epoch", lambda _: 2)
        return PartitionAnswers({FINE: (UP_TO_THEN,)})

    monkeypatch.setattr(flow_producers.partition_state, "active_producers", cut_off)
    assert held.foreign_until({FINE: Position(10, 10, 0, True, next_batch=WROTE)}, {7}) == {}


def test_a_leader_that_cannot_be_asked_who_has_written_does_not_keep_others_from_being_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, _, _ = leading(monkeypatch, Producer(7, 5), DataProducer(7, 4, "id"))

    def away(*_: object) -> None:
        raise ConnectionFailed("west: timed out", "west")

    monkeypatch.setattr(flow_producers.partition_state, "active_producers", away)
    assert held.foreign_until({FINE: Position(10, 10, 0, True, next_batch=WROTE)}, {7}) == {}


DENIED = BrokerRefused("the transactional id", kafka.errors.TransactionalIdAuthorizationFailedError)


def test_a_partition_is_fenced_if_its_marker_is_there_or_its_leader_knows_the_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sick partition would keep the transaction open in all others."""
    held, target, _ = leading(monkeypatch, Producer(7, 5))
    assert held.fence({FINE, SICK, BUSY, KNOWS}) == {SICK: "it has no leader", BUSY: "the marker is not there yet"}
    assert target.aborted == sorted([FINE, BUSY, KNOWS])


def test_a_topic_that_is_gone_takes_nothing_late_once_a_broker_has_said_so_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that lags does not know a topic that was created a moment ago, to which a request may be on its way."""
    held, _, _ = leading(monkeypatch, Producer(7, 5))
    looks = [held.fence(each) for each in ({GONE, BUSY}, {GONE}, {BUSY}, {GONE})]
    assert [GONE in each for each in looks] == [True, False, False, True]


def test_without_an_id_that_can_be_fenced_nothing_is_tried_and_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    held, target, _ = leading(monkeypatch, DENIED)
    assert held.fence({FINE, SICK}) == {}
    assert target.aborted == []
    assert held.weakness is not None
    assert "noticed, not refused" in held.weakness


def test_the_producer_is_on_record_in_the_leaders_term_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    _, target, taken = leading(monkeypatch, Producer(7, 5))
    assert taken.producer == Producer(7, 5)
    assert {term for _, term in target.written} == {3}
    state = FlowState()
    for (key, value), _ in target.written:
        state.apply(key, value)
    assert (state.writers, state.producer) == ({7}, DataProducer(7, 5, "mm2-state.east.internal.west"))


@pytest.mark.parametrize(
    ("known", "taken", "is_first"),
    [
        (None, Producer(7, 0), True),
        (None, Producer(7, 1), False),
        (DataProducer(7, 0, "id"), Producer(7, 0), False),
    ],
)
def test_only_a_producer_that_nobody_has_had_is_the_first(
    monkeypatch: pytest.MonkeyPatch, known: DataProducer | None, taken: Producer, is_first: bool
) -> None:
    assert leading(monkeypatch, taken, known)[2].is_first is is_first


@pytest.mark.parametrize(
    ("known", "used"),
    [
        (None, Producer(90, 0)),
        (DataProducer(7, 3), Producer(7, 4)),
        (DataProducer(7, 3, "id"), Producer(90, 0)),
        (DataProducer(7, known_producers._LAST_EPOCH - 1), Producer(7, known_producers._LAST_EPOCH)),
        (DataProducer(7, known_producers._LAST_EPOCH), Producer(90, 0)),
    ],
)
def test_an_id_that_no_coordinator_gave_gets_its_next_epoch_from_this_engine_as_long_as_there_is_one(
    monkeypatch: pytest.MonkeyPatch, known: DataProducer | None, used: Producer
) -> None:
    """With the epochs of an id that a coordinator gives it alone knows which one is the next."""
    assert leading(monkeypatch, DENIED, known)[2].producer == used


def test_an_id_that_has_expired_is_told_and_a_known_writer_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, _, _ = leading(monkeypatch, Producer(7, 0), DataProducer(6, 4, "id"))
    assert held.note is not None
    assert "former producer id 6" in held.note
    same, target, _ = leading(monkeypatch, Producer(7, 5), DataProducer(7, 4, "id"))
    assert (same.note, same.weakness, len(target.written)) == (None, None, 1)


def test_each_lease_has_an_epoch_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    held, target, _ = leading(monkeypatch, DENIED, DataProducer(7, 3))
    assert held.next_producer(4) == Producer(7, 5)
    assert target.written[-1] == (DataProducer(7, 5).record(), 4)
