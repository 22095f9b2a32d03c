"""Groups that have read all there is, as brokers and consumers see it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab.faults import remove_first_records
from mirror.model.partition import TopicPartition
from mirror.recovery.catching_up import await_reading
from mirror.waiting import wait_until
from tests.brokers.copying import producer_to

pytestmark = pytest.mark.brokers


def test_a_group_that_has_read_all_of_a_log_that_ends_with_markers_is_not_behind(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    """A consumer commits behind the last record; the marker of its transaction lies behind that for ever."""
    settings, topic, group = settings_of("east"), unique("orders"), unique("billing")
    assert not [each.problem for each in east.create_topics([NewTopic(topic, 1, 1)]) if each.problem]
    producer = producer_to(settings.client, transactional_id=unique("t"))
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, str(number))
    producer.commit_transaction(60)
    partition = TopicPartition(topic, 0)
    ends = wait_until(
        lambda: east.offsets([partition], "latest"),
        "a marker",
        timeout_seconds=60,
        until=lambda ends: ends[partition] > 3,
    )
    assert ends == {partition: 4}

    consumer = Consumer({**settings.client, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        read_on(consumer, 2)
        assert await_reading(settings, {group: {topic}}, seconds=0.01) == [
            f"east {partition}, group {group}: 2 records"
        ]
        read_on(consumer, 1)
        assert await_reading(settings, {group: {topic}}, seconds=60.0) == []
    finally:
        consumer.close()


def read_on(consumer: Consumer, count: int) -> None:
    """Read so many records more, and commit."""
    read: list[object] = []

    def look() -> int:
        read.extend(each for each in consumer.consume(count - len(read), 0.5) if not each.error())
        return len(read)

    wait_until(look, "records", timeout_seconds=60, until=lambda seen: seen == count)
    consumer.commit(asynchronous=False)


def test_a_log_whose_records_were_all_deleted_has_nothing_to_be_read(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    settings, topic = settings_of("east"), unique("orders")
    assert not [each.problem for each in east.create_topics([NewTopic(topic, 1, 1)]) if each.problem]
    producer = producer_to(settings.client)
    producer.produce(topic, "gone")
    producer.flush(60)
    remove_first_records(settings.client["bootstrap.servers"], TopicPartition(topic, 0), 1)

    assert await_reading(settings, {unique("billing"): {topic}}, seconds=60.0) == []
