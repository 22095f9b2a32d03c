"""`mirror run` with transactions, as processes: killed, frozen, thawed, superseded, and verified."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused, LeaderUnknown
from mirror.lab import faults, processes
from mirror.model.flow_state import FlowState
from mirror.model.state_record import state_topic
from mirror.recovery.verify import plan_pairs
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, mirror, status_of
from tests.brokers.in_transactions import committed


@pytest.mark.soak
def test_killed_or_frozen_and_thawed_an_engine_leaves_every_record_once_for_readers_of_committed_data(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Kill -9 the first engine, freeze the second with all its processes, run a third, thaw the second."""
    topic, alias = unique("once"), unique("shop").replace("-", "")
    east.create_topics([NewTopic(topic, 2, 1)])
    source, target = dict(settings_of("east").client), dict(settings_of("west").client)
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n"
        f"{alias}.bootstrap.servers = {source['bootstrap.servers']}\n"
        f"west.bootstrap.servers = {target['bootstrap.servers']}\n"
        f"{alias}->west.enabled = true\n{alias}->west.topics = {topic}\n"
        f"west.exactly.once.source.support = enabled\nmirror.epoch.seconds = 3\nmirror.tasks = 2\n{FACTORS}"
    )
    producer = Producer({**source, "linger.ms": 5, "compression.type": "lz4"})
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        for number in range(sent, sent + count):
            producer.produce(topic, b"%d" % number, partition=number % 2)
            if number % 500 == 0:
                producer.flush()
        producer.flush()
        sent += count

    def copied() -> int:
        tail = LogTail(target, state_topic(alias))
        state = FlowState()
        try:
            for each in tail.poll():
                state.apply(each.key, each.value)
        except (BrokerRefused, LeaderUnknown):
            return 0
        finally:
            tail.close()
        return sum(position.upstream for source, position in state.positions.items() if source.topic == topic)

    def until_copied(enough: int, engine: processes.ManagedProcess) -> None:
        wait_until(
            lambda: copied() >= enough or not engine.is_alive(), f"{enough} records to be copied", timeout_seconds=120
        )
        assert engine.is_alive(), engine.log_tail()

    def start(name: str) -> processes.ManagedProcess:
        return processes.start(
            tmp_path, name, [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
        )

    def notes() -> list[str]:
        (flow,) = status_of(file)
        return list(flow["notes"])

    first = start("first")
    send(10_000)
    until_copied(1, first)
    send(10_000)
    first.kill()
    second = start("second")
    until_copied(20_000, second)
    send(10_000)
    faults.suspend([second])
    third = start("third")
    send(10_000)
    until_copied(sent, third)
    faults.resume([second])
    send(10_000)
    wait_until(lambda: " stands by" in "".join(notes()), "the thawed engine to stand by", timeout_seconds=60)
    until_copied(sent, third)
    expected = [list(range(number, sent, 2)) for number in range(2)]
    assert committed(target, f"{alias}.{topic}", 2) == expected
    (settings,) = load(file).enabled_flows
    groups: list[Any] = [list(pair.runs) for pair in plan_pairs(settings, load(file).clusters).pairs]
    assert all(len(runs) > 1 for runs in groups)
    verified = mirror("verify", str(file), "--json", timeout_seconds=180.0)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["verdict"] == "PASS"
    for engine in (second, third):
        assert engine.terminate(60)
        assert engine.return_code() == 0, engine.log_tail()
    last = json.loads(mirror("status", str(file), "--json").stdout)
    assert last["flows"][0]["state"] == "STOPPED"
