"""Clusters in containers, on a machine where Docker is: they are what the others are, and nothing of them is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.lab import clusters, containers, processes
from mirror.lab.clusters import Lab, Provider
from mirror.lab.containers import ContainerCluster
from mirror.waiting import wait_until
from tests.brokers.command import address, mirror, write
from tests.brokers.ordinary_client import cluster_id, create_topic, read, send

pytestmark = pytest.mark.docker


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Two clusters, a container each."""
    yield clusters.up(tmp_path / "lab", ["east", "west"], provider=Provider.CONTAINERS, owner_pid=os.getpid())
    clusters.down(tmp_path / "lab", discard_data=True)


def names(prefix: str = "mirrorbook-") -> set[str]:
    """The containers there are, running or not."""
    with containers.docker() as client:
        return {each.name for each in client.containers.list(all=True) if each.name.startswith(prefix)}


def test_a_killed_container_starts_again_as_the_same_cluster(lab: Lab) -> None:
    east = lab.clusters["east"]
    before = cluster_id(east)
    create_topic(east, "orders")
    send(east, "orders", "one")
    east.kill()
    assert not east.is_alive()
    east.start()
    send(east, "orders", "two")
    assert (read(east, "orders", 2), cluster_id(east)) == (["one", "two"], before)


def test_nothing_is_left_when_the_holder_was_killed(tmp_path: Path) -> None:
    before = names()
    lab = clusters.up(tmp_path / "lab", ["alone"], provider=Provider.CONTAINERS, owner_pid=os.getpid())
    cluster = lab.clusters["alone"]
    assert isinstance(cluster, ContainerCluster)
    assert cluster.broker.holder is not None
    cluster.broker.holder.kill()
    clusters.down(tmp_path / "lab", discard_data=True)
    assert names() == before


def test_a_topic_is_copied_from_one_container_to_another(lab: Lab, tmp_path: Path) -> None:
    values = [f"{number}" for number in range(1000)]
    create_topic(lab.clusters["east"], "orders")
    send(lab.clusters["east"], "orders", *values)
    more = "east->west.enabled = true\n"
    file = write(tmp_path / "mirror.properties", address(lab, "east"), address(lab, "west"), more)
    argv = [sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    wait_until(
        lambda: mirror("verify", str(file)).returncode if engine.is_alive() else "ended",
        "the copy to be what the source is",
        timeout_seconds=120,
        until=lambda status: status in {0, "ended"},
    )
    assert read(lab.clusters["west"], "east.orders", 1000) == values
    assert engine.terminate(60)
