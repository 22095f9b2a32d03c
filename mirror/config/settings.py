"""The whole of a properties file as frozen values: clusters, flows and what each flow does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mirror.config.connector_keys import CHECKPOINT_KEYS, INTERVAL, SOURCE_KEYS
from mirror.config.engine_keys import MirroredRecords, Oversized, WildcardAcls
from mirror.config.fetching import FetchLimits
from mirror.model.flow import Flow
from mirror.model.parked import parked_topic
from mirror.model.patterns import ConfigPropertyFilter, PatternFilter, PatternList
from mirror.model.plugins import CustomFilter
from mirror.model.topics import Generation, ReplicationPolicy, replicates
from mirror.model.transforms.chain import Chain, TopicTransform

_EVERY_KEY = SOURCE_KEYS | CHECKPOINT_KEYS

__all__ = [
    "ClusterSettings",
    "EngineSettings",
    "FlowSettings",
    "HistorySettings",
    "MirrorSettings",
]
End = Literal["source", "target"]


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
    """Java client properties of every client of a flow, merged in the order of CFG-080 to CFG-089.

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
    """Carries the alias of the cluster it is not on (CFG-032)."""
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

    same_offsets: SameOffsets | None
    """Given where ``mirror.offsets`` is ``same``, for this flow or for all."""

    fetch_limits: FetchLimits
    """How much of the source is read at once."""

    source_metric_names: frozenset[str]
    checkpoint_metric_names: frozenset[str]
    """Under which names the metrics of MirrorMaker's connectors are served: ``legacy``, ``new``, or both (CFG-015)."""

    discovery_seconds: float
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
    def reads_committed(self) -> bool:
        """Whether records of transactions are read once these are committed, and those of aborted ones never."""
        return self.isolation_level == "read_committed"

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

    def switched_off(self, name: str) -> SwitchedOff | None:
        """Return which key keeps something from being done every so often; a negative interval does as well."""
        field = name.replace(".", "_")
        switch, interval = f"{name}.enabled", f"{name}{INTERVAL}"
        if (seconds := getattr(self, f"{field}_interval_seconds")) < 0:
            return SwitchedOff(interval, str(seconds), str(_EVERY_KEY[interval].default))
        return None if getattr(self, field) else SwitchedOff(switch, "false", "true")

    def keeps_name(self, topic: str) -> bool:
        """Tell whether this flow copies ``topic``, a name on the source, to a topic of the same name."""
        return self.copy_of(topic) == topic and self.replicates(topic)

    def pad_limit(self, topic: str) -> int | None:
        """Return how many offsets may be filled if the copy of ``topic`` is to have the source's; None: it is not."""
        wanted = self.same_offsets
        if wanted is None or self.policy.is_heartbeats_topic(topic) or not wanted.topics.matches(topic):
            return None
        return wanted.pad_limit

    def translates_refused(self, topic: str) -> bool:
        """Tell whether copies of ``topic``, a name on the source, that cannot have its offsets are translated instead.

        Not under unchanged names: what is not to go round is recognised by the offsets there.
        """
        wanted = self.same_offsets
        if wanted is None or self.pad_limit(topic) is None:
            return False
        return wanted.translates_refused and not self.keeps_name(topic)

    def makes_recreated_anew(self, topic: str) -> bool:
        """Tell whether the copy of ``topic``, a name on the source, is deleted once that was deleted and created anew.

        Only one with the source's offsets, to which nobody but this flow writes: others may be originals.
        """
        wanted = self.same_offsets
        if wanted is None or self.pad_limit(topic) is None:
            return False
        return wanted.makes_recreated_anew and self.is_alone(topic)

    def keeps_name_and_offsets(self, topic: str) -> bool:
        """Tell whether the copy of ``topic``, a name on the source, has its name and is to have its offsets."""
        return self.pad_limit(topic) is not None and self.keeps_name(topic)

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
class SwitchedOff:
    """The key that switches something off, its value, and one that switches it on."""

    key: str
    value: str
    on: str


@dataclass(frozen=True, slots=True)
class AclSettings:
    """What is carried over beside the ACLs that MirrorMaker copies (``mirror.acls.*``).

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

    prefixed: bool
    groups: bool
    transactional_ids: bool
    wildcard: WildcardAcls
    remove_revoked: bool
    scram_users: bool
    client_quotas: bool


@dataclass(frozen=True, slots=True)
class SameOffsets:
    """Of which topics the copies have the source's offsets (``mirror.offsets = same``).

    Parameters
    ----------
    topics
        ``mirror.offsets.topics``: names on the source; positions in the others are translated
    pad_limit
        ``mirror.offsets.pad.limit``: at most so many offsets are filled before the start of a partition
    translates_refused
        ``mirror.offsets.refused = translate``: what cannot have them is translated as usual, and does not stop
    makes_recreated_anew
        ``mirror.offsets.recreated = make-anew``: the copy of a topic that was deleted and created anew is deleted
    """

    topics: PatternList
    pad_limit: int
    translates_refused: bool = False
    makes_recreated_anew: bool = False


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How a flow is written in transactions (EOS-01 to EOS-10).

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

    directory: Path | None
    interval_seconds: float
    retention_seconds: float
    retention_bytes: int


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

    epoch_seconds: float
    commit_interval_seconds: float
    discovery_seconds: float
    tasks: int
    generation: Generation
    matches_mm2: bool
    leader_timeout_seconds: float
    status_port: int | None
    status_address: str
    cliff_seconds: float
    history: HistorySettings


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

    def known(self, flow: Flow) -> FlowSettings:
        """Return the settings of a flow of the file."""
        found = self.flow(flow)
        assert found is not None
        return found

    def back_of(self, flow: Flow) -> FlowSettings | None:
        """Return the settings of the flow in the other direction, ``None`` if the file enables none."""
        found = self.flow(Flow(flow.target, flow.source))
        return found if found is not None and found.enabled else None
