"""What a flow leaves on its target, written there without an engine: a copy, how far it goes, checkpoints of groups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from mirror.config.settings import FlowSettings
from mirror.control.groups import recorder
from mirror.control.tick import now_ms
from mirror.control.topics import create_state_topic
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter
from mirror.model.checkpoint import Checkpoint
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import chunk_record
from mirror.waiting import wait_until

RECORDS, CHECKPOINT = 10, 4


def copied(admin: Cluster, flow: FlowSettings, original: TopicPartition, groups: Sequence[str]) -> TopicPartition:
    """Make the copy of a partition, with ``RECORDS`` records, of which groups have read ``CHECKPOINT``; return it."""
    copy = TopicPartition(f"{flow.flow.source}.{original.topic}", original.partition)
    made = admin.create_topics([NewTopic(copy.topic, 1, 1), NewTopic(flow.checkpoints_topic, 1, 1)])
    assert [each.problem for each in made if each.problem] == []
    wait_until(lambda: create_state_topic(admin, flow)[0], "the state topic", timeout_seconds=60)
    told = [Checkpoint(each, copy, CHECKPOINT, CHECKPOINT) for each in groups]
    with closing(LogWriter(flow.target_producer, alias=flow.flow.target)) as writer:
        writer.append(copy.topic, 0, [(b"k", b"v", (), now_ms())] * RECORDS)
        recorder(flow, writer)(
            [
                chunk_record(original, 0, [Run(0, 0, RECORDS)]),
                Position(RECORDS, RECORDS, 0, True).record(original),
            ]
        )
        writer.append(
            flow.checkpoints_topic, 0, [(each.key_bytes(), each.value_bytes(), (), now_ms()) for each in told]
        )
    return copy
