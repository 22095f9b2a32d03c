"""The stage of a drill: clusters, replicator and applications of one run, as any of its notebooks finds them.

Everything runs as a managed process of the run directory, owned by whoever runs the runbook: a notebook's kernel may
end, what it started goes on, and when the owner ends nothing is left behind.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import pandas as pd

from mirror.config.settings import FlowSettings, MirrorSettings, load
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import clusters as lab_clusters
from mirror.lab import processes, spark_cluster
from mirror.lab.clusters import Lab, LabCluster
from mirror.lab.processes import ManagedProcess
from mirror.model.flow import Flow
from mirror.parts import read_rows
from mirror.proof.service import ask
from mirror.waiting import wait_until

P = ParamSpec("P")
T = TypeVar("T")

ACTIVE, STANDBY = "east", "west"
TOPICS = ("orders", "payments")
GROUPS = ("billing", "audit")
FORWARD, REVERSE = Flow(ACTIVE, STANDBY), Flow(STANDBY, ACTIVE)

REPLICATOR, LAG_SAMPLER, JUDGES = "mirror", "lag-sampler", "judges"
_STOP_SECONDS = 60.0
# How much longer than it should records may take to be acknowledged.
_LATE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One run's clusters and processes."""

    run: RunDirectory

    @classmethod
    def open(cls, run_directory: str | Path) -> Stage:
        """Return the stage of a run.

        Raises
        ------
        NotARunDirectory
            if there is no run.
        """
        return cls(RunDirectory.open(run_directory))

    @property
    def owner_pid(self) -> int | None:
        """The process that everything started here ends with; None when a person steps through the notebooks alone."""
        pid = os.environ.get("MIRROR_OWNER_PID")
        return int(pid) if pid else None

    @property
    def lab(self) -> Lab:
        """The clusters."""
        return lab_clusters.load(self.run.lab)

    def cluster(self, alias: str) -> LabCluster:
        """Return one cluster."""
        return self.lab.clusters[alias]

    @property
    def settings(self) -> MirrorSettings:
        """What the run's properties file says."""
        return load(self.run.mirror_properties)

    def flow(self, flow: Flow) -> FlowSettings:
        """Return the settings of one flow."""
        return next(each for each in self.settings.flows if each.flow == flow)

    def remote(self, topic: str, flow: Flow = FORWARD) -> str:
        """Return the name of a topic's copy on the flow's target."""
        return self.flow(flow).copy_of(topic)

    @property
    def spark_home(self) -> Path:
        """Where a Spark cluster keeps itself, if this run has one."""
        return self.run.lab / "spark"

    def start_replicator(self, targets: Sequence[str]) -> ManagedProcess:
        """Start ``mirror run`` for the flows into ``targets``."""
        spark = spark_cluster.load(self.spark_home)
        master = ["--master", spark.master_url] if spark else []
        argv = [sys.executable, "-m", "mirror", "run", str(self.run.mirror_properties), *master, "--clusters", *targets]
        return self._start(REPLICATOR, argv)

    def start_lag_sampler(self) -> ManagedProcess:
        """Start sampling lag into the run directory."""
        argv = [sys.executable, "-m", "mirror.drill.lag", str(self.run.mirror_properties), str(self.run.lag)]
        return self._start(LAG_SAMPLER, argv)

    def start_judges(self) -> ManagedProcess:
        """Start the process that judges, so that it is warm by the time it is asked."""
        self._judges_address.unlink(missing_ok=True)
        return self._start(JUDGES, [sys.executable, "-m", "mirror.proof.service", str(self._judges_address)])

    def judge(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a judging function, which only reads, in the process that judges; without one, here: it takes longer."""
        listens = wait_until(
            lambda: self._judges_address.exists() if self.alive(JUDGES) else None,
            "the process that judges to listen, or to end",
            timeout_seconds=math.inf,
            until=lambda listens: listens is not False,
        )
        return ask(self._judges_address, function, *args, **kwargs) if listens else function(*args, **kwargs)

    @property
    def _judges_address(self) -> Path:
        return self.run.logs / "judges-address.json"

    def start_load(self, alias: str, phase: str, *, rate: float, seed: int, value_bytes: int) -> ManagedProcess:
        """Start the producers of the applications on a cluster; ``phase`` keeps their names apart in the ledger."""
        name = f"load-{alias}-{phase}"
        argv = [
            *(sys.executable, "-m", "mirror.lab.load", "--bootstrap", self.cluster(alias).bootstrap_servers),
            *("--cluster", alias, "--name", f"{alias}-{phase}", "--producers", "2", "--rate", str(rate)),
            *("--value-bytes", str(value_bytes), "--tombstones", "0.02", "--seed", str(seed)),
            # What applications usually set: records of some milliseconds go out together.
            *("--client-property", "linger.ms=50"),
            # On a busy machine brokers may be silent for seconds: a client that gives up meanwhile, and goes on behind
            # what it gave up, sends records twice.
            *("--message-timeout-ms", "30000", "--flush-seconds", "1.5", "--ledger", str(self.run.ledger)),
            *(part for topic in TOPICS for part in ("--topic", topic)),
        ]
        process = self._start(name, argv)
        self.run.journal.append(Event.LOAD_STARTED, facts={"cluster": alias, "rate_per_second": rate})
        return process

    def start_readers(self, alias: str, phase: str, topics: Sequence[str], max_rate: Mapping[str, float]) -> None:
        """Start every group's readers on a cluster; ``max_rate`` (records/s) keeps a group behind on purpose."""
        for group in GROUPS:
            argv = [
                *(sys.executable, "-m", "mirror.lab.readers", "--bootstrap", self.cluster(alias).bootstrap_servers),
                *("--cluster", alias, "--group", group, "--name", f"{group}-{alias}-{phase}"),
                *("--max-rate", str(max_rate.get(group, 0)), "--ledger", str(self.run.ledger)),
                *(part for topic in topics for part in ("--topic", topic)),
            ]
            self._start(f"readers-{group}-{alias}-{phase}", argv)

    def alive(self, prefix: str = "") -> list[ManagedProcess]:
        """Return the running processes whose name begins with ``prefix``."""
        return processes.running(self.run.logs, prefix)

    def stop(self, *prefixes: str) -> tuple[str, ...]:
        """Stop processes by name, all at once, with SIGTERM; return the names of those that had to be killed."""
        wanted = [process for prefix in prefixes for process in self.alive(prefix)]
        return processes.end(wanted, timeout_seconds=_STOP_SECONDS)

    def sends(self) -> pd.DataFrame:
        """Return the ledger of sends so far: one row a send."""
        return read_rows(self.run.ledger / "sends", ["cluster", "topic", "partition", "status", "acked_at_ms"])

    def reads(self) -> pd.DataFrame:
        """Return the ledger of reads so far: one row a record read."""
        return read_rows(self.run.ledger / "reads", ["cluster", "group", "topic", "partition", "read_at_ms"])

    def acked(self, alias: str) -> int:
        """Return how many records a cluster has acknowledged so far, by the ledger."""
        sends = self.sends()
        return int(((sends.cluster == alias) & (sends.status == "acked")).sum())

    def wait_for_load(self, alias: str, *, rate: float, seconds: float) -> int:
        """Wait until a cluster has acknowledged as much more as ``seconds`` of load bring; return how much that was."""
        before, more = self.acked(alias), int(rate * seconds)
        what = f"{more} more acknowledged records on {alias}"
        seen = wait_until(
            lambda: self.acked(alias),
            what,
            timeout_seconds=seconds + _LATE_SECONDS,
            until=lambda acked: acked >= before + more,
        )
        return seen - before

    def _start(self, name: str, argv: Sequence[str]) -> ManagedProcess:
        return processes.start(self.run.logs, name, argv, owner_pid=self.owner_pid)
