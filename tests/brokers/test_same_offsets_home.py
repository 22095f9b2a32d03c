"""The way home of copies with the source's offsets under unchanged names: each topic is made anew from the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.lab import processes
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, kept, status_of
from tests.brokers.copying import ends_of, write
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long

SETTINGS = (
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    "mirror.offsets = same\nsync.group.offsets.enabled = true\n"
    "emit.checkpoints.interval.seconds = 1\nsync.group.offsets.interval.seconds = 1\n"
    "refresh.groups.interval.seconds = 1\n"
)
PATIENCE_SECONDS = 240


@dataclass(frozen=True)
class Pair:
    """Two clusters of a file of its own, a topic of the same name on both, and engines that copy it both ways."""

    home: dict[str, str]
    away: dict[str, str]
    orders: TopicPartition
    aliases: tuple[str, str]
    directory: Path

    @property
    def file(self) -> Path:
        one, two = self.aliases
        return kept(
            self.directory / "mirror.properties",
            f"clusters = {one}, {two}\n{one}.bootstrap.servers = {self.home['bootstrap.servers']}\n"
            f"{two}.bootstrap.servers = {self.away['bootstrap.servers']}\n{one}->{two}.enabled = true\n"
            f"{two}->{one}.enabled = true\ntopics = {self.orders.topic}\n{FACTORS}{SETTINGS}",
        )

    @contextmanager
    def engine(self) -> Iterator[processes.ManagedProcess]:
        argv = [sys.executable, "-m", "mirror", "run", str(self.file)]
        started = processes.start(self.directory, "engine", argv, owner_pid=os.getpid())
        try:
            yield started
            assert started.terminate(60)
        finally:
            started.kill()

    def await_end(self, client: dict[str, str], end: int) -> None:
        def found() -> int:
            try:
                return ends_of(client, [self.orders])[self.orders]
            except Exception:  # noqa: BLE001  # the topic is not there yet
                return 0

        wait_until(found, f"offset {end}", timeout_seconds=PATIENCE_SECONDS, until=lambda at: at == end)

    def await_stopped(self, flow: Flow, why: str) -> None:
        wait_until(
            lambda: [each for found in status_of(self.file) if found["flow"] == str(flow) for each in found["reasons"]],
            f"{flow} to say: {why}",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda reasons: any(why in each for each in reasons),
        )


def commit(client: dict[str, str], group: str, at: TopicPartition, position: int) -> None:
    consumer = confluent_kafka.Consumer({**client, "group.id": group})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(*at, position)], asynchronous=False)
    consumer.close()


def committed(client: dict[str, str], group: str, at: TopicPartition) -> int:
    consumer = confluent_kafka.Consumer({**client, "group.id": group})
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(*at)], timeout=60)
    finally:
        consumer.close()
    return int(found.offset)


def delete(cluster: Cluster, topic: str) -> None:
    (result,) = cluster.delete_topics([topic])
    assert result.problem is None


def test_after_a_failover_each_topic_is_made_anew_from_the_other_with_every_record_at_its_offset(
    east: Cluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """What was mirrored before the failover too: it is on the standby as copies, which come home."""
    one, two = (unique(each).replace("-", "") for each in ("shop", "safe"))
    orders = TopicPartition(unique("orders"), 0)
    pair = Pair(dict(settings_of("east").client), dict(settings_of("west").client), orders, (one, two), tmp_path)
    group = f"{orders.topic}-reader"
    east.create_topics([NewTopic(orders.topic, 1, 1)])
    write(pair.home, orders, range(10))
    with pair.engine():
        pair.await_end(pair.away, 10)
        pair.await_stopped(Flow(two, one), "may be the original")

    write(pair.home, orders, [98, 99])  # stranded
    write(pair.away, orders, range(10, 15))
    commit(pair.away, group, orders, 12)
    delete(east, orders.topic)
    with pair.engine():
        pair.await_end(pair.home, 15)
        assert read(pair.home, orders, "read_uncommitted") == read(pair.away, orders, "read_uncommitted")
        assert len(read(pair.home, orders, "read_uncommitted")) == 15
        wait_until(
            lambda: committed(pair.home, group, orders),
            "the group's position",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda at: at == 12,
        )
        pair.await_stopped(Flow(one, two), "was deleted and created anew")

    write(pair.home, orders, range(15, 20))
    delete(west, orders.topic)
    with pair.engine():
        pair.await_end(pair.away, 20)
        assert read(pair.away, orders, "read_uncommitted") == read(pair.home, orders, "read_uncommitted")
        assert len(read(pair.away, orders, "read_uncommitted")) == 20
