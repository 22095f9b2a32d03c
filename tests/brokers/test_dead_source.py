"""An engine that is started while its source is dead: it copies nothing, and can be paused for a failover."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import processes
from mirror.lab.clusters import LabCluster
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, mirror, status_of
from tests.brokers.copying import Unique, ends_of, log_of, write


@pytest.mark.long
def test_an_engine_that_begins_with_its_source_dead_confirms_a_pause_and_copies_on_once_it_is_back(
    settings_of: Callable[[str], ClusterSettings], unique: Unique, tmp_path: Path, mortal: LabCluster
) -> None:
    west, alias = settings_of("west"), unique("old").replace("-", "")
    topic = TopicPartition(unique("orders"), 0)
    copy = TopicPartition(f"{alias}.{topic.topic}", 0)
    source, target = {"bootstrap.servers": mortal.bootstrap_servers}, dict(west.client)
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {mortal.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"topics = {topic.topic}\nheartbeats.replication.enabled = false\n{FACTORS}"
    )
    with Cluster.connect(ClusterSettings(alias, source)) as cluster:
        cluster.create_topics([NewTopic(topic.topic, 1, 1)])
    write(source, topic, range(100))

    def started(name: str) -> processes.ManagedProcess:
        return processes.start(
            tmp_path, name, [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
        )

    first = started("first")
    wait_until(
        lambda: [each["upstream_next"] for each in status_of(file)[0]["partitions"]],
        "all to be copied and on record",
        timeout_seconds=90,
        until=lambda ends: ends == [100],
    )
    first.kill()
    mortal.kill()
    second = started("second")
    done = mirror("pause", str(file), "--yes", "--json", timeout_seconds=90.0)
    paused = json.loads(done.stdout)
    assert paused["confirmed_by"] is not None, (done.stdout, done.stderr)

    mortal.start()
    assert mirror("resume", str(file), "--yes").returncode == 0
    write(source, topic, range(100, 150))
    wait_until(lambda: ends_of(target, [copy])[copy] >= 150, "the rest to be copied", timeout_seconds=90)
    assert second.terminate(60)
    assert [each.value for each in log_of(target, copy)] == [b"value %d" % each for each in range(150)]
