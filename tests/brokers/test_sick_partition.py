"""One target partition that takes nothing, or one broker that says nothing: the others do not notice."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import TypeAlias, TypeVar

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as AssignedTopic

from mirror.config.settings import ClusterSettings
from mirror.copier.work import PartitionResult
from mirror.kafka import coordinator
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import Record, read_records
from mirror.kafka.log_tail import LogTail
from mirror.kafka.partition_state import unable_to_append
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
from mirror.lab import clusters, processes
from mirror.model.connect_offsets import partition_of, read_source_positions, source_key
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, status_of
from tests.brokers.copying import Copying, can_tell, ends_of, log_of, write
from tests.brokers.in_transactions import InTransactions
from tests.flows import flow_work
from tests.worker_process import forget_all

T = TypeVar("T")

# How often an engine asks for what waits to be fenced.
_FENCE_SECONDS = 0.5

# Begins a load on partitions of a cluster; what it returns ends the load, and returns when all of it is written.
EndLoad: TypeAlias = Callable[[], None]
Load: TypeAlias = Callable[[Mapping[str, str], Iterable[TopicPartition]], EndLoad]


@pytest.fixture
def frozen(trio: clusters.LabCluster) -> Iterator[Callable[[int], psutil.Process]]:
    """Freeze one of the three brokers until its process is resumed, or the test is over."""
    found: list[psutil.Process] = []

    def freeze(number: int) -> psutil.Process:
        port = int(trio.brokers[number - 1].address.rpartition(":")[2])
        listening = (each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN)
        (pid,) = {each.pid for each in listening if each.laddr.port == port and each.pid is not None}
        found.append(psutil.Process(pid))
        found[0].suspend()
        return found[0]

    yield freeze
    for each in found:
        each.resume()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    forget_all()


@pytest.fixture
def new_copying(
    trio: clusters.LabCluster,
    east: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
) -> Callable[..., Copying]:
    """Copy a topic to each of some places, the brokers of its one partition; what is written down lies on 1.

    MirrorMaker's positions lie on the brokers ``offsets``, a partition each: of the first topic in the first one, and so on.
    """

    def make(*places: list[int], offsets: tuple[int, ...] = (1,), in_transactions: bool = False) -> Copying:
        def name(number: int) -> str:
            found = unique("orders")
            key = source_key("east", TopicPartition(found, 0))
            return found if partition_of(key, len(offsets)) == number % len(offsets) else name(number)

        topics = [name(number) for number in range(len(places))]
        state, mm2 = unique("mm2-state"), unique("mm2-offsets")
        client = {"bootstrap.servers": trio.bootstrap_servers}
        admin = AdminClient(client)
        made = [
            *(
                AssignedTopic(
                    f"east.{topic}",
                    1,
                    replica_assignment=[place],
                    config={"message.timestamp.type": "LogAppendTime", "min.insync.replicas": str(len(place))},
                )
                for topic, place in zip(topics, places, strict=True)
            ),
            AssignedTopic(state, 1, replica_assignment=[[1]], config={"cleanup.policy": "compact"}),
            AssignedTopic(
                mm2,
                len(offsets),
                replica_assignment=[[each] for each in offsets],
                config={"cleanup.policy": "compact"},
            ),
        ]
        for done in admin.create_topics(made).values():
            done.result(20)
        created = east.create_topics([NewTopic(topic, 1, 1) for topic in topics])
        assert not [each.problem for each in created if each.problem]
        source_client = dict(settings_of("east").client)
        pairs = {TopicPartition(topic, 0): TopicPartition(f"east.{topic}", 0) for topic in topics}
        side = [TopicPartition(state, 0), *(TopicPartition(mm2, number) for number in range(len(offsets)))]
        for known, asked in ((source_client, list(pairs)), (client, [*pairs.values(), *side])):
            wait_until(lambda known=known, asked=asked: can_tell(known, asked), "the topics", timeout_seconds=60)  # type: ignore[misc]
        work = flow_work(
            source_client=source_client,
            target_client=client,
            state_topic=state,
            offsets_topic=mm2,
            offsets_partitions=len(offsets),
            syncs_topic=None,
        )
        return InTransactions(work, pairs, prefix=f"{state}-") if in_transactions else Copying(work, pairs)

    return make


@pytest.fixture
def load() -> Iterator[Load]:
    """Write to all partitions until told to end, or the test is over: one record each, then the next.

    The producer holds them back for some ms, so that this is no more than a hundred times a second.
    """
    over = threading.Event()
    threads: list[threading.Thread] = []

    def end() -> None:
        over.set()
        for thread in threads:
            thread.join()

    def begin(client: Mapping[str, str], sources: Iterable[TopicPartition]) -> EndLoad:
        def write_on() -> None:
            producer = Producer({**client, "linger.ms": 10})
            number = 0
            while not over.is_set():
                for source in sources:
                    producer.produce(source.topic, b"value %d" % number, b"key", source.partition)
                number += 1
                while len(producer):
                    producer.poll(1.0)

        threads.append(threading.Thread(target=write_on))
        threads[-1].start()
        return end

    yield begin
    end()


class Rolling:
    """Epochs one after the other in a thread, fencing beside them, as an engine has them."""

    def __init__(self, copying: Copying, seconds: float = 3.0) -> None:
        self.copying = copying
        self.results: list[dict[TopicPartition, PartitionResult]] = []
        self._over = threading.Event()
        copying.take_producer()
        self._threads = [threading.Thread(target=self._roll, args=(seconds,)), threading.Thread(target=self._fence)]
        for thread in self._threads:
            thread.start()

    def _roll(self, seconds: float) -> None:
        while not self._over.is_set():
            self.results.append(self.copying.copy_on(seconds))

    def _fence(self) -> None:
        def is_over() -> bool:
            self.copying.fence()
            return self._over.is_set()

        wait_until(is_over, "the end", timeout_seconds=600, longest_pause_seconds=_FENCE_SECONDS)

    def await_epochs(self, more: int) -> None:
        enough = len(self.results) + more
        wait_until(lambda: len(self.results) >= enough, f"{more} epochs", timeout_seconds=30 * more)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def assert_as_fast(
    originals: Sequence[Record], copies: Sequence[Record], hurt_at: int, from_there: int, reached: int
) -> None:
    """What was on its way from some offset on was as fast as before the cluster was hurt, all but the slowest."""
    found = [copy.timestamp - original.timestamp for original, copy in zip(originals, copies, strict=False)]
    before = quantiles(found[hurt_at // 4 : hurt_at], n=20)
    after = quantiles(found[from_there:reached], n=20)
    assert after[9] <= 10 * max(before[9], 2), (before, after)
    assert after[17] <= 10 * max(before[17], 10), (before, after)


def copy_what_is_there(copying: Copying, sources: list[TopicPartition], timeout_seconds: float) -> None:
    """Copy until all is copied that the sources hold now, whatever is written meanwhile."""
    reached = ends_of(copying.flow.source_client, sources)

    def lacking() -> dict[TopicPartition, int]:
        copying.epoch()
        left = {each: end - copying.handovers[each].position.upstream for each, end in reached.items()}
        return {each: count for each, count in left.items() if count > 0}

    wait_until(lacking, "the records", timeout_seconds=timeout_seconds, until=lambda left: not left)


def assert_same(copying: Copying) -> None:
    """Every record was copied once, in order; the copies bear the time of their arrival."""
    for source in copying.pairs:
        assert [each.value for each in copying.copies(source)] == [each.value for each in copying.originals(source)]


def assert_others_do_not_notice(
    copying: Copying, hurt: Callable[[], None], await_recovery: Callable[[], object] = lambda: None
) -> None:
    """Copy under load, hurt the cluster of the copies, copy on: only the first partition gets nowhere.

    What is written behind ``await_recovery`` is on its way no longer than before.
    """
    sick, *healthy = copying.pairs
    client = copying.flow.source_client
    rolling = Rolling(copying)
    rolling.await_epochs(3)
    hurt_at = ends_of(client, healthy)
    hurt()
    await_recovery()
    from_there = ends_of(client, healthy)
    rolling.await_epochs(8)
    # Nobody copies what is written behind that, while the last fencing waits for a broker that says nothing.
    reached = ends_of(client, healthy)
    rolling.end()
    copy_what_is_there(copying, healthy, timeout_seconds=20)
    for each in healthy:
        originals, copies = copying.originals(each), copying.copies(each)
        assert_as_fast(originals, copies, hurt_at[each], from_there[each], reached[each])
    last = copying.epoch(1.0)
    assert copying.pairs[sick] in copying.unfenced or last[sick].trouble is not None
    assert [last[source].trouble for source in healthy] == [None, None]


@pytest.mark.soak
def test_a_partition_with_too_few_replicas_in_sync_does_not_hold_up_the_others(
    trio: clusters.LabCluster, new_copying: Callable[..., Copying], load: Load
) -> None:
    """It takes nothing for as long as a broker is away, and no writer is registered again and again for its sake.

    Once the broker is back it catches up while more is written.
    """
    copying = new_copying([1, 2, 3], [1], [2])
    end_load = load(copying.flow.source_client, copying.pairs)
    assert_others_do_not_notice(copying, trio.brokers[2].kill)
    sick, *_ = copying.pairs
    assert len(copying.flow.writers) == 1
    trio.brokers[2].start()
    copy_what_is_there(copying, [sick], timeout_seconds=60)
    end_load()
    copying.until_caught_up()
    assert_same(copying)


@pytest.mark.soak
def test_a_partition_with_too_few_replicas_in_sync_holds_up_the_transactions_of_the_others_once(
    trio: clusters.LabCluster, new_copying: Callable[..., Copying], load: Load
) -> None:
    """The one that it is part of is aborted and does not end; what follows is written with another transactional id.

    That takes as long as the cluster takes to find out that the broker is gone, once; also for what the same broker
    leads. Restarted in between, the engine goes on in the same way.
    """
    copying = new_copying([1, 2, 3], [1], [2], in_transactions=True)
    assert isinstance(copying, InTransactions)
    sick, *healthy = copying.pairs
    end_load = load(copying.flow.source_client, copying.pairs)
    used = ""

    def kill() -> None:
        nonlocal used
        assert copying.flow.slot is not None
        used = copying.flow.slot.transactional_id
        trio.brokers[2].kill()

    def await_another_id() -> None:
        """It is to have copied all that was there when it was first used."""
        wait_until(
            lambda: copying.flow.slot,
            "another id",
            timeout_seconds=60,
            until=lambda slot: slot is not None and slot.transactional_id != used,
        )
        behind = ends_of(copying.flow.source_client, healthy)
        wait_until(
            lambda: all(copying.handovers[each].position.upstream >= behind[each] for each in healthy),
            "what was written meanwhile",
            timeout_seconds=30,
        )

    assert_others_do_not_notice(copying, kill, await_another_id)
    writers = copying.flow.writers
    for _ in range(5):
        copying.epoch(1.0)
    assert copying.flow.writers == writers, "the stuck transaction costs nobody a second one"
    assert copying.pairs[sick] in copying.fence_troubles
    end_load()
    forget_all()
    copying.restart()
    copying.until_caught_up(healthy)
    assert copying.unfenced.keys() == {copying.pairs[sick]}
    trio.brokers[2].start()
    copying.until_caught_up(timeout_seconds=120)
    assert not copying.state().unended
    assert_same(copying)
    copying.close()


def told(ask: Callable[[], T]) -> T:
    """Return what a broker says that is alive, as soon as there is one."""

    def found() -> list[T]:
        with suppress(BrokerRefused, ConnectionFailed):
            return [ask()]
        return []

    (answer,) = wait_until(found, "an answer", timeout_seconds=30)
    return answer


@pytest.mark.soak
@pytest.mark.parametrize("is_known", [False, True], ids=["in the middle of a transaction", "before the last one"])
def test_who_takes_over_from_an_engine_that_died_beside_a_sick_partition_copies_the_others(
    trio: clusters.LabCluster, new_copying: Callable[..., Copying], load: Load, *, is_known: bool
) -> None:
    """It had not said yet that its transaction does not end; as whom it had written was on record before."""
    copying = new_copying([1, 2, 3], [1], [2], in_transactions=True)
    assert isinstance(copying, InTransactions)
    sick, *healthy = copying.pairs
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    assert copying.flow.slot is not None
    used = copying.flow.slot.transactional_id
    channel = Channel("trio", copying.flow.target_client)
    wait_until(lambda: told(lambda: coordinator.unended(channel, used)) is None, "the markers", timeout_seconds=60)

    def has_lost_its_slot() -> bool:
        copying.epoch(10.0)
        return copying.flow.slot is None

    if is_known:
        trio.brokers[2].kill()
        # Refused by then, and not unanswered: the transaction with the others is committed without it.
        lacking = [copying.pairs[sick]]
        wait_until(lambda: told(lambda: unable_to_append(channel, lacking)), "that it is known", timeout_seconds=60)
    with ThreadPoolExecutor(1) as engine:
        end_load = load(copying.flow.source_client, copying.pairs)
        died = engine.submit(wait_until, has_lost_its_slot, "the transaction to be stuck", timeout_seconds=60)
        if not is_known:
            wait_until(lambda: len(copying.copies(sick)) > 100, "copies under load", timeout_seconds=30)
            trio.brokers[2].kill()
        died.result()
        end_load()
    assert not copying.state().unended
    if is_known:
        last = told(lambda: coordinator.unended(channel, used))
        assert last is not None
        assert not last.is_aborted
    channel.close()
    forget_all()
    copying.restart()
    copying.until_caught_up(healthy, timeout_seconds=60)
    trio.brokers[2].start()
    copying.until_caught_up(timeout_seconds=120)
    assert not copying.state().unended
    assert_same(copying)
    copying.close()


@pytest.mark.soak
def test_mm2s_positions_that_cannot_be_written_hold_up_the_partitions_that_they_are_of_and_no_others(
    trio: clusters.LabCluster, new_copying: Callable[..., Copying]
) -> None:
    """In transactions, with which they are committed: one partition of the offsets topic has no leader."""
    copying = new_copying([1], [1], offsets=(3, 1), in_transactions=True)
    assert isinstance(copying, InTransactions)
    held_up, healthy = copying.pairs
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    trio.brokers[2].kill()
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10, 20))
    copying.until_caught_up([healthy], timeout_seconds=60)
    write(copying.flow.source_client, healthy, range(20, 30))
    copying.until_caught_up([healthy])
    assert copying.handovers[held_up].position.upstream == 10
    assert copying.unfenced.keys() == {TopicPartition(copying.flow.offsets_topic, 0)}
    trio.brokers[2].start()
    copying.until_caught_up(timeout_seconds=60)
    assert copying.mm2_positions() == {held_up: 20, healthy: 30}
    assert_same(copying)
    copying.close()


@pytest.mark.soak
def test_a_broker_that_says_nothing_does_not_hold_up_what_the_others_lead(
    new_copying: Callable[..., Copying],
    load: Load,
    frozen: Callable[[int], psutil.Process],
) -> None:
    """Frozen it accepts connections, as far as anybody can tell, and answers nothing.

    Once it goes on it may append what it was sent before it was frozen.
    """
    copying = new_copying([3], [1], [2])
    sick, *_ = copying.pairs
    end_load = load(copying.flow.source_client, copying.pairs)
    held: list[psutil.Process] = []
    assert_others_do_not_notice(copying, lambda: held.append(frozen(3)))
    held[0].resume()
    copy_what_is_there(copying, [sick], timeout_seconds=60)
    end_load()
    copying.until_caught_up()
    assert_same(copying)


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["disabled", "enabled"], ids=["default mode", "exactly once"])
def test_the_command_copies_the_others_beside_a_partition_with_too_few_replicas_in_sync(
    trio: clusters.LabCluster,
    east: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    load: Load,
    tmp_path: Path,
    *,
    mode: str,
) -> None:
    """A broker is killed under load and started again: no record is lost, twice, or out of order."""
    alias, topics = unique("shop").replace("-", ""), [unique("orders") for _ in range(3)]
    source, target = dict(settings_of("east").client), {"bootstrap.servers": trio.bootstrap_servers}
    pairs = {TopicPartition(topic, 0): TopicPartition(f"{alias}.{topic}", 0) for topic in topics}
    east.create_topics([NewTopic(topic, 1, 1) for topic in topics])
    stamped = {"message.timestamp.type": "LogAppendTime"}
    compact = {"cleanup.policy": "compact"}
    made = [
        AssignedTopic(
            f"{alias}.{topics[0]}", 1, replica_assignment=[[1, 2, 3]], config={**stamped, "min.insync.replicas": "3"}
        ),
        *(
            AssignedTopic(f"{alias}.{topic}", 1, replica_assignment=[[broker]], config=stamped)
            for topic, broker in zip(topics[1:], (1, 2), strict=True)
        ),
        AssignedTopic(f"mm2-state.{alias}.internal", 1, replica_assignment=[[1]], config=compact),
        AssignedTopic(f"mm2-offsets.{alias}.internal", 25, replica_assignment=[[1]] * 25, config=compact),
    ]
    admin = AdminClient(target)
    for done in admin.create_topics(made).values():
        done.result(20)
    for known, asked in ((source, list(pairs)), (target, list(pairs.values()))):
        wait_until(lambda known=known, asked=asked: can_tell(known, asked), "the topics", timeout_seconds=60)  # type: ignore[misc]
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, trio\n{alias}.bootstrap.servers = {source['bootstrap.servers']}\n"
        f"trio.bootstrap.servers = {target['bootstrap.servers']}\n"
        f"{alias}->trio.enabled = true\n{alias}->trio.topics = {', '.join(topics)}\n"
        f"trio.exactly.once.source.support = {mode}\nsync.topic.configs.enabled = false\nmirror.tasks = 2\n{FACTORS}"
    )
    argv = [sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())

    def originals(each: TopicPartition) -> list[Record]:
        return log_of(source, each)

    def copies(each: TopicPartition) -> list[Record]:
        channel = Channel("trio", target)
        try:
            (end,) = channel.offsets([pairs[each]], LATEST, View.STABLE).values()
        finally:
            channel.close()
        return list(read_records(target, pairs[each], 0, end, read_committed=True))

    def until_copied(sources: Sequence[TopicPartition], more: int = 0) -> dict[TopicPartition, int]:
        """Wait until all is copied that is there now, and so many records more; return where the sources ended."""
        reached = {each: end + more for each, end in ends_of(source, sources).items()}

        def lacking() -> dict[TopicPartition, int]:
            assert engine.is_alive(), engine.log_tail()
            left = {each: end - len(copies(each)) for each, end in reached.items()}
            return {each: count for each, count in left.items() if count > 0}

        wait_until(lacking, f"the copies; {engine.log_tail(4)}", timeout_seconds=90, until=lambda left: not left)
        return reached

    sick, *healthy = pairs
    end_load = load(source, list(pairs))
    until_copied(list(pairs), 500)
    hurt_at = until_copied(healthy, 500)
    trio.brokers[2].kill()
    from_there = hurt_at
    if mode == "enabled":
        # Until the cluster knows that the broker is gone, its transactions get nowhere.
        from_there = until_copied(healthy)
    reached = until_copied(healthy, 1_000)
    assert len(copies(sick)) < min(reached.values()) - 500
    (flow,) = status_of(file)
    assert [reason for reason in flow["reasons"] if topics[0] in reason]
    trio.brokers[2].start()
    until_copied([sick])
    end_load()
    until_copied(list(pairs))
    assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()
    for each in pairs:
        assert [copy.value for copy in copies(each)] == [record.value for record in originals(each)]
    for each in healthy:
        assert_as_fast(originals(each), copies(each), hurt_at[each], from_there[each], reached[each])


@pytest.mark.long
def test_our_positions_are_recorded_although_mm2s_cannot_be(
    trio: clusters.LabCluster, new_copying: Callable[..., Copying]
) -> None:
    """The partition of the offsets topic has no leader; MirrorMaker's position follows when it has one again."""
    copying = new_copying([1], offsets=(3,))
    ((source, _),) = copying.pairs.items()
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    trio.brokers[2].kill()
    for count in (20, 30):
        write(copying.flow.source_client, source, range(count - 10, count))
        wait_until(
            lambda: copying.epoch() and copying.state().positions[source].upstream,
            "our position",
            timeout_seconds=60,
            until=lambda at, count=count: at == count,  # type: ignore[misc]
        )
    assert copying.handovers[source].clean
    trio.brokers[2].start()
    wait_until(
        lambda: copying.epoch() and copying.handovers[source].is_recorded, "MirrorMaker's too", timeout_seconds=60
    )
    tail = LogTail(copying.flow.target_client, copying.flow.offsets_topic)
    positions = read_source_positions([(each.key, each.value) for each in tail.poll()], "east")
    tail.close()
    assert positions == {source: 30}
