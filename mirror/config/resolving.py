"""From a file's keys to settings: precedence, defaults, filters, clients (CFG-001 to CFG-103)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirror.config import first_position
from mirror.config.clients import ConnectorClients, cluster_admin, data_producer, transactional_ids
from mirror.config.connector_keys import CONNECTORS, Connector
from mirror.config.definition import BadValue, Definition
from mirror.config.definitions import (
    EXACTLY_ONCE,
    FILTERS,
    OLD_EXCLUDES,
    RETENTION,
    TOPICS_EXCLUDE_OF_3_9,
    TRANSACTIONAL_PRODUCER,
    WORKER,
)
from mirror.config.engine_keys import ENGINE_ALONE, ENGINE_OF_A_FLOW, Offsets
from mirror.config.errors import ConfigError, ErrorAbout, Mistakes
from mirror.config.fetching import FetchLimits, fetch_limits
from mirror.config.ignored import ignored
from mirror.config.mirror_maker import MirrorMakerConfig, resolve_like_a_connector
from mirror.config.policies import own_filter, replication_policy
from mirror.config.properties import read
from mirror.config.providers import ProviderProblem
from mirror.config.refusals import require_usable
from mirror.config.replication_loops import require_no_loop
from mirror.config.settings import (
    AclSettings,
    ClientSettings,
    ClusterSettings,
    EngineSettings,
    FlowSettings,
    HistorySettings,
    MirrorSettings,
    SameOffsets,
    TransactionSettings,
)
from mirror.config.transforms import read_chain, require_functions
from mirror.model.flow import Flow
from mirror.model.patterns import ConfigPropertyFilter, PatternError, PatternFilter, PatternList, parse_list
from mirror.model.plugins import CustomFilter
from mirror.model.references import Unusable
from mirror.model.topics import Generation, ReplicationPolicy
from mirror.model.transforms.chain import Chain

_SYNCS_LOCATION = "offset-syncs.topic.location"
# What a negative interval switches off, as Java's scheduler does (CFG-027..029, CFG-044..046). Heartbeats are not among
# them: whether a flow has any goes by their switch alone, and a running engine takes another interval in (CFG-060).
_OFF_BY_INTERVAL = (
    *("sync_topic_configs", "sync_topic_acls", "refresh_topics", "refresh_groups"),
    *("emit_checkpoints", "sync_group_offsets"),
)
# How long a transaction takes records in where MirrorMaker would make one of every batch of a consumer; and how soon
# one may follow another when there is little to write: each takes offsets, and a run of the offset map, on every
# partition that it has written to.
_POLL_SECONDS = 1.0
_IDLE_SECONDS = 0.25


def load(path: Path, *, applies_transforms: bool = True) -> MirrorSettings:
    """Read a ``connect-mirror-maker.properties`` file.

    Parameters
    ----------
    applies_transforms
        whether records are to be changed here: then the functions that are named must be there.

    Raises
    ------
    ConfigError
        naming file, line and key of all that is wrong: what MirrorMaker 2 refuses, what it would ignore although it
        must be a mistake (a flow of an unknown cluster), and what this engine does not do. What can only be looked at
        when something else is in order is told then: values behind placeholders, flows that go round.
    """
    return settings_of(MirrorMakerConfig.of(read(path)), path, applies_transforms=applies_transforms)


def settings_of(config: MirrorMakerConfig, path: Path, *, applies_transforms: bool = True) -> MirrorSettings:
    """Return :func:`load` of a file that was read from ``path``."""
    mistakes = Mistakes()
    with mistakes.noted():
        require_usable(config)
    with mistakes.noted():
        settings = resolve(config, path)
    mistakes.refuse()
    with mistakes.noted():
        require_no_loop(config, settings.enabled_flows)
    if applies_transforms:
        for each in settings.enabled_flows:
            source = _Keys.of_connector(config, each.flow, Connector.SOURCE, inside_worker=True)
            with mistakes.noted():
                require_functions(each.transforms, source.error)
    mistakes.refuse()
    return settings


def resolve(config: MirrorMakerConfig, path: Path) -> MirrorSettings:
    """Return everything ``config`` says, as MirrorMaker 2 reads it.

    Raises
    ------
    ConfigError
        for each value that MirrorMaker 2 refuses.
    """
    mistakes = Mistakes()
    clusters: dict[str, ClusterSettings] = {}
    flows: list[FlowSettings] = []
    try:
        engine = engine_settings(config)
    except ConfigError as problem:
        mistakes.note(problem.mistakes)
        # The flows are looked at as if these keys were left out.
        wrong = {each.key for each in problem.mistakes}
        usable = {key: value for key, value in config.resolved.items() if key not in wrong}
        engine = engine_settings(replace(config, resolved=usable))
    for alias in config.clusters:
        with mistakes.noted():
            clusters[alias] = ClusterSettings(alias, cluster_admin(config.replace_placeholders(config.cluster(alias))))
    for flow in config.flows:
        with mistakes.noted():
            flows.append(flow_settings(config, flow, engine))
    mistakes.refuse()
    return MirrorSettings(path, clusters, tuple(flows), engine, ignored(config))


def engine_settings(config: MirrorMakerConfig) -> EngineSettings:
    """Return the engine's own settings.

    Raises
    ------
    ConfigError
        for each value that cannot be used.
    """
    keys = _Keys(config, ENGINE_ALONE, config.resolved)
    keys.require_all()
    return EngineSettings(**keys.fields(), history=HistorySettings(**keys.fields("history")))


def flow_settings(
    config: MirrorMakerConfig, flow: Flow, engine: EngineSettings, *, inside_worker: bool = True
) -> FlowSettings:
    """Return what ``flow`` does.

    Parameters
    ----------
    inside_worker
        False: only the placeholders a connector resolves by itself are replaced, not those left to its worker, whose
        reading of ``config.providers`` differs (CFG-103)

    Raises
    ------
    ConfigError
        for each value MirrorMaker 2 refuses, or class it could load and this engine does not have.
    """
    mistakes = Mistakes()
    worker = _Keys(config, WORKER, config.worker(flow), flow)
    source, checkpoint, heartbeat = (
        _Keys.of_connector(config, flow, connector, inside_worker=inside_worker) for connector in Connector
    )
    own = _Keys(config, RETENTION | ENGINE_OF_A_FLOW, config.engine(flow), flow)
    for each in (worker, source, checkpoint, heartbeat, own):
        with mistakes.noted():
            each.require_all()
    with mistakes.noted():
        policy, aliases = _policy(source, engine.generation), _aliases(source)
    with mistakes.noted():
        topic_filter = _name_filter(source, "topics", engine.generation)
    with mistakes.noted():
        group_filter = _name_filter(checkpoint, "groups", engine.generation)
    with mistakes.noted():
        config_property_filter = _config_property_filter(source, engine.generation)
    with mistakes.noted():
        transforms = read_chain(source.values, str(flow), source.error) if source.get("enabled") else Chain()
    with mistakes.noted():
        same_offsets = _same_offsets(own)
    with mistakes.noted():
        clients, limits, transactions = _clients_and_transactions(
            worker, source, checkpoint, heartbeat, _errors_about_consumer(config, flow)
        )
    mistakes.refuse()
    of_one_key = worker.fields() | heartbeat.fields() | checkpoint.fields() | source.fields() | own.fields()
    of_one_key |= {name: False for name in _OFF_BY_INTERVAL if of_one_key[f"{name}_interval_seconds"] < 0}
    syncs_at_source = of_one_key["offset_syncs_location"] == "source"
    return FlowSettings(
        **of_one_key,
        flow=flow,
        generation=engine.generation,
        policy=policy,
        topic_filter=topic_filter,
        group_filter=group_filter,
        config_property_filter=config_property_filter,
        clients=clients,
        offset_syncs_topic=policy.offset_syncs_topic(aliases.target if syncs_at_source else aliases.source),
        checkpoints_topic=policy.checkpoints_topic(aliases.source),
        heartbeats_topic=policy.heartbeats_topic(),
        source_metric_names=frozenset(source.get("metric.names.formats")),
        checkpoint_metric_names=frozenset(checkpoint.get("metric.names.formats")),
        transactions=transactions,
        fetch_limits=limits,
        transforms=transforms,
        acls=AclSettings(**own.fields("acls")),
        same_offsets=same_offsets,
        discovery_seconds=_discovery_seconds(source, engine),
    )


def _discovery_seconds(source: _Keys, engine: EngineSettings) -> float:
    key = "refresh.topics.interval.seconds"
    if not source.get("refresh.topics.enabled") or source.get(key) < 0:
        return math.inf
    return float(source.get(key)) if key in source.values else engine.discovery_seconds


def _same_offsets(keys: _Keys) -> SameOffsets | None:
    topics, limits = keys.get("mirror.offsets.topics"), keys.fields("same_offsets")
    _require_patterns(keys, "mirror.offsets.topics", topics)
    return SameOffsets(PatternList(topics), **limits) if keys.get("mirror.offsets") == Offsets.SAME else None


def _first_position(consumer: Mapping[str, str], error: ErrorAbout) -> str:
    """Return the place where the consumer begins a partition as Java reads it."""
    try:
        return first_position.checked(consumer[first_position.KEY])
    except BadValue as problem:
        raise error(first_position.KEY, str(problem)) from problem


def _errors_about_consumer(config: MirrorMakerConfig, flow: Flow) -> ErrorAbout:
    """Return what makes an error about a property of the source's consumer, with the key of the file that gives it."""

    def error(name: str, message: str) -> ConfigError:
        forms = [f"{owner}.consumer.{name}" for owner in (f"{flow}.source", flow.source, flow)]
        key = next((form for form in forms if form in config.resolved), f"{flow.source}.consumer.{name}")
        return config.file.error(key, message)

    return error


@dataclass(frozen=True, slots=True)
class _Keys:
    """Values of one connector, worker or the engine, read by their definitions; errors name the file's own key."""

    config: MirrorMakerConfig
    definitions: Mapping[str, Definition]
    values: Mapping[str, str]
    flow: Flow | None = None

    @classmethod
    def of_connector(cls, config: MirrorMakerConfig, flow: Flow, connector: Connector, *, inside_worker: bool) -> _Keys:
        """Resolve a connector's settings."""
        values = config.connector(flow, connector)
        if inside_worker:
            values = config.replace_placeholders(values)
        try:
            values = resolve_like_a_connector(values)
        except ProviderProblem as problem:
            key = config.key_of(flow, problem.key, values.get(problem.key))
            raise config.file.error(key, problem.message) from problem
        return cls(config, CONNECTORS[connector], values, flow)

    def require_all(self) -> None:
        """Read every key once, so that all that is malformed is found."""
        mistakes = Mistakes()
        for definition in self.definitions.values():
            with mistakes.noted():
                self.read(definition)
        mistakes.refuse()

    def get(self, name: str) -> Any:
        return self.read(self.definitions[name])

    def fields(self, part: str = "") -> dict[str, Any]:
        """Return the fields that have the value of one key each, of one part of the settings if it is named."""
        return {
            field: definition.convert(self.read(definition))
            for definition in self.definitions.values()
            for of, _, field in (definition.field.rpartition("."),)
            if field and of == part
        }

    def read(self, definition: Definition) -> Any:
        try:
            return definition.value(self.values)
        except BadValue as problem:
            raise self.error(definition.name, str(problem)) from problem

    def error(self, name: str, message: str) -> ConfigError:
        key = name if self.flow is None else self.config.key_of(self.flow, name, self.values.get(name))
        return self.config.file.error(key, message)


def _transactions(
    worker: _Keys, source: _Keys, clients: ClientSettings, *, exactly_once: bool
) -> TransactionSettings | None:
    """Read what a flow says about transactions, as Connect does; what would have no effect is left alone there too."""
    required, boundary, interval_ms = (source.read(definition) for definition in EXACTLY_ONCE.values())
    if required.lower() == "required":
        if not exactly_once:
            message = "it is not available unless the target's exactly.once.source.support = enabled; set that"
            raise source.error("exactly.once.support", message)
        if clients.source_consumer.get("isolation.level") != "read_committed":
            message = "the source must then be read with consumer.isolation.level = read_committed; set that (EOS-03)"
            raise source.error("exactly.once.support", message)
    if not exactly_once:
        return None
    if boundary.lower() == "connector":
        raise source.error("transaction.boundary", "MirrorMaker's connector defines none; write poll or interval")
    if source.values.get("offsets.storage.topic", "").strip():
        message = f"positions are kept in {worker.get('offset.storage.topic')} here; remove the key"
        raise source.error("offsets.storage.topic", message)
    timeout_ms = _Keys(source.config, TRANSACTIONAL_PRODUCER, clients.data_producer, source.flow).get(
        "transaction.timeout.ms"
    )
    is_poll = boundary.lower() == "poll"
    if interval_ms is None:
        interval_ms = worker.get("offset.flush.interval.ms")
    return TransactionSettings(
        id_prefix=transactional_ids(worker.get("group.id"), source.get("name")),
        mm2_tasks=source.get("tasks.max"),
        timeout_ms=timeout_ms,
        seconds=min(_POLL_SECONDS if is_poll else interval_ms / 1000, timeout_ms / 2000),
        idle_seconds=_IDLE_SECONDS if is_poll else None,
    )


def _clients_and_transactions(
    worker: _Keys, source: _Keys, checkpoint: _Keys, heartbeat: _Keys, about_consumer: ErrorAbout
) -> tuple[ClientSettings, FetchLimits, TransactionSettings | None]:
    mistakes = Mistakes()
    exactly_once = bool(worker.get("exactly.once.source.support").lower() == "enabled")
    producer = data_producer(worker.values, source.values, exactly_once=exactly_once)
    clients = replace(_clients(source, checkpoint, heartbeat), data_producer=producer)
    with mistakes.noted():
        begins_at = _first_position(clients.source_consumer, about_consumer)
    with mistakes.noted():
        limits = fetch_limits(clients.source_consumer, about_consumer)
    with mistakes.noted():
        transactions = _transactions(worker, source, clients, exactly_once=exactly_once)
    mistakes.refuse()
    consumer = {**clients.source_consumer, first_position.KEY: begins_at}
    return replace(clients, source_consumer=consumer), limits, transactions


def _clients(source: _Keys, checkpoint: _Keys, heartbeat: _Keys) -> ClientSettings:
    of_source, of_checkpoint, of_heartbeat = (_connector_clients(keys) for keys in (source, checkpoint, heartbeat))
    syncs = source.get(_SYNCS_LOCATION)
    return ClientSettings(
        source_consumer=of_source.of("source", "consumer", "replication-consumer"),
        data_producer={},
        source_admin=of_source.of("source", "admin", "replication-source-admin"),
        target_admin=of_source.of("target", "admin", "replication-target-admin"),
        offset_syncs_producer=of_source.of(syncs, "producer", f"offset-syncs-{syncs}-producer"),
        offset_syncs_consumer=of_checkpoint.of(syncs, "consumer", f"offset-syncs-{syncs}-consumer"),
        offset_syncs_admin=of_source.of(syncs, "admin", f"offset-syncs-{syncs}-admin"),
        checkpoints_consumer=of_checkpoint.of("target", "consumer", "checkpoints-target-consumer"),
        heartbeats_admin=of_heartbeat.of("target", "admin", "heartbeats-target-admin"),
    )


def _connector_clients(keys: _Keys) -> ConnectorClients:
    return ConnectorClients(keys.values, _aliases(keys), keys.get("name"))


def _aliases(keys: _Keys) -> Flow:
    """Return the flow as the connector names its ends."""
    return Flow(keys.get("source.cluster.alias"), keys.get("target.cluster.alias"))


def _policy(keys: _Keys, generation: Generation) -> ReplicationPolicy:
    try:
        return replication_policy(keys.values, keys.get("replication.policy.class"), generation)
    except Unusable as problem:
        raise keys.error("replication.policy.class", str(problem)) from problem


def _own_filter(keys: _Keys, name: str, method: str, *, source_defaults: bool = False) -> CustomFilter | None:
    try:
        return own_filter(keys.values, keys.get(name), method, source_defaults=source_defaults)
    except Unusable as problem:
        raise keys.error(name, str(problem)) from problem


def _name_filter(keys: _Keys, name: str, generation: Generation) -> PatternFilter | CustomFilter:
    """Return the filter of ``topics`` or ``groups``: by default their patterns (CFG-022, CFG-042)."""
    kind = name.removesuffix("s")
    own = _own_filter(keys, f"{kind}.filter.class", f"should_replicate_{kind}")
    if own is not None:
        return own
    include = keys.read(FILTERS[name])
    exclude = _excluded(keys, f"{name}.exclude", generation)
    for key, patterns in ((name, include), (f"{name}.exclude", exclude)):
        _require_patterns(keys, key, patterns)
    return PatternFilter(include, exclude)


def _excluded(keys: _Keys, name: str, generation: Generation) -> tuple[str, ...]:
    """Return an exclude list; of release 3.9 also under its old name, and with the old default (CFG-038, VER-17)."""
    if generation is Generation.V3_9 and name not in keys.values:
        old = OLD_EXCLUDES[name]
        forms = (f"{keys.flow}.{old}", old)
        given = next((form for form in forms if form in keys.config.resolved), None)
        if given is not None:
            return parse_list(keys.config.resolved[given])
        if name == "topics.exclude":
            return TOPICS_EXCLUDE_OF_3_9
    found: tuple[str, ...] = keys.read(FILTERS[name])
    return found


def _config_property_filter(keys: _Keys, generation: Generation) -> ConfigPropertyFilter | CustomFilter:
    """Return the filter of topic configs: by default all but the excluded ones (CFG-024)."""
    takes_source = keys.read(FILTERS["use.defaults.from"]) == "source"
    name, method = "config.property.filter.class", "should_replicate_config_property"
    own = _own_filter(keys, name, method, source_defaults=takes_source)
    if own is not None:
        return own
    exclude = _excluded(keys, "config.properties.exclude", generation)
    _require_patterns(keys, "config.properties.exclude", exclude)
    return ConfigPropertyFilter(exclude, takes_source)


def _require_patterns(keys: _Keys, key: str, patterns: tuple[str, ...]) -> None:
    try:
        for each in patterns:
            # One that is wrong by itself is reported as it was written; Java joins them.
            PatternList((each,))
        PatternList(patterns)
    except PatternError as problem:
        raise keys.error(key, f"is not a list of names and Java regular expressions: {problem}") from problem
