"""The fault loop: a real `mirror run` under load, something killed or frozen again and again, and then the count."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from mirror.lab import clusters, processes
from mirror.lab import faults as lab_faults
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import write
from tests.brokers.copying import ends_of, log_of

TOPIC, PARTITIONS = "orders", 4
_PATIENCE_SECONDS = 120.0


@dataclass
class Bench:
    """Two clusters, a load, and the engine between; who is hurt is chosen by a seed."""

    directory: Path
    lab: clusters.Lab
    rate: int = 2_000
    happened: list[str] = field(default_factory=list)
    _lives: int = 0
    _sent: dict[int, int] = field(default_factory=dict)

    def client(self, alias: str) -> dict[str, str]:
        return {"bootstrap.servers": self.lab.clusters[alias].bootstrap_servers}

    @property
    def properties(self) -> Path:
        return self.directory / "mirror.properties"

    def write_properties(self) -> None:
        east, west = (self.client(alias)["bootstrap.servers"] for alias in ("east", "west"))
        write(self.properties, east, west, f"east->west.enabled = true\neast->west.topics = {TOPIC}\n")

    # The load.

    def load(self, stop: threading.Event) -> None:
        """Send numbered records to every partition at a rate, until told to stop; then everything is acknowledged."""
        producer = confluent_kafka.Producer(
            {**self.client("east"), "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 300_000}
        )

        def delivered(problem: object, message: confluent_kafka.Message) -> None:
            assert problem is None, problem
            partition = message.partition()
            assert partition is not None
            self._sent[partition] = self._sent.get(partition, 0) + 1

        number = 0
        while not stop.wait(0.02):
            for _ in range(self.rate // 50):
                producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
                number += 1
            producer.poll(0)
        assert producer.flush(_PATIENCE_SECONDS) == 0

    # The engine.

    def start_engine(self) -> ManagedProcess:
        self._lives += 1
        argv = [sys.executable, "-m", "mirror", "run", str(self.properties)]
        return processes.start(self.directory, f"engine-{self._lives}", argv, owner_pid=os.getpid())

    # Faults: each names what it did.

    def kill_driver(self, engine: ManagedProcess, _: random.Random) -> None:
        engine.kill()

    def kill_worker(self, engine: ManagedProcess, chance: random.Random) -> None:
        """Kill one of Spark's Python workers."""
        if workers := lab_faults.python_workers(engine):
            lab_faults.kill([chance.choice(workers)])

    def kill_jvm(self, engine: ManagedProcess, _: random.Random) -> None:
        lab_faults.kill(lab_faults.spark_jvms(engine))

    def freeze(self, engine: ManagedProcess, chance: random.Random) -> None:
        """Stop the whole engine for a moment, as a machine that swaps does."""
        lab_faults.suspend([engine])
        mark = self.acknowledged()
        more = chance.randrange(200, 4_000)
        wait_until(self.acknowledged, "more load", timeout_seconds=60, until=lambda count: count >= mark + more)
        lab_faults.resume([engine])

    def kill_source(self, _: ManagedProcess, chance: random.Random) -> None:
        self._restart("east")

    def kill_target(self, _: ManagedProcess, chance: random.Random) -> None:
        self._restart("west")

    def stop_engine(self, engine: ManagedProcess, _: random.Random) -> None:
        """End it as an operator does."""
        assert engine.terminate(60), engine.log_tail()
        assert engine.return_code() == 0, engine.log_tail()

    def _restart(self, alias: str) -> None:
        self.lab.clusters[alias].kill()
        self.lab.clusters[alias].start()

    def acknowledged(self) -> int:
        return sum(self._sent.values())

    # The loop and the count.

    def run(self, faults: int, seed: int, on_fault: Callable[[str], None] = lambda _: None) -> None:
        """Copy under load while ``faults`` things happen, each after the copy has gone on since the one before."""
        chance = random.Random(seed)
        kinds = [
            self.kill_driver,
            self.kill_worker,
            self.kill_jvm,
            self.freeze,
            self.kill_source,
            self.kill_target,
            self.stop_engine,
        ]
        order = [kind for _ in range(-(-faults // len(kinds))) for kind in chance.sample(kinds, len(kinds))][:faults]
        stop = threading.Event()
        load = threading.Thread(target=self.load, args=(stop,), daemon=True)
        load.start()
        engine = self.start_engine()
        try:
            for kind in order:
                self._await_more(engine, chance.randrange(1, 3_000))
                on_fault(kind.__name__)
                self.happened.append(f"{kind.__name__} at {self.copied()} of {self.acknowledged()}")
                kind(engine, chance)
                if not engine.is_alive():
                    engine = self.start_engine()
            stop.set()
            load.join()
            self._await_all(engine)
            self.stop_engine(engine, chance)
        finally:
            stop.set()
            engine.kill()

    def copied(self) -> int:
        partitions = [TopicPartition(f"east.{TOPIC}", number) for number in range(PARTITIONS)]
        return sum(ends_of(self.client("west"), partitions).values())

    def _await_more(self, engine: ManagedProcess, more: int) -> None:
        before = self._try_copied()
        wait_until(
            self._try_copied,
            f"{more} more records to be copied after {before}; the engine said {engine.log_tail(3)}",
            timeout_seconds=_PATIENCE_SECONDS,
            until=lambda now: now >= before + more,
        )

    def _await_all(self, engine: ManagedProcess) -> None:
        wait_until(
            self.copied,
            f"all of {self.acknowledged()} to be copied; the engine said {engine.log_tail(3)}",
            timeout_seconds=_PATIENCE_SECONDS,
            until=lambda now: now >= self.acknowledged(),
        )

    def _try_copied(self) -> int:
        """Return how much is copied; before the remote topic exists, nothing."""
        try:
            return self.copied()
        except Exception:  # noqa: BLE001  # the topic is not there yet, or the broker has just been killed
            return 0

    def differences(self) -> list[str]:
        """Say how the copy differs from the source, partition by partition; nothing when it is the same."""
        said = []
        for number in range(PARTITIONS):
            original = [record.value for record in log_of(self.client("east"), TopicPartition(TOPIC, number))]
            copy = [record.value for record in log_of(self.client("west"), TopicPartition(f"east.{TOPIC}", number))]
            assert len(original) >= self._sent.get(number, 0)
            if copy != original:
                first = next(
                    (at for at, pair in enumerate(zip(original, copy, strict=False)) if pair[0] != pair[1]), None
                )
                said.append(
                    f"{TOPIC}-{number}: {len(original)} records, {len(copy)} copied, {len(copy) - len(set(copy))} of them "
                    f"twice, {len(set(original) - set(copy))} missing, first difference at {first}"
                )
        return said
