"""The keys of MirrorMaker 2's connectors, of its worker and of this engine: type, default, importance, what is allowed.

Types are Java's (``ConfigDef``), and so is the reading of a value. Keys and defaults are those of release 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import regex

from mirror.model.patterns import JAVA_TRIMMED, parse_list
from mirror.model.topics import Generation

Check = Callable[[Any], str | None]
"""Says what is wrong with a value of the right type, ``None`` if nothing is."""


class Type(StrEnum):
    """Java's types of a configuration value."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - a word of Java's, not a secret


class Importance(StrEnum):
    """How much a key matters, as Kafka's own documentation ranks them."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Required(StrEnum):
    """Stands for a default where there is none."""

    REQUIRED = "NO_DEFAULT"


REQUIRED: Final = Required.REQUIRED


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


PYTHON: Final = "python:"
"""What the name of a function or class of one's own starts with."""

IDENTITY_CLASSES: Final = (
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
    "org.apache.kafka.mirror.LegacyReplicationPolicy",
    "LegacyReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
)
"""The policy of unchanged names, and how it was called before (KIP-382, KAFKA-9726) and elsewhere."""

_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_WHOLE_NUMBER = regex.compile(r"[+-]?\p{Nd}+")
_CLASS_NAME = regex.compile(r"[\p{L}_$][\p{L}\p{N}_$]*(\.[\p{L}_$][\p{L}\p{N}_$]*)*")
_DECIMAL = regex.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")


class BadValue(ValueError):
    """A value that is not of its key's type, or not allowed; the message says what is."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One key.

    Parameters
    ----------
    default
        of the Python type that belongs to ``type``; ``REQUIRED`` where the key must be given
    check
        what else must hold for a value; without one, that no item of a list is empty (VER-18), and that a class name is
        one
    """

    name: str
    type: Type
    default: Any
    importance: Importance
    check: Check | None = None

    def parse(self, text: str) -> Any:
        """Read a value as Java does: surrounding white space does not count.

        Raises
        ------
        BadValue
            saying what the value should be.
        """
        value = _parsed(self.type, text)
        check = self.check or _ALWAYS_CHECKED.get(self.type)
        if check is not None and (problem := check(value)) is not None:
            raise BadValue(f"{text!r} is not allowed; {problem}")
        return value

    def value(self, values: Mapping[str, str]) -> Any:
        """Return what ``values`` say about this key, or the default.

        Raises
        ------
        BadValue
            for a value that cannot be used, or a required key that is missing.
        """
        if self.name in values:
            return self.parse(values[self.name])
        if self.default is REQUIRED:
            raise BadValue("is missing; give it a value")
        return self.default


def _parsed(kind: Type, text: str) -> Any:
    trimmed = text.strip(JAVA_TRIMMED)
    match kind:
        case Type.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise BadValue(f"{text!r} is neither true nor false; write one of them")
            return trimmed.lower() == "true"
        case Type.SHORT | Type.INT | Type.LONG:
            return _whole_number(kind, trimmed)
        case Type.DOUBLE:
            if _DECIMAL.fullmatch(trimmed) is None:
                raise BadValue(f"{text!r} is not a number; write one, such as 0.5")
            return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
        case Type.LIST:
            return parse_list(text)
        case Type.STRING | Type.CLASS | Type.PASSWORD:
            return trimmed


def _whole_number(kind: Type, trimmed: str) -> int:
    largest = 2 ** (_BITS[kind] - 1)
    if _WHOLE_NUMBER.fullmatch(trimmed) is None or not -largest <= int(trimmed) < largest:
        raise BadValue(
            f"{trimmed!r} is not a number of type {kind}; write a whole number of at most {_BITS[kind]} bits"
        )
    return int(trimmed)


def _at_least(least: int) -> Check:
    return lambda value: None if value >= least else f"it must be at least {least}"


def _between(least: float, most: float) -> Check:
    return lambda value: f"it must be from {least} to {most}" if value < least or value > most else None


def _one_of(*allowed: str, ignore_case: bool = False) -> Check:
    known = {text.upper() for text in allowed} if ignore_case else set(allowed)

    def check(value: str) -> str | None:
        given = value.upper() if ignore_case else value
        return None if given in known else f"it must be one of {', '.join(allowed)}"

    return check


def _some_of(*allowed: str) -> Check:
    def check(values: tuple[str, ...]) -> str | None:
        return None if values and set(values) <= set(allowed) else f"each must be one of {', '.join(allowed)}"

    return check


def _available(*classes: str) -> Check:
    return lambda value: None if value in classes else f"of such classes there are here {', '.join(classes)}"


def _available_or_own(*classes: str) -> Check:
    """Allow these classes, and those of one's own: ``python:package.module:Class``."""

    def check(value: str) -> str | None:
        if value in classes or own_class(value) is not None:
            return None
        return (
            f"of such classes there are here {', '.join(classes)}; one of your own is written "
            f"{PYTHON}package.module:Class"
        )

    return check


def own_class(value: str) -> str | None:
    """Return ``package.module:Class`` if a value names a class of one's own; a Java class has no colon in its name."""
    return value.removeprefix(PYTHON) if ":" in value.removeprefix(PYTHON) else None


def _class_name(value: str) -> str | None:
    return None if _CLASS_NAME.fullmatch(value) else "it must be the full name of a class"


def not_empty(value: str) -> str | None:
    """Require some text."""
    return None if value else "it must not be empty"


def no_empty_item(values: tuple[str, ...]) -> str | None:
    """Require text in every item of a list."""
    return "no item of the list may be empty" if "" in values else None


def unique(values: tuple[str, ...]) -> str | None:
    """Require that the items of a list differ."""
    return None if len(set(values)) == len(values) else "no name may appear twice"


def _printable_name(value: str) -> str | None:
    return None if value and regex.search(r"\p{Cc}", value) is None else "it must be a name without control characters"


_ALWAYS_CHECKED: dict[Type, Check] = {Type.LIST: no_empty_item, Type.CLASS: _class_name}
_MIRROR = "org.apache.kafka.connect.mirror."
_CONVERTERS = "org.apache.kafka.connect.converters."
_CONVERTER = _available(
    f"{_CONVERTERS}ByteArrayConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.json.JsonConverter",
    *(f"{_CONVERTERS}{kind}Converter" for kind in ("Boolean", "Double", "Float", "Integer", "Long", "Short")),
)
_HEADER_CONVERTER = _available(
    f"{_CONVERTERS}ByteArrayConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.json.JsonConverter",
)
_PROTOCOL = _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True)


def _by_name(*groups: Iterable[Definition]) -> dict[str, Definition]:
    return {definition.name: definition for group in groups for definition in group}


SECURITY: Final = _by_name(
    (
        Definition("sasl.client.callback.handler.class", Type.CLASS, None, Importance.MEDIUM),
        Definition("sasl.jaas.config", Type.PASSWORD, None, Importance.MEDIUM),
        Definition("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", Importance.LOW),
        Definition("sasl.kerberos.min.time.before.relogin", Type.LONG, 60000, Importance.LOW),
        Definition("sasl.kerberos.service.name", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, Importance.LOW),
        Definition("sasl.kerberos.ticket.renew.window.factor", Type.DOUBLE, 0.8, Importance.LOW),
        Definition("sasl.login.callback.handler.class", Type.CLASS, None, Importance.MEDIUM),
        Definition("sasl.login.class", Type.CLASS, None, Importance.MEDIUM),
        Definition("sasl.login.connect.timeout.ms", Type.INT, None, Importance.LOW),
        Definition("sasl.login.read.timeout.ms", Type.INT, None, Importance.LOW),
        Definition("sasl.login.refresh.buffer.seconds", Type.SHORT, 300, Importance.LOW, _between(0, 3600)),
        Definition("sasl.login.refresh.min.period.seconds", Type.SHORT, 60, Importance.LOW, _between(0, 900)),
        Definition("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8, Importance.LOW, _between(0.5, 1.0)),
        Definition("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05, Importance.LOW, _between(0.0, 0.25)),
        Definition("sasl.login.retry.backoff.max.ms", Type.LONG, 10000, Importance.LOW),
        Definition("sasl.login.retry.backoff.ms", Type.LONG, 100, Importance.LOW),
        Definition("sasl.mechanism", Type.STRING, "GSSAPI", Importance.MEDIUM),
        Definition(
            "sasl.oauthbearer.assertion.algorithm",
            Type.STRING,
            "RS256",
            Importance.MEDIUM,
            _one_of("ES256", "RS256", ignore_case=True),
        ),
        Definition("sasl.oauthbearer.assertion.claim.aud", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.claim.exp.seconds", Type.INT, 300, Importance.LOW, _between(0, 86400)),
        Definition("sasl.oauthbearer.assertion.claim.iss", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.claim.jti.include", Type.BOOLEAN, False, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.claim.nbf.seconds", Type.INT, 60, Importance.LOW, _between(0, 3600)),
        Definition("sasl.oauthbearer.assertion.claim.sub", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.file", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.private.key.file", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.private.key.passphrase", Type.PASSWORD, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.assertion.template.file", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.client.credentials.client.id", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.client.credentials.client.secret", Type.PASSWORD, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.clock.skew.seconds", Type.INT, 30, Importance.LOW),
        Definition("sasl.oauthbearer.expected.audience", Type.LIST, (), Importance.HIGH),
        Definition("sasl.oauthbearer.expected.issuer", Type.STRING, None, Importance.HIGH),
        Definition("sasl.oauthbearer.header.urlencode", Type.BOOLEAN, False, Importance.LOW),
        Definition("sasl.oauthbearer.jwks.endpoint.refresh.ms", Type.LONG, 3600000, Importance.LOW),
        Definition("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10000, Importance.LOW),
        Definition("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type.LONG, 100, Importance.LOW),
        Definition("sasl.oauthbearer.jwks.endpoint.url", Type.STRING, None, Importance.MEDIUM),
        Definition(
            "sasl.oauthbearer.jwt.retriever.class",
            Type.CLASS,
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            Importance.MEDIUM,
        ),
        Definition(
            "sasl.oauthbearer.jwt.validator.class",
            Type.CLASS,
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            Importance.MEDIUM,
        ),
        Definition("sasl.oauthbearer.scope", Type.STRING, None, Importance.MEDIUM),
        Definition("sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", Importance.LOW),
        Definition("sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", Importance.LOW),
        Definition("sasl.oauthbearer.token.endpoint.url", Type.STRING, None, Importance.MEDIUM),
        Definition("security.protocol", Type.STRING, "PLAINTEXT", Importance.MEDIUM, _PROTOCOL),
        Definition("ssl.cipher.suites", Type.LIST, (), Importance.LOW),
        Definition("ssl.enabled.protocols", Type.LIST, ("TLSv1.2", "TLSv1.3"), Importance.MEDIUM),
        Definition("ssl.endpoint.identification.algorithm", Type.STRING, "https", Importance.LOW),
        Definition("ssl.engine.factory.class", Type.CLASS, None, Importance.LOW),
        Definition("ssl.key.password", Type.PASSWORD, None, Importance.HIGH),
        Definition("ssl.keymanager.algorithm", Type.STRING, "SunX509", Importance.LOW),
        Definition("ssl.keystore.certificate.chain", Type.PASSWORD, None, Importance.HIGH),
        Definition("ssl.keystore.key", Type.PASSWORD, None, Importance.HIGH),
        Definition("ssl.keystore.location", Type.STRING, None, Importance.HIGH),
        Definition("ssl.keystore.password", Type.PASSWORD, None, Importance.HIGH),
        Definition("ssl.keystore.type", Type.STRING, "JKS", Importance.MEDIUM),
        Definition("ssl.protocol", Type.STRING, "TLSv1.3", Importance.MEDIUM),
        Definition("ssl.provider", Type.STRING, None, Importance.MEDIUM),
        Definition("ssl.secure.random.implementation", Type.STRING, None, Importance.LOW),
        Definition("ssl.trustmanager.algorithm", Type.STRING, "PKIX", Importance.LOW),
        Definition("ssl.truststore.certificates", Type.PASSWORD, None, Importance.HIGH),
        Definition("ssl.truststore.location", Type.STRING, None, Importance.HIGH),
        Definition("ssl.truststore.password", Type.PASSWORD, None, Importance.HIGH),
        Definition("ssl.truststore.type", Type.STRING, "JKS", Importance.MEDIUM),
    )
)
"""Connection security of every client (CFG-010, CFG-011)."""

_BASE: Final = _by_name(
    (
        Definition("admin.timeout.ms", Type.LONG, 60000, Importance.LOW),
        Definition("config.action.reload", Type.STRING, "restart", Importance.LOW, _one_of("none", "restart")),
        Definition("config.providers", Type.LIST, (), Importance.LOW),
        Definition("connector.class", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("connector.plugin.version", Type.STRING, None, Importance.MEDIUM),
        Definition("enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("errors.log.enable", Type.BOOLEAN, False, Importance.MEDIUM),
        Definition("errors.log.include.messages", Type.BOOLEAN, False, Importance.MEDIUM),
        Definition("errors.retry.delay.max.ms", Type.LONG, 60000, Importance.MEDIUM),
        Definition("errors.retry.timeout", Type.LONG, 0, Importance.MEDIUM),
        Definition("errors.tolerance", Type.STRING, "none", Importance.MEDIUM, _one_of("none", "all")),
        Definition(
            "forwarding.admin.class",
            Type.CLASS,
            "org.apache.kafka.clients.admin.ForwardingAdmin",
            Importance.LOW,
            _available("org.apache.kafka.clients.admin.ForwardingAdmin"),
        ),
        Definition("header.converter", Type.CLASS, None, Importance.LOW, _HEADER_CONVERTER),
        Definition("header.converter.plugin.version", Type.STRING, None, Importance.LOW),
        Definition("key.converter", Type.CLASS, None, Importance.LOW, _CONVERTER),
        Definition("key.converter.plugin.version", Type.STRING, None, Importance.LOW),
        Definition("metric.reporters", Type.LIST, ("org.apache.kafka.common.metrics.JmxReporter",), Importance.LOW),
        Definition("name", Type.STRING, REQUIRED, Importance.HIGH, _printable_name),
        Definition("predicates", Type.LIST, (), Importance.LOW, unique),
        Definition(
            "replication.policy.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
            Importance.LOW,
            _available_or_own(f"{_MIRROR}DefaultReplicationPolicy", *IDENTITY_CLASSES),
        ),
        Definition("replication.policy.internal.topic.separator.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("replication.policy.separator", Type.STRING, ".", Importance.LOW),
        Definition("source.cluster.alias", Type.STRING, REQUIRED, Importance.HIGH),
        Definition("target.cluster.alias", Type.STRING, "target", Importance.HIGH),
        Definition("tasks.max", Type.INT, 1, Importance.HIGH, _at_least(1)),
        Definition("tasks.max.enforce", Type.BOOLEAN, True, Importance.LOW),
        Definition("transforms", Type.LIST, (), Importance.LOW, unique),
        Definition("value.converter", Type.CLASS, None, Importance.LOW, _CONVERTER),
        Definition("value.converter.plugin.version", Type.STRING, None, Importance.LOW),
    )
)

_SOURCE_AND_CHECKPOINT: Final = _by_name(
    (
        Definition("consumer.poll.timeout.ms", Type.LONG, 1000, Importance.LOW),
        Definition("metric.names.formats", Type.LIST, ("legacy",), Importance.LOW, _some_of("legacy", "new")),
        Definition("offset-syncs.topic.location", Type.STRING, "source", Importance.LOW, _one_of("source", "target")),
        Definition(
            "topic.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultTopicFilter",
            Importance.LOW,
            _available_or_own(f"{_MIRROR}DefaultTopicFilter"),
        ),
    )
)

_SOURCE: Final = _by_name(
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
            _available_or_own(f"{_MIRROR}DefaultConfigPropertyFilter"),
        ),
        Definition("emit.offset-syncs.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("heartbeats.replication.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("offset-syncs.topic.replication.factor", Type.SHORT, 3, Importance.LOW),
        Definition("offset.lag.max", Type.LONG, 100, Importance.LOW),
        Definition("refresh.topics.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("refresh.topics.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("replication.factor", Type.INT, 2, Importance.LOW),
        Definition("sync.topic.acls.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("sync.topic.acls.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("sync.topic.configs.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("sync.topic.configs.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("topics", Type.LIST, (".*",), Importance.HIGH),
        Definition("topics.exclude", Type.LIST, (r"mm2.*\.internal", r".*\.replica", "__.*"), Importance.HIGH),
    )
)

_CHECKPOINT: Final = _by_name(
    (
        Definition("checkpoints.topic.replication.factor", Type.SHORT, 3, Importance.LOW),
        Definition("emit.checkpoints.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("emit.checkpoints.interval.seconds", Type.LONG, 60, Importance.LOW),
        Definition(
            "group.filter.class",
            Type.CLASS,
            "org.apache.kafka.connect.mirror.DefaultGroupFilter",
            Importance.LOW,
            _available_or_own(f"{_MIRROR}DefaultGroupFilter"),
        ),
        Definition("groups", Type.LIST, (".*",), Importance.HIGH),
        Definition("groups.exclude", Type.LIST, ("console-consumer-.*", "connect-.*", "__.*"), Importance.HIGH),
        Definition("refresh.groups.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("refresh.groups.interval.seconds", Type.LONG, 600, Importance.LOW),
        Definition("sync.group.offsets.enabled", Type.BOOLEAN, False, Importance.LOW),
        Definition("sync.group.offsets.interval.seconds", Type.LONG, 60, Importance.LOW),
    )
)

_HEARTBEAT: Final = _by_name(
    (
        Definition("emit.heartbeats.enabled", Type.BOOLEAN, True, Importance.LOW),
        Definition("emit.heartbeats.interval.seconds", Type.LONG, 1, Importance.LOW),
        Definition("heartbeats.topic.replication.factor", Type.SHORT, 3, Importance.LOW),
    )
)


class Connector(StrEnum):
    """The three connectors of a flow (DED-06)."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


CONNECTORS: Final = {
    Connector.SOURCE: _BASE | SECURITY | _SOURCE_AND_CHECKPOINT | _SOURCE,
    Connector.CHECKPOINT: _BASE | SECURITY | _SOURCE_AND_CHECKPOINT | _CHECKPOINT,
    Connector.HEARTBEAT: _BASE | SECURITY | _HEARTBEAT,
}
"""Every key of every connector (sections 1.1 to 1.4)."""

CONNECTOR_KEYS: Final = frozenset(name for keys in CONNECTORS.values() for name in keys)
"""The keys that, at the top level of the file, reach all connectors of all flows (CFG-076)."""

CLIENT_KEYS: Final = frozenset({"bootstrap.servers", *SECURITY})
"""The keys of a cluster that reach its clients (CFG-080)."""

FILTERS: Final = _by_name(
    (
        _SOURCE["topics"],
        _SOURCE["topics.exclude"],
        _CHECKPOINT["groups"],
        _CHECKPOINT["groups.exclude"],
        _SOURCE["config.properties.exclude"],
        Definition("use.defaults.from", Type.STRING, "target", Importance.MEDIUM),
    )
)
"""The keys of the default filters, read whichever connector they belong to (CFG-025, CFG-043)."""

RETENTION: Final = _by_name(
    (
        Definition("checkpoints.topic.retention.ms", Type.LONG, None, Importance.LOW, _at_least(-1)),
        Definition("heartbeats.topic.retention.ms", Type.LONG, None, Importance.LOW, _at_least(-1)),
        Definition("offset.syncs.topic.retention.ms", Type.LONG, None, Importance.LOW, _at_least(-1)),
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

MIRROR_MAKER: Final = SECURITY | _by_name(
    (
        Definition("clusters", Type.LIST, REQUIRED, Importance.HIGH),
        Definition("config.providers", Type.LIST, (), Importance.LOW),
        Definition("dedicated.mode.enable.internal.rest", Type.BOOLEAN, False, Importance.HIGH),
        Definition("listeners", Type.LIST, ("http://:8083",), Importance.LOW),
        Definition("rest.advertised.port", Type.INT, None, Importance.LOW),
        Definition("ssl.client.auth", Type.STRING, "none", Importance.LOW, _one_of("required", "requested", "none")),
    )
)
"""The keys of the top level (section 1.5)."""

WORKER: Final = _by_name(
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
            _one_of("disabled", "preparing", "enabled", ignore_case=True),
        ),
    )
)
"""The worker settings that matter to this engine (CFG-081, DED-03)."""

READER: Final = _by_name(
    (
        Definition("fetch.min.bytes", Type.INT, 1, Importance.HIGH, _at_least(0)),
        Definition("fetch.max.wait.ms", Type.INT, 500, Importance.LOW, _at_least(0)),
        Definition("max.partition.fetch.bytes", Type.INT, 1 << 20, Importance.HIGH, _at_least(0)),
        Definition("fetch.max.bytes", Type.INT, 50 << 20, Importance.MEDIUM, _at_least(0)),
        Definition("client.rack", Type.STRING, "", Importance.LOW),
    )
)
"""The settings of the source's consumer that this engine's reader keeps to."""
EXACTLY_ONCE: Final = _by_name(
    (
        Definition(
            "exactly.once.support",
            Type.STRING,
            "requested",
            Importance.MEDIUM,
            _one_of("requested", "required", ignore_case=True),
        ),
        Definition(
            "transaction.boundary",
            Type.STRING,
            "poll",
            Importance.MEDIUM,
            _one_of("poll", "interval", "connector", ignore_case=True),
        ),
        Definition("transaction.boundary.interval.ms", Type.LONG, None, Importance.LOW, _at_least(0)),
    )
)
"""What Connect lets a source connector say about transactions; only as ``A->B.<key>`` (CFG-013)."""

TRANSACTIONAL_PRODUCER: Final = _by_name(
    (Definition("transaction.timeout.ms", Type.INT, 60000, Importance.LOW, _at_least(1)),)
)
"""What the data producer's properties say about its transactions."""

ENGINE: Final = _by_name(
    (
        Definition("mirror.epoch.seconds", Type.DOUBLE, 30.0, Importance.LOW, _between(0.1, 3600.0)),
        Definition("mirror.commit.interval.ms", Type.LONG, 1000, Importance.LOW, _at_least(1)),
        Definition("mirror.discovery.seconds", Type.DOUBLE, 5.0, Importance.LOW, _between(0.1, 86400.0)),
        Definition(
            "mirror.oversized.records",
            Type.STRING,
            Oversized.STOP.value,
            Importance.LOW,
            _one_of(*(choice.value for choice in Oversized)),
        ),
        Definition(
            "mirror.offsets",
            Type.STRING,
            Offsets.TRANSLATED.value,
            Importance.LOW,
            _one_of(*(choice.value for choice in Offsets)),
        ),
        Definition("mirror.offsets.topics", Type.LIST, (".*",), Importance.LOW),
        Definition("mirror.offsets.pad.limit", Type.LONG, 1_000_000_000, Importance.LOW, _at_least(0)),
        Definition("mirror.acls.prefixed", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.groups", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.transactional.ids", Type.BOOLEAN, False, Importance.LOW),
        Definition(
            "mirror.acls.wildcard",
            Type.STRING,
            WildcardAcls.DENIALS.value,
            Importance.LOW,
            _one_of(*(choice.value for choice in WildcardAcls)),
        ),
        Definition("mirror.acls.remove.revoked", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.scram.users", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.acls.client.quotas", Type.BOOLEAN, False, Importance.LOW),
        Definition("mirror.gaps", Type.STRING, "continue", Importance.LOW, _one_of("continue", "stop")),
        Definition(
            "mirror.mirrored.records",
            Type.STRING,
            MirroredRecords.AUTO.value,
            Importance.LOW,
            _one_of(*(choice.value for choice in MirroredRecords)),
        ),
        Definition("mirror.leader.timeout.seconds", Type.DOUBLE, 6.0, Importance.LOW, _between(3.0, 3600.0)),
        Definition("mirror.status.port", Type.INT, -1, Importance.LOW, _between(-1, 65535)),
        Definition("mirror.status.address", Type.STRING, "127.0.0.1", Importance.LOW),
        Definition("mirror.status.cliff.seconds", Type.DOUBLE, 3600.0, Importance.LOW, _at_least(0)),
        Definition("mirror.history.directory", Type.STRING, "", Importance.LOW),
        Definition("mirror.history.interval.seconds", Type.DOUBLE, 10.0, Importance.LOW, _between(0.5, 3600.0)),
        Definition("mirror.history.retention.hours", Type.DOUBLE, 168.0, Importance.LOW, _between(0.1, 87_600.0)),
        Definition("mirror.history.retention.bytes", Type.LONG, 1 << 30, Importance.LOW, _at_least(1 << 20)),
        Definition("mirror.tasks", Type.INT, 0, Importance.LOW, _at_least(0)),
        Definition("mirror.takeover", Type.STRING, "match", Importance.LOW, _one_of("match", "position")),
        Definition(
            "mirror.compatibility",
            Type.STRING,
            Generation.NEWEST.value,
            Importance.LOW,
            _one_of(*(generation.value for generation in Generation)),
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
