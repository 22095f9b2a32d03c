"""Positions of groups across real clusters: checkpointed, and written where failover will look for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.checkpoints import CheckpointsTick, last_checkpoints
from mirror.control.groups import GroupAction, GroupOffsetsTick
from mirror.control.heartbeats import HeartbeatsTick
from mirror.control.tick import now_ms
from mirror.control.topics import TopicsTick
from mirror.kafka.cluster import Cluster, GroupPosition, NewTopic
from mirror.kafka.log import LogTail, LogWriter
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.unit.control.builders import Table, flow_settings

Unique = Callable[[str], str]


@dataclass
class Stage:
    """A topic with ten records on the source and their copy with ten more, and a group that reads it."""

    settings: FlowSettings
    source: TopicPartition
    copy: TopicPartition
    group: str
    writer: LogWriter
    new_tail: Callable[[], LogTail]

    def checkpoints_tick(self, east: Cluster) -> CheckpointsTick:
        """Return a tick that knows upstream position n to be downstream n + 10."""
        translator = Table({(*self.source, position): Exact(position + 10) for position in range(1, 11)})
        return CheckpointsTick(self.settings, east, translator, self.new_tail(), self.writer, clock=lambda: 1234)


@pytest.fixture
def stage(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> Iterator[Stage]:
    name, group = unique("orders"), unique("billing")
    addresses = [f"{alias}.bootstrap.servers = {settings_of(alias).bootstrap_servers}" for alias in ("east", "west")]
    settings = flow_settings(*addresses, f"topics = {name}", f"groups = {group}", "sync.group.offsets.enabled = true")
    east.create_topics([NewTopic(name, 1, 1)])
    assert TopicsTick(east, west, settings).tick().problems == ()
    writer = LogWriter(settings_of("west").client)
    # Of today: what seems to be of long ago, retention deletes within seconds, and positions are raised to what is left.
    writer.append(f"east.{name}", 0, [(b"k", b"v", (), now_ms())] * 20)
    tails: list[LogTail] = []

    def new_tail() -> LogTail:
        tails.append(LogTail(settings_of("west").client, settings.checkpoints_topic))
        return tails[-1]

    yield Stage(settings, TopicPartition(name, 0), TopicPartition(f"east.{name}", 0), group, writer, new_tail)
    for each in (writer, *tails):
        each.close()


def test_a_moved_group_gets_one_checkpoint_and_a_resting_one_none(east: Cluster, stage: Stage) -> None:
    """CKP-01, CKP-05, CKP-08, CKP-09."""
    tick = stage.checkpoints_tick(east)
    assert tick.tick().done == 0
    east.write_group_positions(stage.group, {stage.source: GroupPosition(3, "note")})
    assert [tick.tick().done, tick.tick().done] == [1, 0]
    east.write_group_positions(stage.group, {stage.source: GroupPosition(7)})
    assert [tick.tick().done, tick.tick().done] == [1, 0]
    records = [
        each for each in stage.new_tail().poll() if last_checkpoints([each]).keys() & {(stage.group, stage.copy)}
    ]
    assert [last_checkpoints([each])[stage.group, stage.copy] for each in records] == [
        Checkpoint(stage.group, stage.copy, 3, 13, "note"),
        Checkpoint(stage.group, stage.copy, 7, 17, ""),
    ]
    assert {record.timestamp for record in records} == {1234}


def test_checkpoints_written_before_a_start_count(east: Cluster, stage: Stage) -> None:
    """CKP-03: also those of another mirror."""
    written = Checkpoint(stage.group, stage.copy, 3, 13, "")
    stage.writer.append(stage.settings.checkpoints_topic, 0, [(written.key_bytes(), written.value_bytes(), (), 1)])
    east.write_group_positions(stage.group, {stage.source: GroupPosition(3)})
    tick = stage.checkpoints_tick(east)
    assert (tick.tick().done, tick.tick().problems) == (0, ())
    (decision,) = tick.decisions
    assert decision.checkpoint == written
    east.write_group_positions(stage.group, {stage.source: GroupPosition(2)})
    assert tick.tick().done == 1


def test_an_idle_group_follows_its_checkpoints_forward_and_never_back(
    east: Cluster, west: Cluster, stage: Stage
) -> None:
    """GOS-02, GOS-05."""
    checkpoints = stage.checkpoints_tick(east)
    offsets = GroupOffsetsTick(stage.settings, west, lambda: list(checkpoints.latest.values()))

    def after(position: int) -> int:
        east.write_group_positions(stage.group, {stage.source: GroupPosition(position)})
        assert checkpoints.tick().problems == ()
        assert offsets.tick().problems == ()
        return west.group_positions(stage.group)[stage.copy].position

    assert after(3) == 13
    assert after(8) == 18
    assert after(2) == 18
    (decision,) = offsets.decisions
    assert decision.action is GroupAction.SKIP_REWIND


def test_a_group_with_members_on_the_target_is_left_to_them_until_they_are_gone(
    east: Cluster, west: Cluster, stage: Stage
) -> None:
    """GOS-03: MirrorMaker 2 leaves this to the broker."""
    checkpoints = stage.checkpoints_tick(east)
    offsets = GroupOffsetsTick(stage.settings, west, lambda: list(checkpoints.latest.values()))
    # It must not commit what it may be handed.
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": west.bootstrap_servers, "group.id": stage.group, "enable.auto.commit": False}
    )
    consumer.subscribe([stage.copy.topic])
    try:
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment", timeout_seconds=30)
        east.write_group_positions(stage.group, {stage.source: GroupPosition(3)})
        checkpoints.tick()
        report = offsets.tick()
        assert (report.done, report.problems) == (0, ())
        (decision,) = offsets.decisions
        assert decision.action is GroupAction.SKIP_ACTIVE
    finally:
        consumer.close()
    wait_until(lambda: offsets.tick().done, "the group to be idle", timeout_seconds=20)
    assert west.group_positions(stage.group)[stage.copy].position == 13


def test_a_checkpoint_beyond_the_end_of_the_copy_is_a_problem_and_not_written(west: Cluster, stage: Stage) -> None:
    beyond = Checkpoint(stage.group, stage.copy, 100, 21, "")
    report = GroupOffsetsTick(stage.settings, west, lambda: [beyond]).tick()
    (problem,) = report.problems
    assert "the checkpoint says 21, but the log ends at 20" in problem
    assert west.group_positions(stage.group) == {}


def test_heartbeats_arrive_on_the_target(west: Cluster, stage: Stage) -> None:
    """HB-01."""
    end = {TopicPartition("heartbeats", 0)}
    before = west.offsets(end, "latest")
    assert HeartbeatsTick(stage.settings, stage.writer).tick().problems == ()
    after = west.offsets(end, "latest")
    assert [after[each] - before[each] for each in end] == [1]
