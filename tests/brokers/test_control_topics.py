"""Topics of a flow on real clusters: created, grown and configured as on the source, and then left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.topics import TopicConfigsTick, TopicsTick
from mirror.kafka.cluster import Cluster, ConfigChange, NewTopic
from mirror.waiting import wait_until
from tests.unit.control.builders import flow_settings

Unique = Callable[[str], str]


@pytest.fixture
def flow(settings_of: Callable[[str], ClusterSettings]) -> Callable[..., FlowSettings]:
    """Return the settings of east->west between the clusters of the lab, with these lines more."""
    addresses = [f"{alias}.bootstrap.servers = {settings_of(alias).bootstrap_servers}" for alias in ("east", "west")]
    return lambda *lines: flow_settings(*addresses, *lines)


def test_a_topic_appears_on_the_target_with_its_settings_and_a_second_round_has_nothing_to_do(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    """TOP-01, TCS-07; the side topics come with it."""
    name = unique("orders")
    east.create_topics([NewTopic(name, 3, 1, {"cleanup.policy": "compact", "retention.ms": "77000"})])
    settings = flow(f"topics = {name}")
    tick = TopicsTick(east, west, settings)
    first, second = tick.tick(), tick.tick()
    assert first.problems == ()
    assert first.done >= 1
    assert (second.done, second.problems) == (0, ())
    assert len(west.topics()[f"east.{name}"].partitions) == 3
    assert own_settings(west, f"east.{name}") == {"cleanup.policy": "compact", "retention.ms": "77000"}
    assert settings.offset_syncs_topic in east.topics()
    side_topics = {settings.offset_storage_topic, settings.checkpoints_topic, settings.heartbeats_topic}
    assert side_topics | {"mm2-state.east.internal"} <= west.topics().keys()
    assert len(west.topics()[settings.offset_storage_topic].partitions) == 25


def test_growth_and_changed_settings_follow_and_excluded_ones_set_by_hand_stay(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    """TOP-02, TCS-04, TCS-05, TCS-08."""
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1, {"retention.ms": "77000"})])
    settings = flow(f"topics = {name}")
    discovery, configs = TopicsTick(east, west, settings), TopicConfigsTick(east, west, settings)
    discovery.tick()
    west.alter_configs({f"east.{name}": ConfigChange({"min.insync.replicas": "2", "segment.ms": "5000"})})
    wait_until(lambda: "segment.ms" in own_settings(west, f"east.{name}"), "settings by hand", timeout_seconds=10)
    east.grow_partitions({name: 4})
    east.alter_configs({name: ConfigChange({"max.message.bytes": "5000"}, ("retention.ms",))})
    wait_until(lambda: own_settings(east, name) == {"max.message.bytes": "5000"}, "the source", timeout_seconds=10)
    for report in (discovery.tick(), configs.tick()):
        assert (report.done, report.problems) == (1, ())
    assert len(west.topics()[f"east.{name}"].partitions) == 4
    # Brokers learn of changed settings a moment after the controller has taken them.
    wait_until(
        lambda: own_settings(west, f"east.{name}"),
        "the changed settings on the target",
        timeout_seconds=10,
        until={"max.message.bytes": "5000", "min.insync.replicas": "2"}.__eq__,
    )
    for report in (discovery.tick(), configs.tick()):
        assert (report.done, report.problems) == (0, ())


def test_what_the_target_refuses_is_in_the_report_and_the_rest_is_done(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    good, long = unique("orders"), unique("l" * 235)
    east.create_topics([NewTopic(good, 1, 1), NewTopic(long, 1, 1)])
    # With ten characters more the name is longer than the 249 that Kafka allows.
    far = flow(f"topics = {good}|{long}", "replication.policy.separator = ......")
    tick = TopicsTick(east, west, far)
    (problem,) = tick.tick().problems
    assert tick.side_topics_are_there
    assert problem.startswith(f"topic on west: east......{long}: INVALID_TOPIC")
    assert f"east......{good}" in west.topics()


def test_a_replication_factor_the_target_cannot_give_is_a_problem_that_names_the_key(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1)])
    report = TopicsTick(east, west, flow(f"topics = {name}", "east->west.replication.factor = 3")).tick()
    assert any("set replication.factor=1" in problem and name in problem for problem in report.problems)
    assert f"east.{name}" not in west.topics()


def own_settings(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """Return the settings that the topic itself carries."""
    entries = cluster.topic_configs([topic])[topic]
    return {entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"}
