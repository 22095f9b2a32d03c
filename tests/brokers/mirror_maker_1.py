"""A mirror of the kind of MirrorMaker 1 between two clusters: its files, its processes, ours or Java's, and its copy."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import read_records
from mirror.lab import jars, processes, runtime
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import ends_of, positions_of

PATIENCE_SECONDS = 120


@dataclass
class OldMirror:
    """Files and processes of one group between two clusters."""

    east: Cluster
    west: Cluster
    group: str
    folder: Path
    consumer: str = ""
    producer: str = ""
    running: list[ManagedProcess] = field(default_factory=list)

    def arguments(self, include: str, *more: str) -> list[str]:
        """Write the files and return the options that name them."""
        consumer, producer = self.folder / "consumer.properties", self.folder / "producer.properties"
        consumer.write_text(
            f"bootstrap.servers={self.east.bootstrap_servers}\ngroup.id={self.group}\nauto.offset.reset=earliest\n"
            f"session.timeout.ms=6000\nheartbeat.interval.ms=500\nmetadata.max.age.ms=1000\n{self.consumer}"
        )
        producer.write_text(f"bootstrap.servers={self.west.bootstrap_servers}\n{self.producer}")
        files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        return [*files, "--include", include, *more]

    def start(self, include: str, *more: str, env: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start ours."""
        return self._started([sys.executable, "-m", "mirror", "legacy", *self.arguments(include, *more)], env)

    def start_java(self, include: str, *more: str) -> ManagedProcess:
        """Start Apache's, of Kafka 3.9."""
        made = runtime.prepare(wanted=jars.OLDER)
        options = self.arguments(include, *more)
        command = made.command(
            "kafka.tools.MirrorMaker", options, heap_megabytes=256, temporary_files=self.folder.absolute()
        )
        return self._started(command, None)

    def _started(self, command: Sequence[str], env: Mapping[str, str] | None) -> ManagedProcess:
        name = f"mirror-{len(self.running)}"
        self.running.append(processes.start(self.folder, name, command, env=env, owner_pid=os.getpid()))
        return self.running[-1]

    def send(self, topic: str, values: Sequence[int], partitions: int) -> None:
        """Send numbered records to the source, with one of 300 keys."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.east.bootstrap_servers, "linger.ms": 5})
        for number in values:
            producer.produce(topic, b"%d" % number, b"%d" % (number % 300), partition=number % partitions)
        assert producer.flush(60) == 0

    def copies(self, topic: str, partitions: int) -> list[list[Record]]:
        """Return what each partition of the target's topic holds."""
        client = {"bootstrap.servers": self.west.bootstrap_servers}
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        ends = ends_of(client, asked)
        return [list(read_records(client, each, 0, ends[each])) for each in asked]

    def await_copies(self, topic: str, partitions: int, count: int) -> None:
        """Wait until the target's topic holds so many records."""
        client = {"bootstrap.servers": self.west.bootstrap_servers}
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        wait_until(
            lambda: sum(ends_of(client, asked).values()),
            f"{count} records; said: {[each.log_tail(8) for each in self.running]}",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda found: found >= count or not any(each.is_alive() for each in self.running),
        )
        assert any(each.is_alive() for each in self.running), [each.log_tail() for each in self.running]

    def await_said(self, process: ManagedProcess, text: str) -> None:
        """Wait until a process has said something."""
        wait_until(
            process.log_path.read_text,
            f"{text!r} in the log",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda said: text in said or not process.is_alive(),
        )
        assert text in process.log_path.read_text(), process.log_tail(30)

    def positions(self) -> dict[TopicPartition, int]:
        """Return where the group stands on the source."""
        return {each: position.position for each, position in positions_of(self.east, self.group).items()}

    def kill_all(self) -> None:
        """Kill what still runs."""
        for each in self.running:
            each.kill()
