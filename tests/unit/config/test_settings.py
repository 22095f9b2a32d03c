"""A whole file: what it comes to, and how what is wrong with it is said."""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.fetching import FetchLimits
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings, SameOffsets
from mirror.model.flow import Flow
from mirror.model.patterns import PatternList
from mirror.model.topics import DefaultReplicationPolicy, Generation, IdentityReplicationPolicy

GOOD = ("clusters = A, B", "A.bootstrap.servers = a:9092", "B.bootstrap.servers = b:9092", "A->B.enabled = true")
A_TO_B = Flow("A", "B")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mm2.properties"


def settings(file: Path, *lines: str) -> MirrorSettings:
    file.write_text("\n".join((*GOOD, *lines)), encoding="iso-8859-1")
    return load(file)


def test_defaults_are_mirror_maker_s(file: Path) -> None:
    (flow,) = settings(file).enabled_flows
    assert flow.flow == A_TO_B
    assert flow.policy == DefaultReplicationPolicy(".", True, Generation.NEWEST)
    assert (flow.replication_factor, flow.offset_syncs_replication_factor) == (2, 3)
    assert (flow.offset_storage_topic, flow.offset_storage_partitions) == ("mm2-offsets.A.internal", 25)
    assert flow.offset_syncs_topic == "mm2-offset-syncs.B.internal"
    assert flow.checkpoints_topic == "A.checkpoints.internal"
    assert (flow.auto_offset_reset, flow.isolation_level) == ("earliest", "read_uncommitted")
    assert (flow.refresh_topics_interval_seconds, flow.emit_heartbeats_interval_seconds) == (600, 1)
    assert (flow.offset_commit_interval_seconds, flow.exactly_once) == (60, False)
    assert flow.use_defaults_from == "target"
    assert [flow.replicates(name) for name in ("orders", "__x", "A.x", "B.x", "heartbeats")] == [
        *(True, False, False, False, True)
    ]


def test_the_reader_keeps_to_the_consumer_s_limits(file: Path) -> None:
    (flow,) = settings(file).enabled_flows
    assert flow.fetch_limits == FetchLimits(1, 500, 8 << 20, 50 << 20)
    (flow,) = settings(
        file,
        "A.consumer.fetch.max.wait.ms = 100",
        "A.consumer.max.partition.fetch.bytes = 3000",
        "A->B.consumer.fetch.max.bytes = 4000",
        "A.consumer.fetch.min.bytes = 5",
        "A.consumer.client.rack = zone-1",
    ).enabled_flows
    assert flow.fetch_limits == FetchLimits(5, 100, 3000, 4000, "zone-1")


def test_a_limit_that_java_s_consumer_refuses_is_refused_with_its_key(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"mm2\.properties:5: A\.consumer\.fetch\.max\.bytes: .*whole number"):
        settings(file, "A.consumer.fetch.max.bytes = many")


def test_a_flow_for_heartbeats_only_is_there_and_not_enabled(file: Path) -> None:
    """DED-07."""
    back = settings(file).flow(Flow("B", "A"))
    assert back is not None
    assert not back.enabled
    assert back.emit_heartbeats
    assert settings(file, "emit.heartbeats.enabled = false").flow(Flow("B", "A")) is None


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("sync.topic.configs", "sync_topic_configs"),
        ("sync.topic.acls", "sync_topic_acls"),
        ("refresh.groups", "refresh_groups"),
        ("emit.checkpoints", "emit_checkpoints"),
        ("sync.group.offsets", "sync_group_offsets"),
    ],
)
def test_a_negative_interval_switches_off_what_it_is_the_interval_of(file: Path, name: str, field: str) -> None:
    """CFG-028, CFG-029, CFG-044, CFG-045, CFG-046."""
    (on,) = settings(file, f"{name}.enabled = true", f"{name}.interval.seconds = 0").enabled_flows
    (off,) = settings(file, f"{name}.enabled = true", f"{name}.interval.seconds = -1").enabled_flows
    assert (getattr(on, field), getattr(off, field)) == (True, False)


def test_with_a_negative_interval_topics_are_looked_for_once(file: Path) -> None:
    """CFG-027."""
    (flow,) = settings(file, "refresh.topics.interval.seconds = -1").enabled_flows
    assert flow.discovery_seconds == math.inf


@pytest.mark.parametrize(
    "servers",
    [
        *("ann:s3cret@a:9092", "ann:s3c,s3cret@a:9092", "ann:s3cret@a"),
        *("a:9092,A.ssl.key.password = s3cret", "a:9092 A.ssl.key.password = s3cret s3cret"),
    ],
)
def test_secrets_before_or_behind_an_address_are_not_repeated(file: Path, servers: str) -> None:
    file.write_text("\n".join((GOOD[0], f"A.bootstrap.servers = {servers}", *GOOD[2:])))
    with pytest.raises(ConfigError, match=r":2: A\.bootstrap\.servers: \(hidden\) is not an address") as refusal:
        load(file)
    assert "s3c" not in str(refusal.value)


@pytest.mark.parametrize(
    "servers",
    [
        "a:9092,\\\nA.ssl.key.password = s3cret",
        'a:9092\\\nA.sasl.jaas.config = PlainLoginModule required password="s3c,s3cret";',
    ],
)
def test_secrets_of_the_line_behind_addresses_are_not_repeated(file: Path, servers: str) -> None:
    file.write_text("\n".join((GOOD[0], f"A.bootstrap.servers = {servers}", *GOOD[2:])))
    with pytest.raises(ConfigError, match=r":2: A\.bootstrap\.servers: line 2 ends with a backslash") as refusal:
        load(file)
    assert "s3c" not in str(refusal.value)


def test_the_offset_syncs_topic_on_the_target_is_named_after_the_source(file: Path) -> None:
    """CFG-032."""
    (flow,) = settings(file, "offset-syncs.topic.location = target").enabled_flows
    assert flow.offset_syncs_topic == "mm2-offset-syncs.A.internal"
    assert flow.clients.offset_syncs_producer["bootstrap.servers"] == "b:9092"
    assert flow.clients.offset_syncs_consumer["bootstrap.servers"] == "b:9092"


def test_the_policy_is_made_from_untrimmed_values_and_ignores_the_internal_switch_without_a_separator(
    file: Path,
) -> None:
    """CFG-007; Java hands the policy the raw properties."""
    internal = "replication.policy.internal.topic.separator.enabled = false"
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    (flow,) = settings(file, "replication.policy.separator = _ ", internal, identity).enabled_flows
    assert flow.policy == IdentityReplicationPolicy("_ ", False, "A")
    (flow,) = settings(file, internal).enabled_flows
    assert flow.policy == DefaultReplicationPolicy(".", True)


@pytest.mark.parametrize(
    ("generation", "selected"),
    [("3.9", [False, False, True]), ("4.3", [True, False, True]), ("newest", [True, False, False])],
)
def test_the_generation_chooses_the_rules_of_selection(file: Path, generation: str, selected: list[bool]) -> None:
    """VER-17, VER-21, SEL-04, SEL-05."""
    (flow,) = settings(file, f"mirror.compatibility = {generation}").enabled_flows
    assert [flow.replicates(name) for name in ("app-internal", "x.replica", "A.x")] == selected


def test_the_engine_s_own_keys_are_read(file: Path) -> None:
    assert settings(file).engine.matches_mm2
    assert not settings(file, "mirror.takeover = position").engine.matches_mm2
    engine = settings(file, "mirror.epoch.seconds = 2.5", "mirror.commit.interval.ms = 500", "mirror.tasks = 3").engine
    assert (engine.epoch_seconds, engine.commit_interval_seconds, engine.tasks) == (2.5, 0.5, 3)


def test_what_becomes_of_oversized_records_is_set_for_all_flows_or_for_one(file: Path) -> None:
    parks = "mirror.oversized.records = park"
    assert [flow.parked_topic for flow in settings(file).enabled_flows] == [None]
    assert [flow.parked_topic for flow in settings(file, parks).enabled_flows] == ["mm2-parked.A.internal"]
    (flow,) = settings(file, parks, "A->B.mirror.oversized.records = stop").enabled_flows
    assert flow.parked_topic is None
    (flow,) = settings(file, f"A->B.{parks}").enabled_flows
    assert not flow.topic_filter.matches("mm2-parked.A.internal")


def test_whether_a_gap_stops_the_copy_is_said_for_all_flows_or_for_one(file: Path) -> None:
    def stops(*lines: str) -> list[bool]:
        flows = settings(file, "B->A.enabled = true", *lines).enabled_flows
        return [flow.stops_at_gaps for flow in sorted(flows, key=lambda flow: flow.flow)]

    assert stops() == [False, False]
    assert stops("mirror.gaps = stop") == [True, True]
    assert stops("A->B.mirror.gaps = stop") == [True, False]
    assert stops("mirror.gaps = stop", "A->B.mirror.gaps = continue") == [False, True]


def test_the_source_s_offsets_are_asked_for_all_flows_or_for_one_and_for_some_topics(file: Path) -> None:
    def same(*lines: str) -> list[SameOffsets | None]:
        flows = settings(file, "B->A.enabled = true", *lines).enabled_flows
        return [flow.same_offsets for flow in sorted(flows, key=lambda flow: flow.flow)]

    everything = SameOffsets(PatternList((".*",)), 1_000_000_000)
    assert same() == same("mirror.offsets = translated", "mirror.offsets.pad.limit = 7") == [None, None]
    assert same("mirror.offsets = same") == [everything, everything]
    assert same("A->B.mirror.offsets = same") == [everything, None]
    assert same("mirror.offsets = same", "B->A.mirror.offsets = translated") == [everything, None]
    some = ("A->B.mirror.offsets.topics = orders, bills.*", "mirror.offsets.pad.limit = 0")
    assert same("mirror.offsets = same", *some) == [
        SameOffsets(PatternList(("orders", "bills.*")), 0),
        SameOffsets(PatternList((".*",)), 0),
    ]
    told = ("mirror.offsets = same", "A->B.mirror.offsets.refused = translate")
    assert same(*told) == [replace(everything, translates_refused=True), everything]
    told = ("mirror.offsets = same", "B->A.mirror.offsets.recreated = make-anew")
    assert same(*told) == [everything, replace(everything, makes_recreated_anew=True)]


def test_what_cannot_have_the_source_s_offsets_is_translated_if_asked_for_but_not_under_its_own_name(
    file: Path,
) -> None:
    def translates(*lines: str) -> bool:
        (flow,) = settings(file, *lines).enabled_flows
        return flow.translates_refused("orders")

    asked = ("mirror.offsets = same", "mirror.offsets.refused = translate")
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert translates(*asked)
    assert not translates("mirror.offsets = same")
    assert not translates("mirror.offsets.refused = translate")
    assert not translates(*asked, identity)


def test_the_copy_of_a_recreated_topic_is_made_anew_if_asked_for_but_not_where_it_may_be_an_original(
    file: Path,
) -> None:
    def makes_anew(*lines: str) -> bool:
        (flow,) = settings(file, *lines).enabled_flows
        return flow.makes_recreated_anew("orders")

    asked = ("mirror.offsets = same", "mirror.offsets.recreated = make-anew")
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert makes_anew(*asked)
    assert not makes_anew("mirror.offsets = same")
    assert not makes_anew("mirror.offsets.recreated = make-anew")
    assert not makes_anew(*asked, "mirror.offsets.topics = bills")
    assert not makes_anew(*asked, identity)


def test_a_cluster_may_be_called_like_the_engine_s_keys_begin(file: Path) -> None:
    file.write_text(
        "clusters = mirror,B\nmirror.bootstrap.servers = m:1\nB.bootstrap.servers = b:1\nmirror->B.enabled=true"
    )
    assert load(file).clusters["mirror"].bootstrap_servers == "m:1"


def test_bootstrap_servers_of_the_top_level_serve_clusters_without_their_own(file: Path) -> None:
    file.write_text("clusters = A,B\nbootstrap.servers = x:1\nB.bootstrap.servers = b:1\nA->B.enabled = true")
    assert {alias: cluster.bootstrap_servers for alias, cluster in load(file).clusters.items()} == {
        "A": "x:1",
        "B": "b:1",
    }


def test_keys_mirror_maker_ignores_are_no_error(file: Path) -> None:
    """CFG-078; an alias may hold dots, so the last could be anything."""
    assert settings(file, "group.id = x", "nonsense = 1", "A->us.east.topics = foo", "C.bootstrap.servers = c:1")


def test_settings_survive_pickling_and_cannot_be_changed(file: Path) -> None:
    read = settings(file, "topics = (?i)orders.*, bills")
    assert pickle.loads(pickle.dumps(read)) == read
    with pytest.raises(FrozenInstanceError):
        read.flows[0].enabled = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ("refresh.topics.interval.seconds = soon", None, "not a number of type LONG"),
        ("A->B.sync.group.offsets.enabled = yes", None, "neither true nor false"),
        ("offset-syncs.topic.location = middle", None, "source, target"),
        ("topics = orders, (bills", None, "unclosed group"),
        ("A->B.groups.exclude = *", None, "dangling meta character"),
        ("config.properties.exclude = [", None, "unclosed character class"),
        ("topics = a{1,3}", None, "a comma separates"),
        ("replication.policy.class = org.example.Mine", None, "org.example.Mine"),
        ("topic.filter.class = org.example.Mine", None, "DefaultTopicFilter"),
        ("A->B.value.converter = org.apache.kafka.connect.json.JsonConverter", None, "re-encode"),
        ("transforms = route", None, "A->B.transforms.route.type"),
        ("A->C.enabled = true", None, "'C' is not among clusters (A, B)"),
        ("Z->A.enabled = true", None, "'Z' is not among clusters"),
        ("A->A.enabled = true", None, "two clusters"),
        ("B.offset.flush.interval.ms = often", None, "not a number"),
        ("B.exactly.once.source.support = perhaps", None, "disabled, preparing, enabled"),
        ("B.bootstrap.servers = nowhere", None, "HOST:PORT"),
        ("security.protocol = TLS", None, "SASL_SSL"),
        ("mirror.epoch.seconds = 0", None, "0.1"),
        ("mirror.epoch.second = 1", None, "mirror.epoch.seconds"),
        ("mirror.compatibility = 2.4", None, "newest"),
        ("mirror.oversized.records = skip", None, "stop, park"),
        ("A->B.mirror.oversized.records = skip", None, "stop, park"),
        ("A->B.mirror.tasks = 3", None, "mirror.oversized.records"),
        ("mirror.offsets = equal", None, "translated, same"),
        ("A->B.mirror.offsets.topics = (orders", None, "unclosed group"),
        ("mirror.offsets.pad.limit = -1", None, "0"),
        ("mirror.takeover = guess", None, "position"),
        ("mirror.gaps = ignore", None, "continue, stop"),
        ("A->B.mirror.gaps = ignore", None, "continue, stop"),
        ("A->B.mirror.gap = stop", None, "mirror.gaps"),
        ("A->B.source.cluster.alias = Z", None, "clusters alone"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(file: Path, line: str, key: str | None, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings(file, "# a comment", line)
    key = key or line.partition(" = ")[0]
    assert str(refusal.value).startswith(f"{file}:6: {key}: ")
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        ("A.bootstrap.servers = a:1", None, "clusters", "missing"),
        (
            "x = 1\nclusters = A, B\nA.bootstrap.servers = a:1\nA->B.enabled = true",
            2,
            "B.bootstrap.servers",
            "HOST:PORT",
        ),
        (
            "clusters = A, B\nA.bootstrap.servers =\nB.bootstrap.servers=b:1\nA->B.enabled = true",
            2,
            "A.bootstrap.servers",
            "HOST:PORT",
        ),
        ("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1", 1, "clusters", "A->B.enabled = true"),
        (
            "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = yes",
            4,
            "A->B.enabled",
            "'yes' is neither true nor false",
        ),
        ("clusters =", 1, "clusters", "no flow is enabled"),
        ("clusters = A,,B", 1, "clusters", "may be empty"),
    ],
)
def test_what_is_missing_is_said_too(file: Path, text: str, line: int | None, key: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load(file)
    assert (refusal.value.line, refusal.value.key) == (line, key)
    assert said in str(refusal.value)
