"""What was sent before an engine took a flow over, or gave an epoch up, and arrives afterwards: the target refuses it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest

from mirror.clock import steady_seconds
from mirror.config.settings import ClusterSettings
from mirror.control.flow_log import FlowLog
from mirror.control.foreign_records import find_foreign, foreign_reasons
from mirror.control.tick import NotLeading
from mirror.copier.epoch_channel import EpochChannel
from mirror.copier.work import PartitionResult
from mirror.engine.election import Election, Identity
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.ticking import Ticking
from mirror.kafka import coordinator
from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.connecting import Connections
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import BrokerRefused
from mirror.lab import ports
from mirror.lab.link import Link
from mirror.model.leadership import Claim
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from mirror.model.state_values import ForeignWriter, RunReport, claim_record
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, NewCopying, assert_copied, can_tell, ends_of, write
from tests.brokers.late import INVALID_PRODUCER_EPOCH, LATE, kill_after_ten, send_late
from tests.unit.control.builders import flow_settings
from tests.worker_process import forget_all


def test_a_request_of_a_killed_engine_that_arrives_after_its_successor_began_is_refused(
    new_copying: NewCopying,
) -> None:
    """Also in a partition that the killed one has not written to with this producer id, and before the first batch."""
    copying = new_copying(partitions=2)
    first, second = copying.pairs
    write(copying.flow.source_client, first, range(10))
    copying.until_caught_up()
    killed = copying.flow.producer
    assert killed is not None
    sequence = copying.sequences[copying.pairs[first]]
    write(copying.flow.source_client, first, range(10, 15))

    forget_all()
    copying.from_the_target()
    copying.take_producer()

    assert copying.flow.producer == Producer(killed.producer_id, killed.epoch + 1)
    assert send_late(copying, copying.pairs[first], killed, sequence, LATE) == INVALID_PRODUCER_EPOCH
    assert send_late(copying, copying.pairs[second], killed, 0, LATE) == INVALID_PRODUCER_EPOCH
    copying.until_caught_up()
    assert send_late(copying, copying.pairs[first], killed, sequence, LATE) == INVALID_PRODUCER_EPOCH
    assert_copied(copying)


def test_a_copy_that_has_nothing_but_the_marker_of_a_takeover_begins_like_an_empty_one(
    new_copying: NewCopying,
) -> None:
    """Whoever led before may have been about to begin it, so it is fenced; then it is not taken for Java's, or lost."""
    copying = new_copying()
    (source,) = copying.pairs
    copying.take_producer()
    copying.unfenced = dict.fromkeys(copying.pairs.values())
    copying.take_producer()
    assert ends_of(copying.flow.target_client, list(copying.pairs.values())) == {copying.pairs[source]: 1}
    write(copying.flow.source_client, source, range(10))
    copying.mm2 = {source: Mm2Trace(is_alone=True)}
    copying.until_caught_up()
    assert_copied(copying)


def test_a_request_that_arrives_before_the_takeover_is_found_by_matching_the_tail(new_copying: NewCopying) -> None:
    copying = new_copying()
    (source,) = copying.pairs
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    killed = copying.flow.producer
    assert killed is not None
    write(copying.flow.source_client, source, range(10, 15))
    target, left = copying.pairs[source], copying.originals(source)[10:]
    assert send_late(copying, target, killed, copying.sequences[target], left) == 0

    forget_all()
    copying.from_the_target()
    copying.until_caught_up()
    assert_copied(copying)


def test_a_partition_in_which_something_may_arrive_late_is_fenced_and_the_others_go_on_with_the_next_epoch(
    new_copying: NewCopying,
) -> None:
    copying = new_copying(partitions=2)
    first, second = copying.pairs
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(5))
    copying.until_caught_up()
    before = copying.flow.producer
    assert before is not None
    copying.unfenced[copying.pairs[first]] = before
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(5, 10))
    copying.until_caught_up()
    assert copying.flow.producer == Producer(before.producer_id, before.epoch + 1)
    assert send_late(copying, copying.pairs[first], before, 5, LATE) == INVALID_PRODUCER_EPOCH
    assert send_late(copying, copying.pairs[second], before, 5, LATE) == INVALID_PRODUCER_EPOCH
    assert_copied(copying)


def test_the_cluster_tells_whether_somebody_has_had_an_id_before_it_was_ever_written_with(
    settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    with closing(Channel("west", settings_of("west").client)) as channel:
        given = unique("given")
        assert coordinator.take_over(channel, given, 60_000, writes_transactions=False).epoch == 0
        assert coordinator.is_known(channel, given)
        assert coordinator.is_known(channel, unique("nobodys")) is False


def test_a_thawed_engine_that_asks_for_the_producer_after_its_successor_does_not_stop_that_one(
    new_copying: NewCopying,
) -> None:
    """Frozen just before it asked, it takes the id from the leader, which takes it back and fences with that."""
    copying = new_copying(partitions=2)
    for source in copying.pairs:
        write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    frozen, client, topic = copying.writers, copying.flow.target_client, copying.flow.state_topic
    assert frozen is not None
    hold = FlowProducers(copying.flow.flow, client, None, slots=1, topic=topic)
    runtime = FlowRuntime(flow_settings())
    runtime.partitions = tuple((source, target, "", "") for source, target in copying.pairs.items())
    runtime.lead(2, was_settled=False)
    log, writer = FlowLog(client, topic, alias="west"), LogWriter(client)
    with closing(log), closing(writer):
        writer.append(topic, 0, [(*claim_record(Claim("the leader", 2)), (), 0)])
        log.poll()
        held = hold.take(log, 2)
        taken = frozen.next_producer(1)
        runtime.take_state(log.poll(), Mm2Traces(), held)
        target: Any = SimpleNamespace(cluster_id="west")
        control = FlowControl(
            runtime,
            target,
            target,
            Ticking(lambda _: None, lambda _: None),
            hold,
            matches_mm2=False,
        )

        def fenced() -> bool:
            control._fence(log)
            return not runtime.to_fence()

        wait_until(fenced, "the leader to have its way", timeout_seconds=60)
    assert runtime.writing.producer == Producer(taken.producer_id, taken.epoch + 1)
    for each in copying.pairs.values():
        assert send_late(copying, each, taken, 0, LATE) == INVALID_PRODUCER_EPOCH


@pytest.fixture
def no_transactional_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users of MirrorMaker in its default mode have no rights on transactional ids."""

    def denied(channel: Channel, *_: object, **__: object) -> Producer:
        raise BrokerRefused(channel.alias, kafka.errors.TransactionalIdAuthorizationFailedError)

    monkeypatch.setattr(coordinator, "take_over", denied)


@pytest.mark.usefixtures("no_transactional_ids")
def test_where_the_cluster_gives_no_transactional_id_the_epoch_is_raised_and_it_is_said(
    new_copying: NewCopying,
) -> None:
    """It fences from the first batch on."""
    copying = new_copying()
    (source,) = copying.pairs
    killed = kill_after_ten(copying, source)
    copying.take_producer()
    assert copying.flow.producer == Producer(killed.producer_id, killed.epoch + 1)
    assert copying.writers is not None
    assert copying.writers.weakness is not None
    assert "grant Write and Describe on the transactional id" in copying.writers.weakness
    write(copying.flow.source_client, source, range(10, 20))
    copying.until_caught_up()
    assert send_late(copying, copying.pairs[source], killed, 10, LATE) == INVALID_PRODUCER_EPOCH
    assert_copied(copying)


def one_writer_after_takeovers(copying: Copying) -> bool:
    """Whether a flow that was taken over again and again, and has copied in between, has one writer on record."""
    (source,) = copying.pairs
    for number in range(5):
        write(copying.flow.source_client, source, range(10 * number, 10 * number + 10))
        copying.until_caught_up()
        forget_all()
        copying.from_the_target()
        copying.take_producer()
    with closing(FlowLog(copying.flow.target_client, copying.flow.state_topic, alias="west")) as log:
        return len(log.poll().writers) == 1


def test_writers_on_record_do_not_grow_with_each_takeover(new_copying: NewCopying) -> None:
    """The epoch rises, and the producer id stays: no writer's state has to be dropped (ADR 8)."""
    assert one_writer_after_takeovers(new_copying())


@pytest.mark.usefixtures("no_transactional_ids")
def test_writers_on_record_do_not_grow_where_the_cluster_gives_no_transactional_id(new_copying: NewCopying) -> None:
    assert one_writer_after_takeovers(new_copying())


@pytest.mark.usefixtures("no_transactional_ids")
@pytest.mark.parametrize("is_watched", [True, False], ids=["only mirrors write", "others write too"])
def test_what_arrives_late_where_it_is_not_refused_is_counted_and_located(
    new_copying: NewCopying, *, is_watched: bool
) -> None:
    copying = new_copying()
    copying.is_watched = is_watched
    (source,) = copying.pairs
    target = copying.pairs[source]
    killed = kill_after_ten(copying, source)
    copying.epoch()
    assert send_late(copying, target, killed, 10, LATE) == 0
    write(copying.flow.source_client, source, range(10, 20))
    found: list[tuple[int, int]] = []

    def copied() -> list[tuple[int, int]]:
        found.extend(copying.epoch()[source].foreign)
        return found

    assert wait_until(copied, "the late batch to be noticed", timeout_seconds=60) == [(10, 15)]
    channel = Channel("west", copying.flow.target_client)
    try:
        late = find_foreign(channel, target, (10, 15), None, {}, 5, copying.flow.writers)
    finally:
        channel.close()
    assert late == {(target, killed.producer_id): ForeignWriter(target, killed.producer_id, 10, 15, 5, 5)}
    (reason,) = foreign_reasons(late.values(), "west", 5, copying.flow.writers)
    assert (
        f"{target} on west has 5 records at offsets 10 to 14 that arrived after this flow had been taken over" in reason
    )


@pytest.mark.usefixtures("no_transactional_ids")
def test_where_nothing_is_refused_an_engine_whose_renewal_hangs_has_stopped_writing_before_another_begins(
    new_copying: NewCopying,
) -> None:
    """Its task reaches Kafka, and its driver answers the task: what it says is by its own clock that it may not."""
    old = new_copying(partitions=2)
    client, topic, flow = old.flow.target_client, old.flow.state_topic, old.flow.flow
    for source in old.pairs:
        write(old.flow.source_client, source, range(10))
    old.until_caught_up()

    def election(engine: str) -> Election:
        identity = Identity(engine, engine, 1, engine)
        return Election(flow, client, client, identity, timeout_seconds=1.5, settings={}, topic=topic)

    with closing(election("first")) as first, closing(election("second")) as second:
        assert first.round(lambda: RunReport("RUNNING", (), 5))
        lease = Lease(1.0)
        lease.renew(first.renewed_at)
        with EpochChannel("127.0.0.1", write_seconds=lambda: lease.left) as epoch_channel:
            task = threading.Thread(target=lambda: old.epoch(60.0, epoch_channel.address))
            task.start()
            # The first is not asked to renew any more: that is under way, for all that it knows.
            wait_until(lambda: second.round(lambda: RunReport("RUNNING", (), 5)), "another leader", timeout_seconds=30)
            its_lease = Lease(1.0)
            wait_until(its_lease.is_alone, "the second to be alone", timeout_seconds=30)
            before = ends_of(client, list(old.pairs.values()))
            for source in old.pairs:
                write(old.flow.source_client, source, range(10, 20))
            task.join()
            assert ends_of(client, list(old.pairs.values())) == before
    new = Copying(replace(old.flow, producer=None), dict(old.pairs))
    new.from_the_target()
    new.until_caught_up()
    assert_copied(new)


def test_an_engine_whose_right_to_write_is_over_writes_no_checkpoint_and_moves_no_group(
    west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    """What it had read and translated before it was stopped is not written when it goes on."""
    topic, group = TopicPartition(unique("checkpoints"), 0), unique("billing")
    west.create_topics([NewTopic(topic.topic, 1, 1)])
    client = dict(settings_of("west").client)
    wait_until(lambda: can_tell(client, [topic]), "the topic", timeout_seconds=60)
    lease, position = Lease(600.0), {topic: GroupPosition(0)}
    lease.renew(steady_seconds())
    with closing(LogWriter(client, before=lease.require)) as writer:
        writer.append(topic.topic, 0, [(b"1", b"", (), 0)])
        written = west.write_positions_of_groups({group: position}, lease.require_now)
        assert [each.problem for each in written[group]] == [None]
        lease.end()
        with pytest.raises(NotLeading):
            writer.append(topic.topic, 0, [(b"2", b"", (), 0)])
        with pytest.raises(NotLeading):
            west.write_positions_of_groups({group: {topic: GroupPosition(1)}}, lease.require_now)
    assert ends_of(client, [topic]) == {topic: 1}
    assert west.positions_of_groups([group])[group][topic].position == 0


def test_what_waits_for_a_connection_is_not_written_once_the_right_to_write_is_over(
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    west: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The right ends while the connection to the group's coordinator is opened."""
    topic, group, lease = TopicPartition(unique("orders"), 0), unique("billing"), Lease(600.0)
    west.create_topics([NewTopic(topic.topic, 1, 1)])
    wait_until(lambda: can_tell(dict(settings_of("west").client), [topic]), "the topic", timeout_seconds=60)
    lease.renew(steady_seconds())
    with Cluster.connect(settings_of("west")) as cluster:
        written = cluster.write_positions_of_groups({group: {topic: GroupPosition(0)}}, lease.require_now)
        assert [each.problem for each in written[group]] == [None]
        found, opened = cluster._coordinators, Connections._build_transport

        def disconnect_all(groups: Sequence[str]) -> Any:
            told = found(groups)
            cluster._manager.run(close_all)
            monkeypatch.setattr(Connections, "_build_transport", open_late)
            return told

        async def close_all() -> None:
            for connection in list(cluster._manager._conns.values()):
                connection.close()

        async def open_late(self: Connections, *args: Any, **kwargs: Any) -> Any:
            lease.end()
            return await opened(self, *args, **kwargs)

        monkeypatch.setattr(cluster, "_coordinators", disconnect_all)
        with pytest.raises(NotLeading):
            cluster.write_positions_of_groups({group: {topic: GroupPosition(1)}}, lease.require_now)
        # An answer to what is asked now comes after what was on its way.
        monkeypatch.setattr(cluster, "_coordinators", found)
        assert cluster.positions_of_groups([group])[group][topic].position == 0


@pytest.mark.usefixtures("no_transactional_ids")
@pytest.mark.long
def test_a_task_whose_line_to_its_driver_alone_is_cut_writes_until_its_right_is_over_and_then_no_more(
    new_copying: NewCopying, tmp_path: Path
) -> None:
    """Nothing else refuses what it sends. The driver, which hears nothing of it, knows until when that may be."""
    old = new_copying(partitions=2)
    copies, client = list(old.pairs.values()), old.flow.target_client

    def send(numbers: range) -> None:
        for source in old.pairs:
            write(old.flow.source_client, source, numbers)

    def await_copies(each: int) -> None:
        wait_until(
            lambda: ends_of(client, copies),
            "copies",
            timeout_seconds=60,
            until=lambda ends: set(ends.values()) == {each},
        )

    send(range(10))
    old.until_caught_up()
    with EpochChannel("127.0.0.1", write_seconds=lambda: 12.0) as epoch_channel:
        host, port = epoch_channel.address
        listen, control = ports.choose(2)
        line = Link(tmp_path, "driver", listen, control, f"{host}:{port}")
        line.start(owner_pid=os.getpid())
        try:
            task = threading.Thread(target=lambda: old.epoch(120.0, ("127.0.0.1", line.listen_port)))
            task.start()
            send(range(10, 20))
            await_copies(20)
            line.cut()
            send(range(20, 30))
            await_copies(30)
            wait_until(
                lambda: steady_seconds() >= epoch_channel.write_until, "its right to be over", timeout_seconds=60
            )
            send(range(30, 40))
            task.join()
            assert ends_of(client, copies) == dict.fromkeys(copies, 30)
        finally:
            line.stop()
    new = Copying(replace(old.flow, producer=None), dict(old.pairs))
    new.from_the_target()
    new.until_caught_up()
    assert_copied(new)


def test_a_task_cut_off_from_its_driver_writes_nothing_once_another_engine_has_the_flow(
    new_copying: NewCopying,
) -> None:
    """It reaches Kafka and hears nothing: what it sends from then on is refused, and it says so."""
    old = new_copying(partitions=2)
    client = old.flow.source_client
    for source in old.pairs:
        write(client, source, range(10))
    old.until_caught_up()
    left: list[dict[TopicPartition, PartitionResult]] = []
    task = threading.Thread(target=lambda: left.append(old.epoch(6.0)))
    task.start()
    for source in old.pairs:
        write(client, source, range(10, 20))
    new = Copying(replace(old.flow, producer=None), dict(old.pairs))
    new.from_the_target()
    new.take_producer()
    for source in old.pairs:
        write(client, source, range(20, 30))
    new.until_caught_up()
    task.join()
    new.until_caught_up()
    assert_copied(new)
    # The first that is refused ends the epoch of all.
    refused = [each for each in left[0].values() if "InvalidProducerEpoch" in str(each.trouble)]
    assert refused != []
    assert all(each.may_arrive_late for each in refused)
