"""What the names of topics on a cluster say, and which properties the library reads (API-01 to API-06, API-09)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from mirror.client import MirrorClient
from mirror.config.errors import ConfigError
from mirror.config.mirror_client import MirrorClientSettings
from mirror.kafka.cluster import Cluster
from mirror.model.topics import DefaultReplicationPolicy, IdentityReplicationPolicy

HERE = {"bootstrap.servers": "west:9092"}
IDENTITY = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "source.cluster.alias": "east",
}


class Topics:
    """A cluster of which only the names of topics are known."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def topics(self) -> dict[str, Any]:
        return dict.fromkeys(self.names)


def client(*topics: str, **properties: str) -> MirrorClient:
    return MirrorClient(MirrorClientSettings.of(HERE | properties), cast(Cluster, Topics(*topics)))


def test_hops_are_those_of_the_shortest_way() -> None:
    """The examples of Java's own documentation; no way is None, Java's -1 (API-01)."""
    here = client("heartbeats", "source1.heartbeats", "source1.source2.heartbeats", "source3.heartbeats", "a.b.orders")
    assert [here.replication_hops(f"source{number}") for number in (1, 2, 3, 4)] == [1, 2, 1, None]
    assert here.replication_hops("a") is None
    nearer = client("source1.source2.heartbeats", "source2.heartbeats")
    assert nearer.replication_hops("source2") == 1


def test_a_repeated_alias_ends_the_way() -> None:
    """A cycle is never gone round twice (API-10)."""
    here = client("a.b.a.c.heartbeats")
    assert here.upstream_clusters() == {"a", "b"}
    assert [here.replication_hops(alias) for alias in "abc"] == [1, 2, None]


def test_topics_are_told_apart_by_their_names() -> None:
    here = client("heartbeats", "east.heartbeats", "east.orders", "orders", "east.checkpoints.internal", "orders.v1")
    assert here.heartbeat_topics() == {"heartbeats", "east.heartbeats"}
    assert here.checkpoint_topics() == {"east.checkpoints.internal"}
    assert here.upstream_clusters() == {"east"}
    assert here.remote_topics() == {"east.heartbeats", "east.orders", "orders.v1"}
    assert here.remote_topics("east") == {"east.heartbeats", "east.orders"}


def test_with_unchanged_names_everything_but_the_heartbeats_is_remote() -> None:
    """API-05."""
    here = client("orders", "heartbeats", "east.heartbeats", "mm2-offsets.east.internal", **IDENTITY)
    assert here.remote_topics() == {"orders", "east.heartbeats"}
    assert here.remote_topics("east") == {"orders", "east.heartbeats"}
    assert here.remote_topics("north") == frozenset()


def test_each_client_keeps_addresses_and_security_only() -> None:
    """The prefixed form wins for its client; what is neither does not reach it."""
    settings = MirrorClientSettings.of(
        HERE
        | {
            "security.protocol": "SASL_SSL",
            "consumer.bootstrap.servers": "reader:1",
            "admin.ssl.truststore.location": "/a",
            "consumer.client.id": "mine",
            "fetch.min.bytes": "7",
        }
    )
    assert settings.admin == {**HERE, "security.protocol": "SASL_SSL", "ssl.truststore.location": "/a"}
    assert settings.consumer == {"bootstrap.servers": "reader:1", "security.protocol": "SASL_SSL"}
    assert settings.policy == DefaultReplicationPolicy()


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "bootstrap.servers"),
        (HERE | {"security.protocol": "PLAIN"}, "security.protocol"),
        (HERE | {"replication.policy.class": "com.example.Mine"}, "replication.policy.class"),
        (HERE | {"replication.policy.class": "python:tests.nowhere:Mine"}, "replication.policy.class"),
        (HERE | {"forwarding.admin.class": "com.example.Mine"}, "forwarding.admin.class"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_key(properties: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MirrorClientSettings.of(properties)
    assert refused.value.key == key


def test_a_cluster_of_a_file_is_reached_as_the_file_says(tmp_path: Path) -> None:
    """Secrets come from the providers, the policy from the top level (CFG-102)."""
    secret = tmp_path / "secret.properties"
    secret.write_text("password=hush\n")
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = east, west\nwest.bootstrap.servers = w:1\nwest.security.protocol = SSL\n"
        f"west.ssl.key.password = ${{file:{secret}:password}}\neast.bootstrap.servers = e:1\n"
        "replication.policy.separator = _\nreplication.policy.internal.topic.separator.enabled = false\n"
        "config.providers = file\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    settings = MirrorClientSettings.of_file(file, "west")
    assert settings.consumer == {
        "bootstrap.servers": "w:1",
        "security.protocol": "SSL",
        "ssl.key.password": "hush",
    }
    assert settings.policy == DefaultReplicationPolicy("_", internal_separator_enabled=False)
    assert settings.alias == "west"
    with pytest.raises(ConfigError, match="there is no north; there are east, west"):
        MirrorClientSettings.of_file(file, "north")


def test_the_identity_policy_knows_its_source() -> None:
    policy = MirrorClientSettings.of(HERE | IDENTITY).policy
    assert isinstance(policy, IdentityReplicationPolicy)
    assert policy.source_alias == "east"
