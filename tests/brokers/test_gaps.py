"""A gap is never silent: whatever the source or the target lost is found, with its range, and nothing else is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as AssignedTopic

from mirror.config.settings import ClusterSettings
from mirror.copier.work import Handover, PartitionResult
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter
from mirror.kafka.log_tail import LogTail
from mirror.kafka.metadata import Metadata
from mirror.kafka.problems import ConnectionFailed
from mirror.lab import clusters
from mirror.model.connect_offsets import read_source_positions
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.brokers.copying import (
    Copying,
    NewCopying,
    Unique,
    assert_copied,
    can_tell,
    delete_before,
    delete_records,
    ends_of,
    producer_to,
    write,
)
from tests.brokers.leaders import copy_to_the_second_and_third, led_by
from tests.worker_process import forget_all

KNOWN = Acknowledgement("ann", "a test", 1_700_000_000_000)


def create_anew(cluster: Cluster, client: dict[str, str], topic: str) -> None:
    """Delete a topic and create it again under the same name."""
    cluster.delete_topics([topic])
    wait_until(lambda: topic not in cluster.topics([topic]), "the topic to be gone", timeout_seconds=60)
    (created,) = cluster.create_topics([NewTopic(topic, 1, 1)])
    assert created.problem is None
    wait_until(lambda: can_tell(client, [TopicPartition(topic, 0)]), "the topic", timeout_seconds=60)


def acknowledge(copying: Copying, gap: Gap) -> None:
    """Acknowledge a gap, as ``mirror gaps --acknowledge`` does, and let the copy know."""
    writer = LogWriter(copying.flow.target_client)
    writer.append(copying.flow.state_topic, 0, [(*KNOWN.record(gap.key), (), KNOWN.at_ms)])
    writer.close()
    copying.discover()


def gap_of(copying: Copying) -> Gap:
    """Return the one gap there is."""
    (gap,) = copying.state().gaps.values()
    return gap


def values(copying: Copying, source: TopicPartition) -> list[int]:
    """Return the numbers in the copy, in order."""
    return [int((each.value or b"").removeprefix(b"value ")) for each in copying.copies(source)]


def until_stopped(copying: Copying, source: TopicPartition) -> str:
    """Copy until the partition stops, and return why."""

    def stopped() -> PartitionResult:
        return copying.epoch()[source]

    result = wait_until(stopped, "it to stop", timeout_seconds=60, until=lambda each: each.stopped is not None)
    return str(result.stopped)


def two_partitions_copied(new_copying: NewCopying) -> tuple[Copying, dict[TopicPartition, Handover]]:
    """Copy a hundred records of each of two partitions; return what is on record of them, as an engine killed leaves it."""
    copying = new_copying(partitions=2)
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(100))
    copying.until_caught_up()
    return copying, {source: replace(handover, clean=False) for source, handover in copying.handovers.items()}


def test_records_deleted_before_they_were_copied_are_a_gap_and_the_copy_goes_on(new_copying: NewCopying) -> None:
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(100))
    copying.until_caught_up()
    write(copying.flow.source_client, source, range(100, 200))
    delete_before(copying, source, 150)
    copying.until_caught_up()
    gap = gap_of(copying)
    assert (gap.source, gap.start, gap.end, gap.downstream) == (source, 100, 150, 100)
    assert (gap.kind, gap.passed, copying.state().barriers) == (GapKind.RETENTION, True, {})
    assert values(copying, source) == [*range(100), *range(150, 200)]
    known = copying.state().offset_map(source)
    assert known is not None
    assert (known.translate(99), known.translate(120), known.translate(150)) == (Exact(99), Exact(100), Exact(100))


def test_records_deleted_while_no_engine_ran_are_a_gap(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Those that were copied are none."""
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(100))
    copying.until_caught_up()
    new_process()
    delete_before(copying, source, 60)
    copying.from_the_target()
    copying.until_caught_up()
    assert copying.state().gaps == {}
    new_process()
    write(copying.flow.source_client, source, range(100, 200))
    delete_before(copying, source, 150)
    copying.from_the_target()
    copying.until_caught_up()
    gap = gap_of(copying)
    assert (gap.start, gap.end, gap.kind) == (100, 150, GapKind.RETENTION)
    assert values(copying, source) == [*range(100), *range(150, 200)]


def test_what_was_copied_but_not_recorded_before_the_source_removed_it_is_no_gap_and_nothing_of_it_comes_twice(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Killed before it had recorded them, an engine comes back behind the retention: it goes on by itself."""
    copying, recorded = two_partitions_copied(new_copying)
    some, all_of_it = copying.pairs
    client = copying.flow.source_client
    for each in copying.pairs:
        for first in range(100, 200, 20):
            write(client, each, range(first, first + 20))
    copying.until_caught_up()
    for each in copying.pairs:
        write(client, each, range(200, 300))
    delete_before(copying, some, 150)
    delete_before(copying, all_of_it, 220)
    copying.handovers = recorded
    new_process()
    copying.until_caught_up()
    assert values(copying, some) == [*range(300)]
    assert values(copying, all_of_it) == [*range(200), *range(220, 300)]
    gap = gap_of(copying)
    assert (gap.source, gap.end - gap.start, gap.kind, gap.passed) == (all_of_it, 20, GapKind.RETENTION, True)
    known = copying.state().offset_map(all_of_it)
    assert known is not None
    assert known.translate(220) == Exact(200)
    assert known.translate(150) in {Exact(130), Exact(150)}, "never behind what was read"


def test_what_the_target_removed_of_a_copy_before_it_was_recorded_comes_again_and_is_counted(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Killed before it had recorded them, an engine comes back behind DeleteRecords on the copy, or retention there."""
    copying, recorded = two_partitions_copied(new_copying)
    source, idle = copying.pairs
    write(copying.flow.source_client, source, range(100, 150))
    copying.until_caught_up()
    for each in copying.pairs:
        delete_records(copying.flow.target_client, copying.pairs[each], 150 if each == source else 100)
    copying.handovers, copying.flow = recorded, replace(copying.flow, producer=None)
    new_process()
    copying.until_caught_up()
    gap = gap_of(copying)
    assert (gap.source, gap.start, gap.end, gap.kind, gap.passed) == (source, 100, 150, GapKind.COPIED_AGAIN, True)
    assert (values(copying, source), values(copying, idle)) == ([*range(100, 150)], [])


def test_a_strict_copy_stops_at_a_gap_until_it_is_acknowledged(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Also over a restart; the other partition goes on; what is lost meanwhile is the same gap."""
    copying = new_copying(partitions=2)
    copying.stops_at_gaps = True
    source, other = copying.pairs
    for each in copying.pairs:
        write(copying.flow.source_client, each, range(10))
    copying.until_caught_up()
    for each in copying.pairs:
        write(copying.flow.source_client, each, range(10, 40))
    delete_before(copying, source, 20)
    assert "had the offsets 10 to 19 of" in until_stopped(copying, source)
    copying.until_caught_up([other])
    gap = gap_of(copying)
    assert (gap.start, gap.end, gap.passed) == (10, 20, False)
    new_process()
    copying.from_the_target()
    delete_before(copying, source, 25)
    assert "--acknowledge" in until_stopped(copying, source)
    assert gap_of(copying) == gap
    assert values(copying, source) == [*range(10)]
    acknowledge(copying, gap)
    copying.until_caught_up()
    passed = gap_of(copying)
    assert (passed.key, passed.end, passed.passed) == (gap.key, 25, True)
    assert values(copying, source) == [*range(10), *range(25, 40)]
    assert values(copying, other) == [*range(40)]


def test_a_topic_created_anew_under_a_running_copy_is_noticed_before_anything_of_it_is_copied(
    new_copying: NewCopying, east: Cluster
) -> None:
    """The fetch that waits is refused when the topic goes; who leads it is asked for anew, and that tells the id."""
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(20))
    copying.until_caught_up()
    running = threading.Thread(target=lambda: copying.epoch(8.0))
    running.start()
    create_anew(east, copying.flow.source_client, source.topic)
    write(copying.flow.source_client, source, range(100, 150))
    running.join()
    copying.until_caught_up()
    gap = gap_of(copying)
    assert (gap.start, gap.end, gap.kind) == (20, 20, GapKind.RECREATED)
    assert values(copying, source) == [*range(20), *range(100, 150)]


@pytest.mark.parametrize("count", [5, 50])
def test_a_topic_created_anew_is_copied_from_its_start(
    count: int, new_copying: NewCopying, east: Cluster, new_process: Callable[[], None]
) -> None:
    """Shorter or longer than the old one, while copying or over a restart; MM2's position follows."""
    copying = new_copying("running", "down")
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(20))
    copying.discover()
    copying.until_caught_up()
    running, down = copying.pairs
    pairs, copying.pairs = copying.pairs, {running: copying.pairs[running]}
    create_anew(east, copying.flow.source_client, running.topic)
    write(copying.flow.source_client, running, range(100, 100 + count))
    copying.discover()
    copying.until_caught_up()
    copying.pairs = pairs
    create_anew(east, copying.flow.source_client, down.topic)
    write(copying.flow.source_client, down, range(100, 100 + count))
    new_process()
    copying.from_the_target()
    copying.until_caught_up()
    state = copying.state()
    assert {gap.source for gap in state.gaps.values()} == set(copying.pairs)
    for source in copying.pairs:
        (gap,) = [each for each in state.gaps.values() if each.source == source]
        # Behind what was copied before the restart lies the marker of the takeover.
        begun = 20 if source == running else 21
        assert (gap.start, gap.end, gap.kind, gap.downstream) == (20, 20, GapKind.RECREATED, begun)
        assert values(copying, source) == [*range(20), *range(100, 100 + count)]
        known = state.offset_map(source)
        assert known is not None
        assert [known.translate(each) for each in (0, count - 1, count)] == [
            Exact(begun),
            Exact(begun + count - 1),
            Exact(known.downstream_next),
        ]
        assert known.translate_back(begun) == Exact(0)
    tail = LogTail(copying.flow.target_client, copying.flow.offsets_topic, range(copying.flow.offsets_partitions))
    positions = read_source_positions([(each.key, each.value) for each in tail.poll()], "east")
    tail.close()
    assert positions == dict.fromkeys(copying.pairs, count)


def test_what_was_seen_of_a_topic_but_not_copied_before_it_was_deleted_is_the_gap(
    new_copying: NewCopying, east: Cluster
) -> None:
    copying = new_copying(copy_configs={"orders": {"max.message.bytes": "2000"}})
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    producer = producer_to(copying.flow.source_client)
    producer.produce(source.topic, os.urandom(3000))
    producer.flush()
    until_stopped(copying, source)
    create_anew(east, copying.flow.source_client, source.topic)
    copying.from_the_target()
    write(copying.flow.source_client, source, range(100, 105))
    copying.until_caught_up()
    gap = gap_of(copying)
    assert (gap.start, gap.end, gap.kind) == (10, 11, GapKind.RECREATED)
    assert values(copying, source) == [*range(10), *range(100, 105)]


def test_a_topic_created_anew_stops_a_strict_copy_until_it_is_acknowledged(
    new_copying: NewCopying, east: Cluster
) -> None:
    copying = new_copying()
    copying.stops_at_gaps = True
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(20))
    copying.until_caught_up()
    create_anew(east, copying.flow.source_client, source.topic)
    write(copying.flow.source_client, source, range(100, 105))
    copying.discover()
    assert "was deleted and created anew" in until_stopped(copying, source)
    assert values(copying, source) == [*range(20)]
    acknowledge(copying, gap_of(copying))
    copying.until_caught_up()
    assert values(copying, source) == [*range(20), *range(100, 105)]


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "down"])
def test_a_copy_deleted_and_created_anew_is_made_again_once_somebody_says_so(
    is_running: bool, new_copying: NewCopying, west: Cluster, new_process: Callable[[], None]
) -> None:
    """Nothing goes into the new topic meanwhile that would have to be told apart."""
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(20))
    copying.until_caught_up()
    create_anew(west, copying.flow.target_client, copying.pairs[source].topic)
    if is_running:
        copying.discover()
    else:
        new_process()
        copying.from_the_target()
    write(copying.flow.source_client, source, range(20, 30))
    reason = until_stopped(copying, source)
    assert "was deleted and created anew; 20 copies" in reason
    gap = gap_of(copying)
    assert (gap.start, gap.end, gap.downstream, gap.kind) == (0, 20, 0, GapKind.TARGET_LOST)
    acknowledge(copying, gap)
    copying.until_caught_up()
    assert values(copying, source) == [*range(30)]
    assert_copied(copying)


def test_a_copy_created_anew_that_the_engine_has_not_heard_of_is_found_by_where_it_appends(
    new_copying: NewCopying, west: Cluster
) -> None:
    """What it took before that was noticed stays where it is; everything comes again behind it."""
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(20))
    copying.until_caught_up()
    create_anew(west, copying.flow.target_client, copying.pairs[source].topic)
    write(copying.flow.source_client, source, range(20, 30))
    assert "copies of" in until_stopped(copying, source)
    gaps = {each.kind: each for each in copying.state().gaps.values()}
    twice = gaps.pop(GapKind.COPIED_AGAIN)
    assert (twice.start, twice.end, twice.downstream) == (20, 30, 0)
    (lost,) = gaps.values()
    acknowledge(copying, lost)
    copying.until_caught_up()
    assert values(copying, source) == [*range(20, 30), *range(30)]
    known = copying.state().offset_map(source)
    assert known is not None
    assert known.translate(0) == Exact(10)


def test_a_flow_from_the_end_knows_no_gap_before_its_beginning(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    copying = new_copying(from_latest=True)
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(20))
    copying.epoch()
    delete_before(copying, source, 15)
    copying.epoch()
    write(copying.flow.source_client, source, range(20, 30))
    copying.until_caught_up()
    delete_before(copying, source, 25)
    new_process()
    copying.from_the_target()
    copying.until_caught_up()
    assert copying.state().gaps == {}
    assert values(copying, source) == [*range(20, 30)]


def test_markers_at_the_end_and_aborted_records_are_no_gap_however_often_the_copy_begins_anew(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    copying = new_copying(read_committed=True)
    (source,) = copying.pairs
    producer = confluent_kafka.Producer({**copying.flow.source_client, "transactional.id": source.topic})
    producer.init_transactions(60)
    for turn in range(3):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(source.topic, b"value %d" % (10 * turn + each))
        producer.flush()
        (producer.abort_transaction if turn else producer.commit_transaction)()
        copying.until_caught_up()
        delete_before(copying, source, ends_of(copying.flow.source_client, [source])[source] - turn)
        new_process()
        copying.from_the_target()
        copying.until_caught_up()
    assert copying.state().gaps == {}
    assert values(copying, source) == [*range(5)]


def test_a_leader_of_another_epoch_than_was_told_is_asked_again(
    new_copying: NewCopying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata may be older or newer than the broker's: neither is a gap, or an end of the copy."""
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10))
    told = iter([7, 3])
    real = Metadata.leader_epoch
    monkeypatch.setattr(Metadata, "leader_epoch", lambda known, partition: next(told, real(known, partition)))
    copying.until_caught_up()
    assert next(told, None) is None
    assert (values(copying, source), copying.state().gaps) == ([*range(10)], {})


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.LabCluster]:
    """Brokers of this module's own, to be killed: whichever one is away, the others can elect."""
    directory = tmp_path_factory.mktemp("north")
    yield clusters.up(directory, ["north"], brokers=3, owner_pid=os.getpid()).clusters["north"]
    clusters.down(directory, discard_data=True)


@pytest.fixture
def north(three_brokers: clusters.LabCluster) -> Iterator[clusters.LabCluster]:
    """Whichever of them a test has killed are started again behind it."""
    yield three_brokers
    for broker in three_brokers.brokers:
        if not broker.is_alive():
            broker.start()


@pytest.mark.soak
def test_what_an_unclean_election_replaced_is_known_however_long_the_log_has_grown_since(
    north: clusters.LabCluster,
    new_copying: NewCopying,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
) -> None:
    """While copying and over a restart: the copy keeps what the old leader had, and takes all that the new one has."""
    client = {"bootstrap.servers": north.bootstrap_servers}
    with Cluster.connect(ClusterSettings("north", client)) as cluster:
        running, down, strict = (
            new_copying(source=cluster, clients=(client, dict(settings_of("west").client)), offset_lag_max=1)
            for _ in range(3)
        )
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "retention.ms": "-1"}
    copies = (running, down, strict)
    admin = AdminClient(client)
    strict.stops_at_gaps = True
    for copying in copies:
        # The same names would do, but for their replicas: none on the broker that stays.
        (old,) = copying.pairs
        name = unique("assigned")
        created = admin.create_topics([AssignedTopic(name, 1, replica_assignment=[[2, 3]], config=config)])
        for done in created.values():
            done.result(20)
        copying.pairs = {TopicPartition(name, 0): copying.pairs[old]}
    sources = [source for copying in copies for source in copying.pairs]
    _, second, third = north.brokers
    wait_until(lambda: all(led_by(client, each, 2, 2) for each in sources), "the topics", timeout_seconds=60)
    for copying, source in zip(copies, sources, strict=True):
        write(client, source, range(100), acks="all")
        copying.until_caught_up()
    third.kill()
    wait_until(lambda: all(led_by(client, each, 2, 1) for each in sources), "the leader alone", timeout_seconds=60)
    for copying, source in zip(copies, sources, strict=True):
        write(client, source, range(100, 150), acks="all")
        copying.until_caught_up()
        assert copying.state().gaps == {}
    second.kill()
    third.start()
    wait_until(lambda: all(led_by(client, each, 3, 1) for each in sources), "the other leader", timeout_seconds=60)
    for source in sources:
        write(client, source, range(1000, 1120), acks="all")
    forget_all()
    down.from_the_target()
    for copying in (running, down):
        (source,) = copying.pairs
        copying.until_caught_up()
        gap = gap_of(copying)
        assert (gap.start, gap.end, gap.kind, gap.downstream) == (100, 150, GapKind.TRUNCATED, 150)
        assert values(copying, source) == [*range(150), *range(1000, 1120)]
        known = copying.state().offset_map(source)
        assert known is not None
        # Behind a takeover the marker of its fence lies before what the new leader has.
        offset_of = {int((each.value or b"").removeprefix(b"value ")): each.offset for each in copying.copies(source)}
        assert [known.translate(each) for each in (99, 100, 219, 220)] == [
            Exact(offset_of[99]),
            Exact(offset_of[1000]),
            Exact(offset_of[1119]),
            Exact(offset_of[1119] + 1),
        ]
        assert known.translate_back(120) == Exact(100)
    (source,) = strict.pairs
    assert "was truncated at offset 100 after it had been copied up to 150" in until_stopped(strict, source)
    assert values(strict, source) == [*range(150)]
    acknowledge(strict, gap_of(strict))
    strict.until_caught_up()
    assert values(strict, source) == [*range(150), *range(1000, 1120)]


@pytest.mark.soak
def test_who_follows_a_topic_is_told_what_an_unclean_election_replaced_however_long_it_has_grown_since(
    north: clusters.LabCluster, unique: Unique
) -> None:
    """As of a state topic: what the other leader lacks was taken for there, and what it has instead passed by."""
    client = {"bootstrap.servers": north.bootstrap_servers}
    topic = TopicPartition(unique("state"), 0)
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "cleanup.policy": "compact"}
    admin = AdminClient(client)
    created = admin.create_topics([AssignedTopic(topic.topic, 1, replica_assignment=[[2, 3]], config=config)])
    created[topic.topic].result(20)
    _, second, third = north.brokers

    def until_led(node: int, in_sync: int) -> None:
        wait_until(lambda: led_by(client, topic, node, in_sync), "the leader", timeout_seconds=60)

    with closing(LogTail(client, topic.topic)) as tail:

        def polled() -> list[Record] | None:
            try:
                return tail.poll()
            except ConnectionFailed:
                return None

        until_led(2, 2)
        write(client, topic, range(10), acks="all")
        assert len(tail.poll()) == 10
        third.kill()
        until_led(2, 1)
        write(client, topic, range(10, 15), acks="all")
        assert (len(tail.poll()), tail.loss) == (5, None)
        second.kill()
        third.start()
        until_led(3, 1)
        write(client, topic, range(1000, 1020), acks="all")
        known = wait_until(polled, "the other leader to be asked", timeout_seconds=60)
        found = [int((each.value or b"").removeprefix(b"value ")) for each in known or ()]
        assert found == [*range(10), *range(1000, 1020)]
        assert "was truncated at offset 10 at the latest" in str(tail.loss)
        tail.loss = None
        write(client, topic, range(1020, 1023), acks="all")
        assert (len(tail.poll()), tail.loss) == (3, None)


@pytest.mark.soak
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "taken over"])
def test_copies_that_an_unclean_election_on_the_target_replaced_are_a_gap_to_the_record(
    is_running: bool,
    north: clusters.LabCluster,
    new_copying: NewCopying,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
) -> None:
    """The marker of a takeover takes the place of a copy before anybody looks where the log ends."""
    client = {"bootstrap.servers": north.bootstrap_servers}
    with Cluster.connect(ClusterSettings("north", client)) as cluster:
        copying = new_copying(target=cluster, clients=(dict(settings_of("east").client), client), offset_lag_max=1)
    (source,) = copying.pairs
    copy_to_the_second_and_third(copying, client, unique)
    _, second, third = north.brokers
    target = copying.pairs[source]
    wait_until(lambda: led_by(client, target, 2, 2), "the copy", timeout_seconds=60)
    write(copying.flow.source_client, source, range(100))
    copying.until_caught_up()
    third.kill()
    wait_until(lambda: led_by(client, target, 2, 1), "the leader alone", timeout_seconds=60)
    write(copying.flow.source_client, source, range(100, 150))
    copying.until_caught_up()
    second.kill()
    third.start()
    wait_until(lambda: led_by(client, target, 3, 1), "the other leader", timeout_seconds=60)
    if not is_running:
        forget_all()
        copying.from_the_target()
    write(copying.flow.source_client, source, range(150, 160))
    assert "ended at offset 100, before the position 150 recorded for it" in until_stopped(copying, source)
    gap = gap_of(copying)
    assert (gap.start, gap.end, gap.downstream, gap.kind) == (100, 150, 100, GapKind.TARGET_LOST)
    acknowledge(copying, gap)
    copying.until_caught_up()
    assert values(copying, source) == [*range(160)]
