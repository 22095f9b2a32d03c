"""Engines of one flow, as processes of `mirror run` on one file, and a load of numbered records."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil
import pytest

from mirror.kafka.log import read_records
from mirror.lab import processes
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until
from tests.brokers.command import FACTORS, kept, status_of
from tests.brokers.copying import ends_of, put_group

PARTITIONS = 4
_PATIENCE_SECONDS = 120
#: Each flow with aliases of its own, as tests on shared clusters have, makes a copy of every heartbeats topic that is there,
#: copies of other tests among them: two flows that go both ways double them, 5,000 topics after a hundred tests.
NO_HEARTBEATS = "heartbeats.replication.enabled = false\n"
DEFAULT, EXACTLY_ONCE = "", "west.exactly.once.source.support = enabled\n"
both_modes = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(DEFAULT, id="default"),
        pytest.param(EXACTLY_ONCE, id="exactly-once", marks=pytest.mark.long),
    ],
)


def address_of(engine: ManagedProcess) -> str:
    """Return where an engine says that it serves its status."""
    # Of all that it has printed: on clusters that other tests have used, it may say much behind this line.
    return wait_until(
        lambda: re.findall(r"status: (http://\S+) serves", engine.log_tail(sys.maxsize)),
        f"the address; the engine said {engine.log_tail()}",
        timeout_seconds=60,
    )[0]


def asked(engine: ManagedProcess, path: str) -> tuple[int, str]:
    """Return what an engine answers."""
    try:
        with urllib.request.urlopen(f"{address_of(engine)}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@dataclass(frozen=True)
class Started:
    """With what a process was started, as others of its user may read it, and in which folder it is at work."""

    pid: int
    arguments: str
    environment: str
    folder: str


def started_by(processes: Iterable[psutil.Process]) -> list[Started]:
    """Return with what processes were started; those that have ended meanwhile are left out."""
    found = []
    for each in processes:
        with contextlib.suppress(psutil.Error):
            found.append(Started(each.pid, " ".join(each.cmdline()), str(each.environ()), each.cwd()))
    # One that nobody has waited for yet has no folder.
    return [each for each in found if each.folder]


def texts_below(directory: Path) -> dict[str, str]:
    """Return what the files of a directory hold; those that go meanwhile are left out."""
    found = {}
    # Folders go meanwhile, too.
    for folder, _, names in os.walk(directory):
        for file in (Path(folder, name) for name in names):
            with contextlib.suppress(OSError):
                found[str(file)] = file.read_bytes().decode("latin-1")
    return found


@dataclass
class Engines:
    """Two engines of one flow, and a load of numbered records."""

    source: dict[str, str]
    target: dict[str, str]
    topic: str
    alias: str
    directory: Path
    settings: str = ""
    heartbeats: str = NO_HEARTBEATS
    #: Where the engines reach the target, if not where the test does.
    target_servers: str = ""
    running: dict[str, ManagedProcess] = field(default_factory=dict)
    sent: int = 0
    _lives: int = 0

    @property
    def file(self) -> Path:
        """The properties file of all of them."""
        return kept(
            self.directory / "mirror.properties",
            f"clusters = {self.alias}, west\n"
            f"{self.alias}.bootstrap.servers = {self.source['bootstrap.servers']}\n"
            f"west.bootstrap.servers = {self.target_servers or self.target['bootstrap.servers']}\n"
            f"{self.alias}->west.enabled = true\n{self.alias}->west.topics = {self.topic}\n"
            f"mirror.tasks = 2\n{self.heartbeats}{FACTORS}{self.settings}",
        )

    def write(self) -> None:
        """Have the file say what it is to say by now."""
        assert self.file.is_file()

    def start(self, *options: str, env: dict[str, str] | None = None) -> ManagedProcess:
        self._lives += 1
        argv = [sys.executable, "-m", "mirror", "run", str(self.file), *options]
        return processes.start(self.directory, f"engine-{self._lives}", argv, env=env, owner_pid=os.getpid())

    def send(self, count: int) -> None:
        producer = confluent_kafka.Producer({**self.source, "linger.ms": 5})
        for number in range(self.sent, self.sent + count):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        self.sent += count

    def commit(self, group: str, position: int) -> None:
        """Have a group at a position of the topic's first partition."""
        put_group(self.source, f"{self.topic}-{group}", TopicPartition(self.topic, 0), position)

    @property
    def copies(self) -> list[TopicPartition]:
        return [TopicPartition(f"{self.alias}.{self.topic}", number) for number in range(PARTITIONS)]

    def copied(self) -> int:
        try:
            return sum(ends_of(self.target, self.copies).values())
        except Exception:  # noqa: BLE001  # the topic is not there yet
            return 0

    def await_all(self, timeout_seconds: float = _PATIENCE_SECONDS) -> float:
        """Wait until every record that was sent is there; return how long it took, in seconds."""
        began = time.monotonic()
        wait_until(
            # Markers count too: so many offsets are needed, and not enough.
            lambda: self.numbers() if self.copied() >= self.sent else [],
            f"{self.sent} records",
            timeout_seconds=timeout_seconds,
            until=lambda found: sum(map(len, found)) >= self.sent,
        )
        return time.monotonic() - began

    def numbers(self) -> list[list[int]]:
        """Return what each copy holds, in the order of its log."""
        if not self.copied():
            return []
        ends = ends_of(self.target, self.copies)
        return [
            [int(record.value or b"-1") for record in read_records(self.target, each, 0, end, read_committed=True)]
            for each, end in ((each, ends[each]) for each in self.copies)
        ]

    def assert_each_once(self) -> None:
        assert self.numbers() == [list(range(number, self.sent, PARTITIONS)) for number in range(PARTITIONS)]

    def status(self) -> dict[str, Any]:
        (flow,) = status_of(self.file)
        return flow

    def await_standby(self, what: str, timeout_seconds: float = 60) -> dict[str, Any]:
        """Wait until an engine stands by and another leads; return that status."""
        try:
            return wait_until(
                self.status,
                what,
                timeout_seconds=timeout_seconds,
                until=lambda found: found["standbys"] and found["state"] == "RUNNING",
            )
        except WaitTimeout as late:
            said = {name: (one.return_code(), one.log_tail()) for name, one in self.running.items()}
            raise AssertionError(f"the engines ended with, and said: {said}") from late
