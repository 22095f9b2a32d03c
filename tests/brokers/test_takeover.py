"""Java MirrorMaker 2 and this engine take turns on one properties file: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log_tail import LogTail
from mirror.lab import clusters, mm2, ports, processes
from mirror.lab.processes import ManagedProcess
from mirror.model import connect_offsets
from mirror.model.checkpoint import Checkpoint
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.state_values import Takeover
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, kept, mirror, status_of
from tests.brokers.copying import log_of, put_group
from tests.brokers.in_transactions import committed

PARTITIONS = 4
BACKLOG = 200_000
START_SECONDS = 240.0


@dataclass
class Turns:
    """One topic, one properties file, and whoever replicates just now."""

    directory: Path
    east: Cluster
    west: Cluster
    clients: dict[str, dict[str, str]]
    alias: str = field(default_factory=lambda: f"e{uuid.uuid4().hex[:6]}")
    more: str = ""
    shared: str = ""
    sent: int = 0
    lives: int = 0

    def __post_init__(self) -> None:
        if self.shared:
            return
        (made,) = self.east.create_topics([NewTopic(self.topic, PARTITIONS, 1, {})])
        assert made.problem is None

    @property
    def topic(self) -> str:
        return self.shared or f"turns-{self.alias}"

    @property
    def copies(self) -> list[TopicPartition]:
        return [TopicPartition(f"{self.alias}.{self.topic}", number) for number in range(PARTITIONS)]

    @property
    def file(self) -> Path:
        return kept(
            self.directory / "mirror.properties",
            f"clusters = {self.alias}, west\n"
            f"{self.alias}.bootstrap.servers = {self.clients['east']['bootstrap.servers']}\n"
            f"west.bootstrap.servers = {self.clients['west']['bootstrap.servers']}\n"
            f"{self.alias}->west.enabled = true\n{self.alias}->west.topics = {self.topic}\n"
            f"{self.alias}->west.groups = {self.alias}.*\ntasks.max = 2\n"
            f"emit.checkpoints.interval.seconds = 1\nsync.group.offsets.enabled = false\n{FACTORS}{self.more}",
        )

    def send(self, count: int) -> None:
        """Append records that no other has the like of, to all partitions in turn."""
        producer = confluent_kafka.Producer({**self.clients["east"], "linger.ms": 5, "compression.type": "lz4"})
        for number in range(self.sent, self.sent + count):
            producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
            if number % 10_000 == 0:
                producer.flush()
        assert producer.flush(30) == 0
        self.sent += count

    def copied(self) -> int:
        if self.copies[0].topic not in self.west.topics():
            return 0
        return sum(self.west.offsets(self.copies, "latest").values())

    def java(self) -> ManagedProcess:
        self.lives += 1
        return mm2.start(self.directory, self.file, name=f"mm2-{self.lives}", owner_pid=os.getpid())

    def ours(self) -> ManagedProcess:
        self.lives += 1
        command = [sys.executable, "-m", "mirror", "run", str(self.file)]
        return processes.start(self.directory, f"mirror-{self.lives}", command, owner_pid=os.getpid())

    def await_copied(self, process: ManagedProcess, count: int) -> None:
        """Wait until so much is on the target."""
        wait_until(
            lambda: self.copied() >= count or not process.is_alive(),
            f"{count} records on the target",
            timeout_seconds=START_SECONDS,
            longest_pause_seconds=0.05,
        )
        assert process.is_alive(), process.log_tail()

    def await_position(self, process: ManagedProcess) -> None:
        """Wait until the engine says that it has copied everything, and nothing is wrong."""

        def behind() -> object:
            assert process.is_alive(), process.log_tail()
            (flow,) = status_of(self.file)
            reached = sum(one["upstream_next"] for one in flow["partitions"] if one["topic"] == self.topic)
            return (reached, flow["reasons"]) if reached < self.sent or flow["state"] != "RUNNING" else None

        wait_until(behind, "everything to be copied", timeout_seconds=START_SECONDS, until=lambda left: left is None)

    def assert_same(self) -> None:
        """The copy of each partition is, record for record, the source."""
        for copy in self.copies:
            values = [int(record.value or b"-1") for record in log_of(self.clients["west"], copy)]
            assert values == list(range(copy.partition, self.sent, PARTITIONS)), copy

    def state(self) -> FlowState:
        tail = LogTail(self.clients["west"], f"mm2-state.{self.alias}.internal")
        state = FlowState()
        for each in tail.poll():
            state.apply(each.key, each.value)
        tail.close()
        return state

    def taken(self) -> list[Takeover]:
        """Return how the partitions of the topic were taken over."""
        return [each for source, each in self.state().takeovers.items() if source.topic == self.topic]

    def recorded(self) -> dict[TopicPartition, int]:
        """Return MirrorMaker's recorded positions."""
        if f"mm2-offsets.{self.alias}.internal" not in self.west.topics():
            return {}
        tail = LogTail(self.clients["west"], f"mm2-offsets.{self.alias}.internal", range(25))
        records = [(each.key, each.value) for each in tail.poll()]
        tail.close()
        found = connect_offsets.read_source_positions(records, self.alias)
        return {source: position for source, position in found.items() if source.topic == self.topic}

    def commit(self, group: str, position: int) -> None:
        """Make a group stand at a position of partition 0."""
        put_group(self.clients["east"], f"{self.alias}-{group}", TopicPartition(self.topic, 0), position)

    def translated(self) -> dict[str, dict[str, Any]]:
        """Return what ``mirror offsets`` says, by group."""
        done = mirror("offsets", str(self.file), "--flow", f"{self.alias}->west", "--json")
        assert done.returncode == 0, done.stderr
        return {one["group"].removeprefix(f"{self.alias}-"): one for one in json.loads(done.stdout)}


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Callable[..., Turns]]:
    """Clusters of its own: flows of other tests leave offset syncs of the same topics on shared ones."""
    lab = clusters.up(tmp_path / "lab", ["east", "west"], owner_pid=os.getpid())
    clients = {alias: {"bootstrap.servers": lab.clusters[alias].bootstrap_servers} for alias in ("east", "west")}
    with (
        Cluster.connect(ClusterSettings("east", clients["east"])) as east,
        Cluster.connect(ClusterSettings("west", clients["west"])) as west,
    ):
        yield lambda **more: Turns(tmp_path, east, west, clients, **more)
    clusters.down(tmp_path / "lab")


@pytest.mark.soak
def test_java_and_we_take_turns_and_nobody_sees_it_in_the_copy(turns: Callable[..., Turns]) -> None:
    """MirrorMaker is killed at full speed before it recorded anything; then each goes on where the other stopped."""
    here = turns()
    here.send(BACKLOG)
    here.commit("early", 1000)
    java = here.java()
    here.await_copied(java, 20_000)
    java.kill()
    left = here.copied()
    assert left < BACKLOG
    assert here.recorded() == {}

    ours = here.ours()
    here.await_copied(ours, BACKLOG)
    here.await_position(ours)
    here.send(1000)
    here.await_position(ours)
    here.assert_same()
    taken = here.taken()
    assert sum(each.records for each in taken) == left
    assert {each.doubled + each.others + each.gone for each in taken} == {0}
    early = here.translated()["early"]
    assert (early["downstream"], early["exact"]) == (1000, True)
    assert ours.terminate(60), ours.log_tail()
    assert sum(here.recorded().values()) == here.sent

    here.send(BACKLOG // 10)
    here.commit("middle", 55_000)
    java = here.java()
    here.await_copied(java, here.sent)
    checkpoints = LogTail(here.clients["west"], f"{here.alias}.checkpoints.internal")
    seen: list[Record] = []

    def checkpoint() -> Checkpoint | None:
        seen.extend(checkpoints.poll())
        found = [one for each in seen if (one := Checkpoint.parse(each.key, each.value))]
        return next((one for one in found if one.upstream == 55_000), None)

    # Java translates through our syncs and its own.
    translated = wait_until(checkpoint, "Java's checkpoint", timeout_seconds=START_SECONDS, until=lambda one: one)
    checkpoints.close()
    assert translated is not None
    assert 50_000 < translated.downstream <= 55_000
    java.kill()
    here.assert_same()

    here.send(1000)
    ours = here.ours()
    here.await_position(ours)
    here.assert_same()
    groups = here.translated()
    assert (groups["early"]["downstream"], groups["early"]["exact"]) == (1000, True)
    assert groups["middle"]["downstream"] <= 55_000
    assert groups["middle"]["downstream"] + groups["middle"]["behind_records"] >= 55_000
    assert ours.terminate(60), ours.log_tail()


@pytest.mark.soak
def test_nothing_is_copied_again_after_a_mm2_that_was_killed_twice_with_old_positions(
    turns: Callable[..., Turns],
) -> None:
    """What it has copied twice itself stays; the engine adds what is missing, and says how much it found."""
    here = turns(more="offset.flush.interval.ms = 2000\n")
    here.send(BACKLOG)
    java = here.java()
    here.await_copied(java, 20_000)
    java.kill()
    first = here.copied()
    here.send(BACKLOG)
    java = here.java()
    here.await_copied(java, first + 20_000)
    java.kill()
    left = {copy: log_of(here.clients["west"], copy) for copy in here.copies}

    ours = here.ours()
    here.await_position(ours)
    assert ours.terminate(60), ours.log_tail()
    state = here.state()
    for copy, before in left.items():
        source = TopicPartition(here.topic, copy.partition)
        after = log_of(here.clients["west"], copy)
        assert after[: len(before)] == before
        values = [int(record.value or b"-1") for record in after]
        furthest = max(values[: len(before)], default=copy.partition - PARTITIONS)
        assert set(values[: len(before)]) == set(range(copy.partition, furthest + 1, PARTITIONS))
        assert values[len(before) :] == list(range(furthest + PARTITIONS, here.sent, PARTITIONS))
        known = state.offset_map(source)
        assert known is not None
        for upstream in range(known.origin, here.sent // PARTITIONS, 5000):
            number = upstream * PARTITIONS + copy.partition
            place = known.translate(upstream)
            assert isinstance(place, Exact)
            # A copy of the record, the last one behind which none is missing: that need not be the last of all.
            assert values[place.downstream] == number
            assert set(values[place.downstream :]) >= set(range(number, here.sent, PARTITIONS))
    doubled = sum(len(before) for before in left.values()) - sum(
        len({record.value for record in before}) for before in left.values()
    )
    assert sum(each.doubled for each in here.taken()) <= doubled


@pytest.mark.soak
def test_a_mm2_that_was_told_to_stop_is_followed_at_its_end_and_its_groups_are_kept(
    turns: Callable[..., Turns],
) -> None:
    """An ordinary migration: nothing lies behind its position, and its syncs translate the groups that are behind."""
    here = turns()
    here.send(20_000)
    here.commit("early", 1234)
    java = here.java()
    here.await_copied(java, here.sent)
    assert java.terminate(60), java.log_tail()
    assert sum(here.recorded().values()) == here.sent
    here.commit("late", 5000)

    here.send(1000)
    ours = here.ours()
    here.await_position(ours)
    assert ours.terminate(60), ours.log_tail()
    here.assert_same()
    assert {each.upstream for each in here.taken()} == {5000}
    assert sum(each.records for each in here.taken()) < 2000
    groups = here.translated()
    assert (groups["late"]["downstream"], groups["late"]["exact"]) == (5000, True)
    early = groups["early"]
    assert early["downstream"] <= 1234 <= early["downstream"] + early["behind_records"]
    assert early["behind_records"] < 1234


@pytest.mark.soak
def test_in_transactions_they_take_turns_too_and_readers_of_committed_data_see_every_record_once(
    turns: Callable[..., Turns],
) -> None:
    """EOS-04, EOS-06: both write under the same transactional ids, so that whoever comes cuts off who was there."""
    (port,) = ports.choose(1)
    here = turns(
        more="west.exactly.once.source.support = enabled\ndedicated.mode.enable.internal.rest = true\n"
        f"listeners = http://127.0.0.1:{port}\n"
    )

    def seen() -> list[list[int]]:
        return committed(here.clients["west"], here.copies[0].topic, PARTITIONS)

    def assert_once() -> None:
        assert seen() == [list(range(number, here.sent, PARTITIONS)) for number in range(PARTITIONS)]

    here.send(BACKLOG)
    java = here.java()
    here.await_copied(java, 20_000)
    java.kill()
    assert sum(map(len, seen())) < here.copied() < BACKLOG, "markers, and what was never committed, take offsets too"

    ours = here.ours()
    here.await_position(ours)
    assert_once()
    here.send(BACKLOG // 10)
    here.await_copied(ours, BACKLOG + 1000)
    ours.kill()

    here.send(BACKLOG // 10)
    java = here.java()
    wait_until(
        lambda: sum(here.recorded().values()) >= here.sent or not java.is_alive(),
        "Java's positions at the end",
        timeout_seconds=START_SECONDS,
    )
    assert java.is_alive(), java.log_tail()
    java.kill()
    assert_once()

    here.send(1000)
    ours = here.ours()
    here.await_position(ours)
    assert_once()
    assert ours.terminate(60), ours.log_tail()


@pytest.mark.soak
def test_a_flow_with_another_alias_on_the_same_clusters_begins_by_itself(turns: Callable[..., Turns]) -> None:
    """Both flows' offset syncs have the same keys in one topic; Java's speak of its own copy, which stays."""
    javas = turns()
    javas.send(20_000)
    java = javas.java()
    javas.await_copied(java, 20_000)
    assert java.terminate(60), java.log_tail()
    ours = turns(shared=javas.topic, sent=javas.sent)
    process = ours.ours()
    ours.await_position(process)
    ours.assert_same()
    assert "has never had a record and begins at its start, although an offset sync says" in process.log_tail(200)
    assert {(each.upstream, each.records) for each in ours.taken()} == {(0, 0)}
    # A restart finds Java's syncs beyond its own position, and its own copy.
    ours.send(1000)
    assert process.terminate(60), process.log_tail()
    process = ours.ours()
    ours.await_position(process)
    ours.assert_same()
    assert process.terminate(60), process.log_tail()
