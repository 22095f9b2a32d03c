"""A Spark executor that its driver hears nothing of, and that reaches Kafka: what it has sent arrives late."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from mirror.lab import faults, ports, processes, spark_cluster
from mirror.lab.link import Link
from mirror.lab.processes import ManagedProcess
from mirror.waiting import wait_until
from tests.brokers.engines import DEFAULT, EXACTLY_ONCE, Engines, started_by
from tests.brokers.run_first import run_first

# Whoever connects to one of these ports is connected to another: those of a worker's processes alone stand there.
_LINES = "PORTS_OF_LINES"
_CODE = f"""\
import json, os, socket

_ports = dict(json.loads(os.environ.get({_LINES!r}, "[]")))
_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex


def _over(address):
    return (address[0], _ports.get(address[1], address[1])) if isinstance(address, tuple) else address


socket.socket.connect = lambda self, address: _connect(self, _over(address))
socket.socket.connect_ex = lambda self, address: _connect_ex(self, _over(address))
"""


@dataclass(frozen=True)
class Executors:
    """A Spark cluster of two workers with an executor each; the tasks of the second have lines of their own.

    Attributes
    ----------
    options
        of an engine that runs there.
    second
        the second worker.
    to_driver, to_target
        where tasks of its executor reach the epoch channel, and the target.
    """

    options: tuple[str, ...]
    second: ManagedProcess
    to_driver: Link
    to_target: Link

    def jvm(self) -> psutil.Process:
        """Return the second executor, without its tasks."""
        below = {each.pid: each for each in psutil.Process(self.second.pid).children(recursive=True)}
        (found,) = [each.pid for each in started_by(below.values()) if "CoarseGrainedExecutorBackend" in each.arguments]
        return below[found]


@pytest.fixture
def executors(engines: Engines, tmp_path: Path) -> Iterator[Executors]:
    """A Spark cluster for the engines of a test, of which one executor can be cut off from all others."""
    directory, owner = tmp_path / "spark", os.getpid()
    of_driver, *free = ports.choose(5)
    to_driver = Link(directory, "to-driver", free[0], free[1], f"{ports.LOOPBACK}:{of_driver}")
    to_target = Link(directory, "to-target", free[2], free[3], engines.target["bootstrap.servers"])
    cluster = spark_cluster.up(directory, 1, owner_pid=owner)
    (first,) = cluster.workers
    lines = [(int(line.target.rpartition(":")[2]), line.listen_port) for line in (to_driver, to_target)]
    second = processes.start(
        directory,
        "spark-worker-2",
        [each.replace(first.name, "spark-worker-2") for each in first.argv],
        env=psutil.Process(first.pid).environ() | {_LINES: json.dumps(lines)},
        owner_pid=owner,
    )
    conf = {
        "spark.driver.host": ports.LOOPBACK,
        "spark.mirror.driver.port": str(of_driver),
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": run_first(tmp_path / "lines", _CODE)["PYTHONPATH"],
    }
    options = [each for key, value in conf.items() for each in ("--spark-conf", f"{key}={value}")]
    try:
        for line in (to_driver, to_target):
            line.start(owner_pid=owner)
        registered = "Successfully registered"
        wait_until(lambda: registered in second.log_path.read_text(), "the second worker", timeout_seconds=120)
        yield Executors(("--master", cluster.master_url, *options), second, to_driver, to_target)
    finally:
        # One that is stopped would not see that its worker is gone.
        faults.kill(psutil.Process(second.pid).children(recursive=True))
        for each in (second, *cluster.workers, cluster.master):
            each.kill()
        for line in (to_driver, to_target):
            line.stop()


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "is_whole"),
    [
        pytest.param(DEFAULT, True, id="the executor"),
        pytest.param(DEFAULT, False, id="its task alone", marks=pytest.mark.soak),
        pytest.param(EXACTLY_ONCE, True, id="the executor, exactly once", marks=pytest.mark.soak),
        pytest.param(EXACTLY_ONCE, False, id="its task alone, exactly once"),
    ],
)
def test_an_executor_cut_off_from_its_driver_and_not_from_kafka_writes_nothing_twice(
    engines: Engines, executors: Executors, settings: str, *, is_whole: bool
) -> None:
    """What it had sent arrives when another executor has copied the same: it is refused."""
    engines.settings = f"mirror.epoch.seconds = 3600\n{settings}"
    engine = engines.running["engine"] = engines.start(*executors.options)
    engines.send(1_000)
    engines.await_all(240)
    begun = "the first epoch has reported"
    wait_until(lambda: begun in engine.log_path.read_text(), "an epoch that goes on", timeout_seconds=120)
    executors.to_target.set(bandwidth=4_096)
    engines.send(4_000)
    # More than anything but records takes. They need seconds from there, and do not arrive before the line is healed.
    wait_until(executors.to_target.under_way, "requests", timeout_seconds=60, until=lambda size: size > 8_000)
    executors.to_target.cut()
    executors.to_driver.cut()
    assert executors.to_target.under_way() > 8_000
    if is_whole:
        executors.jvm().suspend()
    # It ends the epoch, as whatever is to be planned anew does.
    engines.settings = f"mirror.epoch.seconds = 10\n{settings}"
    engines.write()
    # The driver gives the task up, or the task finds the driver silent; whichever is first, the next one is not reached.
    ends = ("a task that has said nothing for long was given up", "the driver cannot be reached from its task")
    wait_until(
        lambda: any(each in engine.log_path.read_text() for each in ends), "the end of the epoch", timeout_seconds=120
    )
    if not is_whole:
        # What was connected is silent, and nothing can be connected any more.
        executors.to_driver.cut(silently=False)
    engines.send(1_000)
    engines.await_all()
    executors.to_target.set(bandwidth=None)
    executors.to_target.heal()
    wait_until(executors.to_target.under_way, "their arrival", timeout_seconds=60, until=lambda size: size == 0)
    engines.send(1_000)
    engines.await_all()
    engines.assert_each_once()

    if is_whole:
        executors.jvm().resume()
    executors.to_driver.heal()
    engines.send(1_000)
    engines.await_all()
    engines.assert_each_once()
    assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()
