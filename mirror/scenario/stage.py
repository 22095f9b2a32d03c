"""The stage of a run: its clusters, replicator and applications, started, stopped and asked.

Everything is a managed process of the run's directory, owned by whoever performs it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from mirror.config.settings import MirrorSettings, load
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.lab import clusters as lab_clusters
from mirror.lab import mm2, processes, spark_cluster
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.lab.spark_cluster import SparkCluster
from mirror.parts import read_rows
from mirror.proof.delivery import GroupReading, Place
from mirror.proof.eras import Replaced
from mirror.scenario.declaration import Group, Load, Replicator, Scenario
from mirror.scenario.disks import SmallDisk
from mirror.scenario.folder import RunFolder
from mirror.scenario.planted import Planted
from mirror.scenario.properties import properties_text
from mirror.scenario.routes import CopyRoute, copy_routes
from mirror.scenario.senders import load_name

_STOP_SECONDS = 20.0
_REPLICATOR, _LOAD, _READERS = "replicator-", "load-", "readers-"


@dataclass(slots=True)
class Stage:
    """One run's clusters and processes, and what was asked of them."""

    folder: RunFolder
    scenario: Scenario
    replicator: Replicator
    seed: int
    disks: dict[str, SmallDisk] = field(default_factory=dict)
    written: dict[Place, None] = field(default_factory=dict)
    read: dict[str, dict[Place, None]] = field(default_factory=dict)
    planted: list[Planted] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    _settings: MirrorSettings | None = None
    _lives: int = 0
    _started: list[ManagedProcess] = field(default_factory=list)

    # Clusters.

    def start_clusters(self) -> None:
        """Start the clusters and create the topics.

        Raises
        ------
        LabError
            if a cluster does not start, or a topic cannot be created.
        """
        for brokers in sorted({site.brokers for site in self.scenario.sites}):
            sites = [site for site in self.scenario.sites if site.brokers == brokers]
            for site in sites:
                if site.disk_megabytes is not None:
                    self.disks[site.alias] = SmallDisk.of(self.folder.lab / site.alias, brokers, site.disk_megabytes)
                    self.disks[site.alias].mount()
            aliases = [site.alias for site in sites]
            linked = self.scenario.linked.intersection(aliases)
            lab_clusters.up(self.folder.lab, aliases, brokers=brokers, owner_pid=os.getpid(), linked=linked)
        direct = {site.alias: self.cluster(site.alias).bootstrap_servers for site in self.scenario.sites}
        over_links = {alias: self.cluster(alias).linked_servers for alias in self.scenario.linked}
        self.folder.direct.write_text(properties_text(self.scenario, direct))
        self.folder.properties.write_text(properties_text(self.scenario, direct | over_links))
        for site in self.scenario.sites:
            with Cluster.connect(self.settings.clusters[site.alias]) as cluster:
                wanted = [
                    NewTopic(topic.name, topic.partitions, topic.replicas or min(3, site.brokers), topic.configs)
                    for topic in self.scenario.topics
                    if site.alias in topic.clusters
                ]
                for result in cluster.create_topics(wanted):
                    if result.problem:
                        raise LabError(f"{site.alias}: the topic {result.item} was not created: {result.problem}")

    def cluster(self, alias: str) -> EmbeddedCluster:
        """Return one cluster."""
        found = lab_clusters.load(self.folder.lab).clusters[alias]
        assert isinstance(found, EmbeddedCluster)
        return found

    @property
    def settings(self) -> MirrorSettings:
        """What the file without links says."""
        if self._settings is None:
            self._settings = load(self.folder.direct)
        return self._settings

    @property
    def own_places(self) -> tuple[Place, ...]:
        """The applications' topics, where they were created."""
        return tuple(Place(alias, topic.name) for topic in self.scenario.topics for alias in topic.clusters)

    def routes(self, sent: Iterable[Place] | None = None) -> tuple[CopyRoute, ...]:
        """Return the routes to the copies of what was written so far, or of other places."""
        return copy_routes(self.settings.flows, self.written if sent is None else sent)

    # The replicator.

    def start_spark(self) -> None:
        """Start the Spark cluster that the engine is to run on, if there is to be one."""
        if self.scenario.spark_workers and self.replicator is Replicator.MIRROR:
            home = self.folder.lab / "spark"
            spark_cluster.up(home, self.scenario.spark_workers, owner_pid=os.getpid())

    @property
    def spark(self) -> SparkCluster | None:
        """The Spark cluster, if there is one."""
        return spark_cluster.load(self.folder.lab / "spark")

    def start_replicator(self) -> ManagedProcess:
        """Start whoever copies."""
        self._lives += 1
        name, file = f"{_REPLICATOR}{self._lives}", self.folder.properties
        if self.replicator is Replicator.MM2:
            return self._known(mm2.start(self.folder.logs, file, name=name, owner_pid=os.getpid()))
        spark = self.spark
        master = ["--master", spark.master_url] if spark else []
        argv = [sys.executable, "-m", "mirror", "run", str(file), *master]
        scratch = self.folder.logs / "spark"
        scratch.mkdir(parents=True, exist_ok=True)
        env = {"TMPDIR": str(scratch)}
        return self._known(processes.start(self.folder.logs, name, argv, env=env, owner_pid=os.getpid()))

    @property
    def replicators(self) -> list[ManagedProcess]:
        """The running replicator, if there is one."""
        return processes.running(self.folder.logs, _REPLICATOR)

    def stop_replicator(self) -> tuple[str, ...]:
        """Stop it with SIGTERM; return its name if it had to be killed."""
        return processes.end(self.replicators, timeout_seconds=_STOP_SECONDS)

    # The applications.

    def start_load(self, load: Load, phase: str, *, rate: float | None = None) -> None:
        """Start producers; ``phase`` keeps their names apart in the ledger."""
        name = load_name(load.cluster, phase)
        argv = [
            *(sys.executable, "-m", "mirror.lab.load", "--cluster", load.cluster, "--name", name),
            *("--bootstrap", self.cluster(load.cluster).bootstrap_servers, "--ledger", str(self.folder.ledger)),
            *("--producers", str(load.producers), "--rate", str(load.rate if rate is None else rate)),
            *("--value-bytes", str(load.value_bytes), "--keys", str(load.keys), "--tombstones", str(load.tombstones)),
            *("--large", str(load.large), "--large-bytes", str(load.large_bytes), "--seed", str(self.seed)),
            *("--transaction-records", str(load.transaction_records), "--aborted-every", str(load.aborted_every)),
            *("--clock-skew-ms", str(round(load.clock_skew_seconds * 1000)), "--message-timeout-ms", "5000"),
            *(part for topic in load.topics for part in ("--topic", topic)),
            *(part for key, value in load.client.items() for part in ("--client-property", f"{key}={value}")),
        ]
        self._known(processes.start(self.folder.logs, f"{_LOAD}{name}", argv, owner_pid=os.getpid()))
        self.written |= {Place(load.cluster, topic): None for topic in load.topics}

    def start_readers(
        self, group: Group, cluster: str, topics: Sequence[str], phase: str, *, members: int | None = None
    ) -> ManagedProcess:
        """Start members of a group on a cluster, reading these topics there."""
        name = f"{group.name}-{cluster}-{phase}"
        argv = [
            *(sys.executable, "-m", "mirror.lab.readers", "--cluster", cluster, "--group", group.name, "--name", name),
            *("--bootstrap", self.cluster(cluster).bootstrap_servers, "--ledger", str(self.folder.ledger)),
            *("--consumers", str(group.members if members is None else members), "--max-rate", str(group.max_rate)),
            *(part for topic in topics for part in ("--topic", topic)),
        ]
        places = self.read.setdefault(group.name, {})
        places |= {Place(cluster, topic): None for topic in topics}
        return self._known(processes.start(self.folder.logs, f"{_READERS}{name}", argv, owner_pid=os.getpid()))

    def require_alive(self) -> None:
        """Refuse to wait for what cannot come.

        Raises
        ------
        LabError
            if something that was started has ended by itself; the message has what it said last.
        """
        for process in self._started:
            if not process.is_alive():
                raise LabError(f"{process.name} has ended before anything was done to it:\n{process.log_tail()}")

    @property
    def readings(self) -> tuple[GroupReading, ...]:
        """What every group was told to read so far, wherever."""
        return tuple(GroupReading(group, tuple(places)) for group, places in self.read.items())

    def stop_loads(self, cluster: str = "") -> tuple[str, ...]:
        """Stop the producers (on one cluster); they wait for what is on the way, and close their ledgers."""
        return self._stop(f"{_LOAD}{cluster}")

    def stop_readers(self) -> tuple[str, ...]:
        """Stop all readers; they commit, leave and close their ledgers."""
        return self._stop(_READERS)

    def stop_member(self, group: Group, phase: str) -> tuple[str, ...]:
        """Stop the members of a group that were started in one phase on its own cluster."""
        return self._stop(f"{_READERS}{group.name}-{group.cluster}-{phase}")

    def sends(self) -> pd.DataFrame:
        """Return the ledger of sends so far."""
        return read_rows(self.folder.ledger / "sends", ["cluster", "topic", "partition", "status", "acked_at_ms"])

    def reads(self) -> pd.DataFrame:
        """Return the ledger of reads so far."""
        return read_rows(self.folder.ledger / "reads", ["cluster", "group", "topic", "partition", "read_at_ms"])

    # The end.

    def tear_down(self) -> tuple[str, ...]:
        """End everything, remove the data of the clusters and keep their logs; return what did not go as it should."""
        problems = list(processes.end(processes.running(self.folder.logs), timeout_seconds=_STOP_SECONDS))
        spark = self.spark
        if spark is not None:
            problems += spark.stop()
        if (self.folder.lab / "lab.json").exists():
            problems += lab_clusters.down(self.folder.lab)
        for disk in self.disks.values():
            disk.unmount()
        for data in self.folder.lab.glob("*/broker-*/data"):
            shutil.rmtree(data, ignore_errors=True)
        return tuple(problems)

    def _known(self, process: ManagedProcess) -> ManagedProcess:
        self._started.append(process)
        return process

    def _stop(self, prefix: str) -> tuple[str, ...]:
        return processes.end(processes.running(self.folder.logs, prefix), timeout_seconds=_STOP_SECONDS)
