"""The stage of a scenario's run: what it declares, started, stopped and asked, and what was asked of it so far."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import bookmarks, mm2, processes, spark_cluster, stage
from mirror.lab import clusters as lab_clusters
from mirror.lab.applications import Group, Load
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.model.flow import Flow
from mirror.proof.delivery import GroupReading, Place
from mirror.proof.eras import Replaced
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.run import FAILOVER
from mirror.scenario.declaration import Replicator, Scenario
from mirror.scenario.disks import SmallDisk
from mirror.scenario.folder import RunFolder
from mirror.scenario.planted import Planted
from mirror.scenario.properties import properties_text
from mirror.scenario.routes import CopyRoute, copy_routes

_STOP_SECONDS = 20.0
_REPLICATOR = "replicator-"


@dataclass(frozen=True, slots=True)
class ScenarioStage(stage.Stage):
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
    _started: list[ManagedProcess] = field(default_factory=list)

    @classmethod
    def of(cls, folder: RunFolder, scenario: Scenario, replicator: Replicator, seed: int) -> ScenarioStage:
        """Return the stage of a run, owned by this process."""
        return cls(
            folder.lab, folder.logs, folder.ledger, os.getpid(), _STOP_SECONDS, folder, scenario, replicator, seed
        )

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
                    self.disks[site.alias] = SmallDisk.of(self.home / site.alias, brokers, site.disk_megabytes)
                    self.disks[site.alias].mount()
            aliases = [site.alias for site in sites]
            linked = self.scenario.linked.intersection(aliases)
            lab_clusters.up(self.home, aliases, brokers=brokers, owner_pid=self.owner_pid, linked=linked)
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
        found = self.lab.clusters[alias]
        assert isinstance(found, EmbeddedCluster)
        return found

    @property
    def settings(self) -> MirrorSettings:
        """What the file without links says."""
        return load(self.folder.direct)

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
            spark_cluster.up(self.spark_home, self.scenario.spark_workers, owner_pid=self.owner_pid)

    def start_replicator(self) -> ManagedProcess:
        """Start whoever copies."""
        before = [process for process in processes.all(self.logs) if process.name.startswith(_REPLICATOR)]
        name, file = f"{_REPLICATOR}{len(before) + 1}", self.folder.properties
        if self.replicator is Replicator.MM2:
            return self._known(mm2.start(self.logs, file, name=name, owner_pid=self.owner_pid))
        scratch = self.logs / "spark"
        scratch.mkdir(parents=True, exist_ok=True)
        return self._known(self.start_engine(name, file, env={"TMPDIR": str(scratch)}))

    @property
    def replicators(self) -> list[ManagedProcess]:
        """The running replicator, if there is one."""
        return self.alive(_REPLICATOR)

    def stop_replicator(self) -> tuple[str, ...]:
        """Stop it with SIGTERM; return its name if it had to be killed."""
        return self.stop(_REPLICATOR)

    # The applications.

    def start_load(self, load: Load, phase: str, seed: int) -> ManagedProcess:
        """Start producers; ``phase`` keeps their names apart in the ledger."""
        started = self._known(stage.Stage.start_load(self, load, phase, seed))
        self.written.update({Place(load.cluster, topic): None for topic in load.topics})
        return started

    def start_readers(self, groups: Sequence[Group], phase: str) -> ManagedProcess:
        """Start the members of groups of one process; on the standby bookmarks are those of the active cluster."""
        for group in groups:
            if group.bookmarks and group.cluster == self.scenario.standby:
                self._carry_bookmarks(group)
        started = self._known(stage.Stage.start_readers(self, groups, phase))
        for group in groups:
            places = self.read.setdefault(group.name, {})
            places.update({Place(group.cluster, topic): None for topic in group.topics})
        return started

    def _carry_bookmarks(self, group: Group) -> None:
        """Have an application go on where it has read on the active cluster, as far as that was copied."""
        file = self.bookmarks_of(group.name, self.scenario.standby)
        if file.exists():
            return
        there = Flow(self.scenario.active, self.scenario.standby)
        read = bookmarks.load(self.bookmarks_of(group.name, self.scenario.active))
        copied = JournalFacts.of(self.folder.path / FAILOVER, there).cut_positions
        bookmarks.save(file, bookmarks.carried_over(read, self.settings.known(there).copy_of, copied))

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
        return self.stop(f"{stage.LOAD}{cluster}")

    def stop_readers(self) -> tuple[str, ...]:
        """Stop all readers; they commit, leave and close their ledgers."""
        return self.stop(stage.READERS)

    def stop_member(self, group: Group, phase: str) -> tuple[str, ...]:
        """Stop the members of a group that were started in one phase on its own cluster."""
        return self.stop(f"{stage.READERS}{group.name}-{group.cluster}-{phase}")

    # The end.

    def tear_down(self) -> tuple[str, ...]:
        """End everything, remove the data of the clusters and keep their logs; return what did not go as it should."""
        problems = list(self.stop(""))
        spark = self.spark
        if spark is not None:
            problems += spark.stop()
        if (self.home / "lab.json").exists():
            problems += lab_clusters.down(self.home)
        for disk in self.disks.values():
            disk.unmount()
        for data in self.home.glob("*/broker-*/data"):
            shutil.rmtree(data, ignore_errors=True)
        return tuple(problems)

    def _known(self, process: ManagedProcess) -> ManagedProcess:
        self._started.append(process)
        return process
