"""Groups of which no checkpoint can tell what they have read on a source that is gone, since they read copies there."""

from __future__ import annotations

import re
from collections.abc import Collection

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition


def unseen_readers(
    settings: FlowSettings, back: FlowSettings, target: Cluster, reported: Collection[tuple[str, str]], pattern: str
) -> tuple[str, ...]:
    """Return, for people, the groups that may have read copies which the topic filter of the flow leaves out.

    Where a flow does not select the copies that the flow back has made of its target's topics, it writes no checkpoints
    of who reads them. Such a group is known by its position in the originals, on the target, where it stood before it
    was moved away; who is at work there now has not been.

    Parameters
    ----------
    reported
        groups and topics of the target of which a checkpoint tells.
    pattern
        the groups that are asked for, by their whole ids.

    Raises
    ------
    ClusterError
        if the target does not answer.
    """
    names = [
        each.group
        for each in target.groups()
        if each.is_consumer_group and settings.group_filter.matches(each.group) and re.fullmatch(pattern, each.group)
    ]
    positions = target.positions_of_groups(names)
    found: dict[str, set[TopicPartition]] = {}
    for group, of_group in positions.items():
        for partition in of_group:
            if (group, partition.topic) not in reported and _leaves_out(settings, back, partition.topic):
                found.setdefault(group, set()).add(partition)
    states = target.describe_groups(sorted(found))
    return (
        *(f"group {group}: {why}" for group, why in sorted(positions.problems.items())),
        *(
            f"group {group} in {', '.join(map(str, sorted(partitions)))}"
            for group, partitions in sorted(found.items())
            if group not in states or not states[group].is_active
        ),
    )


def _leaves_out(settings: FlowSettings, back: FlowSettings, topic: str) -> bool:
    return back.replicates(topic) and not settings.topic_filter.matches(back.copy_of(topic))
