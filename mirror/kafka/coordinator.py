"""What is asked of a transaction coordinator: to give a transactional id to us alone, and to open and end transactions.

Taking a transactional id over is rare and waited for; adding partitions and ending a transaction happen several times
a second, beside the copy, so those are frames for a :class:`~mirror.kafka.channel.Connection`.

Invariants:

(a) A transaction ends in every partition that was added to it: the coordinator writes its marker with all replicas, and
    while one partition has too few in sync the transactional id takes no other transaction. After two seconds its slot
    is given up, also when it is a partition of positions that takes nothing: once the coordinator says that the
    transaction is decided, the flow goes on with another id, from positions read again. Partitions in which it is still
    open are copied on when they have its marker, and so are those whose positions go there. That is safe for ids with
    which nobody writes any more: those whose tasks have come back, and those whose last transaction was begun, as the
    state topic says, by an engine that is fenced (it was aborted, with the next epoch) or may not write any more (ADR
    8). Any other id could still be used by an engine that was frozen: it is waited for. A transaction also ends without
    a partition that has no leader; so what has its position in one that can take none now is left out until it can.
(b) A transactional id that writes no transactions expires after seven days although its producer id writes all the
    time; an empty one every hour keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import kafka.errors
from kafka.protocol.admin import DescribeTransactionsRequest
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
from mirror.kafka.channel import Channel
from mirror.kafka.connection import framed
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, RequestFailed
from mirror.kafka.versions import ADD_PARTITIONS_TO_TXN, END_TXN, FIND_COORDINATOR, INIT_PRODUCER_ID
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, last_seen, wait_until

_TRANSACTION = 1
# No coordinator gives an id below zero.
_NOBODY = Producer(-1, -1)
_FENCING_SECONDS = 30.0
_MARKER_SECONDS = 5.0
# Markers are there some milliseconds after they were decided.
_MARKER_PAUSE_SECONDS = 0.002
_PARTITIONS_A_REQUEST = 1_000
# What the last transaction of an id is to end as is decided then, and on record.
_ABORTED = "PrepareAbort"
_DECIDED = frozenset({"PrepareCommit", _ABORTED})


@dataclass(frozen=True, slots=True)
class Unended:
    """A transaction that is to be committed, or aborted, for certain, and has not ended in some partitions yet.

    The transactional id takes no other one before they have their markers.

    Attributes
    ----------
    producer_id, epoch
        of the id, as the coordinator has them.
    partitions
        that lack their markers.
    is_aborted
        whether it is to be aborted.
    """

    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    is_aborted: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from other transactions of the id, as far as whoever wrote it goes: producer id and epoch."""
        return self.producer_id, self.epoch


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


def take_over(
    channel: Channel,
    transactional_id: str,
    timeout_ms: int,
    *,
    writes_transactions: bool = True,
    patience_seconds: float = _FENCING_SECONDS,
) -> Producer:
    """Make the transactional id ours: whoever used it before is fenced, and what it left open is aborted.

    When this returns, nothing that was written in its transactions can be added to the logs any more, and all of it is
    decided. Batches outside transactions are fenced by :func:`abort_empty`.

    Parameters
    ----------
    timeout_ms
        how long a transaction may stay open before the cluster aborts it.
    writes_transactions
        whether the producer's batches are transactional.
    patience_seconds
        for how long the cluster is asked again while it has no coordinator for the id, or ends what was left open.

    Raises
    ------
    BrokerRefused
        if the cluster refuses, or cannot do it within ``patience_seconds``.
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
            return refusal.code or -1, None
        answer = channel.call(request, node)
        return answer.error_code, answer

    code, answer = last_seen(
        ask,
        f"the transactional id {transactional_id}",
        timeout_seconds=patience_seconds,
        until=lambda seen: not codes.is_retriable(seen[0]),
    )
    if code:
        raise _refused(channel, f"the transactional id {transactional_id}", code)
    return Producer(answer.producer_id, answer.producer_epoch, is_transactional=writes_transactions)


def unended(channel: Channel, transactional_id: str) -> Unended | None:
    """Return the last transaction of an id if it is decided and not ended; None if it is not, or cannot be known.

    KIP-664: brokers before Kafka 3.0 do not tell.

    Raises
    ------
    BrokerRefused, ConnectionFailed
        if the cluster names no coordinator, or cannot be reached.
    """
    found = _described(channel, transactional_id)
    if found is None or found.error_code or found.transaction_state not in _DECIDED:
        return None
    lacking = (TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions)
    is_aborted = found.transaction_state == _ABORTED
    return Unended(found.producer_id, found.producer_epoch, frozenset(lacking), is_aborted)


def last_written_as(channel: Channel, transactional_id: str) -> tuple[int, int] | None:
    """Return producer id and epoch of the last transaction of an id; None if there is none, or it cannot be known.

    Raises
    ------
    BrokerRefused, ConnectionFailed
        if the cluster names no coordinator, or cannot be reached.
    """
    found = _described(channel, transactional_id)
    return None if found is None or found.error_code else (found.producer_id, found.producer_epoch)


def is_known(channel: Channel, transactional_id: str, *, patience_seconds: float = _FENCING_SECONDS) -> bool | None:
    """Whether the cluster has given somebody a transactional id, and not forgotten it since; None if it does not tell.

    While there is no coordinator for the id it is asked again for ``patience_seconds``.

    Raises
    ------
    ConnectionFailed
        if the cluster cannot be reached.
    """

    def ask() -> int | None:
        try:
            found = _described(channel, transactional_id)
        except BrokerRefused as refusal:
            return refusal.code
        return None if found is None else found.error_code

    code = last_seen(
        ask,
        f"what the coordinator knows of {transactional_id}",
        timeout_seconds=patience_seconds,
        until=lambda seen: seen is None or not codes.is_retriable(seen),
    )
    return code == 0 if code in (0, codes.TRANSACTIONAL_ID_NOT_FOUND) else None


def _described(channel: Channel, transactional_id: str) -> Any | None:
    """Return what the coordinator says of an id, with an error code; None from a broker that does not know the request.

    That is one before Kafka 3.0 (KIP-664).
    """
    node = find_coordinator(channel, transactional_id)
    try:
        answer = channel.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), node)
    except ConnectionFailed as failure:
        if not isinstance(failure.__cause__, kafka.errors.UnsupportedVersionError):
            raise
        return None
    (found,) = answer.transaction_states
    return found


def is_denied(channel: Channel, transactional_id: str) -> bool | None:
    """Whether the cluster denies the use of a transactional id, for want of Write or of Describe; None: nobody tells.

    Nothing is created or changed: asked to end a transaction of a producer that there cannot be, a broker says first
    who has no right to write, and of anybody else that it knows no such producer, or coordinates another id. So does
    every release; who may write may describe, unless that is denied, which brokers since Kafka 3.0 tell (KIP-664).
    """
    ending = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=_NOBODY.producer_id,
        producer_epoch=_NOBODY.epoch,
        committed=False,
        max_version=END_TXN.newest,
    )
    try:
        if channel.call(ending).error_code in codes.DENIED:
            return True
    except ConnectionFailed:
        return None
    try:
        answer = channel.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
    except ConnectionFailed:
        return False
    (found,) = answer.transaction_states
    return found.error_code in codes.DENIED


def abort_empty(
    channel: Channel, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, RequestFailed]:
    """Put an abort marker of the producer's epoch into partitions, by a transaction in which nothing is written.

    Each then refuses batches of the producer's earlier epochs, whenever they were sent and whether they are
    transactional or not.

    Returns
    -------
    of the partitions that may not have a marker yet, why not: BrokerRefused of those that cannot take part; another
    problem of all that take part, if the cluster has not ended the transaction after some seconds

    Raises
    ------
    BrokerRefused
        if the cluster refuses: another has taken the transactional id over, or rights are lacking.
    ConnectionFailed
        if the cluster cannot be reached.
    """
    node = find_coordinator(channel, transactional_id)
    refused: dict[TopicPartition, RequestFailed] = {}
    wanted = sorted(partitions)
    added: list[TopicPartition] = []
    for first in range(0, len(wanted), _PARTITIONS_A_REQUEST):
        share = wanted[first : first + _PARTITIONS_A_REQUEST]
        while share:
            codes_of = _added(channel, node, transactional_id, producer, share)
            bad = {each: code for each, code in codes_of.items() if code not in (0, codes.OPERATION_NOT_ATTEMPTED)}
            for each, code in bad.items():
                if code in codes.TRANSACTION_ERRORS:
                    raise _refused(channel, f"the transactional id {transactional_id}", code)
                refused[each] = BrokerRefused(f"{channel.alias}: a marker in {each}", code, "Write on the topic")
            if not bad:
                added += share
                break
            # One that cannot take part keeps the others out.
            share = [each for each in share if each not in bad]
    if added:
        try:
            wait_until(
                lambda: _ended(channel, node, transactional_id, producer),
                f"the markers of {transactional_id}",
                timeout_seconds=_MARKER_SECONDS,
                first_pause_seconds=_MARKER_PAUSE_SECONDS,
            )
        except WaitTimeout as problem:
            refused |= dict.fromkeys(added, RequestFailed(f"{channel.alias}: {problem}"))
    return refused


def _added(
    channel: Channel, node: int, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Add partitions to the transaction; return the error code of each."""
    request = _adding(transactional_id, producer, partitions)

    def ask() -> dict[TopicPartition, int]:
        answer = channel.call(request, node)
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    return last_seen(
        ask,
        f"the coordinator of {transactional_id}",
        timeout_seconds=_MARKER_SECONDS,
        until=lambda found: codes.COORDINATOR_BUSY.isdisjoint(found.values()),
        first_pause_seconds=_MARKER_PAUSE_SECONDS,
    )


def _ended(channel: Channel, node: int, transactional_id: str, producer: Producer) -> bool:
    """Abort the transaction; return whether it is over.

    Asked again, the coordinator is busy until all markers are in.
    """
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=False,
        max_version=END_TXN.newest,
    )
    first, again = (channel.call(request, node).error_code for _ in range(2))
    for code in (first, again):
        if code and code not in codes.COORDINATOR_BUSY:
            raise _refused(channel, f"the transactional id {transactional_id}", code)
    return not again


def add_partitions_request(
    correlation: int, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
) -> bytes:
    """Return the frame that adds partitions to the transaction, which begins with the first."""
    request = _adding(transactional_id, producer, partitions)
    return framed(request, ADD_PARTITIONS_TO_TXN.newest, correlation)


def _adding(transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]) -> Any:
    asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[asked(name=name, partitions=numbers) for name, numbers in grouped(partitions).items()],
        max_version=ADD_PARTITIONS_TO_TXN.newest,
    )


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
    return framed(request, END_TXN.newest, correlation)


def parse_committed(frame: memoryview) -> int:
    """Return the error code of an answer to :func:`commit_request`."""
    code: int = EndTxnResponse.decode(frame, version=END_TXN.newest, header=True).error_code
    return code


def _refused(channel: Channel, what: str, code: int) -> BrokerRefused:
    return BrokerRefused(f"{channel.alias}: {what}", code, "Write and Describe on it")
