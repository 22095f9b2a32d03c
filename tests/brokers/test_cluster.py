"""What the admin side of a cluster promises, on real brokers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka import cluster_connection
from mirror.kafka.answers import ItemResult
from mirror.kafka.brokers import CONSUMER_GROUP_HEARTBEAT, broker_configs, offered, transactional_ids, values_of
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, GroupDescription, GroupPosition, NewTopic
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import BrokerRefused, ClusterUnreachable
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import positions_of
from tests.positions import write_positions

Unique = Callable[[str], str]
SettingsOf = Callable[[str], ClusterSettings]


def test_a_created_topic_is_there_with_leaders_and_settings(east: Cluster, unique: Unique) -> None:
    name = unique("orders")
    assert east.create_topics([NewTopic(name, 3, 1, {"retention.ms": "77000"})]) == [ItemResult(name)]
    topic = east.topics([name])[name]
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2]
    assert all(partition.leader in east.broker_ids() for partition in topic.partitions)
    assert {entry.name: entry.value for entry in east.topic_configs([name])[name] if not entry.is_default}[
        "retention.ms"
    ] == "77000"


def test_creating_what_exists_changes_nothing_and_says_so(east: Cluster, unique: Unique) -> None:
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1)])
    assert east.create_topics([NewTopic(name, 5, 1)]) == [ItemResult(name, existed=True)]
    assert len(east.topics([name])[name].partitions) == 1


def test_what_cannot_be_created_is_a_problem_of_that_item_alone(east: Cluster, unique: Unique) -> None:
    good, wide, odd = unique("good"), unique("wide"), unique("odd")
    results = east.create_topics([NewTopic(good, 1, 1), NewTopic(wide, 1, 3), NewTopic(odd, 1, 1, {"no.such": "1"})])
    assert [result.item for result in results] == [good, wide, odd]
    assert results[0].problem is None
    assert str(results[1].problem).startswith("INVALID_REPLICATION_FACTOR")
    assert str(results[2].problem).startswith("INVALID_CONFIG")


def test_partitions_grow_and_asking_again_is_no_problem(east: Cluster, unique: Unique) -> None:
    name, absent = unique("orders"), unique("absent")
    east.create_topics([NewTopic(name, 1, 1)])
    grown, refused = east.grow_partitions({name: 4, absent: 2})
    assert grown == ItemResult(name)
    assert str(refused.problem).startswith("UNKNOWN_TOPIC_OR_PARTITION")
    assert len(east.topics([name])[name].partitions) == 4
    assert east.grow_partitions({name: 4}) == [ItemResult(name, existed=True)]
    (shrunk,) = east.grow_partitions({name: 2})
    assert str(shrunk.problem).startswith("INVALID_PARTITIONS")


def test_settings_change_one_by_one(east: Cluster, unique: Unique) -> None:
    """TCS-01: what is not named stays."""
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1, {"retention.ms": "77000", "segment.ms": "99000"})])
    assert east.alter_configs({name: ConfigChange({"cleanup.policy": "compact"}, ("retention.ms",))})[0].problem is None

    def own() -> dict[str, str | None]:
        entries = east.topic_configs([name])[name]
        return {entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"}

    # Brokers learn of changed settings a moment after the controller has taken them.
    wanted = {"segment.ms": "99000", "cleanup.policy": "compact"}
    wait_until(own, "the changed settings", timeout_seconds=60, until=wanted.__eq__)


def test_a_topic_created_anew_has_another_id(east: Cluster, unique: Unique) -> None:
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1)])
    before = east.topics([name])[name].topic_id
    assert east.delete_topics([name]) == [ItemResult(name, existed=True)]
    wait_until(lambda: name not in east.topics([name]), f"{name} to be gone", timeout_seconds=60)
    east.create_topics([NewTopic(name, 1, 1)])
    assert east.topics([name])[name].topic_id != before
    assert east.delete_topics([unique("absent")])[0].problem is None


def test_kafkas_own_topics_are_listed_on_request_only(east: Cluster, unique: Unique) -> None:
    """SEL-01."""
    write_positions(east, unique("group"), {TopicPartition("absent", 0): GroupPosition(1)})
    assert "__consumer_offsets" not in east.topics()
    assert "__consumer_offsets" in east.topics(include_internal=True)


def test_offsets_are_told_where_they_can_be(east: Cluster, settings_of: SettingsOf, unique: Unique) -> None:
    name, absent = unique("orders"), TopicPartition(unique("absent"), 0)
    east.create_topics([NewTopic(name, 2, 1)])
    first, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    now = time.time_ns() // 1_000_000
    append(settings_of("east"), first, *(now + number for number in range(5)))
    assert east.offsets([first, empty], "earliest") == {first: 0, empty: 0}
    assert east.offsets([first, empty], "latest") == {first: 5, empty: 0}
    partial = east.offsets([first, absent], "latest")
    assert partial == {first: 5}
    assert partial.problems.keys() == {absent}


def test_positions_of_a_group_are_written_and_read_with_their_text(east: Cluster, unique: Unique) -> None:
    group, other, name = unique("group"), unique("other"), unique("orders")
    east.create_topics([NewTopic(name, 2, 1)])
    here, absent = TopicPartition(name, 1), TopicPartition(unique("absent"), 0)
    written, refused = write_positions(east, group, {here: GroupPosition(7, "note"), absent: GroupPosition(1)})
    assert written == ItemResult(str(here))
    assert str(refused.problem).startswith("UNKNOWN_TOPIC_OR_PARTITION")
    assert positions_of(east, group) == {here: GroupPosition(7, "note")}
    assert east.positions_of_groups([group, other]) == {group: {here: GroupPosition(7, "note")}, other: {}}
    assert east.describe_groups([group, other]) == {
        group: GroupDescription("Empty", 0),
        other: GroupDescription("Dead", 0),
    }
    (listed,) = [listing for listing in east.groups() if listing.group == group]
    assert listed.is_consumer_group


def test_positions_of_many_groups_are_written_at_once_and_one_that_is_refused_spoils_no_other(
    east: Cluster, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GOS-02; two requests a group, one after the other, kept a flow with thousands of groups busy for minutes."""
    name, group = unique("orders"), unique("group")
    east.create_topics([NewTopic(name, 1, 1)])
    here, absent = TopicPartition(name, 0), TopicPartition(unique("absent"), 0)
    wanted = {f"{group}-{number}": {here: GroupPosition(number)} for number in range(250)}
    # A cluster's first groups wait until their coordinators are there.
    east.write_positions_of_groups({each: {here: GroupPosition(1)} for each in wanted})
    wanted[f"{group}-7"][absent] = GroupPosition(1)
    lookups: list[int] = []
    look_up = Cluster._coordinators
    monkeypatch.setattr(
        Cluster, "_coordinators", lambda self, groups: (lookups.append(len(groups)), look_up(self, groups))[1]
    )
    written = east.write_positions_of_groups(wanted)
    assert lookups == [250]
    problems = [result for results in written.values() for result in results if result.problem]
    assert [each.item for each in problems] == [str(absent)]
    found = east.positions_of_groups(list(wanted))
    assert found == {each: {here: positions[here]} for each, positions in wanted.items()}
    east.delete_groups(list(wanted))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_active_and_refuses_foreign_positions(
    east: Cluster, settings_of: SettingsOf, unique: Unique, protocol: str
) -> None:
    """GOS-09, for the old and the new group protocol."""
    group, name = unique("group"), unique("orders")
    east.create_topics([NewTopic(name, 1, 1)])
    with member(settings_of("east"), group, name, protocol):
        description = east.describe_groups([group])[group]
        assert description.is_active
        assert description.members == 1
        (refused,) = write_positions(east, group, {TopicPartition(name, 0): GroupPosition(3)})
        assert refused.problem is not None
        assert positions_of(east, group) == {}
    wait_until(lambda: not east.describe_groups([group])[group].is_active, f"{group} to be idle", timeout_seconds=60)
    assert write_positions(east, group, {TopicPartition(name, 0): GroupPosition(3)})[0].problem is None


def test_brokers_tell_what_they_are_set_to_what_they_offer_and_which_transactions_they_know(
    east: Cluster, settings_of: SettingsOf, unique: Unique
) -> None:
    name, transactional_id = unique("orders"), unique("till")
    east.create_topics([NewTopic(name, 1, 1)])
    (partition,) = east.topics([name])[name].partitions
    assert partition.in_sync == partition.replicas == east.broker_ids()
    configs = broker_configs(east)
    assert (tuple(configs), configs.problems) == (east.broker_ids(), {})
    assert values_of(configs)["auto.create.topics.enable"] == {"false"}
    found = offered(east)
    assert found.requests[CONSUMER_GROUP_HEARTBEAT] >= 0
    assert found.features["metadata.version"] > 0
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": settings_of("east").bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, b"1")
    producer.flush()
    wait_until(
        lambda: transactional_ids(east).get(transactional_id),
        "it",
        timeout_seconds=60,
        until=lambda at: at == "Ongoing",
    )
    producer.commit_transaction()
    assert transactional_ids(east)[transactional_id] in {"PrepareCommit", "CompleteCommit"}


def test_many_items_are_asked_for_in_portions(east: Cluster, unique: Unique) -> None:
    groups = [unique(f"many-{number}") for number in range(1100)]
    assert east.describe_groups(groups) == dict.fromkeys(groups, GroupDescription("Dead", 0))


def test_a_cluster_that_is_not_there_is_named_with_its_addresses_and_the_reason_within_the_timeout() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(ClusterUnreachable) as unreachable:
            Cluster.connect(ClusterSettings("north", {"bootstrap.servers": address}), timeout_seconds=2)
    assert time.monotonic() - began < 9
    assert str(unreachable.value).startswith(f"cluster north: connecting to {address}: ")
    assert "connection refused" in str(unreachable.value)


@pytest.mark.parametrize("is_nobodys", [True, False])
def test_a_cluster_whose_addresses_have_nobodys_name_is_not_to_be_waited_for(
    monkeypatch: pytest.MonkeyPatch, *, is_nobodys: bool
) -> None:
    """At an address where only nobody listens somebody may in a moment."""
    monkeypatch.setattr(cluster_connection, "is_nobodys_name", lambda _: is_nobodys)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable) as unreachable:
            Cluster.connect(ClusterSettings("north", {"bootstrap.servers": address}), timeout_seconds=1)
    assert unreachable.value.is_for_people is is_nobodys


def test_where_nobody_listens_nobody_waits_for_the_whole_timeout() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable, match="connection refused"):
            Cluster.connect(ClusterSettings("north", {"bootstrap.servers": address}), timeout_seconds=3_600)


def test_a_wrong_security_protocol_is_told_from_a_cluster_that_is_not_there(settings_of: SettingsOf) -> None:
    plain = settings_of("east")
    with pytest.raises(ClusterUnreachable, match=plain.bootstrap_servers) as unreachable:
        Cluster.connect(ClusterSettings("east", {**plain.client, "security.protocol": "SSL"}), timeout_seconds=2)
    assert "connection refused" not in str(unreachable.value)


def append(settings: ClusterSettings, partition: TopicPartition, *timestamps: int) -> None:
    with closing(LogWriter(settings.client)) as writer:
        writer.append(*partition, [(b"k", b"v", (), timestamp) for timestamp in timestamps])


def test_a_clock_that_is_hours_ahead_is_told_in_words_that_stay_the_same(
    east: Cluster, settings_of: SettingsOf, unique: Callable[[str], str]
) -> None:
    """An hour is what brokers take since Kafka 4.0; theirs have the time in them, and would be news each time."""
    topic = TopicPartition(unique("t"), 0)
    east.create_topics([NewTopic(topic.topic, 1, 1)])
    append(settings_of("east"), topic, int(time.time() * 1000))
    ahead_ms = int(time.time() * 1000) + 2 * 3_600_000
    told = set()
    for later in (0, 1_000):
        with pytest.raises(BrokerRefused) as refused:
            append(settings_of("east"), topic, ahead_ms + later)
        told.add(str(refused.value))
    (message,) = told
    assert "this machine's clock is further from the cluster's than that takes" in message


@contextmanager
def member(settings: ClusterSettings, group: str, topic: str, protocol: str) -> Iterator[None]:
    """Keep one consumer in the group."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": settings.bootstrap_servers, "group.id": group, "group.protocol": protocol}
        | {"enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    try:
        wait_until(lambda: consumer.poll(0.1) is not None or consumer.assignment(), "an assignment", timeout_seconds=30)
        yield
    finally:
        consumer.close()
