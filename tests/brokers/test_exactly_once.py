"""A flow in transactions: every record once for readers of committed data, whoever dies, freezes or comes back when."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror.config.settings import ClusterSettings
from mirror.control.foreign_records import find_foreign
from mirror.copier.work import FlowWork, PartitionResult
from mirror.kafka import coordinator
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import read_batches
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.lab import clusters, processes
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.waiting import WaitTimeout, wait_until
from tests.brokers.copying import Copying, as_program, assert_translated, can_tell, contents, ends_of, write
from tests.brokers.in_transactions import InTransactions
from tests.flows import EAST_WEST
from tests.worker_process import forget_all

NewCopying = Callable[..., InTransactions]


@pytest.fixture
def new_copying(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> Iterator[NewCopying]:
    """Make topics, their copies, and the side topics of a flow of their own."""

    def make(
        partitions: int = 1, target: Cluster = west, target_client: dict[str, str] | None = None, **more: Any
    ) -> InTransactions:
        name = unique("orders")
        state, offsets, syncs = unique("mm2-state"), unique("mm2-offsets"), unique("mm2-offset-syncs")
        compact = {"cleanup.policy": "compact"}
        created = [
            *east.create_topics([NewTopic(name, partitions, 1), NewTopic(syncs, 1, 1)]),
            *target.create_topics(
                [
                    NewTopic(f"east.{name}", partitions, 1),
                    NewTopic(state, 1, 1, compact),
                    NewTopic(offsets, 3, 1, compact),
                ]
            ),
        ]
        assert [result.problem for result in created if result.problem] == []
        work = FlowWork(
            flow=EAST_WEST,
            source_client=dict(settings_of("east").client),
            target_client=target_client or dict(settings_of("west").client),
            state_topic=state,
            offsets_topic=offsets,
            offsets_partitions=3,
            syncs_topic=syncs,
            syncs_on_source=True,
            offset_lag_max=100,
            read_committed=False,
            from_latest=False,
            writers=frozenset(),
        )
        pairs = {TopicPartition(name, number): TopicPartition(f"east.{name}", number) for number in range(partitions)}
        # A partition just created has a leader before that leader knows of it.
        side = [TopicPartition(state, 0), *(TopicPartition(offsets, number) for number in range(3))]
        for client, asked in ((work.source_client, list(pairs)), (work.target_client, [*pairs.values(), *side])):
            wait_until(lambda client=client, asked=asked: can_tell(client, asked), "the topics", timeout_seconds=60)  # type: ignore[misc]
        made.append(InTransactions(work, pairs, prefix=f"{name}-MirrorSourceConnector-", **more))
        return made[-1]

    made: list[InTransactions] = []
    yield make
    for each in made:
        each.close()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """A worker process takes its connections with it; this one goes on."""
    yield
    forget_all()


def assert_copied(copying: InTransactions) -> None:
    """Committed readers find every record once, in order; positions are those of the records, translated exactly."""
    state, mm2 = copying.state(), copying.mm2_positions()
    for source in copying.pairs:
        originals, copies = copying.originals(source), copying.copies(source)
        assert contents(copies) == contents(originals)
        known = state.offset_map(source)
        assert known is not None
        assert_translated(known, originals, copies)
        (end,) = ends_of(copying.flow.source_client, [source]).values()
        assert known.upstream_next == mm2[source] == end


def test_records_and_positions_are_committed_together_over_epochs_and_engines(new_copying: NewCopying) -> None:
    """Markers take offsets on the target (EOS-09); sequences go on from epoch to epoch, and begin anew with an engine."""
    copying = new_copying(2)
    for turn in range(3):
        if turn:
            copying.restart()
            forget_all()
        for part in range(2):
            for source in copying.pairs:
                first = 100 * turn + 50 * part
                write(copying.flow.source_client, source, range(first, first + 50))
            copying.until_caught_up()
        assert_copied(copying)
    channel = Channel("west", copying.flow.target_client)
    for target in copying.pairs.values():
        (end,) = channel.offsets([target], -1).values()
        headers = [header for _, header in read_batches(channel, target, 0, end)]
        assert all(header.is_transactional for header in headers)
        assert len({(header.producer_id, header.producer_epoch) for header in headers}) == 3
        assert end > 300
    channel.close()
    assert copying.state().transactional_ids == {f"{copying.prefix}0"}
    tail = LogTail(copying.flow.source_client, copying.flow.syncs_topic or "")
    syncs = [sync for each in tail.poll() if (sync := OffsetSync.parse(each.key, each.value))]
    tail.close()
    known = copying.state()
    for source in copying.pairs:
        own = [sync for sync in syncs if sync.topic_partition == source]
        assert own[-1].upstream == 299
        offset_map = known.offset_map(source)
        assert offset_map is not None
        assert all(offset_map.translate(sync.upstream) == Exact(sync.downstream) for sync in own)


def test_a_single_offset_between_batches_is_somebody_elses_record_or_a_marker_as_the_log_tells(
    new_copying: NewCopying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an engine begins behind its marker, one record of a stranger takes as many offsets as a marker would."""
    copying = new_copying()
    copying.is_watched = True
    ((source, target),) = copying.pairs.items()
    client = copying.flow.target_client
    met: list[tuple[int, int]] = []
    copy_on = copying.copy_on

    def noting(seconds: float, epoch_channel: tuple[str, int] | None = None) -> dict[TopicPartition, PartitionResult]:
        results = copy_on(seconds, epoch_channel)
        met.extend(stretch for each in results.values() for stretch in each.foreign)
        return results

    monkeypatch.setattr(copying, "copy_on", noting)

    def strangers() -> list[tuple[int, int]]:
        with closing(Channel("west", client)) as channel:
            return [
                (each.first, each.end)
                for stretch in met
                for each in find_foreign(channel, target, stretch, frozenset(copying.flow.writers), {}, 5).values()
            ]

    for turn in range(2):
        write(copying.flow.source_client, source, range(5 * turn, 5 * turn + 5))
        copying.until_caught_up()
    assert strangers() == [], "between the commits of one engine lie markers alone"
    copying.restart()
    forget_all()
    copying.until_caught_up()
    (end,) = ends_of(client, [target]).values()
    assert copying.handovers[source].position.downstream == end
    write(client, target, [1_000])
    write(copying.flow.source_client, source, range(10, 15))
    copying.until_caught_up()
    assert strangers() == [(end, end + 1)]


def test_a_frozen_task_adds_nothing_and_what_it_had_begun_leaves_neither_records_nor_positions(
    new_copying: NewCopying,
) -> None:
    """The successor reads positions when nothing can be added to them any more; the predecessor gives up for good."""
    old = new_copying(seconds=20.0, idle_seconds=None)
    (source,) = old.pairs
    client = old.flow.source_client
    write(client, source, range(10))
    # The end of an epoch ends the transaction early: these are committed.
    old.until_caught_up()
    assert_copied(old)
    write(client, source, range(10, 20))
    left: list[Any] = []
    task = threading.Thread(target=lambda: left.append(old.epoch(6.0)))
    task.start()
    end = {old.pairs[source]: 11}
    wait_until(
        lambda: ends_of(old.flow.target_client, list(end)),
        "an open transaction",
        timeout_seconds=60,
        until=lambda now: now[old.pairs[source]] > 11,
    )
    new = InTransactions(replace(old.flow, slot=None), old.pairs, prefix=old.prefix)
    new.take()
    assert len(new.copies(source)) == 10
    assert new.handovers[source].position.upstream == new.mm2_positions()[source] == 10
    write(client, source, range(20, 30))
    task.join()
    new.until_caught_up()
    assert_copied(new)
    (result,) = left[0].values()
    assert result.trouble is not None
    assert (result.handover.position.upstream, result.records) == (10, 0)
    write(client, source, range(30, 40))
    new.until_caught_up()
    assert_copied(new)
    new.close()


def test_an_engine_that_takes_ids_over_before_it_looks_hands_them_back(new_copying: NewCopying) -> None:
    """Thawed in the middle of taking over, it fences its successor once; that one goes on, and nothing is there twice."""
    new = new_copying()
    (source,) = new.pairs
    client = new.flow.source_client
    write(client, source, range(10))
    new.until_caught_up()
    channel = Channel("west", new.flow.target_client)
    coordinator.take_over(channel, f"{new.prefix}0", 60_000)
    channel.close()
    write(client, source, range(10, 20))
    trouble = new.epoch()[source].trouble
    assert trouble is not None
    assert "ProducerEpoch" in trouble or "Fenced" in trouble
    new.until_caught_up()
    assert_copied(new)


def told(copying: InTransactions, **more: Any) -> str:
    """What a program that copies the same flow must be told."""
    flow = {
        name: value
        for name, value in dataclasses.asdict(copying.flow).items()
        if name not in ("flow", "writers", "slot")
    }
    return json.dumps({"flow": flow, "pairs": list(copying.pairs.items()), **more})


@pytest.fixture
def load() -> Iterator[Callable[[InTransactions], threading.Event]]:
    """Write to all partitions of a flow until the event is set."""
    events: list[tuple[threading.Event, threading.Thread]] = []

    def begin(copying: InTransactions) -> threading.Event:
        over = threading.Event()

        def write_on() -> None:
            producer = Producer({**copying.flow.source_client, "compression.type": "lz4", "linger.ms": 2})
            number = 0
            while not over.is_set():
                for source in copying.pairs:
                    producer.produce(source.topic, b"value %d " % number + b"x" * 200, b"%d" % number, source.partition)
                number += 1
                producer.poll(0.002)
            producer.flush()

        thread = threading.Thread(target=write_on)
        thread.start()
        events.append((over, thread))
        return over

    yield begin
    for over, thread in events:
        over.set()
        thread.join()


def written(copying: InTransactions) -> int:
    """How far the copies go, aborted records and markers included."""
    return sum(ends_of(copying.flow.target_client, list(copying.pairs.values())).values())


def until_written(copying: InTransactions, enough: int, process: processes.ManagedProcess) -> None:
    """Wait until so much is written by a process, which goes on."""
    try:
        wait_until(
            lambda: written(copying) >= enough or not process.is_alive(),
            "records to be copied",
            timeout_seconds=60,
            longest_pause_seconds=0.02,
        )
    except WaitTimeout as stuck:
        raise AssertionError(f"{stuck}; the process said: {process.log_tail()}") from stuck
    assert process.is_alive(), process.log_tail()


def test_killed_at_any_moment_under_load_every_record_is_committed_once(
    new_copying: NewCopying, load: Callable[[InTransactions], threading.Event], tmp_path: Path
) -> None:
    """``kill -9`` when a random number of records has been written; readers of everything may see aborted ones."""
    seed = random.Random(618)
    copying = new_copying(3)
    over = load(copying)
    argv = [sys.executable, "-m", "tests.brokers.in_transactions", told(copying, prefix=copying.prefix)]
    for turn in range(4):
        enough = written(copying) + seed.randint(100, 1500)
        process = processes.start(tmp_path, f"copy-{turn}", argv, owner_pid=os.getpid())
        until_written(copying, enough, process)
        process.kill()
    over.set()
    copying.until_caught_up()
    assert_copied(copying)


@pytest.mark.long
def test_a_flow_goes_from_the_default_mode_to_transactions_and_back(
    new_copying: NewCopying, load: Callable[[InTransactions], threading.Event], tmp_path: Path
) -> None:
    """What was acknowledged and not recorded is matched first; what was aborted is no copy; both by ``kill -9``."""
    copying = new_copying(2)
    over = load(copying)
    plain = as_program(copying)
    transactional = [sys.executable, "-m", "tests.brokers.in_transactions", told(copying, prefix=copying.prefix)]
    for turn, argv in enumerate((plain, transactional, transactional)):
        process = processes.start(tmp_path, f"copy-{turn}", argv, owner_pid=os.getpid())
        until_written(copying, written(copying) + 700, process)
        if turn == 1:
            wait_until(
                lambda: all(each.atomic for each in copying.state().positions.values()),
                "a transaction",
                timeout_seconds=60,
                longest_pause_seconds=0.05,
            )
        process.kill()
    over.set()
    back = Copying(replace(copying.flow, slot=None), copying.pairs)
    copying.without_transactions()
    back.from_the_target()
    assert all(each.position.atomic for each in back.handovers.values())
    back.until_caught_up()
    assert not any(each.atomic for each in back.state().positions.values())
    assert_copied(copying)
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10))
    copying.restart()
    copying.until_caught_up()
    assert_copied(copying)


@pytest.fixture(scope="module")
def south(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.LabCluster]:
    """A cluster of this module's own, to be killed."""
    directory = tmp_path_factory.mktemp("south")
    yield clusters.up(directory, ["south"], owner_pid=os.getpid()).clusters["south"]
    clusters.down(directory, discard_data=True)


@pytest.mark.soak
def test_a_target_that_is_killed_in_the_middle_of_a_transaction_and_comes_back_costs_nothing(
    south: clusters.LabCluster, new_copying: NewCopying
) -> None:
    """Coordinator, data and positions are all away for a while."""
    mortal = {"bootstrap.servers": south.bootstrap_servers}
    with Cluster.connect(ClusterSettings("south", mortal)) as cluster:
        copying = new_copying(2, target=cluster, target_client=mortal, seconds=1.0, idle_seconds=None)
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(5_000))
    restarted = threading.Event()

    def restart() -> None:
        wait_until(lambda: written(copying) > 1_000, "a copy", timeout_seconds=60, longest_pause_seconds=0.01)
        south.kill()
        south.start()
        restarted.set()

    thread = threading.Thread(target=restart)
    thread.start()
    wait_until(lambda: attempt(copying) and restarted.is_set(), "the broker to be back", timeout_seconds=90)
    thread.join()
    wait_until(lambda: attempt(copying), "the flow to be taken over", timeout_seconds=30)
    copying.until_caught_up()
    assert_copied(copying)


def attempt(copying: InTransactions) -> bool:
    """Copy for a second; whether the target was there to take the flow over if that was needed."""
    try:
        copying.epoch(1.0)
    except (ConnectionFailed, BrokerRefused, LeaderUnknown):
        return False
    return True
