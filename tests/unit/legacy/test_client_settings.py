"""What Java's properties of consumers and producers become, and what is said of those without effect."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from mirror.legacy.client_settings import BadSetting, consumer_settings, java_key, producer_settings
from mirror.legacy.commits import Answer, answer
from mirror.legacy.skips import Skips
from mirror.model.partition import TopicPartition

CONSUMER = {"bootstrap.servers": "east:9092", "group.id": "mirrors"}
PRODUCER = {"bootstrap.servers": "west:9092"}
ASSIGNORS = "org.apache.kafka.clients.consumer."
STRATEGY = "partition.assignment.strategy"


def test_a_consumer_reads_as_javas_does() -> None:
    """MM1-20, MM1-05: Kafka's defaults where librdkafka has others; nothing is committed behind the streams' back."""
    found = consumer_settings(CONSUMER)
    assert found.reset == "latest"
    assert not found.reads_internal_topics
    settings = found.of_stream(1, 2)
    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["enable.auto.commit"] == "false"
    assert settings["client.id"] == "mirrors-1"


def test_a_producer_loses_and_reorders_nothing_unless_told_otherwise() -> None:
    """MM1-21."""
    settings = producer_settings(PRODUCER, aborts=True).of_stream()
    assert (settings["acks"], settings["delivery.timeout.ms"]) == ("all", "2147483647")
    assert settings["enable.idempotence"] == "true"
    assert settings["partitioner"] == "murmur2_random"


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"acks": "1"}, "enable.idempotence", "false"),
        ({"acks": "1"}, "max.in.flight.requests.per.connection", "1"),
        ({"max.in.flight.requests.per.connection": "9"}, "enable.idempotence", "false"),
        ({"enable.idempotence": "FALSE"}, "max.in.flight.requests.per.connection", "1"),
        ({"buffer.memory": "2048"}, "queue.buffering.max.kbytes", "2"),
        ({"max.request.size": "5"}, "message.max.bytes", "5"),
        ({"batch.size": "0"}, "batch.size", "1"),
        ({"send.buffer.bytes": "-1"}, "socket.send.buffer.bytes", "0"),
        ({"partitioner.ignore.keys": "true"}, "partitioner", "random"),
        ({"compression.type": "zstd", "compression.zstd.level": "9"}, "compression.level", "9"),
    ],
)
def test_a_producers_property_has_its_effect(given: dict[str, str], key: str, value: str) -> None:
    assert producer_settings(PRODUCER | given, aborts=True).settings[key] == value


def test_where_records_are_skipped_batches_are_as_small_as_javas() -> None:
    assert producer_settings(PRODUCER, aborts=False).settings["batch.size"] == "16384"
    assert "batch.size" not in producer_settings(PRODUCER, aborts=True).settings


def test_sync_is_a_pseudo_key_of_the_producer() -> None:
    """MM1-02."""
    found = producer_settings(PRODUCER | {"producer.type": "sync"}, aborts=True)
    assert found.is_synchronous
    assert found.notes == ()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, "range"),
        (f"{ASSIGNORS}RoundRobinAssignor", "roundrobin"),
        (f"{ASSIGNORS}RangeAssignor, {ASSIGNORS}RoundRobinAssignor", "range,roundrobin"),
        (f"{ASSIGNORS}RangeAssignor,{ASSIGNORS}CooperativeStickyAssignor", "range"),
        (f"{ASSIGNORS}CooperativeStickyAssignor", "cooperative-sticky"),
    ],
)
def test_assignors_have_their_names(given: str | None, names: str) -> None:
    """MM1-34: it is said where none is named."""
    found = consumer_settings(CONSUMER | ({} if given is None else {STRATEGY: given}))
    assert found.settings[STRATEGY] == names
    assert found.is_incremental == (names == "cooperative-sticky")
    assert any("is not set" in note for note in found.notes) == (given is None)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("enable.auto.commit", "committed after a flush"),
        ("max.poll.records", "one at a time"),
        ("replication.policy.class", "names stay as they are"),
        ("refresh.topics.enabled", "names stay as they are"),
        ("sesion.timeout.ms", "did you mean session.timeout.ms"),
        ("zookeeper.connect", "no key of a consumer"),
    ],
)
def test_what_has_no_effect_is_told(key: str, said: str) -> None:
    (note,) = consumer_settings(CONSUMER | {STRATEGY: f"{ASSIGNORS}RangeAssignor", key: "true"}).notes
    assert note.startswith(f"{key}: ")
    assert said in note


def test_what_may_lose_records_is_told() -> None:
    (note,) = producer_settings(PRODUCER | {"acks": "1"}, aborts=True).notes
    assert note == "acks=1, not all: records may be lost or change their order"


def test_several_streams_have_a_static_name_each() -> None:
    found = consumer_settings(CONSUMER | {"group.instance.id": "rack-1"})
    assert found.of_stream(1, 2)["group.instance.id"] == "rack-1-1"
    assert found.of_stream(0, 1)["group.instance.id"] == "rack-1"


def test_passwords_are_not_shown() -> None:
    found = consumer_settings(CONSUMER | {"ssl.key.password": "swordfish"})
    assert "swordfish" not in repr(found)


def test_the_new_protocol_of_groups_is_refused() -> None:
    with pytest.raises(BadSetting, match="classic"):
        consumer_settings(CONSUMER | {"group.protocol": "consumer"})


def test_a_message_of_librdkafka_names_javas_key() -> None:
    assert java_key('Invalid value "x" for configuration property "fetch.wait.max.ms"') == "fetch.max.wait.ms"
    assert java_key("something else") is None


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        (None, Answer.DONE),
        (KafkaError.REQUEST_TIMED_OUT, Answer.TRY_AGAIN),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Answer.TRY_AGAIN),
        (KafkaError.ILLEGAL_GENERATION, Answer.REBALANCED),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Answer.REFUSED),
    ],
)
def test_an_answer_to_a_commit_says_what_to_do(code: int | None, meant: Answer) -> None:
    """MM1-25."""
    assert answer(code) is meant


def test_skipped_records_are_counted_and_located_once() -> None:
    """MM1-32."""
    skips, source = Skips(), TopicPartition("orders", 3)
    for offset in (7, 5, 6, 9):
        skips.add(source, offset, "too large")
    assert skips.news() == ["orders-3: 4 records skipped, not on the target: offset 5 to 7, 9: too large"]
    assert skips.news() == []
    assert skips.dropped == 4
    assert str(skips.all()[source]) == "5 to 7, 9"
