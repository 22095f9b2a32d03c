"""Which broker leads a partition, where brokers are killed."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataRequest

from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition


def led_by(client: dict[str, str], partition: TopicPartition, node: int, in_sync: int) -> bool:
    """Whether the cluster says that ``node`` leads the partition, with so many replicas in sync."""
    try:
        channel = Channel("north", client, bootstrap_ms=2_000)
    except ConnectionFailed:
        return False
    try:
        answer = channel.call(
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=partition.topic)], allow_auto_topic_creation=False
            )
        )
    except ConnectionFailed:
        return False
    finally:
        channel.close()
    found = [entry for topic in answer.topics for entry in topic.partitions]
    return [(entry.leader_id, len(entry.isr_nodes)) for entry in found] == [(node, in_sync)]
