"""The keys of MirrorMaker's three connectors, with their defaults (CFG-001 to CFG-061)."""

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
INTERVAL: Final = ".interval.seconds"
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


def _every_so_often(
    name: str, interval: int, *, is_on: bool = True, switch_is_live: bool = True, shapes: tuple[str, ...] = ()
) -> tuple[Definition, Definition]:
    """Return the two keys of what is done every so often: whether, and after how many seconds; negative: never."""
    field = name.replace(".", "_")
    of_interval = (*shapes, field) if switch_is_live else shapes
    return (
        Definition(f"{name}.enabled", Type.BOOLEAN, is_on, field=field, live=switch_is_live, shapes=shapes),
        Definition(
            f"{name}{INTERVAL}",
            Type.LONG,
            interval,
            field=f"{field}_interval_seconds",
            live=True,
            shapes=of_interval,
        ),
    )


_BASE: Final = by_name(
    (
        Definition("admin.timeout.ms", Type.LONG, 60000, Importance.LOW),
        Definition("config.action.reload", Type.STRING, "restart", Importance.LOW, one_of("none", "restart")),
        Definition("config.providers", Type.LIST, (), Importance.LOW),
        Definition("connector.class", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("connector.plugin.version", Type.STRING, None, Importance.MEDIUM),
        Definition("enabled", Type.BOOLEAN, True, field="enabled"),
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
        Definition("tasks.max", Type.INT, 1, Importance.HIGH, at_least(1), field="tasks_max"),
        Definition("tasks.max.enforce", Type.BOOLEAN, True, Importance.LOW),
        Definition("transforms", Type.LIST, (), Importance.LOW, unique),
        Definition("value.converter", Type.CLASS, None, Importance.LOW, _CONVERTER),
        Definition("value.converter.plugin.version", Type.STRING, None, Importance.LOW),
    )
)
_SOURCE_AND_CHECKPOINT: Final = by_name(
    (
        Definition("consumer.poll.timeout.ms", Type.LONG, 1000, Importance.LOW),
        Definition(
            "metric.names.formats",
            Type.LIST,
            ("legacy",),
            check=some_of("legacy", "new"),
            live=True,
            shapes=("source_metric_names", "checkpoint_metric_names"),
        ),
        Definition(
            "offset-syncs.topic.location",
            Type.STRING,
            "source",
            check=one_of("source", "target"),
            field="offset_syncs_location",
        ),
        Definition(
            "topic.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultTopicFilter",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultTopicFilter"),
            live=True,
            shapes=("topic_filter",),
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
            live=True,
            shapes=("config_property_filter",),
        ),
        Definition(
            "config.property.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultConfigPropertyFilter"),
            live=True,
            shapes=("config_property_filter",),
        ),
        Definition("emit.offset-syncs.enabled", Type.BOOLEAN, True, field="emit_offset_syncs"),
        Definition("heartbeats.replication.enabled", Type.BOOLEAN, True, field="heartbeats_replication", live=True),
        Definition("offset-syncs.topic.replication.factor", Type.SHORT, 3, field="offset_syncs_replication_factor"),
        Definition("offset.lag.max", Type.LONG, 100, field="offset_lag_max", live=True),
        *_every_so_often("refresh.topics", 600, shapes=("discovery_seconds",)),
        Definition("replication.factor", Type.INT, 2, field="replication_factor", live=True),
        *_every_so_often("sync.topic.acls", 600),
        *_every_so_often("sync.topic.configs", 600),
        Definition("topics", Type.LIST, (".*",), Importance.HIGH, live=True, shapes=("topic_filter",)),
        Definition(
            "topics.exclude",
            Type.LIST,
            (r"mm2.*\.internal", r".*\.replica", "__.*"),
            Importance.HIGH,
            live=True,
            shapes=("topic_filter",),
        ),
    )
)
CHECKPOINT_KEYS: Final = by_name(
    (
        Definition("checkpoints.topic.replication.factor", Type.SHORT, 3, field="checkpoints_replication_factor"),
        *_every_so_often("emit.checkpoints", 60),
        Definition(
            "group.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultGroupFilter",
            Importance.LOW,
            available_or_own(f"{_MIRROR}DefaultGroupFilter"),
            live=True,
            shapes=("group_filter",),
        ),
        Definition("groups", Type.LIST, (".*",), Importance.HIGH, live=True, shapes=("group_filter",)),
        Definition(
            "groups.exclude",
            Type.LIST,
            ("console-consumer-.*", "connect-.*", "__.*"),
            Importance.HIGH,
            live=True,
            shapes=("group_filter",),
        ),
        *_every_so_often("refresh.groups", 600),
        *_every_so_often("sync.group.offsets", 60, is_on=False),
    )
)
_HEARTBEAT: Final = by_name(
    (
        # A flow that is off runs for its heartbeats alone: whether there is one goes by their switch.
        *_every_so_often("emit.heartbeats", 1, switch_is_live=False),
        Definition("heartbeats.topic.replication.factor", Type.SHORT, 3, field="heartbeats_replication_factor"),
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
"""Every key of every connector (CFG-001 to CFG-061)."""
CONNECTOR_KEYS: Final = frozenset(name for keys in CONNECTORS.values() for name in keys)
"""The keys that, at the top level of the file, reach all connectors of all flows (CFG-076)."""
