"""Topics on the target: which to create, grow and configure so that a flow can copy into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mirror.config.settings import FlowSettings
from mirror.control.flow_tick import FlowTick
from mirror.control.tick import TickReport
from mirror.kafka import old_topics
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.brokers import brokers_without
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, ConfigEntry, NewTopic, Topic
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic

_COMPACT = {"cleanup.policy": "compact"}
# What is written about every second is compacted by segment, and read whole by every engine that starts.
_SMALL_SEGMENTS = {"segment.bytes": str(16 << 20)}
# For good, and as large as a request to a broker may be by default.
_PARKED = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_PARKED_RECORD_BYTES = {"max.message.bytes": str(100 << 20)}
# KIP-464: as many replicas as the cluster gives by itself.
_OF_THE_CLUSTER = -1


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """What one cluster has.

    Attributes
    ----------
    alias
        the cluster, for messages.
    topics
        all its topics, Kafka's own excepted (SEL-01).
    configs
        the settings of those topics they were asked for.
    brokers
        how many brokers are up.
    """

    alias: str
    topics: Mapping[str, Topic]
    configs: Found[str, tuple[ConfigEntry, ...]] = field(default_factory=Found)
    brokers: int = 1


@dataclass(frozen=True, slots=True)
class Growth:
    """A topic that gets more partitions."""

    topic: str
    present: int
    wanted: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Changes to one cluster's topics, and what cannot be done.

    Attributes
    ----------
    blocked
        why something cannot be done, in words, by the name of the topic on this cluster.
    """

    creates: tuple[NewTopic, ...] = ()
    growths: tuple[Growth, ...] = ()
    config_changes: Mapping[str, ConfigChange] = field(default_factory=dict)
    blocked: Mapping[str, str] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is in the way, in words that name the topic."""
        return tuple(self.blocked.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be changed; there may still be problems."""
        return not (self.creates or self.growths or self.config_changes)

    def rows(self) -> list[dict[str, str]]:
        """Return the plan as rows of a table: topic, action, detail."""
        rows = [_row(topic.name, "create", _described(topic)) for topic in self.creates]
        rows += [
            _row(growth.topic, "add partitions", f"{growth.present} -> {growth.wanted}") for growth in self.growths
        ]
        for topic, change in self.config_changes.items():
            rows += [_row(topic, "set", f"{key}={value}") for key, value in change.set.items()]
            rows += [_row(topic, "reset", f"{key} to the target's default") for key in change.delete]
        rows += [_row(topic, "problem", problem) for topic, problem in self.blocked.items()]
        return rows


@dataclass(frozen=True, slots=True)
class InternalTopicPlan:
    """The side topics a flow needs, by the cluster they live on."""

    source: TopicPlan
    target: TopicPlan


def plan_topics(source: ClusterTopics, target: ClusterTopics, settings: FlowSettings) -> TopicPlan:
    """Return what is to be done on the target so that every replicated topic of the source has its copy.

    A missing topic is created with the source's partition count and filtered settings (TOP-01, TCS-07), one with
    fewer partitions is grown and never shrunk (TOP-02); the replication factor of an existing topic is left alone
    (TOP-05). With the settings of existing topics at hand, they are planned too: see `plan_configs`.

    A topic whose settings cannot be read on the source is a problem of that topic only; it is not created, since it
    would get the wrong ones (TOP-06 would give up on all of them).
    """
    creates, growths, problems = [], [], dict[str, str]()
    for name, remote_name in _copies(source, settings):
        upstream, remote = source.topics[name], target.topics.get(remote_name)
        if remote is not None:
            if len(remote.partitions) < len(upstream.partitions):
                growths.append(Growth(remote_name, len(remote.partitions), len(upstream.partitions)))
            continue
        factor = settings.replication_factor
        entries = source.configs.get(name)
        problem = _replication_problem(remote_name, factor, "replication.factor", target)
        if problem is not None:
            problems[remote_name] = problem
        elif entries is None:
            problems[remote_name] = _unreadable(source, name, "it is not created on the target until then")
        else:
            configs = _creation_configs(entries, settings)
            creates.append(NewTopic(remote_name, len(upstream.partitions), factor, configs))
    following = plan_configs(source, target, settings)
    return TopicPlan(tuple(creates), tuple(growths), following.config_changes, {**problems, **following.blocked})


def expected_problems(target: ClusterTopics, settings: FlowSettings) -> tuple[str, ...]:
    """Return what will keep topics that are new on the source from being copied, although none waits now."""
    factor = settings.replication_factor
    if not settings.enabled or _can_have(factor, target):
        return ()
    happens = f"should a topic appear on {settings.flow.source}, it could not be copied: replication.factor = {factor}"
    if factor < 1:
        return (f"{happens}; set it to 1 or more",)
    brokers = counted(target.brokers, "broker")
    more = f"{target.alias} has {brokers}; start the others, or set replication.factor={target.brokers}"
    return (f"{happens}, and {more}",)


def plan_configs(source: ClusterTopics, target: ClusterTopics, settings: FlowSettings) -> TopicPlan:
    """Return which settings of existing copies are to follow the source's, for the topics whose settings were read.

    Settings are compared, so that a plan names real changes only; where the target's settings are not known, it names
    all of them, as MirrorMaker 2 does each time (TCS-01 to TCS-06, TCS-08).
    """
    changes, problems = {}, {}
    for name, remote_name in _copies(source, settings) if settings.sync_topic_configs else ():
        if remote_name not in target.topics:
            continue
        if any(old_topics.closes(*each) for each in _own(target.configs.get(remote_name)).items()):
            problems[remote_name] = (
                f"topic {remote_name} on {target.alias} takes no records: max.message.bytes = 0, which closes a topic "
                "that is about to be made anew; if nobody does that now, have it follow the source again by "
                f"kafka-configs.sh --alter --entity-type topics --entity-name {remote_name} --delete-config "
                "max.message.bytes"
            )
        if name in source.configs.problems:
            problems[remote_name] = _unreadable(source, name, "they are not synchronized until then")
        elif name in source.configs:
            change = _config_change(source.configs[name], target.configs.get(remote_name), settings)
            if change.set or change.delete:
                changes[remote_name] = change
    return TopicPlan(config_changes=changes, blocked=problems)


def plan_internal_topics(source: ClusterTopics, target: ClusterTopics, settings: FlowSettings) -> InternalTopicPlan:
    """Return which side topics of the flow are to be created, all compacted (TOP-07, DED-03).

    A flow that exists only for its heartbeats (HB-02) gets the heartbeats topic alone.
    """
    on_source, on_target = _side_topics(settings)
    return InternalTopicPlan(
        _plan_internal(on_source, source),
        _plan_internal(on_target, target),
    )


def create_state_topic(target: Cluster, settings: FlowSettings) -> tuple[bool, tuple[str, ...]]:
    """Create the flow's side topics on the target as far as they are missing; the source may be away.

    Nothing is written to a state topic before every broker that answers knows it. A flow in the other direction that
    asks a broker which has not heard of it takes what is copied for written by others, and copies it back.

    Returns
    -------
    whether the state topic is there, with a leader that knows it; what went wrong
    """
    wanted = _side_topics(settings)[1]
    present = target.topics([topic.name for topic in wanted])
    address = TopicPartition(state_topic(settings.flow.source), 0)
    problems: tuple[str, ...] = ()
    if address.topic not in present:
        on_target = ClusterTopics(target.alias, present, Found(), len(target.broker_ids()))
        _, problems = _apply(_plan_internal(wanted, on_target), target)
        if address.topic not in target.topics([address.topic]):
            return False, problems
    # It may be a moment old, also where it was there: the control thread creates it too.
    ends = target.offsets([address], "latest")
    if ends.problems:
        return False, (*problems, *(f"{each} on {target.alias}: {why}" for each, why in ends.problems.items()))
    if ends[address] == 0 and (lacking := brokers_without(target, address.topic)):
        numbers = ", ".join(map(str, lacking))
        return False, (*problems, f"{address.topic} on {target.alias}: not known yet to broker {numbers}")
    return True, problems


def lacking_brokers(cluster: Cluster, settings: FlowSettings) -> dict[str, str]:
    """Return which keys of a flow that has not begun ask for more replicas than there are brokers, and the problems.

    What is there already counts as begun: a broker that is down for an hour is no reason not to start.

    Raises
    ------
    ClusterError
        if the cluster cannot be asked.
    """
    is_target = cluster.alias == settings.flow.target
    wanted = [topic for topic in _side_topics(settings)[is_target] if topic.is_needed]
    present = cluster.topics([topic.name for topic in wanted])
    here = ClusterTopics(cluster.alias, present, Found(), len(cluster.broker_ids()))
    missing = [
        (topic.name, topic.replication_factor, f"{topic.key_prefix}.replication.factor")
        for topic in wanted
        if topic.name not in present and topic.name not in present.problems
    ]
    if is_target and any(name == state_topic(settings.flow.source) for name, *_ in missing):
        missing.append(("of every copy", settings.replication_factor, "replication.factor"))
    found = dict[str, str]()
    for name, factor, key in missing:
        problem = _replication_problem(name, factor, key, here)
        if problem is not None:
            found.setdefault(key, problem)
    return found


def apply_plan(plan: TopicPlan, cluster: Cluster) -> tuple[ItemResult, ...]:
    """Carry out a plan on its cluster; what exists by now is no problem."""
    return (
        *(cluster.create_topics(plan.creates) if plan.creates else ()),
        *(cluster.grow_partitions({each.topic: each.wanted for each in plan.growths}) if plan.growths else ()),
        *(cluster.alter_configs(plan.config_changes) if plan.config_changes else ()),
    )


def without_refused(plan: TopicPlan, cluster: Cluster) -> TopicPlan:
    """Return a plan in which the topics are blocked that its cluster would not create; asks, and creates nothing.

    For want of rights, for their names, by a policy of the cluster.
    """
    results = cluster.create_topics(plan.creates, only_validate=True) if plan.creates else ()
    refused = {
        each.item: f"topic {each.item} on {cluster.alias} cannot be created: {each.problem}"
        for each in results
        if each.problem is not None
    }
    creates = tuple(each for each in plan.creates if each.name not in refused)
    return replace(plan, creates=creates, blocked={**plan.blocked, **refused})


def read_both_ends(
    source: Cluster, target: Cluster, settings: FlowSettings, *, all_configs: bool = True
) -> tuple[ClusterTopics, ClusterTopics]:
    """Read what the plans need to know of both ends of a flow.

    Parameters
    ----------
    all_configs
        False: of the settings, read those of topics that the target lacks only, which is all that discovery needs. The
        settings of thousands of topics are megabytes, too much for every few seconds.
    """
    side_topics = [[topic.name for topic in wanted] for wanted in _side_topics(settings)]
    if settings.enabled:
        upstream, downstream = source.topics(), target.topics()
    else:
        # Of a flow that copies nothing, nothing else is looked at.
        upstream, downstream = source.topics(side_topics[0]), target.topics(side_topics[1])
    copies = {
        name: settings.policy.format_remote_topic(settings.flow.source, name)
        for name in upstream
        if settings.replicates(name)
    }
    on_source = [name for name, copy in copies.items() if all_configs or copy not in downstream]
    on_target: list[str] = []
    if all_configs:
        on_source += [name for name in side_topics[0] if name in upstream]
        on_target += [name for name in (*copies.values(), *side_topics[1]) if name in downstream]
    return (
        ClusterTopics(source.alias, upstream, source.topic_configs(on_source), len(source.broker_ids())),
        ClusterTopics(target.alias, downstream, target.topic_configs(on_target), len(target.broker_ids())),
    )


@dataclass(eq=False, repr=False)
class TopicsTick(FlowTick):
    """Discovery: creates and grows the copies of the source's topics, and the side topics of the flow.

    ``side_topics_are_there`` tells whether every side topic is in place; without them a flow cannot keep its
    positions, while a single topic that cannot be copied is no reason to keep the others waiting.
    """

    about = "topics"

    _side_topics_are_fine: bool = field(default=False, init=False)
    _expected: tuple[str, ...] = field(default=(), init=False)
    side_topics_are_there: bool = field(default=False, init=False)

    def tick(self) -> TickReport:
        """Run one round: read both ends, plan, apply."""
        return replace(super().tick(), notes=self._expected)

    def _round(self, _: int) -> tuple[int, tuple[str, ...]]:
        # Until all is fine with the side topics, their settings are looked at too.
        source, target = read_both_ends(
            self.source, self.target, self.settings, all_configs=not self._side_topics_are_fine
        )
        internal = plan_internal_topics(source, target, self.settings)
        rounds = [_apply(internal.source, self.source), _apply(internal.target, self.target)]
        self._side_topics_are_fine = not any(problems for _, problems in rounds)
        self.side_topics_are_there = self.side_topics_are_there or self._has_side_topics()
        if self.settings.enabled:
            copies = replace(plan_topics(source, target, self.settings), config_changes={})
            # Where topics wait by now the plan says it of each.
            self._expected = () if copies.blocked else expected_problems(target, self.settings)
            rounds.append(_apply(copies, self.target))
        return sum(done for done, _ in rounds), tuple(problem for _, problems in rounds for problem in problems)

    def _has_side_topics(self) -> bool:
        on_source, on_target = (
            {topic.name for topic in wanted if topic.is_needed} for wanted in _side_topics(self.settings)
        )
        return self.source.topics(on_source).keys() == on_source and self.target.topics(on_target).keys() == on_target


class TopicConfigsTick(FlowTick):
    """Keeps the settings of existing copies in step with the source's (``sync.topic.configs``, TCS-01)."""

    about = "topic configs"

    def _round(self, _: int) -> tuple[int, tuple[str, ...]]:
        source, target = read_both_ends(self.source, self.target, self.settings)
        return _apply(plan_configs(source, target, self.settings), self.target)


def _apply(plan: TopicPlan, cluster: Cluster) -> tuple[int, tuple[str, ...]]:
    results = apply_plan(plan, cluster)
    failures = [f"topic {each.item} on {cluster.alias}: {each.problem}" for each in results if each.problem is not None]
    return len(results) - len(failures), (*plan.problems, *failures)


def _copies(source: ClusterTopics, settings: FlowSettings) -> list[tuple[str, str]]:
    """Return the replicated topics of the source with the names of their copies (SEL-02)."""
    return [
        (name, settings.policy.format_remote_topic(settings.flow.source, name))
        for name in sorted(source.topics)
        if settings.replicates(name)
    ]


# --- settings of topics ------------------------------------------------------------------------------------------


def _candidates(entries: tuple[ConfigEntry, ...], settings: FlowSettings) -> list[tuple[ConfigEntry, str]]:
    """Return the entries that a flow carries over, with their values (TCS-02, TCS-03).

    What closes a topic that is about to be made anew is of that topic alone.
    """
    return [
        (entry, entry.value)
        for entry in entries
        if entry.value is not None
        and not old_topics.closes(entry.name, entry.value)
        and not entry.is_read_only
        and not entry.is_sensitive
        and entry.source != "STATIC_BROKER_CONFIG"
        and settings.config_property_filter.should_replicate(entry.name)
    ]


def _creation_configs(entries: tuple[ConfigEntry, ...], settings: FlowSettings) -> dict[str, str]:
    """Return the settings a new copy is created with: defaults only with ``use.defaults.from=source`` (TCS-07)."""
    with_defaults = settings.use_defaults_from == "source"
    return {
        entry.name: value for entry, value in _candidates(entries, settings) if with_defaults or not entry.is_default
    }


def _config_change(
    entries: tuple[ConfigEntry, ...], present: tuple[ConfigEntry, ...] | None, settings: FlowSettings
) -> ConfigChange:
    """Return what makes the copy's own settings those of the source (TCS-04, TCS-05).

    A copy that is closed, to be made anew, is opened by whoever has closed it.
    """
    own = _own(present)
    wanted, unwanted = {}, []
    for entry, value in _candidates(entries, settings):
        if old_topics.closes(entry.name, own.get(entry.name)):
            continue
        if entry.is_default and settings.use_defaults_from == "target":
            if present is None or entry.name in own:
                unwanted.append(entry.name)
        elif own.get(entry.name) != value:
            wanted[entry.name] = value
    return ConfigChange(wanted, tuple(unwanted))


def _own(entries: tuple[ConfigEntry, ...] | None) -> dict[str, str | None]:
    """Return what is set for a topic itself."""
    return {each.name: each.value for each in entries or () if each.source == "DYNAMIC_TOPIC_CONFIG"}


# --- side topics -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Internal:
    name: str
    partitions: int
    replication_factor: int
    key_prefix: str
    keeps: Mapping[str, str] = field(default_factory=lambda: _COMPACT)
    """Settings without which what is kept there gets lost."""
    others: Mapping[str, str] = field(default_factory=dict)
    is_needed: bool = True
    """Whether the flow cannot do without."""


def _side_topics(settings: FlowSettings) -> tuple[list[_Internal], list[_Internal]]:
    """Return the side topics that a flow needs on its source and on its target."""
    on_source: list[_Internal] = []
    on_target: list[_Internal] = []
    if settings.emit_heartbeats:
        factor = settings.heartbeats_replication_factor
        kept = _kept(settings.heartbeats_retention_ms)
        on_target.append(_Internal(settings.heartbeats_topic, 1, factor, "heartbeats.topic", others=kept))
    if settings.enabled:
        factor = settings.offset_storage_replication_factor
        on_target += [
            _Internal(settings.offset_storage_topic, settings.offset_storage_partitions, factor, "offset.storage"),
            _Internal(state_topic(settings.flow.source), 1, factor, "offset.storage", others=_SMALL_SEGMENTS),
        ]
        if settings.parked_topic is not None:
            parked = _Internal(
                settings.parked_topic, 1, factor, "offset.storage", _PARKED, _PARKED_RECORD_BYTES, is_needed=False
            )
            on_target.append(parked)
        if settings.emit_checkpoints:
            factor = settings.checkpoints_replication_factor
            kept = _kept(settings.checkpoints_retention_ms)
            on_target.append(_Internal(settings.checkpoints_topic, 1, factor, "checkpoints.topic", others=kept))
        if settings.emit_offset_syncs:
            factor = settings.offset_syncs_replication_factor
            kept = _kept(settings.offset_syncs_retention_ms)
            syncs = _Internal(settings.offset_syncs_topic, 1, factor, "offset-syncs.topic", others=kept)
            (on_source if settings.offset_syncs_location == "source" else on_target).append(syncs)
    return on_source, on_target


def _kept(retention_ms: int | None) -> dict[str, str]:
    """Return the retention that a side topic is created with; it stays compacted, so nothing gets lost by it."""
    return {} if retention_ms is None else {"retention.ms": str(retention_ms)}


def _plan_internal(wanted: list[_Internal], cluster: ClusterTopics) -> TopicPlan:
    creates, problems = [], {}
    for topic in wanted:
        if topic.name in cluster.topics:
            problem = _forgetful(cluster, topic)
        else:
            key = f"{topic.key_prefix}.replication.factor"
            problem = _replication_problem(topic.name, topic.replication_factor, key, cluster)
            if problem is None:
                creates.append(
                    NewTopic(topic.name, topic.partitions, topic.replication_factor, {**topic.keeps, **topic.others})
                )
        if problem is not None:
            problems[topic.name] = problem
    return TopicPlan(creates=tuple(creates), blocked=problems)


def _forgetful(cluster: ClusterTopics, topic: _Internal) -> str | None:
    """Say so if an existing side topic deletes old records: what the mirror keeps there would be lost by retention."""
    present = {each.name: each.value for each in cluster.configs.get(topic.name, ())}
    for key, wanted in topic.keeps.items():
        if present.get(key, wanted) != wanted:
            return (
                f"topic {topic.name} on {cluster.alias} has {key}={present[key]}, so what is kept there gets lost with "
                f"time: set {key}={wanted}"
            )
    return None


def _can_have(factor: int, cluster: ClusterTopics) -> bool:
    """Whether a topic of a cluster can have that many replicas."""
    return factor == _OF_THE_CLUSTER or 1 <= factor <= cluster.brokers


def _replication_problem(topic: str, factor: int, key: str, cluster: ClusterTopics) -> str | None:
    if _can_have(factor, cluster):
        return None
    if factor < 1:
        return f"topic {topic} on {cluster.alias} cannot have replication factor {factor}: set {key} to 1 or more"
    brokers = counted(cluster.brokers, "broker")
    return (
        f"topic {topic} on {cluster.alias} needs replication factor {factor}, "
        f"but the cluster has {brokers}: set {key}={cluster.brokers}"
    )


def _unreadable(source: ClusterTopics, name: str, consequence: str) -> str:
    reason = source.configs.problems.get(name, "they were not asked for")
    return f"the settings of topic {name} on {source.alias} cannot be read ({reason}): {consequence}"


def _row(topic: str, action: str, detail: str) -> dict[str, str]:
    return {"topic": topic, "action": action, "detail": detail}


def _described(topic: NewTopic) -> str:
    configs = "".join(f", {key}={value}" for key, value in topic.configs.items())
    factor = "the target's default" if topic.replication_factor < 0 else str(topic.replication_factor)
    return f"{counted(topic.partitions, 'partition')}, replication factor {factor}{configs}"
