"""Where the logs of a source end, for who moves its applications: what was acknowledged counts, seen by readers or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as AssignedTopic

from mirror.config.resolving import load
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import state_topic
from mirror.model.verdict import Verdict
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.failover import Lacking, Loss, loss_of
from tests.brokers.command import FACTORS
from tests.brokers.copying import write


def test_what_one_broker_of_the_source_has_acknowledged_alone_is_drained_and_counted_as_lost(
    trio: clusters.LabCluster,
    west: Cluster,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """With acks=1 a record is acknowledged before readers see it: a replica that is gone counts as in sync for a while."""
    alias, topic = unique("shop").replace("-", ""), unique("orders")
    source, client = TopicPartition(topic, 0), {"bootstrap.servers": trio.brokers[0].address}
    assigned = AssignedTopic(topic, 1, replica_assignment=[[1, 3]])
    admin = AdminClient(client)
    admin.create_topics([assigned])[topic].result(20)
    west.create_topics([NewTopic(state_topic(alias), 1, 1, {"cleanup.policy": "compact"})])
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {trio.brokers[0].address}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\ntopics = {topic}\n{FACTORS}"
    )
    settings = load(file)
    pausing = EnginePausing(settings, awaits_open_ends=False)
    ends = ClusterEnds(settings, settings.enabled_flows[0], pausing, lambda *_: (Verdict.PASS, ""))
    copied = replace(ends.copied(), positions={source: Position(5, 5, 0, complete=True)})
    write(client, source, range(5))
    assert loss_of(ends, copied, ask_source=True).lacking == ()
    trio.brokers[2].kill()
    alone = Producer({**client, "acks": 1, "enable.idempotence": False})
    alone.produce(topic, b"acknowledged", partition=0)
    assert alone.flush(20) == 0
    assert ends.ends().ends == {source: 6}
    assert loss_of(ends, copied, ask_source=True) == Loss((Lacking(source, 5, 6),), None)
