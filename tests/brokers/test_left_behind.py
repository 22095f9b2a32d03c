"""What was written to the standby behind a failover and no flow copies back is named before anybody moves back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from mirror.config.resolving import load
from mirror.control.groups import recorder
from mirror.control.topics import create_state_topic
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.engine_pausing import EnginePausing
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.brokers.copying import write


def test_records_in_copies_under_names_that_are_not_selected_and_from_before_the_flow_back_began_are_left_behind(
    east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    old, standby = (unique(word).replace("-", "") for word in ("old", "standby"))
    file = tmp_path / "mirror.properties"
    words = ("orders", "audit", "early", "later", "gone")
    orders, audit, early, later, gone = (unique(word) for word in words)
    file.write_text(
        f"clusters = {old}, {standby}\n{old}.bootstrap.servers = {east.bootstrap_servers}\n"
        f"{standby}.bootstrap.servers = {west.bootstrap_servers}\n{old}->{standby}.enabled = true\n"
        f"{standby}->{old}.enabled = true\n{old}->{standby}.topics = {orders}, {audit}, {early}, {later}\n"
        f"{standby}->{old}.topics = {orders}, {early}\n{standby}->{old}.consumer.auto.offset.reset = latest\n{FACTORS}"
    )
    settings = load(file)
    there, back = (settings.flow(each) for each in (Flow(old, standby), Flow(standby, old)))
    assert there is not None
    assert back is not None
    ends = ClusterEnds(settings, there, EnginePausing(settings, awaits_open_ends=False), None)  # type: ignore[arg-type]
    wait_until(lambda: create_state_topic(west, there)[0], "the state topic", timeout_seconds=60)
    wait_until(lambda: create_state_topic(east, back)[0], "the state topic of the flow back", timeout_seconds=60)
    copy = TopicPartition(f"{old}.{orders}", 0)
    for cluster, names in ((west, (copy.topic, orders, audit, early)), (east, (orders, audit, early, gone))):
        assert [each.problem for each in cluster.create_topics([NewTopic(name, 1, 1) for name in names])] == [None] * 4
    client = {"bootstrap.servers": west.bootstrap_servers}
    for name in (copy.topic, audit, early):
        write(client, TopicPartition(name, 0), range(10))
    write({"bootstrap.servers": east.bootstrap_servers}, TopicPartition(gone, 0), range(10))
    with closing(LogWriter(there.target_producer, alias=standby)) as writer:
        recorder(there, writer)(
            [
                Position(10, 10 if name == orders else 0, 0, True).record(TopicPartition(name, 0))
                for name in (orders, audit, early, later)
            ]
            + [Position(4, 4, 0, True, topic_id=east.topics([gone])[gone].topic_id).record(TopicPartition(gone, 0))]
        )
    ends.pause()
    assert ends.not_copied_back() == {}, "what was there before the failover is nobody's work since"
    (deselected,) = ends.uncopied_of_deselected()
    assert deselected.endswith(f"{old} has more of: {gone}")

    assert [each.problem for each in east.delete_topics([gone])] == [None]
    wait_until(lambda: gone not in east.topics([gone]), f"{gone} to be gone", timeout_seconds=60)
    assert [each.problem for each in east.create_topics([NewTopic(gone, 1, 1)])] == [None]
    write({"bootstrap.servers": east.bootstrap_servers}, TopicPartition(gone, 0), range(2))
    (recreated,) = ends.uncopied_of_deselected()
    assert recreated.endswith(f"{old} has more of: {gone}"), "other records than those that were copied"

    for name in (copy.topic, orders, audit, early):
        # The times of records are the producers': these are from before everything else that is there.
        write(client, TopicPartition(name, 0), range(10, 15), at_ms=1_000)
    # Of this topic there is nothing newer: retention would remove it, within seconds in a lab.
    assert [each.problem for each in west.create_topics([NewTopic(later, 1, 1, {"retention.ms": "-1"})])] == [None]
    write(client, TopicPartition(later, 0), range(5), at_ms=1_000)
    # The flow back begins now, behind what is there; of one topic it had been copied before.
    with closing(LogWriter(back.target_producer, alias=old)) as writer:
        recorder(back, writer)(
            [
                Position(15, 0, 15, False).record(TopicPartition(early, 0)),
                Position(5, 5, 0, True).record(TopicPartition(orders, 0)),
            ]
        )
    left = {
        copy: (10, 15),
        TopicPartition(audit, 0): (10, 15),
        TopicPartition(early, 0): (10, 15),
        TopicPartition(later, 0): (0, 5),
    }
    assert ends.not_copied_back() == left
    ends.pause()
    assert ends.not_copied_back() == left, "where logs ended is known from the first time that the flow was cut"
