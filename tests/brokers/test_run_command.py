"""`mirror run` and its companions, as processes: what a wrong file does, and what a killed engine leaves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import read_records
from mirror.lab import ports, processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, address, in_process, mirror, status_of, write


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    return f"127.0.0.1:{ports.choose(1)[0]}"


def test_wrong_files_are_refused_with_file_line_and_key_and_nothing_is_created(
    east_west: Lab, east: Cluster, west: Cluster, tmp_path: Path
) -> None:
    """Exit code 2 for what the file says; no topic appears anywhere."""
    real = address(east_west, "east"), address(east_west, "west")
    enabled = "east->west.enabled = true\n"
    cases = {
        "alias": (write(tmp_path / "alias", *real, "east->north.enabled = true\n"), 2, 4, "east->north.enabled"),
        "flow": (write(tmp_path / "flow", *real, "east->west.enabled = false\n"), 2, None, "enabled"),
        "same": (write(tmp_path / "same", real[0], real[0], enabled), 2, 3, "west.bootstrap.servers"),
    }
    missing = tmp_path / "missing"
    missing.write_text(f"clusters = east, west\neast.bootstrap.servers = {real[0]}\n{enabled}")
    cases["missing"] = (missing, 2, None, "west.bootstrap.servers")
    before = set(east.topics()), set(west.topics())
    for name, (path, status, line, key) in cases.items():
        done = mirror("run", str(path))
        said = done.stderr.replace("\n", "")
        assert done.returncode == status, (name, done.stderr)
        assert str(path) in said, (name, said)
        assert key in said, (name, said)
        if line is not None:
            assert f"{path}:{line}:" in said, (name, said)
    assert (set(east.topics()), set(west.topics())) == before


def test_a_flow_asks_its_clusters_by_its_own_admin_settings(east_west: Lab, tmp_path: Path, nobody: str) -> None:
    """CFG-089: here by an address of its own, at which nobody answers."""
    real = address(east_west, "east"), address(east_west, "west")
    more = f"east->west.enabled = true\neast->west.target.admin.bootstrap.servers = {nobody}\n"
    done = in_process("plan", str(write(tmp_path / "file", *real, more)))
    assert done.returncode == 3
    assert nobody in done.stderr


@pytest.mark.long
def test_an_engine_starts_while_another_cluster_is_away_and_copies_what_it_can(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path, nobody: str
) -> None:
    """One dead site of a mesh must not stop the others; what waits for it is told."""
    topic = unique("orders")
    east.create_topics([NewTopic(topic, 1, 1, {})])
    file = tmp_path / "mirror.properties"
    alias = unique("shop").replace("-", "")
    file.write_text(
        f"clusters = {alias}, west, south\n{alias}.bootstrap.servers = {address(east_west, 'east')}\n"
        f"west.bootstrap.servers = {address(east_west, 'west')}\nsouth.bootstrap.servers = {nobody}\n"
        f"{alias}->west.enabled = true\n{alias}->west.topics = {topic}\n"
        f"{alias}->south.enabled = true\nsouth->west.enabled = true\n{FACTORS}"
    )
    producer = Producer({"bootstrap.servers": address(east_west, "east")})
    producer.produce(topic, b"1", partition=0)
    producer.flush()
    argv = [sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    try:
        copy = TopicPartition(f"{alias}.{topic}", 0)
        wait_until(
            lambda: copy.topic in west.topics([copy.topic]) and west.offsets([copy], "latest")[copy],
            f"the record; the engine said {engine.log_tail()}",
            timeout_seconds=240,
        )

        def states() -> dict[str, Any]:
            return {flow["flow"]: (flow["state"], flow["reasons"]) for flow in status_of(file)}

        found = wait_until(
            states,
            "what waits for the dead cluster to be told",
            timeout_seconds=240,
            until=lambda seen: (
                any("south does not answer" in reason for reason in seen["south->west"][1])
                and seen[f"{alias}->west"] == ("RUNNING", [])
            ),
        )
        assert found["south->west"][0] == "DEGRADED"
        assert found[f"{alias}->south"][0] == "FAILED"
    finally:
        assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()


@pytest.mark.soak
def test_a_killed_engine_leaves_no_gap_and_no_duplicate_and_a_told_one_ends_cleanly(
    east_west: Lab, east: Cluster, settings_of: Callable[[str], Any], unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Kill -9 the engine under load: then the copy is, record for record, what was sent."""
    topic = unique("killed")
    east.create_topics([NewTopic(topic, 2, 1, {})])
    more = f"east->west.enabled = true\neast->west.topics = {topic}\n"
    file = write(tmp_path / "mirror.properties", address(east_west, "east"), address(east_west, "west"), more)
    producer = Producer({"bootstrap.servers": address(east_west, "east"), "linger.ms": 5, "compression.type": "lz4"})

    def send(first: int, count: int) -> None:
        for number in range(first, first + count):
            producer.produce(topic, b"%d" % number, partition=number % 2)
            if number % 500 == 0:
                producer.flush()
        producer.flush()

    def copied() -> int:
        (flow,) = status_of(file)
        return sum(partition["upstream_next"] for partition in flow["partitions"] if partition["topic"] == topic)

    sent = 0
    for life in range(2):
        engine = processes.start(
            tmp_path, f"engine-{life}", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
        )
        send(sent, 20_000)
        wait_until(copied, "the engine to copy", timeout_seconds=90, until=lambda count, before=sent: count > before)
        send(sent + 20_000, 20_000)
        sent += 40_000
        if life < 1:
            engine.kill()
        else:
            wait_until(
                copied, "everything to be copied", timeout_seconds=60, until=lambda count, all_of=sent: count == all_of
            )
            assert engine.terminate(60)
            assert engine.return_code() == 0, engine.log_tail()
    client = settings_of("west").client
    for number in range(2):
        partition = TopicPartition(f"east.{topic}", number)
        with Cluster.connect(settings_of("west")) as west:
            end = west.offsets([partition], "latest")[partition]
        values = [int(record.value or b"-1") for record in read_records(client, partition, 0, end)]
        assert values == list(range(number, sent, 2))
    last = json.loads(in_process("status", str(file), "--json").stdout)
    assert last["flows"][0]["state"] == "STOPPED"
