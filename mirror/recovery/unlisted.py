"""What is on record as copied of a source, and the source does not list: removed there, or not shown to who asks."""

from __future__ import annotations

from collections.abc import Collection

from mirror.kafka.problems import ClusterError
from mirror.model.partition import TopicPartition
from mirror.recovery.flow_ends import FlowEnds


def removed_there(
    ends: FlowEnds, recorded: Collection[TopicPartition], listed: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Return which of the partitions on record the source does not have any more, given those that it lists.

    A list of all topics leaves out what may not be seen, as if it were not there; asked for by name it is refused.

    Raises
    ------
    KafkaProblem
        if the source does not tell, since rights are lacking for instance.
    """
    unlisted = sorted(set(recorded) - set(listed))
    there = ends.topics({each.topic for each in unlisted}) if unlisted else {}
    for each in unlisted:
        if each.topic in there and each.partition < there[each.topic].partitions:
            raise ClusterError(
                ends.flow.source,
                f"looking at the topic {each.topic}",
                "it was not listed, and is there: it was created just now, or is listed to nobody; try again",
            )
    return unlisted
