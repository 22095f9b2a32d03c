"""What an engine with the source's offsets had on its way when it was killed, to arrive whenever a test says."""

from __future__ import annotations

from collections.abc import Callable

from mirror.copier.same_offsets import sequence_of
from mirror.kafka import batch, compression, partition_state
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of


def late_append(
    client: dict[str, str], flow: Flow, target: Cluster, copy: TopicPartition, value: bytes
) -> Callable[[], int]:
    """Return what appends, when it is called, what an engine has on its way now; that returns the broker's code."""
    producer = producer_of(flow, target.topics([copy.topic])[copy.topic].topic_id)
    with Appender(flow.target, client) as appender:
        known = partition_state.active_producers(appender.channel, [copy])
    sequence = sequence_of(known[copy], producer)
    sent = batch.encode([Record(-1, 1, b"key", value, (), -1)], compression.NONE, producer, sequence)

    def append() -> int:
        with Appender(flow.target, client) as appender:
            return appender.append(copy, sent).code

    return append
