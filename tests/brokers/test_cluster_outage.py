"""A connection outlives its brokers: an outage is told in time, and afterwards everything works again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, ClusterUnreachable, GroupDescription, GroupPosition, NewTopic
from mirror.lab import clusters
from mirror.model.partition import TopicPartition

TIMEOUT_SECONDS = 8.0


@pytest.fixture
def north(tmp_path: Path) -> Iterator[clusters.LabCluster]:
    """A cluster of this test's own, to be killed."""
    yield clusters.up(tmp_path, ["north"], owner_pid=os.getpid()).clusters["north"]
    clusters.down(tmp_path, discard_data=True)


def test_an_outage_is_told_in_time_and_the_same_connection_works_after_it(north: clusters.LabCluster) -> None:
    """Groups are asked for at once, while their coordinator may still be loading."""
    settings = ClusterSettings("north", {"bootstrap.servers": north.bootstrap_servers})
    orders = TopicPartition("orders", 0)
    with Cluster.connect(settings, timeout_seconds=TIMEOUT_SECONDS) as cluster:
        cluster.create_topics([NewTopic("orders", 1, 1)])
        assert cluster.write_group_positions("billing", {orders: GroupPosition(7)})[0].problem is None
        north.kill()
        began = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=r"north.*refused"):
            cluster.group_positions("billing")
        assert time.monotonic() - began < TIMEOUT_SECONDS + 3
        north.start()
        assert cluster.group_positions("billing") == {orders: GroupPosition(7)}
        assert cluster.describe_groups(["billing"]) == {"billing": GroupDescription("Empty", 0)}
        assert cluster.write_group_positions("billing", {orders: GroupPosition(8)})[0].problem is None
        assert cluster.offsets([orders], "latest") == {orders: 0}
