"""Two real clusters for all tests of this folder; each test uses names of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying, Unique, can_tell
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_both_ways import Pair
from tests.brokers.unresponsive import ANSWERS_NOTHING, HAS_ENDED, unresponsive_brokers
from tests.flows import flow_work
from tests.leftovers import allow_open_sockets
from tests.worker_process import forget_all


def pytest_configure(config: pytest.Config) -> None:
    """Allow for what kafka-python leaves open."""
    allow_open_sockets(config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failure what a shared broker that answers nothing does, and what engines said last."""
    report = yield
    used = getattr(item, "funcargs", {})
    if report.failed and (lab := used.get("east_west")) is not None:
        report.sections += list(unresponsive_brokers(lab.clusters.values()))
    if report.failed and (engines := used.get("engines")) is not None:
        report.sections += [(f"engine {name}", one.log_tail(20)) for name, one in engines.running.items()]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say last what shared brokers did: of a long log often the end alone is kept."""
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    told = dict(each for report in failed for each in report.sections)
    for title, text in told.items():
        if title.endswith((ANSWERS_NOTHING, HAS_ENDED)):
            terminalreporter.section(title)
            terminalreporter.write_line(text)


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


@pytest.fixture
def new_pair(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique, tmp_path: Path
) -> Callable[..., Pair]:
    """Make a topic on the first cluster of a file that has it copied both ways, to the same offsets."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> Pair:
        one, two = (unique(each).replace("-", "") for each in ("shop", "safe"))
        orders = TopicPartition(unique("orders"), 0)
        east.create_topics([NewTopic(orders.topic, partitions, 1, configs or {})])
        return Pair(dict(settings_of("east").client), dict(settings_of("west").client), orders, (one, two), tmp_path)

    return make


@pytest.fixture
def pair(new_pair: Callable[..., Pair]) -> Pair:
    """Two clusters and a topic of one partition that is copied both ways, to the same offsets."""
    return new_pair()


@pytest.fixture
def new_copying(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> NewCopying:
    """Make topics, their copies, and the side topics of a flow of their own."""

    def make(
        *topics: str,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
        copy_configs: dict[str, dict[str, str]] | None = None,
        source: Cluster = east,
        target: Cluster = west,
        clients: tuple[dict[str, str], dict[str, str]] | None = None,
        **flow: Any,
    ) -> Copying:
        names = [unique(topic) for topic in topics or ("orders",)]
        state, offsets, syncs = unique("mm2-state"), unique("mm2-offsets"), unique("mm2-offset-syncs")
        copies = copy_configs or {}
        # Records with timestamps of long ago are to stay.
        kept = {"retention.ms": "-1"}
        created = [
            *source.create_topics([NewTopic(name, partitions, 1, kept | (configs or {})) for name in names]),
            *source.create_topics([NewTopic(syncs, 1, 1)]),
            *target.create_topics(
                [
                    *(
                        NewTopic(f"east.{name}", partitions, 1, kept | copies.get(topic, {}))
                        for name, topic in zip(names, topics or ("orders",), strict=True)
                    ),
                    NewTopic(state, 1, 1, {"cleanup.policy": "compact"}),
                    NewTopic(offsets, 3, 1, {"cleanup.policy": "compact"}),
                ]
            ),
        ]
        assert [result.problem for result in created if result.problem] == []
        source_client, target_client = clients or (dict(settings_of("east").client), dict(settings_of("west").client))
        work = flow_work(
            source_client=source_client,
            target_client=target_client,
            state_topic=state,
            offsets_topic=offsets,
            offsets_partitions=3,
            syncs_topic=syncs,
        )
        pairs = {
            TopicPartition(name, number): TopicPartition(f"east.{name}", number)
            for name in names
            for number in range(partitions)
        }
        copying = Copying(replace(work, **flow), pairs)
        # A partition just created has a leader before that leader knows of it.
        on_target = [*pairs.values(), TopicPartition(state, 0), *(TopicPartition(offsets, each) for each in range(3))]
        for client, asked in ((source_client, list(pairs)), (target_client, on_target)):
            wait_until(lambda client=client, asked=asked: can_tell(client, asked), "the topics", timeout_seconds=60)  # type: ignore[misc]
        return copying

    return make


@pytest.fixture
def new_process() -> Callable[[], None]:
    """Make the next epoch begin as in a process that has just been started: no connections, no producer ids."""
    return forget_all


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """A worker process takes its connections with it; this one goes on."""
    yield
    forget_all()


@pytest.fixture
def engines(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Engines]:
    """Engines of one flow of their own between east and west, to be started by the test; killed at its end."""
    topic = unique("orders")
    east.create_topics([NewTopic(topic, PARTITIONS, 1)])
    made = Engines(
        dict(settings_of("east").client),
        dict(settings_of("west").client),
        topic,
        unique("shop").replace("-", ""),
        tmp_path,
    )
    yield made
    for each in made.running.values():
        each.kill()


@pytest.fixture
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.LabCluster]:
    """Three brokers of the test's own, to be hurt."""
    directory = tmp_path_factory.mktemp("trio")
    lab = clusters.up(directory, ["trio"], brokers=3, owner_pid=os.getpid())
    yield lab.clusters["trio"]
    clusters.down(directory, discard_data=True)
