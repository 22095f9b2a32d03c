"""A flow's state topic may hold what this version does not know, or be lost: it is told, and nothing is copied twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import confluent_kafka
import pytest

from mirror.clock import steady_seconds
from mirror.config.settings import ClusterSettings, MirrorSettings
from mirror.control.flow_log import FlowLog
from mirror.control.status import FlowObserver
from mirror.control.tick import now_ms
from mirror.kafka import log_tail
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter, read_records
from mirror.kafka.log_tail import LogTail
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.lab.processes import ManagedProcess
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseWish
from mirror.model.position import Position
from mirror.model.state_record import state_topic
from mirror.model.state_values import RunReport, pause_record
from mirror.recovery.engine_pausing import EnginePausing
from mirror.waiting import wait_until
from tests.brokers.command import address, status_of
from tests.brokers.command import write as write_file
from tests.brokers.copying import NewCopying, Unique, assert_copied, can_tell, ends_of, write
from tests.brokers.engines import PARTITIONS, Engines
from tests.unit.config.files import flows_of


def test_records_of_a_newer_version_are_counted_and_stop_only_the_partition_that_needs_them(
    new_copying: NewCopying, settings_of: Callable[[str], ClusterSettings], west: Cluster, unique: Unique
) -> None:
    alias = unique("shop").replace("-", "")
    (settings,) = flows_of(f"{alias}->west")
    west.create_topics([NewTopic(state_topic(alias), 1, 1, {"cleanup.policy": "compact"})])
    client = dict(settings_of("west").client)
    wait_until(lambda: can_tell(client, [TopicPartition(state_topic(alias), 0)]), "the topic", timeout_seconds=60)
    copying = new_copying(partitions=2, state_topic=state_topic(alias))
    source, other = copying.pairs
    for each in copying.pairs:
        write(copying.flow.source_client, each, range(5))
    copying.until_caught_up()
    writer = LogWriter(copying.flow.target_client)
    with closing(writer), closing(FlowObserver(settings, settings_of("east"), settings_of("west"))) as observer:
        for key, value in (
            (b'["newer kind","a"]', b"{}"),
            (b'["newer kind","b"]', None),
            (b'["position","%s",0]' % source.topic.encode(), b'{"v":2}'),
            (b'["position","%s",9]' % source.topic.encode(), None),
        ):
            writer.append(copying.flow.state_topic, 0, [(key, value, (), 1)])
        found = observer.look()
    (note,) = found.notes
    assert "2 records that this version does not understand" in note
    assert "1 of kind 'newer kind', 1 of kind 'position'" in note
    assert any(f"{source} is stopped" in reason for reason in found.reasons)
    assert [each.partition for each in found.partitions] == [1]
    copying.from_the_target()
    copying.pairs.pop(source)
    copying.until_caught_up([other])
    assert_copied(copying)


@pytest.mark.long
def test_an_engine_starts_and_copies_beside_state_that_it_does_not_understand_and_status_counts_it(
    engines: Engines,
) -> None:
    """It ended every engine at its start, of all flows; status had a traceback."""
    engines.send(4 * PARTITIONS)
    first = engines.running["first"] = engines.start()
    engines.await_all()
    assert first.terminate(60)
    lacking = TopicPartition(engines.topic, 0)
    with closing(LogWriter(engines.target)) as writer:
        for key, value in (
            (b'["newer kind","a"]', b"{}"),
            (b'["newer kind","b"]', None),
            (b"no key of ours", b"{}"),
            (b"\xff\x00", b"\xff"),
            (b'["position","%s",0]' % engines.topic.encode(), b'{"v":2}'),
        ):
            writer.append(state_topic(engines.alias), 0, [(key, value, (), 1)])
    before = engines.numbers()
    engines.send(4 * PARTITIONS)
    engines.running["next"] = engines.start()
    wait_until(engines.copied, "the others", timeout_seconds=120, until=lambda count: count >= 7 * PARTITIONS)
    found = wait_until(
        engines.status,
        "status to name it",
        timeout_seconds=60,
        until=lambda flow: any(f"{lacking} is stopped" in each for each in flow["reasons"]),
    )
    (note,) = (each for each in found["notes"] if "does not understand" in each)
    assert "4 records that this version does not understand" in note
    assert engines.numbers()[0] == before[0]
    assert [len(each) for each in engines.numbers()[1:]] == [8] * (PARTITIONS - 1)


def test_what_the_leader_says_is_seen_behind_a_transaction_that_is_open_and_what_is_copied_is_not(
    settings_of: Callable[[str], ClusterSettings], west: Cluster, unique: Unique
) -> None:
    """An engine that cannot end its transaction runs, and says why: it is not a dead one whose report is old."""
    alias = unique("shop").replace("-", "")
    (settings,) = flows_of(f"{alias}->west")
    topic = TopicPartition(state_topic(alias), 0)
    west.create_topics([NewTopic(topic.topic, 1, 1, {"cleanup.policy": "compact"})])
    client, source = dict(settings_of("west").client), TopicPartition("orders", 0)
    wait_until(lambda: can_tell(client, [topic]), "the topic", timeout_seconds=60)
    now = now_ms()
    before = RunReport("RUNNING", (), now - 60_000)
    cannot_end = RunReport("DEGRADED", ("the transaction of engine-1 is not committed: RequestTimedOut",), now)
    recorded = Position(9, 9, 0, complete=True)
    producer = confluent_kafka.Producer({**client, "transactional.id": alias})
    producer.init_transactions()
    with (
        closing(LogWriter(client)) as writer,
        closing(FlowLog(client, topic.topic, alias="west")) as log,
        closing(FlowObserver(settings, settings_of("east"), settings_of("west"))) as observer,
    ):
        writer.append(*topic, [(*before.record(), (), now)])
        producer.begin_transaction()
        key, value = recorded.record(source)
        producer.produce(topic.topic, value, key, 0)
        assert producer.flush(60) == 0
        writer.append(*topic, [(*before.record(), (), now)])
        assert log.observe().run == before
        writer.append(*topic, [(*cannot_end.record(), (), now)])
        assert (log.poll().run, log.position) == (before, 1)
        seen = log.observe()
        assert (seen.run, seen.positions) == (cannot_end, {})
        assert (log.poll().run, log.position) == (before, 1), "it counts when it is committed"
        found = observer.look()
        assert found.state == "DEGRADED"
        assert "the transaction of engine-1 is not committed: RequestTimedOut" in found.reasons
        # The cut of a failover too: who takes it back must not find that there is none.
        cut = PauseWish("cut", None, True, "mirror failover", now, is_cut=True)
        writer.append(*topic, [(*pause_record(cut), (), now)])
        clusters = cast(MirrorSettings, SimpleNamespace(clusters={"west": settings_of("west")}))
        assert EnginePausing(clusters, awaits_open_ends=False).is_paused(settings.flow)
        producer.commit_transaction()
        state = wait_until(log.observe, "the end of it", timeout_seconds=60, until=lambda each: bool(each.positions))
        assert (state.run, state.positions) == (cannot_end, {source: recorded})


def folded(client: dict[str, str], topic: str) -> FlowState:
    state = FlowState()
    with closing(LogTail(client, topic)) as tail:
        for each in tail.poll():
            state.apply(each.key, each.value)
    return state


def create_anew(west: Cluster, client: dict[str, str], name: str) -> None:
    west.delete_topics([name])
    wait_until(lambda: name not in west.topics([name]), "the topic to be gone", timeout_seconds=60)
    west.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})])
    wait_until(lambda: can_tell(client, [TopicPartition(name, 0)]), "the topic", timeout_seconds=60)


def test_a_topic_created_anew_is_read_from_its_beginning_even_when_it_is_longer_than_the_old_one(
    settings_of: Callable[[str], ClusterSettings], west: Cluster, unique: Unique
) -> None:
    """Its offsets alone say nothing; its id does."""
    client, name = dict(settings_of("west").client), unique("side")
    west.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})])
    wait_until(lambda: can_tell(client, [TopicPartition(name, 0)]), "the topic", timeout_seconds=60)
    with closing(LogTail(client, name)) as tail, closing(LogWriter(client)) as writer:

        def append(*keys: bytes) -> None:
            writer.append(name, 0, [(key, b"", (), 1) for key in keys])

        append(b"a", b"b")
        assert [each.key for each in tail.poll()] == [b"a", b"b"]
        assert (tail.poll(), tail.loss) == ([], None)
        create_anew(west, client, name)
        append(b"c", b"d", b"e")
        assert [each.key for each in tail.poll()] == [b"c", b"d", b"e"]
        assert "deleted and created anew" in str(tail.loss)


SAME = "mirror.offsets = same\n"


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param("", id="default"),
        pytest.param(
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n",
            id="unchanged names",
        ),
        pytest.param("west.exactly.once.source.support = enabled\n", id="exactly once", marks=pytest.mark.soak),
        pytest.param(SAME, id="the source's offsets"),
    ],
)
def test_an_engine_whose_state_is_lost_while_it_runs_or_while_it_is_down_copies_nothing_twice(
    settings: str, east_west: Lab, east: Cluster, west: Cluster, unique: Unique, tmp_path: Path
) -> None:
    """What it knows is written again, of idle partitions too; what it does not know any more is found in the copies.

    Whether a copy has the source's records at their offsets nothing says then: it stops, by name, and keeps what it has.
    """
    topic, alias = unique("lost"), unique("e").replace("-", "")
    east.create_topics([NewTopic(topic, 2, 1, {})])
    file = tmp_path / "mirror.properties"
    write_file(file, address(east_west, "east"), address(east_west, "west"), "")
    file.write_text(
        file.read_text().replace("east", alias)
        + f"{alias}->west.enabled = true\n{alias}->west.topics = {topic}\nmirror.epoch.seconds = 2\n"
        "heartbeats.replication.enabled = false\nemit.checkpoints.interval.seconds = 1\n" + settings
    )
    clients = {side: {"bootstrap.servers": address(east_west, side)} for side in ("east", "west")}
    copy = topic if "Identity" in settings else f"{alias}.{topic}"
    copies = [TopicPartition(copy, number) for number in range(2)]

    def status() -> dict[str, Any]:
        (flow,) = status_of(file)
        return flow

    def copied(count: int) -> dict[str, Any]:
        return wait_until(
            status,
            f"{count} records to be copied",
            timeout_seconds=90,
            until=lambda flow: sum(each["upstream_next"] for each in flow["partitions"]) == count,
        )

    def start(number: int) -> ManagedProcess:
        command = [sys.executable, "-m", "mirror", "run", str(file)]
        return processes.start(tmp_path, f"engine-{number}", command, owner_pid=os.getpid())

    for number in range(2):
        write(clients["east"], TopicPartition(topic, number), range(10))
    engine = start(0)
    copied(20)
    before = folded(clients["west"], state_topic(alias))
    west.delete_topics([state_topic(alias)])
    flow = wait_until(
        status,
        "the loss to be told",
        timeout_seconds=60,
        until=lambda flow: any("created anew" in reason for reason in flow["reasons"]),
    )
    assert any("written again: 2 positions" in note for note in flow["notes"])
    after = folded(clients["west"], state_topic(alias))
    assert (after.positions.keys(), after.writers >= before.writers) == (before.positions.keys(), True)
    write(clients["east"], TopicPartition(topic, 0), range(10, 20))
    copied(30)
    engine.kill()
    assert "created anew" in engine.log_tail()
    write(clients["east"], TopicPartition(topic, 1), range(10, 20))
    engine = start(1)
    copied(40)
    engine.kill()
    syncs = "mm2-offset-syncs.west.internal"
    assert syncs in east.topics([syncs])
    west.delete_topics([state_topic(alias), f"mm2-offsets.{alias}.internal"])
    east.delete_topics([syncs])
    write(clients["east"], TopicPartition(topic, 0), range(20, 30))
    engine = start(2)
    if settings != SAME:
        copied(50)
    else:
        why = "nothing says that they are the source's"
        flow = wait_until(
            status,
            "both partitions to stop",
            timeout_seconds=90,
            until=lambda flow: sum(why in reason for reason in flow["reasons"]) == 2,
        )
    wait_until(
        status,
        "the loss to be told",
        timeout_seconds=30,
        until=lambda flow: any("the flow has run before" in reason for reason in flow["reasons"]),
    )
    assert engine.terminate(60)
    for each_copy, count in zip(copies, (30 if settings != SAME else 20, 20), strict=True):
        (end,) = ends_of(clients["west"], [each_copy]).values()
        copied_once = [each.value for each in read_records(clients["west"], each_copy, 0, end, read_committed=True)]
        assert copied_once == [b"value %d" % each for each in range(count)]


def test_who_was_away_for_longer_than_the_topic_keeps_deletions_reads_all_of_it_again(
    west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, client = unique("followed"), settings_of("west").client
    west.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact", "delete.retention.ms": "600000"})])
    began = steady_seconds()
    now = iter([began, began + 500, began + 1200])
    monkeypatch.setattr(log_tail, "steady_seconds", lambda: next(now))
    with closing(LogWriter(client)) as writer, closing(LogTail(client, topic)) as tail:
        writer.append(topic, 0, [(b"kept", b"value", (), 5)])
        assert [each.key for each in tail.poll()] == [b"kept"]
        assert (tail.poll(), tail.has_begun_anew) == ([], False)
        assert [each.key for each in tail.poll()] == [b"kept"]
        assert tail.has_begun_anew
