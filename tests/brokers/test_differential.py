"""Java MirrorMaker 2 and this engine copy the same topics: what lies on the target afterwards must be the same.

Both read the same cluster under two names, so that both copies lie side by side on one target.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import mm2, processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.brokers.copying import log_of
from tests.brokers.kinds import KINDS, PARTITIONS, fill, visible

_START_SECONDS = 240.0


def run_file(path: Path, source: str, bootstrap: tuple[str, str], topics: list[str], isolation: str) -> Path:
    path.write_text(
        f"clusters = {source}, west\n{source}.bootstrap.servers = {bootstrap[0]}\nwest.bootstrap.servers = {bootstrap[1]}\n"
        f"{source}->west.enabled = true\n{source}->west.topics = {', '.join(topics)}\n{FACTORS}"
        f"offset-syncs.topic.location = target\n{source}->west.emit.heartbeats.enabled = false\n"
        f"{source}.consumer.isolation.level = {isolation}\n"
        # Records with timestamps of long ago are to stay on the target too.
        f"refresh.topics.interval.seconds = 5\n"
    )
    return path


@pytest.mark.parametrize("isolation", ["read_uncommitted", pytest.param("read_committed", marks=pytest.mark.soak)])
@pytest.mark.interop
def test_both_leave_the_same_records_at_the_same_offsets(
    isolation: str, east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    clients = {alias: {"bootstrap.servers": east_west.clusters[alias].bootstrap_servers} for alias in ("east", "west")}
    bootstrap = clients["east"]["bootstrap.servers"], clients["west"]["bootstrap.servers"]
    topics = {kind: unique(f"differential-{kind}") for kind in KINDS}
    for kind, topic in topics.items():
        (created,) = east.create_topics([NewTopic(topic, PARTITIONS, 1, {"retention.ms": "-1", **KINDS[kind]})])
        assert created.problem is None
        fill(bootstrap[0], topic, kind)
    replicators = {
        "levant": mm2.start(
            tmp_path,
            run_file(tmp_path / "mm2.properties", "levant", bootstrap, list(topics.values()), isolation),
            owner_pid=os.getpid(),
        ),
        "orient": processes.start(
            tmp_path,
            "mirror",
            [
                *(sys.executable, "-m", "mirror", "run"),
                str(run_file(tmp_path / "mirror.properties", "orient", bootstrap, list(topics.values()), isolation)),
            ],
            owner_pid=os.getpid(),
        ),
    }
    partitions = [TopicPartition(topic, number) for topic in topics.values() for number in range(PARTITIONS)]
    expected = {partition: visible(clients["east"], partition, isolation) for partition in partitions}

    def lacking() -> list[TopicPartition]:
        there = west.topics()
        return [
            copy
            for partition in partitions
            for source in replicators
            if (copy := TopicPartition(f"{source}.{partition.topic}", partition.partition)).topic not in there
            or west.offsets([copy], "latest")[copy] < len(expected[partition])
        ]

    try:
        wait_until(lacking, "both to copy everything", timeout_seconds=_START_SECONDS, until=lambda left: not left)
    finally:
        for each in replicators.values():
            each.terminate(60)
    for partition in partitions:
        java, ours = (
            log_of(clients["west"], TopicPartition(f"{source}.{partition.topic}", partition.partition))
            for source in replicators
        )
        assert [record[:5] for record in ours] == [record[:5] for record in java], partition
        assert [record[1:5] for record in ours] == expected[partition], partition
