"""A group that was set ahead by hand on the standby is named before it is carried home; one that has read is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import confluent_kafka

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.lab import clusters
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.set_by_hand import set_ahead
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.brokers.copying import NewCopying, write
from tests.positions import write_positions


def read(client: dict[str, str], group: str, topic: str, count: int) -> None:
    """Read some records, and commit that."""
    consumer = confluent_kafka.Consumer(
        {**client, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        for _ in range(count):
            found = wait_until(lambda: consumer.poll(0.5), "a record", timeout_seconds=60)
            assert found is not None
            consumer.commit(message=found, asynchronous=False)
    finally:
        consumer.close()


def test_what_was_set_ahead_on_the_standby_is_named_on_the_way_home(
    mortal: clusters.LabCluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    new_copying: NewCopying,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    alias = unique("shop").replace("-", "")
    topic = state_topic(alias)
    west.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
    client = {"bootstrap.servers": mortal.bootstrap_servers}
    with Cluster.connect(ClusterSettings(alias, client)) as old:
        # The flow home has been led, and has copied nothing yet.
        old.create_topics([NewTopic(state_topic("west"), 1, 1, {"cleanup.policy": "compact"})])
        copying = new_copying(source=old, clients=(client, dict(settings_of("west").client)), state_topic=topic)
    (source,) = copying.pairs
    copy = TopicPartition(f"{alias}.{source.topic}", 0)
    west.create_topics([NewTopic(copy.topic, 1, 1)])
    copying.pairs = {source: copy}
    readers, ahead = unique("readers"), unique("ahead")
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {mortal.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"west->{alias}.enabled = true\ntopics = .*{source.topic}\ngroups = {readers}|{ahead}\n{FACTORS}"
    )
    settings = load(file)
    there, home = (
        ClusterEnds(settings, each, None, None)  # type: ignore[arg-type]  # nothing is paused, nor compared
        for each in settings.enabled_flows
    )
    if there.flow.source != alias:
        there, home = home, there
    write(client, source, range(20))
    copying.until_caught_up()
    for group in (readers, ahead):
        read(client, group, source.topic, 5)
    plan = there.plan_groups(ask_source=True)
    assert {each.group: each.leader_epoch for each in plan.positions} == {readers: 0, ahead: 0}
    assert there.move_groups(plan, tmp_path / "before.json").refused == ()

    def told() -> list[str]:
        return set_ahead(home.plan_groups(ask_source=True), home.flow, there.copied().placed, home.copied().placed)

    assert told() == [], "they are where they were put"
    read(dict(settings_of("west").client), readers, copy.topic, 5)
    assert told() == [], "one has read"
    (written,) = write_positions(west, ahead, {copy: GroupPosition(15)})
    assert written.problem is None
    (said,) = told()
    assert said.startswith(f"group {ahead} is at 15 of {copy} on west, and was put at 5 by the failover")
