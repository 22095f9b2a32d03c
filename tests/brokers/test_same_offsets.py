"""What a plain broker allows a copy that is to have the source's offsets: filled heads and holes, each append once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mirror.config.settings import ClusterSettings
from mirror.copier.same_offsets import ForeignWrite, Markers, SameOffsetsCopy, leave_many, leave_one
from mirror.kafka import codes, coordinator, partition_state
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Producer, Record, encode
from mirror.kafka.channel import EARLIEST, LATEST, View
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.kafka.log import read_records
from mirror.kafka.wire import NO_APPEND_TIME
from mirror.lab.clusters import LabCluster
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets import fillers
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.filling import FILLERS_A_BATCH
from tests.brokers.same_offsets_killed import assert_same_offsets_whatever_is_killed

OURS = producer_of(Flow("east", "west"))
NOW = 1_700_000_000_000
START = FILLERS_A_BATCH + 17


@pytest.fixture
def appender(settings_of: Callable[[str], ClusterSettings]) -> Iterator[Appender]:
    with Appender("west", settings_of("west").client) as made:
        yield made


@pytest.fixture
def partition(west: Cluster, unique: Callable[[str], str]) -> TopicPartition:
    name = unique("same")
    (result,) = west.create_topics([NewTopic(name, 1, 1, {"retention.ms": "-1"})])
    assert result.problem is None
    return TopicPartition(name, 0)


def records(first: int, count: int, sequence: int) -> memoryview:
    """A batch as a source has it, of records that say at which offset they belong."""
    content = [Record(each, NOW, b"k", b"%d" % each, (), -1) for each in range(first, first + count)]
    return encode(content, 0, OURS, sequence)


def bounds(appender: Appender, partition: TopicPartition) -> tuple[int, int]:
    start, end = (appender.channel.offsets([partition], at)[partition] for at in (EARLIEST, LATEST))
    return start, end


def read(appender: Appender, client: dict[str, str], partition: TopicPartition) -> dict[int, bytes | None]:
    start, end = bounds(appender, partition)
    return {each.offset: each.value for each in read_records(client, partition, start, end)}


def test_a_padded_head_is_removed_and_the_next_record_gets_the_source_s_offset(
    appender: Appender, partition: TopicPartition, settings_of: Callable[[str], ClusterSettings]
) -> None:
    head = fillers.padding(FILLERS_A_BATCH, OURS, 0, NOW)
    assert appender.append(partition, head)[:2] == (0, 0)
    rest = fillers.padding(17, OURS, FILLERS_A_BATCH, NOW)
    assert appender.append(partition, rest)[:2] == (0, FILLERS_A_BATCH)
    assert appender.delete_before(partition, START) == START
    assert bounds(appender, partition) == (START, START)
    # The broker knows the producer all the same: what comes twice is told where it is, or refused.
    assert appender.append(partition, head)[:2] == (0, 0)
    assert appender.append(partition, records(0, 2, 0)).code == codes.OUT_OF_ORDER_SEQUENCE
    assert bounds(appender, partition) == (START, START)
    assert appender.append(partition, records(START, 2, START))[:2] == (0, START)
    client = dict(settings_of("west").client)
    assert read(appender, client, partition) == {START: b"%d" % START, START + 1: b"%d" % (START + 1)}


def test_a_late_batch_is_the_next_one_or_refused_whatever_its_size(
    appender: Appender, partition: TopicPartition
) -> None:
    """Who takes over goes on as the same producer in the same epoch: of two engines' batches one is appended."""
    assert appender.append(partition, records(0, 10, 0)).code == 0
    # The first that comes wins; the other engine had cut its batches otherwise.
    assert appender.append(partition, records(10, 3, 10))[:2] == (0, 10)
    assert appender.append(partition, records(10, 8, 10)).code == codes.OUT_OF_ORDER_SEQUENCE
    assert appender.append(partition, records(13, 5, 13))[:2] == (0, 13)
    # The same batch again is not appended again; the broker says where it is.
    assert appender.append(partition, records(13, 5, 13))[:2] == (0, 13)
    assert bounds(appender, partition) == (0, 18)


def take_id(appender: Appender, transactional_id: str) -> Producer:
    return coordinator.take_over(appender.channel, transactional_id, 60_000, writes_transactions=False)


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
def test_a_leader_tells_that_it_had_a_batch_before_by_the_time_of_that(
    appender: Appender, west: Cluster, unique: Callable[[str], str], times: str
) -> None:
    """So what came late behind a marker, and took the place of the next record, is not taken for that record."""
    partition = TopicPartition(unique("same"), 0)
    west.create_topics([NewTopic(partition.topic, 1, 1, {"retention.ms": "-1", "message.timestamp.type": times})])
    first = appender.append(partition, records(0, 1, 0))
    late = encode([Record(1, NOW - 1, b"k", b"late", (), -1)], 0, OURS, 1)
    assert appender.append(partition, late).code == 0
    answer = appender.append(partition, records(1, 1, 1))
    assert (answer.code, answer.base_offset) == (0, 1)
    if times == "CreateTime":
        assert (first.appended_at, answer.appended_at) == (NO_APPEND_TIME, NOW - 1)
    else:
        assert first.appended_at > NOW


def test_markers_fill_a_hole_and_what_is_late_of_them_is_refused_behind_an_empty_transaction(
    appender: Appender,
    partition: TopicPartition,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
) -> None:
    """Many at once come twice if they are sent twice; the coordinator's one, of the next epoch, closes the hole."""
    assert appender.may_write_markers()
    name = unique("markers")
    before, now = take_id(appender, name), take_id(appender, name)
    assert now == Producer(before.producer_id, before.epoch + 1)
    assert appender.append(partition, records(0, 2, 0)).code == 0
    assert appender.write_markers({partition: 300}, before) == {partition: 0}
    assert bounds(appender, partition) == (0, 302)
    assert appender.write_markers({partition: 1}, before) == {partition: 0}
    assert bounds(appender, partition) == (0, 303)
    assert coordinator.abort_empty(appender.channel, name, now, [partition]) == {}
    assert bounds(appender, partition) == (0, 304)
    assert appender.write_markers({partition: 300}, before) == {partition: codes.INVALID_PRODUCER_EPOCH}
    # Markers take no sequence: the records go on as if there were none.
    assert appender.append(partition, records(304, 1, 2))[:2] == (0, 304)
    client = dict(settings_of("west").client)
    assert read(appender, client, partition) == {0: b"0", 1: b"1", 304: b"304"}
    stable = appender.channel.offsets([partition], LATEST, View.STABLE)[partition]
    assert stable == 305
    found = partition_state.active_producers(appender.channel, [partition])
    assert found.problems == {}
    assert {(each.producer_id, each.epoch, each.last_sequence) for each in found[partition]} == {
        (OURS.producer_id, 0, 2),
        (now.producer_id, now.epoch, -1),
    }


def test_a_compacted_copy_takes_tombstones_of_the_reserved_key_and_no_records_without_one(
    west: Cluster, appender: Appender, unique: Callable[[str], str]
) -> None:
    name = unique("same")
    (result,) = west.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})])
    assert result.problem is None
    partition = TopicPartition(name, 0)
    assert appender.append(partition, fillers.padding(10, OURS, 0, NOW)).code == 87
    assert appender.append(partition, fillers.tombstones(FILLERS_A_BATCH, OURS, 0, NOW))[:2] == (0, 0)
    assert appender.append(partition, records(FILLERS_A_BATCH, 2, FILLERS_A_BATCH))[:2] == (0, FILLERS_A_BATCH)


def test_what_somebody_else_writes_into_the_copy_is_noticed_by_the_next_offset(
    appender: Appender, partition: TopicPartition, unique: Callable[[str], str]
) -> None:
    """It shifts what follows: the copy is named, and nothing more is appended to it."""
    flow = Flow(unique("flow"), "west")
    markers = Markers(flow, appender.channel, writes_many=False)
    copy = SameOffsetsCopy(producer_of(flow), appender, markers, partition, is_compacted=False)
    assert (copy.place.copy.bounds.end, copy.place.sequence) == (0, 0)
    copy.append(encode([Record(0, NOW, b"k", b"0", (), -1)], 0, copy.producer, 0), 1)
    assert appender.append(partition, encode([Record(0, NOW, b"k", b"foreign", (), -1)], 0)).base_offset == 1
    with pytest.raises(ForeignWrite, match=f"{partition} goes on at offset 2, and its source at 1"):
        copy.append(encode([Record(1, NOW, b"k", b"1", (), -1)], 0, copy.producer, 1), 1)


@pytest.mark.parametrize("is_later", [False, True])
def test_what_was_sent_to_a_former_topic_of_the_copy_s_name_is_refused_whichever_epoch_is_the_later_one(
    appender: Appender, partition: TopicPartition, is_later: bool
) -> None:
    """The epoch follows from the topic's id: in that of the copy that was made anew the sequence would be the next."""
    earlier, later = sorted((producer_of(Flow("east", "west"), each) for each in ("one", "another")), key=epoch)
    former, now = (later, earlier) if is_later else (earlier, later)
    for sequence in range(2):
        assert appender.append(partition, encode([Record(0, NOW, b"k", b"", (), -1)], 0, now, sequence)).code == 0
    late = appender.append(partition, encode([Record(0, NOW, b"k", b"of the former", (), -1)], 0, former, 2))
    assert late.code in codes.SEQUENCE_ERRORS
    assert appender.append(partition, encode([Record(0, NOW, b"k", b"", (), -1)], 0, now, 2))[:2] == (0, 2)


def epoch(producer: Producer) -> int:
    return producer.epoch


@pytest.mark.parametrize(
    ("read_committed", "writes_many", "policy"),
    [(False, True, "delete"), (True, True, "delete"), (True, False, "delete"), (True, True, "compact")],
)
@pytest.mark.long
def test_a_copier_that_is_killed_behind_any_request_leaves_every_record_once_at_the_source_s_offset(
    east: Cluster,
    west: Cluster,
    unique: Callable[[str], str],
    read_committed: bool,
    writes_many: bool,
    policy: str,
) -> None:
    """In the middle of padding, behind DeleteRecords, between marker and batch: whoever is next finds its place."""
    assert_same_offsets_whatever_is_killed(
        east, west, unique("orders"), policy=policy, read_committed=read_committed, writes_many=writes_many
    )


@pytest.mark.long
def test_many_markers_are_written_behind_one_of_a_coordinator_that_was_started_anew(
    mortal: LabCluster, unique: Callable[[str], str]
) -> None:
    """Its marker has a later epoch of the coordinator, and brokers refuse those of the earlier one behind it."""
    client, flow = {"bootstrap.servers": mortal.bootstrap_servers}, Flow(unique("flow"), "mortal")
    copied = TopicPartition("copy", 0)
    with Cluster.connect(ClusterSettings("mortal", client)) as cluster:
        cluster.create_topics([NewTopic(copied.topic, 1, 1)])
    with Appender("mortal", client) as appender:
        Markers(flow, appender.channel, writes_many=True)
    mortal.kill()
    mortal.start()
    with Appender("mortal", client) as appender:
        markers = Markers(flow, appender.channel, writes_many=True)
        copy = SameOffsetsCopy(producer_of(flow), appender, markers, copied, is_compacted=False)
        assert leave_one(appender, markers, [copy]) == {}
        markers.raise_epoch()
        # Refused, which says how to ask.
        assert leave_many(appender, markers, {copy: 10}) == {}
        assert (copy.place.copy.bounds.end, copy.place.copy.may_get_markers) == (1, True)
        assert leave_many(appender, markers, {copy: 10}) == {}
        assert (copy.place.copy.bounds.end, copy.place.copy.may_get_markers) == (11, False)
        assert leave_one(appender, markers, [copy]) == {}
        assert bounds(appender, copied) == (0, 12)
