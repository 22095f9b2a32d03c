"""Topics of a flow on real clusters: created, grown and configured as on the source, and then left alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.topics import TopicConfigsTick, TopicsTick, create_state_topic
from mirror.kafka import codes
from mirror.kafka.brokers import brokers_without
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.kafka.log import LogWriter
from mirror.lab.clusters import LabCluster
from mirror.model.flow import Flow
from mirror.model.state_record import state_topic
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.unit.config.files import flows_of
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
    wait_until(lambda: "segment.ms" in own_settings(west, f"east.{name}"), "settings by hand", timeout_seconds=60)
    east.grow_partitions({name: 4})
    east.alter_configs({name: ConfigChange({"max.message.bytes": "5000"}, ("retention.ms",))})
    wait_until(lambda: own_settings(east, name) == {"max.message.bytes": "5000"}, "the source", timeout_seconds=60)
    for report in (discovery.tick(), configs.tick()):
        assert (report.done, report.problems) == (1, ())
    assert len(west.topics()[f"east.{name}"].partitions) == 4
    # Brokers learn of changed settings a moment after the controller has taken them.
    wait_until(
        lambda: own_settings(west, f"east.{name}"),
        "the changed settings on the target",
        timeout_seconds=60,
        until={"max.message.bytes": "5000", "min.insync.replicas": "2"}.__eq__,
    )
    for report in (discovery.tick(), configs.tick()):
        assert (report.done, report.problems) == (0, ())


def test_replication_id_and_quotas_of_an_existing_copy_are_left_alone(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    """TOP-05: whatever the source and the file say, in rounds that do change what is to follow."""
    name = unique("orders")
    copy = f"east.{name}"
    throttles = [f"{kind}.replication.throttled.replicas" for kind in ("leader", "follower")]
    on_source = dict.fromkeys(throttles, "*")
    by_hand = dict.fromkeys(throttles, "0:1") | {"unclean.leader.election.enable": "true"}
    east.create_topics([NewTopic(name, 4, 1, {**on_source, "retention.ms": "77000"})])
    west.create_topics([NewTopic(copy, 3, 1, by_hand)])
    before = west.topics()[copy]
    settings = flow(f"topics = {name}", "east->west.replication.factor = 3")
    for tick in (TopicsTick(east, west, settings), TopicConfigsTick(east, west, settings)):
        report = tick.tick()
        assert report.problems == ()
        assert report.done >= 1
    wait_until(
        lambda: own_settings(west, copy),
        "the source's own setting beside those by hand",
        timeout_seconds=60,
        until={**by_hand, "retention.ms": "77000"}.__eq__,
    )
    after = west.topics()[copy]
    assert after.topic_id == before.topic_id
    assert [each.replicas for each in before.partitions] == [each.replicas for each in after.partitions[:3]]
    assert [len(each.replicas) for each in after.partitions] == [1] * 4


def test_the_source_s_defaults_hold_on_the_target_where_that_is_wanted(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    """TCS-04, TCS-07: the copy carries every setting itself, and what is changed there by hand goes back."""
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1)])
    settings = flow(f"topics = {name}", "east->west.use.defaults.from = source")
    TopicsTick(east, west, settings).tick()
    (entry,) = (each for each in east.topic_configs([name])[name] if each.name == "max.compaction.lag.ms")
    assert own_settings(west, f"east.{name}")["max.compaction.lag.ms"] == entry.value
    west.alter_configs({f"east.{name}": ConfigChange({"max.compaction.lag.ms": "77000"})})
    configs = TopicConfigsTick(east, west, settings)
    wait_until(
        lambda: (configs.tick().problems, own_settings(west, f"east.{name}")["max.compaction.lag.ms"]),
        "the source's default on the target",
        timeout_seconds=60,
        until=((), entry.value).__eq__,
    )


def test_side_topics_are_created_with_the_retention_that_the_file_names(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> None:
    """KIP-382: used when they are created; compacted all the same, so that nothing is lost by it."""
    alias = unique("shop").replace("-", "")
    (settings,) = (
        each
        for each in flows_of(
            f"{alias}->west",
            more=f"{alias}.bootstrap.servers = {settings_of('east').bootstrap_servers}\n"
            f"checkpoints.topic.retention.ms = 86400000\ntopics = none\n{FACTORS}",
        )
    )
    tick = TopicsTick(east, west, settings)
    assert tick.tick().problems == ()
    expected = {"cleanup.policy": "compact", "retention.ms": "86400000"}
    assert own_settings(west, settings.checkpoints_topic) == expected
    assert own_settings(west, settings.offset_storage_topic) == {"cleanup.policy": "compact"}
    assert tick.tick().problems == ()


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
    assert problem.startswith(f"topic east......{long} on west: INVALID_TOPIC")
    assert f"east......{good}" in west.topics()


def test_a_replication_factor_the_target_cannot_give_is_a_problem_that_names_the_key(
    east: Cluster, west: Cluster, flow: Callable[..., FlowSettings], unique: Unique
) -> None:
    name = unique("orders")
    east.create_topics([NewTopic(name, 1, 1)])
    report = TopicsTick(east, west, flow(f"topics = {name}", "east->west.replication.factor = 3")).tick()
    assert any("set replication.factor=1" in problem and name in problem for problem in report.problems)
    assert f"east.{name}" not in west.topics()


def test_nothing_is_written_to_a_new_state_topic_before_every_broker_that_answers_knows_it(
    trio: LabCluster, unique: Unique, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow back that asked one that did not know it took mirrored records for others', and copied them back."""
    source = unique("source")
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = {source}, trio\n{source}.bootstrap.servers = localhost:1\n"
        f"trio.bootstrap.servers = {trio.bootstrap_servers}\n{source}->trio.enabled = true\n{FACTORS}"
    )
    settings = load(file)
    flow = settings.flow(Flow(source, "trio"))
    assert flow is not None
    topic, send, lagging = state_topic(source), Cluster.send, {2}

    def told(self: Cluster, request: Any, node_id: int | None = None) -> Any:
        answer = send(self, request, node_id)
        if node_id in lagging and isinstance(request, MetadataRequest):
            for each in answer.topics:
                each.error_code = codes.UNKNOWN_TOPIC
        return answer

    monkeypatch.setattr(Cluster, "send", told)
    with Cluster.connect(settings.clusters["trio"]) as target:
        assert brokers_without(target, topic) == target.broker_ids()
        is_there, _ = wait_until(
            lambda: create_state_topic(target, flow),
            "the broker that lags to be named, once the topic has a leader",
            timeout_seconds=60,
            until=lambda found: f"{topic} on trio: not known yet to broker 2" in found[1],
        )
        assert not is_there
        assert brokers_without(target, topic) == (2,)
        with closing(LogWriter(flow.target_producer, alias="trio")) as writer:
            writer.append(topic, 0, [(b"key", b"value", (), 0)])
        # What is in use is known to whoever is asked, or was written by an engine that has looked.
        assert create_state_topic(target, flow) == (True, ())


def own_settings(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """Return the settings that the topic itself carries."""
    entries = cluster.topic_configs([topic])[topic]
    return {entry.name: entry.value for entry in entries if entry.source == "DYNAMIC_TOPIC_CONFIG"}
