"""Which partitions refuse what an engine before has sent: those that say so, or are seen to know the new epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.engine import hold
from mirror.engine.hold import FlowHold
from mirror.kafka.batch import Producer
from mirror.kafka.channel import BrokerRefused
from mirror.model.flow_state import DataProducer, FlowState, StateRecord, term_of
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST

FINE, SICK, BUSY, KNOWS, GONE = (TopicPartition(name, 0) for name in ("fine", "sick", "busy", "knows", "gone"))


class Target:
    """The target cluster: who may be fenced where, the transaction coordinator, and the state topic."""

    def __init__(self, taken: Producer | BrokerRefused) -> None:
        self.taken = taken
        self.written: list[tuple[StateRecord, int | None]] = []
        self.aborted: list[TopicPartition] = []

    def has_topic(self, topic: str) -> bool:
        return topic != "gone"

    def new_producer(self) -> Producer:
        return Producer(90, 0)

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
) -> tuple[FlowHold, Target, hold.Held]:
    """An engine that has taken the producer of a flow without transactions in term 3."""
    target = Target(taken)
    monkeypatch.setattr(hold, "Channel", lambda *_: target)
    monkeypatch.setattr(hold, "LogWriter", lambda *_, **__: target)
    monkeypatch.setattr(hold.coordinator, "take_over", target.take_over)
    monkeypatch.setattr(hold.coordinator, "abort_empty", target.abort_empty)
    monkeypatch.setattr(hold.partition_state, "unable_to_append", target.unable_to_append)
    monkeypatch.setattr(hold.partition_state, "producer_epochs", target.producer_epochs)
    state = FlowState()
    if known is not None:
        state.apply(*known.record())
    found = FlowHold(EAST_WEST, {}, None, slots=2)
    return found, target, found.take(cast(Any, SimpleNamespace(state=state, poll=lambda: state)), 3)


DENIED = BrokerRefused("the transactional id", kafka.errors.TransactionalIdAuthorizationFailedError)


def test_a_partition_is_fenced_if_its_marker_is_there_or_its_leader_knows_the_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that is gone takes nothing late; a sick partition would keep the transaction open in all others."""
    held, target, _ = leading(monkeypatch, Producer(7, 5))
    assert held.fence({FINE, SICK, BUSY, KNOWS, GONE}) == {
        SICK: "it has no leader",
        BUSY: "the marker is not there yet",
    }
    assert target.aborted == sorted([FINE, BUSY, KNOWS, GONE])


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
        (DataProducer(7, hold._LAST_EPOCH - 1), Producer(7, hold._LAST_EPOCH)),
        (DataProducer(7, hold._LAST_EPOCH), Producer(90, 0)),
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
