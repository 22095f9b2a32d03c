"""One replicator a session on two clusters of its own: this engine, and with ``make interop`` Java MirrorMaker too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.lab import clusters
from tests.interop.java_gateway import JavaRemoteClusterUtils
from tests.interop.world import World
from tests.leftovers import allow_open_sockets


def pytest_configure(config: pytest.Config) -> None:
    """Allow for what kafka-python leaves open."""
    allow_open_sockets(config)


@pytest.fixture(scope="session", params=["mirror", pytest.param("java", marks=pytest.mark.interop)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two clusters and a replicator that runs on the file of `tests.interop.world`."""
    directory = tmp_path_factory.mktemp(request.param)
    lab = clusters.up(directory / "lab", ["primary", "backup"], owner_pid=os.getpid())
    try:
        settings = [
            ClusterSettings(alias, {"bootstrap.servers": one.bootstrap_servers}) for alias, one in lab.clusters.items()
        ]
        with ExitStack() as open_:
            primary, backup = (open_.enter_context(Cluster.connect(one, timeout_seconds=60.0)) for one in settings)
            world = World(request.param, directory, {primary.alias: primary, backup.alias: backup})
            try:
                world.start()
                yield world
            finally:
                world.close()
    finally:
        clusters.down(directory / "lab", discard_data=True)


@pytest.fixture(scope="session")
def java_answers() -> Iterator[JavaRemoteClusterUtils]:
    """Kafka's own reader of checkpoints and heartbeats."""
    with JavaRemoteClusterUtils() as java:
        yield java
