"""What is asked of a transaction coordinator: to give a transactional id to us alone, and to open and end transactions.

Taking a transactional id over is rare and waited for; adding partitions and ending a transaction happen several times
a second, beside the copy, so those are frames for a :class:`~mirror.kafka.channel.Connection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import kafka.errors
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
)

from mirror.kafka import codes
from mirror.kafka.batch import Producer
from mirror.kafka.channel import BrokerRefused, Channel
from mirror.kafka.versions import ADD_PARTITIONS_TO_TXN, END_TXN, FIND_COORDINATOR, INIT_PRODUCER_ID
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_TRANSACTION = 1
_FENCING_SECONDS = 30.0


def find_coordinator(channel: Channel, transactional_id: str) -> int:
    """Return the node that coordinates a transactional id.

    Raises
    ------
    BrokerRefused
        if the cluster names none now.
    ConnectionFailed
        if the cluster cannot be reached.
    """
    request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION, max_version=FIND_COORDINATOR.newest)
    answer = channel.call(request)
    if answer.error_code:
        raise _refused(channel, f"the coordinator of {transactional_id}", answer.error_code)
    node: int = answer.node_id
    return node


def take_over(channel: Channel, transactional_id: str, timeout_ms: int) -> Producer:
    """Make the transactional id ours: whoever used it before is fenced, and what it left open is aborted.

    When this returns, nothing that was written with it can be added to the logs any more, and all of it is decided.

    Parameters
    ----------
    timeout_ms
        how long a transaction may stay open before the cluster aborts it.

    Raises
    ------
    BrokerRefused
        if the cluster refuses, or still aborts what was left open after half a minute.
    ConnectionFailed
        if the cluster cannot be reached.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        max_version=INIT_PRODUCER_ID.newest,
    )

    def ask() -> tuple[int, Any]:
        try:
            node = find_coordinator(channel, transactional_id)
        except BrokerRefused as refusal:
            return int(refusal.error.errno), None  # type: ignore[attr-defined]  # kafka-python's errors have one
        answer = channel.call(request, node)
        return answer.error_code, answer

    try:
        code, answer = wait_until(
            ask,
            f"the transactional id {transactional_id}",
            timeout_seconds=_FENCING_SECONDS,
            until=lambda seen: not codes.is_retriable(seen[0]),
        )
    except WaitTimeout:
        code, answer = ask()
    if code:
        raise _refused(channel, f"the transactional id {transactional_id}", code)
    return Producer(answer.producer_id, answer.producer_epoch, is_transactional=True)


def add_partitions_request(
    correlation: int, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
) -> bytes:
    """Return the frame that adds partitions to the transaction, which begins with the first."""
    asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[asked(name=name, partitions=numbers) for name, numbers in by_topic.items()],
    )
    return _framed(request, ADD_PARTITIONS_TO_TXN.newest, correlation)


def parse_added(frame: memoryview) -> Iterator[tuple[TopicPartition, int]]:
    """Yield (partition, error code) of an answer to :func:`add_partitions_request`."""
    for topic in AddPartitionsToTxnResponse.decode(
        frame, version=ADD_PARTITIONS_TO_TXN.newest, header=True
    ).results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            yield TopicPartition(topic.name, each.partition_index), each.partition_error_code


def commit_request(correlation: int, transactional_id: str, producer: Producer) -> bytes:
    """Return the frame that commits the transaction; asked again after a lost answer it changes nothing."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    return _framed(request, END_TXN.newest, correlation)


def parse_committed(frame: memoryview) -> int:
    """Return the error code of an answer to :func:`commit_request`."""
    code: int = EndTxnResponse.decode(frame, version=END_TXN.newest, header=True).error_code
    return code


def _framed(request: Any, version: int, correlation: int) -> bytes:
    request.API_VERSION = version
    request.with_header(correlation, "mirror")
    framed: bytes = request.encode(header=True, framed=True)
    return framed


def _refused(channel: Channel, what: str, code: int) -> BrokerRefused:
    return BrokerRefused(f"{channel.alias}: {what}", kafka.errors.for_code(code))
