"""A copy is made anew on a target whose brokers create what a client asks for: others ask for it all the time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.lab import brokers, clusters
from mirror.model.partition import TopicPartition
from tests.brokers.copying import write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import (
    SAME,
    await_anew,
    await_records,
    copied_and_killed,
    deleted_and_created_anew,
    gaps_of,
)
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long

AUTOMATIC_PARTITIONS, OWN_SIZE = 6, "2500000"


@pytest.fixture
def creating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster that creates topics with six partitions for who asks for them."""
    usual = brokers.node_properties

    def creates(*arguments: Any) -> dict[str, str]:
        return usual(*arguments) | {
            "auto.create.topics.enable": "true",
            "num.partitions": str(AUTOMATIC_PARTITIONS),
        }

    monkeypatch.setattr(brokers, "node_properties", creates)
    lab = clusters.up(tmp_path / "creating", ["creating"], owner_pid=os.getpid())
    servers = lab.clusters["creating"].bootstrap_servers
    with Cluster.connect(ClusterSettings("creating", {"bootstrap.servers": servers})) as cluster:
        yield cluster
    clusters.down(tmp_path / "creating", discard_data=True)


@pytest.fixture
def asking(creating: Cluster) -> Iterator[Callable[[str], None]]:
    """Have a client ask for a topic again and again, as one does that reads or writes it."""
    stop, threads = threading.Event(), list[threading.Thread]()

    def asks(topic: str) -> None:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
        )
        while not stop.is_set():
            creating.send(request)

    def begin(topic: str) -> None:
        threads.append(threading.Thread(target=asks, args=(topic,)))
        threads[-1].start()

    yield begin
    stop.set()
    for each in threads:
        each.join(30)


def test_a_copy_that_a_client_has_created_meanwhile_gets_what_the_source_has_and_its_difference_is_told(
    engines: Engines, east: Cluster, creating: Cluster, asking: Callable[[str], None]
) -> None:
    engines.target = {"bootstrap.servers": creating.bootstrap_servers}
    # What is kept in step later does not count here.
    engines.settings = f"{SAME}mirror.offsets.recreated = make-anew\nsync.topic.configs.enabled = false\n"
    copy, former = engines.copies[0].topic, copied_and_killed(engines, creating)
    deleted_and_created_anew(east, engines.topic, 2, {"max.message.bytes": OWN_SIZE})
    sources = [TopicPartition(engines.topic, number) for number in range(2)]
    for source in sources:
        write(engines.source, source, range(7))
    asking(copy)
    engines.running["second"] = engines.start()
    copies = [TopicPartition(copy, source.partition) for source in sources]
    await_anew(engines, creating, copies, former)
    for source, each in zip(sources, copies, strict=True):
        await_records(engines, each, 7)
        assert read(engines.target, each, "read_uncommitted") == read(engines.source, source, "read_uncommitted")
    assert gaps_of(engines) == {(number, 0, 10, "recreated") for number in range(PARTITIONS)}
    configs = {each.name: each.value for each in creating.topic_configs([copy])[copy]}
    assert configs["max.message.bytes"] == OWN_SIZE
    # Who comes first is not certain.
    said = f"it has {AUTOMATIC_PARTITIONS} partitions, and {engines.topic} on {engines.alias} 2; it keeps them"
    is_automatic = len(creating.topics([copy])[copy].partitions) == AUTOMATIC_PARTITIONS
    assert (said in engines.running["second"].log_tail(400)) is is_automatic
