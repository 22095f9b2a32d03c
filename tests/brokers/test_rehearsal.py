"""A test failover on real clusters, while `mirror run`, producers and readers go on: measured, judged, and gone without trace."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from mirror.config.settings import MirrorSettings, load
from mirror.control.shadow_groups import create_shadows, delete_shadows, find_shadows
from mirror.engine.rehearsal import rehearse
from mirror.engine.rehearsal_plan import RehearsalPlan, plan_rehearsal
from mirror.kafka.cluster import Cluster, GroupPosition, NewTopic
from mirror.kafka.group_reader import ReadLimits
from mirror.lab import processes
from mirror.model.partition import TopicPartition
from mirror.model.shadow import TakenFrom, TriedPartition
from mirror.model.verdict import Verdict
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, mirror

_LIMITS = ReadLimits(records=30, seconds=12.0)


@dataclass
class Flowing:
    """A flow at work: a topic of three partitions, the last without a record; one group that moves, one that rests."""

    file: Path
    settings: MirrorSettings
    topic: str
    live: str
    resting: str

    def plan(self, *, group: str, taken_from: TakenFrom = TakenFrom.CHECKPOINTS) -> RehearsalPlan:
        (flow,) = self.settings.enabled_flows
        return plan_rehearsal(self.settings, flow, pattern=group, taken_from=taken_from)


@pytest.fixture
def flowing(east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Flowing]:
    topic, live, resting, alias = unique("orders"), unique("live"), unique("resting"), unique("shop").replace("-", "")
    east.create_topics([NewTopic(topic, 3, 1)])
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {east.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"topics = {topic}\ngroups = {live}, {resting}\nemit.checkpoints.interval.seconds = 1\n"
        f"refresh.groups.interval.seconds = 1\n{FACTORS}"
    )
    engine = processes.start(tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(file)])
    stop = threading.Event()
    threads = [
        threading.Thread(target=_produce, args=(east.bootstrap_servers, topic, stop)),
        threading.Thread(target=_consume, args=(east.bootstrap_servers, topic, live, stop)),
    ]
    for thread in threads:
        thread.start()
    try:
        end = wait_until(
            lambda: east.offsets([TopicPartition(topic, 0)], "latest")[TopicPartition(topic, 0)],
            "some records",
            timeout_seconds=20,
            until=lambda offset: offset >= 100,
        )
        # Right behind the first record, and in the middle.
        east.write_group_positions(
            resting, {TopicPartition(topic, 0): GroupPosition(1), TopicPartition(topic, 1): GroupPosition(end // 2)}
        )
        copy = TopicPartition(f"{alias}.{topic}", 0)
        # The state topic is there before anything is copied.
        wait_until(lambda: west.offsets([copy], "latest").get(copy), "the first copy", timeout_seconds=60)
        found = Flowing(file, load(file), topic, live, resting)
        wait_until(
            lambda: [each.is_tried for each in found.plan(group=f"{live}|{resting}").partitions],
            "checkpoints of both groups",
            timeout_seconds=60,
            until=lambda tried: len(tried) >= 4 and all(tried),
        )
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        engine.terminate(15)


def _produce(servers: str, topic: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    number = 0
    while not stop.wait(0.01):
        for partition in range(2):
            producer.produce(topic, b"%d" % number, key=b"%d" % (number % 7), partition=partition)
        number += 1
        producer.poll(0)
    producer.flush()


def _consume(servers: str, topic: str, group: str, stop: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 300,
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        consumer.consume(100, 0.1)
    consumer.close()


def _shifted(plan: RehearsalPlan, partition: int, records: int) -> RehearsalPlan:
    """Return a plan whose position on one partition is wrong by so many records."""
    return replace(
        plan,
        partitions=tuple(
            replace(each, position=each.position + records)
            if each.target.partition == partition and each.position is not None
            else each
            for each in plan.partitions
        ),
    )


def _of(tried: tuple[TriedPartition, ...], partition: int) -> TriedPartition:
    (found,) = [each for each in tried if each.plan.target.partition == partition]
    return found


def test_shadows_of_groups_read_on_from_where_the_groups_stand_and_a_wrong_position_is_named(
    flowing: Flowing, east: Cluster, west: Cluster
) -> None:
    """The command as people run it; then positions made wrong by one record, either way; then what a crash leaves."""
    groups = f"{flowing.live}|{flowing.resting}"
    before = east.group_positions(flowing.resting)

    done = mirror("rehearse", str(flowing.file), "--group", groups, "--records", "30", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"], found["reasons"]) == (0, "PASS", [])
    by_group = {row["group"]: row for row in found["groups"]}
    assert all(row["records"] > 0 and row["skipped"] == 0 and row["seconds_to_first"] for row in by_group.values())
    assert by_group[flowing.resting]["read_again"] == [0, 0]
    assert by_group[flowing.live]["read_again"][1] <= by_group[flowing.live]["forecast_read_again"]
    moved = {(row["cluster"] == "west", row["group"]): row["by"] for row in found["untouched"] if row["moved"]}
    assert moved == {(False, flowing.live): "its members"}, "the live group reads on, and nothing else moved"
    assert {row["problem"] for row in found["deleted"]} == {None}
    assert (find_shadows(east), find_shadows(west)) == ((), ())
    assert east.group_positions(flowing.resting) == before
    assert {flowing.live, flowing.resting}.isdisjoint(each.group for each in west.groups())

    late = rehearse(flowing.settings, _shifted(flowing.plan(group=flowing.resting), 1, +1), _LIMITS)
    early = rehearse(flowing.settings, _shifted(flowing.plan(group=flowing.resting), 0, -1), _LIMITS)
    for found_wrong, partition, displaced, said in (
        (late, 1, 1, "1 records too late"),
        (early, 0, -1, "1 records too early"),
    ):
        wrong, right = _of(found_wrong.partitions, partition), _of(found_wrong.partitions, 1 - partition)
        assert (found_wrong.verdict, wrong.verdict, wrong.displaced) == (Verdict.FAIL, Verdict.FAIL, displaced)
        assert said in wrong.reasons[0]
        assert right.verdict is Verdict.PASS
    assert _of(late.partitions, 1).skipped == 1
    assert _of(early.partitions, 0).read_again == (1, 1)

    plan = flowing.plan(group=groups, taken_from=TakenFrom.SOURCE)
    assert create_shadows(west, plan.stamp, plan.partitions) == {}
    assert set(find_shadows(west)) == set(plan.shadows.values())
    listed = mirror("rehearse", str(flowing.file), "--clean", "--dry-run")
    assert listed.returncode == 1
    assert all(mirror("rehearse", str(flowing.file), "--clean").returncode == 0 for _ in range(2))
    assert find_shadows(west) == ()


def test_no_other_group_is_ever_deleted(west: Cluster, unique: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match="not a shadow group"):
        delete_shadows(west, [unique("billing")])
