"""What a cluster has that a migration along a flow has not moved: with it the cluster must not be switched off."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster import Cluster
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left, in words for people: groups that were not moved or read again, topics that the flow leaves out."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


def find_remaining(
    settings: FlowSettings, source: Cluster, moved: Collection[str], known: Collection[str] = ()
) -> Remaining:
    """Look what the source of a flow has besides the groups that were ``moved`` and the topics that are copied.

    Topics without records, those of Kafka and of mirrors, and copies of what the target has, are none of them.
    ``known``: groups that it has had, and that it may hide: then they are not listed, and may be there.

    Raises
    ------
    ClusterError
        if it does not answer.
    """
    policy = settings.policy
    listed = {each.group for each in source.groups()}
    described = source.describe_groups(sorted({*listed, *known}))
    names = sorted(listed | described.problems.keys())
    groups = [
        f"group {name} ({described.problems[name]})"
        if name in described.problems
        else f"group {name} ({described[name].state}, {counted(described[name].members, 'member')})"
        for name in names
        if name not in moved or (name in described and described[name].is_active)
    ]
    topics = source.topics()
    left_out = {
        name: topic.topic_partitions
        for name, topic in topics.items()
        if not settings.replicates(name)
        and not policy.is_internal_topic(name)
        and not policy.is_heartbeats_topic(name)
        and policy.topic_source(name) != settings.flow.target
    }
    partitions = [each for of in left_out.values() for each in of]
    starts, ends = source.offsets(partitions, "earliest"), source.offsets(partitions, "latest")

    def describe(each: TopicPartition) -> str | None:
        problem = starts.problems.get(each) or ends.problems.get(each)
        if problem is not None:
            return f"{each} ({problem})"
        count = ends[each] - starts[each]
        return f"{each} ({counted(count, 'offset')}, copied by nobody)" if count else None

    untold = [f"topic {name} ({why})" for name, why in topics.problems.items()]
    return Remaining(tuple(groups), (*untold, *filter(None, map(describe, partitions))))
