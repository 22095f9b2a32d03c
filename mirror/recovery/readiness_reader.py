"""Reading both sides of a flow for ``mirror readiness``; nothing is changed, not even by the asking.

Each thing is asked for by itself: what a cluster does not tell is noted, with the right that is lacking, and the rest
is read all the same. Thousands of topics or groups are a few requests to each broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TypeVar

from mirror.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror.control.checkpoints import Checkpoints, last_checkpoints
from mirror.control.flow_log import NeverRun
from mirror.control.flow_status import FlowStatus
from mirror.control.group_view import view_groups
from mirror.control.left_out_groups import left_out_groups
from mirror.control.status import observe
from mirror.kafka.acls import AclListing, describe_acls
from mirror.kafka.answers import Found
from mirror.kafka.brokers import LIST_TRANSACTIONS, broker_configs, offered, transactional_ids, values_of
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import Topic
from mirror.kafka.jaas import BadJaas, parse_login
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import ClusterError, KafkaProblem
from mirror.kafka.users import client_quotas, scram_users
from mirror.model.acl import Resource
from mirror.model.counts import counted, first_of
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.recovery.group_moves import MovePlan, plan_moves, untranslated
from mirror.recovery.readiness_facts import Configs, Ends, Facts, Groups, NotSeen, Side

T = TypeVar("T")
K = TypeVar("K")

_PATIENCE_SECONDS = 10.0
_NAMED = 5
_KINDS = (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)
_GROUPS_TOPIC, _TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"


def read_facts(everything: MirrorSettings, settings: FlowSettings, *, rpo_seconds: float) -> Facts:
    """Read what `mirror.recovery.readiness.judge` needs to know.

    A side that does not answer is a fact too.

    Raises
    ------
    UnsupportedSetting
        if a security setting cannot be honoured.
    """
    flow, clusters = settings.flow, everything.clusters
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        source, target = pool.map(lambda alias: _connect(clusters[alias], stack), (flow.source, flow.target))
        upstream, downstream = pool.map(_topics, (source, target))
        status = target if isinstance(target, NotSeen) else _status(everything, settings)
        copies = _copies(settings, upstream, status)
        originals = [name for name in copies if copies[name] != name]
        wanted = (list(copies), [*copies.values(), *originals, _GROUPS_TOPIC, _TRANSACTIONS_TOPIC])
        asked = zip((source, target), (upstream, downstream), wanted, strict=True)
        source_side, target_side = pool.map(lambda ends: _side(clusters, *ends), asked)
        ends, lacking = _ends(source, upstream, copies)
        if lacking is not None and isinstance(source_side, Side):
            source_side = replace(source_side, partly=(*source_side.partly, lacking))
        return Facts(
            settings=settings,
            source=source_side,
            target=target_side,
            status=status,
            copies=copies,
            groups=_groups(everything, settings, source, source_side, target_side, copies),
            ends=ends,
            parked=_parked(settings, target, downstream),
            aliases=frozenset(clusters),
            own_principal=_principal(clusters[flow.source].client),
            file=str(everything.path),
            rpo_seconds=rpo_seconds,
        )


def _connect(settings: ClusterSettings, stack: ExitStack) -> Cluster | NotSeen:
    """Connect to a cluster; the stack closes it, also where the other one's settings are refused meanwhile."""
    what = f"all of {settings.alias}"
    mend = f"start {settings.alias}, or correct {settings.alias}.bootstrap.servers and its security settings"
    return _attempt(
        what,
        settings.alias,
        mend,
        lambda: stack.enter_context(Cluster.connect(settings, timeout_seconds=_PATIENCE_SECONDS)),
    )


def _attempt(what: str, where: str, mend: str, ask: Callable[[], T]) -> T | NotSeen:
    try:
        return ask()
    except KafkaProblem as problem:
        return NotSeen(what, str(problem), where, mend)


def _topics(cluster: Cluster | NotSeen) -> Found[str, Topic] | NotSeen:
    if isinstance(cluster, NotSeen):
        return cluster
    return _attempt(
        f"the topics of {cluster.alias}",
        cluster.alias,
        "grant Describe on the topics",
        lambda: cluster.topics(include_internal=True),
    )


def _status(everything: MirrorSettings, settings: FlowSettings) -> FlowStatus | NotSeen:
    flow = settings.flow
    with observe(everything, {flow}) as (observer,):
        found = observer.look()
    if found.state != "FAILED":
        return found
    topic = state_topic(flow.source)
    return NotSeen(f"the state of {flow}", "; ".join(found.reasons), flow.target, f"grant Read and Describe on {topic}")


def _copies(
    settings: FlowSettings, upstream: Found[str, Topic] | NotSeen, status: FlowStatus | NotSeen
) -> dict[str, str]:
    """Return the topics of applications with the names of their copies; without the source, those that were copied."""
    if not isinstance(upstream, NotSeen):
        names: Collection[str] = [name for name in sorted(upstream) if settings.replicates(name)]
    elif not isinstance(status, NotSeen):
        names = dict.fromkeys(each.topic for each in status.partitions)
    else:
        names = ()
    return {name: settings.copy_of(name) for name in names if not settings.policy.is_heartbeats_topic(name)}


def _side(
    clusters: Mapping[str, ClusterSettings],
    cluster: Cluster | NotSeen,
    topics: Found[str, Topic] | NotSeen,
    wanted: Collection[str],
) -> Side | NotSeen:
    if isinstance(cluster, NotSeen):
        return cluster
    if isinstance(topics, NotSeen):
        return topics
    alias = cluster.alias
    partly: list[NotSeen] = []

    def part(what: str, right: str, ask: Callable[[], T]) -> T | NotSeen:
        return _attempt(f"{what} of {alias}", alias, f"grant {right} on {alias}", ask)

    def note(what: str, right: str, problems: Mapping[K, str]) -> None:
        if problems:
            partly.append(_lacking(f"{what} of {alias}", f"grant {right} on {alias}", problems))

    present = [name for name in dict.fromkeys(wanted) if name in topics]
    brokers = part("the brokers", "Describe on the cluster", cluster.broker_ids)
    if isinstance(brokers, NotSeen):
        return brokers
    configs = part("the settings of topics", "DescribeConfigs on the topics", lambda: _configs(cluster, present))
    if isinstance(configs, NotSeen):
        partly.append(configs)
        configs = Found()
    note("the settings of topics", "DescribeConfigs on the topics", configs.problems)
    note("some topics", "Describe on the topics", topics.problems)
    settings = part("the settings of the brokers", "DescribeConfigs on the cluster", lambda: _settings(cluster))
    acls = part("the ACLs", "Describe on the cluster", lambda: describe_acls(cluster, _KINDS))
    if isinstance(acls, AclListing) and acls.unknown:
        why = f"{acls.unknown[0]}, which this version does not know"
        partly.append(NotSeen(f"{counted(len(acls.unknown), 'ACL')} of {alias}", why, alias, "look at them by hand"))
    offers = part("what the brokers offer", "nothing: they do not answer", lambda: offered(cluster))
    has_transactions = _TRANSACTIONS_TOPIC in topics
    transactions = (
        part("the transactional ids", "Describe on the transactional ids", lambda: transactional_ids(cluster))
        if has_transactions or (not isinstance(offers, NotSeen) and LIST_TRANSACTIONS in offers.requests)
        else {}
    )
    return Side(
        alias=alias,
        bootstrap=clusters[alias].bootstrap_servers,
        cluster_id=cluster.cluster_id,
        brokers=brokers,
        topics=topics,
        configs=configs,
        settings=settings,
        acls=acls,
        quotas=part("the client quotas", "DescribeConfigs on the cluster", lambda: client_quotas(cluster)),
        users=part("the SCRAM users", "Describe on the cluster", lambda: scram_users(cluster)),
        groups=part("the groups", "Describe on the cluster or the groups", lambda: tuple(cluster.groups())),
        offered=offers,
        transactions=transactions,
        partly=tuple(partly),
    )


def _configs(cluster: Cluster, names: Collection[str]) -> Found[str, Configs]:
    found = cluster.topic_configs(names)
    return Found(
        {
            name: {entry.name: entry.value for entry in entries if entry.value is not None and not entry.is_sensitive}
            for name, entries in found.items()
        },
        found.problems,
    )


def _settings(cluster: Cluster) -> dict[str, frozenset[str]]:
    found = broker_configs(cluster)
    for broker, problem in found.problems.items():
        raise ClusterError(cluster.alias, f"reading the settings of broker {broker}", problem)
    return values_of(found)


def _ends(
    source: Cluster | NotSeen, upstream: Found[str, Topic] | NotSeen, copies: Collection[str]
) -> tuple[Ends | NotSeen, NotSeen | None]:
    """Return where the logs of the copied topics begin and end, and what is missing of that."""
    if isinstance(source, NotSeen):
        return source, None
    if isinstance(upstream, NotSeen):
        return upstream, None
    partitions = [each for name in copies for each in upstream[name].topic_partitions]
    what, mend = f"where logs of {source.alias} begin and end", "grant Describe on the topics, or start their brokers"

    def ask() -> tuple[Found[TopicPartition, int], Found[TopicPartition, int]]:
        return source.offsets(partitions, "earliest"), source.offsets(partitions, "latest")

    found = _attempt(what, source.alias, mend, ask)
    if isinstance(found, NotSeen):
        return found, None
    starts, ends = found
    problems = {**starts.problems, **ends.problems}
    return Ends(starts, ends), _lacking(what, mend, problems) if problems else None


def _groups(
    everything: MirrorSettings,
    settings: FlowSettings,
    source: Cluster | NotSeen,
    upstream: Side | NotSeen,
    downstream: Side | NotSeen,
    copies: Mapping[str, str],
) -> Groups:
    if isinstance(downstream, NotSeen):
        return Groups(downstream, downstream, downstream, downstream, downstream)
    left_out, read_elsewhere = _other_readers(settings, source, upstream, copies)
    mend = "grant Describe on the groups, and Read on the side topics of the flow"

    def checkpoints() -> Checkpoints | NotSeen:
        return _attempt(
            f"the checkpoints of {settings.flow}",
            settings.checkpoints_topic,
            f"grant Read on {settings.checkpoints_topic}",
            lambda: _checkpoints(everything, settings, downstream),
        )

    before = checkpoints()
    moves = _attempt(
        f"the groups of {settings.flow}",
        settings.flow.target,
        mend,
        lambda: _moves(everything, settings, downstream, asks_source=isinstance(source, Cluster)),
    )
    return Groups(moves, checkpoints(), before, left_out, read_elsewhere)


def _moves(everything: MirrorSettings, settings: FlowSettings, target: Side, *, asks_source: bool) -> MovePlan:
    """Return what would become of the groups; nothing, where the flow has never run: then nothing is known of any."""
    flows, clusters, back = everything.enabled_flows, everything.clusters, everything.back_of(settings.flow)
    try:
        if _GROUPS_TOPIC in target.topics:
            return plan_moves(settings, clusters, pattern=".*", ask_source=asks_source, flows=flows, back=back)
        # There is no group yet; who asks for one makes the topic.
        view = view_groups(settings, clusters, ask_source=asks_source, flows=flows, back=back)
    except NeverRun:
        return MovePlan(settings, ())
    lacking, unneeded = untranslated(view, (), settings)
    return MovePlan(settings, view.positions, (), tuple(lacking), tuple(unneeded), view.source_problem)


def _checkpoints(everything: MirrorSettings, settings: FlowSettings, target: Side) -> Checkpoints:
    topic = settings.checkpoints_topic
    if topic not in target.topics:
        return {}
    with closing(LogTail(everything.clusters[settings.flow.target].client, topic, alias=settings.flow.target)) as tail:
        return last_checkpoints(tail.poll())


def _other_readers(
    settings: FlowSettings, source: Cluster | NotSeen, upstream: Side | NotSeen, copies: Mapping[str, str]
) -> tuple[dict[str, tuple[str, ...]] | NotSeen, dict[str, tuple[str, ...]] | NotSeen]:
    """Return the groups that the flow leaves out, with its topics that they read, and the topics with their readers."""
    if isinstance(source, NotSeen):
        return source, source
    if isinstance(upstream, NotSeen):
        return upstream, upstream
    if isinstance(upstream.groups, NotSeen):
        return upstream.groups, upstream.groups
    names = [each.group for each in upstream.groups if each.is_consumer_group]
    mend = f"grant Describe on the groups of {source.alias}, and on the topics they read"
    what = f"the positions of groups of {source.alias}"
    positions = _attempt(what, source.alias, mend, lambda: source.positions_of_groups(names))
    if isinstance(positions, NotSeen):
        return positions, positions
    elsewhere: dict[str, list[str]] = defaultdict(list)
    problems = dict(positions.problems)
    for group, found in sorted(positions.items()):
        problems |= {f"{group}, {partition}": problem for partition, problem in found.problems.items()}
        read = sorted({partition.topic for partition in found})
        for topic in read if settings.group_filter.matches(group) else ():
            if topic in upstream.topics and not settings.replicates(topic):
                elsewhere[topic].append(group)
    if problems:
        lacking = _lacking(what, mend, problems)
        return lacking, lacking
    left_out = left_out_groups(positions, settings, copies.__contains__)
    return left_out, {topic: tuple(groups) for topic, groups in elsewhere.items()}


def _parked(
    settings: FlowSettings, target: Cluster | NotSeen, downstream: Found[str, Topic] | NotSeen
) -> int | NotSeen:
    if isinstance(target, NotSeen):
        return target
    if isinstance(downstream, NotSeen):
        return downstream
    topic = settings.parked_topic
    if topic is None or topic not in downstream:
        return 0
    partitions = downstream[topic].topic_partitions

    def count() -> int:
        starts, ends = target.offsets(partitions, "earliest"), target.offsets(partitions, "latest")
        for partition, problem in (*starts.problems.items(), *ends.problems.items()):
            raise ClusterError(target.alias, f"asking for offsets of {partition}", problem)
        return sum(ends[each] - starts[each] for each in partitions)

    return _attempt("the parked records", topic, f"grant Describe on {topic}", count)


def _lacking(what: str, mend: str, problems: Mapping[K, str]) -> NotSeen:
    reasons = first_of(list(dict.fromkeys(problems.values())), _NAMED)
    return NotSeen(what, reasons, first_of(sorted(map(str, problems)), _NAMED), mend)


def _principal(client: Mapping[str, str]) -> str | None:
    """Return whom a client logs in as, as far as its settings say so."""
    try:
        name = parse_login(client.get("sasl.jaas.config", "")).options.get("username")
    except BadJaas:
        return None
    return f"User:{name}" if name else None
