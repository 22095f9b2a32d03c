"""Groups of every kind: consumers of both protocols are followed and moved, what nobody mirrors is named."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, address, in_process, status_of
from tests.brokers.copying import positions_of
from tests.positions import write_positions


def member(servers: str, topic: str, group: str) -> confluent_kafka.Consumer:
    """Return a consumer of the new protocol (KIP-848) that has joined."""
    settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, "group.protocol": "consumer", "enable.auto.commit": False})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(0.2), "a record", timeout_seconds=60)
    return consumer


def share(cluster: Cluster, servers: str, group: str) -> None:
    """Leave a share group (KIP-932) behind."""
    consumer = confluent_kafka.ShareConsumer({"bootstrap.servers": servers, "group.id": group})
    consumer.subscribe(["of-nobody"])

    def has_joined() -> bool:
        consumer.poll(0.2)
        return any((each.group, each.group_type) == (group, "share") for each in cluster.groups())

    wait_until(has_joined, "the share group", timeout_seconds=60)
    consumer.close()


@pytest.mark.long
def test_groups_of_both_protocols_are_moved_and_share_groups_are_named(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """An idle one of the new protocol is; one with members on the target is not; a share group is in nobody's way."""
    alias, topic = unique("east"), unique("orders")
    idle, used, queue, named_alike = (f"{alias}-{name}" for name in ("idle", "used", "queue", "named-alike"))
    copy = TopicPartition(f"{alias}.{topic}", 0)
    there, here = address(east_west, "east"), address(east_west, "west")
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {there}\nwest.bootstrap.servers = {here}\n"
        f"{alias}->west.enabled = true\n{alias}->west.topics = {topic}\n{alias}->west.groups = {alias}.*\n"
        "heartbeats.replication.enabled = false\nsync.group.offsets.enabled = true\n"
        "sync.group.offsets.interval.seconds = 1\nemit.checkpoints.interval.seconds = 1\n"
        f"refresh.groups.interval.seconds = 1\n{FACTORS}"
    )
    east.create_topics([NewTopic(topic, 1, 1)])
    producer = confluent_kafka.Producer({"bootstrap.servers": there})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    producer.flush()
    for group in (idle, used):
        joined = member(there, topic, group)
        joined.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 40)], asynchronous=False)
        joined.close()
    share(east, there, queue)
    share(west, here, named_alike)
    write_positions(east, named_alike, {TopicPartition(topic, 0): GroupPosition(40)})

    argv = [sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    try:
        # While the copy has not got there it is behind.
        wait_until(lambda: positions_of(west, idle).get(copy) == GroupPosition(40), "the group", timeout_seconds=120)
        at_work = member(here, copy.topic, used)
        told = wait_until(
            lambda: status_of(file)[0]["reasons"], "the share group to be told", timeout_seconds=60, until=bool
        )
        assert [reason for reason in told if "a share group (KIP-932) has that name on the target" in reason]
        assert [note for note in status_of(file)[0]["notes"] if "not mirrored" in note and queue in note]
        planned = json.loads(in_process("plan", str(file), "--flow", f"{alias}->west", "--json").stdout)
        assert [note for note in planned["flows"][0]["notes"] if "not mirrored" in note and queue in note]
        done = in_process("groups", str(file), "--groups", f"{alias}.*", "--apply", "--dry-run", "--json")
        planned = json.loads(done.stdout)
        assert {row["group"]: row["action"] for row in planned["groups"]} == {
            idle: "already there",
            used: "skip: active",
            named_alike: "skip: unknown",
        }
        (left,) = planned["left"]
        assert left.startswith(f"group {queue}: the state of share groups (KIP-932) is not mirrored")
        at_work.close()
    finally:
        engine.kill()
    assert positions_of(west, idle)[copy] == GroupPosition(40)
    assert positions_of(west, named_alike) == {}
