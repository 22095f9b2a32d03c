"""A properties file means to us what it means to Java: clusters, flows, workers, connectors, and what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import javaproperties
import pytest

from mirror.config.connector_keys import Connector
from mirror.config.errors import ConfigError
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import PropertiesFile, read
from mirror.config.resolving import engine_settings, flow_settings, load, resolve
from mirror.config.settings import FlowSettings
from mirror.model.flow import Flow
from mirror.model.topics import replicates
from tests.golden.facts import entries

ENTRIES = entries("resolution.json", lambda entry: entry["file"])
CONNECTORS = {
    "source_connector": Connector.SOURCE,
    "checkpoint_connector": Connector.CHECKPOINT,
    "heartbeat_connector": Connector.HEARTBEAT,
}
AS_4_3 = engine_settings(MirrorMakerConfig.of(PropertiesFile.of({"clusters": "a", "mirror.compatibility": "4.3"})))


def test_every_part_of_every_entry_is_looked_at() -> None:
    for entry in (param.values[0] for param in ENTRIES):
        assert entry.keys() <= {"file", "properties", "clusters", "flows", "error"}
        for flow in entry.get("flows", []):
            assert flow.keys() <= {"flow", "worker", "effective", "effective_error", *CONNECTORS}


@pytest.mark.parametrize("entry", ENTRIES)
def test_clusters_and_flows_are_those_of_java(entry: dict[str, Any]) -> None:
    if "error" in entry:
        with pytest.raises(ConfigError):
            _config(entry)
        return
    config = _config(entry)
    assert sorted(config.clusters) == sorted(entry["clusters"])
    assert sorted(map(str, config.flows)) == sorted(flow["flow"] for flow in entry["flows"])


@pytest.mark.parametrize("entry", ENTRIES)
def test_worker_and_connector_settings_are_those_of_java(entry: dict[str, Any]) -> None:
    for flow, expected in _flows(entry):
        assert _config(entry).worker(flow) == expected["worker"]
        for key, connector in CONNECTORS.items():
            assert _config(entry).connector(flow, connector) == expected[key]


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_a_flow_comes_to_is_what_it_comes_to_in_java(entry: dict[str, Any]) -> None:
    for flow, expected in _flows(entry):
        if "effective_error" in expected:
            continue
        settings = flow_settings(_config(entry), flow, AS_4_3, inside_worker=False)
        effective = dict(expected["effective"])
        assert effective.pop("replicated") in _replicated(settings, expected["effective"]["replicated"])
        assert _effective(settings, effective) == effective


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_java_refuses_is_refused_and_located(entry: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / entry["file"]
    file.write_text(javaproperties.dumps(entry["properties"], timestamp=False), encoding="iso-8859-1")
    assert read(file).values == entry["properties"]
    refused = [flow for flow, expected in _flows(entry) if "effective_error" in expected]
    for flow in refused:
        with pytest.raises(ConfigError):
            flow_settings(_config(entry), flow, AS_4_3, inside_worker=False)
    if "error" in entry or (refused and "config.providers" not in entry["properties"]):  # the worker may resolve more
        with pytest.raises(ConfigError) as refusal:
            load(file)
        assert str(refusal.value).startswith(str(file))
        assert refusal.value.key is not None
    elif not refused:
        settings = resolve(MirrorMakerConfig.of(read(file)), file)
        assert sorted(settings.clusters) == sorted(entry["clusters"])
        assert {str(flow.flow) for flow in settings.flows} == {str(flow) for flow, _ in _flows(entry)}


def _config(entry: dict[str, Any]) -> MirrorMakerConfig:
    return MirrorMakerConfig.of(PropertiesFile.of(entry["properties"]))


def _flows(entry: dict[str, Any]) -> list[tuple[Flow, dict[str, Any]]]:
    if "error" in entry:
        return []
    ours = {str(flow): flow for flow in _config(entry).flows}
    return [(ours[expected["flow"]], expected) for expected in entry["flows"]]


def _replicated(settings: FlowSettings, expected: dict[str, bool]) -> list[dict[str, bool]]:
    """Return the selection as the file switches heartbeats, and with heartbeats on, as the data was made (README)."""
    return [
        {
            topic: replicates(
                topic,
                policy=settings.policy,
                topic_filter=settings.topic_filter,
                flow=settings.flow,
                heartbeats_replication=heartbeats,
                generation=settings.generation,
            )
            for topic in expected
        }
        for heartbeats in (settings.heartbeats_replication, True)
    ]


def _effective(settings: FlowSettings, expected: dict[str, Any]) -> dict[str, Any]:
    """Return what ``settings`` say about each key of ``expected``; the names in it are those to ask for."""
    configs = settings.config_property_filter
    return {
        "checkpoints_topic": settings.checkpoints_topic,
        "config_property_filter_and_source_default": {
            name: [configs.should_replicate(name), settings.use_defaults_from == "source"]
            for name in expected["config_property_filter_and_source_default"]
        },
        "emit_checkpoints_ms": _milliseconds(settings.emit_checkpoints, settings.emit_checkpoints_interval_seconds),
        "emit_heartbeats_ms": _milliseconds(settings.emit_heartbeats, settings.emit_heartbeats_interval_seconds),
        "emit_offset_syncs": settings.emit_offset_syncs,
        "enabled": settings.enabled,
        "group_filter": {name: settings.group_filter.matches(name) for name in expected["group_filter"]},
        "heartbeats_replication": settings.heartbeats_replication,
        "max_offset_lag": settings.offset_lag_max,
        "offset_syncs_consumer": settings.clients.offset_syncs_consumer,
        "offset_syncs_producer": settings.clients.offset_syncs_producer,
        "offset_syncs_topic": settings.offset_syncs_topic,
        "policy": f"org.apache.kafka.connect.mirror.{type(settings.policy).__name__}",
        "refresh_groups_ms": _milliseconds(settings.refresh_groups, settings.refresh_groups_interval_seconds),
        "refresh_topics_ms": _milliseconds(settings.refresh_topics, settings.refresh_topics_interval_seconds),
        "replication_factor": settings.replication_factor,
        "source_admin": settings.clients.source_admin,
        "source_consumer": settings.source_consumer,
        "sync_group_offsets_ms": _milliseconds(
            settings.sync_group_offsets, settings.sync_group_offsets_interval_seconds
        ),
        "sync_topic_acls_ms": _milliseconds(settings.sync_topic_acls, settings.sync_topic_acls_interval_seconds),
        "sync_topic_configs_ms": _milliseconds(
            settings.sync_topic_configs, settings.sync_topic_configs_interval_seconds
        ),
        "target_admin": settings.clients.target_admin,
        "topic_filter": {name: settings.topic_filter.matches(name) for name in expected["topic_filter"]},
    }


def _milliseconds(is_on: bool, seconds: float) -> int:
    return round(seconds * 1000) if is_on else -1
