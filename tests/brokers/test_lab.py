"""Labs of real brokers: nothing is left behind, and nothing is forgotten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from mirror.lab import clusters, commands
from mirror.lab.clusters import LabCluster
from mirror.waiting import wait_until
from tests.brokers.ordinary_client import cluster_id, create_topic, read, send


def processes_of(directory: Path) -> list[str]:
    """The command lines of all processes, brokers and keepers, that work for a lab."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["pid"] != os.getpid() and any(str(directory) in word for word in words):
            found.append(" ".join(words))
    return found


@pytest.fixture(scope="module")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab whose owner, another process, was killed when its cluster ``south`` held three records."""
    directory = tmp_path_factory.mktemp("abandoned")
    program = (
        "import os, signal; from pathlib import Path; from mirror.lab import clusters;"
        f"clusters.up(Path({str(directory)!r}), ['south'], owner_pid=os.getpid());"
        "print('up', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        south = clusters.load(directory).clusters["south"]
        create_topic(south, "orders")
        send(south, "orders", "1", "2", "3")
        assert processes_of(directory) != []
        owner.kill()
    return directory


@pytest.fixture(scope="module")
def south(abandoned: Path) -> Iterator[LabCluster]:
    """The cluster of the abandoned lab, up again for this process."""
    wait_until(lambda: processes_of(abandoned) == [], "the end of the abandoned brokers", timeout_seconds=30)
    cluster = clusters.up(abandoned, ["south"], owner_pid=os.getpid()).clusters["south"]
    yield cluster
    cluster.kill()


def test_no_process_outlives_an_owner_that_was_killed(abandoned: Path) -> None:
    """``kill -9`` of the owner ends brokers and keepers."""
    wait_until(lambda: processes_of(abandoned) == [], "the end of the abandoned brokers", timeout_seconds=30)
    assert not clusters.load(abandoned).clusters["south"].is_alive()


def test_up_brings_an_abandoned_cluster_back_with_its_data(south: LabCluster) -> None:
    assert read(south, "orders", 3) == ["1", "2", "3"]


def test_a_killed_cluster_starts_again_as_the_same_one(south: LabCluster) -> None:
    """``kill -9`` takes every broker; addresses, id and acknowledged records survive."""
    before = (south.bootstrap_servers, cluster_id(south))

    south.kill()
    assert not south.is_alive()
    south.start()

    assert south.is_alive()
    assert (south.bootstrap_servers, cluster_id(south)) == before
    assert read(south, "orders", 3) == ["1", "2", "3"]


def test_commands_show_a_lab_and_take_it_down_with_its_data(abandoned: Path, south: LabCluster) -> None:
    """After ``down --discard`` neither a process nor a file of the cluster is left."""
    shown = CliRunner().invoke(commands.app, ["status", "--json", "--directory", str(abandoned)])
    assert [(each["alias"], each["state"]) for each in json.loads(shown.output)["clusters"]] == [("south", "RUNNING")]

    down = CliRunner().invoke(commands.app, ["down", "--directory", str(abandoned)])
    assert (down.exit_code, "STOPPED" in down.output) == (0, True)
    assert processes_of(abandoned) == []
    assert (abandoned / "south" / "broker-1.log").exists()

    assert CliRunner().invoke(commands.app, ["down", "--discard", "--directory", str(abandoned)]).exit_code == 0
    assert not (abandoned / "south").exists()


@pytest.mark.soak
def test_three_brokers_survive_the_loss_of_one(tmp_path: Path) -> None:
    """Two of three brokers go on serving, and the third comes back."""
    trio = clusters.up(tmp_path, ["trio"], brokers=3, owner_pid=os.getpid()).clusters["trio"]
    try:
        create_topic(trio, "orders", replicas=3)
        send(trio, "orders", "before")
        trio.brokers[0].kill()
        send(trio, "orders", "after")
        trio.brokers[0].start()
        assert read(trio, "orders", 2) == ["before", "after"]
    finally:
        clusters.down(tmp_path)
    assert processes_of(tmp_path) == []
