"""What a cluster knows of the flows into it: hops, upstream clusters, remote topics, positions of groups translated.

The Python form of Kafka's ``MirrorClient`` and ``RemoteClusterUtils`` (KIP-382, section 4 of the inventory), for
applications and scripts that fail over. It reads topic names, and the checkpoints and heartbeats that Java
MirrorMaker 2 and this engine leave on a **target** cluster; it writes nothing, and needs no running replicator.

One question:

>>> translate_offsets({"bootstrap.servers": "west:9092"}, "east", "billing")  # doctest: +SKIP

Several questions over one connection:

>>> with MirrorClient.of_file(Path("mm2.properties"), "west") as client:  # doctest: +SKIP
...     client.replication_hops("east")
...     client.remote_consumer_offsets("billing", "east")

Where Java says nothing, this does: an answer that is not whole because time was up is an exception, `PartialAnswer`,
which holds what was read; that a cluster has no checkpoints from the one asked about is `NoCheckpoints`; records that
are no checkpoints are counted. A deadline bounds the reading; a broker that does not answer at all is waited for some
seconds longer and then told as a `KafkaProblem`, which is above all that a cluster or a connection raises.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from mirror.config.mirror_client import MirrorClientSettings
from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.log import LogReader, decoded
from mirror.kafka.problems import AccessDenied, KafkaProblem
from mirror.model.checkpoint import Checkpoint
from mirror.model.java_regex import compile_java
from mirror.model.partition import TopicPartition
from mirror.model.topics import ReplicationPolicy

__all__ = [
    "GroupPosition",
    "KafkaProblem",
    "MirrorClient",
    "NoCheckpoints",
    "Offsets",
    "PartialAnswer",
    "PositionsByPartition",
    "Reading",
    "TopicPartition",
    "checkpoint_topics",
    "heartbeat_topics",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "translate_offsets_of_groups",
    "upstream_clusters",
]

DEFAULT_TIMEOUT_SECONDS = 30.0
_LONGEST_WAIT_MS = 500

K = TypeVar("K")
V = TypeVar("V")

# Where a group goes on, by partition of the target, each with the text committed with it (CKP-08).
PositionsByPartition: TypeAlias = dict[TopicPartition, GroupPosition]


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a checkpoints topic an answer rests on.

    Attributes
    ----------
    topic
        the checkpoints topic; it has one partition.
    read_to, end
        the offset up to which it was read, and where it ended when reading began.
    unreadable
        how many of the records read are no checkpoints.
    """

    topic: str
    read_to: int
    end: int
    unreadable: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything there was has been read."""
        return self.read_to >= self.end


class Offsets(dict[K, V]):
    """Translated positions, as a dict, and beside them what they were read from."""

    def __init__(self, answers: Mapping[K, V], reading: Reading) -> None:
        super().__init__(answers)
        self.reading = reading

    def __repr__(self) -> str:
        """Show both."""
        return f"Offsets({super().__repr__()}, reading={self.reading!r})"


class PartialAnswer(TimeoutError):
    """Time was up before the checkpoints were read to their end: positions may be missing, or older than the last.

    Attributes
    ----------
    found
        what had been read by then: what Java returns as if it were all (API-07).
    """

    def __init__(self, cluster: str, found: Offsets[Any, Any], timeout_seconds: float) -> None:
        reading = found.reading
        super().__init__(
            f"cluster {cluster}: {reading.topic} was read up to offset {reading.read_to} of {reading.end} within "
            f"{timeout_seconds:g} s; give it more time, or take what was found as incomplete"
        )
        self.found = found


class NoCheckpoints(LookupError):
    """A cluster has no checkpoints topic of the cluster asked about."""

    def __init__(self, cluster: str, topic: str, there: frozenset[str]) -> None:
        known = f"there are {', '.join(sorted(there))}" if there else "there is none of any cluster"
        super().__init__(
            f"cluster {cluster} has no topic {topic}; {known}. Is this the target of the flow, the alias that of its "
            "source, and replication.policy.separator that of the flow?"
        )
        self.topic = topic


class MirrorClient:
    """Questions to one cluster, over one connection; to be closed, or used as a context manager.

    Made by `connect` or `of_file`.
    """

    def __init__(self, settings: MirrorClientSettings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster

    @classmethod
    def connect(cls, properties: Mapping[str, str], *, timeout_seconds: float = 10.0) -> Self:
        """Connect to the cluster of ``properties``, the keys of Java's ``MirrorClientConfig``.

        Parameters
        ----------
        properties
            ``bootstrap.servers``, ``security.protocol``, ``ssl.*``, ``sasl.*``, ``replication.policy.*``; with
            ``admin.`` or ``consumer.`` before it, a connection or security key is for that client only
        timeout_seconds
            how long connecting may take, and about how long each later question about topics

        Raises
        ------
        ConfigError, UnsupportedSetting
            for properties that cannot be used.
        ClusterError
            if the cluster cannot be reached.
        """
        return cls._of(MirrorClientSettings.of(properties), timeout_seconds)

    @classmethod
    def of_file(cls, path: Path, alias: str, *, timeout_seconds: float = 10.0) -> Self:
        """Connect to the cluster ``alias`` of a ``connect-mirror-maker.properties``.

        Raises
        ------
        ConfigError, UnsupportedSetting, ClusterError
            as `connect`.
        """
        return cls._of(MirrorClientSettings.of_file(path, alias), timeout_seconds)

    @classmethod
    def _of(cls, settings: MirrorClientSettings, timeout_seconds: float) -> Self:
        cluster = ClusterSettings(settings.alias, settings.admin)
        return cls(settings, Cluster.connect(cluster, timeout_seconds=timeout_seconds))

    def close(self) -> None:
        """Close the connection."""
        self._cluster.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """The naming convention in use (API-09)."""
        return self._settings.policy

    def replication_hops(self, upstream: str) -> int | None:
        """Return over how many flows, at least, heartbeats of cluster ``upstream`` come here (API-01).

        None if none do, where Java says -1. Heartbeat topics outlive their flow: that there is a way does not say that
        it works now.

        Raises
        ------
        ClusterError
            if the cluster does not answer.
        """
        ways = (list(_sources(topic, self._settings.policy)) for topic in self.heartbeat_topics())
        return min((way.index(upstream) + 1 for way in ways if upstream in way), default=None)

    def heartbeat_topics(self) -> frozenset[str]:
        """Return the heartbeats topics: this cluster's own, and those mirrored to it (API-02).

        Raises
        ------
        ClusterError
            if the cluster does not answer.
        """
        return self._topics(self._settings.policy.is_heartbeats_topic)

    def checkpoint_topics(self) -> frozenset[str]:
        """Return the checkpoints topics (API-03).

        Raises
        ------
        ClusterError
            if the cluster does not answer.
        """
        return self._topics(self._settings.policy.is_checkpoints_topic)

    def upstream_clusters(self) -> frozenset[str]:
        """Return the clusters whose heartbeats come here, over any number of flows (API-04).

        Raises
        ------
        ClusterError
            if the cluster does not answer.
        """
        policy = self._settings.policy
        return frozenset(source for topic in self.heartbeat_topics() for source in _sources(topic, policy))

    def remote_topics(self, source: str | None = None) -> frozenset[str]:
        """Return the topics that are copies by their name, all of them or those of cluster ``source`` (API-05, API-06).

        The name alone counts: with the Default policy every topic with a separator in it is one, with the Identity
        policy and a ``source.cluster.alias`` every topic but the heartbeats.

        Raises
        ------
        ClusterError
            if the cluster does not answer.
        """
        policy = self._settings.policy

        def is_remote(topic: str) -> bool:
            origin = policy.topic_source(topic)
            return not policy.is_internal_topic(topic) and origin is not None and source in (None, origin)

        return self._topics(is_remote)

    def remote_consumer_offsets(
        self, group: str, remote_alias: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Offsets[TopicPartition, GroupPosition]:
        """Return where ``group`` of cluster ``remote_alias`` goes on here, by partition of this cluster (API-07).

        The last checkpoint of each partition counts; there are none for a group nobody knows.

        Raises
        ------
        PartialAnswer
            if time was up before all checkpoints were read.
        NoCheckpoints
            if this cluster has no checkpoints of that one.
        KafkaProblem
            if the cluster does not answer, or refuses, or what it sends cannot be read.
        """
        found, reading = self._read(remote_alias, lambda name: name == group, timeout_seconds)
        return self._answer(found.get(group, {}), reading, timeout_seconds)

    def remote_consumer_offsets_of_groups(
        self, pattern: str, remote_alias: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Offsets[str, PositionsByPartition]:
        """Return the same for every group whose whole id matches a regular expression in Java's dialect (API-08).

        Raises
        ------
        PatternError
            if ``pattern`` is none, or cannot be carried over exactly.
        PartialAnswer, NoCheckpoints, KafkaProblem
            as `remote_consumer_offsets`.
        """
        compiled = compile_java(pattern)
        found, reading = self._read(remote_alias, lambda name: compiled.fullmatch(name) is not None, timeout_seconds)
        return self._answer(found, reading, timeout_seconds)

    def _answer(self, found: Mapping[K, V], reading: Reading, timeout_seconds: float) -> Offsets[K, V]:
        answer = Offsets(found, reading)
        if not reading.is_whole:
            raise PartialAnswer(self._settings.alias, answer, timeout_seconds)
        return answer

    def _topics(self, is_wanted: Callable[[str], bool]) -> frozenset[str]:
        return frozenset(filter(is_wanted, self._cluster.topics()))

    def _read(
        self, remote_alias: str, is_wanted: Callable[[str], bool], timeout_seconds: float
    ) -> tuple[dict[str, PositionsByPartition], Reading]:
        """Read the checkpoints of a cluster up to their present end, or until time is up."""
        deadline = time.monotonic() + timeout_seconds
        topic = self._settings.policy.checkpoints_topic(remote_alias)
        there = self._cluster.topics([topic])
        for problem in there.problems.values():
            raise AccessDenied(self._settings.alias, f"reading {topic}", problem)
        if topic not in there:
            raise NoCheckpoints(self._settings.alias, topic, self.checkpoint_topics())
        found: dict[str, PositionsByPartition] = defaultdict(dict)
        partition, unreadable = TopicPartition(topic, 0), 0
        with closing(Channel(self._settings.alias, self._settings.consumer)) as channel:
            reader = LogReader(channel, partition, channel.offsets([partition], EARLIEST)[partition])
            # Checkpoints of a transaction that is still open, or was aborted, are none.
            end = channel.offsets([partition], LATEST, View.STABLE)[partition]
            while reader.position < end and (left := deadline - time.monotonic()) > 0:
                wait_ms = min(_LONGEST_WAIT_MS, int(left * 1000))
                for content, _ in reader.fetch(wait_ms, read_committed=True):
                    for record in decoded(channel, partition, content):
                        checkpoint = Checkpoint.parse(record.key, record.value)
                        if checkpoint is None:
                            unreadable += 1
                        elif is_wanted(checkpoint.group):
                            position = GroupPosition(checkpoint.downstream, checkpoint.metadata)
                            found[checkpoint.group][checkpoint.topic_partition] = position
            return dict(found), Reading(topic, min(reader.position, end), end, unreadable)


def replication_hops(properties: Mapping[str, str], upstream: str) -> int | None:
    """Ask `MirrorClient.replication_hops` of the cluster of ``properties`` (API-01, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.replication_hops(upstream)


def heartbeat_topics(properties: Mapping[str, str]) -> frozenset[str]:
    """Ask `MirrorClient.heartbeat_topics` of the cluster of ``properties`` (API-02, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: Mapping[str, str]) -> frozenset[str]:
    """Ask `MirrorClient.checkpoint_topics` of the cluster of ``properties`` (API-03, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: Mapping[str, str]) -> frozenset[str]:
    """Ask `MirrorClient.upstream_clusters` of the cluster of ``properties`` (API-04, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.upstream_clusters()


def remote_topics(properties: Mapping[str, str], source: str | None = None) -> frozenset[str]:
    """Ask `MirrorClient.remote_topics` of the cluster of ``properties`` (API-05, API-06, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.remote_topics(source)


def translate_offsets(
    properties: Mapping[str, str],
    remote_alias: str,
    group: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Offsets[TopicPartition, GroupPosition]:
    """Ask `MirrorClient.remote_consumer_offsets` of the cluster of ``properties`` (API-07, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.remote_consumer_offsets(group, remote_alias, timeout_seconds=timeout_seconds)


def translate_offsets_of_groups(
    properties: Mapping[str, str],
    remote_alias: str,
    pattern: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Offsets[str, PositionsByPartition]:
    """Ask `MirrorClient.remote_consumer_offsets_of_groups` of the cluster of ``properties`` (API-08, API-10)."""
    with MirrorClient.connect(properties) as client:
        return client.remote_consumer_offsets_of_groups(pattern, remote_alias, timeout_seconds=timeout_seconds)


def _sources(topic: str, policy: ReplicationPolicy) -> Iterator[str]:
    """Yield the clusters that ``topic`` has come from, the nearest first; a repeated one ends it (API-10)."""
    seen: set[str] = set()
    name: str | None = topic
    while name is not None and (source := policy.topic_source(name)) is not None and source not in seen:
        yield source
        seen.add(source)
        name = policy.upstream_topic(name)
