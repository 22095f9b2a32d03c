"""What a copy keeps, and what it survives: every record once, in order, unaltered, and known by its offset."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.copier import connections
from mirror.copier.work import Handover
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.kafka.log import LogReader
from mirror.kafka.log_tail import LogTail
from mirror.kafka.versions import Versions
from mirror.lab import clusters, processes
from mirror.model import connect_offsets
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.brokers.copying import (
    Copying,
    NewCopying,
    Unique,
    as_program,
    assert_copied,
    contents,
    ends_of,
    producer_to,
    write,
)

TIME = 1_700_000_000_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_is_kept_as_it_is(codec: str, new_copying: NewCopying) -> None:
    """Keys, values, nulls, headers in their order, timestamps; batches pass on without being opened."""
    copying = new_copying()
    (source,) = copying.pairs
    producer = producer_to(copying.flow.source_client, compression_type=codec)
    headers: Any = [("a", b"1"), ("a", None), ("größe", b"\x00\xff"), ("a", b"")]
    for number in range(50):
        value = [b"value %d " % number * 20, None, b""][number % 3]
        key = [b"key %d" % number, None, b""][number // 3 % 3]
        producer.produce(
            source.topic, value, key, 0, timestamp=TIME + 1000 * number, headers=headers[: number % 5] or None
        )
    producer.flush()
    copying.until_caught_up()
    assert_copied(copying)
    originals = copying.originals(source)
    assert {each.value for each in originals} >= {None, b""}
    assert max(len(each.headers) for each in originals) == 4
    channel = Channel("west", copying.flow.target_client)
    reader = LogReader(channel, copying.pairs[source], 0)
    batches = reader.fetch()
    channel.close()
    assert {header.codec for _, header in batches} == {["none", "gzip", "snappy", "lz4", "zstd"].index(codec)}


def test_the_time_of_arrival_on_the_source_is_the_time_of_the_copy(new_copying: NewCopying) -> None:
    copying = new_copying(configs={"message.timestamp.type": "LogAppendTime"})
    (source,) = copying.pairs
    producer = producer_to(copying.flow.source_client, compression_type="lz4")
    for number in range(20):
        producer.produce(source.topic, b"value %d" % number, timestamp=TIME + number)
    producer.flush()
    copying.until_caught_up()
    assert all(each.timestamp > TIME + 10**9 for each in copying.copies(source))
    assert_copied(copying)


def test_a_compacted_source_is_copied_with_its_holes(new_copying: NewCopying) -> None:
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "600000",
    }
    copying = new_copying(configs=configs)
    (source,) = copying.pairs
    client = copying.flow.source_client
    producer = producer_to(client, compression_type="zstd", linger_ms=1000)
    for keys in (range(10), range(0, 10, 2), range(3)):
        for number in keys:
            value = None if number == 1 else b"value %d" % number
            producer.produce(source.topic, value, b"key %d" % number)
        producer.flush()

    def compacted() -> bool:
        # Only a segment that is no longer written to is cleaned, and only a write after a while closes one.
        producer.produce(source.topic, b"roll", os.urandom(8))
        producer.flush()
        return len(copying.originals(source)) < ends_of(client, [source])[source]

    wait_until(compacted, "the source to be compacted", timeout_seconds=30)
    originals = copying.originals(source)
    assert [each.offset for each in originals] != list(range(len(originals)))
    copying.until_caught_up()
    assert_copied(copying)
    copying.from_the_target()
    copying.until_caught_up()
    assert copying.state().gaps == {}


@pytest.mark.parametrize("read_committed", [False, True])
def test_transactions_are_copied_as_the_isolation_level_says(read_committed: bool, new_copying: NewCopying) -> None:
    """Markers are no records and no gap; what was aborted is left out if asked for."""
    copying = new_copying(read_committed=read_committed)
    (source,) = copying.pairs
    client = copying.flow.source_client
    producer = confluent_kafka.Producer({**client, "transactional.id": source.topic})
    producer.init_transactions(60)
    for number, ends in enumerate(["commit", "abort", "commit", "abort", "commit"]):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(source.topic, b"%s %d %d" % (ends.encode(), number, each))
        producer.flush()
        if number == 2:
            write(client, source, range(5))
        (producer.commit_transaction if ends == "commit" else producer.abort_transaction)()
    copying.until_caught_up()
    assert_copied(copying, but_for=lambda each: read_committed and (each.value or b"").startswith(b"abort"))
    assert len(copying.copies(source)) == (20 if read_committed else 30)
    assert copying.state().gaps == {}


def test_a_reader_of_committed_data_waits_for_a_transaction_to_end(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Neither copying nor resuming goes past it, nor waits for it."""
    copying = new_copying(read_committed=True)
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(5))
    producer = confluent_kafka.Producer({**copying.flow.source_client, "transactional.id": source.topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(source.topic, b"open")
    producer.flush()
    first = copying.epochs_until("the committed records", lambda found: found.records == 5)[source]
    assert first.trouble is None
    copying.handovers[source] = Handover(Position(0, 0, 0, True), (), clean=False)
    new_process()
    began = time.monotonic()
    resumed = copying.epochs_until("the match", lambda found: found.skipped_by_match > 0)[source]
    assert (resumed.skipped_by_match, resumed.records, resumed.trouble) == (5, 0, None)
    # It would end by itself after a minute.
    assert time.monotonic() - began < 40
    producer.commit_transaction()
    copying.until_caught_up()
    assert_copied(copying)


def test_copying_can_begin_in_the_middle_of_a_batch(new_copying: NewCopying) -> None:
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10), compression_type="gzip", linger_ms=1000)
    copying.handovers[source] = Handover(Position(4, 0, 4, False), (), clean=True)
    copying.until_caught_up()
    assert_copied(copying, but_for=lambda each: each.offset < 4)


def test_positions_and_offset_syncs_are_those_of_mm2(new_copying: NewCopying) -> None:
    copying = new_copying(partitions=2)
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(250 + source.partition))
    copying.until_caught_up()
    flow = copying.flow
    tails = [
        LogTail(flow.target_client, flow.offsets_topic, range(flow.offsets_partitions)),
        LogTail(flow.source_client, flow.syncs_topic or ""),
    ]
    positions, syncs = ([(each.key, each.value) for each in tail.poll()] for tail in tails)
    for tail in tails:
        tail.close()
    assert connect_offsets.read_source_positions(positions, "east") == {
        source: 250 + source.partition for source in copying.pairs
    }
    found = [sync for each in syncs if (sync := OffsetSync.parse(*each))]
    known = copying.state()
    for source in copying.pairs:
        own = [sync for sync in found if sync.topic_partition == source]
        # OSW-05: with the last commit comes the last record.
        assert own[-1].upstream == 249 + source.partition
        offset_map = known.offset_map(source)
        assert offset_map is not None
        assert all(offset_map.translate(sync.upstream) == Exact(sync.downstream) for sync in own)


def test_a_refused_offset_sync_is_written_as_soon_as_it_is_taken_although_no_record_comes(
    new_copying: NewCopying, east: Cluster, unique: Unique
) -> None:
    """ERR-11: from epoch to epoch, while records are copied and their positions recorded."""
    copying, syncs = new_copying(), unique("mm2-offset-syncs")
    refusing = {"cleanup.policy": "compact", "max.message.bytes": "1"}
    assert [each.problem for each in east.create_topics([NewTopic(syncs, 1, 1, refusing)])] == [None]
    copying.flow = replace(copying.flow, syncs_topic=syncs)
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(30))
    copying.until_caught_up()
    assert_copied(copying)
    results = copying.epoch()
    assert f"{syncs}-0 on the source refuses what the flow writes down" in str(results[source].trouble)
    assert copying.handovers[source].is_recorded
    tail = LogTail(copying.flow.source_client, syncs)
    assert tail.poll() == []
    east.alter_configs({syncs: ConfigChange({}, ("max.message.bytes",))})

    def written() -> list[OffsetSync | None]:
        copying.epoch()
        return [OffsetSync.parse(each.key, each.value) for each in tail.poll()]

    assert wait_until(written, "the offset sync", timeout_seconds=60) == [OffsetSync(source, 29, 29)]
    assert copying.epoch()[source].trouble is None
    assert tail.poll() == []
    tail.close()


def test_records_of_others_in_the_copy_are_left_alone_and_told_apart(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Also when the mirror must find out how far it got."""
    copying = new_copying()
    (source,) = copying.pairs
    client, target = copying.flow.target_client, copying.pairs[source]
    for turn in range(3):
        write(copying.flow.source_client, source, range(10 * turn, 10 * turn + 10))
        write(client, target, range(1000, 1003))
        before = copying.handovers.get(source)
        copying.until_caught_up()
        write(client, target, range(2000, 2002), enable_idempotence=True)
        if before:
            copying.handovers[source] = replace(before, clean=False)
            new_process()
    copying.until_caught_up()
    assert_copied(copying)
    assert len(copying.copies(source)) == 30 + 3 * 5


def test_a_batch_that_the_target_refuses_stops_its_partition_and_no_other(new_copying: NewCopying) -> None:
    copying = new_copying("good", "small", copy_configs={"small": {"max.message.bytes": "2000"}})
    good, small = copying.pairs
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(5))
        producer = producer_to(copying.flow.source_client)
        producer.produce(source.topic, os.urandom(3000))
        producer.flush()
        write(copying.flow.source_client, source, range(5, 10))
    results = copying.epochs_until("the refusal", lambda found: found.stopped is not None, small)
    assert results[good].stopped is None
    stopped = results[small].stopped
    assert stopped is not None
    assert "upstream offset 5: MessageSizeTooLarge" in stopped
    handover = copying.handovers[small]
    assert (handover.position.upstream, handover.clean) == (5, True)
    assert contents(copying.copies(good)) == contents(copying.originals(good))
    assert contents(copying.copies(small)) == contents(copying.originals(small)[:5])


def test_a_record_without_a_key_stops_its_partition_of_a_compacted_copy_and_no_other(new_copying: NewCopying) -> None:
    """ERR-12: the source's topic may be any, the copy was made compacted."""
    copying = new_copying(partitions=2, copy_configs={"orders": {"cleanup.policy": "compact"}})
    keyless, other = copying.pairs
    client = copying.flow.source_client
    for source in copying.pairs:
        write(client, source, range(5))
    copying.until_caught_up()
    producer = producer_to(client)
    producer.produce(keyless.topic, b"a value", partition=keyless.partition)
    assert producer.flush(60) == 0
    for source in copying.pairs:
        write(client, source, range(5, 10))
    results = copying.epoch(1.0)
    stopped = results[keyless].stopped
    assert stopped is not None
    assert "the target refuses the batch behind upstream offset 5: InvalidRecord" in stopped
    assert f"without key in topic partition {copying.pairs[keyless]}" in stopped
    handover = copying.handovers[keyless]
    assert (handover.position.upstream, handover.clean) == (5, True)
    assert results[other].stopped is None
    assert contents(copying.copies(keyless)) == contents(copying.originals(keyless)[:5])
    assert contents(copying.copies(other)) == contents(copying.originals(other))


def test_nothing_is_copied_twice_when_acknowledged_records_were_not_recorded(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    copying = new_copying(partitions=3)
    client = copying.flow.source_client
    for source in copying.pairs:
        write(client, source, range(100))
    copying.until_caught_up()
    recorded = {source: replace(handover, clean=False) for source, handover in copying.handovers.items()}
    for source in copying.pairs:
        write(client, source, range(100, 220), compression_type="lz4")
    copying.until_caught_up()
    for source in copying.pairs:
        write(client, source, range(220, 300))
    copying.handovers = recorded
    new_process()
    results = copying.epoch(1.0)
    assert {each.skipped_by_match for each in results.values()} == {120}
    copying.until_caught_up()
    assert_copied(copying)


def test_a_partition_without_a_leader_is_a_trouble_and_no_failure(new_copying: NewCopying) -> None:
    copying = new_copying("there")
    (source,) = copying.pairs
    absent = TopicPartition("absent", 0)
    copying.pairs[absent] = TopicPartition("east.absent", 0)
    write(copying.flow.source_client, source, range(5))
    results = wait_until(copying.epoch, "the copy", timeout_seconds=60, until=lambda seen: seen[source].records > 0)
    assert (results[source].records, results[source].trouble) == (5, None)
    assert "absent-0 has no leader" in str(results[absent].trouble)


def epoch_of(copying: Copying) -> int:
    """Return how often the flow's producer was taken over."""
    producer = copying.state().producer
    return producer.epoch if producer is not None else -1


def test_killed_three_times_under_load_nothing_is_lost_and_nothing_is_there_twice(
    new_copying: NewCopying, tmp_path: Path
) -> None:
    """``kill -9``, each time when a random number of records has been written; then on from what the target says."""
    seed = random.Random(20)
    copying = new_copying(partitions=3)
    flow = copying.flow
    loading = threading.Event()

    def load() -> None:
        producer = producer_to(flow.source_client, compression_type="lz4", linger_ms=2)
        number = 0
        while not loading.is_set():
            for source in copying.pairs:
                producer.produce(source.topic, b"value %d " % number + b"x" * 200, b"%d" % number, source.partition)
            number += 1
            producer.poll(0.002)
        producer.flush()

    argv = as_program(copying)
    thread = threading.Thread(target=load)
    thread.start()

    def copied() -> int:
        return sum(ends_of(flow.target_client, list(copying.pairs.values())).values())

    try:
        for turn in range(3):
            enough = copied() + seed.randint(100, 1500)
            process = processes.start(tmp_path, f"copy-{turn}", argv, owner_pid=os.getpid())
            wait_until(
                lambda enough=enough, process=process, turn=turn: (  # type: ignore[misc]
                    # What the one before had sent may arrive after its death.
                    (copied() >= enough and epoch_of(copying) >= turn) or not process.is_alive()
                ),
                "records to be copied",
                timeout_seconds=120,
                longest_pause_seconds=0.02,
            )
            assert process.is_alive(), process.log_tail()
            process.kill()
    finally:
        loading.set()
        thread.join()
    copying.from_the_target()
    copying.until_caught_up()
    assert_copied(copying)
    assert copying.flow.producer is not None
    assert copying.flow.producer.epoch == 3
    assert len(copying.flow.writers) == 1


@pytest.fixture(scope="module")
def south(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.LabCluster]:
    """A cluster of this module's own, to be killed."""
    directory = tmp_path_factory.mktemp("south")
    yield clusters.up(directory, ["south"], owner_pid=os.getpid()).clusters["south"]
    clusters.down(directory, discard_data=True)


@pytest.mark.parametrize("dies", ["source", "target"])
@pytest.mark.long
def test_a_broker_that_is_killed_and_comes_back_costs_nothing(
    dies: str,
    south: clusters.LabCluster,
    new_copying: NewCopying,
    settings_of: Callable[[str], ClusterSettings],
) -> None:
    """In the middle of a copy; it goes on by itself."""
    mortal = {"bootstrap.servers": south.bootstrap_servers}
    with Cluster.connect(ClusterSettings("south", mortal)) as cluster:
        if dies == "target":
            copying = new_copying(partitions=2, target=cluster, clients=(dict(settings_of("east").client), mortal))
        else:
            copying = new_copying(partitions=2, source=cluster, clients=(mortal, dict(settings_of("west").client)))
    for source in copying.pairs:
        producer = producer_to(copying.flow.source_client, compression_type="lz4", acks="all")
        for number in range(10_000):
            producer.produce(source.topic, b"value %d " % number + b"x" * 100, b"%d" % number, source.partition)
        producer.flush()
    restarted = threading.Event()

    def restart() -> None:
        ends = copying.flow.target_client, list(copying.pairs.values())
        wait_until(
            lambda: sum(ends_of(*ends).values()) > 1_000, "a copy", timeout_seconds=60, longest_pause_seconds=0.01
        )
        south.kill()
        south.start()
        restarted.set()

    thread = threading.Thread(target=restart)
    thread.start()
    troubles: set[str | None] = set()

    def copied() -> bool:
        troubles.update(each.trouble for each in copying.epoch(1.0).values())
        return restarted.is_set()

    wait_until(copied, "the broker to be back", timeout_seconds=60)
    thread.join()
    copying.until_caught_up()
    assert_copied(copying)


@pytest.mark.parametrize(
    ("request_name", "side", "needed", "told"),
    [
        ("FETCH", "east", Versions(1, "Fetch", 99, 99, "9.9"), "must be of Kafka 9.9 or later"),
        ("PRODUCE", "west", Versions(0, "Produce", -2, -1, "0.1"), "is too new for this release of the engine"),
    ],
)
def test_a_broker_that_does_not_offer_what_is_needed_is_named_until_it_does(
    request_name: str,
    side: str,
    needed: Versions,
    told: str,
    new_copying: NewCopying,
    new_process: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As while a cluster is upgraded: the broker would hang up without a word."""
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10))
    copying.epoch()
    new_process()
    with monkeypatch.context() as other:
        other.setattr(connections, request_name, needed)
        (result,) = copying.epochs_until("the trouble", lambda found: found.trouble is not None).values()
        trouble = result.trouble or ""
        assert f"{side}, broker 1: it offers {needed.name} versions" in trouble
        assert told in trouble
        assert result.records == 0
    new_process()
    copying.until_caught_up()
    assert_copied(copying)
