"""The keys of MirrorMaker 2's connectors, of its worker and of this engine: type, default, importance, what is allowed.

Types are Java's (``ConfigDef``), and so is the reading of a value. Keys and defaults are those of release 4.3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mirror.config.connector_keys import CHECKPOINT_KEYS, SOURCE_KEYS
from mirror.config.definition import REQUIRED, Definition, Importance, Type, at_least, between, by_name, one_of
from mirror.config.security_keys import SECURITY
from mirror.model.topics import Generation


class Oversized(StrEnum):
    """What becomes of a record that the target finds too large."""

    STOP = "stop"
    """Its partition stops before it."""
    PARK = "park"
    """It goes to a topic of its own, and the copy goes on behind it."""


class Offsets(StrEnum):
    """Which offsets the records of a copy have."""

    TRANSLATED = "translated"
    """The target's own; positions are translated."""
    SAME = "same"
    """Those of their originals, on any target: what has no record is filled (ADR 13)."""


class WildcardAcls(StrEnum):
    """What becomes of ACLs on all topics, groups or transactional ids, written ``*`` (ACL-06)."""

    DENIALS = "denials"
    """What they forbid is forbidden on the target too, what they allow is left out."""
    ALL = "all"
    """Both are carried over."""


class MirroredRecords(StrEnum):
    """What a flow does, where names are unchanged, with records that other flows have mirrored into its source."""

    AUTO = "auto"
    """It copies them on, unless they are at the target already or get there by another flow of the file."""
    FORWARD = "forward"
    """The same, and flows that the file does not know of are no matter of concern."""
    SKIP = "skip"
    """It leaves them out: only what was produced on the source is copied."""


CLIENT_KEYS: Final = frozenset({"bootstrap.servers", *SECURITY})
"""The keys of a cluster that reach its clients (CFG-080)."""
FILTERS: Final = by_name(
    (
        SOURCE_KEYS["topics"],
        SOURCE_KEYS["topics.exclude"],
        CHECKPOINT_KEYS["groups"],
        CHECKPOINT_KEYS["groups.exclude"],
        SOURCE_KEYS["config.properties.exclude"],
        Definition("use.defaults.from", Type.STRING, "target", Importance.MEDIUM),
    )
)
"""The keys of the default filters, read whichever connector they belong to (CFG-025, CFG-043)."""
RETENTION: Final = by_name(
    (
        Definition("checkpoints.topic.retention.ms", Type.LONG, None, Importance.LOW, at_least(-1)),
        Definition("heartbeats.topic.retention.ms", Type.LONG, None, Importance.LOW, at_least(-1)),
        Definition("offset.syncs.topic.retention.ms", Type.LONG, None, Importance.LOW, at_least(-1)),
    )
)
"""What KIP-382 named for the side topics, as they are created; no release of MirrorMaker reads these keys."""
OLD_EXCLUDES: Final = {
    "config.properties.exclude": "config.properties.blacklist",
    "groups.exclude": "groups.blacklist",
    "topics.exclude": "topics.blacklist",
}
"""What the exclude lists were called up to release 3.9 (CFG-038)."""
TOPICS_EXCLUDE_OF_3_9: Final = (r".*[\-\.]internal", r".*\.replica", "__.*")
"""The default of ``topics.exclude`` before VER-17."""
MIRROR_MAKER: Final = SECURITY | by_name(
    (
        Definition("clusters", Type.LIST, REQUIRED, Importance.HIGH),
        Definition("config.providers", Type.LIST, (), Importance.LOW),
        Definition("dedicated.mode.enable.internal.rest", Type.BOOLEAN, False, Importance.HIGH),
        Definition("listeners", Type.LIST, ("http://:8083",), Importance.LOW),
        Definition("rest.advertised.port", Type.INT, None, Importance.LOW),
        Definition("ssl.client.auth", Type.STRING, "none", Importance.LOW, one_of("required", "requested", "none")),
    )
)
"""The keys of the top level (section 1.5)."""
WORKER: Final = by_name(
    (
        Definition("group.id", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("offset.storage.topic", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("config.storage.topic", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("offset.storage.partitions", Type.INT, 25, Importance.LOW),
        Definition("offset.storage.replication.factor", Type.SHORT, 3, Importance.LOW),
        Definition("offset.flush.interval.ms", Type.LONG, 60000, Importance.LOW),
        Definition(
            "exactly.once.source.support",
            Type.STRING,
            "disabled",
            Importance.HIGH,
            one_of("disabled", "preparing", "enabled", ignore_case=True),
        ),
    )
)
"""The worker settings that matter to this engine (CFG-081, DED-03)."""
READER: Final = by_name(
    (
        Definition("fetch.min.bytes", Type.INT, 1, Importance.HIGH, at_least(0)),
        Definition("fetch.max.wait.ms", Type.INT, 500, Importance.LOW, at_least(0)),
        Definition("max.partition.fetch.bytes", Type.INT, 1 << 20, Importance.HIGH, at_least(0)),
        Definition("fetch.max.bytes", Type.INT, 50 << 20, Importance.MEDIUM, at_least(0)),
        Definition("client.rack", Type.STRING, "", Importance.LOW),
    )
)
"""The settings of the source's consumer that this engine's reader keeps to."""
EXACTLY_ONCE: Final = by_name(
    (
        Definition(
            "exactly.once.support",
            Type.STRING,
            "requested",
            Importance.MEDIUM,
            one_of("requested", "required", ignore_case=True),
        ),
        Definition(
            "transaction.boundary",
            Type.STRING,
            "poll",
            Importance.MEDIUM,
            one_of("poll", "interval", "connector", ignore_case=True),
        ),
        Definition("transaction.boundary.interval.ms", Type.LONG, None, Importance.LOW, at_least(0)),
    )
)
"""What Connect lets a source connector say about transactions; only as ``A->B.<key>`` (CFG-013)."""
TRANSACTIONAL_PRODUCER: Final = by_name(
    (Definition("transaction.timeout.ms", Type.INT, 60000, Importance.LOW, at_least(1)),)
)
"""What the data producer's properties say about its transactions."""
ENGINE: Final = by_name(
    (
        Definition("mirror.epoch.seconds", Type.DOUBLE, 30.0, Importance.LOW, between(0.1, 3600.0)),
        Definition("mirror.commit.interval.ms", Type.LONG, 1000, Importance.LOW, at_least(1)),
        Definition("mirror.discovery.seconds", Type.DOUBLE, 5.0, Importance.LOW, between(0.1, 86400.0)),
        Definition(
            "mirror.oversized.records",
            Type.STRING,
            Oversized.STOP.value,
            Importance.LOW,
            one_of(*(choice.value for choice in Oversized)),
        ),
        Definition(
            "mirror.offsets",
            Type.STRING,
            Offsets.TRANSLATED.value,
            Importance.LOW,
            one_of(*(choice.value for choice in Offsets)),
        ),
        Definition("mirror.offsets.topics", Type.LIST, (".*",), Importance.LOW),
        Definition("mirror.offsets.pad.limit", Type.LONG, 1_000_000_000, Importance.LOW, at_least(0)),
        Definition("mirror.acls.prefixed", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.groups", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.transactional.ids", Type.BOOLEAN, False, Importance.LOW),
        Definition(
            "mirror.acls.wildcard",
            Type.STRING,
            WildcardAcls.DENIALS.value,
            Importance.LOW,
            one_of(*(choice.value for choice in WildcardAcls)),
        ),
        Definition("mirror.acls.remove.revoked", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.scram.users", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.client.quotas", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.gaps", Type.STRING, "continue", Importance.LOW, one_of("continue", "stop")),
        Definition(
            "mirror.mirrored.records",
            Type.STRING,
            MirroredRecords.AUTO.value,
            Importance.LOW,
            one_of(*(choice.value for choice in MirroredRecords)),
        ),
        Definition("mirror.leader.timeout.seconds", Type.DOUBLE, 6.0, Importance.LOW, between(3.0, 3600.0)),
        Definition("mirror.status.port", Type.INT, -1, Importance.LOW, between(-1, 65535)),
        Definition("mirror.status.address", Type.STRING, "127.0.0.1", Importance.LOW),
        Definition("mirror.status.cliff.seconds", Type.DOUBLE, 3600.0, Importance.LOW, at_least(0)),
        Definition("mirror.history.directory", Type.STRING, "", Importance.LOW),
        Definition("mirror.history.interval.seconds", Type.DOUBLE, 10.0, Importance.LOW, between(0.5, 3600.0)),
        Definition("mirror.history.retention.hours", Type.DOUBLE, 168.0, Importance.LOW, between(0.1, 87_600.0)),
        Definition("mirror.history.retention.bytes", Type.LONG, 1 << 30, Importance.LOW, at_least(1 << 20)),
        Definition("mirror.tasks", Type.INT, 0, Importance.LOW, at_least(0)),
        Definition("mirror.takeover", Type.STRING, "match", Importance.LOW, one_of("match", "position")),
        Definition(
            "mirror.compatibility",
            Type.STRING,
            Generation.NEWEST.value,
            Importance.LOW,
            one_of(*(generation.value for generation in Generation)),
        ),
    )
)
"""The engine's own keys, which MirrorMaker 2 ignores (CFG-078)."""
ENGINE_OF_A_FLOW: Final = frozenset(
    {
        "mirror.gaps",
        "mirror.mirrored.records",
        "mirror.offsets",
        "mirror.offsets.pad.limit",
        "mirror.offsets.topics",
        "mirror.oversized.records",
        *(name for name in ENGINE if name.startswith("mirror.acls.")),
    }
)
"""Those of them that a flow may have differently, written ``A->B.mirror.gaps``."""
