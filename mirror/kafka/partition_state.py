"""What brokers say of partitions: whether they can append now, have open transactions, and know a producer's epoch.

Invariants:

(a) The coordinator says late that a transaction has ended: a broker answers for all partitions that it leads at once,
    and waits up to half a minute for one with too few replicas in sync. So it is asked in which partitions readers of
    committed data do not see to the end: only those wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import kafka.errors
from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from mirror.kafka import codes
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel, View, topic_settings
from mirror.kafka.metadata import metadata_request
from mirror.kafka.problems import ConnectionFailed
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """What the leader of a partition knows of a producer with an id that has written there, and is not forgotten yet.

    Attributes
    ----------
    last_sequence, last_timestamp_ms
        of the last batch; -1 where the leader does not know.
    open_since
        the offset at which its open transaction begins, None if none is open.
    coordinator_epoch
        of the coordinator that wrote its last marker, which rises whenever another broker, or the same one anew,
        becomes that; -1: it has none.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    open_since: int | None = None
    coordinator_epoch: int = -1


def unable_to_append(channel: Channel, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Return the partitions that would not take a write with ``acks=all`` now, and why.

    They have no leader, or fewer replicas in sync than ``min.insync.replicas`` asks for. A topic whose settings the
    cluster does not tell counts as able.

    Raises
    ------
    ConnectionFailed
        if the cluster cannot be reached.
    """
    wanted = set(partitions)
    topics = sorted({partition.topic for partition in wanted})
    answer = channel.call(metadata_request(topics))
    unable: dict[TopicPartition, str] = {}
    short: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if partition not in wanted:
                continue
            if entry.leader_id < 0:
                unable[partition] = "it has no leader"
            elif len(entry.isr_nodes) < len(entry.replica_nodes):
                short[partition] = len(entry.isr_nodes)
    least = _least_in_sync(channel, {partition.topic for partition in short})
    return unable | {
        partition: f"{in_sync} of its replicas are in sync, min.insync.replicas is {least[partition.topic]}"
        for partition, in_sync in short.items()
        if in_sync < least.get(partition.topic, 1)
    }


def undecided(channel: Channel, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Return the partitions in which readers of committed data do not see to the end, or of which it is not reported.

    In the others no transaction is open, whoever may have written one, and all of it is replicated.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    wanted = set(partitions)
    ends = channel.find_offsets(wanted, LATEST, View.WRITTEN)
    stable = channel.find_offsets(ends, LATEST, View.STABLE)
    return {each for each in wanted if each not in stable or stable[each] < ends[each]}


def producer_epochs(
    channel: Channel, partitions: Iterable[TopicPartition], producer_id: int
) -> Mapping[TopicPartition, int]:
    """Return the newest epoch of a producer id that the leaders of partitions know; of those that do not tell, nothing.

    KIP-664; asked of brokers that do not have it, it is not told of any.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    found = active_producers(channel, partitions)
    return {
        partition: each.epoch
        for partition, producers in found.items()
        for each in producers
        if each.producer_id == producer_id
    }


def active_producers(
    channel: Channel, partitions: Iterable[TopicPartition]
) -> PartitionAnswers[tuple[ActiveProducer, ...]]:
    """Return the producers with an id that the leaders of partitions know.

    KIP-664; clients without idempotence have no id, and are not among them.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    return channel.ask_leaders("producers", list(partitions), lambda node, led: _producers(channel, node, led))


def transactional_ids(channel: Channel, producer_ids: Collection[int]) -> dict[int, str]:
    """Return the transactional ids of those producer ids that have one, as far as brokers tell (KIP-664).

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    found: dict[int, str] = {}
    nodes = sorted({each.node_id for each in channel.call(metadata_request([])).brokers})
    for node in nodes if producer_ids else ():
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producer_ids), max_version=0)
        answer = channel.call(request, node)
        found |= {each.producer_id: each.transactional_id for each in answer.transaction_states or ()}
    return found


def _producers(
    channel: Channel, node: int, led: Sequence[TopicPartition]
) -> Iterator[tuple[TopicPartition, int, tuple[ActiveProducer, ...]]]:
    """Yield (partition, error code, its producers); a broker older than 2.8 does not have the request."""
    asked = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[asked(name=name, partition_indexes=numbers) for name, numbers in grouped(led).items()]
    )
    try:
        topics = channel.call(request, node).topics
    except ConnectionFailed as failure:
        if not isinstance(failure.__cause__, kafka.errors.UnsupportedVersionError):
            raise
        yield from ((partition, codes.UNSUPPORTED_VERSION, ()) for partition in led)
        return
    for topic in topics:
        for entry in topic.partitions:
            producers = tuple(
                ActiveProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                    each.coordinator_epoch,
                )
                for each in entry.active_producers or ()
            )
            yield TopicPartition(topic.name, entry.partition_index), entry.error_code, producers


def _least_in_sync(channel: Channel, topics: Iterable[str]) -> dict[str, int]:
    name = "min.insync.replicas"
    found = topic_settings(channel, topics, [name])
    return {topic: int(value) for topic, settings in found.items() if (value := settings.get(name))}
