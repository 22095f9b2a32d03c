"""The keys of MirrorMaker 2's connectors, of its worker and of this engine: type, default, importance, what is allowed.

Types are Java's (``ConfigDef``), and so is the reading of a value. Keys and defaults are those of release 4.3.
"""

from __future__ import annotations

from typing import Final

from mirror.config.connector_keys import CHECKPOINT_KEYS, SOURCE_KEYS
from mirror.config.definition import REQUIRED, Definition, Importance, Type, at_least, by_name, one_of, seconds
from mirror.config.security_keys import SECURITY

CLIENT_KEYS: Final = frozenset({"bootstrap.servers", *SECURITY})
"""The keys of a cluster that reach its clients (CFG-080)."""
FILTERS: Final = by_name(
    (
        SOURCE_KEYS["topics"],
        SOURCE_KEYS["topics.exclude"],
        CHECKPOINT_KEYS["groups"],
        CHECKPOINT_KEYS["groups.exclude"],
        SOURCE_KEYS["config.properties.exclude"],
        Definition(
            "use.defaults.from", Type.STRING, "target", Importance.MEDIUM, live=True, shapes=("config_property_filter",)
        ),
    )
)
"""The keys of the default filters, read whichever connector they belong to (CFG-025, CFG-043)."""
RETENTION: Final = by_name(
    (
        Definition(
            "checkpoints.topic.retention.ms", Type.LONG, None, check=at_least(-1), field="checkpoints_retention_ms"
        ),
        Definition(
            "heartbeats.topic.retention.ms", Type.LONG, None, check=at_least(-1), field="heartbeats_retention_ms"
        ),
        Definition(
            "offset.syncs.topic.retention.ms", Type.LONG, None, check=at_least(-1), field="offset_syncs_retention_ms"
        ),
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
"""The keys of the top level (CFG-070 to CFG-078)."""
WORKER: Final = by_name(
    (
        Definition("group.id", Type.STRING, REQUIRED, Importance.HIGH, field="group_id"),
        Definition("offset.storage.topic", Type.STRING, REQUIRED, Importance.HIGH, field="offset_storage_topic"),
        Definition("config.storage.topic", Type.STRING, REQUIRED, Importance.HIGH, field="config_storage_topic"),
        Definition("offset.storage.partitions", Type.INT, 25, field="offset_storage_partitions"),
        Definition("offset.storage.replication.factor", Type.SHORT, 3, field="offset_storage_replication_factor"),
        Definition(
            "offset.flush.interval.ms", Type.LONG, 60000, field="offset_commit_interval_seconds", convert=seconds
        ),
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
