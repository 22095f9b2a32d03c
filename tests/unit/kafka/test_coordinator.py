"""What a coordinator is asked is what another implementation reads, and its answers are understood."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse

from mirror.kafka import coordinator
from mirror.kafka.batch import Producer
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition

partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1))
producers = st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.just(True))


@given(st.text(max_size=30), producers, st.sets(partitions, min_size=1, max_size=6))
def test_partitions_are_added(transactional_id: str, producer: Producer, added: set[TopicPartition]) -> None:
    frame = coordinator.add_partitions_request(9, transactional_id, producer, added)
    read = AddPartitionsToTxnRequest.decode(memoryview(frame)[4:], version=2, header=True)
    assert (read.header.request_api_version, read.header.correlation_id) == (2, 9)
    assert read.v3_and_below_transactional_id == transactional_id
    assert read.v3_and_below_producer_id == producer.producer_id
    assert read.v3_and_below_producer_epoch == producer.epoch
    topics = read.v3_and_below_topics
    assert {TopicPartition(topic.name, number) for topic in topics for number in topic.partitions} == added
    assert len({topic.name for topic in topics}) == len(topics)


@given(st.text(max_size=30), producers)
def test_a_transaction_is_committed(transactional_id: str, producer: Producer) -> None:
    frame = coordinator.commit_request(3, transactional_id, producer)
    read = EndTxnRequest.decode(memoryview(frame)[4:], version=2, header=True)
    assert read.transactional_id == transactional_id
    assert (read.producer_id, read.producer_epoch, read.committed) == (producer.producer_id, producer.epoch, True)


@given(st.dictionaries(partitions, st.integers(0, 120), max_size=5), st.integers(0, 120))
def test_answers_are_read(codes: dict[TopicPartition, int], code: int) -> None:
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    partition = topic.AddPartitionsToTxnPartitionResult
    results = [
        topic(
            name=each.topic,
            results_by_partition=[partition(partition_index=each.partition, partition_error_code=wrong)],
        )
        for each, wrong in codes.items()
    ]
    added = AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=results)
    frame = memoryview(b"\0\0\0\1" + added.encode(version=2))
    assert dict(coordinator.parse_added(frame)) == codes
    ended = EndTxnResponse(throttle_time_ms=0, error_code=code)
    assert coordinator.parse_committed(memoryview(b"\0\0\0\1" + ended.encode(version=2))) == code


class Coordinator:
    """Answers what it is asked of a transactional id."""

    alias = "west"

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)

    def call(self, request: object, _: int | None = None) -> SimpleNamespace:
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(error_code=0, node_id=1)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        state = SimpleNamespace(error_code=answer, producer_id=7, producer_epoch=0, transaction_state="Empty")
        return SimpleNamespace(transaction_states=[state])


def failed(cause: Exception) -> ConnectionFailed:
    failure = ConnectionFailed("west: no")
    failure.__cause__ = cause
    return failure


@pytest.mark.parametrize(
    ("answers", "is_known"),
    [
        ([0], True),
        ([kafka.errors.TransactionalIdNotFoundError.errno], False),
        ([kafka.errors.CoordinatorLoadInProgressError.errno, 0], True),
        ([kafka.errors.TransactionalIdAuthorizationFailedError.errno], None),
        ([failed(kafka.errors.UnsupportedVersionError())], None),
    ],
    ids=["known", "not known", "loading", "denied", "older than Kafka 3.0"],
)
def test_whether_somebody_has_had_a_transactional_id(answers: list[int | Exception], is_known: bool | None) -> None:
    assert coordinator.is_known(cast(Any, Coordinator(*answers)), "an id", patience_seconds=60.0) is is_known


def test_of_an_id_of_which_the_coordinator_does_not_tell_in_time_nothing_is_known() -> None:
    loading = [kafka.errors.CoordinatorLoadInProgressError.errno] * 2
    assert coordinator.is_known(cast(Any, Coordinator(*loading)), "an id", patience_seconds=0.0) is None


def test_a_broker_that_does_not_know_the_question_does_not_tell_of_transactions() -> None:
    """Before Kafka 3.0; one that does not answer is another matter."""
    for ask in (coordinator.unended, coordinator.last_written_as):
        older = Coordinator(failed(kafka.errors.UnsupportedVersionError()), failed(OSError("hung up")))
        assert ask(cast(Any, older), "an id") is None
        with pytest.raises(ConnectionFailed):
            ask(cast(Any, older), "an id")
