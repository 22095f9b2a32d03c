"""Which broker leads a partition, where brokers are killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as AssignedTopic

from mirror.kafka.channel import Channel
from mirror.kafka.metadata import metadata_request
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import Copying


def led_by(client: dict[str, str], partition: TopicPartition, node: int, in_sync: int) -> bool:
    """Whether the cluster says that ``node`` leads the partition, with so many replicas in sync."""
    try:
        channel = Channel("north", client, bootstrap_ms=2_000)
    except ConnectionFailed:
        return False
    try:
        answer = channel.call(metadata_request([partition.topic]))
    except ConnectionFailed:
        return False
    finally:
        channel.close()
    found = [entry for topic in answer.topics for entry in topic.partitions]
    return [(entry.leader_id, len(entry.isr_nodes)) for entry in found] == [(node, in_sync)]


def copy_to_the_second_and_third(copying: Copying, client: dict[str, str], unique: Callable[[str], str]) -> None:
    """Have the one partition copied to where the second broker leads and the third follows; all else is on the first.

    The third may become the leader although it lacks records.
    """
    (source,) = copying.pairs
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "retention.ms": "-1"}
    kept = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    copy, state, offsets = unique("copy"), unique("state"), unique("offsets")
    # Kept until the answers are there: a client that is collected ends its requests.
    admin = AdminClient(client)
    # One that was killed by the test before, and is being started, would lead nothing that is created by now.
    wait_until(lambda: len(admin.list_topics(timeout=20).brokers) == 3, "all brokers", timeout_seconds=60)
    created = admin.create_topics(
        [
            AssignedTopic(copy, 1, replica_assignment=[[2, 3]], config=config),
            AssignedTopic(state, 1, replica_assignment=[[1]], config=kept),
            AssignedTopic(offsets, 3, replica_assignment=[[1]] * 3, config=kept),
        ]
    )
    for done in created.values():
        done.result(20)
    copying.pairs = {source: TopicPartition(copy, 0)}
    copying.flow = replace(copying.flow, state_topic=state, offsets_topic=offsets)
