"""The copies of topics that were created anew on the source: which they are, and when they may be deleted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mirror.control.flow_log import FlowLog
from mirror.control.recreated_topics import RecreatedTopicsTick
from mirror.control.tick import TickReport
from mirror.engine.flow_runtime import FlowRuntime
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.kafka.topic_ids import differ


def recreated_topics(
    runtime: FlowRuntime, log: FlowLog, source: Cluster, target: Cluster, writer: LogWriter
) -> Callable[[], TickReport]:
    """Return what deletes such copies of a flow, as its file says."""
    return RecreatedTopicsTick(source, target, runtime.settings, log, writer, partial(has_stopped, runtime)).tick


def outdated_copies(runtime: FlowRuntime) -> frozenset[str]:
    """Return the ids of the copies with the source's offsets of former topics: no partition is begun in them."""
    ids = {source.topic: topic_id for source, _, topic_id, _ in runtime.partitions}
    return frozenset(
        handover.position.target_id
        for source, handover in runtime.handovers.items()
        if handover.position.same_offsets
        and differ(handover.position.topic_id, ids.get(source.topic, ""))
        and runtime.settings.is_alone(source.topic)
    )


def has_stopped(runtime: FlowRuntime, topic: str) -> bool:
    """Whether every partition of a topic of the source has stopped, in an epoch that has ended, and none is paused."""
    with runtime.lock:
        partitions = {source for source, *_ in runtime.partitions if source.topic == topic}
        is_at_work = not runtime.at_work.isdisjoint(partitions)
        all_have_stopped = bool(partitions) and partitions <= runtime.stopped.keys()
        return all_have_stopped and not is_at_work and not runtime.pauses.is_paused(topic)
