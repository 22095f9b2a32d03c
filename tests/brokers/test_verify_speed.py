"""How fast copies are compared where they are the same bytes, and where records have to be looked at; prints figures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka import batch, wire
from mirror.kafka.batch import Header, Record
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.versions import PRODUCE
from mirror.model.offset_map import Run, Runs
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.equivalence import verify
from mirror.proof.log_reader import LogRange
from mirror.proof.pairs import PartitionPair
from mirror.waiting import wait_until
from tests.brokers.copying import can_tell
from tests.spark.small import small_spark

PARTITIONS = 4
RECORD_BYTES = 1_000
SIZE = 400_000_000


def fill(client: dict[str, str], topic: str, content: memoryview, size: int) -> int:
    """Append a batch to every partition until there are so many bytes; return the records of a partition."""
    count = Header._make(batch.HEADER.unpack_from(content)).record_count
    channel = Channel("cluster", client)
    connection = channel.connect(channel.leader(TopicPartition(topic, 0)), (PRODUCE,))
    addresses = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    rounds = max(1, size // len(content) // PARTITIONS)
    for _ in range(rounds):
        request = wire.produce_request(connection.next_correlation(), [(each, content) for each in addresses])
        assert all(not each.error for each in wire.parse_produce(connection.ask(request)))
    connection.close()
    channel.close()
    return rounds * count


@pytest.mark.soak
@pytest.mark.parametrize("records", [1, 16, 100, 800])
def test_the_pace_of_a_comparison(
    records: int,
    east: Cluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """One core compares hundreds of megabytes a second where batches are the same bytes, and they are of usual size."""
    content = batch.encode([Record(0, 1_700_000_000_000, None, os.urandom(RECORD_BYTES), (), -1)] * records, 0)
    size = SIZE if records > 1 else SIZE // 20
    topic, copy = unique("orders"), unique("east.orders")
    clients = {name: dict(settings_of(name).client) for name in ("east", "west")}
    addresses = [TopicPartition(name, number) for name in (topic, copy) for number in range(PARTITIONS)]
    ends = []
    for cluster, name, client in ((east, topic, clients["east"]), (west, copy, clients["west"])):
        cluster.create_topics([NewTopic(name, PARTITIONS, 1, {"retention.ms": "-1"})])
        made = [each for each in addresses if each.topic == name]
        # A partition just created has a leader before that leader knows of it.
        wait_until(lambda client=client, made=made: can_tell(client, made), "the topic", timeout_seconds=60)  # type: ignore[misc]
        ends.append(fill(client, name, content, size))
    assert ends[0] == ends[1]
    pairs = [
        PartitionPair(
            LogRange("east", clients["east"], TopicPartition(topic, number), 0, ends[0]),
            LogRange("west", clients["west"], TopicPartition(copy, number), 0, ends[1]),
            Runs.of([Run(0, 0, ends[0])]),
        )
        for number in range(PARTITIONS)
    ]
    spark = small_spark(tmp_path)
    verify(spark, [replace(pair, source=replace(pair.source, end=records)) for pair in pairs], tmp_path / "warm")
    found = verify(spark, pairs, tmp_path / "bytes")
    assert found.verdict is Verdict.PASS
    assert found.by_record.records == 0
    some = 20_000
    short = [
        replace(
            pair,
            source=replace(pair.source, end=min(some, ends[0])),
            target=replace(pair.target, end=min(some, ends[1])),
            runs=Runs(),
        )
        for pair in pairs
    ]
    one_by_one = verify(spark, short, tmp_path / "records")
    assert one_by_one.by_bytes.records == 0
    a_core = found.by_bytes.size_bytes / 1e6 / found.cpu_seconds
    print(
        f"\n{records:4} records of {RECORD_BYTES:,} bytes a batch: {found.by_bytes.size_bytes / 1e6:,.0f} MB, "
        f"{a_core:,.0f} MB/s a core, {found.mb_per_second:,.0f} MB/s on {os.cpu_count()} cores shared with both brokers; "
        f"record by record {one_by_one.mb_per_second:,.0f} MB/s"
    )
    if records >= 16:
        assert found.mb_per_second > one_by_one.mb_per_second
