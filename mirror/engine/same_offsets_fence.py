"""Having the target refuse what was sent to copies while they had the source's offsets, now that they are translated.

All engines of a flow write such a copy as one producer id, in one epoch that follows from the id of its topic (ADR 13).
No transactional id belongs to that producer: neither a coordinator nor the flow's own producer can have anything of it
refused. A marker of that id with the next epoch can, and whoever has ALTER or CLUSTER_ACTION on the cluster may write
one. It takes an offset, as other fences do, so only translated copies get one.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from mirror.engine.flow_runtime import FlowRuntime
from mirror.kafka import codes
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Producer
from mirror.kafka.problems import KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of

# The leader may have got a marker of an epoch of before, whose answer was lost, or of a later one.
_FENCED = frozenset({0, codes.INVALID_PRODUCER_EPOCH})


def fence_same_offsets(runtime: FlowRuntime, targets: Set[TopicPartition]) -> dict[TopicPartition, str]:
    """Fence the producer of the source's offsets in those of these partitions that had them until now.

    Without the right to do it they are taken down as copies where what is late is noticed, not refused.

    Returns
    -------
    of the partitions that do not refuse it yet, though they might, why not

    Raises
    ------
    ConnectionFailed
        if the target cannot be reached.
    """
    settings = runtime.settings
    with runtime.lock:
        copies = runtime.copies()
        former = {
            copy: replace(producer, epoch=producer.epoch + 1)
            for source, handover in runtime.handovers.items()
            if handover.position.same_offsets and (copy := runtime.copy_of(source, copies)) in targets
            for producer in [producer_of(settings.flow, handover.position.target_id)]
        }
    if not former:
        return {}
    found = _fence(settings.flow, settings.target_producer, former)
    with runtime.lock:
        runtime.late.same_offsets_unrefused |= {copy for copy, why in found.items() if why is None}
    return {copy: why for copy, why in found.items() if why is not None}


def _fence(
    flow: Flow, client: Mapping[str, str], producers: Mapping[TopicPartition, Producer]
) -> dict[TopicPartition, str | None]:
    """Return where it is not fenced and why; None: for want of rights."""
    found: dict[TopicPartition, str | None] = {}
    with Appender(flow.target, client) as appender:
        if not appender.may_write_markers():
            return dict.fromkeys(producers)
        for producer in set(producers.values()):
            counts = dict.fromkeys((copy for copy, each in producers.items() if each == producer), 1)
            for copy, answer in appender.write_markers(counts, producer).items():
                if isinstance(answer, KafkaProblem):
                    found[copy] = str(answer)
                elif answer == codes.CLUSTER_AUTHORIZATION_FAILED:
                    found[copy] = None
                elif answer not in _FENCED:
                    found[copy] = f"it has got no marker: {codes.name(answer)}"
    return found
