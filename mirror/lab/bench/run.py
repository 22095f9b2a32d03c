"""Run a bench: one filled source cluster, and for every copy a target cluster of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.lab import clusters, mm2, processes
from mirror.lab.bench.figures import Figures, Replicator, Run, Sample, figures_of, order
from mirror.lab.bench.fill import Filling, fill
from mirror.lab.bench.process_tree import ProcessTree
from mirror.lab.clusters import LabCluster
from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

Tell = Callable[[str], None]

_TOPIC = "bench"
_SOURCE = "east"
_LOOK_SECONDS = 0.05
_TELL_SECONDS = 2.0
_START_SECONDS = 120.0
_SLOWEST_RECORDS_PER_SECOND = 2000
_END_SECONDS = 15.0


class BenchFailed(LabError):
    """A replicator did not copy everything; the message shows what it said last."""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is measured: a copy of ``records`` records with values of so many bytes, ``rounds`` times by each."""

    records: int
    value_bytes: int
    partitions: int
    compression: str
    rounds: int


def run_bench(plan: BenchPlan, directory: Path, tell: Tell) -> list[Run]:
    """Measure; whatever happens, everything that was started is ended and the clusters' data are removed.

    Parameters
    ----------
    directory
        empty or not there yet; properties files and logs stay in it.
    tell
        is given a line for people whenever something changes.

    Raises
    ------
    LabError, ClusterError
        with a message that says what did not work.
    """
    directory = directory.absolute()
    runs: list[Run] = []
    with _cluster(directory, _SOURCE, tell) as source:
        _fill(source, plan, tell)
        for number in range(1, plan.rounds + 1):
            for replicator in order(number):
                load_average = os.getloadavg()[0]
                with _cluster(directory, f"west-{replicator}-{number}", tell) as target:
                    figures = _measure(replicator, source, target, plan, directory, tell)
                runs.append(Run(replicator, number, load_average, figures))
    return runs


def properties_text(source: LabCluster, target: LabCluster) -> str:
    """Return an ordinary ``connect-mirror-maker.properties``: defaults, but for what one broker a cluster demands."""
    factors = (
        "replication.factor",
        "offset-syncs.topic.replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset.storage.replication.factor",
        "config.storage.replication.factor",
        "status.storage.replication.factor",
    )
    lines = [
        f"clusters = {source.alias}, {target.alias}",
        f"{source.alias}.bootstrap.servers = {source.bootstrap_servers}",
        f"{target.alias}.bootstrap.servers = {target.bootstrap_servers}",
        f"{source.alias}->{target.alias}.enabled = true",
        f"{source.alias}->{target.alias}.topics = {_TOPIC}",
        "tasks.max = 2",
        *(f"{factor} = 1" for factor in factors),
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def _cluster(directory: Path, alias: str, tell: Tell) -> Iterator[LabCluster]:
    """Have a fresh single-broker cluster while inside."""
    tell(f"starting cluster {alias}")
    cluster = clusters.up(directory, [alias], owner_pid=os.getpid()).clusters[alias]
    try:
        yield cluster
    finally:
        for problem in cluster.shut_down():
            tell(problem)
        cluster.discard()


def _connect(cluster: LabCluster) -> Cluster:
    return Cluster.connect(ClusterSettings(cluster.alias, {"bootstrap.servers": cluster.bootstrap_servers}))


def _fill(source: LabCluster, plan: BenchPlan, tell: Tell) -> None:
    """Make the topic and its records, and see that all are there."""
    with _connect(source) as admin:
        # Retention has no say in a bench, however long it takes.
        for result in admin.create_topics([NewTopic(_TOPIC, plan.partitions, 1, {"retention.ms": "-1"})]):
            if result.problem is not None:
                raise BenchFailed(f"creating {result.item} on {source.alias}: {result.problem}")
        began = time.monotonic()
        filling = Filling(_TOPIC, plan.partitions, plan.records, plan.value_bytes, plan.compression)
        fill(source.bootstrap_servers, filling, tell)
        there = _records_in(admin, _TOPIC, plan.partitions)
        if there != plan.records:
            raise BenchFailed(f"{_TOPIC} on {source.alias} holds {there} records instead of {plan.records}")
        tell(f"filled {plan.records:,} records in {time.monotonic() - began:.1f} s")


def _records_in(admin: Cluster, topic: str, partitions: int) -> int:
    """Return the sum of the end offsets; a topic that is not there yet holds nothing."""
    return sum(admin.offsets([TopicPartition(topic, number) for number in range(partitions)], "latest").values())


def _start(replicator: Replicator, name: str, properties: Path, directory: Path) -> ManagedProcess:
    if replicator is Replicator.MM2:
        return mm2.start(directory, properties, name=name, owner_pid=os.getpid())
    command = [sys.executable, "-m", "mirror", "run", str(properties)]
    # Spark's scratch files and the log of its JVM stay with the other files of the bench.
    return processes.start(directory, name, command, env={"TMPDIR": str(directory)}, owner_pid=os.getpid())


def _measure(
    replicator: Replicator, source: LabCluster, target: LabCluster, plan: BenchPlan, directory: Path, tell: Tell
) -> Figures:
    """Let the replicator copy the topic; return what that took."""
    properties = directory / f"{target.alias}.properties"
    properties.write_text(properties_text(source, target), "utf-8")
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    with _connect(target) as admin:
        tell(f"starting {replicator}")
        began = time.monotonic()
        process = _start(replicator, target.alias, properties, logs)
        try:
            samples = _watch(process, began, admin, plan, lambda said: tell(f"{replicator}: {said}"))
        finally:
            tell(f"ending {replicator}")
            if not process.terminate(_END_SECONDS):
                process.kill()
    return figures_of(samples, plan.records, plan.value_bytes)


def _watch(process: ManagedProcess, began: float, admin: Cluster, plan: BenchPlan, tell: Tell) -> list[Sample]:
    """Look at copy and process until everything is on the target.

    Raises
    ------
    BenchFailed
        if the process ends, or is far too slow.
    """
    samples: list[Sample] = []
    tree = ProcessTree(process.pid)
    tell_at = 0.0

    def look() -> int:
        nonlocal tell_at
        if not process.is_alive():
            raise BenchFailed(f"{process.name} ended during the copy; its last lines:\n{process.log_tail()}")
        copied = _records_in(admin, f"{_SOURCE}.{_TOPIC}", plan.partitions)
        at = time.monotonic() - began
        samples.append(Sample(at, copied, *tree.look()))
        if at >= tell_at or copied >= plan.records:
            tell(f"{copied:,} of {plan.records:,} records after {at:.1f} s")
            tell_at = at + _TELL_SECONDS
        return copied

    allowed = _START_SECONDS + plan.records / _SLOWEST_RECORDS_PER_SECOND
    try:
        wait_until(
            look,
            f"{plan.records} records on {admin.alias}",
            timeout_seconds=allowed,
            until=lambda copied: copied >= plan.records,
            first_pause_seconds=_LOOK_SECONDS,
            longest_pause_seconds=_LOOK_SECONDS,
        )
    except WaitTimeout as late:
        raise BenchFailed(f"{late}; the last lines of {process.name}:\n{process.log_tail()}") from late
    return samples
