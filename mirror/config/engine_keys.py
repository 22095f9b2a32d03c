"""The engine's own keys: name, type, default, what is allowed, what each means; `docs/settings.md` is made of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from mirror.config.definition import Definition, Type, at_least, between, by_name, one_of, seconds
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


def choice(
    name: str,
    default: StrEnum,
    *,
    meaning: str,
    of_a_flow: bool = False,
    field: str = "",
    convert: Callable[[str], Any] | None = None,
    live: bool = False,
) -> Definition:
    """Return a key for which a value of the default's enumeration is written, and which resolves to one."""
    check = one_of(*(choice.value for choice in type(default)))
    return Definition(
        name,
        Type.STRING,
        default.value,
        check=check,
        meaning=meaning,
        of_a_flow=of_a_flow,
        field=field,
        convert=convert or type(default),
        live=live,
    )


def acls(name: str, *, meaning: str) -> Definition:
    """Return a switch of what is done about ACLs beyond MirrorMaker's rules."""
    return Definition(
        f"mirror.acls.{name}",
        Type.BOOLEAN,
        False,
        meaning=meaning,
        of_a_flow=True,
        field=f"acls.{name.replace('.', '_')}",
        live=True,
    )


ENGINE: Final = by_name(
    (
        Definition(
            "mirror.epoch.seconds",
            Type.DOUBLE,
            30.0,
            check=between(0.1, 3600.0),
            meaning="How long a Spark job copies before the next one is planned.",
            field="epoch_seconds",
            live=True,
        ),
        Definition(
            "mirror.commit.interval.ms",
            Type.LONG,
            1000,
            check=at_least(1),
            meaning="How often positions are recorded.",
            field="commit_interval_seconds",
            convert=seconds,
            live=True,
        ),
        Definition(
            "mirror.discovery.seconds",
            Type.DOUBLE,
            5.0,
            check=between(0.1, 86400.0),
            meaning="How often new topics are looked for, unless `refresh.topics.interval.seconds` is given.",
            field="discovery_seconds",
            live=True,
            shapes=("discovery_seconds",),
        ),
        choice(
            "mirror.oversized.records",
            Oversized.STOP,
            of_a_flow=True,
            meaning="A record too large for the target: `stop` stops its partition, `park` writes it to "
            "`mm2-parked.<source>.internal` and goes on.",
            field="oversized_records",
        ),
        choice(
            "mirror.offsets",
            Offsets.TRANSLATED,
            of_a_flow=True,
            meaning="`translated`: copies have offsets of their own; `same`: those of the source (ADR 13).",
        ),
        Definition(
            "mirror.offsets.topics",
            Type.LIST,
            (".*",),
            of_a_flow=True,
            meaning="Topics of the source whose copies have the source's offsets.",
        ),
        Definition(
            "mirror.offsets.pad.limit",
            Type.LONG,
            1_000_000_000,
            check=at_least(0),
            of_a_flow=True,
            meaning="How many offsets without a record are filled in a row at most.",
            field="same_offsets.pad_limit",
        ),
        choice(
            "mirror.offsets.refused",
            RefusedOffsets.STOP,
            of_a_flow=True,
            meaning="A partition that cannot have the source's offsets: `stop` stops it, `translate` gives its copy "
            "offsets of its own.",
            field="same_offsets.translates_refused",
            convert=lambda value: value == RefusedOffsets.TRANSLATE,
        ),
        choice(
            "mirror.offsets.recreated",
            RecreatedTopics.STOP,
            of_a_flow=True,
            meaning="A topic created anew on the source, whose copy has the source's offsets: `stop` stops its "
            "partitions, `make-anew` deletes the copy and makes it anew.",
            field="same_offsets.makes_recreated_anew",
            convert=lambda value: value == RecreatedTopics.MAKE_ANEW,
        ),
        acls("prefixed", meaning="ACLs on prefixes of topic names are carried over too."),
        acls("groups", meaning="ACLs on consumer groups are carried over too."),
        acls("transactional.ids", meaning="ACLs on transactional ids are carried over too."),
        choice(
            "mirror.acls.wildcard",
            WildcardAcls.DENIALS,
            of_a_flow=True,
            meaning="ACLs on all names (`*`): `denials` carries over only those that deny, `all` all of them.",
            field="acls.wildcard",
            live=True,
        ),
        acls(
            "remove.revoked",
            meaning="What this engine has allowed on the target is removed once it is revoked on the source.",
        ),
        acls("scram.users", meaning="SCRAM users of the source who cannot log in on the target are listed."),
        acls("client.quotas", meaning="Client quotas are carried over."),
        Definition(
            "mirror.gaps",
            Type.STRING,
            "continue",
            check=one_of("continue", "stop"),
            of_a_flow=True,
            meaning="At records that were gone before they were copied: `continue` goes on behind them, `stop` stops "
            "the partition until the gap is acknowledged.",
            field="stops_at_gaps",
            convert=lambda value: value == "stop",
        ),
        choice(
            "mirror.mirrored.records",
            MirroredRecords.AUTO,
            of_a_flow=True,
            meaning="Under unchanged names, records that other flows have mirrored into the source: `auto` copies them "
            "on unless another flow of the file does, `forward` does so without regard to flows that are not in the "
            "file, `skip` leaves them out.",
            field="mirrored_records",
        ),
        Definition(
            "mirror.leader.timeout.seconds",
            Type.DOUBLE,
            6.0,
            check=between(3.0, 3600.0),
            meaning="After how long without a renewal another engine may lead a flow.",
            field="leader_timeout_seconds",
        ),
        Definition(
            "mirror.status.port",
            Type.INT,
            -1,
            check=between(-1, 65535),
            meaning="Port of `/metrics`, `/health`, `/ready` and `/status`; 0 takes any, -1 serves none.",
            field="status_port",
            convert=lambda port: None if port < 0 else port,
        ),
        Definition(
            "mirror.status.address",
            Type.STRING,
            "127.0.0.1",
            meaning="Address on which `/metrics`, `/health`, `/ready` and `/status` are served.",
            field="status_address",
        ),
        Definition(
            "mirror.status.cliff.seconds",
            Type.DOUBLE,
            3600.0,
            check=at_least(0),
            meaning="How soon the deletion of the oldest unmirrored record has to be for a flow to be DEGRADED.",
            field="cliff_seconds",
            live=True,
        ),
        Definition(
            "mirror.history.directory",
            Type.STRING,
            "",
            meaning="Where a history of status is kept; empty keeps none.",
            field="history.directory",
            convert=lambda path: Path(path) if path else None,
        ),
        Definition(
            "mirror.history.interval.seconds",
            Type.DOUBLE,
            10.0,
            check=between(0.5, 3600.0),
            meaning="How often a sample is taken.",
            field="history.interval_seconds",
        ),
        Definition(
            "mirror.history.retention.hours",
            Type.DOUBLE,
            168.0,
            check=between(0.1, 87_600.0),
            meaning="For how long samples are kept.",
            field="history.retention_seconds",
            convert=lambda hours: 3600 * hours,
        ),
        Definition(
            "mirror.history.retention.bytes",
            Type.LONG,
            1 << 30,
            check=at_least(1 << 20),
            meaning="How large the history may become.",
            field="history.retention_bytes",
        ),
        Definition(
            "mirror.tasks",
            Type.INT,
            0,
            check=at_least(0),
            meaning="How many Spark tasks copy at once; 0: as many as there are cores.",
            field="tasks",
        ),
        Definition(
            "mirror.takeover",
            Type.STRING,
            "match",
            check=one_of("match", "position"),
            meaning="A copy of Java MirrorMaker goes on: `match` behind its last record, which is looked for on the "
            "target; `position` at its recorded position.",
            field="matches_mm2",
            convert=lambda value: value == "match",
        ),
        choice(
            "mirror.compatibility",
            Generation.NEWEST,
            meaning="Which generation of MirrorMaker selection and defaults are of: `newest`, `4.3` or `3.9`.",
            field="generation",
        ),
    )
)
"""The engine's own keys, which MirrorMaker 2 ignores (CFG-078)."""

ENGINE_OF_A_FLOW: Final = {name: definition for name, definition in ENGINE.items() if definition.of_a_flow}
"""Those of them that a flow may have differently, written ``A->B.mirror.gaps``."""
ENGINE_ALONE: Final = {name: definition for name, definition in ENGINE.items() if not definition.of_a_flow}
"""The others: they are the same for all flows."""
