"""Leaders and logs tell who has written lately, and at which intervals; mirrors are not meant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import confluent_kafka

from mirror.config.settings import ClusterSettings
from mirror.control.tick import now_ms
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.model.partition import TopicPartition
from mirror.recovery.recent_writers import NO_ID, RECENT_MS, find_writers


def test_who_has_written_lately_is_told_with_intervals(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    east.create_topics([NewTopic(topic, 3, 1)])
    client = dict(settings_of("east").client)
    now = now_ms()

    def send(partition: int, *ages_s: int, **settings: object) -> None:
        producer = confluent_kafka.Producer({**client, **settings})
        for age in ages_s:
            producer.produce(topic, b"one", partition=partition, timestamp=now - 1_000 * age)
            assert producer.flush(60) == 0

    send(0, 100, 70, 40, 10, **{"enable.idempotence": True})
    send(1, 2_000, 1_900, **{"enable.idempotence": True})
    send(2, 12, 8, 4, **{"enable.idempotence": False})
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with closing(Channel("east", client)) as channel:
        found = find_writers(channel, partitions, own=(), since_ms=now - RECENT_MS)
        plain, slow = found.recent
        assert (slow.partition, slow.interval_ms, slow.last_ms) == (partitions[0], 30_000, now - 10_000)
        assert slow.producer_id >= 0
        assert slow.epoch >= 0
        assert (plain.partition, plain.producer_id, plain.interval_ms) == (partitions[2], NO_ID, 4_000)
        assert found.unknown == {}
        again = find_writers(channel, partitions, own={slow.producer_id}, since_ms=now - RECENT_MS)
        assert [each.partition for each in again.recent] == [partitions[2]]
