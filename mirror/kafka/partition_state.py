"""What brokers say of partitions: whether they can append now, have open transactions, and know a producer's epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka.protocol.admin import DescribeConfigsRequest, DescribeProducersRequest
from kafka.protocol.metadata import MetadataRequest

from mirror.kafka.channel import LATEST, Channel, View
from mirror.model.partition import TopicPartition, by_topic

_TOPIC_RESOURCE = 2


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
    answer = channel.call(
        MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
    )
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
    """Return the partitions in which readers of committed data do not see to the end, or of which it is not told.

    In the others no transaction is open, whoever may have written one, and all of it is replicated.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    wanted = set(partitions)
    ends, _ = channel.find_offsets(wanted, LATEST, View.WRITTEN)
    stable, _ = channel.find_offsets(ends, LATEST, View.STABLE)
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
    found, _ = channel.ask_leaders(
        "producers", list(partitions), lambda node, led: _producer_epochs(channel, node, led, producer_id)
    )
    return {partition: epoch for partition, epoch in found.items() if epoch is not None}


def _producer_epochs(
    channel: Channel, node: int, led: Sequence[TopicPartition], producer_id: int
) -> Iterator[tuple[TopicPartition, int, int | None]]:
    """Yield (partition, error code, the producer's epoch, None if the broker knows none)."""
    asked = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[asked(name=name, partition_indexes=numbers) for name, numbers in by_topic(led).items()]
    )
    for topic in channel.call(request, node).topics:
        for entry in topic.partitions:
            epochs = (each.producer_epoch for each in entry.active_producers or () if each.producer_id == producer_id)
            yield TopicPartition(topic.name, entry.partition_index), entry.error_code, next(epochs, None)


def _least_in_sync(channel: Channel, topics: Iterable[str]) -> dict[str, int]:
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=["min.insync.replicas"]
        )
        for name in sorted(topics)
    ]
    if not resources:
        return {}
    answer = channel.call(DescribeConfigsRequest(resources=resources))
    return {
        result.resource_name: int(entry.value) for result in answer.results for entry in result.configs if entry.value
    }
