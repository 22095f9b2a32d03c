"""What tells that a flow has run before, where its state topic does not: what lies in the topics that it writes to."""

from __future__ import annotations

from collections.abc import Iterable

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import LeaderUnknown
from mirror.model.partition import TopicPartition


def has_run_before(settings: FlowSettings, source: Cluster, target: Cluster) -> bool:
    """Tell whether an engine has run the flow before, by what it has left in topics that nobody else writes to.

    Raises
    ------
    LeaderUnknown
        if that is not known, because nobody can be asked about some of them and the others are empty.
    """
    if settings.config_storage_topic in target.topics([settings.config_storage_topic]):
        # They may be Java MirrorMaker's.
        return False
    topics = [name for name in source.topics() if settings.replicates(name) and settings.is_alone(name)]
    written = {settings.offset_storage_topic, settings.checkpoints_topic, *map(settings.copy_of, topics)}
    if settings.offset_syncs_location == "target":
        # On the source it is named after the target alone, and flows of other aliases share it.
        written.add(settings.offset_syncs_topic)
    return _holds_anything(settings, target, written)


def has_shared_copies(settings: FlowSettings, source: Cluster, target: Cluster) -> bool:
    """Tell whether anything lies in topics that the flow copies to and others may write to as well.

    That alone does not say that the flow has run. Java MirrorMaker's copies are looked up in any case.

    Raises
    ------
    LeaderUnknown
        as :func:`has_run_before`.
    """
    if settings.config_storage_topic in target.topics([settings.config_storage_topic]):
        return False
    shared = (name for name in source.topics() if settings.replicates(name) and not settings.is_alone(name))
    return _holds_anything(settings, target, map(settings.copy_of, shared))


def _holds_anything(settings: FlowSettings, target: Cluster, topics: Iterable[str]) -> bool:
    """Tell whether anything was ever written to one of these topics on the target."""
    found = target.topics(sorted(set(topics)))
    partitions = [TopicPartition(name, each.partition) for name, topic in found.items() for each in topic.partitions]
    ends = target.offsets(partitions, "latest")
    if any(ends.values()):
        return True
    for partition, why in ends.problems.items():
        raise LeaderUnknown(
            f"whether the flow has run before is not known: {partition} on {settings.flow.target}: {why}"
        )
    return False
