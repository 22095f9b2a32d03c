"""A Spark standalone cluster to practise on: a master and some workers as child processes of this machine.

The engine runs the same on any Spark master. Here it can be seen to: `mirror run FILE --master URL`, a worker killed.
"""

from __future__ import annotations

import importlib.util
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirror.lab import ports, processes
from mirror.lab.errors import LabError
from mirror.lab.processes import ManagedProcess
from mirror.waiting import WaitTimeout, wait_until

_START_SECONDS = 300.0
_STOP_SECONDS = 10.0
_ENVIRONMENT = {"SPARK_DAEMON_MEMORY": "192m", "SPARK_LOCAL_IP": ports.LOOPBACK, "SPARK_NO_DAEMONIZE": "1"}
_MASTER, _WORKER = "spark-master", "spark-worker-"
_CLASSES = "org.apache.spark.deploy"


class SparkClusterError(LabError):
    """The cluster did not come up; the message holds what it said last."""


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """The processes of a cluster; each worker offers one core and 1 GiB."""

    master: ManagedProcess
    workers: tuple[ManagedProcess, ...]

    @property
    def master_url(self) -> str:
        """What ``mirror run --master`` takes."""
        return f"spark://{ports.LOOPBACK}:{self.master.argv[-1]}"

    def stop(self) -> tuple[str, ...]:
        """End it; return the names of the processes that had to be killed."""
        everything = (*self.workers, self.master)
        stubborn = [each for each in everything if each.is_alive() and not each.terminate(_STOP_SECONDS)]
        for each in stubborn:
            each.kill()
        return tuple(each.name for each in stubborn)


def up(directory: Path, workers: int, *, owner_pid: int | None = None) -> SparkCluster:
    """Start a master and ``workers`` workers, and return when all are registered.

    Parameters
    ----------
    directory
        keeps logs and what the workers hold; created if missing.
    owner_pid
        the process whose end, clean or not, ends the cluster; None: it runs until stopped.

    Raises
    ------
    SparkClusterError
        if it does not come up in a minute; nothing of it is left running.
    """
    port, page = ports.choose(2)
    place = ["--host", ports.LOOPBACK, "--webui-port"]
    # The port comes last: that is where it is read back from.
    master = _start(directory, _MASTER, "master.Master", [*place, str(page), "--port", str(port)], owner_pid)
    cluster = SparkCluster(master, ())
    for number in range(1, workers + 1):
        name = f"{_WORKER}{number}"
        offer = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory.absolute() / name), cluster.master_url]
        worker = _start(directory, name, "worker.Worker", [*place, "0", *offer], owner_pid)
        cluster = SparkCluster(master, (*cluster.workers, worker))
    try:
        wait_until(
            lambda: _registered(page),
            f"{workers} Spark workers to register",
            timeout_seconds=_START_SECONDS,
            until=lambda alive: alive >= workers,
        )
    except WaitTimeout as timeout:
        cluster.stop()
        raise SparkClusterError(f"{timeout}; the master said last:\n{master.log_tail()}") from timeout
    return cluster


def load(directory: Path) -> SparkCluster | None:
    """Return the cluster that was started in a directory, if its master runs."""
    found = processes.all(directory)
    master = next((each for each in found if each.name == _MASTER and each.is_alive()), None)
    if master is None:
        return None
    return SparkCluster(master, tuple(each for each in found if each.name.startswith(_WORKER)))


def _registered(page: int) -> int:
    """Return how many workers the master knows to be alive, 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{ports.LOOPBACK}:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return 0


def _start(
    directory: Path, name: str, main_class: str, arguments: Sequence[str], owner_pid: int | None
) -> ManagedProcess:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    home = Path(pyspark.origin).parent
    argv = [str(home / "bin" / "spark-class"), f"{_CLASSES}.{main_class}", *arguments]
    # Who is killed removes no folder of its own: here it goes with the cluster's.
    folders = {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(directory / "local")}
    return processes.start(directory, name, argv, env={**_ENVIRONMENT, **folders}, owner_pid=owner_pid)
