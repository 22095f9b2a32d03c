"""`mirror status` names who writes to the old cluster of a flow that is failed over, and ends with 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.state_record import state_topic
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.engine_pausing import EnginePausing
from tests.brokers.command import FACTORS, in_process, mirror
from tests.brokers.copying import NewCopying, write


def test_who_writes_to_the_old_cluster_behind_a_failover_is_named_in_the_status_and_its_exit_code(
    east: Cluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    new_copying: NewCopying,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    alias = unique("shop").replace("-", "")
    client = dict(settings_of("east").client)
    west.create_topics([NewTopic(state_topic(alias), 1, 1, {"cleanup.policy": "compact"})])
    copying = new_copying(state_topic=state_topic(alias), partitions=2)
    source, other = copying.pairs
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {east.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"topics = {source.topic}\n{FACTORS}"
    )
    settings = load(file)
    (flow,) = settings.enabled_flows
    ends = ClusterEnds(settings, flow, EnginePausing(settings, awaits_open_ends=False), None)  # type: ignore[arg-type]

    def status(*options: str) -> tuple[int, dict[str, Any]]:
        done = in_process("status", str(file), "--json", *options)
        (found,) = json.loads(done.stdout)["flows"]
        return done.returncode, found

    for each in (source, other):
        write(client, each, range(20))
    copying.until_caught_up()
    assert status()[1]["fenced_side"] is None
    ends.pause()
    ends.put(FailoverEntry("run", "planned", Phase.DONE, "elsewhere", 1))
    code, found = status()
    assert (code, found["fenced_side"]["still_written"], found["fenced_side"]["problem"]) == (0, [], None)
    (moved,) = found["failovers"]
    assert moved == {
        "run": "run",
        "mode": "planned",
        "phase": "done",
        "since": "1970-01-01T00:00:00Z",
        "where": "elsewhere",
    }
    assert "failed over: the applications are on west" in found["reasons"][0]
    ready = json.loads(in_process("readiness", str(file), "--json").stdout)
    assert [(each["class"], each["where"]) for each in ready["differences"] if each["rule"] == "moved"] == [
        ("blocks", "elsewhere")
    ]

    producer = confluent_kafka.Producer({**client, "enable.idempotence": True})
    producer.produce(source.topic, b"late", partition=source.partition)
    assert producer.flush(60) == 0
    for options in ((), ("--check",)):
        code, found = status(*options)
        (row,) = found["fenced_side"]["still_written"]
        assert (code, row["topic"], row["partition"], row["from"], row["to"]) == (1, *source, 20, 21)
        (who,) = row["producers"]
        assert who["producer_id"] >= 0
        assert (who["client_id"], who["address"], row["unread"]) == (None, None, 0)
        assert any(f"somebody writes to {alias}" in each for each in found["reasons"])
    done = mirror("status", str(file))
    assert (done.returncode, "somebody writes to" in done.stdout) == (1, True)

    # A burst hides who writes without an id in front of it: that it was not read is told.
    plain = confluent_kafka.Producer({**client, "enable.idempotence": False})
    plain.produce(other.topic, b"late", partition=other.partition)
    assert plain.flush(60) == 0
    for _ in range(250):
        producer.produce(other.topic, b"burst", partition=other.partition)
        assert producer.flush(60) == 0
    code, found = status()
    row = next(each for each in found["fenced_side"]["still_written"] if each["partition"] == other.partition)
    assert (code, row["from"], row["to"], row["unread"]) == (1, 20, 271, 51)
    assert any("and 51 more offsets that were not read" in each for each in found["reasons"])
