"""`mirror gaps` as a process beside a running engine: it lists what is missing, and an acknowledgement lets it go on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.waiting import wait_until
from tests.brokers.command import address, in_process, mirror, status_of, write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.run_first import AN_HOUR, WallClock
from tests.spark.small import small_spark


@pytest.mark.long
def test_a_strict_engine_stops_at_a_gap_says_so_and_goes_on_once_it_is_acknowledged(
    east_west: Lab, east: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The status is DEGRADED until then; who acknowledged, when and why is kept."""
    topic = unique("strict")
    east.create_topics([NewTopic(topic, 1, 1, {})])
    more = (
        f"east->west.enabled = true\neast->west.topics = {topic}\n"
        "mirror.epoch.seconds = 2\nmirror.gaps = continue\neast->west.mirror.gaps = stop\n"
        # Other tests have Java MirrorMaker copy heartbeats between these clusters.
        "heartbeats.replication.enabled = false\n"
    )
    file = write(tmp_path / "mirror.properties", address(east_west, "east"), address(east_west, "west"), more)
    client = {"bootstrap.servers": address(east_west, "east")}
    producer, admin = confluent_kafka.Producer(client), AdminClient(client)

    def send(first: int, count: int) -> None:
        for number in range(first, first + count):
            producer.produce(topic, b"%d" % number)
        producer.flush()

    def status() -> dict[str, Any]:
        (flow,) = status_of(file)
        return flow

    def copied(flow: dict[str, Any]) -> int:
        return sum(one["upstream_next"] for one in flow["partitions"] if one["topic"] == topic)

    def gaps(*argv: str) -> tuple[int, list[dict[str, Any]]]:
        done = in_process("gaps", str(file), "--flow", "east->west", "--topic", topic, "--json", *argv)
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    argv = [sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine-0", argv, owner_pid=os.getpid())
    send(0, 10)
    wait_until(status, "a copy", timeout_seconds=90, until=lambda flow: copied(flow) == 10)
    assert gaps() == (0, [])
    assert mirror("gaps", str(file), "--topic", topic).stdout == "There is no gap.\n"
    engine.kill()
    send(10, 90)
    for done in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 50)]).values():
        done.result(20)
    engine = processes.start(tmp_path, "engine-1", argv, owner_pid=os.getpid())
    try:
        # The gap is told as soon as it is recorded, the stop when the epoch ends.
        degraded = wait_until(
            status,
            "the status to tell",
            timeout_seconds=120,
            until=lambda flow: any(topic in reason and "is stopped" in reason for reason in flow["reasons"]),
        )
        code, (gap,) = gaps()
        shown = ("flow", "topic", "partition", "from", "to", "count", "kind", "stops_the_copy", "acknowledged")
        assert code == 1
        assert [gap[name] for name in shown] == ["east->west", topic, 0, 10, 50, 40, "retention", True, None]
        assert (degraded["state"], copied(degraded)) == ("DEGRADED", 10)
        assert any("offsets 10 to 49" in reason and "mirror gaps FILE" in reason for reason in degraded["reasons"])
        table = in_process("gaps", str(file), "--topic", topic)
        assert "The copy is stopped." in " ".join(table.stdout.split())
        assert in_process("gaps", str(file), "--acknowledge").returncode == 2
        code, acknowledged = gaps("--acknowledge", "--reason", "a test", "--by", "ann", "--yes")
        assert code == 0
        known = acknowledged[0]["acknowledged"]
        assert (known["by"], known["reason"]) == ("ann", "a test")
        running = wait_until(
            status,
            "the copy to go on",
            timeout_seconds=30,
            until=lambda flow: copied(flow) == 100 and flow["state"] == "RUNNING",
        )
        assert running["reasons"] == []
        code, (passed,) = gaps()
        assert (code, passed["acknowledged"], passed["stops_the_copy"]) == (0, known, False)
        assert gaps("--acknowledge", "--reason", "again", "--yes") == (0, [])
        small_spark(tmp_path)
        verified = json.loads(in_process("verify", str(file), "--json").stdout)
        (compared,) = verified["partitions"]
        assert (verified["verdict"], compared["upstream_start"], compared["records"]) == ("PASS", 50, 50)
        told = f"{topic}-0 10..49 acknowledged as lost on {known['at']} by ann (a test), not compared"
        assert compared["notes"] == [told]
    finally:
        assert engine.terminate(60)


@pytest.mark.long
def test_an_acknowledgement_lets_the_copy_go_on_although_clocks_step_back(engines: Engines, tmp_path: Path) -> None:
    """Of two gaps the newer one bears the earlier time, and each is acknowledged an hour before it was found."""
    engines.settings = "mirror.gaps = stop\nmirror.epoch.seconds = 2\n"
    clock, admin = WallClock(tmp_path / "clock"), AdminClient(engines.source)
    engine = engines.running["engine"] = engines.start(env=clock.env)
    engines.send(10 * PARTITIONS)
    engines.await_all()
    left, found = [*range(10)], list[dict[str, Any]]()

    def stopping() -> list[dict[str, Any]]:
        return [
            one for one in json.loads(in_process("gaps", str(engines.file), "--json").stdout) if one["stops_the_copy"]
        ]

    for hours, first in ((1, 10), (0, 110)):
        # All that is copied is on record: nothing but the gap is to be found.
        assert engine.terminate(60)
        engines.send(100 * PARTITIONS)
        for deleted in admin.delete_records([confluent_kafka.TopicPartition(engines.topic, 0, first + 50)]).values():
            deleted.result(20)
        clock.set(hours * AN_HOUR)
        engine = engines.running["engine"] = engines.start(env=clock.env)
        wait_until(stopping, "the copy to stop", timeout_seconds=120)
        clock.set((hours - 1) * AN_HOUR)
        done = mirror(
            "gaps", str(engines.file), "--acknowledge", "--reason", "a test", "--yes", "--json", env=clock.env
        )
        found += json.loads(done.stdout)
        left += range(first + 50, first + 100)
        wanted = [number * PARTITIONS for number in left]
        wait_until(lambda: engines.numbers()[0], "the copy to go on", timeout_seconds=60, until=wanted.__eq__)

    assert [(one["from"], one["to"]) for one in found] == [(10, 60), (110, 160)]
    assert found[0]["found_at"] > found[1]["found_at"]
    assert all(one["acknowledged"]["at"] < one["found_at"] for one in found)
    # It is recorded behind what is copied.
    wait_until(lambda: not stopping(), "no gap to stop the copy", timeout_seconds=60)
