"""Flows among several clusters with the default policy: each record is once in every topic it should be in."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from mirror.client import MirrorClient
from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters, processes
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.brokers.copying import Unique, ends_of, log_of, write

pytestmark = pytest.mark.topologies

Flows = Collection[tuple[str, str]]
SHAPES = {
    "fan-in": [("a", "c"), ("b", "c")],
    "fan-out": [("a", "b"), ("a", "c")],
    "chain": [("a", "b"), ("b", "c")],
    "active-active": [("a", "b"), ("b", "a")],
}
# "Multi-Cluster Geo-Replication" of Kafka's documentation: two clusters in each data centre, the first ones linked.
CENTRES = ("west", "east", "north")
WITHIN = [flow for dc in CENTRES for flow in ((f"{dc}-1", f"{dc}-2"), (f"{dc}-2", f"{dc}-1"))]
BETWEEN = [(f"{one}-1", f"{other}-1") for one in CENTRES for other in CENTRES if one != other]


def ways(flows: Flows, origin: str, end: str) -> list[tuple[str, ...]]:
    """Return the ways from a cluster to another that come by none twice, each as the clusters before the end."""
    if origin == end:
        return [()]
    others = [flow for flow in flows if end not in flow]
    return [(*way, source) for source, target in flows if target == end for way in ways(others, origin, source)]


def copies(flows: Flows, topic: str, cluster: str, origins: Collection[str]) -> dict[str, str]:
    """Return what a topic of each cluster is called on one of them, each name with the cluster it comes from."""
    return {".".join([*reversed(way), topic]): each for each in origins for way in ways(flows, each, cluster)}


class Mesh:
    """Clusters, the flows among them, and a topic of one partition on each cluster that is copied."""

    def __init__(self, addresses: Mapping[str, str], flows: Flows, topic: str, directory: Path) -> None:
        self.clients = {alias: {"bootstrap.servers": address} for alias, address in addresses.items()}
        self.flows, self.topic = flows, topic
        self.directory = directory
        self.file = directory / "mm2.properties"
        lines = [f"clusters = {', '.join(addresses)}", f"topics = .*{topic}", "mirror.tasks = 1"]
        lines += [f"{alias}.bootstrap.servers = {address}" for alias, address in addresses.items()]
        lines += [f"{source}->{target}.enabled = true" for source, target in flows]
        self.file.write_text("\n".join(lines) + "\n" + FACTORS)
        for alias, client in self.clients.items():
            with Cluster.connect(ClusterSettings(alias, client)) as cluster:
                cluster.create_topics([NewTopic(topic, 1, 1)])

    def expected(self, alias: str) -> dict[str, str]:
        """Return the topics of a cluster, each with the cluster that its records come from."""
        return copies(self.flows, self.topic, alias, self.clients)

    def found(self, alias: str) -> set[str]:
        """Return the topics of a cluster that have the topic's name."""
        with Cluster.connect(ClusterSettings(alias, self.clients[alias])) as cluster:
            return {name for name in cluster.topics() if name.endswith(self.topic)}

    def start(self, name: str, *near: str) -> ManagedProcess:
        """Start an engine of the flows into some clusters, or of all."""
        options = ("--clusters", *near) if near else ()
        argv = [sys.executable, "-m", "mirror", "run", str(self.file), *options]
        return processes.start(self.directory, name, argv, owner_pid=os.getpid())

    def send(self, numbers: range) -> None:
        """Write to the topic of each cluster."""
        for client in self.clients.values():
            write(client, TopicPartition(self.topic, 0), numbers)

    def lacking(self, count: int) -> dict[str, list[str]]:
        """Return by cluster the topics that are not there or have fewer records."""
        lacking = {}
        for alias, client in self.clients.items():
            there = self.found(alias)
            partitions = [TopicPartition(name, 0) for name in self.expected(alias) if name in there]
            ends = ends_of(client, partitions)
            short = [name for name in self.expected(alias) if ends.get(TopicPartition(name, 0), 0) < count]
            lacking |= {alias: short} if short else {}
        return lacking

    def assert_each_once(self, count: int) -> None:
        """Nothing is missing, nothing is there twice, in the order of each origin; and no copy goes round."""
        sent = [b"value %d" % number for number in range(count)]
        for alias, client in self.clients.items():
            assert self.found(alias) == set(self.expected(alias)), alias
            for name in self.expected(alias):
                assert [each.value for each in log_of(client, TopicPartition(name, 0))] == sent, (alias, name)

    def told(self, alias: str) -> dict[str, int | None]:
        """Return how far the clusters upstream of one are, as RemoteClusterUtils tells it by the heartbeats."""
        with MirrorClient.of_file(self.file, alias) as client:
            return {each: client.replication_hops(each) for each in client.upstream_clusters() & self.clients.keys()}

    def distances(self, alias: str) -> dict[str, int]:
        """Return the number of flows on the shortest way from each cluster that there is one from."""
        found = {each: [len(way) for way in ways(self.flows, each, alias)] for each in self.clients if each != alias}
        return {each: min(lengths) for each, lengths in found.items() if lengths}

    def run_through(self, engines: Mapping[str, ManagedProcess], patience_seconds: float) -> None:
        """Copy two loads, look at every log and at what heartbeats tell, and end the engines."""
        try:
            for count in (100, 200):
                self.send(range(count - 100, count))
                wait_until(
                    lambda count=count: self.lacking(count),  # type: ignore[misc]
                    f"all topics; engines said {[each.log_tail(5) for each in engines.values()]}",
                    timeout_seconds=patience_seconds,
                    until=lambda lacking: not lacking,
                )
            for alias in self.clients:
                wait_until(
                    lambda alias=alias: self.told(alias),  # type: ignore[misc]
                    f"the heartbeats on {alias}",
                    timeout_seconds=60,
                    until=lambda told, alias=alias: told == self.distances(alias),  # type: ignore[misc]
                )
            self.assert_each_once(200)
        finally:
            ended = [each.terminate(60) for each in engines.values()]
        assert ended == [True] * len(engines)
        assert [each.return_code() for each in engines.values()] == [0] * len(engines)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of three clusters of one broker."""
    directory = tmp_path_factory.mktemp("three")
    lab = clusters.up(directory, ["a", "b", "c"], owner_pid=os.getpid())
    yield {alias: cluster.bootstrap_servers for alias, cluster in lab.clusters.items()}
    clusters.down(directory, discard_data=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_two_and_three_clusters(shape: str, three: dict[str, str], unique: Unique, tmp_path: Path) -> None:
    # Heartbeats of another shape are there still, under its own aliases.
    own = {alias: unique(alias).replace("-", "") for alias in three}
    flows = [(own[source], own[target]) for source, target in SHAPES[shape]]
    used = {own[alias]: three[alias] for alias in three if any(own[alias] in flow for flow in flows)}
    mesh = Mesh(used, flows, unique("orders"), tmp_path)
    mesh.run_through({"engine": mesh.start("engine")}, 120)


def test_three_data_centres_of_two_clusters_with_an_engine_near_each(tmp_path: Path) -> None:
    flows = WITHIN + BETWEEN
    aliases = [f"{dc}-{number}" for dc in CENTRES for number in (1, 2)]
    lab = clusters.up(tmp_path / "lab", aliases, owner_pid=os.getpid())
    try:
        addresses = {alias: lab.clusters[alias].bootstrap_servers for alias in aliases}
        mesh = Mesh(addresses, flows, "orders", tmp_path)
        # Of each of the other data centres by both of their first clusters, directly and the long way round.
        assert {alias: len(mesh.expected(alias)) for alias in aliases} == dict.fromkeys(aliases, 10)
        assert "east-1.north-1.north-2.orders" in mesh.expected("west-1")
        mesh.run_through({dc: mesh.start(dc, f"{dc}-1", f"{dc}-2") for dc in CENTRES}, 600)
    finally:
        clusters.down(tmp_path / "lab", discard_data=True)
