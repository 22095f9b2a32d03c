"""Having the target refuse what was sent to copies with the source's offsets, where they are translated by now.

All engines of a flow write such a copy as one producer id, in one epoch that follows from the id of its topic (ADR 13).
No transactional id belongs to that producer: neither a coordinator nor the flow's own producer can have anything of it
refused. A marker of that id with the next epoch can, and whoever has ALTER or CLUSTER_ACTION on the cluster may write
one. It takes an offset, as other fences do, so only translated copies get one.

Invariants:

(a) Where something may arrive is told by the leaders of the copies, which know the producer until it has been idle for
    ``producer.id.expiration.ms``, and its epoch: not by the position on record, which tells of the source's offsets
    only until the first translated record is there. So the right to the fence may be granted later.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from mirror.engine.flow_runtime import FlowRuntime
from mirror.kafka import codes, partition_state
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Producer
from mirror.kafka.problems import KafkaProblem, LeaderUnknown
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.same_offsets.chain import has_written, producer_of

# The leader may have got a marker of an epoch of before, whose answer was lost, or of a later one.
_FENCED = frozenset({0, codes.INVALID_PRODUCER_EPOCH})


@dataclass(frozen=True, slots=True)
class Refusing:
    """Which copies do not refuse what was sent to the source's offsets.

    Attributes
    ----------
    unrefused
        those where nothing can be done about it, for want of rights.
    troubles
        of those that do not yet, why not.
    """

    unrefused: frozenset[TopicPartition] = frozenset()
    troubles: Mapping[TopicPartition, str] = field(default_factory=dict)


def refuse_same_offsets(
    flow: Flow, client: Mapping[str, str], copies: Mapping[TopicPartition, Position | None]
) -> Refusing:
    """Fence the producer of the source's offsets, which the flow has written as, in copies that are translated by now.

    Parameters
    ----------
    client
        the properties of a producer on the target.
    copies
        what is on record of each; None: nothing is, yet somebody may have been about to begin it.

    Raises
    ------
    ConnectionFailed
        if the target cannot be reached.
    """
    if not copies:
        return Refusing()
    with Appender(flow.target, client) as appender:
        known = partition_state.active_producers(appender.channel, copies)
        fences: dict[TopicPartition, Producer] = {}
        for copy, position in copies.items():
            copy_id = position.target_id if position is not None else ""
            former = producer_of(flow, copy_id or appender.channel.topic_id(copy.topic))
            epochs = [each.epoch for each in known.get(copy, ()) if each.producer_id == former.producer_id]
            was_translated = position is not None and not position.same_offsets and copy in known and not epochs
            if not (was_translated or any(epoch > former.epoch for epoch in epochs)):
                fences[copy] = replace(former, epoch=former.epoch + 1)
        if fences and not appender.may_write_markers():
            return Refusing(frozenset(fences))
        return _marked(appender, fences)


def fence_same_offsets(runtime: FlowRuntime, targets: Set[TopicPartition]) -> dict[TopicPartition, str]:
    """Fence that producer in those of these partitions that are copies; return of which it did not work yet, and why.

    Where it cannot be done it is taken down that what is late is noticed, not refused.

    Raises
    ------
    ConnectionFailed
        if the target cannot be reached.
    """
    settings = runtime.settings
    with runtime.lock:
        if not has_written(settings.flow, runtime.writers):
            return {}
        topics = runtime.copies()
        copies: dict[TopicPartition, Position | None] = {copy: None for _, copy, *_ in runtime.partitions}
        copies |= {runtime.copy_of(each, topics): handover.position for each, handover in runtime.handovers.items()}
        asked = {copy: position for copy, position in copies.items() if copy in targets}
    found = refuse_same_offsets(settings.flow, settings.target_producer, asked)
    with runtime.lock:
        runtime.late.same_offsets_unrefused |= found.unrefused
    return dict(found.troubles)


def _marked(appender: Appender, fences: Mapping[TopicPartition, Producer]) -> Refusing:
    """Leave a marker in each copy."""
    unrefused, troubles = set[TopicPartition](), dict[TopicPartition, str]()
    for producer in set(fences.values()):
        counts = dict.fromkeys((copy for copy, each in fences.items() if each == producer), 1)
        for copy, answer in appender.write_markers(counts, producer).items():
            if isinstance(answer, LeaderUnknown) and not appender.channel.has_topic(copy.topic):
                # The copy is gone, and with it all that could arrive there.
                continue
            if isinstance(answer, KafkaProblem):
                troubles[copy] = str(answer)
            elif answer in codes.DENIED:
                unrefused.add(copy)
            elif answer not in _FENCED:
                troubles[copy] = f"it has got no marker: {codes.name(answer)}"
    return Refusing(frozenset(unrefused), troubles)
