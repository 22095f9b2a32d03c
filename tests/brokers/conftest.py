"""Two real clusters for all tests of this folder; each test uses names of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.lab import clusters

_HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Allow for kafka-python leaving sockets to the garbage collector when a connection or a TLS handshake fails."""
    for kind in (r"socket.*laddr=.'0\.0\.0\.0'", r"ssl\.SSLSocket"):
        config.addinivalue_line("filterwarnings", f"ignore:unclosed <{kind}:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: it needs Java and takes a share of the machine."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.brokers)


@pytest.fixture(scope="session")
def east_west(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Lab]:
    """Two single-node clusters, ``east`` and ``west``, with links, shared by the whole session."""
    directory = tmp_path_factory.mktemp("lab")
    yield clusters.up(directory, ["east", "west"], owner_pid=os.getpid(), linked=["east", "west"])
    clusters.down(directory)


@pytest.fixture(scope="session")
def settings_of(east_west: clusters.Lab) -> Callable[[str], ClusterSettings]:
    """Tell how to reach a cluster of the lab, by alias."""
    return lambda alias: ClusterSettings(alias, {"bootstrap.servers": east_west.clusters[alias].bootstrap_servers})


@pytest.fixture(scope="session")
def east(settings_of: Callable[[str], ClusterSettings]) -> Iterator[Cluster]:
    """A connection to the cluster ``east``."""
    with Cluster.connect(settings_of("east")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def west(settings_of: Callable[[str], ClusterSettings]) -> Iterator[Cluster]:
    """A connection to the cluster ``west``."""
    with Cluster.connect(settings_of("west")) as cluster:
        yield cluster


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[clusters.LabCluster]:
    """A cluster of the test's own, to be killed."""
    directory = tmp_path / "mortal"
    yield clusters.up(directory, ["mortal"], owner_pid=os.getpid()).clusters["mortal"]
    clusters.down(directory, discard_data=True)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Make a name that no other test uses out of a word."""
    return lambda word: f"{word}-{uuid.uuid4().hex[:8]}"
