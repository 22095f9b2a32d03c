"""The whole of a properties file as frozen values: clusters, flows and what each flow does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mirror.config.clients import ConnectorClients, cluster_admin, data_producer, transactional_ids
from mirror.config.definitions import (
    CONNECTORS,
    ENGINE,
    EXACTLY_ONCE,
    FILTERS,
    OLD_EXCLUDES,
    RETENTION,
    TOPICS_EXCLUDE_OF_3_9,
    TRANSACTIONAL_PRODUCER,
    WORKER,
    BadValue,
    Connector,
    Definition,
    MirroredRecords,
    Oversized,
    WildcardAcls,
)
from mirror.config.errors import ConfigError
from mirror.config.fetching import BadFetchLimit, FetchLimits, fetch_limits
from mirror.config.ignored import ignored
from mirror.config.mirror_maker import MirrorMakerConfig, resolve_like_a_connector
from mirror.config.policies import own_filter, replication_policy
from mirror.config.properties import read
from mirror.config.providers import ProviderProblem
from mirror.config.refusals import require_usable
from mirror.config.replication_loops import require_no_loop
from mirror.config.transforms import read_chain, require_functions
from mirror.model.flow import Flow
from mirror.model.parked import parked_topic
from mirror.model.patterns import ConfigPropertyFilter, PatternError, PatternFilter, PatternList, parse_list
from mirror.model.plugins import CustomFilter
from mirror.model.references import Unusable
from mirror.model.topics import Generation, ReplicationPolicy, replicates
from mirror.model.transforms.chain import Chain, TopicTransform

__all__ = [
    "ClusterSettings",
    "ConfigError",
    "EngineSettings",
    "FlowSettings",
    "HistorySettings",
    "MirrorSettings",
    "load",
    "settings_of",
]

End = Literal["source", "target"]

_SYNCS_LOCATION = "offset-syncs.topic.location"

# How long a transaction takes records in where MirrorMaker would make one of every batch of a consumer; and how soon
# one may follow another when there is little to write: each takes offsets, and a run of the offset map, on every
# partition that it has written to.
_POLL_SECONDS = 1.0
_IDLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to reach one cluster (CFG-080).

    Parameters
    ----------
    client
        resolved Java client properties: ``bootstrap.servers``, ``security.protocol``, ``ssl.*``, ``sasl.*`` and the
        settings of admin clients on this cluster
    """

    alias: str
    client: Mapping[str, str]

    @property
    def bootstrap_servers(self) -> str:
        """Return the comma-separated addresses, as the file gives them."""
        return self.client["bootstrap.servers"]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Java client properties of every client of a flow, merged in the order of section 1.7.

    ``data_producer`` carries records, checkpoints and heartbeats; ``offset_syncs_*`` speak to the cluster the
    offset-syncs topic is on; the consumers and admin clients are named after their cluster.
    """

    source_consumer: Mapping[str, str]
    data_producer: Mapping[str, str]
    source_admin: Mapping[str, str]
    target_admin: Mapping[str, str]
    offset_syncs_producer: Mapping[str, str]
    offset_syncs_consumer: Mapping[str, str]
    offset_syncs_admin: Mapping[str, str]
    checkpoints_consumer: Mapping[str, str]
    heartbeats_admin: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """What one flow does; also a flow that exists only for its heartbeats (``enabled`` is False, DED-07).

    Intervals are in seconds; what is switched off keeps its interval and has its switch False. Replication factors
    may be -1: the broker's default.
    """

    flow: Flow
    enabled: bool
    generation: Generation
    policy: ReplicationPolicy
    topic_filter: PatternFilter | CustomFilter
    group_filter: PatternFilter | CustomFilter
    config_property_filter: ConfigPropertyFilter | CustomFilter
    clients: ClientSettings

    offset_syncs_topic: str
    """Carries the alias of the cluster it is not on (section 3.1)."""
    checkpoints_topic: str
    heartbeats_topic: str

    replication_factor: int
    offset_syncs_replication_factor: int
    checkpoints_replication_factor: int
    heartbeats_replication_factor: int
    offset_syncs_retention_ms: int | None
    checkpoints_retention_ms: int | None
    heartbeats_retention_ms: int | None
    """``retention.ms`` that a side topic is created with; ``None``: the cluster's."""
    offset_storage_replication_factor: int
    offset_storage_partitions: int
    offset_storage_topic: str
    config_storage_topic: str

    offset_syncs_location: End
    offset_lag_max: int
    tasks_max: int

    emit_offset_syncs: bool
    emit_checkpoints: bool
    emit_heartbeats: bool
    sync_group_offsets: bool
    sync_topic_configs: bool
    sync_topic_acls: bool
    refresh_topics: bool
    refresh_groups: bool
    heartbeats_replication: bool

    emit_checkpoints_interval_seconds: float
    emit_heartbeats_interval_seconds: float
    sync_group_offsets_interval_seconds: float
    sync_topic_configs_interval_seconds: float
    sync_topic_acls_interval_seconds: float
    refresh_topics_interval_seconds: float
    refresh_groups_interval_seconds: float
    offset_commit_interval_seconds: float

    stops_at_gaps: bool
    """A gap stops its partition until it is acknowledged: ``mirror.gaps`` is ``stop``, for this flow or for all."""
    transactions: TransactionSettings | None
    """Given where ``exactly.once.source.support`` is ``enabled`` for the target's worker (EOS-01)."""
    group_id: str
    """The Connect group id of MirrorMaker's worker for this flow (DED-01)."""
    oversized_records: Oversized
    """``mirror.oversized.records``: what becomes of a record that the target finds too large (ERR-07)."""
    transforms: Chain
    """What is done to each record on its way; checkpoints and heartbeats are left alone."""
    mirrored_records: MirroredRecords
    """``mirror.mirrored.records``: what becomes of records that other flows have mirrored into the source."""

    acls: AclSettings
    """What is done about ACLs beyond MirrorMaker's rules."""

    same_offsets: SameOffsets | None = None
    """Given where ``mirror.offsets`` is ``same``, for this flow or for all."""

    fetch_limits: FetchLimits = FetchLimits()  # noqa: RUF009  # frozen
    """How much of the source is read at once."""

    source_metric_names: frozenset[str] = frozenset({"legacy"})
    checkpoint_metric_names: frozenset[str] = frozenset({"legacy"})
    """Under which names the metrics of MirrorMaker's connectors are served: ``legacy``, ``new``, or both (CFG-015)."""

    discovery_seconds: float = 5.0
    """How often topics are looked for: within seconds, unless the file says how often; infinite: once."""

    @property
    def exactly_once(self) -> bool:
        """Return whether records and positions are written in transactions."""
        return self.transactions is not None

    @property
    def use_defaults_from(self) -> End:
        """Return whose defaults a topic config at its default takes (CFG-025)."""
        return "source" if self.config_property_filter.source_defaults else "target"

    @property
    def auto_offset_reset(self) -> str:
        """Return where a partition without a position starts: ``earliest``, ``latest`` or ``none``."""
        return self.clients.source_consumer["auto.offset.reset"]

    @property
    def isolation_level(self) -> str:
        """Return ``read_uncommitted`` or ``read_committed``, as the source is read (REC-08)."""
        return self.clients.source_consumer.get("isolation.level", "read_uncommitted")

    @property
    def source_consumer(self) -> Mapping[str, str]:
        """Return the client properties of the reader of the source."""
        return self.clients.source_consumer

    @property
    def target_producer(self) -> Mapping[str, str]:
        """Return the client properties of the data producer."""
        return self.clients.data_producer

    def admin(self, alias: str) -> ClusterSettings:
        """Return how the flow asks one of its two clusters (CFG-084, CFG-089)."""
        at_source = alias == self.flow.source
        return ClusterSettings(alias, self.clients.source_admin if at_source else self.clients.target_admin)

    @property
    def parked_topic(self) -> str | None:
        """Return the topic on the target for records that it finds too large; None: they stop their partition."""
        return parked_topic(self.flow.source) if self.oversized_records is Oversized.PARK else None

    def copy_of(self, topic: str) -> str:
        """Return the topic on the target that the records of ``topic``, a name on the source, are sent to."""
        return self.transforms.route(self.policy.format_remote_topic(self.flow.source, topic))

    def transform_of(self, topic: str) -> TopicTransform | None:
        """Return what is done to each record of ``topic``, a name on the source; None if nothing is.

        Connect's transforms get heartbeats too, as from MirrorMaker's source connector; functions of one's own do not.
        """
        remote = self.policy.format_remote_topic(self.flow.source, topic)
        return self.transforms.of_topic(remote, with_functions=not self.policy.is_heartbeats_topic(topic))

    def keeps_name(self, topic: str) -> bool:
        """Tell whether this flow copies ``topic``, a name on the source, to a topic of the same name."""
        return self.copy_of(topic) == topic and self.replicates(topic)

    def is_alone(self, topic: str) -> bool:
        """Tell whether nobody but this flow writes to the copy of ``topic``: it has a name of the policy's making."""
        return self.copy_of(topic) == self.policy.format_remote_topic(self.flow.source, topic) != topic

    def replicates(self, topic: str) -> bool:
        """Tell whether this flow copies ``topic``, a name on the source (SEL-02)."""
        return replicates(
            topic,
            policy=self.policy,
            topic_filter=self.topic_filter,
            flow=self.flow,
            heartbeats_replication=self.heartbeats_replication,
            generation=self.generation,
        )


@dataclass(frozen=True, slots=True)
class AclSettings:
    """What is carried over beside the ACLs that MirrorMaker copies (``mirror.acls.*``); the defaults are its rules.

    Parameters
    ----------
    prefixed
        ACLs with PREFIXED patterns
    groups, transactional_ids
        ACLs on groups that ``groups`` selects, and on transactional ids
    wildcard
        what becomes of ACLs on ``*`` (ACL-06)
    remove_revoked
        remove what this engine has created when it was revoked on the source
    scram_users
        tell which users of the source cannot log in on the target
    client_quotas
        the quotas of users and client ids
    """

    prefixed: bool = False
    groups: bool = False
    transactional_ids: bool = False
    wildcard: WildcardAcls = WildcardAcls.DENIALS
    remove_revoked: bool = False
    scram_users: bool = False
    client_quotas: bool = False


@dataclass(frozen=True, slots=True)
class SameOffsets:
    """Of which topics the copies have the source's offsets (``mirror.offsets = same``).

    Parameters
    ----------
    topics
        ``mirror.offsets.topics``: names on the source; positions in the others are translated
    pad_limit
        ``mirror.offsets.pad.limit``: at most so many offsets are filled before the start of a partition
    """

    topics: PatternList
    pad_limit: int


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How a flow is written in transactions (section 2.14).

    Parameters
    ----------
    id_prefix
        what the transactional id of every task begins with, as MirrorMaker's; the task's number follows (EOS-04)
    mm2_tasks
        how many tasks MirrorMaker would have: it may have used as many transactional ids
    timeout_ms
        the data producer's ``transaction.timeout.ms``
    seconds
        how long a transaction takes records in; never more than half its timeout (EOS-05)
    idle_seconds
        how long after the last commit one may end before that, when it has nothing more to write; ``None``: it may not
    """

    id_prefix: str
    mm2_tasks: int
    timeout_ms: int
    seconds: float
    idle_seconds: float | None

    @property
    def needed_right(self) -> str:
        """Say which ACL lets the flow use every transactional id that it may come to need."""
        return (
            f"grant Write and Describe on the transactional ids that begin with {self.id_prefix} (pattern type "
            "PREFIXED): with more tasks, or when a transaction does not end, the flow goes on with a new one"
        )


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Where a history is kept, None: nowhere; how far samples are apart; what is kept (``mirror.history.*``)."""

    directory: Path | None = None
    interval_seconds: float = 10.0
    retention_seconds: float = 7 * 86_400.0
    retention_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine's own settings: keys starting ``mirror.``, which MirrorMaker 2 ignores (CFG-078).

    Parameters
    ----------
    epoch_seconds
        longest time one Spark job lasts; the first ones are short, and whatever needs a new plan ends one early
    commit_interval_seconds
        how often positions are written to the target
    discovery_seconds
        how often topics and partitions are looked for, unless the file sets ``refresh.topics.interval.seconds``
    tasks
        Spark tasks per epoch; 0 = as many as cores
    generation
        whose topic selection to follow (VER-17, VER-21)
    matches_mm2
        whether what a Java MirrorMaker wrote behind its recorded position is looked up on the target
        (``mirror.takeover=match``), or copied again (``position``)
    leader_timeout_seconds
        how long the engine that leads a flow may be silent before another takes the flow over
    status_port, status_address
        where the engine serves its metrics and status; port None: nowhere (in the file -1), 0: any free one
    cliff_seconds
        how soon the source must delete what is not copied for a flow not to be in order
    history
        what is kept of what is seen of the flows
    """

    epoch_seconds: float = 30.0
    commit_interval_seconds: float = 1.0
    discovery_seconds: float = 5.0
    tasks: int = 0
    generation: Generation = Generation.NEWEST
    matches_mm2: bool = True
    leader_timeout_seconds: float = 6.0
    status_port: int | None = None
    status_address: str = "127.0.0.1"
    cliff_seconds: float = 3600.0
    history: HistorySettings = HistorySettings()


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """Everything a properties file says."""

    path: Path
    clusters: Mapping[str, ClusterSettings]
    flows: tuple[FlowSettings, ...]
    engine: EngineSettings
    ignored: tuple[str, ...] = ()
    """What stands in the file and has no effect, as in MirrorMaker 2; in words for people."""

    @property
    def enabled_flows(self) -> tuple[FlowSettings, ...]:
        """Return the flows that replicate."""
        return tuple(flow for flow in self.flows if flow.enabled)

    def flow(self, flow: Flow) -> FlowSettings | None:
        """Return the settings of ``flow``, ``None`` if the file has no such flow."""
        return next((settings for settings in self.flows if settings.flow == flow), None)

    def back_of(self, flow: Flow) -> FlowSettings | None:
        """Return the settings of the flow in the other direction, ``None`` if the file enables none."""
        found = self.flow(Flow(flow.target, flow.source))
        return found if found is not None and found.enabled else None


def load(path: Path, *, applies_transforms: bool = True) -> MirrorSettings:
    """Read a ``connect-mirror-maker.properties`` file.

    Parameters
    ----------
    applies_transforms
        whether records are to be changed here: then the functions that are named must be there.

    Raises
    ------
    ConfigError
        naming file, line and key of what is wrong: what MirrorMaker 2 refuses, what it would ignore although it must
        be a mistake (a flow of an unknown cluster), and what this engine does not do.
    """
    return settings_of(MirrorMakerConfig.of(read(path)), path, applies_transforms=applies_transforms)


def settings_of(config: MirrorMakerConfig, path: Path, *, applies_transforms: bool = True) -> MirrorSettings:
    """Return :func:`load` of a file that was read from ``path``."""
    require_usable(config)
    settings = resolve(config, path)
    require_no_loop(config, settings.enabled_flows)
    if applies_transforms:
        for each in settings.enabled_flows:
            source = _Keys.of_connector(config, each.flow, Connector.SOURCE, inside_worker=True)
            require_functions(each.transforms, source.error)
    return settings


def resolve(config: MirrorMakerConfig, path: Path) -> MirrorSettings:
    """Return everything ``config`` says, as MirrorMaker 2 reads it.

    Raises
    ------
    ConfigError
        for a value that MirrorMaker 2 refuses.
    """
    engine = engine_settings(config)
    clusters = {
        alias: ClusterSettings(alias, cluster_admin(config.replace_placeholders(config.cluster(alias))))
        for alias in config.clusters
    }
    flows = tuple(flow_settings(config, flow, engine) for flow in config.flows)
    return MirrorSettings(path, clusters, flows, engine, ignored(config))


def engine_settings(config: MirrorMakerConfig) -> EngineSettings:
    """Return the engine's own settings.

    Raises
    ------
    ConfigError
        for a value that cannot be used.
    """
    keys = _Keys(config, ENGINE, config.resolved)
    directory = keys.get("mirror.history.directory")
    return EngineSettings(
        epoch_seconds=keys.get("mirror.epoch.seconds"),
        commit_interval_seconds=keys.get("mirror.commit.interval.ms") / 1000,
        discovery_seconds=keys.get("mirror.discovery.seconds"),
        tasks=keys.get("mirror.tasks"),
        generation=Generation(keys.get("mirror.compatibility")),
        matches_mm2=keys.get("mirror.takeover") == "match",
        leader_timeout_seconds=keys.get("mirror.leader.timeout.seconds"),
        status_port=None if (port := keys.get("mirror.status.port")) < 0 else port,
        status_address=keys.get("mirror.status.address"),
        cliff_seconds=keys.get("mirror.status.cliff.seconds"),
        history=HistorySettings(
            Path(directory) if directory else None,
            keys.get("mirror.history.interval.seconds"),
            3600 * keys.get("mirror.history.retention.hours"),
            keys.get("mirror.history.retention.bytes"),
        ),
    )


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
        for a value MirrorMaker 2 refuses, or a class it could load and this engine does not have.
    """
    worker = _Keys(config, WORKER, config.worker(flow), flow)
    source, checkpoint, heartbeat = (
        _Keys.of_connector(config, flow, connector, inside_worker=inside_worker) for connector in Connector
    )
    retention = _Keys(config, RETENTION, config.engine(flow), flow)
    exactly_once = bool(worker.get("exactly.once.source.support").lower() == "enabled")
    clients = _clients(source, checkpoint, heartbeat)
    clients = replace(clients, data_producer=data_producer(worker.values, source.values, exactly_once=exactly_once))
    policy, aliases, location = _policy(source, engine.generation), _aliases(source), source.get(_SYNCS_LOCATION)
    return FlowSettings(
        flow=flow,
        enabled=source.get("enabled"),
        generation=engine.generation,
        policy=policy,
        topic_filter=_name_filter(source, "topics", engine.generation),
        group_filter=_name_filter(checkpoint, "groups", engine.generation),
        config_property_filter=_config_property_filter(source, engine.generation),
        clients=clients,
        offset_syncs_topic=policy.offset_syncs_topic(aliases.target if location == "source" else aliases.source),
        checkpoints_topic=policy.checkpoints_topic(aliases.source),
        heartbeats_topic=policy.heartbeats_topic(),
        replication_factor=source.get("replication.factor"),
        offset_syncs_replication_factor=source.get("offset-syncs.topic.replication.factor"),
        checkpoints_replication_factor=checkpoint.get("checkpoints.topic.replication.factor"),
        heartbeats_replication_factor=heartbeat.get("heartbeats.topic.replication.factor"),
        offset_syncs_retention_ms=retention.get("offset.syncs.topic.retention.ms"),
        checkpoints_retention_ms=retention.get("checkpoints.topic.retention.ms"),
        heartbeats_retention_ms=retention.get("heartbeats.topic.retention.ms"),
        offset_storage_replication_factor=worker.get("offset.storage.replication.factor"),
        offset_storage_partitions=worker.get("offset.storage.partitions"),
        offset_storage_topic=worker.get("offset.storage.topic"),
        config_storage_topic=worker.get("config.storage.topic"),
        offset_syncs_location=location,
        offset_lag_max=source.get("offset.lag.max"),
        tasks_max=source.get("tasks.max"),
        emit_offset_syncs=source.get("emit.offset-syncs.enabled"),
        emit_checkpoints=checkpoint.get("emit.checkpoints.enabled"),
        emit_heartbeats=heartbeat.get("emit.heartbeats.enabled"),
        sync_group_offsets=checkpoint.get("sync.group.offsets.enabled"),
        sync_topic_configs=source.get("sync.topic.configs.enabled"),
        sync_topic_acls=source.get("sync.topic.acls.enabled"),
        refresh_topics=source.get("refresh.topics.enabled"),
        refresh_groups=checkpoint.get("refresh.groups.enabled"),
        heartbeats_replication=source.get("heartbeats.replication.enabled"),
        emit_checkpoints_interval_seconds=checkpoint.get("emit.checkpoints.interval.seconds"),
        emit_heartbeats_interval_seconds=heartbeat.get("emit.heartbeats.interval.seconds"),
        sync_group_offsets_interval_seconds=checkpoint.get("sync.group.offsets.interval.seconds"),
        sync_topic_configs_interval_seconds=source.get("sync.topic.configs.interval.seconds"),
        sync_topic_acls_interval_seconds=source.get("sync.topic.acls.interval.seconds"),
        refresh_topics_interval_seconds=source.get("refresh.topics.interval.seconds"),
        refresh_groups_interval_seconds=checkpoint.get("refresh.groups.interval.seconds"),
        offset_commit_interval_seconds=worker.get("offset.flush.interval.ms") / 1000,
        source_metric_names=frozenset(source.get("metric.names.formats")),
        checkpoint_metric_names=frozenset(checkpoint.get("metric.names.formats")),
        stops_at_gaps=_Keys(config, ENGINE, config.engine(flow), flow).get("mirror.gaps") == "stop",
        transactions=_transactions(worker, source, clients, exactly_once=exactly_once),
        group_id=worker.get("group.id"),
        fetch_limits=_fetch_limits(config, flow, clients.source_consumer),
        oversized_records=Oversized(_Keys(config, ENGINE, config.engine(flow), flow).get("mirror.oversized.records")),
        mirrored_records=MirroredRecords(
            _Keys(config, ENGINE, config.engine(flow), flow).get("mirror.mirrored.records")
        ),
        transforms=read_chain(source.values, str(flow), source.error) if source.get("enabled") else Chain(),
        acls=_acls(_Keys(config, ENGINE, config.engine(flow), flow)),
        same_offsets=_same_offsets(_Keys(config, ENGINE, config.engine(flow), flow)),
        discovery_seconds=_discovery_seconds(source, engine),
    )


def _discovery_seconds(source: _Keys, engine: EngineSettings) -> float:
    key = "refresh.topics.interval.seconds"
    if not source.get("refresh.topics.enabled"):
        return math.inf
    return float(source.get(key)) if key in source.values else engine.discovery_seconds


def _acls(keys: _Keys) -> AclSettings:
    return AclSettings(
        prefixed=keys.get("mirror.acls.prefixed"),
        groups=keys.get("mirror.acls.groups"),
        transactional_ids=keys.get("mirror.acls.transactional.ids"),
        wildcard=WildcardAcls(keys.get("mirror.acls.wildcard")),
        remove_revoked=keys.get("mirror.acls.remove.revoked"),
        scram_users=keys.get("mirror.acls.scram.users"),
        client_quotas=keys.get("mirror.acls.client.quotas"),
    )


def _same_offsets(keys: _Keys) -> SameOffsets | None:
    offsets, topics, limit = (keys.get(f"mirror.offsets{name}") for name in ("", ".topics", ".pad.limit"))
    _require_patterns(keys, "mirror.offsets.topics", topics)
    return SameOffsets(PatternList(topics), limit) if Offsets(offsets) is Offsets.SAME else None


def _fetch_limits(config: MirrorMakerConfig, flow: Flow, consumer: Mapping[str, str]) -> FetchLimits:
    try:
        return fetch_limits(consumer)
    except BadFetchLimit as problem:
        prefixes = (f"{flow}.consumer.", f"{flow}.source.consumer.", f"{flow.source}.consumer.")
        forms = [f"{prefix}{problem.name}" for prefix in prefixes]
        key = next((form for form in forms if form in config.resolved), f"{flow.source}.consumer.{problem.name}")
        raise config.file.error(key, str(problem)) from problem


@dataclass(frozen=True, slots=True)
class _Keys:
    """Values of one connector, worker or the engine, read by their definitions; errors name the file's own key."""

    config: MirrorMakerConfig
    definitions: Mapping[str, Definition]
    values: Mapping[str, str]
    flow: Flow | None = None

    @classmethod
    def of_connector(cls, config: MirrorMakerConfig, flow: Flow, connector: Connector, *, inside_worker: bool) -> _Keys:
        """Resolve a connector's settings, and read every key once, so that all that is malformed is found."""
        values = config.connector(flow, connector)
        if inside_worker:
            values = config.replace_placeholders(values)
        try:
            values = resolve_like_a_connector(values)
        except ProviderProblem as problem:
            key = config.key_of(flow, problem.key, values.get(problem.key))
            raise config.file.error(key, problem.message) from problem
        keys = cls(config, CONNECTORS[connector], values, flow)
        for name in CONNECTORS[connector]:
            keys.get(name)
        return keys

    def get(self, name: str) -> Any:
        return self.read(self.definitions[name])

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
            message = "it is not to be had unless the target's exactly.once.source.support = enabled; set that"
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


def _clients(source: _Keys, checkpoint: _Keys, heartbeat: _Keys) -> ClientSettings:
    of_source, of_checkpoint, of_heartbeat = (_connector_clients(keys) for keys in (source, checkpoint, heartbeat))
    if source.get(_SYNCS_LOCATION) == "source":
        syncs_producer = of_source.source_producer("offset-syncs-source-producer")
        syncs_consumer = of_checkpoint.source_consumer("offset-syncs-source-consumer")
        syncs_admin = of_source.source_admin("offset-syncs-source-admin")
    else:
        syncs_producer = of_source.target_producer("offset-syncs-target-producer")
        syncs_consumer = of_checkpoint.target_consumer("offset-syncs-target-consumer")
        syncs_admin = of_source.target_admin("offset-syncs-target-admin")
    return ClientSettings(
        source_consumer=of_source.source_consumer("replication-consumer"),
        data_producer={},
        source_admin=of_source.source_admin("replication-source-admin"),
        target_admin=of_source.target_admin("replication-target-admin"),
        offset_syncs_producer=syncs_producer,
        offset_syncs_consumer=syncs_consumer,
        offset_syncs_admin=syncs_admin,
        checkpoints_consumer=of_checkpoint.target_consumer("checkpoints-target-consumer"),
        heartbeats_admin=of_heartbeat.target_admin("heartbeats-target-admin"),
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
        PatternList(patterns)
    except PatternError as problem:
        raise keys.error(key, f"is not a list of names and Java regular expressions: {problem}") from problem
