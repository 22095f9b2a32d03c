"""What a coordinator is asked is what another implementation reads, and its answers are understood."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
)

from mirror.kafka import codes as error_codes
from mirror.kafka import coordinator
from mirror.kafka.batch import Producer
from mirror.kafka.coordinator import Unended
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, RequestFailed
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


BUSY, FENCED, REFUSED = (
    error_codes.CONCURRENT_TRANSACTIONS,
    error_codes.INVALID_PRODUCER_EPOCH,
    error_codes.UNKNOWN_TOPIC,
)
OURS = Producer(7, 3, is_transactional=True)
ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 0)


class Transactions:
    """A coordinator that adds partitions and ends transactions with the codes that a test names, in turn."""

    alias = "west"

    def __init__(self, added: list[dict[TopicPartition, int]], ended: list[int]) -> None:
        self.added, self.ended = added, ended
        self.asked: list[set[TopicPartition]] = []

    def call(self, request: Any, _: int | None = None) -> SimpleNamespace:
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(error_code=0, node_id=1)
        if isinstance(request, EndTxnRequest):
            assert not request.committed
            return SimpleNamespace(error_code=self.ended.pop(0) if len(self.ended) > 1 else self.ended[0])
        assert isinstance(request, AddPartitionsToTxnRequest)
        asked = {TopicPartition(topic.name, each) for topic in request.v3_and_below_topics for each in topic.partitions}
        self.asked.append(asked)
        codes = self.added.pop(0)
        results = [
            SimpleNamespace(
                name=each.topic,
                results_by_partition=[
                    SimpleNamespace(partition_index=each.partition, partition_error_code=codes.get(each, 0))
                ],
            )
            for each in asked
        ]
        return SimpleNamespace(results_by_topic_v3_and_below=results)

    def abort_empty(self, *partitions: TopicPartition) -> dict[TopicPartition, RequestFailed]:
        return coordinator.abort_empty(cast(Any, self), "an id", OURS, partitions)


def test_partitions_are_fenced_once_all_markers_are_in() -> None:
    """Until then a batch of the epoch before may still be taken; the coordinator says busy when it is asked again."""
    west = Transactions([{ORDERS: BUSY}, {}], [0, BUSY, BUSY, BUSY, BUSY, 0, 0])
    assert west.abort_empty(ORDERS) == {}
    assert (west.asked, west.ended) == ([{ORDERS}] * 2, [0])


def test_a_partition_that_cannot_take_part_keeps_no_other_out() -> None:
    others_wait = {ORDERS: REFUSED, PAID: error_codes.OPERATION_NOT_ATTEMPTED}
    west = Transactions([others_wait, {}], [0])
    (refused,) = west.abort_empty(ORDERS, PAID).items()
    assert isinstance(refused[1], BrokerRefused)
    assert (refused[0], refused[1].code) == (ORDERS, REFUSED)
    assert west.asked == [{ORDERS, PAID}, {PAID}]


def test_all_partitions_are_fenced_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_PARTITIONS_A_REQUEST", 3)
    wanted = {TopicPartition("orders", number) for number in range(8)}
    west = Transactions([{}, {}, {}], [0])
    assert west.abort_empty(*wanted) == {}
    assert ([len(each) for each in west.asked], set().union(*west.asked)) == ([3, 3, 2], wanted)


@pytest.mark.parametrize(("added", "ended"), [({ORDERS: FENCED}, [0]), ({}, [FENCED])], ids=["adding", "ending"])
def test_who_was_fenced_meanwhile_fences_nobody(added: dict[TopicPartition, int], ended: list[int]) -> None:
    """Another has taken the id over: no partition alone is at fault."""
    with pytest.raises(BrokerRefused):
        Transactions([added], ended).abort_empty(ORDERS, PAID)


def test_where_the_markers_do_not_come_in_time_nothing_counts_as_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_MARKER_SECONDS", 0.0)
    found = Transactions([{}], [BUSY]).abort_empty(ORDERS, PAID)
    assert found.keys() == {ORDERS, PAID}
    assert all("the markers of an id" in str(each) for each in found.values())
    assert not any(isinstance(each, BrokerRefused) for each in found.values())


@pytest.mark.parametrize(
    ("state", "code", "is_aborted"),
    [
        ("PrepareCommit", 0, False),
        ("PrepareAbort", 0, True),
        ("Ongoing", 0, None),
        ("CompleteCommit", 0, None),
        ("PrepareCommit", error_codes.COORDINATOR_NOT_AVAILABLE, None),
    ],
)
def test_a_transaction_that_is_decided_and_not_ended_lacks_its_markers(
    state: str, code: int, *, is_aborted: bool | None
) -> None:
    """One that is open may still become either."""
    topics = [SimpleNamespace(topic="orders", partitions=[0])]
    found = SimpleNamespace(error_code=code, transaction_state=state, topics=topics, producer_id=7, producer_epoch=3)

    def call(request: object, _: int | None = None) -> SimpleNamespace:
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(error_code=0, node_id=1)
        return SimpleNamespace(transaction_states=[found])

    expected = None if is_aborted is None else Unended(7, 3, frozenset({ORDERS}), is_aborted)
    assert coordinator.unended(cast(Any, SimpleNamespace(call=call)), "an id") == expected


@pytest.mark.parametrize("code", [0, error_codes.PRODUCER_FENCED])
def test_an_id_that_the_cluster_refuses_is_nobody_s(code: int) -> None:
    def call(request: object, _: int | None = None) -> SimpleNamespace:
        return SimpleNamespace(error_code=code if isinstance(request, InitProducerIdRequest) else 0, **given)

    given = {"node_id": 1, "producer_id": 7, "producer_epoch": 3}
    west = cast(Any, SimpleNamespace(call=call, alias="west"))
    if code:
        with pytest.raises(BrokerRefused):
            coordinator.take_over(west, "an id", 60_000, patience_seconds=0.0)
    else:
        assert coordinator.take_over(west, "an id", 60_000, patience_seconds=0.0) == OURS
