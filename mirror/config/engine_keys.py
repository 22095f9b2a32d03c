"""The engine's own keys: name, type, default, what is allowed, what each means; `docs/settings.md` is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from mirror.config.definition import Check, Definition, Importance, Type, at_least, between, by_name, one_of
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


class RefusedOffsets(StrEnum):
    """What becomes of a partition whose copy cannot have the source's offsets."""

    STOP = "stop"
    """It stops, by name."""
    TRANSLATE = "translate"
    """Its copy has offsets of its own, and positions are translated; not under unchanged names."""


class RecreatedTopics(StrEnum):
    """What becomes of a copy with the source's offsets whose source topic was deleted and created anew."""

    STOP = "stop"
    """It is kept, and its partitions stop."""
    MAKE_ANEW = "make-anew"
    """It is deleted, and made anew from the new topic's start; not under unchanged names."""


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


def values_of(choices: type[StrEnum]) -> Iterator[str]:
    """Return what may be written for a key that has these choices."""
    return (choice.value for choice in choices)


def setting(
    name: str, kind: Type, default: Any, check: Check | None = None, *, meaning: str, of_a_flow: bool = False
) -> Definition:
    """Return a key of the engine's own; ``of_a_flow``: a flow may have it differently."""
    return Definition(name, kind, default, Importance.LOW, check, meaning, of_a_flow)


ENGINE: Final = by_name(
    (
        setting(
            "mirror.epoch.seconds",
            Type.DOUBLE,
            30.0,
            between(0.1, 3600.0),
            meaning="How long a Spark job copies before the next one is planned.",
        ),
        setting(
            "mirror.commit.interval.ms",
            Type.LONG,
            1000,
            at_least(1),
            meaning="How often positions are recorded.",
        ),
        setting(
            "mirror.discovery.seconds",
            Type.DOUBLE,
            5.0,
            between(0.1, 86400.0),
            meaning="How often new topics are looked for, unless `refresh.topics.interval.seconds` is given.",
        ),
        setting(
            "mirror.oversized.records",
            Type.STRING,
            Oversized.STOP.value,
            one_of(*values_of(Oversized)),
            of_a_flow=True,
            meaning="A record too large for the target stops its partition, or goes to `mm2-parked.<source>.internal`.",
        ),
        setting(
            "mirror.offsets",
            Type.STRING,
            Offsets.TRANSLATED.value,
            one_of(*values_of(Offsets)),
            of_a_flow=True,
            meaning="Copies have offsets of their own, or the source's (ADR 13).",
        ),
        setting(
            "mirror.offsets.topics",
            Type.LIST,
            (".*",),
            of_a_flow=True,
            meaning="Topics of the source whose copies have the source's offsets.",
        ),
        setting(
            "mirror.offsets.pad.limit",
            Type.LONG,
            1_000_000_000,
            at_least(0),
            of_a_flow=True,
            meaning="How many offsets without a record are filled in a row at most.",
        ),
        setting(
            "mirror.offsets.refused",
            Type.STRING,
            RefusedOffsets.STOP.value,
            one_of(*values_of(RefusedOffsets)),
            of_a_flow=True,
            meaning="A partition that cannot have the source's offsets stops, or is translated.",
        ),
        setting(
            "mirror.offsets.recreated",
            Type.STRING,
            RecreatedTopics.STOP.value,
            one_of(*values_of(RecreatedTopics)),
            of_a_flow=True,
            meaning="A topic created anew on the source stops, or has its copy with the source's offsets deleted and "
            "made anew.",
        ),
        setting(
            "mirror.acls.prefixed",
            Type.BOOLEAN,
            False,
            of_a_flow=True,
            meaning="ACLs on prefixes of topic names are carried over too.",
        ),
        setting(
            "mirror.acls.groups",
            Type.BOOLEAN,
            False,
            of_a_flow=True,
            meaning="ACLs on consumer groups are carried over too.",
        ),
        setting(
            "mirror.acls.transactional.ids",
            Type.BOOLEAN,
            False,
            of_a_flow=True,
            meaning="ACLs on transactional ids are carried over too.",
        ),
        setting(
            "mirror.acls.wildcard",
            Type.STRING,
            WildcardAcls.DENIALS.value,
            one_of(*values_of(WildcardAcls)),
            of_a_flow=True,
            meaning="Of ACLs on all names (`*`) only denials are carried over, or all.",
        ),
        setting(
            "mirror.acls.remove.revoked",
            Type.BOOLEAN,
            False,
            of_a_flow=True,
            meaning="What this engine has allowed on the target is removed once it is revoked on the source.",
        ),
        setting(
            "mirror.acls.scram.users",
            Type.BOOLEAN,
            False,
            of_a_flow=True,
            meaning="SCRAM users of the source who cannot log in on the target are listed.",
        ),
        setting(
            "mirror.acls.client.quotas",
            Type.BOOLEAN,
            False,
            of_a_flow=True,
            meaning="Client quotas are carried over.",
        ),
        setting(
            "mirror.gaps",
            Type.STRING,
            "continue",
            one_of("continue", "stop"),
            of_a_flow=True,
            meaning="Behind records that were gone before they were copied it goes on, or stops until acknowledged.",
        ),
        setting(
            "mirror.mirrored.records",
            Type.STRING,
            MirroredRecords.AUTO.value,
            one_of(*values_of(MirroredRecords)),
            of_a_flow=True,
            meaning="Under unchanged names: whether records that other flows have mirrored are copied on.",
        ),
        setting(
            "mirror.leader.timeout.seconds",
            Type.DOUBLE,
            6.0,
            between(3.0, 3600.0),
            meaning="After how long without a renewal another engine may lead a flow.",
        ),
        setting(
            "mirror.status.port",
            Type.INT,
            -1,
            between(-1, 65535),
            meaning="Port of `/metrics`, `/health`, `/ready` and `/status`; 0 takes any, -1 serves none.",
        ),
        setting(
            "mirror.status.address",
            Type.STRING,
            "127.0.0.1",
            meaning="Address on which they are served.",
        ),
        setting(
            "mirror.status.cliff.seconds",
            Type.DOUBLE,
            3600.0,
            at_least(0),
            meaning="How soon the deletion of the oldest unmirrored record has to be for a flow to be DEGRADED.",
        ),
        setting(
            "mirror.history.directory",
            Type.STRING,
            "",
            meaning="Where a history of status is kept; empty keeps none.",
        ),
        setting(
            "mirror.history.interval.seconds",
            Type.DOUBLE,
            10.0,
            between(0.5, 3600.0),
            meaning="How often a sample is taken.",
        ),
        setting(
            "mirror.history.retention.hours",
            Type.DOUBLE,
            168.0,
            between(0.1, 87_600.0),
            meaning="For how long samples are kept.",
        ),
        setting(
            "mirror.history.retention.bytes",
            Type.LONG,
            1 << 30,
            at_least(1 << 20),
            meaning="How large the history may become.",
        ),
        setting(
            "mirror.tasks",
            Type.INT,
            0,
            at_least(0),
            meaning="How many Spark tasks copy at once; 0: as many as there are cores.",
        ),
        setting(
            "mirror.takeover",
            Type.STRING,
            "match",
            one_of("match", "position"),
            meaning="A copy of Java MirrorMaker goes on behind its last record found, or at its recorded position.",
        ),
        setting(
            "mirror.compatibility",
            Type.STRING,
            Generation.NEWEST.value,
            one_of(*values_of(Generation)),
            meaning="Which generation of MirrorMaker the defaults are of.",
        ),
    )
)
"""The engine's own keys, which MirrorMaker 2 ignores (CFG-078)."""

ENGINE_OF_A_FLOW: Final = frozenset(name for name, definition in ENGINE.items() if definition.of_a_flow)
"""Those of them that a flow may have differently, written ``A->B.mirror.gaps``."""
