"""The layers of a properties file: sections 1.5, 1.6 and 2.15 of the inventory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.connector_keys import Connector
from mirror.config.definitions import CLIENT_KEYS
from mirror.config.errors import ConfigError
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import parse
from mirror.model.flow import Flow

A_TO_B = Flow("A", "B")
BOOLEANS = st.sampled_from([None, "true", "false", "TRUE", "yes", ""])


def config(*lines: str) -> MirrorMakerConfig:
    return MirrorMakerConfig.of(parse("\n".join(("clusters = A, B", *lines))))


def source(*lines: str) -> dict[str, str]:
    return config(*lines).connector(A_TO_B, Connector.SOURCE)


def test_the_names_of_connect_s_own_topics_never_follow_the_separator() -> None:
    """DED-01 to DED-05, DED-10, DED-11."""
    worker = config("replication.policy.separator = _").worker(A_TO_B)
    assert worker["group.id"] == "A-mm2"
    assert worker["client.id"] == "A->B"
    assert [worker[f"{kind}.storage.topic"] for kind in ("offset", "config", "status")] == [
        "mm2-offsets.A.internal",
        "mm2-configs.A.internal",
        "mm2-status.A.internal",
    ]
    assert worker["key.converter"] == "org.apache.kafka.connect.converters.ByteArrayConverter"


@given(everywhere=BOOLEANS, here=BOOLEANS, enabled=BOOLEANS)
def test_a_flow_exists_when_it_or_its_heartbeats_are_enabled(
    everywhere: str | None, here: str | None, enabled: str | None
) -> None:
    """CFG-075, DED-07, HB-02."""
    given_lines = {
        "emit.heartbeats.enabled": everywhere,
        "A->B.emit.heartbeats.enabled": here,
        "A->B.enabled": enabled,
    }
    flows = config(*(f"{key} = {value}" for key, value in given_lines.items() if value is not None)).flows
    beats = next(value for value in (here, everywhere, "true") if value is not None)
    assert (A_TO_B in flows) == ("true" in ((enabled or "").lower(), beats.lower()))


def test_duplicate_aliases_collapse() -> None:
    """CFG-070."""
    assert MirrorMakerConfig.of(parse("clusters = A, B,A")).clusters == ("A", "B")


@given(key=st.sampled_from(sorted(CLIENT_KEYS)), cluster=st.booleans(), client=st.booleans())
def test_security_reaches_each_client_the_most_specific_setting_first(key: str, cluster: bool, client: bool) -> None:
    """CFG-074, CFG-080."""
    lines = [f"{key} = top"] if key != "security.protocol" else [f"{key} = SSL"]
    if key.startswith(("ssl.", "sasl.")) or key == "security.protocol":
        lines = []  # the value of the top level is checked by its type, so it stands for itself elsewhere
    lines += [f"B.{key} = cluster"] * cluster + [f"B.producer.{key} = client"] * client
    properties = config(*lines).cluster("B")
    most_specific = "client" if client else "cluster" if cluster else ("top" if lines else None)
    assert properties.get(f"producer.{key}") == most_specific


def test_the_top_level_is_the_default_of_every_cluster() -> None:
    """CFG-074."""
    properties = config("security.protocol = SSL", "B.consumer.security.protocol = PLAINTEXT").cluster("B")
    assert {key: value for key, value in properties.items() if key.endswith("security.protocol")} == {
        "security.protocol": "SSL",
        "producer.security.protocol": "SSL",
        "consumer.security.protocol": "PLAINTEXT",
        "admin.security.protocol": "SSL",
    }


@pytest.mark.parametrize(
    "key", ["offset.storage.replication.factor", "status.storage.topic", "task.x", "worker.y", "replication.policy.z"]
)
def test_some_keys_of_the_top_level_win_over_the_cluster_s(key: str) -> None:
    """CFG-077."""
    assert config(f"{key} = 3", f"B.{key} = 1").worker(A_TO_B)[key] == "3"


@pytest.mark.parametrize("key", ["offset.flush.interval.ms", "group.id", "exactly.once.source.support", "plugin.path"])
def test_other_worker_keys_need_the_target_s_prefix(key: str) -> None:
    """CFG-078, CFG-081."""
    assert config(f"{key} = top").worker(A_TO_B).get(key) != "top"
    assert config(f"B.{key} = cluster").worker(A_TO_B)[key] == "cluster"
    assert config(f"A.{key} = source").worker(A_TO_B).get(key) != "source"


def test_known_keys_of_the_top_level_reach_all_connectors_and_others_none() -> None:
    """CFG-076, CFG-078, CFG-025."""
    for connector in Connector:
        settings = config("topics = orders", "use.defaults.from = source", "custom = 1").connector(A_TO_B, connector)
        assert settings["topics"] == "orders"
        assert settings.keys().isdisjoint({"use.defaults.from", "custom"})


def test_the_flow_s_own_keys_override_everything_and_unknown_ones_are_kept() -> None:
    """CFG-085, CFG-090."""
    settings = source("topics = orders", "A->B.topics = bills", "A->B.use.defaults.from = source", "B->A.topics = x")
    assert (settings["topics"], settings["use.defaults.from"]) == ("bills", "source")


def test_the_settings_of_both_clusters_reach_the_connector() -> None:
    """Section 1.7."""
    settings = source("A.consumer.fetch.max.bytes = 1", "A.custom = 2", "B.producer.acks = 1", "B.x = y")
    assert settings["source.consumer.fetch.max.bytes"] == "1"
    assert settings["source.cluster.custom"] == "2"
    assert settings["target.producer.acks"] == "1"
    assert settings["target.cluster.x"] == "y"


def test_a_connector_is_disabled_unless_its_flow_says_otherwise() -> None:
    """CFG-001, DED-08."""
    assert source()["enabled"] == "false"
    assert source("A->B.enabled = true")["enabled"] == "true"


def test_aliases_may_hold_dots_and_spaces() -> None:
    spaced = MirrorMakerConfig.of(
        parse("clusters = us.west, us east\nus\\ east.bootstrap.servers = e:1\nus.west.x = 1")
    )
    assert spaced.cluster("us east")["bootstrap.servers"] == "e:1"
    assert spaced.cluster("us.west") == {"x": "1"}
    assert spaced.flows == (Flow("us.west", "us east"), Flow("us east", "us.west"))


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (("security.protocol = TLS",), "security.protocol"),
        (("dedicated.mode.enable.internal.rest = perhaps",), "dedicated.mode.enable.internal.rest"),
        (("config.providers = p", "config.providers.p.class = org.example.Vault"), "config.providers.p.class"),
    ],
)
def test_a_bad_value_of_the_top_level_is_refused(lines: tuple[str, ...], key: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        config(*lines)
    assert (refusal.value.key, refusal.value.line) == (key, len(lines) + 1)
