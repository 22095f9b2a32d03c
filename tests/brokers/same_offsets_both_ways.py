"""Two clusters of a file of its own, a topic of one name on both, and engines that copy it both ways."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka

from mirror.kafka.cluster import Cluster
from mirror.lab import processes
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, kept, status_of
from tests.brokers.copying import ends_of
from tests.brokers.engines import NO_HEARTBEATS

SETTINGS = (
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    "mirror.offsets = same\nsync.group.offsets.enabled = true\n"
    "emit.checkpoints.interval.seconds = 1\nsync.group.offsets.interval.seconds = 1\n"
    "refresh.groups.interval.seconds = 1\n"
)
PATIENCE_SECONDS = 240


@dataclass
class Pair:
    """The clients of the two clusters, and by which names the file knows them."""

    home: dict[str, str]
    away: dict[str, str]
    orders: TopicPartition
    aliases: tuple[str, str]
    directory: Path
    settings: str = SETTINGS
    heartbeats: str = NO_HEARTBEATS

    @property
    def file(self) -> Path:
        one, two = self.aliases
        return kept(
            self.directory / "mirror.properties",
            f"clusters = {one}, {two}\n{one}.bootstrap.servers = {self.home['bootstrap.servers']}\n"
            f"{two}.bootstrap.servers = {self.away['bootstrap.servers']}\n{one}->{two}.enabled = true\n"
            f"{two}->{one}.enabled = true\ntopics = {self.orders.topic}\n{self.heartbeats}{FACTORS}{self.settings}",
        )

    @property
    def there(self) -> Flow:
        return Flow(*self.aliases)

    @property
    def back(self) -> Flow:
        return Flow(*reversed(self.aliases))

    def start(self) -> processes.ManagedProcess:
        argv = [sys.executable, "-m", "mirror", "run", str(self.file)]
        return processes.start(self.directory, "engine", argv, owner_pid=os.getpid())

    @contextmanager
    def engine(self) -> Iterator[processes.ManagedProcess]:
        started = self.start()
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

    def status(self, flow: Flow) -> dict[str, Any]:
        (found,) = (each for each in status_of(self.file) if each["flow"] == str(flow))
        return found

    def await_copied(self, flow: Flow, *upstream: int) -> None:
        """Wait until a flow has told that it has copied, or passed by, all up to these offsets, and is not stopped."""
        wait_until(
            lambda: self.status(flow),
            f"{flow} to be at {upstream}",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: (
                [(each, None) for each in upstream]
                == [
                    (each["upstream_next"], each["stopped"])
                    for each in found["partitions"]
                    if each["topic"] == self.orders.topic
                ]
            ),
        )

    def copied_heartbeats(self, flow: Flow) -> int:
        """Return up to where a flow has copied the heartbeats of its source: whether it copies when nobody writes.

        0 where an engine was stopped before it had begun with them.
        """
        copied = [each["upstream_next"] for each in self.status(flow)["partitions"] if each["topic"] == "heartbeats"]
        return int(copied[0]) if copied else 0

    def await_heartbeats(self, flow: Flow, before: int) -> None:
        """Wait until a flow has copied more heartbeats than ``before``."""
        wait_until(
            lambda: self.copied_heartbeats(flow),
            f"{flow} to copy",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda now: now > before,
        )

    def await_reason(self, flow: Flow, why: str) -> None:
        wait_until(
            lambda: self.status(flow)["reasons"],
            f"{flow} to say: {why}",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda reasons: any(why in each for each in reasons),
        )


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
