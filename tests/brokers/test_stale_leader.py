"""A broker of the source that was replaced as leader, and has not heard of it, is not believed: nothing is truncated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as AssignedTopic

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.lab import faults
from mirror.lab.brokers import EmbeddedBroker
from mirror.lab.clusters import LabCluster
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying, assert_copied, write
from tests.brokers.leaders import led_by
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


def test_what_a_replaced_leader_lacks_that_has_not_heard_of_it_is_waited_for(
    trio: LabCluster,
    new_copying: NewCopying,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
) -> None:
    """It was frozen, the others led on and went down, and it came back alone: copies were refused, or made twice."""
    client = {"bootstrap.servers": trio.bootstrap_servers}
    first, second, third = trio.brokers
    topics = [unique(word) for word in ("translated", "same")]
    admin = AdminClient(client)
    for done in admin.create_topics(
        [AssignedTopic(each, 1, replica_assignment=[[2, 3]], config={"min.insync.replicas": "1"}) for each in topics]
    ).values():
        done.result(20)
    copyings = []
    with Cluster.connect(ClusterSettings("trio", client)) as cluster:
        for topic in topics:
            copying = new_copying(source=cluster, clients=(client, dict(settings_of("west").client)))
            (target,) = copying.pairs.values()
            copying.pairs = {TopicPartition(topic, 0): target}
            copyings.append(copying)
    translated, same = copyings
    same.pad_limit = 1_000
    for copying in copyings:
        copying.from_the_target()
    sources = [TopicPartition(each, 0) for each in topics]
    for each in sources:
        wait_until(lambda each=each: led_by(client, each, 2, 2), "the second to lead", timeout_seconds=60)
        write(client, each, range(100))
    for copying in copyings:
        copying.until_caught_up()
    assert isinstance(second, EmbeddedBroker)
    assert second.process is not None
    faults.suspend([second.process])
    others = {"bootstrap.servers": f"{first.address},{third.address}"}
    for each in sources:
        wait_until(lambda each=each: led_by(others, each, 3, 1), "the third to lead", timeout_seconds=60)
        write(others, each, range(100, 150))
    for copying in copyings:
        copying.until_caught_up()
    # One goes on, the other is taken over.
    same.from_the_target()
    first.kill()
    third.kill()
    faults.resume([second.process])
    for copying, source in zip(copyings, sources, strict=True):

        def trouble(copying: Copying = copying, source: TopicPartition = source) -> str:
            result = copying.epoch(3.0)[source]
            assert result.stopped is None
            return result.trouble or ""

        wait_until(trouble, "a doubt", timeout_seconds=120, until=lambda told: "may have been replaced" in told)
        assert copying.state().gaps == {}
    first.start()
    third.start()
    for each in sources:
        write(client, each, range(150, 160))
    for copying in copyings:
        copying.until_caught_up()
        assert copying.state().gaps == {}
    assert_copied(translated)
    assert read(dict(same.flow.target_client), same.pairs[sources[1]], "read_uncommitted") == read(
        client, sources[1], "read_uncommitted"
    )
