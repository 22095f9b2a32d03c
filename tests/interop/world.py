"""Two clusters, one properties file, and one replicator that keeps to it: Java MirrorMaker 2 or this engine.

The file names the cluster ``primary`` several times over, under an alias for each way to be configured, so that one
process serves every case: each flow has topics and groups of its own, told by the beginning of their names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused, LeaderUnknown
from mirror.lab import mm2, processes
from mirror.lab.processes import ManagedProcess
from mirror.model.checkpoint import Checkpoint
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.brokers.copying import log_of, positions_of
from tests.positions import write_positions

# Java MirrorMaker takes half a minute to start all flows on a busy machine, and seconds to take up a new topic.
PATIENCE_SECONDS = 300.0

# A record that was there before anybody replicated.
OLD = b"old"

# What every flow is told; the intervals are those of upstream's own tests.
COMMON = """
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.topic.acls.enabled = false
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
offset.lag.max = 10
mirror.compatibility = 4.3
backup.offset.flush.interval.ms = 2000
vault.offset.flush.interval.ms = 2000
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
"""

# What each flow is told beside that, by source alias and target alias.
FLOWS: dict[tuple[str, str], str] = {
    ("primary", "backup"): r"""topics = test-.*, .*\.test-.*
        groups = test-.*
        emit.heartbeats.enabled = true
        heartbeats.replication.enabled = true""",
    # Its positions that come home would take a group forward again that went back on purpose.
    ("backup", "primary"): r"""topics = test-.*, .*\.test-.*
        groups = test-.*
        sync.group.offsets.enabled = false
        emit.heartbeats.enabled = true
        heartbeats.replication.enabled = true""",
    ("every", "backup"): "offset.lag.max = 0",
    ("newest", "backup"): "consumer.auto.offset.reset = latest",
    ("located", "backup"): "offset-syncs.topic.location = target",
    ("same", "backup"): "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    ("defaults", "backup"): "use.defaults.from = source",
    ("committed", "backup"): "consumer.isolation.level = read_committed",
    ("unsynced", "silent"): """emit.offset-syncs.enabled = false
        sync.topic.configs.enabled = false""",
    ("sealed", "vault"): "consumer.isolation.level = read_committed",
}
_ON_BACKUP = ("backup", "silent", "vault")


def properties(primary: str, backup: str) -> str:
    """Return the file that both replicators are given."""
    aliases = list(dict.fromkeys(alias for flow in FLOWS for alias in flow))
    lines = [f"clusters = {', '.join(aliases)}", COMMON, "vault.exactly.once.source.support = enabled"]
    lines += [f"{alias}.bootstrap.servers = {backup if alias in _ON_BACKUP else primary}" for alias in aliases]
    for (source, target), more in FLOWS.items():
        own = f"enabled = true\ntopics = {source}-.*\ngroups = {source}-.*\n{more}"
        lines += [f"{source}->{target}.{line.strip()}" for line in own.splitlines() if line.strip()]
    factors = [line for line in FACTORS.splitlines() if not line.startswith("offset-syncs.")]
    # A flow without offset syncs refuses what is said of their topic, also at the top level (CFG-034).
    lines += [
        f"{source}->{target}.offset-syncs.topic.replication.factor = 1"
        for source, target in FLOWS
        if source != "unsynced"
    ]
    return "\n".join([*lines, *factors, ""])


@dataclass
class World:
    """The clusters and whoever replicates between them."""

    engine: str
    directory: Path
    clusters: Mapping[str, Cluster]
    process: ManagedProcess | None = None
    lives: int = 0
    tails: dict[tuple[str, str], LogTail] = field(default_factory=dict)
    seen: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)

    @property
    def is_java(self) -> bool:
        """Whether Java MirrorMaker replicates."""
        return self.engine == "java"

    @property
    def primary(self) -> Cluster:
        """The cluster with most of the sources."""
        return self.clusters["primary"]

    @property
    def backup(self) -> Cluster:
        """The cluster with most of the targets."""
        return self.clusters["backup"]

    @property
    def file(self) -> Path:
        """The properties file."""
        return self.directory / "mirror.properties"

    def client(self, on: str) -> dict[str, str]:
        """Return how clients reach a cluster."""
        return {"bootstrap.servers": self.clusters[on].bootstrap_servers}

    def start(self) -> None:
        """Start the replicator; it is running, not yet replicating."""
        if self.lives == 0:
            # A flow that begins at the end is to find records that were there before it.
            self.send(self.create("newest-records"), 0, [OLD] * 10)
        self.file.write_text(properties(self.primary.bootstrap_servers, self.backup.bootstrap_servers))
        self.lives += 1
        name = f"{self.engine}-{self.lives}"
        if self.is_java:
            self.process = mm2.start(self.directory, self.file, name=name, owner_pid=os.getpid())
        else:
            command = [sys.executable, "-m", "mirror", "run", str(self.file)]
            self.process = processes.start(self.directory, name, command, owner_pid=os.getpid())

    def stop(self) -> None:
        """Tell the replicator to stop, and wait until it has."""
        assert self.process is not None
        assert self.process.terminate(90), self.process.log_tail()
        self.process = None

    def close(self) -> None:
        """Leave nothing behind but the clusters."""
        if self.process is not None:
            self.process.kill()
        for tail in self.tails.values():
            tail.close()

    def until(self, observe: Callable[[], Any], what: str, is_so: Callable[[Any], bool] = bool) -> Any:
        """Wait for something that the replicator brings about, as long as it is alive; return what was seen."""

        def look() -> Any:
            assert self.process is None or self.process.is_alive(), self.process.log_tail(60)
            return observe()

        return wait_until(look, f"{self.engine}: {what}", timeout_seconds=PATIENCE_SECONDS, until=is_so)

    # --- what a case does ---------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, on: str = "primary", **configs: str) -> str:
        """Create a topic whose records stay; configs are written with underscores."""
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
        (made,) = self.clusters[on].create_topics([NewTopic(topic, partitions, 1, settings)])
        assert made.problem is None, made
        return topic

    def send(self, topic: str, partition: int, values: Iterable[bytes], on: str = "primary") -> None:
        """Append records to a partition, in order."""
        producer = confluent_kafka.Producer({**self.client(on), "linger.ms": 1, "enable.idempotence": True})
        for value in values:
            producer.produce(topic, value, b"key", partition=partition)
        assert producer.flush(60) == 0

    def commit(self, group: str, positions: Mapping[tuple[str, int], int], on: str = "primary", text: str = "") -> None:
        """Make a group without members stand at positions."""
        self.groups.add(group)
        wanted = {TopicPartition(*place): GroupPosition(position, text) for place, position in positions.items()}
        written = write_positions(self.clusters[on], group, wanted)
        assert [one for one in written if one.problem is not None] == []

    # --- what a case sees ---------------------------------------------------------------------------------------

    def count(self, topic: str, on: str = "backup") -> list[int] | None:
        """Return how many records each partition of a topic has, None while there is no such topic."""
        cluster = self.clusters[on]
        there = cluster.topics([topic]).get(topic)
        if there is None:
            return None
        ends = cluster.offsets(there.topic_partitions, "latest")
        return [ends.get(each, 0) for each in there.topic_partitions]

    def until_copied(self, topic: str, counts: Sequence[int], on: str = "backup") -> None:
        """Wait until the partitions of a topic end there."""
        wanted = list(counts)
        self.until(lambda: self.count(topic, on), f"{topic} to have {wanted}", lambda seen: seen == wanted)

    def log(self, topic: str, partition: int = 0, on: str = "backup") -> list[Record]:
        """Return the records of a partition."""
        return log_of(self.client(on), TopicPartition(topic, partition))

    def values(self, topic: str, partition: int = 0, on: str = "backup") -> list[bytes | None]:
        """Return the values of a partition's records."""
        return [record.value for record in self.log(topic, partition, on)]

    def side_records(self, topic: str, on: str) -> list[Record]:
        """Return all records that a side topic has ever shown; none while there is no such topic."""
        place = (topic, on)
        if place not in self.tails:
            if topic not in self.clusters[on].topics([topic]):
                return []
            self.tails[place], self.seen[place] = LogTail(self.client(on), topic), []
        # A topic that was just created has a leader before that leader knows of it.
        with suppress(BrokerRefused, LeaderUnknown):
            self.seen[place] += self.tails[place].poll()
        return self.seen[place]

    def checkpoints(self, group: str, source: str = "primary", on: str = "backup") -> list[Checkpoint]:
        """Return all checkpoints of a group in the order they were written."""
        records = self.side_records(f"{source}.checkpoints.internal", on)
        found = [Checkpoint.parse(record.key, record.value) for record in records]
        return [one for one in found if one is not None and one.group == group]

    def last_checkpoint(self, group: str, partition: int = 0, source: str = "primary") -> Checkpoint | None:
        """Return the last checkpoint of a group on a partition."""
        found = [one for one in self.checkpoints(group, source) if one.topic_partition.partition == partition]
        return found[-1] if found else None

    def syncs(self, topic: str, of: str = "backup", on: str = "primary") -> list[OffsetSync]:
        """Return the offset syncs of a source topic in the order they were written."""
        records = self.side_records(f"mm2-offset-syncs.{of}.internal", on)
        found = [OffsetSync.parse(record.key, record.value) for record in records]
        return [one for one in found if one is not None and one.topic_partition.topic == topic]

    def settings(self, topic: str, on: str = "backup") -> dict[str, str | None]:
        """Return what is set on a topic itself."""
        (entries,) = self.clusters[on].topic_configs([topic]).values()
        return {entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"}

    def position(self, group: str, topic: str, partition: int = 0, on: str = "backup") -> int | None:
        """Return where a group stands."""
        found = positions_of(self.clusters[on], group).get(TopicPartition(topic, partition))
        return None if found is None else found.position
