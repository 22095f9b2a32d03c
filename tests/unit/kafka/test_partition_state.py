"""Which partitions could not append now, and which epoch of a producer their leaders know: by what brokers answer."""

from __future__ import annotations

from types import SimpleNamespace as Answer
from typing import Any, cast

import kafka.errors
import pytest

from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.partition_state import ActiveProducer, active_producers, producer_epochs, unable_to_append, undecided
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(6)]
# Of each partition: leader, replicas in sync, replicas.
STANDING = [(1, 3, 3), (-1, 3, 3), (0, 2, 3), (1, 1, 3), (1, 2, 2), (1, 1, 3)]


class Brokers:
    """In the place of a channel: what brokers answer, by kind of request."""

    def __init__(self, least: str | None = "2", *, is_told: bool = True) -> None:
        self.asked: list[str] = []
        self._least, self._is_told = least, is_told
        #: With which error the leader of a partition answers.
        self.codes: dict[TopicPartition, int] = {}
        #: The producers that the leader of each partition knows, by (id, epoch); None: it does not tell.
        self.producers: dict[TopicPartition, tuple[int, list[tuple[int, int]] | None]] = {}

    def call(self, request: Any, node: int | None = None) -> Answer:
        kind = type(request).__name__
        self.asked.append(kind)
        if kind.startswith("Metadata"):
            entries = [
                Answer(partition_index=number, leader_id=leader, isr_nodes=[0] * in_sync, replica_nodes=[0] * replicas)
                for number, (leader, in_sync, replicas) in enumerate(STANDING)
            ]
            return Answer(topics=[Answer(name="orders", partitions=entries)])
        if kind.startswith("DescribeConfigs"):
            entries = [Answer(name="min.insync.replicas", value=self._least)] if self._is_told else []
            return Answer(results=[Answer(resource_name="orders", error_code=0, configs=entries)])
        found = [
            Answer(
                partition_index=partition.partition,
                error_code=self.codes.get(partition, 0),
                active_producers=None
                if known is None
                else [
                    Answer(
                        producer_id=producer,
                        producer_epoch=epoch,
                        last_sequence=7,
                        last_timestamp=8,
                        current_txn_start_offset=epoch - 5,
                        coordinator_epoch=epoch - 2,
                    )
                    for producer, epoch in known
                ],
            )
            for partition, (leader, known) in self.producers.items()
            if leader == node
        ]
        return Answer(topics=[Answer(name="orders", partitions=found)])

    def ask_leaders(self, _: str, wanted: Any, ask: Any) -> PartitionAnswers[Any]:
        led: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            if partition in self.producers:
                led.setdefault(self.producers[partition][0], []).append(partition)
        answers = [each for node, found in led.items() for each in ask(node, found)]
        return PartitionAnswers({partition: answer for partition, code, answer in answers if not code})


def unable(brokers: Brokers, *partitions: TopicPartition) -> dict[TopicPartition, str]:
    return unable_to_append(cast(Channel, brokers), partitions)


def test_a_partition_without_a_leader_or_with_too_few_replicas_in_sync_cannot_append() -> None:
    """A broker may have the id 0; as many as are asked for are enough; what was not asked for is not told."""
    assert unable(Brokers(), *ORDERS[:5]) == {
        ORDERS[1]: "it has no leader",
        ORDERS[3]: "1 of its replicas are in sync, min.insync.replicas is 2",
    }


@pytest.mark.parametrize("brokers", [Brokers(is_told=False), Brokers(least=None)])
def test_a_topic_whose_settings_are_not_told_counts_as_able(brokers: Brokers) -> None:
    assert unable(brokers, ORDERS[3]) == {}


def test_where_all_replicas_are_in_sync_no_settings_are_asked_for() -> None:
    brokers = Brokers()
    assert unable(brokers, ORDERS[0], ORDERS[4]) == {}
    assert [kind for kind in brokers.asked if kind.startswith("DescribeConfigs")] == []


def test_of_each_partition_the_epoch_of_that_very_producer_is_told_by_its_leader() -> None:
    brokers = Brokers()
    brokers.producers = {
        ORDERS[0]: (0, [(6, 9), (7, 3), (8, 9)]),
        ORDERS[1]: (1, [(7, 4)]),
        ORDERS[2]: (1, [(8, 4)]),
        ORDERS[3]: (1, None),
    }
    assert producer_epochs(cast(Channel, brokers), ORDERS, 7) == {ORDERS[0]: 3, ORDERS[1]: 4}
    told = active_producers(cast(Channel, brokers), ORDERS[:4])
    assert told.problems == {}
    assert told[ORDERS[0]] == (
        ActiveProducer(6, 9, 7, 8, 4, 7),
        ActiveProducer(7, 3, 7, 8, None, 1),
        ActiveProducer(8, 9, 7, 8, 4, 7),
    )
    assert told[ORDERS[3]] == ()


def test_a_transaction_may_have_begun_with_the_log_and_a_leader_that_refuses_has_not_told_that_there_is_none() -> None:
    brokers = Brokers()
    brokers.producers = {ORDERS[0]: (0, [(7, 5)]), ORDERS[1]: (0, [])}
    brokers.codes = {ORDERS[1]: kafka.errors.TopicAuthorizationFailedError.errno}
    told = active_producers(cast(Channel, brokers), ORDERS[:2])
    assert told == {ORDERS[0]: (ActiveProducer(7, 5, 7, 8, 0, 3),)}


def test_where_readers_of_committed_data_see_to_the_end_nothing_is_open() -> None:
    """Asked in that order: what is decided by then may have been written since the end was asked for."""
    asked: list[View] = []
    ends = {View.WRITTEN: {ORDERS[0]: 5, ORDERS[1]: 5, ORDERS[2]: 5}, View.STABLE: {ORDERS[0]: 6, ORDERS[1]: 4}}

    def find_offsets(partitions: Any, at: int, view: View) -> PartitionAnswers[int]:
        assert at == LATEST
        asked.append(view)
        return PartitionAnswers({each: end for each, end in ends[view].items() if each in partitions})

    channel = cast(Channel, Answer(find_offsets=find_offsets))
    assert undecided(channel, ORDERS[:4]) == {ORDERS[1], ORDERS[2], ORDERS[3]}
    assert asked == [View.WRITTEN, View.STABLE]


@pytest.mark.parametrize(
    ("error", "is_told"), [(kafka.errors.IncompatibleBrokerVersion(), True), (kafka.errors.KafkaTimeoutError(), False)]
)
def test_a_broker_that_does_not_have_the_request_tells_nothing_and_is_not_away(
    error: kafka.errors.KafkaError, *, is_told: bool
) -> None:
    """Kafka 2.7 has no DescribeProducers."""

    class Old(Brokers):
        def call(self, request: Any, node: int | None = None) -> Answer:
            raise ConnectionFailed("west: no matching version", "west") from error

    brokers = Old()
    brokers.producers = {ORDERS[0]: (0, [(7, 3)])}
    if is_told:
        assert producer_epochs(cast(Channel, brokers), ORDERS, 7) == {}
    else:
        with pytest.raises(ConnectionFailed):
            producer_epochs(cast(Channel, brokers), ORDERS, 7)
