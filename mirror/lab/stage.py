"""The stage of a run: clusters to practise on, the replicator between them and the applications that use them.

Everything is a managed process of the run's folder of logs and ends with whoever owns it; names of processes say what
they are, so that any process of the run finds what another has started.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mirror.lab import clusters as lab_clusters
from mirror.lab import processes, spark_cluster
from mirror.lab.applications import Deployment, Group, Load, by_process
from mirror.lab.clusters import Lab, LabCluster
from mirror.lab.processes import ManagedProcess
from mirror.lab.service_times import Service, service_times
from mirror.lab.spark_cluster import SparkCluster
from mirror.model.senders import load_name
from mirror.parts import read_rows
from mirror.waiting import WaitTimeout, wait_until

LOAD, READERS = "load-", "readers-"
"""How the names of producers' and of groups' processes begin."""

_READ = ["cluster", "group", "topic", "partition", "read_at_ms"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One run's clusters and processes.

    Attributes
    ----------
    home
        folder of the clusters: their state and data.
    logs
        folder of the processes.
    ledger
        folder of what the applications write down.
    owner_pid
        the process that everything started here ends with; None: it runs until told.
    stop_seconds
        how long a process may take to end before it is killed.
    """

    home: Path
    logs: Path
    ledger: Path
    owner_pid: int | None
    stop_seconds: float

    @property
    def lab(self) -> Lab:
        """The clusters."""
        return lab_clusters.load(self.home, owner_pid=self.owner_pid)

    def cluster(self, alias: str) -> LabCluster:
        """Return one cluster."""
        return self.lab.clusters[alias]

    @property
    def spark_home(self) -> Path:
        """Where a Spark cluster keeps itself, if this run has one."""
        return self.home / "spark"

    @property
    def spark(self) -> SparkCluster | None:
        """The Spark cluster, if there is one."""
        return spark_cluster.load(self.spark_home)

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start a process of the run."""
        return processes.start(self.logs, name, argv, env=env, owner_pid=self.owner_pid)

    def start_engine(
        self, name: str, properties: Path, *, targets: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> ManagedProcess:
        """Start ``mirror run`` for the flows into ``targets`` (none: all), on the Spark cluster if there is one."""
        spark = self.spark
        # Its workers are this machine's and this user's: they have the code, and may see what they are handed.
        usual = ("--spark-conf", "spark.archives=", "--spark-conf", "spark.authenticate=false")
        master = ["--master", spark.master_url, *usual] if spark else []
        near = ["--clusters", *targets] if targets else []
        return self.start(name, [sys.executable, "-m", "mirror", "run", str(properties), *master, *near], env)

    def start_load(self, load: Load, phase: str, seed: int) -> ManagedProcess:
        """Start producers; ``phase`` keeps their names apart in the ledger."""
        name = load_name(load.cluster, phase)
        argv = [
            *(sys.executable, "-m", "mirror.lab.load", "--cluster", load.cluster, "--name", name),
            *("--bootstrap", self.cluster(load.cluster).bootstrap_servers, "--ledger", str(self.ledger)),
            *("--producers", str(load.producers), "--rate", str(load.rate), "--seed", str(seed)),
            *("--value-bytes", str(load.value_bytes), "--keys", str(load.keys), "--tombstones", str(load.tombstones)),
            *("--large", str(load.large), "--large-bytes", str(load.large_bytes)),
            *("--transaction-records", str(load.transaction_records), "--aborted-every", str(load.aborted_every)),
            *("--clock-skew-ms", str(round(load.clock_skew_seconds * 1000))),
            *("--flush-seconds", str(load.flush_seconds)),
            *(part for topic in load.topics for part in ("--topic", topic)),
            *(part for key, value in load.client.items() for part in ("--client-property", f"{key}={value}")),
        ]
        return self.start(f"{LOAD}{name}", argv)

    def start_readers(self, groups: Sequence[Group], phase: str) -> ManagedProcess:
        """Start the members of groups of one process; ``phase`` keeps their names apart in the ledger."""
        first = groups[0]
        name = f"{first.runs_in}-{first.cluster}-{phase}"
        argv = [
            *(sys.executable, "-m", "mirror.lab.readers", "--cluster", first.cluster),
            *("--bootstrap", self.cluster(first.cluster).bootstrap_servers, "--ledger", str(self.ledger)),
            *("--name", name, "--consumers", str(first.members), "--max-rate", str(first.max_rate)),
            *(part for group in groups for part in ("--group", group.name)),
            *(part for topic in first.topics for part in ("--topic", topic)),
            *(("--bookmarks", str(self.bookmarks_of(first.name, first.cluster))) if first.bookmarks else ()),
        ]
        return self.start(f"{READERS}{name}", argv)

    def bookmarks_of(self, group: str, cluster: str) -> Path:
        """Return where an application that keeps its positions itself does so for a cluster."""
        return self.ledger / "bookmarks" / f"{group}-{cluster}.json"

    def start_applications(self, wanted: Deployment) -> None:
        """Start what does not run of the applications on a cluster."""
        for number, load in enumerate(wanted.loads):
            phase = f"{wanted.phase}-{number}" if number else wanted.phase
            fresh = self._fresh(f"{LOAD}{load_name(load.cluster, '')}", phase)
            if fresh is not None:
                self.start_load(load, fresh, wanted.seed)
        for process, groups in by_process(wanted.groups).items():
            fresh = self._fresh(f"{READERS}{process}-{wanted.cluster}-", wanted.phase)
            if fresh is not None:
                self.start_readers(groups, fresh)

    def stop_applications(self, running: Deployment) -> tuple[str, ...]:
        """Stop the applications on a cluster; return the names of the processes that had to be killed."""
        readers = (f"{READERS}{process}-{running.cluster}-" for process in by_process(running.groups))
        loads = [f"{LOAD}{load_name(running.cluster, running.phase)}"] if running.loads else []
        return self.stop(*loads, *readers)

    def _fresh(self, prefix: str, phase: str) -> str | None:
        """Return the phase, numbered if a process of that name was there: a name stands for one ledger.

        None: such a process runs.
        """
        attempt, fresh = 1, phase
        while (found := processes.find(self.logs, f"{prefix}{fresh}")) is not None:
            if found.is_alive():
                return None
            attempt += 1
            fresh = f"{phase}.{attempt}"
        return fresh

    def alive(self, prefix: str = "") -> list[ManagedProcess]:
        """Return the running processes whose name begins with ``prefix``."""
        return processes.running(self.logs, prefix)

    def stop(self, *prefixes: str) -> tuple[str, ...]:
        """Stop processes by name, all at once, with SIGTERM; return the names of those that had to be killed."""
        wanted = [process for prefix in prefixes for process in self.alive(prefix)]
        return processes.end(wanted, timeout_seconds=self.stop_seconds)

    def sends(self, alias: str = "") -> pd.DataFrame:
        """Return the ledger of sends so far (to one cluster): one row a send."""
        columns = ["cluster", "topic", "partition", "status", "acked_at_ms"]
        return read_rows(self.ledger / "sends", columns, f"{alias}-*" if alias else "*")

    def reads(self, alias: str = "") -> pd.DataFrame:
        """Return the ledger of reads so far (on one cluster): one row a record read."""
        return read_rows(self.ledger / "reads", _READ, f"*-{alias}-*" if alias else "*")

    def acked(self, alias: str) -> int:
        """Return how many records a cluster has acknowledged so far, by the ledger."""
        sends = self.sends(alias)
        return int(((sends.cluster == alias) & (sends.status == "acked")).sum())

    def await_service(
        self, alias: str, topics: Collection[str], groups: Collection[str], *, since_ms: int, seconds: float
    ) -> Service:
        """Wait for the first write on a cluster, and for every group to read there what was written there.

        Returns what has come about when the time is over. ``topics`` are the cluster's own: copies in them are not new.
        """
        latest = Service(None, {})

        def look() -> Service:
            nonlocal latest
            # Where no group is waited for the ledger of reads, by far the larger, is not read.
            reads = self.reads(alias) if groups else pd.DataFrame(columns=_READ)
            latest = service_times(self.sends(alias), reads, alias, topics, groups, since_ms=since_ms)
            return latest

        with suppress(WaitTimeout):
            wait_until(look, f"service on {alias}", timeout_seconds=seconds, until=lambda service: service.is_complete)
        return latest

    def await_read(self, alias: str, group: str, *, since_ms: int, seconds: float) -> int | None:
        """Wait until a group has read anything on a cluster since then; return when it first did, None: it has not."""

        def look() -> int | None:
            reads = self.reads(alias)
            found = reads[(reads.group == group) & (reads.read_at_ms >= since_ms)].read_at_ms
            return int(found.min()) if len(found) else None

        with suppress(WaitTimeout):
            what = f"group {group} to read on {alias}"
            return wait_until(look, what, timeout_seconds=seconds, until=lambda at_ms: at_ms is not None)
        return None
