"""Kafka 3.9 as source and as target: a copy is, record for record, what the source has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import read_batches
from mirror.lab import jars, ports, runtime
from mirror.lab.brokers import EmbeddedCluster, new_cluster_id, plan_layout
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import (
    NewCopying,
    assert_copied,
    can_tell,
    contents,
    ends_of,
    log_of,
    positions_of,
    producer_to,
)
from tests.brokers.engines import PARTITIONS as ENGINE_PARTITIONS
from tests.brokers.engines import Engines
from tests.brokers.kinds import KINDS, PARTITIONS, fill, visible
from tests.brokers.same_offsets_engines import assert_killed_engines_copy_each_record_once, with_a_removed_head
from tests.brokers.same_offsets_killed import assert_same_offsets_whatever_is_killed
from tests.positions import write_positions

pytestmark = pytest.mark.soak

SIDES = pytest.mark.parametrize("side", ["source", "target"])
CLEANED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "600000",
}


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of Kafka 3.9."""
    made = runtime.prepare(wanted=jars.OLDER)
    layout = plan_layout("older", new_cluster_id(), ports.choose(2), brokers=1)
    running = EmbeddedCluster.at(tmp_path_factory.mktemp("older"), layout, lambda: made, owner_pid=os.getpid())
    running.start()
    with Cluster.connect(ClusterSettings("older", {"bootstrap.servers": running.bootstrap_servers})) as cluster:
        yield cluster
    running.kill()


@pytest.fixture
def between(
    older: Cluster, east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], new_copying: NewCopying
) -> NewCopying:
    """Make a flow from the older cluster, or to it."""

    def make(side: str, *topics: str, **more: object) -> object:
        client = {"bootstrap.servers": older.bootstrap_servers}
        if side == "source":
            return new_copying(
                *topics, source=older, target=west, clients=(client, dict(settings_of("west").client)), **more
            )
        return new_copying(
            *topics, source=east, target=older, clients=(dict(settings_of("east").client), client), **more
        )

    return make


def codecs(client: dict[str, str], partition: TopicPartition) -> list[int]:
    """Return how each record is compressed."""
    channel = Channel("cluster", client)
    try:
        batches = read_batches(channel, partition, 0, ends_of(client, [partition])[partition])
        return [header.codec for _, header in batches for _ in range(header.record_count)]
    finally:
        channel.close()


@SIDES
@pytest.mark.parametrize("kind", KINDS)
def test_records_of_every_shape_are_kept(side: str, kind: str, between: NewCopying) -> None:
    """Keys, values, headers, timestamps, compression; with the aborted ones, as MirrorMaker copies by default."""
    copying = between(side, kind, partitions=PARTITIONS, configs=KINDS[kind])
    topic = next(source.topic for source in copying.pairs)
    fill(copying.flow.source_client["bootstrap.servers"], topic, kind)
    copying.until_caught_up()
    assert_copied(copying)
    for source, copy in copying.pairs.items():
        assert len(copying.copies(source)) > 200
        assert codecs(copying.flow.target_client, copy) == codecs(copying.flow.source_client, source)


@SIDES
def test_of_transactions_only_what_was_committed_is_copied_if_asked_for(side: str, between: NewCopying) -> None:
    copying = between(side, "transactional", partitions=PARTITIONS, read_committed=True)
    topic = next(source.topic for source in copying.pairs)
    fill(copying.flow.source_client["bootstrap.servers"], topic, "transactional")
    copying.until_caught_up()
    for source in copying.pairs:
        seen = visible(copying.flow.source_client, source, "read_committed")
        assert contents(copying.copies(source)) == seen
        assert 0 < len(seen) < len(copying.originals(source))


@SIDES
def test_a_topic_that_was_cleaned_is_copied_with_its_holes(side: str, between: NewCopying) -> None:
    copying = between(side, configs=CLEANED)
    (source,) = copying.pairs
    client = copying.flow.source_client
    producer = producer_to(client, compression_type="zstd", linger_ms=1000)
    rounds = 0

    def is_cleaned() -> bool:
        # Only a segment that is no longer written to is cleaned, and only a write after a while closes one.
        nonlocal rounds
        rounds += 1
        for number in range(10):
            producer.produce(source.topic, b"value %d %d" % (rounds, number), b"key %d" % number)
        producer.flush()
        return len(copying.originals(source)) < ends_of(client, [source])[source]

    wait_until(is_cleaned, "the source to be cleaned", timeout_seconds=40)
    copying.until_caught_up()
    originals = copying.originals(source)
    assert_copied(copying)
    assert [each.offset for each in originals] != list(range(len(originals)))
    assert copying.state().gaps == {}


def test_an_older_cluster_is_administered(older: Cluster) -> None:
    """Topics with their ids and settings, groups and where they stand: all that a flow asks for."""
    (made,) = older.create_topics([NewTopic("administered", 1, 1, {"retention.ms": "-1"})])
    assert made.problem is None
    partition = TopicPartition("administered", 0)
    client = {"bootstrap.servers": older.bootstrap_servers}
    wait_until(lambda: can_tell(client, [partition]), "the topic", timeout_seconds=60)
    assert older.topics(["administered"])["administered"].topic_id.strip("A")
    settings = {each.name: each.value for each in older.topic_configs(["administered"])["administered"]}
    assert settings["retention.ms"] == "-1"
    assert older.offsets([partition], "latest") == {partition: 0}
    assert log_of(client, partition) == []
    (written,) = write_positions(older, "billing", {partition: GroupPosition(0, "told")})
    assert written.problem is None
    assert positions_of(older, "billing") == {partition: GroupPosition(0, "told")}
    assert "billing" in {each.group for each in older.groups()}


@SIDES
def test_a_copy_has_the_source_s_offsets_whatever_is_killed(
    side: str, older: Cluster, east: Cluster, west: Cluster, unique: Callable[[str], str]
) -> None:
    source, target = (older, west) if side == "source" else (east, older)
    assert_same_offsets_whatever_is_killed(
        source, target, unique("orders"), policy="delete", read_committed=True, writes_many=True
    )


@SIDES
def test_killed_engines_copy_to_the_source_s_offsets_with_groups_and_the_commands_say_so(
    side: str, older: Cluster, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Behind a removed head, with transactions: what the same engines do between brokers of today."""
    source, target = (older, west) if side == "source" else (east, older)
    topic = unique("orders")
    source.create_topics([NewTopic(topic, ENGINE_PARTITIONS, 1)])
    here, there = ({"bootstrap.servers": each.bootstrap_servers} for each in (source, target))
    engines = Engines(here, there, topic, unique("shop").replace("-", ""), tmp_path)
    try:
        assert_killed_engines_copy_each_record_once(with_a_removed_head(engines), kills=1)
    finally:
        for each in engines.running.values():
            each.kill()
