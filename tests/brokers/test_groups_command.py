"""`mirror groups`: groups are moved as planned, what was there before is saved, and put back exactly."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, address, in_process, mirror
from tests.brokers.copying import positions_of
from tests.brokers.killing import ended_at_each_write
from tests.positions import write_positions


@pytest.mark.long
def test_groups_are_moved_as_planned_and_put_back_exactly(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """One has members on the target, one has a position there already, one has none."""
    alias, topic = unique("east"), unique("orders")
    behind, fresh, used = (unique(name) for name in ("behind", "fresh", "used"))
    copy = TopicPartition(f"{alias}.{topic}", 0)
    file, saved = tmp_path / "mirror.properties", tmp_path / "before.json"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {address(east_west, 'east')}\n"
        f"west.bootstrap.servers = {address(east_west, 'west')}\n{alias}->west.enabled = true\n"
        f"{alias}->west.topics = {topic}\nheartbeats.replication.enabled = false\nmirror.epoch.seconds = 2\n{FACTORS}"
    )
    east.create_topics([NewTopic(topic, 1, 1)])
    producer = confluent_kafka.Producer({"bootstrap.servers": address(east_west, "east")})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    producer.flush()
    for group, at in ((behind, 40), (fresh, 70), (used, 90)):
        write_positions(east, group, {TopicPartition(topic, 0): GroupPosition(at, f"read by {group}")})

    def copied() -> int:
        return west.offsets([copy], "latest").get(copy, 0) if west.topics([copy.topic]) else 0

    argv = [sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    wait_until(copied, "the copy", timeout_seconds=120, until=lambda end: end == 100)
    assert engine.terminate(60)
    # As its last reader has committed it, with the leader epoch of what it has read.
    write_positions(west, behind, {copy: GroupPosition(5, "text of before", 0)})
    member = confluent_kafka.Consumer(
        {"bootstrap.servers": address(east_west, "west"), "group.id": used, "auto.offset.reset": "earliest"}
    )
    member.subscribe([copy.topic])
    wait_until(lambda: member.poll(0.2) is not None, "a member", timeout_seconds=60)

    def groups(*options: str) -> tuple[int, Any]:
        done = in_process("groups", str(file), "--groups", f"{behind}|{fresh}|{used}", *options)
        return done.returncode, json.loads(done.stdout) if "--json" in options and done.stdout else done.stderr

    def positions() -> dict[str, GroupPosition | None]:
        return {group: positions_of(west, group).get(copy) for group in (behind, fresh)}

    def epoch() -> int:
        position = positions()[behind]
        assert position is not None
        return position.leader_epoch

    before = {behind: GroupPosition(5, "text of before"), fresh: None}
    moved = {behind: GroupPosition(40, f"read by {behind}"), fresh: GroupPosition(70, f"read by {fresh}")}
    try:
        code, planned = groups("--apply", "--dry-run", "--json")
        assert (code, planned["verdict"], planned["snapshot"], positions()) == (1, "FAIL", None, before)
        rows = {row["group"]: (row["upstream"], row["before"], row["after"], row["exact"]) for row in planned["groups"]}
        assert rows[behind] == (40, 5, 40, True)
        assert rows[fresh] == (70, None, 70, True)
        (refused,) = planned["refused"]
        assert used in refused
        assert "in use" in refused
        for wrong in ((), ("--apply", "--restore", str(saved)), ("--apply",), ("--apply", "--yes", "--groups", "(")):
            assert groups(*wrong)[0] == 2
            assert positions() == before
        code, told = groups("--apply", "--yes", "--json", "--snapshot", str(saved))
        assert (code, told["snapshot"], positions(), epoch()) == (1, str(saved), moved, -1)
    finally:
        member.close()
    assert groups("--restore", str(saved), "--dry-run", "--json")[1]["verdict"] == "UNKNOWN"
    assert positions() == moved

    # Of another cluster, or no snapshot at all: nothing is touched.
    other = tmp_path / "other.json"
    other.write_text(saved.read_text().replace(west.cluster_id, "elsewhere"))
    assert groups("--restore", str(other), "--yes")[0] == 2
    assert groups("--restore", str(file), "--yes")[0] == 2

    # A group that has gone on since keeps its place.
    write_positions(west, behind, {copy: GroupPosition(45)})
    code, told = groups("--restore", str(saved), "--yes", "--json")
    assert code == 1
    assert {row["group"]: row["action"] for row in told["groups"]}[behind] == "refused"
    assert positions() == {behind: GroupPosition(45), fresh: None}
    write_positions(west, behind, {copy: moved[behind]})
    assert groups("--restore", str(saved), "--yes", "--json")[0] == 0
    assert (positions(), epoch()) == (before, 0)
    assert groups("--restore", str(saved), "--yes", "--json")[0] == 0

    # How they are put back is told in one line, however narrow the terminal: it is there to be copied.
    again = tmp_path / "again.json"
    done = in_process("groups", str(file), "--groups", fresh, "--apply", "--yes", "--snapshot", str(again))
    assert (done.returncode, positions()) == (0, before | {fresh: moved[fresh]})
    assert f"put them back with: mirror groups {file} --restore {again}\n" in done.stdout
    assert (groups("--restore", str(again), "--yes")[0], positions()) == (0, before)

    # The only record of how the groups stood is not written over.
    done = mirror("groups", str(file), "--groups", behind, "--apply", "--yes", "--snapshot", str(saved))
    assert done.returncode == 2
    assert str(saved) in done.stderr
    assert positions() == before

    # Killed at each write, and called again each time: what was there before is in the snapshots, the newest first.
    inside = tmp_path / "killed"
    inside.mkdir()
    argv = ("groups", str(file), "--groups", f"{behind}|{fresh}", "--yes")
    *killed, last = ended_at_each_write((*argv, "--apply"), tmp_path / "there", inside=inside)
    assert (last.code, positions()) == (0, moved), last.said
    assert {f"no step: {when} write_positions_of_groups" for when in ("before", "after")} <= {
        each.at for each in killed
    }
    snapshots = sorted(inside.glob("groups-*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    assert snapshots
    for number, snapshot in enumerate(snapshots):
        *killed, last = ended_at_each_write((*argv, "--restore", str(snapshot)), tmp_path / f"back-{number}")
        assert last.code == 0, last.said
    assert positions() == before
