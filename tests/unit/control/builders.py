"""Small makers of what the control plane reads: settings, topics, entries, positions."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirror.config.resolving import load
from mirror.config.settings import FlowSettings
from mirror.control.topics import ClusterTopics
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import ConfigEntry, GroupPosition, Partition, Topic
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.translation import NotMirrored, Translation


def flow_settings(*lines: str, flow: str = "east->west") -> FlowSettings:
    """Return the settings of one flow of a properties file with these lines more."""
    text = "\n".join(
        (
            "clusters = east, west",
            "east.bootstrap.servers = east:9092",
            "west.bootstrap.servers = west:9092",
            "east->west.enabled = true",
            "replication.factor = 1",
            "offset-syncs.topic.replication.factor = 1",
            "checkpoints.topic.replication.factor = 1",
            "heartbeats.topic.replication.factor = 1",
            "offset.storage.replication.factor = 1",
            *lines,
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "mirror.properties"
        file.write_text(text)
        return next(each for each in load(file).flows if str(each.flow) == flow)


def topic(name: str, partitions: int = 1) -> Topic:
    """Return a topic whose partitions are all led by broker 1."""
    return Topic(name, "A" * 22, tuple(Partition(number, 1, 0, (1,)) for number in range(partitions)))


def entry(name: str, value: str | None, source: str = "DYNAMIC_TOPIC_CONFIG", **flags: bool) -> ConfigEntry:
    """Return a setting; flags are ``is_read_only`` and ``is_sensitive``."""
    return ConfigEntry(name, value, source, flags.get("is_read_only", False), flags.get("is_sensitive", False))


def cluster(
    alias: str,
    *topics: Topic,
    configs: Mapping[str, Sequence[ConfigEntry]] | None = None,
    unreadable: Mapping[str, str] | None = None,
    brokers: int = 1,
) -> ClusterTopics:
    """Return what a cluster has; topics that ``configs`` leaves out have no settings, unless they are unreadable."""
    problems = dict(unreadable or {})
    known = {each.name: tuple((configs or {}).get(each.name, ())) for each in topics if each.name not in problems}
    return ClusterTopics(alias, {each.name: each for each in topics}, Found(known, problems), brokers)


def at(position: int, metadata: str = "") -> GroupPosition:
    """Return a committed position."""
    return GroupPosition(position, metadata)


class Table:
    """A translator that looks up what it was told; of all else nothing was mirrored."""

    def __init__(self, known: Mapping[tuple[str, int, int], Translation]) -> None:
        self._known = known

    def placements(self) -> tuple[Placement, ...]:
        """Return nothing: no flow in the other direction has put a group anywhere."""
        return ()

    def translate(self, group: str, source: TopicPartition, position: int) -> Translation:
        """Return what was told about (topic, partition, position)."""
        return self._known.get((source.topic, source.partition, position), NotMirrored())
