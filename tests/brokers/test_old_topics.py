"""Closing, deleting and creating topics of an old cluster, on a broker."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka import old_topics
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.model.partition import TopicPartition
from tests.brokers.copying import ends_of, producer_to


def produced(client: dict[str, str], topic: str) -> str | None:
    """Produce a record; return the name of the error it is refused with."""
    told: list[confluent_kafka.KafkaError | None] = []
    producer = producer_to(client)
    producer.produce(topic, b"value", on_delivery=lambda error, _: told.append(error))
    producer.flush(30)
    return None if told[0] is None else told[0].name()


@pytest.mark.parametrize("own", [None, "2000000"], ids=["default size", "own size"])
def test_a_closed_topic_takes_nothing_until_it_is_opened_and_keeps_its_settings(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], own: str | None
) -> None:
    client, name = dict(settings_of("east").client), unique("orders")
    configs = {"segment.bytes": "7654321"} | ({"max.message.bytes": own} if own else {})
    east.create_topics([NewTopic(name, 2, 1, configs)])
    before = old_topics.look_at(east, [name, unique("none")])
    assert before.keys() == {name}
    assert (before[name].partitions, before[name].replication_factor, before[name].configs) == (2, 1, configs)
    old_topics.open_again(east, [each.as_closed for each in before.values()])  # nothing was closed
    assert produced(client, name) is None
    old_topics.close(east, before.values())
    assert produced(client, name) == "MSG_SIZE_TOO_LARGE"
    assert sum(ends_of(client, [TopicPartition(name, number) for number in range(2)]).values()) == 1
    # A run whose directory is lost has left it closed.
    assert old_topics.look_at(east, [name])[name].open_configs.get("max.message.bytes") is None
    old_topics.open_again(east, [each.as_closed for each in before.values()])
    assert produced(client, name) is None
    assert old_topics.look_at(east, [name]) == before


def test_a_topic_is_deleted_by_its_id_and_never_the_one_that_was_created_since(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    client, name = dict(settings_of("east").client), unique("orders")
    east.create_topics([NewTopic(name, 1, 1, {"segment.bytes": "7654321"})])
    (old,) = old_topics.look_at(east, [name]).values()
    assert produced(client, name) is None
    old_topics.close(east, [old])
    old_topics.delete(east, [old])
    old_topics.create(east, [old], {name: 3})
    (new,) = old_topics.look_at(east, [name]).values()
    assert (new.partitions, new.configs) == (3, old.configs)
    assert new.topic_id != old.topic_id
    assert produced(client, name) is None
    # What a process that was killed had sent comes late.
    old_topics.delete(east, [old])
    old_topics.open_again(east, [old.as_closed])
    assert old_topics.look_at(east, [name]) == {name: new}


def test_a_topic_that_an_engine_has_created_first_gets_the_old_settings_and_partitions(
    east: Cluster, unique: Callable[[str], str]
) -> None:
    name = unique("orders")
    east.create_topics([NewTopic(name, 2, 1, {"segment.bytes": "7654321"})])
    (old,) = old_topics.look_at(east, [name]).values()
    old_topics.delete(east, [old])
    east.create_topics([NewTopic(name, 1, 1)])
    old_topics.create(east, [old], {})
    (new,) = old_topics.look_at(east, [name]).values()
    assert (new.partitions, new.configs) == (2, old.configs)
