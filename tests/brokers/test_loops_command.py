"""`mirror run` with unchanged names, both ways and among three clusters: nothing goes round, and `verify` agrees."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters, processes
from mirror.lab.clusters import LabCluster
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.partition import TopicPartition
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.engine_pausing import EnginePausing
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, in_process, mirror, status_of
from tests.brokers.copying import Unique, ends_of, log_of, write
from tests.spark.small import small_spark

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def properties(path: Path, topic: str, addresses: dict[str, str], flows: Sequence[str]) -> Path:
    """Write a file of clusters that copy one topic to one another under its name."""
    lines = [f"clusters = {', '.join(addresses)}", f"topics = {topic}", "heartbeats.replication.enabled = false"]
    lines += [f"{alias}.bootstrap.servers = {address}" for alias, address in addresses.items()]
    lines += [f"{flow}.enabled = true" for flow in flows]
    path.write_text("\n".join(lines) + "\n" + IDENTITY + FACTORS)
    return path


def make_topic(topic: str, cluster: ClusterSettings) -> None:
    with Cluster.connect(cluster) as connection:
        connection.create_topics([NewTopic(topic, 1, 1)])


def stays_at(clients: Sequence[dict[str, str]], topic: TopicPartition, count: int) -> None:
    """Wait until every log holds so many records."""
    wait_until(
        lambda: [ends_of(client, [topic])[topic] for client in clients],
        f"{topic} to have {count} records everywhere",
        timeout_seconds=90,
        until=lambda ends: min(ends) >= count,
    )


@pytest.fixture
def left_right(tmp_path: Path) -> Iterator[list[ClusterSettings]]:
    """Two clusters that nobody else mirrors into: what others may have brought there is told otherwise."""
    directory = tmp_path / "left-right"
    lab = clusters.up(directory, ["left", "right"], owner_pid=os.getpid())
    yield [
        ClusterSettings(alias, {"bootstrap.servers": lab.clusters[alias].bootstrap_servers})
        for alias in ("left", "right")
    ]
    clusters.down(directory, discard_data=True)


@pytest.mark.long
def test_two_ways_under_one_name(left_right: list[ClusterSettings], tmp_path: Path) -> None:
    """One engine a flow, each with a file of its own, as on two machines; one is killed under load and started again."""
    names, sides = ["left", "right"], left_right
    topic = TopicPartition("orders", 0)
    addresses = {name: side.bootstrap_servers for name, side in zip(names, sides, strict=True)}
    flows = [f"{names[0]}->{names[1]}", f"{names[1]}->{names[0]}"]
    files = [
        properties(tmp_path / f"{number}.properties", topic.topic, addresses, [flow])
        for number, flow in enumerate(flows)
    ]
    clients = [dict(side.client) for side in sides]
    for side in sides:
        make_topic(topic.topic, side)
    engines = [
        processes.start(
            tmp_path, f"engine-{number}", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
        )
        for number, file in enumerate(files)
    ]
    produced = 0
    for life in range(2):
        for number, client in enumerate(clients):
            write(client, topic, range(number * 10_000 + life * 500, number * 10_000 + life * 500 + 500))
            produced += 500
        stays_at(clients, topic, produced)
        if life < 1:
            engines[life].kill()
            engines[life] = processes.start(
                tmp_path,
                f"engine-{life}-again",
                [sys.executable, "-m", "mirror", "run", str(files[life])],
                owner_pid=os.getpid(),
            )
    expected = Counter(b"value %d" % (number * 10_000 + each) for number in range(2) for each in range(1000))
    for client in clients:
        assert Counter(each.value for each in log_of(client, topic)) == expected
    for file in files:
        # What a topic that has just been made refuses passes by itself, and positions are written once a second.
        (flow,) = wait_until(
            lambda file=file: status_of(file),  # type: ignore[misc]
            "the flow to run, and to have left out all that came from the other side",
            timeout_seconds=30,
            until=lambda flows: (
                flows[0]["state"] == "RUNNING" and [each["left_out"] for each in flows[0]["partitions"]] == [1000]
            ),
        )
        assert flow["foreign_writers"] == []
    for engine in engines:
        assert engine.terminate(60)
    small_spark(tmp_path)
    done = in_process("verify", str(files[0]), "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    (partition,) = json.loads(done.stdout)["partitions"]
    counted = {what: partition[what] for what in ("records", "missing", "extra", "reordered", "misplaced")}
    assert counted == {"records": 1000, "missing": 0, "extra": 0, "reordered": 0, "misplaced": 0}


@pytest.mark.long
def test_what_others_write_to_a_copy_with_an_unchanged_name_is_extra_while_nothing_lets_them(
    settings_of: Callable[[str], ClusterSettings], unique: Unique, tmp_path: Path
) -> None:
    """Among the copied records and behind them; a failover on record lets them, and so does who says so."""
    east, west = settings_of("east"), settings_of("west")
    names = [unique(word).replace("-", "") for word in ("left", "right")]
    topic = TopicPartition(unique("orders"), 0)
    addresses = dict(zip(names, (east.bootstrap_servers, west.bootstrap_servers), strict=True))
    file = properties(tmp_path / "file", topic.topic, addresses, ["->".join(names)])
    sides = [dict(side.client) for side in (east, west)]
    for side in (east, west):
        make_topic(topic.topic, side)
    engine = processes.start(
        tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
    )
    for written in range(2):
        write(sides[0], topic, range(written * 100, written * 100 + 50))
        stays_at(sides[1:], topic, 50 + written * 53)
        write(sides[1], topic, range(1000 + written * 3, 1003 + written * 3))
    assert engine.terminate(60)

    small_spark(tmp_path)

    def verified(*options: str) -> tuple[str, int, int, list[str]]:
        found = json.loads(in_process("verify", str(file), "--json", *options).stdout)
        (partition,) = found["partitions"]
        return found["verdict"], partition["extra"], partition["foreign"], partition["notes"]

    verdict, extra, foreign, (note,) = verified()
    assert (verdict, extra, foreign) == ("FAIL", 6, 0)
    assert "--others-write" in note
    assert verified("--others-write") == ("PASS", 0, 6, [])
    settings = load(file)
    ends = ClusterEnds(settings, settings.enabled_flows[0], EnginePausing(settings, awaits_open_ends=False), None)  # type: ignore[arg-type]
    ends.put(FailoverEntry("run", "planned", Phase.DONE, "elsewhere", 1))
    assert verified() == ("PASS", 0, 6, [])


@pytest.mark.soak
def test_three_clusters_that_copy_to_one_another(
    settings_of: Callable[[str], ClusterSettings], unique: Unique, tmp_path: Path, mortal: LabCluster
) -> None:
    """Every record is on every cluster once; the ring without the ways back is refused before anything is touched."""
    names = [unique(word).replace("-", "") for word in ("one", "two", "three")]
    third = ClusterSettings("mortal", {"bootstrap.servers": mortal.bootstrap_servers})
    sides = [settings_of("east"), settings_of("west"), third]
    topic = TopicPartition(unique("orders"), 0)
    addresses = {name: side.bootstrap_servers for name, side in zip(names, sides, strict=True)}
    clients = [dict(side.client) for side in sides]
    end_epoch = properties(
        tmp_path / "ring", topic.topic, addresses, [f"{names[each]}->{names[(each + 1) % 3]}" for each in range(3)]
    )
    refused = mirror("run", str(end_epoch))
    assert refused.returncode == 2
    assert f"{names[1]}->{names[0]}.enabled" in refused.stderr
    assert "mirror.mirrored.records = skip" in refused.stderr

    mesh = properties(tmp_path / "mesh", topic.topic, addresses, ["->".join(pair) for pair in permutations(names, 2)])
    for side in sides:
        make_topic(topic.topic, side)
    engine = processes.start(
        tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(mesh)], owner_pid=os.getpid()
    )
    for number, client in enumerate(clients):
        write(client, topic, range(number * 1000, number * 1000 + 200))
    stays_at(clients, topic, 600)
    for number, client in enumerate(clients):
        write(client, topic, range(number * 1000 + 200, number * 1000 + 300))
    stays_at(clients, topic, 900)
    expected = Counter(b"value %d" % (number * 1000 + each) for number in range(3) for each in range(300))
    for client in clients:
        assert Counter(each.value for each in log_of(client, topic)) == expected
    assert engine.terminate(60)
