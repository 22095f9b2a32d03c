"""Run a bench: one filled source cluster, and for every turn of a contender a target cluster of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mirror.bench.contenders import Contender, order
from mirror.bench.cores import SHARED, Cores, kept_to
from mirror.bench.figures import RATE, Run, Sample, copy_figures, latency_figures
from mirror.bench.fill import fill
from mirror.bench.latency import LatencyMeter, Route
from mirror.bench.process_tree import ProcessTree
from mirror.bench.programs import properties_text, start_floor, start_replicator
from mirror.bench.replay import read_raw, replay
from mirror.bench.shapes import Shape
from mirror.config.settings import ClusterSettings
from mirror.display import Display
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.problems import KafkaProblem
from mirror.lab import clusters
from mirror.lab.clusters import LabCluster
from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_TOPIC = "bench"
_WARM_TOPIC = "warm-up"
_SOURCE = "east"
_WARM_BYTES = 128 << 20
_WARM_BATCHES = 40_000
_LOOK_SECONDS = 0.05
_START_SECONDS = 120.0
_SLOWEST_RECORDS_PER_SECOND = 2000
_TOPIC_SECONDS = 60.0
_END_SECONDS = 15.0
# Some batches at the ends of partitions may be smaller; fewer on average would be another shape.
_BATCH_TOLERANCE = 0.95


class BenchFailed(LabError):
    """A contender did not do all it was to do; the message shows what it said last."""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is measured.

    Attributes
    ----------
    rates
        records a second at which latency is measured, for ``latency_seconds`` each; none: it is not measured.
    cores
        which the target broker has to itself, if any.
    """

    shape: Shape
    contenders: tuple[Contender, ...]
    rounds: int
    rates: tuple[int, ...]
    latency_seconds: float
    cores: Cores = SHARED

    @property
    def measures_latency(self) -> bool:
        """Whether latency is measured at all."""
        return bool(self.rates)

    def turns(self) -> Iterator[tuple[int, Contender]]:
        """Yield (round, contender) of whoever has something to be measured, in the order in which they run."""
        able = tuple(each for each in self.contenders if each.copies or self.measures_latency)
        for number in range(1, self.rounds + 1):
            yield from ((number, contender) for contender in order(number, able))


def run_bench(plan: BenchPlan, directory: Path, display: Display) -> Generator[Run]:
    """Yield what each turn came to; whatever happens, everything that was started is ended and data are removed.

    Parameters
    ----------
    directory
        empty or not there yet; properties files and logs stay in it.
    display
        shows each turn: what it is at, and what came of it.

    Raises
    ------
    LabError, ClusterError
        with a message that says what did not work; what was yielded before stands.
    """
    directory = directory.absolute()
    with kept_to(plan.cores.others), _cluster(directory, _SOURCE, display) as source:
        _fill(source, plan.shape, display)
        for number, contender in plan.turns():
            yield _Turn(plan, directory, source, contender, number, display).run()


@dataclass(frozen=True, slots=True)
class _Turn:
    """One contender's turn in a round."""

    plan: BenchPlan
    directory: Path
    source: LabCluster
    contender: Contender
    round: int
    display: Display

    @property
    def _name(self) -> str:
        return f"{self.contender}-{self.round}"

    @property
    def _title(self) -> str:
        return f"{self.contender}, round {self.round}"

    @property
    def _latency_topic(self) -> str:
        """A topic of its own, so that nobody copies what was written for another."""
        return f"latency-{self._name}"

    def run(self) -> Run:
        """Measure it."""
        self._at("starting")
        if self.plan.measures_latency and self.contender.has_latency:
            _create(self.source, self._latency_topic, self.plan.shape.partitions)
        if self.contender is Contender.NO_MIRROR:
            load_average = os.getloadavg()[0]
            figures = self._latency(self.source.bootstrap_servers, self._latency_topic, None)
        else:
            with _cluster(self.directory, f"west-{self._name}", self.display, self.plan.cores.target) as target:
                self._warm(target)
                load_average = os.getloadavg()[0]
                figures = self._measure(target)
        rate = figures.get(RATE)
        self.display.end(self._title, "done" if rate is None else f"{rate:,.0f} records/s")
        return Run(self.contender, self.round, load_average, figures)

    def _warm(self, target: LabCluster) -> None:
        """Replay some of the records to another topic: the rate is to be that of brokers that have worked before.

        Written pages go to disk before the clock starts, those of removed clusters too.
        """
        shape = self.plan.shape
        with _kafka_failures():
            raw = read_raw(
                self.source.bootstrap_servers,
                _TOPIC,
                shape.partitions,
                most_bytes=_WARM_BYTES,
                most_batches=_WARM_BATCHES,
            )
            if raw.records_per_batch < _BATCH_TOLERANCE * shape.records_per_batch:
                raise BenchFailed(
                    f"batches on {_SOURCE} hold {raw.records_per_batch:.1f} records instead of "
                    f"{shape.records_per_batch}: the machine was too busy to fill them; try again"
                )
            _create(target, _WARM_TOPIC, shape.partitions)
            replay(target.bootstrap_servers, _WARM_TOPIC, raw)
        os.sync()

    def _measure(self, target: LabCluster) -> dict[str, float]:
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        remote = self.contender.copy_of(_TOPIC, _SOURCE)
        shape = self.plan.shape
        if self.contender is Contender.FLOOR:
            _create(target, remote, shape.partitions)
            began = time.monotonic()
            process = start_floor(target.alias, self.source, target, _TOPIC, remote, shape.partitions, logs)
        else:
            topics = {_TOPIC, self._latency_topic} if self.plan.measures_latency else {_TOPIC}
            properties = self.directory / f"{target.alias}.properties"
            properties.write_text(properties_text(self.contender, self.source, target, topics, shape.codec), "utf-8")
            began = time.monotonic()
            process = start_replicator(self.contender, target.alias, properties, logs)
        try:
            tree = ProcessTree(process.pid)
            with _connect(target) as admin:
                figures = copy_figures(
                    self._watch(process, tree, began, admin, remote), shape.records, shape.record_bytes, self.contender
                )
                if self.plan.measures_latency and self.contender.has_latency:
                    copy = self.contender.copy_of(self._latency_topic, _SOURCE)
                    self._await_topic(admin, copy, process)
                    figures |= self._latency(target.bootstrap_servers, copy, tree)
        finally:
            if not process.terminate(_END_SECONDS):
                process.kill()
        return figures

    def _watch(
        self, process: ManagedProcess, tree: ProcessTree, began: float, admin: Cluster, remote: str
    ) -> list[Sample]:
        """Look at copy and process until everything is on the target.

        Raises
        ------
        BenchFailed
            if the process ends, or is far too slow.
        """
        samples: list[Sample] = []
        shape = self.plan.shape

        def look() -> int:
            if not process.is_alive():
                raise BenchFailed(f"{process.name} ended during the copy; its last lines:\n{process.log_tail()}")
            copied = _records_in(admin, remote, shape.partitions)
            samples.append(Sample(time.monotonic() - began, copied, *tree.look()))
            self._at("copying", copied, shape.records)
            return copied

        allowed = _START_SECONDS + shape.records / _SLOWEST_RECORDS_PER_SECOND
        try:
            wait_until(
                look,
                f"{shape.records} records on {admin.alias}",
                timeout_seconds=allowed,
                until=lambda copied: copied >= shape.records,
                first_pause_seconds=_LOOK_SECONDS,
                longest_pause_seconds=_LOOK_SECONDS,
            )
        except WaitTimeout as late:
            raise BenchFailed(f"{late}; the last lines of {process.name}:\n{process.log_tail()}") from late
        return samples

    def _await_topic(self, admin: Cluster, topic: str, process: ManagedProcess) -> None:
        """Wait until the replicator has made a remote topic."""
        try:
            wait_until(lambda: topic in admin.topics({topic}), f"{topic}", timeout_seconds=_TOPIC_SECONDS)
        except WaitTimeout as late:
            raise BenchFailed(f"{late}; the last lines of {process.name}:\n{process.log_tail()}") from late

    def _latency(self, servers: str, topic: str, tree: ProcessTree | None) -> dict[str, float]:
        """Measure at each rate, after a quarter of the time more at that rate which does not count."""
        shape, seconds = self.plan.shape, self.plan.latency_seconds
        figures: dict[str, float] = {}
        route = Route(
            self.source.bootstrap_servers, self._latency_topic, servers, topic, shape.partitions, shape.value_bytes
        )
        with LatencyMeter(route) as meter:
            meter.until_something_arrives()
            for done, rate in enumerate(self.plan.rates):
                self._at(f"latency at {rate:,} records/s", done, len(self.plan.rates))
                cpu, began = tree.look()[0] if tree else 0.0, time.monotonic()
                measured = meter.measure(rate, seconds, seconds / 4)
                if tree is not None:
                    used = (tree.look()[0] - cpu) / (time.monotonic() - began)
                    measured = replace(measured, cpu_percent=100 * used)
                figures |= latency_figures(measured)
        return figures

    def _at(self, doing: str, done: int = 0, total: int | None = None) -> None:
        self.display.at(self._title, doing, done, total)


@contextmanager
def _cluster(directory: Path, alias: str, display: Display, cores: Set[int] = frozenset()) -> Iterator[LabCluster]:
    """Have a fresh single-broker cluster while inside; it stays on ``cores``, if any are given."""
    try:
        with kept_to(cores):
            cluster = clusters.up(directory, [alias], owner_pid=os.getpid(), for_load=True).clusters[alias]
    except BaseException:  # an interruption too; its broker has ended, its data may be there
        with suppress(LabError, KeyError):
            clusters.load(directory).clusters[alias].discard()
        raise
    try:
        yield cluster
    finally:
        for problem in cluster.shut_down():
            display.print((problem, "red"))
        cluster.discard()


@contextmanager
def _kafka_failures() -> Iterator[None]:
    try:
        yield
    except KafkaProblem as problem:
        raise BenchFailed(str(problem)) from problem


def _connect(cluster: LabCluster) -> Cluster:
    return Cluster.connect(ClusterSettings(cluster.alias, {"bootstrap.servers": cluster.bootstrap_servers}))


def _create(cluster: LabCluster, topic: str, partitions: int) -> None:
    """Make a topic whose leaders answer; retention has no say in a bench, however long it takes."""
    with _connect(cluster) as admin:
        for result in admin.create_topics([NewTopic(topic, partitions, 1, {"retention.ms": "-1"})]):
            if result.problem is not None:
                raise BenchFailed(f"creating {result.item} on {cluster.alias}: {result.problem}")
        # The bare producer does not ask twice.
        for partition, problem in admin.offsets(_partitions(topic, partitions), "latest").problems.items():
            raise BenchFailed(f"{partition} on {cluster.alias}: {problem}")


def _fill(source: LabCluster, shape: Shape, display: Display) -> None:
    """Make the topic and its records, and see that all are there."""
    _create(source, _TOPIC, shape.partitions)
    began = time.monotonic()
    fill(source.bootstrap_servers, _TOPIC, shape, display.watch)
    with _connect(source) as admin:
        there = _records_in(admin, _TOPIC, shape.partitions)
    if there != shape.records:
        raise BenchFailed(f"{_TOPIC} on {source.alias} holds {there} records instead of {shape.records}")
    display.print(f"filled {shape.records:,} records ({shape}) in {time.monotonic() - began:.1f} s")


def _records_in(admin: Cluster, topic: str, partitions: int) -> int:
    """Return the sum of the end offsets; a topic that is not there yet holds nothing."""
    return sum(admin.offsets(_partitions(topic, partitions), "latest").values())


def _partitions(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions)]
