"""Positions of groups across real clusters: checkpointed, and written where failover will look for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import confluent_kafka
import pytest

from mirror.client import translate_offsets
from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.checkpoint_copies import CheckpointCopies
from mirror.control.checkpoints import CheckpointsTick, last_checkpoints
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.control.group_translator import GroupTranslator
from mirror.control.group_view import TranslatedPosition, view_groups
from mirror.control.groups import GroupAction, GroupOffsetsTick, Recorder, recorder
from mirror.control.heartbeats import HeartbeatsTick
from mirror.control.tick import now_ms
from mirror.control.topics import TopicsTick
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import LogWriter
from mirror.kafka.log_tail import LogTail
from mirror.lab import faults
from mirror.model.checkpoint import Checkpoint
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import state_topic
from mirror.model.state_values import chunk_record
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.brokers.copying import positions_of
from tests.positions import write_positions
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
    log: FlowLog

    def records(self) -> tuple[Recorder, FlowLog]:
        """Return what a tick records placements with, and reads them from."""
        return recorder(self.settings, self.writer), self.log

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

    log = FlowLog(settings_of("west").client, state_topic("east"), alias="west")
    yield Stage(settings, TopicPartition(name, 0), TopicPartition(f"east.{name}", 0), group, writer, new_tail, log)
    open_logs: tuple[LogWriter | FlowLog | LogTail, ...] = (writer, log, *tails)
    for each in open_logs:
        each.close()


def test_a_moved_group_gets_one_checkpoint_and_a_resting_one_none(east: Cluster, stage: Stage) -> None:
    """CKP-01, CKP-05, CKP-08, CKP-09."""
    tick = stage.checkpoints_tick(east)
    assert tick.tick().done == 0
    write_positions(east, stage.group, {stage.source: GroupPosition(3, "note")})
    assert [tick.tick().done, tick.tick().done] == [1, 0]
    write_positions(east, stage.group, {stage.source: GroupPosition(7)})
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
    write_positions(east, stage.group, {stage.source: GroupPosition(3)})
    tick = stage.checkpoints_tick(east)
    assert (tick.tick().done, tick.tick().problems) == (0, ())
    (decision,) = tick.decisions
    assert decision.checkpoint == written
    write_positions(east, stage.group, {stage.source: GroupPosition(2)})
    assert tick.tick().done == 1


def test_an_idle_group_follows_its_checkpoints_forward_and_never_back(
    east: Cluster, west: Cluster, stage: Stage
) -> None:
    """GOS-02, GOS-05; and not forward again to where it was put before, once it was set back by hand."""
    checkpoints = stage.checkpoints_tick(east)
    offsets = GroupOffsetsTick(stage.settings, west, checkpoints.writable, *stage.records())

    def after(position: int) -> int:
        write_positions(east, stage.group, {stage.source: GroupPosition(position)})
        assert checkpoints.tick().problems == ()
        assert offsets.tick().problems == ()
        return positions_of(west, stage.group)[stage.copy].position

    assert after(3) == 13
    assert after(8) == 18
    assert after(2) == 18
    assert [each.action for each in offsets.decisions] == [GroupAction.SKIP_REWIND]
    assert after(10) == 20
    write_positions(west, stage.group, {stage.copy: GroupPosition(5)})
    assert after(10) == 5
    assert [each.action for each in offsets.decisions] == [GroupAction.SKIP_SET_BACK]


def test_a_group_with_members_on_the_target_is_left_to_them_until_they_are_gone(
    east: Cluster, west: Cluster, stage: Stage
) -> None:
    """GOS-03: MirrorMaker 2 leaves this to the broker."""
    checkpoints = stage.checkpoints_tick(east)
    offsets = GroupOffsetsTick(stage.settings, west, checkpoints.writable, *stage.records())
    # It must not commit what it may be handed.
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": west.bootstrap_servers, "group.id": stage.group, "enable.auto.commit": False}
    )
    consumer.subscribe([stage.copy.topic])
    try:
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment", timeout_seconds=30)
        write_positions(east, stage.group, {stage.source: GroupPosition(3)})
        checkpoints.tick()
        report = offsets.tick()
        assert (report.done, report.problems) == (0, ())
        (decision,) = offsets.decisions
        assert decision.action is GroupAction.SKIP_ACTIVE
    finally:
        consumer.close()
    wait_until(lambda: offsets.tick().done, "the group to be idle", timeout_seconds=60)
    assert positions_of(west, stage.group)[stage.copy].position == 13


def test_positions_are_written_without_leader_epochs(
    west: Cluster, stage: Stage, settings_of: Callable[[str], ClusterSettings]
) -> None:
    """CKP-08: one of the source's, larger than the target's, would send readers looking for a leader for ever."""
    write_positions(west, stage.group, {stage.copy: GroupPosition(3)})
    consumer = confluent_kafka.Consumer({**settings_of("west").client, "group.id": stage.group})
    try:
        (committed,) = consumer.committed([confluent_kafka.TopicPartition(*stage.copy)], 10)
    finally:
        consumer.close()
    assert (committed.offset, committed.leader_epoch) == (3, None)


def test_a_checkpoint_beyond_the_end_of_the_copy_is_a_problem_and_not_written(west: Cluster, stage: Stage) -> None:
    beyond = Checkpoint(stage.group, stage.copy, 100, 21, "")
    report = GroupOffsetsTick(stage.settings, west, lambda: [beyond], *stage.records()).tick()
    (problem,) = report.problems
    assert "the checkpoint says 21, but the log ends at 20" in problem
    assert positions_of(west, stage.group) == {}


class Direction:
    """The checkpoints and group positions of one of two flows between the clusters, by the state that lies there."""

    def __init__(
        self, settings: FlowSettings, source: tuple[Cluster, ClusterSettings], target: tuple[Cluster, ClusterSettings]
    ) -> None:
        flow, (cluster, client) = settings.flow, target
        self._closing = ExitStack()
        writer = self._closing.enter_context(closing(LogWriter(client.client)))
        tail = self._closing.enter_context(closing(LogTail(client.client, settings.checkpoints_topic)))
        log = self._closing.enter_context(closing(FlowLog(client.client, state_topic(flow.source), alias=flow.target)))

        def find_opposite() -> FlowLog | None:
            opposite = FlowLog(source[1].client, state_topic(flow.target), alias=flow.source)
            if opposite.exists():
                return self._closing.enter_context(closing(opposite))
            opposite.close()
            return None

        between = FlowTranslator(log, find_opposite, settings.policy, flow.target)
        translator = self._closing.enter_context(closing(GroupTranslator(between)))
        self._checkpoints = CheckpointsTick(
            settings,
            source[0],
            translator,
            tail,
            writer,
            before_translating=translator.refresh,
            copies=CheckpointCopies(between),
            record=recorder(settings, writer),
        )
        self._positions = GroupOffsetsTick(
            settings, cluster, self._checkpoints.writable, recorder(settings, writer), log
        )

    def round(self) -> None:
        assert self._checkpoints.tick().problems == ()
        assert self._positions.tick().problems == ()

    def groups_only(self) -> None:
        assert self._positions.tick().problems == ()

    def close(self) -> None:
        self._closing.close()


def test_between_two_flows_a_group_is_moved_home_by_what_it_has_read_and_not_by_where_it_was_put(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> None:
    """The copy lost its first 5,000 records; of those the source has, the group passes none that it has not read."""
    name, group = unique("orders"), unique("billing")
    lines = [f"{alias}.bootstrap.servers = {settings_of(alias).bootstrap_servers}" for alias in ("east", "west")]
    lines += [f"topics = {name}", "west->east.topics = .*orders.*", f"groups = {group}"]
    lines += ["sync.group.offsets.enabled = true", "west->east.enabled = true"]
    there, back = (flow_settings(*lines, flow=flow) for flow in ("east->west", "west->east"))
    source, copy = TopicPartition(name, 0), TopicPartition(f"east.{name}", 0)
    east.create_topics([NewTopic(name, 1, 1)])
    for pair, settings in (((east, west), there), ((west, east), back)):
        assert TopicsTick(*pair, settings).tick().problems == ()
    run = Run(0, 0, 8000)
    state = [chunk_record(source, 0, [run]), Position(8000, 8000, 0, True, target=copy.topic).record(source)]
    for alias, partition in (("east", source), ("west", copy)):
        with closing(LogWriter(settings_of(alias).client)) as writer:
            writer.append(partition.topic, 0, [(b"k", b"v", (), now_ms())] * 8000)
            if alias == "west":
                writer.append(state_topic("east"), 0, [(*each, (), now_ms()) for each in state])
    write_positions(east, group, {source: GroupPosition(2000)})
    faults.remove_first_records(west.bootstrap_servers, copy, 5000)
    ends = {alias: (cluster, settings_of(alias)) for alias, cluster in (("east", east), ("west", west))}

    def after_rounds() -> tuple[int, int]:
        for each in (outward, homeward, outward, homeward):
            each.round()
        return positions_of(east, group)[source].position, positions_of(west, group)[copy].position

    with (
        closing(Direction(there, ends["east"], ends["west"])) as outward,
        closing(Direction(back, ends["west"], ends["east"])) as homeward,
    ):
        assert after_rounds() == (2000, 5000)
        # It reads on, and is still handed at home what it was put behind.
        write_positions(west, group, {copy: GroupPosition(5600)})
        assert after_rounds() == (2000, 5600)
        write_positions(east, group, {source: GroupPosition(6000)})
        assert after_rounds() == (6000, 6000)
        # What it reads from there on counts at home.
        write_positions(west, group, {copy: GroupPosition(6500)})
        assert after_rounds() == (6500, 6500)
        # Set back by hand it stays there: it has read nothing on the other side.
        write_positions(east, group, {source: GroupPosition(1000)})
        assert after_rounds()[0] == 1000


@dataclass
class Anew:
    """A flow whose group of one stands at 1,000 of 2,000 records copied one to one; then something begins anew."""

    settings: FlowSettings
    clusters: dict[str, ClusterSettings]
    source: TopicPartition
    copy: TopicPartition
    group: str
    direction: Direction

    def record(self, position: Position, *runs: Run) -> None:
        with closing(LogWriter(self.clusters["west"].client)) as writer:
            records = [chunk_record(self.source, 0, runs), position.record(self.source)]
            writer.append(state_topic("east"), 0, [(*each, (), now_ms()) for each in records])

    def write(self, alias: str, partition: TopicPartition, count: int) -> None:
        with closing(LogWriter(self.clusters[alias].client)) as writer:
            writer.append(partition.topic, 0, [(b"k", b"v", (), now_ms())] * count)

    def without_the_source(self) -> TranslatedPosition:
        """Return where the group would go on if the source were lost now."""
        (found,) = view_groups(self.settings, self.clusters, pattern=self.group, ask_source=False).positions
        return found

    def for_applications(self) -> int:
        """Return what programs are told that ask with RemoteClusterUtils."""
        found = translate_offsets(self.clusters["west"].client, "east", self.group)
        return found[self.copy].position


@pytest.fixture
def anew(east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique) -> Iterator[Anew]:
    name, group = unique("orders"), unique("billing")
    lines = [f"{alias}.bootstrap.servers = {settings_of(alias).bootstrap_servers}" for alias in ("east", "west")]
    settings = flow_settings(*lines, f"topics = {name}", f"groups = {group}", "sync.group.offsets.enabled = true")
    east.create_topics([NewTopic(name, 1, 1)])
    assert TopicsTick(east, west, settings).tick().problems == ()
    source, copy = TopicPartition(name, 0), TopicPartition(f"east.{name}", 0)
    clients = {alias: settings_of(alias) for alias in ("east", "west")}
    with closing(Direction(settings, (east, clients["east"]), (west, clients["west"]))) as direction:
        made = Anew(settings, clients, source, copy, group, direction)
        made.write("east", source, 2000)
        made.write("west", copy, 2000)
        made.record(Position(2000, 2000, 0, True, topic_id="old", target_id="old", target=copy.topic), Run(0, 0, 2000))
        write_positions(east, group, {source: GroupPosition(1000)})
        direction.round()
        assert (made.for_applications(), made.without_the_source().downstream) == (1000, 1000)
        assert positions_of(west, group)[copy].position == 1000
        yield made


def test_after_the_source_was_created_anew_a_group_that_read_the_old_one_passes_nothing_of_it(
    east: Cluster, west: Cluster, anew: Anew
) -> None:
    """Its old position means nothing in the new topic: through the new map it would lead to the end of the copy."""
    east.delete_topics([anew.source.topic])
    east.create_topics([NewTopic(anew.source.topic, 1, 1)])
    wait_until(
        lambda: positions_of(east, anew.group), "the position to go", timeout_seconds=60, until=lambda some: not some
    )
    anew.write("west", anew.copy, 100)
    position = Position(100, 2100, 0, True, topic_id="new", target_id="old", target=anew.copy.topic, incarnation=1)
    anew.record(position, Run(0, 2000, 100))
    assert anew.without_the_source().downstream == 1000
    anew.direction.round()
    assert (anew.for_applications(), anew.without_the_source().downstream) == (1000, 1000)
    assert positions_of(west, anew.group)[anew.copy].position == 1000


def test_after_the_copy_was_created_anew_the_lower_checkpoint_counts_for_groups_and_applications(
    east: Cluster, west: Cluster, anew: Anew
) -> None:
    """Of the source only what lies from 900 on is left to be copied; the old position lies beyond the new log's end."""
    west.delete_topics([anew.copy.topic])
    wait_until(
        lambda: west.topics([anew.copy.topic]), "the copy to go", timeout_seconds=60, until=lambda some: not some
    )
    west.create_topics([NewTopic(anew.copy.topic, 1, 1)])
    position = Position(2000, 1100, 900, False, topic_id="old", target_id="new", target=anew.copy.topic, incarnation=1)
    anew.write("west", anew.copy, 1100)
    anew.record(position, Run(900, 0, 1100))
    # As long as no round has put it right, nobody is put where the old one says, though the log is long enough.
    assert anew.without_the_source().downstream == 100
    anew.direction.groups_only()
    assert positions_of(west, anew.group) == {}
    anew.direction.round()
    assert (anew.for_applications(), anew.without_the_source().downstream) == (100, 100)
    assert positions_of(west, anew.group)[anew.copy].position == 100


def test_heartbeats_arrive_on_the_target(west: Cluster, stage: Stage) -> None:
    """HB-01."""
    end = {TopicPartition("heartbeats", 0)}
    before = west.offsets(end, "latest")
    assert HeartbeatsTick(stage.settings, stage.writer).tick().problems == ()
    after = west.offsets(end, "latest")
    assert [after[each] - before[each] for each in end] == [1]
