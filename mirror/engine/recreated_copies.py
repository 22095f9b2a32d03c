"""When the copy of a topic that was created anew on the source may be deleted: nothing appends to it any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mirror.control.flow_log import FlowLog
from mirror.control.recreated_topics import RecreatedTopicsTick
from mirror.control.tick import Appender, TickReport
from mirror.engine.flow_runtime import FlowRuntime
from mirror.kafka.cluster import Cluster


def recreated_topics(
    runtime: FlowRuntime, log: FlowLog, source: Cluster, target: Cluster, writer: Appender
) -> Callable[[], TickReport]:
    """Return what deletes such copies of a flow, as its file says."""
    return RecreatedTopicsTick(runtime.settings, log, source, target, writer, partial(has_stopped, runtime)).tick


def has_stopped(runtime: FlowRuntime, topic: str) -> bool:
    """Whether every partition of a topic of the source has stopped, in an epoch that has ended, and none is paused."""
    with runtime.lock:
        partitions = {source for source, *_ in runtime.partitions if source.topic == topic}
        is_at_work = not runtime.at_work.isdisjoint(partitions)
        all_have_stopped = bool(partitions) and partitions <= runtime.stopped.keys()
        return all_have_stopped and not is_at_work and not runtime.pauses.is_paused(topic)
