"""What a cluster tells of applications at work on it: the first write since a moment, and groups that show nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import confluent_kafka

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.control.groups import recorder
from mirror.control.tick import now_ms
from mirror.control.topics import create_state_topic
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import LogWriter
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.verdict import Verdict
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.seen_at_work import first_write, gone_on, idle_groups
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.positions import write_positions


def test_the_first_write_since_a_moment_is_told_by_its_time(
    west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    topic, cut = unique("orders"), now_ms()
    west.create_topics([NewTopic(topic, 2, 1)])
    partitions = [TopicPartition(topic, number) for number in range(2)]
    client = dict(settings_of("west").client)
    producer = confluent_kafka.Producer(client)
    producer.produce(topic, b"before", partition=0, timestamp=cut - 5)
    assert producer.flush(60) == 0
    with closing(Channel("west", client)) as channel:
        assert first_write(channel, partitions, cut) is None
        for at in (9, 7):
            producer.produce(topic, b"behind", partition=1, timestamp=cut + at)
        assert producer.flush(60) == 0
        assert first_write(channel, partitions, cut) in (cut + 7, cut + 9), "the first in the log, or the earliest"
        assert first_write(channel, partitions[:1], cut) is None
        assert first_write(channel, [], cut) is None


def test_a_group_without_a_member_that_stands_where_it_was_put_shows_nothing(
    west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    west.create_topics([NewTopic(topic, 1, 1)])
    partition = TopicPartition(topic, 0)
    idle, read, member, unknown = (unique(word) for word in ("idle", "read", "member", "unheard-of"))
    for group in (idle, read, member):
        write_positions(west, group, {partition: GroupPosition(0)})
    placed = {group: {partition: 0} for group in (idle, read, member)}
    write_positions(west, read, {partition: GroupPosition(3)})
    client = dict(settings_of("west").client)
    consumer = confluent_kafka.Consumer({**client, "group.id": member, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.5) or consumer.assignment(), "the member", timeout_seconds=120)
        found = idle_groups(west, [idle, read, member, unknown], placed)
    finally:
        consumer.close()
    assert set(found) == {idle, unknown}
    assert "no member on west" in found[idle]


def test_groups_that_are_further_than_they_were_put_or_nowhere_any_more_are_named(
    west: Cluster, unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    west.create_topics([NewTopic(topic, 1, 1)])
    partition = TopicPartition(topic, 0)
    there, further, back, nowhere = (unique(word) for word in ("there", "further", "back", "nowhere"))
    for group, position in ((there, 5), (further, 6), (back, 4)):
        write_positions(west, group, {partition: GroupPosition(position)})
    found = gone_on(west, {group: {partition: 5} for group in (there, further, back, nowhere)})
    assert sorted(found) == sorted(
        [
            f"group {further} was put at 5 of {partition}, and stands at 6",
            f"group {nowhere} was put at 5 of {partition}, and has no position there any more",
        ]
    )


def test_records_that_were_copied_are_no_first_write_whatever_times_they_bear(
    west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Under unchanged names, from a producer whose clock is ahead: the cluster confirmed a word by them alone."""
    alias, topic, cut = unique("shop").replace("-", ""), unique("orders"), now_ms()
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = 127.0.0.1:1\n"
        f"west.bootstrap.servers = {settings_of('west').bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"west->{alias}.enabled = true\ntopics = {topic}\n{FACTORS}\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    settings = load(file)
    flow = next(each for each in settings.enabled_flows if each.flow.target == "west")
    west.create_topics([NewTopic(topic, 1, 1)])
    wait_until(lambda: create_state_topic(west, flow)[0], "the state topic", timeout_seconds=60)
    source = TopicPartition(topic, 0)
    client = dict(settings_of("west").client)
    with closing(LogWriter(client, alias="west")) as writer:
        writer.append(topic, 0, [(b"k", b"copied", (), cut + 600_000)] * 5)
        recorder(flow, writer)([Position(5, 5, 0, complete=True).record(source)])
    ends = ClusterEnds(settings, flow, EnginePausing(settings, awaits_open_ends=False), lambda *_: (Verdict.PASS, ""))
    assert ends.first_written(cut) is None
    producer = confluent_kafka.Producer(client)
    producer.produce(topic, b"of an application", partition=0)
    assert producer.flush(60) == 0
    assert ends.first_written(cut) is not None
