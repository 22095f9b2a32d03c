"""Topics, their settings and consumer groups, as a cluster describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the cluster's metadata tells it; ``leader`` is -1 while it has none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; ``topic_id`` in Kafka's own spelling (22 characters, all A on clusters that know no topic ids)."""

    name: str
    topic_id: str
    partitions: tuple[Partition, ...]
    is_internal: bool = False

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """The addresses of its partitions, in order."""
        return tuple(TopicPartition(self.name, partition.partition) for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic or broker; ``source`` in Kafka's words: ``DYNAMIC_TOPIC_CONFIG``, ``DEFAULT_CONFIG``, …"""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether nobody set it: the value is the one built into the broker."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; a replication factor of -1 leaves it to the cluster."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What to change in one topic's settings; a deleted setting falls back to the cluster's default."""

    set: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()


_UNMIRRORED_KINDS = {"share": "share groups (KIP-932)", "streams": "streams groups (KIP-1071)"}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of the list; ``protocol_type`` is ``consumer`` for consumers, empty for who only commits."""

    group: str
    protocol_type: str
    state: str
    group_type: str

    @property
    def is_consumer_group(self) -> bool:
        """Whether its positions are those of consumers (GOS-09): no Connect workers, no share or streams groups."""
        return self.protocol_type in ("consumer", "") and self.group_type.lower() in ("", "classic", "consumer")

    @property
    def unmirrored_kind(self) -> str | None:
        """Return of which kind it is, in words, if that has a state that no checkpoint holds (GOS-09)."""
        return _UNMIRRORED_KINDS.get(self.group_type.lower())


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """State and number of members; of a group of the new protocol the number is only known to be 0 or at least 1.

    ``is_share``: whether it is a share group (KIP-932), which takes no positions.
    """

    state: str
    members: int
    is_share: bool = False

    @property
    def is_active(self) -> bool:
        """Whether somebody is in the group, or just joining or leaving, so that its positions are not ours to write."""
        return self.members > 0 or self.state not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's position in one partition and the text committed with it.

    ``leader_epoch`` is that of the last record that was read, as consumers commit it (KIP-320); -1 where it was not
    told: by tools that set positions, by mirrors, and by older clients.
    """

    position: int
    metadata: str = ""
    leader_epoch: int = field(default=-1, compare=False)


class _ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


def config_entries(result: Any) -> tuple[ConfigEntry, ...]:
    """Return what one result of a response to DescribeConfigs says."""
    return tuple(
        ConfigEntry(
            entry.name,
            entry.value,
            _config_source(entry.config_source),
            bool(entry.read_only),
            bool(entry.is_sensitive),
        )
        for entry in result.configs
    )


def _config_source(number: int) -> str:
    try:
        return _ConfigSource(number).name
    except ValueError:
        return _ConfigSource.UNKNOWN.name
