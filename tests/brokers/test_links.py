"""Copies over lines as they are: long, cut, throttled, moved to another address, and with very many partitions."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import confluent_kafka
import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from mirror.copier import links
from mirror.kafka import log, throttling, wire
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter, read_batches
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.wire import FetchFrom
from mirror.lab import clusters, processes
from mirror.lab.brokers import EmbeddedCluster
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, as_program, ends_of
from tests.flows import flow_work
from tests.worker_process import forget_all

# Each way; a round trip takes twice as long.
DELAY_MS = 50
# Longer than a claim to a flow lasts without a renewal.
LONG_MS = 15_000

NewCopying = Callable[..., Copying]


@dataclass
class Traffic:
    """What the copy said to brokers."""

    fetches: list[tuple[int, int]] = field(default_factory=list)
    """Partitions named and forgotten, by fetch."""
    sizes: list[int] = field(default_factory=list)
    """The most bytes asked for of a partition, by fetch that names any."""
    batches: list[int] = field(default_factory=list)
    """Sizes of the batches produced."""


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    """Listen to what the copy says."""
    seen = Traffic()
    fetch_request, produce_request = wire.fetch_request, wire.produce_request

    def fetch(correlation: int, wanted: dict[TopicPartition, FetchFrom], **more: Any) -> bytes:
        if "session" in more:
            seen.fetches.append((len(wanted), len(more["forgotten"])))
            seen.sizes += [max(each.most_bytes for each in wanted.values())] if wanted else []
        return fetch_request(correlation, wanted, **more)

    def produce(correlation: int, contents: Sequence[tuple[TopicPartition, memoryview]], **more: Any) -> list[Any]:
        seen.batches += [len(content) for _, content in contents]
        return produce_request(correlation, contents, **more)

    monkeypatch.setattr(wire, "fetch_request", fetch)
    monkeypatch.setattr(wire, "produce_request", produce)
    return seen


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Each test begins as a process that has just been started."""
    yield
    forget_all()


@pytest.fixture(autouse=True)
def short_lines(east_west: clusters.Lab) -> Iterator[None]:
    """Leave the links to the clusters as they were."""
    yield
    for alias in ("east", "west"):
        for link in linked(east_west, alias).links:
            link.heal()
            link.set(delay_ms=0, bandwidth=None)


def linked(lab: clusters.Lab, alias: str) -> EmbeddedCluster:
    return cast(EmbeddedCluster, lab.clusters[alias])


@pytest.fixture
def new_copying(east_west: clusters.Lab, east: Cluster, west: Cluster, unique: Callable[[str], str]) -> NewCopying:
    """Make a topic, its copy, and the side topics of a flow; ``over`` names the clusters reached through links."""

    def make(
        partitions: int = 1, over: Sequence[str] = (), copy_configs: dict[str, str] | None = None, **flow: Any
    ) -> Copying:
        topic, state, offsets = unique("orders"), unique("mm2-state"), unique("mm2-offsets")
        east.create_topics([NewTopic(topic, partitions, 1)])
        west.create_topics([NewTopic(f"east.{topic}", partitions, 1, copy_configs or {})])
        west.create_topics([NewTopic(state, 1, 1), NewTopic(offsets, 3, 1)])
        clients = [
            {"bootstrap.servers": cluster.linked_servers if alias in over else cluster.bootstrap_servers}
            for alias in ("east", "west")
            for cluster in [linked(east_west, alias)]
        ]
        pairs = {TopicPartition(topic, each): TopicPartition(f"east.{topic}", each) for each in range(partitions)}
        for client, asked in zip(clients, (list(pairs), [*pairs.values(), TopicPartition(state, 0)]), strict=True):
            wait_until(lambda client=client, asked=asked: can_tell(client, asked), "the topics", timeout_seconds=30)  # type: ignore[misc]
        known = {"source_client": clients[0], "target_client": clients[1], "state_topic": state}
        return Copying(flow_work(**known, offsets_topic=offsets, offsets_partitions=3, **flow), pairs)

    return make


def can_tell(client: dict[str, str], partitions: Sequence[TopicPartition]) -> bool:
    """Whether the cluster says where all these partitions end."""
    try:
        return bool(ends_of(client, partitions))
    except (BrokerRefused, LeaderUnknown):
        return False


def write(lab: clusters.Lab, partitions: Sequence[TopicPartition], count: int, size: int = 10, **settings: Any) -> None:
    """Write ``count`` records to each partition, directly."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": lab.clusters["east"].bootstrap_servers,
            "queue.buffering.max.kbytes": 200_000,
            **{key.replace("_", "."): each for key, each in settings.items()},
        }
    )
    for number in range(count):
        for partition in partitions:
            producer.produce(partition.topic, b"%d " % number + b"x" * size, b"%d" % number, partition.partition)
        producer.poll(0)
    producer.flush()


def assert_copied(copying: Copying) -> None:
    """Every record is there once, in order."""
    for source in copying.pairs:
        originals, copies = copying.originals(source), copying.copies(source)
        assert [(each.key, each.value, each.timestamp) for each in copies] == [
            (each.key, each.value, each.timestamp) for each in originals
        ]


def begin(copying: Copying, traffic: Traffic) -> None:
    """Copy until the source was asked for something."""
    wait_until(lambda: copying.epoch() and traffic.fetches, "a fetch", timeout_seconds=60)


# Fetch sessions.


def test_an_idle_partition_is_named_once(east_west: clusters.Lab, new_copying: NewCopying, traffic: Traffic) -> None:
    """From then on a fetch names what moved; over epochs, too."""
    copying = new_copying(partitions=40)
    first = next(iter(copying.pairs))
    begin(copying, traffic)
    assert traffic.fetches[0] == (40, 0)
    traffic.fetches.clear()
    copying.epoch()
    copying.epoch()
    assert traffic.fetches
    assert set(traffic.fetches) == {(0, 0)}
    write(east_west, [first], 1)
    copying.until_caught_up()
    assert max(traffic.fetches) == (1, 0)
    assert_copied(copying)


def test_partitions_that_come_and_go_are_added_and_forgotten(
    east_west: clusters.Lab, new_copying: NewCopying, traffic: Traffic
) -> None:
    copying = new_copying(partitions=5)
    everything = dict(copying.pairs)
    begin(copying, traffic)
    gone = list(everything)[:2]
    copying.pairs = {source: target for source, target in everything.items() if source not in gone}
    traffic.fetches.clear()
    copying.epoch()
    assert traffic.fetches[0] == (0, 2)
    write(east_west, list(everything), 3)
    copying.until_caught_up()
    ends = ends_of(copying.flow.target_client, [everything[source] for source in gone])
    assert set(ends.values()) == {0}
    copying.pairs = everything
    copying.until_caught_up()
    assert_copied(copying)


@pytest.mark.parametrize(("of", "to"), [("_id", 1_234_567), ("_epoch", 1_000)])
def test_a_session_that_the_broker_does_not_know_is_begun_anew(
    of: str, to: int, east_west: clusters.Lab, new_copying: NewCopying, traffic: Traffic
) -> None:
    """FETCH_SESSION_ID_NOT_FOUND after an eviction, INVALID_FETCH_SESSION_EPOCH: nobody notices."""
    copying = new_copying(partitions=3)
    begin(copying, traffic)
    sessions = [
        connection.session
        for cluster in links._clusters.values()
        for (_, role), connection in cluster._idle.items()
        if role.startswith("fetch")
    ]
    assert len(sessions) == 1
    setattr(sessions[0], of, to)
    write(east_west, list(copying.pairs), 3)
    traffic.fetches.clear()
    results = copying.epoch()
    assert traffic.fetches[:2] == [(0, 0), (3, 0)]
    assert {each.trouble for each in results.values()} == {None}
    copying.until_caught_up()
    assert_copied(copying)


@pytest.mark.soak
def test_a_thousand_partitions_are_copied_and_found_again(east_west: clusters.Lab, new_copying: NewCopying) -> None:
    copying = new_copying(partitions=1000)
    sources = list(copying.pairs)
    write(east_west, sources, 2)
    copying.epoch(3.0)
    copying.until_caught_up(timeout_seconds=60)
    forget_all()
    copying.from_the_target()
    write(east_west, sources, 1)
    copying.epoch(3.0)
    copying.until_caught_up(timeout_seconds=60)
    assert set(ends_of(copying.flow.target_client, list(copying.pairs.values())).values()) == {4}, "a marker each"
    state = copying.state()
    assert {position.upstream for position in state.positions.values()} == {3}
    copying.pairs = {source: copying.pairs[source] for source in sources[::250]}
    assert_copied(copying)


# Long lines.


@pytest.mark.long
def test_a_long_line_to_the_source_is_asked_for_more_at_once(
    east_west: clusters.Lab, new_copying: NewCopying, traffic: Traffic
) -> None:
    """One partition: with 1 MB a round trip it would take as many fetches as there are megabytes."""
    copying = new_copying(over=["east"])
    (source,) = copying.pairs
    write(east_west, [source], 24_000, 1000, batch_size=200_000, linger_ms=20)
    for link in linked(east_west, "east").links:
        link.set(delay_ms=DELAY_MS)
    copying.until_caught_up()
    # How many fetches that saves depends on how fast the rest of the machine is.
    assert max(traffic.sizes) >= 2 * traffic.sizes[0]
    assert_copied(copying)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.long
def test_on_a_long_line_to_the_target_what_queues_up_goes_in_large_batches(
    codec: str, east_west: clusters.Lab, new_copying: NewCopying, traffic: Traffic
) -> None:
    """One partition: five batches of 30 KB a round trip would be 1.5 MB/s."""
    copying = new_copying(over=["west"])
    (source,) = copying.pairs
    write(east_west, [source], 12_000, 1000, batch_size=30_000, linger_ms=20, compression_type=codec)
    for link in linked(east_west, "west").links:
        link.set(delay_ms=DELAY_MS)
    copying.until_caught_up()
    assert len(traffic.batches) < batches_of(copying.flow.source_client, source) / 3
    assert_copied(copying)


@pytest.mark.long
def test_a_joined_batch_that_the_target_finds_too_large_is_joined_smaller(
    east_west: clusters.Lab, new_copying: NewCopying, traffic: Traffic
) -> None:
    copying = new_copying(over=["west"], copy_configs={"max.message.bytes": "150000"})
    (source,) = copying.pairs
    write(east_west, [source], 6_000, 1000, batch_size=20_000, linger_ms=20)
    for link in linked(east_west, "west").links:
        link.set(delay_ms=DELAY_MS)
    copying.until_caught_up()
    assert max(traffic.batches) > 150_000
    assert len([size for size in traffic.batches if 40_000 < size < 150_000]) > 5
    assert_copied(copying)


def test_a_line_that_is_dead_for_a_while_costs_nothing(east_west: clusters.Lab, new_copying: NewCopying) -> None:
    """Neither towards the source nor towards the target; nothing is told about it."""
    copying = new_copying(partitions=2, over=["east", "west"])
    sources = list(copying.pairs)
    cuts = [*linked(east_west, "east").links, *linked(east_west, "west").links]
    copying.until_caught_up()
    over = threading.Event()

    def cut_and_heal() -> None:
        for link in cuts:
            link.cut()
            write(east_west, sources, 200, 1000)
            link.heal()
            link.cut(silently=False)
            write(east_west, sources, 200, 1000)
            link.heal()
        over.set()

    thread = threading.Thread(target=cut_and_heal)
    thread.start()
    wait_until(lambda: copying.epoch() and over.is_set(), "the line to be healed", timeout_seconds=60)
    thread.join()
    copying.until_caught_up()
    assert_copied(copying)
    assert [len(copying.copies(source)) for source in sources] == [800, 800]


def batches_of(client: dict[str, str], partition: TopicPartition) -> int:
    """Return how many batches a partition holds."""
    (end,) = ends_of(client, [partition]).values()
    channel = Channel("cluster", client)
    try:
        return sum(1 for _ in read_batches(channel, partition, 0, end))
    finally:
        channel.close()


# Quotas and addresses.


@pytest.mark.parametrize(("alias", "quota"), [("east", "consumer_byte_rate"), ("west", "producer_byte_rate")])
def test_a_quota_is_kept_to_and_told(alias: str, quota: str, east_west: clusters.Lab, new_copying: NewCopying) -> None:
    """The copy goes on, and the results say for how long it was throttled, and by whom."""
    copying = new_copying()
    (source,) = copying.pairs

    def told() -> list[int]:
        """For how long so far, by the source and by the target."""
        return [sum(each.source_ms for each in copying.throttled), sum(each.target_ms for each in copying.throttled)]

    write(east_west, [source], 3_000, 1000)
    set_quota(east_west.clusters[alias].bootstrap_servers, quota, 250_000.0)
    try:
        wait_until(lambda: bool(copying.epoch(2.0)) and any(told()), "throttling", timeout_seconds=30)
    finally:
        set_quota(east_west.clusters[alias].bootstrap_servers, quota, None)
    copying.until_caught_up()
    assert [ms > 0 for ms in told()] == [alias == "east", alias == "west"]
    assert_copied(copying)


@pytest.mark.long
def test_a_copy_goes_on_soon_after_a_quota_that_has_asked_for_hours_of_silence_is_lifted(
    east_west: clusters.Lab, new_copying: NewCopying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker reads nothing more from the connection for as long as it has announced, whatever the quota is since."""
    monkeypatch.setattr(throttling, "_LONGEST_SILENCE_SECONDS", 3.0)
    copying = new_copying()
    (source,) = copying.pairs
    servers = east_west.clusters["west"].bootstrap_servers

    def throttled() -> int:
        write(east_west, [source], 300, 1000)
        copying.epoch(2.0)
        return copying.throttled[-1].target_ms

    set_quota(servers, "producer_byte_rate", 1.0)
    try:
        wait_until(throttled, "throttling", timeout_seconds=30)
        write(east_west, [source], 300, 1000)
        copying.epoch(2.0)
        assert copying.throttled[-1].target_ms > 1_000, "also while no answer comes in"
    finally:
        set_quota(servers, "producer_byte_rate", None)
    copying.until_caught_up()
    assert_copied(copying)
    copying.epoch(1.0)
    assert copying.throttled[-1].target_ms == 0


def test_what_is_written_down_does_not_wait_for_a_quota_that_its_last_record_has_broken(
    east_west: clusters.Lab, new_copying: NewCopying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim to a flow that is renewed minutes later would be another engine's by then."""
    copying = new_copying()
    servers = east_west.clusters["west"].bootstrap_servers
    throttles: list[int] = []
    produce_throttle_ms = wire.produce_throttle_ms

    def throttled(frame: memoryview) -> int:
        throttles.append(produce_throttle_ms(frame))
        return throttles[-1]

    monkeypatch.setattr(wire, "produce_throttle_ms", throttled)
    writer = LogWriter(copying.flow.target_client, alias="west")

    def written(size: int) -> int:
        return writer.append(copying.flow.state_topic, 0, [(b"key", b"x" * size, (), 1)])

    set_quota(servers, "producer_byte_rate", 1_000.0)
    try:
        wait_until(lambda: (written(100_000), throttles[-1])[1], "throttling", timeout_seconds=20, until=LONG_MS.__le__)
        began = time.monotonic()
        written(10)
        took = time.monotonic() - began
    finally:
        set_quota(servers, "producer_byte_rate", None)
        writer.close()
    assert throttles[-1] >= LONG_MS
    assert took < 10


def test_a_read_that_a_quota_starves_says_so(
    east_west: clusters.Lab, new_copying: NewCopying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers answer without records, and without an error."""
    monkeypatch.setattr(log, "_LONGEST_STANDSTILL_SECONDS", 0.0)
    copying = new_copying()
    (source,) = copying.pairs
    write(east_west, [source], 10, 10)
    servers = east_west.clusters["east"].bootstrap_servers
    channel = Channel("east", {"bootstrap.servers": servers})
    set_quota(servers, "request_percentage", 0.01)
    try:
        with pytest.raises(
            ConnectionFailed, match=r"the broker throttles this client for \d[\w ]*: a quota of that cluster"
        ):
            wait_until(
                lambda: list(read_batches(channel, source, 0, 10)), "a quota", timeout_seconds=15, until=lambda _: False
            )
    finally:
        set_quota(servers, "request_percentage", None)
        channel.close()


def set_quota(servers: str, quota: str, bytes_a_second: float | None) -> None:
    """Limit the engine's client id."""
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name="mirror")],
                ops=[entry.OpData(key=quota, value=bytes_a_second or 0.0, remove=bytes_a_second is None)],
            )
        ],
        validate_only=False,
    )
    channel = Channel("cluster", {"bootstrap.servers": servers})
    try:
        answer = channel.call(request)
    finally:
        channel.close()
    assert [each.error_code for each in answer.entries] == [0]


def test_a_name_that_moves_to_another_address_is_found_again(
    east_west: clusters.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are resolved whenever something is connected, never before."""
    port = east_west.clusters["east"].bootstrap_servers.rpartition(":")[2]
    address = "127.0.0.99"
    resolve = socket.getaddrinfo

    def resolved(host: Any, *more: Any, **named: Any) -> Any:
        return resolve(address if host == "kafka.example" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    cluster = links.ClusterLinks("east", {"bootstrap.servers": f"kafka.example:{port}"})
    with pytest.raises(ConnectionFailed):
        cluster.ask(Channel.new_producer)
    address = "127.0.0.1"
    producer = wait_until(lambda: asked(cluster), "the cluster at its new address", timeout_seconds=60)
    assert producer is not None
    cluster.close()


def asked(cluster: links.ClusterLinks) -> object | None:
    try:
        return cluster.ask(Channel.new_producer)
    except ConnectionFailed:
        return None


def write_large(copying: Copying, count: int, size: int) -> list[bytes]:
    """Write records that cannot be compressed; return their values."""
    (source,) = copying.pairs
    contents = [os.urandom(size) for _ in range(count)]
    producer = confluent_kafka.Producer({**copying.flow.source_client, "message.max.bytes": 2_000_000})
    for content in contents:
        producer.produce(source.topic, content, partition=source.partition)
    assert producer.flush(30) == 0
    return contents


@contextmanager
def narrowed(cluster: EmbeddedCluster) -> Iterator[None]:
    """Let 100 KB a second through to the cluster."""
    for link in cluster.links:
        link.set(bandwidth=100_000)
    try:
        yield
    finally:
        for link in cluster.links:
            link.set(bandwidth=None)


@pytest.mark.soak
def test_over_a_narrow_line_large_records_arrive_once_although_epochs_end_before_they_do(
    east_west: clusters.Lab, new_copying: NewCopying
) -> None:
    """What an epoch gave up is still under way when the next one begins: the target refuses it."""
    copying = new_copying(over=["west"])
    (source,) = copying.pairs
    contents = write_large(copying, 8, 900_000)
    producers = set()

    def copied() -> int:
        copying.epoch(3.0)
        producers.add(copying.flow.producer)
        return copying.handovers[source].position.upstream if source in copying.handovers else 0

    with narrowed(linked(east_west, "west")):
        copying.take_producer()
        wait_until(copied, "all of them", timeout_seconds=400, until=lambda upstream: upstream == len(contents))
    copying.until_caught_up()
    assert [each.value for each in copying.copies(source)] == contents


@pytest.mark.long
def test_over_a_narrow_line_what_killed_processes_had_sent_arrives_once(
    east_west: clusters.Lab, new_copying: NewCopying, tmp_path: Path
) -> None:
    """The line goes on to deliver it while the next process writes already: the target refuses it."""
    copying = new_copying(over=["west"])
    ((source, copy),) = copying.pairs.items()
    contents = write_large(copying, 12, 300_000)
    beside_the_line = {"bootstrap.servers": linked(east_west, "west").bootstrap_servers}

    def end() -> int:
        return ends_of(beside_the_line, [copy])[copy]

    with narrowed(linked(east_west, "west")):
        for turn in range(3):
            process, before = (
                processes.start(tmp_path, f"copy-{turn}", as_program(copying), owner_pid=os.getpid()),
                end(),
            )
            wait_until(
                lambda before=before, process=process: end() > before or not process.is_alive(),  # type: ignore[misc]
                "a record to be copied",
                timeout_seconds=120,
                longest_pause_seconds=0.02,
            )
            assert process.is_alive(), process.log_tail()
            process.kill()
    copying.from_the_target()
    copying.until_caught_up()
    assert [each.value for each in copying.copies(source)] == contents
