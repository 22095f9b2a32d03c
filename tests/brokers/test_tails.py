"""When a copy has caught up, as scenarios wait for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.model.partition import TopicPartition
from mirror.proof.delivery import Place, Route
from mirror.recovery.tails import TailWatch
from tests.brokers.copying import producer_to, write


@pytest.mark.parametrize("read_committed", [False, True])
def test_a_copy_of_what_is_committed_has_not_caught_up_while_a_transaction_is_open(
    read_committed: bool, east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    """What comes behind it is not copied yet, however close the copy is to what can be read."""
    topic = unique("orders")
    east.create_topics([NewTopic(topic, 1, 1)])
    client, place = dict(settings_of("east").client), Place("east", topic)
    watch = TailWatch({"east": settings_of("east")}, [Route.own(place)], {place: 1}, read_committed)
    write(client, TopicPartition(topic, 0), range(3))
    assert watch.behind() == []

    writer = producer_to(client, transactional_id=unique("writer"))
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(topic, b"open", partition=0)
    assert writer.flush(60) == 0
    said = f"east {topic}-0: a transaction is open on east from offset 3 on"
    assert watch.behind() == ([said] if read_committed else [])
    writer.commit_transaction(60)
    assert watch.behind() == []
