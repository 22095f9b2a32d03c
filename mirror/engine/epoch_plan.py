"""What the next epoch copies: the work of each partition, and what its task must know of the flow.

Invariants:

(a) What is planned for an epoch, and the beginning that its results are taken in for, are read under the locks of all
    flows. Otherwise results of an epoch that began from the new positions would be dropped as if they were of the old
    ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.copier.work import FlowWork, PartitionWork
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.recreated_copies import outdated_copies
from mirror.engine.taken_producers import Writing
from mirror.model.flow import Flow
from mirror.model.state_record import state_topic


def partitions_to_copy(runtimes: Mapping[Flow, FlowRuntime], writing: Mapping[Flow, Writing]) -> list[PartitionWork]:
    """Return the work of every partition that can go on now; ``writing`` is as whom each flow writes.

    What is to be forgotten of their offset maps, and to be recorded again, is handed to the tasks by this.
    """
    return [
        PartitionWork(
            flow,
            source,
            target,
            topic_id,
            runtime.handover_of(source),
            # Nothing is taken over to the source's offsets: a copy that is not empty is refused.
            None if runtime.has_source_offsets(source) else runtime.trace(source),
            runtime.settings.transform_of(source.topic),
            target_id,
            runtime.gap_policy(source),
            # Once; what of it is lost with an epoch is found again.
            runtime.dead.pop(source, None),
            runtime.left_out.get(source.topic, ()),
            source.topic in runtime.watched,
            writing[flow].sequences.get(target, 0),
            runtime.pauses.is_paused(source.topic),
            source in runtime.troubles,
            runtime.translated.pad_limit(runtime.settings, source),
            source.topic in runtime.copied_back.topics,
            runtime.copied_back.of(target),
            target_id in outdated,
            runtime.settings.makes_recreated_anew(source.topic),
        )
        for flow, runtime in runtimes.items()
        if runtime.is_known and runtime.may_be_copied
        for outdated in [outdated_copies(runtime)]
        for source, target, topic_id, target_id in runtime.partitions
        if source not in runtime.stopped
        and source not in runtime.takeovers
        and source not in runtime.resumed
        and not runtime.is_idle(source)
        and not runtime.waits(source, target)
    ]


def flow_work(runtime: FlowRuntime, *, epoch: int) -> FlowWork:
    """Return what a task of an epoch must know of a flow."""
    settings = runtime.settings
    return FlowWork(
        flow=settings.flow,
        source_client=dict(settings.source_consumer),
        target_client=dict(settings.target_producer),
        state_topic=state_topic(settings.flow.source),
        offsets_topic=settings.offset_storage_topic,
        offsets_partitions=settings.offset_storage_partitions,
        syncs_topic=settings.offset_syncs_topic if settings.emit_offset_syncs else None,
        syncs_on_source=settings.offset_syncs_location == "source",
        offset_lag_max=settings.offset_lag_max,
        read_committed=settings.reads_committed,
        from_latest=settings.auto_offset_reset == "latest",
        writers=frozenset(runtime.writers),
        fetch_limits=settings.fetch_limits,
        parked_topic=settings.parked_topic,
        term=runtime.term,
        epoch=epoch,
        mirrors=runtime.mirrors,
    )
