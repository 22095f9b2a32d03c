"""What each key of a file does here: honoured, done in another way, or without effect, and why (CFG-001 to CFG-103)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from mirror.config.connector_keys import CONNECTOR_KEYS, CONNECTORS, INTERVAL, Connector
from mirror.config.definitions import (
    CLIENT_KEYS,
    EXACTLY_ONCE,
    FILTERS,
    READER,
    RETENTION,
    TRANSACTIONAL_PRODUCER,
    WORKER,
)
from mirror.config.engine_keys import ENGINE
from mirror.config.ignored import NOT_OF_THE_KEY, ignored_keys
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.private_keys import broken_keys
from mirror.config.properties import Entry, read
from mirror.config.providers import CONFIG_PROVIDERS
from mirror.config.secret_rules import HIDDEN
from mirror.config.secrets import shown
from mirror.config.worker_keys import WORKER_KEYS
from mirror.model.flow import Flow


class Effect(StrEnum):
    """What becomes of a key."""

    HONOURED = "honoured"
    """It does what MirrorMaker 2 does by it; an own key of this engine does what its documentation says."""
    EQUIVALENT = "equivalent"
    """What it asks for comes about, in another way."""
    NONE = "without effect"


@dataclass(frozen=True, slots=True)
class Explained:
    """One entry of a file.

    Attributes
    ----------
    line
        where it stands, counted from 1.
    value
        as it stands there; secrets are hidden.
    scope
        whose setting it is: a flow, a cluster, or all flows.
    why
        how its effect comes about, or why it has none; empty where it is simply honoured.
    """

    line: int
    key: str
    value: str
    scope: str
    effect: Effect
    why: str

    @property
    def name(self) -> str:
        """Return the key without the flow or cluster that it begins with."""
        return self.key.removeprefix(f"{self.scope.partition(' ')[2]}.")

    def as_json(self) -> dict[str, Any]:
        """Return the stable form: ``{"line", "key", "value", "scope", "effect", "why"}``."""
        return asdict(self)


_COPIED_AS_IS = "batches are passed on as the source's producers made them"
_TRIED = "a write is tried until it is acknowledged or its leader says that it cannot be"
_OWN_POSITIONS = "positions are kept on the target, and whole batches are fetched"
_NO_REST = "there is no REST server: one process runs all flows"
_NO_WORKER = "of Connect's worker alone, and there is none here"
_OWN_PROTOCOL = "this engine's own client waits and connects by rules of its own"

# Keys of a connector (CFG-001 to CFG-061) that are read and checked, and do nothing or something else.
_CONNECTOR: Final[Mapping[str, tuple[Effect, str]]] = {
    "admin.timeout.ms": (Effect.EQUIVALENT, "no step is waited for once only: each is tried every round (CFG-004)"),
    "consumer.poll.timeout.ms": (Effect.NONE, "fetches wait for fetch.max.wait.ms (CFG-026)"),
    "config.action.reload": (Effect.NONE, "a secret that changes is read at the next start (CFG-103)"),
    "connector.class": (Effect.NONE, "all three connectors are parts of this engine"),
    "connector.plugin.version": (Effect.NONE, "all three connectors are parts of this engine"),
    "errors.log.enable": (Effect.EQUIVALENT, "what a transform fails on is always in the log and the status"),
    "errors.log.include.messages": (Effect.NONE, "records are never written to the log"),
    "errors.retry.delay.max.ms": (Effect.EQUIVALENT, "a partition that is stopped is tried again by itself"),
    "errors.retry.timeout": (Effect.EQUIVALENT, "a partition that is stopped is tried again by itself"),
    "forwarding.admin.class": (Effect.NONE, "Java classes cannot be loaded (CFG-008)"),
    "metric.reporters": (Effect.NONE, "there is no JMX here (CFG-009)"),
    "name": (Effect.EQUIVALENT, "part of the transactional ids under exactly once (EOS-04)"),
    "offset-syncs.client.id": (Effect.NONE, _OWN_PROTOCOL),
    "tasks.max": (Effect.EQUIVALENT, "for transactional ids of a MirrorMaker before; tasks follow cores (CFG-012)"),
    "tasks.max.enforce": (Effect.NONE, "how many tasks there are follows the cores"),
    **{
        f"{part}.converter{end}": (Effect.EQUIVALENT, "bytes are copied; any other is refused (CFG-012)")
        for part in ("key", "value", "header")
        for end in ("", ".plugin.version")
    },
}  # fmt: skip

# What a client of Java would do and this engine does otherwise, by the client's kind.
_PRODUCER: Final[Mapping[str, tuple[Effect, str]]] = {
    "acks": (Effect.EQUIVALENT, "always all"),
    "enable.idempotence": (Effect.EQUIVALENT, "always idempotent"),
    "max.in.flight.requests.per.connection": (Effect.EQUIVALENT, "requests are pipelined, and their order is kept"),
    **dict.fromkeys(
        (
            *("batch.size", "linger.ms", "compression.type", "compression.gzip.level", "compression.lz4.level"),
            *("compression.zstd.level", "buffer.memory", "partitioner.class", "partitioner.ignore.keys"),
            *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "max.request.size"),
            *("key.serializer", "value.serializer"),
        ),
        (Effect.NONE, _COPIED_AS_IS),
    ),
    **dict.fromkeys(("retries", "delivery.timeout.ms", "max.block.ms"), (Effect.EQUIVALENT, _TRIED)),
}
_CONSUMER: Final[Mapping[str, tuple[Effect, str]]] = dict.fromkeys(
    (
        *("enable.auto.commit", "auto.commit.interval.ms", "max.poll.records", "max.poll.interval.ms", "group.id"),
        *("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "check.crcs"),
        *("key.deserializer", "value.deserializer"),
    ),
    (Effect.NONE, _OWN_POSITIONS),
)
_READ_OF_CLIENTS: Final[Mapping[str, frozenset[str]]] = {
    "producer": frozenset({*CLIENT_KEYS, *TRANSACTIONAL_PRODUCER}),
    "consumer": frozenset({*CLIENT_KEYS, *READER, "isolation.level", "auto.offset.reset"}),
    "admin": CLIENT_KEYS,
}
_OTHERWISE_OF_CLIENTS: Final[Mapping[str, Mapping[str, tuple[Effect, str]]]] = {
    "producer": _PRODUCER,
    "consumer": _CONSUMER,
    "admin": {},
}
_READ_OF_A_FLOW: Final = frozenset(
    {*CONNECTOR_KEYS, *FILTERS, *RETENTION, *EXACTLY_ONCE, *ENGINE, "offsets.storage.topic"}
)
_CHAINS = ("transforms.", "predicates.")
_TOPIC_CREATION = "topic.creation."
_OF_REST = (
    *("rest.", "listeners", "access.control.", "response.http.", "admin.listeners", "dedicated.mode."),
    "ssl.client.auth",
)


def explain_file(path: Path) -> tuple[Explained, ...]:
    """Return :func:`explain` of a file.

    Raises
    ------
    ConfigError
        if it cannot be read.
    """
    return explain(MirrorMakerConfig.of(read(path)))


def explain(config: MirrorMakerConfig) -> tuple[Explained, ...]:
    """Return every entry of a file, in its order, with its effect."""
    without_effect = ignored_keys(config)
    lines = {entry.key: entry.line for entry in config.file.entries}
    found, broken = list[Explained](), broken_keys(config.file.entries)
    for entry in config.file.entries:
        if (begun := broken.get(entry.line)) is not None:
            why = f"part of the private key that begins in line {begun}, and ends there: {NOT_OF_THE_KEY}"
            found.append(Explained(entry.line, HIDDEN, HIDDEN, "all flows", Effect.NONE, why))
            continue
        scope, effect, why = _of(config, entry)
        if lines[entry.key] != entry.line:
            effect, why = Effect.NONE, f"line {lines[entry.key]} gives it again, and the last one holds"
        elif entry.key in without_effect:
            effect, why = Effect.NONE, without_effect[entry.key]
        one = Explained(entry.line, entry.key, shown(entry.key, entry.value), scope, effect, why)
        if effect is Effect.HONOURED and not why and _is_never(one.name, entry.value):
            one = replace(
                one, why="negative: it is never done, as in MirrorMaker 2 (CFG-027..029, CFG-044..046, CFG-060)"
            )
        if effect is Effect.HONOURED and not why and one.name in ENGINE:
            one = replace(one, why=ENGINE[one.name].meaning)
        found.append(one)
    return tuple(found)


def _is_never(name: str, value: str) -> bool:
    return name in CONNECTOR_KEYS and name.endswith(INTERVAL) and value.strip().startswith("-")


def _of(config: MirrorMakerConfig, entry: Entry) -> tuple[str, Effect, str]:
    aliases = config.clusters
    flows = [Flow(source, target) for source in aliases for target in aliases if source != target]
    for flow in flows:
        if entry.key.startswith(f"{flow}."):
            return f"flow {flow}", *_of_a_flow(config, flow, entry.key.removeprefix(f"{flow}."))
    for alias in aliases:
        if entry.key.startswith(f"{alias}."):
            return f"cluster {alias}", *_of_a_cluster(entry.key.removeprefix(f"{alias}."))
    return "all flows", *_of_the_top(config, flows, entry.key)


def _of_a_flow(config: MirrorMakerConfig, flow: Flow, name: str) -> tuple[Effect, str]:
    if name != "enabled" and _is_off(config, flow, name):
        return Effect.NONE, f"the flow is off: {flow}.enabled is not true"
    for prefix, kind in _CLIENT_PREFIXES:
        if name.startswith(prefix):
            return _of_a_client(kind, name.removeprefix(prefix))
    if name.startswith(_TOPIC_CREATION):
        return Effect.NONE, "copies are created by MirrorMaker's rules, not by Connect's (CFG-013)"
    if name in _CONNECTOR:
        return _CONNECTOR[name]
    if name in _READ_OF_A_FLOW or name.startswith(
        (*_CHAINS, "source.cluster.", "target.cluster.", "replication.policy.")
    ):
        return Effect.HONOURED, ""
    return Effect.NONE, "nobody here reads it; a class of one's own may"


def _is_off(config: MirrorMakerConfig, flow: Flow, name: str) -> bool:
    """Tell whether nothing of a flow that has to do with a key runs: one that is off may still beat (DED-07)."""
    if config.connector(flow, Connector.SOURCE)["enabled"].strip().lower() == "true":
        return False
    return flow not in config.flows or (name in CONNECTOR_KEYS and name not in CONNECTORS[Connector.HEARTBEAT])


_CLIENT_PREFIXES = tuple(
    (f"{prefix}{kind}.{infix}", kind)
    for kind in ("producer", "consumer", "admin")
    for prefix in ("", "source.", "target.")
    for infix in (("override.", "") if kind == "producer" and not prefix else ("",))
)


def _of_a_cluster(name: str) -> tuple[Effect, str]:
    if name in CLIENT_KEYS or name in WORKER or name.startswith(CONFIG_PROVIDERS):
        return Effect.HONOURED, ""
    for kind in _READ_OF_CLIENTS:
        if name.startswith(f"{kind}."):
            return _of_a_client(kind, name.removeprefix(f"{kind}."))
    if name in _CONNECTOR:
        return _CONNECTOR[name]
    return Effect.NONE, _NO_WORKER if name in WORKER_KEYS else "nobody here reads it"


def _of_a_client(kind: str, name: str) -> tuple[Effect, str]:
    if name in _READ_OF_CLIENTS[kind]:
        return Effect.HONOURED, ""
    return _OTHERWISE_OF_CLIENTS[kind].get(name, (Effect.NONE, _OWN_PROTOCOL))


def _of_the_top(config: MirrorMakerConfig, flows: list[Flow], key: str) -> tuple[Effect, str]:
    if key.startswith(_OF_REST):
        return Effect.NONE, _NO_REST
    effect, why = _CONNECTOR.get(key, (Effect.HONOURED, ""))
    is_of_a_flow = key in _READ_OF_A_FLOW or key in CLIENT_KEYS or key.startswith("replication.policy")
    if not is_of_a_flow and key != "clusters" and not key.startswith((CONFIG_PROVIDERS, "mirror.")):
        passed_on = key in WORKER or key in _CONNECTOR
        return (effect, why) if passed_on else (Effect.NONE, _NO_WORKER)
    own = [str(flow) for flow in flows if f"{flow}.{key}" in config.file.values]
    if effect is Effect.HONOURED and own:
        why = f"but for {', '.join(own)}, which {'have' if len(own) > 1 else 'has'} a value of its own"
    return effect, why
