"""Both policies name topics, and read names, as in Java."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.model.topics import (
    DefaultReplicationPolicy,
    Generation,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from tests.golden.facts import entries

ENTRIES = entries(
    "policies.json",
    lambda entry: f"{entry['class']}{entry['separator']}{entry['internal_separator_enabled']}",
)
PREDICATES = {
    "checkpoints": "is_checkpoints_topic",
    "heartbeats": "is_heartbeats_topic",
    "internal": "is_internal_topic",
    "mm2_internal": "is_mm2_internal_topic",
    "original": "original_topic",
    "source": "topic_source",
    "upstream": "upstream_topic",
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_policy_names_its_own_topics_as_in_java(entry: dict[str, Any]) -> None:
    policy = _policy(entry)
    for key, expected in entry.items():
        name, _, alias = key.rpartition("_topic_")
        match name:
            case "checkpoints":
                assert policy.checkpoints_topic(alias) == expected
            case "offset_syncs":
                assert policy.offset_syncs_topic(alias) == expected
            case _:
                assert key in {"class", "separator", "internal_separator_enabled", "heartbeats_topic", "topics"}
    assert policy.heartbeats_topic() == entry["heartbeats_topic"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_policy_reads_names_as_in_java(entry: dict[str, Any]) -> None:
    policy = _policy(entry)
    assert entry["topics"]
    for expected in entry["topics"]:
        assert {key: _asked(policy, key, expected["topic"]) for key in expected} == expected


def _asked(policy: ReplicationPolicy, key: str, topic: str) -> Any:
    if key == "topic":
        return topic
    if key.startswith("remote_from_"):
        return policy.format_remote_topic(key.removeprefix("remote_from_"), topic)
    return getattr(policy, PREDICATES[key])(topic)


def _policy(entry: dict[str, Any]) -> ReplicationPolicy:
    separator, internal = entry["separator"], entry["internal_separator_enabled"] == "true"
    match entry["class"]:
        case "DefaultReplicationPolicy":
            return DefaultReplicationPolicy(separator, internal, Generation.V4_3)
        case "IdentityReplicationPolicy":
            return IdentityReplicationPolicy(separator, internal, "A", Generation.V4_3)
        case other:
            raise AssertionError(f"no such policy: {other}")
