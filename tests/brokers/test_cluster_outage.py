"""A connection outlives its brokers: an outage is told in time, and afterwards everything works again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupDescription, GroupPosition, NewTopic
from mirror.kafka.problems import ClusterUnreachable
from mirror.lab import clusters
from mirror.model.partition import TopicPartition
from tests.brokers.copying import positions_of
from tests.positions import write_positions

TIMEOUT_SECONDS = 8.0


@pytest.mark.long
def test_an_outage_is_told_in_time_and_the_same_connection_works_after_it(mortal: clusters.LabCluster) -> None:
    """Groups are asked for at once, while their coordinator may still be loading.

    Who has less patience is told while who has more of it still asks, and that one gets its answer.
    """
    settings = ClusterSettings("mortal", {"bootstrap.servers": mortal.bootstrap_servers})
    orders = TopicPartition("orders", 0)
    with (
        Cluster.connect(settings, timeout_seconds=TIMEOUT_SECONDS) as cluster,
        Cluster.connect(settings, timeout_seconds=10 * TIMEOUT_SECONDS) as patient,
        ThreadPoolExecutor(1) as beside,
    ):
        cluster.create_topics([NewTopic("orders", 1, 1)])
        assert write_positions(cluster, "billing", {orders: GroupPosition(7)})[0].problem is None
        mortal.kill()
        asked = beside.submit(positions_of, patient, "billing")
        with pytest.raises(ClusterUnreachable, match=r"mortal.*refused"):
            positions_of(cluster, "billing")
        assert not asked.done()
        mortal.start()
        assert asked.result() == {orders: GroupPosition(7)}
        assert positions_of(cluster, "billing") == {orders: GroupPosition(7)}
        assert cluster.describe_groups(["billing"]) == {"billing": GroupDescription("Empty", 0)}
        assert write_positions(cluster, "billing", {orders: GroupPosition(8)})[0].problem is None
        assert cluster.offsets([orders], "latest") == {orders: 0}
