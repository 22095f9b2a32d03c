"""`mirror run` on a Spark cluster of others: another user, another folder, another Python without this project."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import ports, processes
from mirror.lab.processes import ManagedProcess
from mirror.waiting import wait_until
from tests.brokers.engines import Engines, started_by, texts_below
from tests.brokers.mirror_maker_1 import OldMirror

pytestmark = pytest.mark.spark_cluster

USER, CORES, SECRET = "nobody", 3, "shared-by-the-cluster"
KNOWN_TO_NOBODY = "Kn0wn-to-nobody"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={pwd.getpwnam(USER).pw_gid}", "--clear-groups", "--")


@dataclass(frozen=True)
class Foreign:
    """A cluster of one worker with three executors; ``python`` is what its tasks run on."""

    worker: ManagedProcess
    master_url: str
    folder: Path
    python: str

    def tasks(self) -> list[psutil.Process]:
        """Return the processes that executors have started for tasks."""
        return self._named("mirror.copier.worker_daemon")

    def executors(self) -> list[psutil.Process]:
        """Return the executors' JVMs."""
        return self._named("CoarseGrainedExecutorBackend")

    def settings(self) -> dict[str, str]:
        """Return what Spark is told by who works here; the secret is in its environment."""
        return {
            "spark.authenticate.secret": "${env:SHARED_SECRET}",
            "spark.pyspark.python": self.python,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
        }

    def _named(self, text: str) -> list[psutil.Process]:
        below = {each.pid: each for each in psutil.Process(self.worker.pid).children(recursive=True)}
        return [below[each.pid] for each in started_by(below.values()) if text in each.arguments]


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    """A Spark cluster with a secret of its own; its worker belongs to a user who sees nothing of this project."""
    if os.geteuid() != 0:
        pytest.skip("another user is needed, and so is root")
    group = pwd.getpwnam(USER).pw_gid
    with tempfile.TemporaryDirectory(prefix="mirror-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.chown(folder, pwd.getpwnam(USER).pw_uid, group)
        python = python_of_others()
        # Spark alone, as on a machine that has nothing else of ours.
        home = folder / "spark"
        shutil.copytree(Path(pyspark.__file__).parent, home, ignore=shutil.ignore_patterns("__pycache__", "examples"))
        settings = folder / "spark.conf"
        settings.write_text(
            f"spark.authenticate true\nspark.authenticate.secret {SECRET}\nspark.network.crypto.enabled true\n"
        )
        port, page = ports.choose(2)
        url = f"spark://{ports.LOOPBACK}:{port}"
        java = str(Path(shutil.which("java") or "java").resolve().parents[1])
        env = {"PATH": "/usr/bin:/bin", "JAVA_HOME": java, "SPARK_HOME": str(home), "HOME": str(folder)}
        env |= {"SPARK_LOCAL_IP": ports.LOOPBACK, "SPARK_DAEMON_MEMORY": "192m", "SPARK_NO_DAEMONIZE": "1"}

        def start(what: str, *options: str) -> ManagedProcess:
            given = [f"{key}={value}" for key, value in env.items()]
            run = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{what}", "--host", ports.LOOPBACK]
            argv = [*AS_USER, "env", "-i", "-C", str(folder), *given, *run, "--properties-file", str(settings)]
            return processes.start(folder / "logs", what.partition(".")[0], [*argv, *options], owner_pid=os.getpid())

        started = [start("master.Master", "--port", str(port), "--webui-port", str(page))]
        offer = ("--cores", str(CORES), "--memory", "3g", "--webui-port", "0", "--work-dir", str(folder / "work"))
        started.append(start("worker.Worker", *offer, url))
        try:
            wait_until(
                lambda: "Successfully registered" in started[1].log_path.read_text(), "the worker", timeout_seconds=120
            )
            yield Foreign(started[1], url, folder, python)
        finally:
            for each in reversed(started):
                each.terminate(20)


def spark_options(settings: Mapping[str, str]) -> list[str]:
    return [each for key, value in settings.items() for each in ("--spark-conf", f"{key}={value}")]


def python_of_others() -> str:
    """Return a Python of this minor version that the other user may run."""
    for found in filter(None, (shutil.which(PYTHON, path=path) for path in ("/usr/local/bin", "/usr/bin"))):
        done = subprocess.run(
            [*AS_USER, found, "-I", "-c", "import mirror"], capture_output=True, text=True, check=False
        )
        if "No module named 'mirror'" in done.stderr:
            return found
    pytest.skip(f"there is no {PYTHON} for {USER}")


def test_code_and_logins_travel_and_an_executor_that_is_killed_costs_no_record(
    engines: Engines, foreign: Foreign
) -> None:
    """Also kill -9 of an executor under load; as many tasks as the executors have cores, whatever this machine has."""
    engines.settings = (
        "mirror.tasks = 0\nmirror.epoch.seconds = 5\n"
        f'west.sasl.jaas.config = x.PlainLoginModule required username="ann" password="{KNOWN_TO_NOBODY}";\n'
    )
    (port,) = ports.choose(1)
    settings = foreign.settings() | {
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.mirror.driver.port": str(port),
    }
    engine = engines.running["engine"] = engines.start(
        "--master", foreign.master_url, *spark_options(settings), env={"SHARED_SECRET": SECRET}
    )
    engines.send(1_000)
    engines.await_all(240)
    tasks = wait_until(foreign.tasks, "a task a core", timeout_seconds=120, until=lambda found: len(found) >= CORES)
    of_executors = started_by([*tasks, *foreign.executors()])
    assert [each for each in of_executors if not Path(each.folder).is_relative_to(foreign.folder)] == []
    of_driver = started_by(psutil.Process(engine.pid).children(recursive=True))
    for each in (*of_executors, *of_driver):
        assert KNOWN_TO_NOBODY not in each.arguments + each.environment
        assert SECRET not in each.arguments
    for killed in range(2):
        engines.send(5_000)
        foreign.executors()[killed].kill()
        engines.send(5_000)
        engines.await_all(240)
    engines.assert_each_once()
    assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()
    assert [file for file, text in texts_below(foreign.folder).items() if KNOWN_TO_NOBODY in text] == []


def test_the_streams_of_mirror_maker_1_run_there_too(
    foreign: Foreign, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """MM1-08: each is a task of its own; SIGTERM flushes, commits, and exits with 0."""
    mirror, orders, count = OldMirror(east, west, unique("mirrors"), tmp_path), unique("orders"), 3_000
    for cluster in (east, west):
        (made,) = cluster.create_topics([NewTopic(orders, 2, 1)])
        assert made.problem is None
    mirror.send(orders, range(count), 2)
    options = ("--num.streams", "2", "--master", foreign.master_url, *spark_options(foreign.settings()))
    try:
        process = mirror.start(orders, *options, env={"SHARED_SECRET": SECRET})
        mirror.await_copies(orders, 2, count)
        assert [
            each for each in started_by(foreign.tasks()) if not Path(each.folder).is_relative_to(foreign.folder)
        ] == []
        assert process.terminate(60), process.log_tail()
        assert process.return_code() == 0, process.log_tail()
    finally:
        mirror.kill_all()
    found = sorted(int(each.value or b"-1") for records in mirror.copies(orders, 2) for each in records)
    assert found == list(range(count))
    assert sum(mirror.positions().values()) == count
