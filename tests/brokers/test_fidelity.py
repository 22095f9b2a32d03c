"""Kinds of records that cannot simply be passed on: those of old message formats, and those the target finds too large."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.copier.work import FlowWork, Handover
from mirror.kafka.channel import Channel, broker_setting
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.versions import PRODUCE
from mirror.lab import clusters, processes
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.translation import Exact, Same, leads_to
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, Unique, as_program, can_tell, contents, ends_of, log_of
from tests.flows import EAST_WEST
from tests.worker_process import forget_all

# Written by Java's classes; the same bytes as the unit tests read.
OLD_BATCHES: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "unit/kafka/golden_old_batches.json").read_text()
)
KEPT = {"retention.ms": "-1"}


def start_copying(
    source: Cluster,
    target: Cluster,
    settings: tuple[Mapping[str, str], Mapping[str, str]],
    unique: Unique,
    topics: Sequence[NewTopic],
    copies: Mapping[str, str],
    *,
    parks: bool = False,
) -> Copying:
    """Make ``topics``, their copies with other settings, and the side topics of a flow of their own."""
    state, offsets, parked = unique("mm2-state"), unique("mm2-offsets"), unique("mm2-parked")
    compact, large = {"cleanup.policy": "compact"}, {"max.message.bytes": str(20 << 20), **KEPT}
    created = [
        *source.create_topics(topics),
        *target.create_topics(
            [
                *(replace(each, name=f"east.{each.name}", configs={**each.configs, **copies}) for each in topics),
                NewTopic(state, 1, 1, compact),
                NewTopic(offsets, 1, 1, compact),
                NewTopic(parked, 1, 1, large),
            ]
        ),
    ]
    assert [each.problem for each in created if each.problem] == []
    source_client, target_client = (dict(each) for each in settings)
    flow = FlowWork(
        flow=EAST_WEST,
        source_client=source_client,
        target_client=target_client,
        state_topic=state,
        offsets_topic=offsets,
        offsets_partitions=1,
        syncs_topic=None,
        syncs_on_source=True,
        offset_lag_max=100,
        read_committed=False,
        from_latest=False,
        writers=frozenset(),
        parked_topic=parked if parks else None,
    )
    pairs = {
        TopicPartition(each.name, number): TopicPartition(f"east.{each.name}", number)
        for each in topics
        for number in range(each.partitions)
    }
    wait_until(lambda: can_tell(source_client, list(pairs)), "the topics", timeout_seconds=60)
    wait_until(lambda: can_tell(target_client, list(pairs.values())), "the copies", timeout_seconds=60)
    return Copying(flow, pairs)


def with_offsets(copying: Copying, pad_limit: int | None) -> Copying:
    """Have copies with the source's offsets, if there is a limit."""
    copying.pad_limit = pad_limit
    copying.from_the_target()
    return copying


OFFSETS = pytest.mark.parametrize("pad_limit", [None, 1_000], ids=["offsets of their own", "the source's offsets"])


# Old message formats.


@pytest.fixture
def north(tmp_path: Path) -> Iterator[clusters.LabCluster]:
    """A cluster of this test's own, whose data are changed while it is stopped."""
    yield clusters.up(tmp_path, ["north"], owner_pid=os.getpid()).clusters["north"]
    clusters.down(tmp_path, discard_data=True)


@OFFSETS
@pytest.mark.long
def test_what_a_broker_has_kept_in_old_formats_is_copied(
    pad_limit: int | None,
    north: clusters.LabCluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Unique,
    tmp_path: Path,
) -> None:
    """A cluster upgraded again and again still has them; a broker of today reads them from its disk and serves them."""
    client = {"bootstrap.servers": north.bootstrap_servers}
    topic = NewTopic(unique("old"), len(OLD_BATCHES), 1, KEPT)
    with Cluster.connect(ClusterSettings("north", client)) as source:
        copying = start_copying(source, west, (client, settings_of("west").client), unique, [topic], {})
    north.shut_down()
    for number, golden in enumerate(OLD_BATCHES.values()):
        (log,) = tmp_path.rglob(f"{topic.name}-{number}/00000000000000000000.log")
        for each in log.parent.glob("00000000000000000000.*"):
            each.unlink()
        log.write_bytes(bytes.fromhex(golden["bytes"]))
    north.start()
    producer = confluent_kafka.Producer(client)
    for number in range(topic.partitions):
        producer.produce(topic.name, b"new", b"key", number, headers={"a": b"1"})
    assert producer.flush(60) == 0
    with_offsets(copying, pad_limit).until_caught_up()
    for number, golden in enumerate(OLD_BATCHES.values()):
        source_partition = TopicPartition(topic.name, number)
        originals, copies = copying.originals(source_partition), copying.copies(source_partition)
        expected = [
            (timestamp, *(None if each is None else bytes.fromhex(each) for each in fields), ())
            for _, timestamp, *fields, _ in golden["records"]
        ]
        assert contents(originals)[:-1] == expected
        assert contents(copies) == contents(originals)
        known = copying.state().offset_map(source_partition)
        assert known is not None
        led_to = Exact if pad_limit is None else Same
        assert [known.translate(each.offset) for each in originals] == [led_to(each.offset) for each in copies]
        if pad_limit is not None:
            assert [each.offset for each in originals] == [each.offset for each in copies]
    # What lies there already is recognised: by matching the tail, or by where the copy ends.
    if pad_limit is None:
        copying.handovers = {each: Handover(Position(0, 0, 0, True), (), clean=False) for each in copying.pairs}
    else:
        copying.from_the_target()
    forget_all()
    resumed = copying.epoch(1.0)
    assert {(each.records, each.stopped) for each in resumed.values()} == {(0, None)}
    matched = 5 * topic.partitions if pad_limit is None else 0
    assert sum(each.skipped_by_match for each in resumed.values()) == matched


# Too large for the target.


@pytest.fixture
def small_copies(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> Callable[..., Copying]:
    """Make a topic whose copy takes batches of 20,000 bytes at most."""

    def make(partitions: int = 1, *, parks: bool = False, **copies: str) -> Copying:
        settings = settings_of("east").client, settings_of("west").client
        topics = [NewTopic(unique("orders"), partitions, 1, KEPT)]
        return start_copying(
            east, west, settings, unique, topics, {"max.message.bytes": "20000", **copies}, parks=parks
        )

    return make


def producer_to(client: Mapping[str, str], **settings: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({**client, **{key.replace("_", "."): each for key, each in settings.items()}})


def assert_copied_but(copying: Copying, source: TopicPartition, but_for: Sequence[int] = ()) -> None:
    """Every record is there once, in order, unaltered, but for some; every position translates to it."""
    originals = [each for each in copying.originals(source) if each.offset not in but_for]
    copies = copying.copies(source)
    assert contents(copies) == contents(originals)
    known = copying.state().offset_map(source)
    assert known is not None
    pairs = list(zip(originals, copies, strict=True))
    assert all(leads_to(known.translate(one.offset), copy.offset) for one, copy in pairs)
    if copying.pad_limit is not None:
        assert [one.offset for one, _ in pairs] == [copy.offset for _, copy in pairs]


@OFFSETS
@pytest.mark.parametrize("recompressed", ["producer", "uncompressed"])
def test_batches_over_the_targets_limit_are_cut(
    small_copies: Callable[..., Copying], unique: Unique, recompressed: str, pad_limit: int | None
) -> None:
    """By their size as they come, or, where the target stores them otherwise, by the size they then have."""
    copying = with_offsets(small_copies(5, **{"compression.type": recompressed}), pad_limit)
    seed = random.Random(4)
    for source, codec in zip(copying.pairs, ["none", "gzip", "snappy", "lz4", "zstd"], strict=True):
        producer = producer_to(copying.flow.source_client, compression_type=codec, linger_ms=200)
        for number in range(400):
            value = b"value %d " % number + seed.randbytes(seed.choice([10, 300, 3000]) // 2).hex().encode()
            producer.produce(source.topic, value, b"%d" % number, source.partition, headers=[("a", b"1"), ("a", None)])
        assert producer.flush(60) == 0
    copying.until_caught_up()
    for source in copying.pairs:
        assert_copied_but(copying, source)


@OFFSETS
def test_oversized_records_are_parked_with_where_they_belong(
    small_copies: Callable[..., Copying], pad_limit: int | None
) -> None:
    """With the source's offsets a marker takes the place of each."""
    copying = with_offsets(small_copies(2, parks=True), pad_limit)
    one, other = copying.pairs
    large = {3, 4, 9}
    for source in copying.pairs:
        producer = producer_to(copying.flow.source_client, linger_ms=100)
        for number in range(12):
            value = os.urandom(25_000 if number in large and source == one else 10)
            key = None if number == 4 else b"key %d" % number
            producer.produce(source.topic, value, key, source.partition, headers=[("own", b"%d" % number)])
        assert producer.flush(60) == 0
    results = copying.epoch(3.0)
    assert {each.stopped for each in results.values()} == {None}
    copying.until_caught_up()
    assert_copied_but(copying, one, sorted(large))
    assert_copied_but(copying, other)
    assert copying.flow.parked_topic is not None
    parked = log_of(dict(copying.flow.target_client), TopicPartition(copying.flow.parked_topic, 0))
    originals = {each.offset: each for each in copying.originals(one)}
    assert [int(dict(each.headers)["mirror.parked.offset"] or b"") for each in parked] == sorted(large)
    for each, offset in zip(parked, sorted(large), strict=True):
        original = originals[offset]
        assert (each.timestamp, each.key, each.value) == (original.timestamp, original.key, original.value)
        assert each.headers[0] == ("own", b"%d" % offset)
        told = dict(each.headers)
        assert (told["mirror.parked.cluster"], told["mirror.parked.topic"]) == (b"east", one.topic.encode())
        assert told["mirror.parked.partition"] == b"0"
        assert told["mirror.parked.timestamp"] == b"%d" % original.timestamp
        assert b"on west takes no batch of 25" in (told["mirror.parked.reason"] or b"")
    gaps = copying.state().gaps.values()
    assert sorted((gap.source, gap.start, gap.end) for gap in gaps) == [(one, each, each + 1) for each in sorted(large)]
    assert all(copying.flow.parked_topic in gap.reason for gap in gaps)


def test_a_record_that_cannot_even_be_parked_stops_its_partition_and_no_other(
    small_copies: Callable[..., Copying], west: Cluster
) -> None:
    copying = small_copies(2, parks=True)
    one, other = copying.pairs
    copying.flow = replace(copying.flow, parked_topic=f"{copying.pairs[one].topic}")
    for source in copying.pairs:
        producer = producer_to(copying.flow.source_client)
        for number in range(3):
            size = 25_000 if number == 1 and source == one else 10
            producer.produce(source.topic, os.urandom(size), partition=source.partition)
            producer.flush()
    results = copying.epoch(2.0)
    stopped = results[one].stopped
    assert stopped is not None
    assert "the record at upstream offset 1 cannot be copied" in stopped
    assert "nor parked in east.orders" in stopped
    handover = results[one].handover
    assert handover is not None
    assert (handover.position.upstream, handover.clean) == (1, True)
    assert results[other].stopped is None
    assert_copied_but(copying, other)


def test_a_record_parked_just_before_a_crash_is_not_parked_again(
    small_copies: Callable[..., Copying], new_process: Callable[[], None]
) -> None:
    """It lies in the topic of parked records, but the position is before it."""
    copying = small_copies(1, parks=True)
    (source,) = copying.pairs
    producer = producer_to(copying.flow.source_client)

    def send(size: int) -> None:
        producer.produce(source.topic, os.urandom(size), headers=[("own", b"1")], partition=source.partition)
        assert producer.flush(60) == 0

    for size in (10, 25_000):
        send(size)
    copying.until_caught_up()
    copying.handovers[source] = Handover(Position(0, 0, 0, True, target=copying.pairs[source].topic), (), clean=False)
    new_process()
    copying.until_caught_up()
    for size in (25_000, 10):
        send(size)
    copying.until_caught_up()
    assert_copied_but(copying, source, [1, 2])
    assert copying.flow.parked_topic is not None
    parked = log_of(dict(copying.flow.target_client), TopicPartition(copying.flow.parked_topic, 0))
    assert [dict(each.headers)["mirror.parked.offset"] for each in parked] == [b"1", b"2"]


@pytest.mark.soak
def test_killed_while_parking_nothing_is_lost_and_no_copy_is_there_twice(
    small_copies: Callable[..., Copying], tmp_path: Path
) -> None:
    """``kill -9`` at moments in which records are being parked; none is parked once more then."""
    seed = random.Random(7)
    copying = small_copies(3, parks=True)
    large: dict[TopicPartition, set[int]] = {}
    for source in copying.pairs:
        producer = producer_to(copying.flow.source_client, linger_ms=5)
        large[source] = {number for number in range(150) if seed.random() < 0.1}
        for number in range(150):
            value = b"%d " % number + seed.randbytes(22_000 if number in large[source] else 200)
            producer.produce(source.topic, value, b"%d" % number, source.partition)
        assert producer.flush(60) == 0
    argv = as_program(copying)
    assert copying.flow.parked_topic is not None
    parked = TopicPartition(copying.flow.parked_topic, 0)

    def letters() -> int:
        return ends_of(dict(copying.flow.target_client), [parked])[parked]

    for turn in range(3):
        enough = letters() + seed.randint(1, 6)
        process = processes.start(tmp_path, f"copy-{turn}", argv, owner_pid=os.getpid())
        wait_until(
            lambda enough=enough, process=process: letters() >= enough or not process.is_alive(),  # type: ignore[misc]
            "records to be parked",
            timeout_seconds=60,
            longest_pause_seconds=0.02,
        )
        assert process.is_alive(), process.log_tail()
        process.kill()
    copying.from_the_target()
    copying.until_caught_up(timeout_seconds=60)
    found = log_of(dict(copying.flow.target_client), parked)
    places = [
        (int(told["mirror.parked.partition"] or b""), int(told["mirror.parked.offset"] or b""))
        for told in map(dict, (each.headers for each in found))
    ]
    assert len(places) == len(set(places))
    for source in copying.pairs:
        assert {offset for partition, offset in places if partition == source.partition} == large[source]
        assert_copied_but(copying, source, sorted(large[source]))
    assert {(gap.source, gap.start) for gap in copying.state().gaps.values()} == {
        (source, offset) for source, offsets in large.items() for offset in offsets
    }


def test_a_broker_tells_how_large_a_request_it_takes(settings_of: Callable[[str], ClusterSettings]) -> None:
    channel = Channel("west", settings_of("west").client)
    try:
        connection = channel.connect(1, (PRODUCE,))
        assert broker_setting(connection, 1, "socket.request.max.bytes") == "104857600"
        assert broker_setting(connection, 1, "no.such.setting") is None
        connection.close()
    finally:
        channel.close()
