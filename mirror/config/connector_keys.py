"""The keys of MirrorMaker's three connectors, with their defaults (CFG rows)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mirror.config.definition import (
    REQUIRED,
    Definition,
    Importance,
    Type,
    at_least,
    available,
    available_or_own,
    by_name,
    one_of,
    printable_name,
    replicas,
    some_of,
    unique,
)
from mirror.config.security_keys import SECURITY

IDENTITY_CLASSES: Final = (
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
    "org.apache.kafka.mirror.LegacyReplicationPolicy",
    "LegacyReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
)
"""The policy of unchanged names, and how it was called before (KIP-382, KAFKA-9726) and elsewhere."""
_MIRROR = "org.apache.kafka.connect.mirror."
_CONVERTERS = "org.apache.kafka.connect.converters."
_CONVERTER = available(
    f"{_CONVERTERS}ByteArrayConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.json.JsonConverter",
    *(f"{_CONVERTERS}{kind}Converter" for kind in ("Boolean", "Double", "Float", "Integer", "Long", "Short")),
)
_HEADER_CONVERTER = available(
    f"{_CONVERTERS}ByteArrayConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.json.JsonConverter",
)
_BASE: Final = by_name(
    (
        Definition("admin.timeout.ms", Type.LONG, 60000, Importance.LOW),
        Definition("config.action.reload", Type.STRING, "restart", Importance.LOW, one_of("none", "restart")),
        Definition("config.providers", Type.LIST, (), Importance.LOW),
        Definition("connector.class", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("connector.plugin.version", Type.STRING, None, Importance.MEDIUM),
        Definition("enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("errors.log.enable", Type.BOOLEAN, False, Importance.MEDIUM),
        Definition("errors.log.include.messages", Type.BOOLEAN, False, Importance.MEDIUM),
        Definition("errors.retry.delay.max.ms", Type.LONG, 60000, Importance.MEDIUM),
        Definition("errors.retry.timeout", Type.LONG, 0, Importance.MEDIUM),
        Definition("errors.tolerance", Type.STRING, "none", Importance.MEDIUM, one_of("none", "all")),
        Definition(
            "forwarding.admin.class",
            Type.CLASS,
            "org.apache.kafka.clients.admin.ForwardingAdmin",
            Importance.LOW,
            available("org.apache.kafka.clients.admin.ForwardingAdmin"),
        ),
        Definition("header.converter", Type.CLASS, None, Importance.LOW, _HEADER_CONVERTER),
        Definition("header.converter.plugin.version", Type.STRING, None, Importance.LOW),
        Definition("key.converter", Type.CLASS, None, Importance.LOW, _CONVERTER),
        Definition("key.converter.plugin.version", Type.STRING, None, Importance.LOW),
        Definition("metric.reporters", Type.LIST, ("org.apache.kafka.common.metrics.JmxReporter",), Importance.LOW),
        Definition("name", Type.STRING, REQUIRED, Importance.HIGH, printable_name),
        Definition("predicates", Type.LIST, (), Importance.LOW, unique),
        Definition(
            "replication.policy.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultReplicationPolicy", *IDENTITY_CLASSES),
        ),
        Definition("replication.policy.internal.topic.separator.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("replication.policy.separator", Type.STRING, ".", Importance.LOW),
        Definition("source.cluster.alias", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("target.cluster.alias", Type.STRING, "target", Importance.HIGH),
        Definition("tasks.max", Type.INT, 1, Importance.HIGH, at_least(1)),
        Definition("tasks.max.enforce", Type.BOOLEAN, True, Importance.LOW),
        Definition("transforms", Type.LIST, (), Importance.LOW, unique),
        Definition("value.converter", Type.CLASS, None, Importance.LOW, _CONVERTER),
        Definition("value.converter.plugin.version", Type.STRING, None, Importance.LOW),
    )
)
_SOURCE_AND_CHECKPOINT: Final = by_name(
    (
        Definition("consumer.poll.timeout.ms", Type.LONG, 1000, Importance.LOW),
        Definition("metric.names.formats", Type.LIST, ("legacy",), Importance.LOW, some_of("legacy", "new")),
        Definition("offset-syncs.topic.location", Type.STRING, "source", Importance.LOW, one_of("source", "target")),
        Definition(
            "topic.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultTopicFilter",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultTopicFilter"),
        ),
    )
)
SOURCE_KEYS: Final = by_name(
    (
        Definition(
            "config.properties.exclude",
            Type.LIST,
            (
                "follower.replication.throttled.replicas",
                "leader.replication.throttled.replicas",
                "message.timestamp.difference.max.ms",
                "log.message.timestamp.before.max.ms",
                "log.message.timestamp.after.max.ms",
                "message.timestamp.type",
                "unclean.leader.election.enable",
                "min.insync.replicas",
            ),
            Importance.HIGH,
        ),
        Definition(
            "config.property.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultConfigPropertyFilter"),
        ),
        Definition("emit.offset-syncs.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("heartbeats.replication.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("offset-syncs.topic.replication.factor", Type.SHORT, 3, Importance.LOW, replicas),
        Definition("offset.lag.max", Type.LONG, 100, Importance.LOW),
        Definition("refresh.topics.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("refresh.topics.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("replication.factor", Type.INT, 2, Importance.LOW, replicas),
        Definition("sync.topic.acls.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("sync.topic.acls.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("sync.topic.configs.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("sync.topic.configs.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("topics", Type.LIST, (".*",), Importance.HIGH),
        Definition("topics.exclude", Type.LIST, (r"mm2.*\.internal", r".*\.replica", "__.*"), Importance.HIGH),
    )
)
CHECKPOINT_KEYS: Final = by_name(
    (
        Definition("checkpoints.topic.replication.factor", Type.SHORT, 3, Importance.LOW, replicas),
        Definition("emit.checkpoints.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("emit.checkpoints.interval.seconds", Type.LONG, 60, Importance.LOW),
        Definition(
            "group.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultGroupFilter",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultGroupFilter"),
        ),
        Definition("groups", Type.LIST, (".*",), Importance.HIGH),
        Definition("groups.exclude", Type.LIST, ("console-consumer-.*", "connect-.*", "__.*"), Importance.HIGH),
        Definition("refresh.groups.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("refresh.groups.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("sync.group.offsets.enabled", Type.BOOLEAN, False, Importance.LOW),
        Definition("sync.group.offsets.interval.seconds", Type.LONG, 60, Importance.LOW),
    )
)
_HEARTBEAT: Final = by_name(
    (
        Definition("emit.heartbeats.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("emit.heartbeats.interval.seconds", Type.LONG, 1, Importance.LOW),
        Definition("heartbeats.topic.replication.factor", Type.SHORT, 3, Importance.LOW, replicas),
    )
)


class Connector(StrEnum):
    """The three connectors of a flow (DED-06)."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


CONNECTORS: Final = {
    Connector.SOURCE: _BASE | SECURITY | _SOURCE_AND_CHECKPOINT | SOURCE_KEYS,
    Connector.CHECKPOINT: _BASE | SECURITY | _SOURCE_AND_CHECKPOINT | CHECKPOINT_KEYS,
    Connector.HEARTBEAT: _BASE | SECURITY | _HEARTBEAT,
}
"""Every key of every connector (sections 1.1 to 1.4)."""
CONNECTOR_KEYS: Final = frozenset(name for keys in CONNECTORS.values() for name in keys)
"""The keys that, at the top level of the file, reach all connectors of all flows (CFG-076)."""
