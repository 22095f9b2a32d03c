"""What an engine would do to both ends of a flow if it started now: read, planned, and not carried out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.acls import plan_acls, read_acls
from mirror.control.exchanged_clusters import exchanged
from mirror.control.flow_log import FlowLog
from mirror.control.flows_into import hidden_notes
from mirror.control.group_kinds import unmirrored_groups
from mirror.control.quotas import QuotaAction, plan_quotas
from mirror.control.routes import plan_routes
from mirror.control.same_offsets import (
    begun_copies,
    compacted,
    copies_with_same_offsets,
    from_origins,
    needed_rights,
    plan_same_offsets,
    read_logs,
)
from mirror.control.selected_topics import selected_topics_notes
from mirror.control.topics import (
    ClusterTopics,
    expected_problems,
    plan_internal_topics,
    plan_topics,
    read_both_ends,
    without_refused,
)
from mirror.control.users import missing_users
from mirror.kafka import coordinator, old_topics
from mirror.kafka.appending import Appender
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterError
from mirror.kafka.users import client_quotas, scram_users
from mirror.model.counts import first_of
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.state_record import data_transactional_id, state_topic
from mirror.same_offsets.chain import markers_transactional_id

Rows = list[dict[str, str]]

_NAMED_TOPICS = 5
# No flow has as many tasks, nor has given up as many transactional ids.
_UNUSED_TASK = 1_000_000


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """The changes to both ends of a flow, as rows of tables; what is as it should be is left out.

    Attributes
    ----------
    topics
        cluster, topic, action, detail.
    acls, quotas, users
        what it is about, action, detail.
    offsets
        of each partition whose copy is to have the source's offsets: partition, action, detail, and what it costs.
    notes
        what else there is to know.
    problem
        why an engine would not start with it; then there is nothing else.
    enabled
        whether the file enables the flow; else it exists for its heartbeats alone (HB-02).
    """

    flow: Flow
    topics: Rows
    acls: Rows
    quotas: Rows
    users: Rows
    notes: tuple[str, ...] = ()
    problem: str | None = None
    enabled: bool = True
    offsets: Rows = field(default_factory=list)

    @property
    def has_problems(self) -> bool:
        """Whether something stands in the way of the flow, or of a part of it."""
        rows = (row for rows in self.tables().values() for row in rows)
        return self.problem is not None or any(row["action"] == "problem" for row in rows)

    def tables(self) -> dict[str, Rows]:
        """Return the rows by what they are about, as far as there are any."""
        kinds = {
            "topics": self.topics,
            "offsets": self.offsets,
            "ACLs": self.acls,
            "client quotas": self.quotas,
            "users": self.users,
        }
        return {name: rows for name, rows in kinds.items() if rows}

    def as_json(self) -> dict[str, Any]:
        """Return the form ``mirror plan --json`` prints."""
        return {
            "flow": str(self.flow),
            "topics": self.topics,
            "offsets": self.offsets,
            "acls": self.acls,
            "quotas": self.quotas,
            "users": self.users,
            "notes": list(self.notes),
            "problem": self._in_the_way(),
            "enabled": self.enabled,
        }

    def _in_the_way(self) -> str | None:
        """Return why an engine would not start, or what first stands in the way of a part of the flow."""
        found = [row["detail"] for rows in self.tables().values() for row in rows if row["action"] == "problem"]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return self.problem if self.problem is not None or not found else f"{found[0]}{more}"


def plan_flow(
    settings: FlowSettings, clusters: Mapping[str, ClusterSettings], back: FlowSettings | None = None
) -> FlowPlan:
    """Read both ends of a flow and plan; changes nothing. ``back`` is the flow in the other direction, if enabled.

    Raises
    ------
    KafkaProblem
        if a cluster cannot be read.
    """
    flow = settings.flow
    with Cluster.connect(settings.admin(flow.source)) as source, Cluster.connect(settings.admin(flow.target)) as target:
        if source.cluster_id == target.cluster_id:
            problem = (
                f"{flow.source} and {flow.target} are the same cluster (id {source.cluster_id}): replicating would "
                "never end; give the address of another cluster"
            )
            return FlowPlan(flow, [], [], [], [], problem=problem, enabled=settings.enabled)
        upstream, downstream = read_both_ends(source, target, settings)
        internal = plan_internal_topics(upstream, downstream, settings)
        planned = [(source, internal.source), (target, internal.target)]
        if settings.enabled:
            planned.append((target, plan_topics(upstream, downstream, settings)))
        topics = [
            {"cluster": cluster.alias, **row}
            for cluster, plan in planned
            for row in without_refused(plan, cluster).rows()
        ]
        if not settings.enabled:
            return FlowPlan(flow, topics, [], [], [], (_heartbeats_alone(settings),), enabled=False)
        topics += _exchanged(flow, upstream, downstream)
        state = _state(target, clusters[flow.target], settings)
        topics += _routes(upstream, downstream, settings, state)
        messages = (
            *expected_problems(downstream, settings),
            *selected_topics_notes(upstream.topics.keys(), settings, state.positions),
            *_transforms(upstream, settings),
            *_groups(source, settings),
            *_aborted(settings),
            *_rights(clusters[flow.target], settings),
        )
        offsets, notes = _offsets(upstream, downstream, settings, back, state)
        messages += notes
        topics += _denied_markers(clusters[flow.target], settings)
        topics += _not_to_be_remade(upstream, downstream, target, settings)
        if (off := settings.switched_off("sync.topic.acls")) is not None:
            note = f"no ACLs are carried over: {off.key} = {off.value}"
            return FlowPlan(flow, topics, [], [], [], (*messages, note), offsets=offsets)
        acls, notes = _acls(source, target, settings, state)
        quotas, users = _quotas(source, target, settings, state), _users(source, target, settings)
        return FlowPlan(flow, topics, acls, quotas, users, (*messages, *notes), offsets=offsets)


def _heartbeats_alone(settings: FlowSettings) -> str:
    """Say what there is of a flow that the file does not enable (HB-02)."""
    flow = settings.flow
    return (
        f"{flow}.enabled is not true, so no topic is copied; as in MirrorMaker an engine writes heartbeats of the flow "
        f"to {settings.heartbeats_topic} on {flow.target} all the same, unless {flow}.emit.heartbeats.enabled = false"
    )


def _exchanged(flow: Flow, upstream: ClusterTopics, downstream: ClusterTopics) -> Rows:
    why = exchanged(flow, upstream.topics, downstream.topics)
    return [{"cluster": flow.source, "topic": "", "action": "problem", "detail": why}] if why is not None else []


def _routes(upstream: ClusterTopics, downstream: ClusterTopics, settings: FlowSettings, state: FlowState) -> Rows:
    """Return what is wrong with the topics that transforms send elsewhere: the engine would not copy them."""
    routes = plan_routes(upstream.topics, downstream.topics, settings, state.positions)
    return [
        {"cluster": downstream.alias, "topic": "", "action": "problem", "detail": problem}
        for problem in routes.problems
    ]


def _offsets(
    upstream: ClusterTopics,
    downstream: ClusterTopics,
    settings: FlowSettings,
    back: FlowSettings | None,
    state: FlowState,
) -> tuple[Rows, tuple[str, ...]]:
    """Return what the source's offsets cost, partition by partition, and which rights they need."""
    wanted = settings.same_offsets
    if wanted is None:
        return [], ()
    pairs = copies_with_same_offsets(upstream, settings)
    known = {each for topic in downstream.topics.values() for each in topic.topic_partitions}
    present = [each for each in pairs.values() if each in known]
    source = Channel(settings.flow.source, settings.source_consumer)
    with closing(source), Appender(settings.flow.target, settings.target_producer) as target:
        logs = read_logs(pairs, present, source, target.channel, read_committed=settings.reads_committed)
        writes_many = target.may_write_markers()
    logs = from_origins(logs, pairs, upstream, settings, back, state.positions)
    begun = begun_copies(pairs, upstream, settings, back, state.positions)
    translated = {each.topic for each in pairs if settings.translates_refused(each.topic)}
    rows = plan_same_offsets(
        pairs, logs, compacted(upstream, downstream, settings), wanted, settings.flow, begun, translated
    )
    rights = needed_rights(
        settings.flow,
        pads=any(row.get("to pad", "0") != "0" and not row["detail"] for row in rows),
        writes_many=writes_many,
        remakes=wanted.makes_recreated_anew,
    )
    return rows, rights


def _transforms(upstream: ClusterTopics, settings: FlowSettings) -> tuple[str, ...]:
    """Say which topics each transform gets: a predicate that matches none leaves all records as they are."""
    copies = {
        settings.policy.format_remote_topic(settings.flow.source, topic): topic
        for topic in sorted(upstream.topics)
        if settings.replicates(topic) and not settings.policy.is_heartbeats_topic(topic)
    }
    messages = []
    for alias, names in settings.transforms.chosen(copies).items():
        if names:
            messages.append(f"transform {alias} gets {first_of([copies[each] for each in names], _NAMED_TOPICS)}")
        elif copies:
            messages.append(
                f"transform {alias} gets NO topic: its predicate holds for no name on {settings.flow.target}, "
                f"which are like {next(iter(copies))}; records are copied as they are"
            )
    return tuple(messages)


def _groups(source: Cluster, settings: FlowSettings) -> tuple[str, ...]:
    """Say which groups the flow selects and does not mirror, for their kind, and what is not known of the others."""
    if not settings.emit_checkpoints:
        return ()
    try:
        hidden = hidden_notes(source.topics([state_topic(settings.flow.target)]).problems, source.alias)
        return (*unmirrored_groups(source.groups(), settings), *hidden)
    except ClusterError as problem:
        return (f"whether all groups can be mirrored is not known: {problem}",)


def _aborted(settings: FlowSettings) -> tuple[str, ...]:
    """Say what becomes of aborted transactions where copies are to have the source's offsets (REC-08)."""
    if settings.same_offsets is None or settings.reads_committed:
        return ()
    source, target = settings.flow.source, settings.flow.target
    note = (
        f"records of aborted transactions of {source} are ordinary records on {target}, which readers with "
        f"read_committed see, too (isolation.level = {settings.isolation_level}); to leave them out: "
        f"{source}.consumer.isolation.level = read_committed"
    )
    return (note,)


def _denied_markers(target: ClusterSettings, settings: FlowSettings) -> Rows:
    """Return that copies with the source's offsets would stop at their first hole, where the target tells so."""
    if settings.same_offsets is None:
        return []
    needed = markers_transactional_id(settings.flow)
    with closing(Channel(target.alias, settings.target_producer)) as channel:
        if not coordinator.is_denied(channel, needed):
            return []
    problem = (
        f"{target.alias} denies the transactional id {needed}, so copies with the source's offsets stop at the first "
        "offset without a record: grant Write and Describe on it"
    )
    return [{"cluster": target.alias, "topic": "", "action": "problem", "detail": problem}]


def _not_to_be_remade(
    upstream: ClusterTopics, downstream: ClusterTopics, target: Cluster, settings: FlowSettings
) -> Rows:
    """Return which copies could not be made anew once their topics on the source are, and which rights that takes."""
    made_anew = (name for name in upstream.topics if settings.replicates(name) and settings.makes_recreated_anew(name))
    copies = set(map(settings.copy_of, made_anew))
    lacking = old_topics.lacking_rights(target, sorted(copies & downstream.topics.keys()))
    return [
        {
            "cluster": target.alias,
            "topic": name,
            "action": "problem",
            "detail": f"{name} on {target.alias} cannot be made anew if its topic on {settings.flow.source} is deleted "
            f"and created anew (mirror.offsets.recreated): {why}",
        }
        for name, why in sorted(lacking.items())
    ]


def _rights(target: ClusterSettings, settings: FlowSettings) -> tuple[str, ...]:
    """Say what keeps an earlier engine from writing late, and which rights on transactional ids would do it better.

    As far as that can be known without using an id. One that nobody has used yet is asked for: it is needed whenever a
    transaction does not end, or with more tasks.
    """
    transactions = settings.transactions
    if transactions is None:
        # What an engine that was killed had sent would not be refused (ADR 8).
        needed = data_transactional_id(state_topic(settings.flow.source), settings.flow.target)
        refused = f"what an engine that was killed had sent is refused by {target.alias}, by the epoch of its producer"
        if settings.same_offsets is not None:
            refused += ", but for copies with the source's offsets, which take each record once in its place anyway"
        note = (
            f"what an engine that was killed had sent would be noticed on {target.alias}, not refused: grant Write "
            f"and Describe on the transactional id {needed}"
        )
    else:
        needed = f"{transactions.id_prefix}{_UNUSED_TASK}"
        refused = f"what an engine that was killed had sent is refused by {target.alias}, in transactions"
        note = f"{target.alias} does not let the flow use other transactional ids: {transactions.needed_right}"
    with closing(Channel(target.alias, settings.target_producer)) as channel:
        match coordinator.is_denied(channel, needed):
            case None:
                return (f"{target.alias} does not tell whether {needed} may be used: `mirror status` says it later",)
            case is_denied:
                return (note if is_denied else refused,)


def _state(target: Cluster, client: ClusterSettings, settings: FlowSettings) -> FlowState:
    topic = state_topic(settings.flow.source)
    if topic not in target.topics([topic]):
        return FlowState()
    with closing(FlowLog(client.client, topic, alias=target.alias)) as log:
        return log.poll()


def _acls(source: Cluster, target: Cluster, settings: FlowSettings, state: FlowState) -> tuple[Rows, tuple[str, ...]]:
    try:
        plan = plan_acls(read_acls(source, target, settings), state.acls, settings)
    except ClusterError as problem:
        return [_problem("acl", problem)], ()
    return plan.rows(), plan.notes


def _quotas(source: Cluster, target: Cluster, settings: FlowSettings, state: FlowState) -> Rows:
    if not settings.acls.client_quotas:
        return []
    try:
        decisions = plan_quotas(client_quotas(source), client_quotas(target), state.quotas, settings)
    except ClusterError as problem:
        return [_problem("quota", problem)]
    return [each.row() for each in decisions if each.action is not QuotaAction.KEEP]


def _users(source: Cluster, target: Cluster, settings: FlowSettings) -> Rows:
    if not settings.acls.scram_users:
        return []
    try:
        return [each.row() for each in missing_users(scram_users(source), scram_users(target))]
    except ClusterError as problem:
        return [_problem("user", problem)]


def _problem(about: str, problem: ClusterError) -> dict[str, str]:
    return {about: "", "action": "problem", "detail": str(problem)}
