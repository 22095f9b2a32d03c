"""With ``client.rack`` the source is read from the closest replica (KIP-392), and what that says is not the last word."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as AssignedTopic

from mirror.config.fetching import FetchLimits
from mirror.config.settings import ClusterSettings
from mirror.copier.fetcher import Fetcher
from mirror.kafka import codes
from mirror.kafka.cluster import Cluster
from mirror.kafka.wire import FetchedPartition
from mirror.lab import clusters
from mirror.model.leader_epochs import EpochEnd
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying, Unique, assert_copied, can_tell, write

RECORDS = 2000
Spoil = Callable[[memoryview, FetchedPartition], FetchedPartition]
LEADER, FOLLOWER = "east, broker 1", "east, broker 2"


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.LabCluster]:
    """Two brokers in racks of their own; the second, which has no vote, is killed."""
    directory = tmp_path_factory.mktemp("racks")
    yield clusters.up(directory, ["racks"], brokers=2, owner_pid=os.getpid()).clusters["racks"]
    clusters.down(directory, discard_data=True)


@pytest.fixture
def copying(
    racks: clusters.LabCluster,
    new_copying: NewCopying,
    settings_of: Callable[[str], ClusterSettings],
    unique: Unique,
    new_process: Callable[[], None],
) -> Copying:
    """A topic that broker 1 leads and broker 2 follows, to be copied by who is where broker 2 is."""
    new_process()
    client = {"bootstrap.servers": racks.bootstrap_servers}
    with Cluster.connect(ClusterSettings("racks", client)) as cluster:
        made = new_copying(source=cluster, clients=(client, dict(settings_of("west").client)))
    ((_, copy),) = made.pairs.items()
    name = unique("assigned")
    admin = AdminClient(client)
    for done in admin.create_topics([AssignedTopic(name, 1, replica_assignment=[[1, 2]])]).values():
        done.result(20)
    source = TopicPartition(name, 0)
    wait_until(lambda: can_tell(client, [source]), "the topic", timeout_seconds=60)
    made.pairs = {source: copy}
    # Broker 2 leads nothing that is written to.
    made.flow = replace(made.flow, fetch_limits=FetchLimits(rack="rack-2"), syncs_topic=None)
    return made


class Answers:
    """What came in from each broker, in bytes; ``spoil`` alters what the follower says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes: Counter[str] = Counter()
        self.spoil: Spoil = lambda _, part: part
        real = Fetcher.receive

        def receive(fetcher: Fetcher) -> tuple[memoryview, list[FetchedPartition]] | None:
            answer = real(fetcher)
            if answer is None:
                return None
            frame, parts = answer
            self.bytes[fetcher.connection.name] += sum(part.stop - part.start for part in parts)
            if fetcher.connection.name == FOLLOWER:
                parts = [self.spoil(frame, part) for part in parts]
            return frame, parts

        monkeypatch.setattr(Fetcher, "receive", receive)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(monkeypatch)


def fill(copying: Copying, first: int = 0) -> None:
    """Append records, and wait until both replicas have them."""
    (source,) = copying.pairs
    numbers = range(first, first + RECORDS)
    write(copying.flow.source_client, source, numbers, acks="all", batch_num_messages=100)


@pytest.mark.long
def test_all_bytes_come_from_the_replica_in_the_rack(copying: Copying, answers: Answers) -> None:
    fill(copying)
    copying.until_caught_up()
    assert_copied(copying)
    assert answers.bytes[LEADER] == 0
    assert answers.bytes[FOLLOWER] > 10 * RECORDS


def test_without_a_rack_only_leaders_are_read(copying: Copying, answers: Answers) -> None:
    copying.flow = replace(copying.flow, fetch_limits=FetchLimits())
    fill(copying)
    copying.until_caught_up()
    assert_copied(copying)
    assert (answers.bytes[LEADER] > 10 * RECORDS, FOLLOWER in answers.bytes) == (True, False)


def out_of_range(_frame: memoryview, part: FetchedPartition) -> FetchedPartition:
    return part._replace(error=codes.OFFSET_OUT_OF_RANGE, stop=part.start)


def diverging(_frame: memoryview, part: FetchedPartition) -> FetchedPartition:
    return part._replace(diverging=EpochEnd(0, 5), stop=part.start)


def fenced(_frame: memoryview, part: FetchedPartition) -> FetchedPartition:
    fenced_leader_epoch = 74
    return part._replace(error=fenced_leader_epoch, stop=part.start)


def damaged(frame: memoryview, part: FetchedPartition) -> FetchedPartition:
    if part.stop > part.start:
        frame[part.stop - 1] ^= 0xFF
    return part


@pytest.mark.parametrize("spoil", [out_of_range, diverging, fenced, damaged])
def test_what_a_follower_refuses_is_decided_by_the_leader(spoil: Spoil, copying: Copying, answers: Answers) -> None:
    fill(copying)
    copying.until_caught_up()
    assert answers.bytes[LEADER] == 0
    answers.spoil = spoil
    fill(copying, RECORDS)
    copying.until_caught_up()
    assert_copied(copying)
    assert copying.state().gaps == {}
    assert copying.stopped == set()
    assert answers.bytes[LEADER] > 0


def test_when_the_follower_is_killed_the_leader_is_read_on(
    racks: clusters.LabCluster, copying: Copying, answers: Answers
) -> None:
    """In the middle of the copy; the leader names it until its session is over."""
    copying.flow = replace(copying.flow, fetch_limits=FetchLimits(partition_bytes=5000, rack="rack-2"))
    fill(copying)

    def kill(_frame: memoryview, part: FetchedPartition) -> FetchedPartition:
        racks.brokers[1].kill()
        return part

    answers.spoil = kill
    (result,) = copying.epochs_until("all records", lambda found: found.handover.position.upstream == RECORDS).values()
    assert (result.trouble, result.stopped) == (None, None)
    assert_copied(copying)
    assert copying.state().gaps == {}
    assert min(answers.bytes[LEADER], answers.bytes[FOLLOWER]) > 0
    assert (result.leader_alone or "").startswith(FOLLOWER)
