"""Fencing a cluster: its producers are kept from writing, by ACLs, or hampered by quotas where no ACL is looked at.

A plan, then what it says, on record in a file before the first change; lifted from that file exactly, also after a
crash in the middle.

ACLs: DENY WRITE for everybody from everywhere, on each topic by its name. A denial counts more than any permission,
so nobody can be excepted but super users, who are never asked; what is to go on being written is left out by topic.
Quotas: a producer is held back only after the broker has taken a request of its connection, so each new connection
gets one through. That is no fence: the verdict is UNKNOWN at best.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.control.tick import now_ms
from mirror.kafka.acls import NoAuthorizer, create_acls, delete_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.security import UnsupportedSetting
from mirror.kafka.users import alter_client_quotas, client_quotas
from mirror.model.acl import EVERY_NAME, EVERYBODY, Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.counts import counted
from mirror.model.parked import parked_topic
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.model.verdict import Verdict
from mirror.recovery.fence_record import FenceRecord, QuotaChange
from mirror.recovery.fenced_side import mirrors_of
from mirror.recovery.sentinel import Watched, watch, watch_for
from mirror.waiting import WaitTimeout, wait_until

_RATE = "producer_byte_rate"
# The least that a broker takes.
_FENCED_RATE = 1.0
_EVERY_CLIENT = (("client-id", None), ("user", None))
_KINDS = {"client-id", "user"}
CREATED_SINCE = (
    "it was created behind the fence, or its denial was removed: fence again with another --record, which denies it "
    "beside what is denied"
)
_SPREAD_SECONDS = 30.0
_MOST_WAIT_SECONDS = 60.0

_BY_ACLS = (
    "super users of the cluster, who are asked for no permission",
    "topics created later: fence again with another --record, or watch for them",
    "deletions of records, and positions of groups",
)
_BY_QUOTAS = (
    "the first request of each connection: the broker takes it, and holds its client back only then",
    "clients with a limit of their own that is set after this",
    "producers that ignore the throttle time that brokers report, and connect again",
)


@dataclass(frozen=True, slots=True)
class FencePlan:
    """What would fence a cluster; nothing is changed yet.

    Attributes
    ----------
    record
        what is added to the cluster, as it is to be put on record.
    fenced
        the topics that are denied to everybody then, those included that somebody had denied before.
    left_open
        the topics that are not, and why not.
    open_to
        in words, who or what can write all the same.
    warnings
        what of the mirror's own work stands still until it is lifted.
    is_taken_up
        whether it was on record already: what is missing of it is added, and nothing else.
    unseen
        the topics that are known of, or on record as denied, and that the cluster does not show.
    """

    record: FenceRecord
    fenced: tuple[str, ...] = ()
    left_open: Mapping[str, str] = field(default_factory=dict)
    open_to: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_taken_up: bool = False
    unseen: tuple[str, ...] = ()

    @property
    def by_quotas(self) -> bool:
        """Whether the cluster has no authorizer, so that producers are only held back."""
        return bool(self.record.quotas)

    @property
    def created_since(self) -> tuple[str, ...]:
        """The topics that are open although they are meant: what is on record does not deny them."""
        return tuple(topic for topic, why in self.left_open.items() if why == CREATED_SINCE)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Why it keeps not everybody from everything that is meant, in words for people; nothing: it does."""
        if self.by_quotas:
            return ()
        found = []
        if not self.fenced:
            found.append(
                f"no topic of {self.record.cluster} is fenced: brokers list only topics that one may describe "
                "(grant Describe on the topics), or those that are meant are not there"
            )
        if self.created_since:
            found.append(
                f"{counted(len(self.created_since), 'topic')} open, as {self.created_since[0]}: {CREATED_SINCE}"
            )
        if self.unseen:
            found.append(_hidden(self.record.cluster, self.unseen))
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """Return what ``mirror fence --json`` prints of the plan."""
        return {
            "cluster": self.record.cluster,
            "by": "quotas" if self.by_quotas else "ACLs",
            "fenced": list(self.fenced),
            "left_open": [{"topic": topic, "reason": why} for topic, why in self.left_open.items()],
            "open_to": list(self.open_to),
            "warnings": list(self.warnings),
            "lacking": list(self.lacking),
            "acls": [str(each) for each in self.record.acls],
            "quotas": [
                {"quota": str(key), "before": change.before, "fenced": change.fenced}
                for key, change in self.record.quotas.items()
            ],
            "taken_up": self.is_taken_up,
        }


@dataclass(frozen=True, slots=True)
class Fenced:
    """What became of a fence, or of lifting one.

    Attributes
    ----------
    problems
        what could not be changed, and why.
    watched
        who still wrote to what is fenced.
    """

    plan: FencePlan
    problems: tuple[str, ...] = ()
    watched: Watched = Watched()  # noqa: RUF009  # frozen

    @property
    def verdict(self) -> Verdict:
        """PASS: all that is meant is denied, and nothing was written meanwhile."""
        if self.problems or self.watched.written:
            return Verdict.FAIL
        is_unproven = self.plan.by_quotas or self.plan.lacking or self.watched.verdict is not Verdict.PASS
        return Verdict.UNKNOWN if is_unproven else Verdict.PASS

    def as_json(self) -> dict[str, Any]:
        """Return the form that ``mirror fence --json`` prints."""
        return self.plan.as_json() | {
            "verdict": self.verdict.value,
            "problems": list(self.problems),
            "still_written": self.watched.as_json(self.plan.record.cluster),
        }


@dataclass(frozen=True, slots=True)
class Lifted:
    """What became of lifting a fence: what was put back, what somebody has changed since and stays, what failed."""

    record: FenceRecord
    put_back: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether nothing of the fence is left."""
        return Verdict.FAIL if self.problems else Verdict.PASS

    @property
    def notes(self) -> tuple[str, ...]:
        """What lifting it does not end."""
        if not self.record.quotas:
            return ()
        held_back = (
            f"producers that {self.record.cluster} has held back stay so over the connections that they have, for as "
            "long as it has announced (KIP-219), which may be hours: restart applications that do not write by now; "
            "mirror run connects anew within a minute and a half"
        )
        return (held_back,)

    def as_json(self) -> dict[str, Any]:
        """Return the form that ``mirror fence --lift --json`` prints."""
        return {
            "verdict": self.verdict.value,
            "cluster": self.record.cluster,
            "put_back": list(self.put_back),
            "left": list(self.left),
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


def plan_fence(
    settings: MirrorSettings,
    alias: str,
    path: Path,
    *,
    by: str,
    selects: Callable[[str], bool] = lambda _: True,
    known: Collection[str] = (),
) -> FencePlan:
    """Say what would fence a cluster of the file; take up what is on record at ``path``, if there is something.

    ``selects``: the topics that are meant; all of them, unless it says otherwise. ``known``: those that it has had: a
    list of all topics leaves out what may not be seen, and what is denied is denied by name.

    Raises
    ------
    ClusterError
        if the cluster does not answer, or does not tell its ACLs.
    ConfigError
        if what is on record there is of another cluster.
    """
    with Cluster.connect(settings.clusters[alias]) as cluster:
        listing = describe_acls(cluster, [Resource.TOPIC])
        if path.exists():
            record = _of_this(FenceRecord.load(path), cluster, path)
            if record.quotas or isinstance(listing, NoAuthorizer):
                return FencePlan(record, (), {}, _BY_QUOTAS, is_taken_up=True)
            unseen = _unseen(cluster, {*known, *(acl.name for acl in record.acls), *record.denied_before})
            open_still, names = _meant(settings, alias, {*cluster.topics(), *unseen}, selects)
            denied = tuple(each for each in names if is_denied(each, {*listing.acls, *record.acls}))
            open_still |= {each: CREATED_SINCE for each in names if each not in denied}
            return FencePlan(record, denied, open_still, _BY_ACLS, is_taken_up=True, unseen=unseen)
        if isinstance(listing, NoAuthorizer):
            record = FenceRecord(alias, cluster.cluster_id, by, now_ms(), quotas=planned_quotas(client_quotas(cluster)))
            return FencePlan(record, (), {}, _BY_QUOTAS, _warnings(settings, alias, is_all=True))
        unseen = _unseen(cluster, known)
        topics = {*cluster.topics(), *unseen}
    left_open, names = _meant(settings, alias, topics, selects)
    before = tuple(each for each in names if is_denied(each, listing.acls))
    acls = tuple(denial(each) for each in names if each not in before)
    record = FenceRecord(alias, cluster.cluster_id, by, now_ms(), acls, denied_before=before)
    return FencePlan(
        record,
        names,
        left_open,
        _BY_ACLS,
        (*_warnings(settings, alias, names), *bare_topics_warning(names, listing.acls)),
        unseen=unseen,
    )


def copied_topics(settings: MirrorSettings, alias: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the topics of a cluster that flows of the file have on record as copied, and who may write to others.

    A cluster is fenced also where a target of its flows does not tell, or cannot be reached from this machine: then who
    writes to topics that are hidden is not stopped, in words for people.
    """
    found: set[str] = set()
    untold: list[str] = []
    for each in (one for one in settings.enabled_flows if one.flow.source == alias):
        target = each.flow.target
        try:
            with closing(FlowLog(settings.clusters[target].client, state_topic(alias), alias=target)) as log:
                found |= {source.topic for source in log.observe().positions}
        except NeverRun:
            continue
        except (KafkaProblem, UnsupportedSetting, OSError) as problem:
            which = f"producers of topics that {alias} does not show and {target} has copied"
            untold.append(f"{which}, of which {target} does not tell: {problem}")
    return frozenset(found), tuple(untold)


def _unseen(cluster: Cluster, names: Collection[str]) -> tuple[str, ...]:
    """Return the topics among these that a cluster does not show."""
    return tuple(sorted(cluster.topics(names).problems)) if names else ()


def _meant(
    settings: MirrorSettings, alias: str, topics: Iterable[str], selects: Callable[[str], bool]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the topics that are to stay open, with the reason, and those that are to be denied."""
    own = own_topics(settings, alias)
    reasons = {
        topic: own(topic) if selects(topic) else "it is not among the topics that are meant" for topic in sorted(topics)
    }
    left_open = {topic: why for topic, why in reasons.items() if why is not None}
    return left_open, tuple(topic for topic in reasons if topic not in left_open)


def apply_fence(plan: FencePlan, settings: MirrorSettings, path: Path, *, quiet_seconds: float = 3.0) -> Fenced:
    """Put the fence on record at ``path``, then do what it says, and look whether anything is written after that.

    ``quiet_seconds``: for so long no end offset is to move.

    Raises
    ------
    ClusterError
        if the cluster does not answer; what is on record can be taken up, and lifted.
    ConfigError
        if it cannot be put on record; nothing was changed then.
    """
    record = plan.record
    with Cluster.connect(settings.clusters[record.cluster]) as cluster:
        _of_this(record, cluster, path)
        if not plan.is_taken_up:
            record.save(path)
        problems = _change(cluster, record)
        if problems:
            return Fenced(plan, tuple(problems))
        try:
            wait_until(
                lambda: _is_in_force(cluster, record), "the brokers to know of it", timeout_seconds=_SPREAD_SECONDS
            )
        except WaitTimeout as late:
            return Fenced(plan, (str(late),))
        partitions, hidden = _partitions(cluster, plan, settings, plan.fenced)
    watched = watch(
        settings.clusters[record.cluster],
        partitions,
        quiet_seconds=quiet_seconds,
        most_seconds=quiet_seconds + _MOST_WAIT_SECONDS,
    )
    return Fenced(plan, (), replace(watched, lacking=hidden))


def watch_fenced(plan: FencePlan, settings: MirrorSettings, seconds: float) -> Watched:
    """Watch for so long who writes to what a plan would fence, or what is fenced by the record that it was taken from.

    Also to the topics that were created behind that. Flows that are copied to the cluster go on writing under unchanged
    names: they are named, and are not who should write no more.

    Raises
    ------
    ClusterError, ConnectionFailed
        if the cluster does not answer.
    """
    alias = plan.record.cluster
    with Cluster.connect(settings.clusters[alias]) as cluster:
        partitions, hidden = _partitions(cluster, plan, settings, (*plan.fenced, *plan.created_since, *plan.unseen))
    if not partitions:
        return Watched(lacking=f"{alias} lists no topic that is watched: grant Describe on the topics")
    found = replace(watch_for(settings.clusters[alias], partitions, seconds), lacking=hidden)
    if not found.written:
        return found
    try:
        return replace(found, mirrors=mirrors_of(settings, alias))
    except KafkaProblem as problem:
        untold = f"whether a flow of the file is among them is not known: {problem}"
        return replace(found, lacking="; ".join(filter(None, (hidden, untold))))


def _partitions(
    cluster: Cluster, plan: FencePlan, settings: MirrorSettings, names: Collection[str]
) -> tuple[list[TopicPartition], str | None]:
    """Return the partitions of these topics, which nobody should write to, and which of the topics are not shown.

    Where producers are only held back they are those of all topics but those to which mirrors must go on writing.
    """
    own = own_topics(settings, cluster.alias)
    topics = cluster.topics() if plan.by_quotas else cluster.topics(names)
    partitions = [
        TopicPartition(name, each.partition)
        for name, one in topics.items()
        if not plan.by_quotas or own(name) is None
        for each in one.partitions
    ]
    return partitions, _hidden(cluster.alias, sorted(topics.problems)) if topics.problems else None


def _hidden(alias: str, topics: Sequence[str]) -> str:
    return (
        f"{counted(len(topics), 'topic')} of {alias} not shown, such as {topics[0]}, so nobody knows whether anything "
        "is written there: grant Describe on the topics"
    )


def lift_fence(settings: MirrorSettings, alias: str, path: Path) -> Lifted:
    """Take back what the record at ``path`` says that a fence has added, and nothing else; the file goes last.

    Raises
    ------
    ClusterError
        if the cluster does not answer; it can be lifted again.
    ConfigError
        if there is no such record, or it is of another cluster.
    """
    with Cluster.connect(settings.clusters[alias]) as cluster:
        record = _of_this(FenceRecord.load(path), cluster, path)
        problems = [f"{acl}: {why}" for acl, why in delete_acls(cluster, record.acls).items() if why is not None]
        back, left = _quotas_to_put_back(record, client_quotas(cluster) if record.quotas else {})
        problems += [f"{key}: {why}" for key, why in alter_client_quotas(cluster, back).items() if why is not None]
        if not problems:
            with suppress(WaitTimeout):
                wait_until(
                    lambda: not _is_left(cluster, record), "the brokers to know", timeout_seconds=_SPREAD_SECONDS
                )
            if _is_left(cluster, record):
                problems.append("some of what was taken back is still listed: lift it again")
    if not problems:
        path.unlink()
    put_back = (
        *map(str, record.acls),
        *(f"{key}: {'none' if value is None else value}" for key, value in back.items()),
    )
    return Lifted(record, put_back, left, tuple(problems))


def denial(topic: str) -> Acl:
    """Return the ACL that keeps everybody from writing to a topic."""
    literal = Resource.TOPIC, Pattern.LITERAL, topic
    return Acl(*literal, EVERYBODY, EVERY_NAME, Operation.WRITE, Permission.DENY)


def is_denied(topic: str, acls: Iterable[Acl]) -> bool:
    """Whether one of the ACLs keeps everybody from writing to a topic already."""
    return any(acl.is_fence and _is_about(acl, topic) for acl in acls)


def bare_topics_warning(topics: Collection[str], acls: Collection[Acl]) -> tuple[str, ...]:
    """Say what a denial does to topics that no ACL is about, if there are any: brokers may let everybody use those."""
    of_topics = [acl for acl in acls if acl.resource is Resource.TOPIC]
    bare = [topic for topic in topics if not any(_is_about(acl, topic) for acl in of_topics)]
    if not bare:
        return ()
    message = (
        f"{counted(len(bare), 'topic')} without any ACL, such as {bare[0]}: where brokers let everybody use those "
        "(allow.everyone.if.no.acl.found), nobody but super users can read them either until it is lifted"
    )
    return (message,)


def _is_about(acl: Acl, topic: str) -> bool:
    return acl.is_wildcard or (topic.startswith(acl.name) if acl.pattern is Pattern.PREFIXED else acl.name == topic)


def planned_quotas(present: Mapping[QuotaKey, float]) -> dict[QuotaKey, QuotaChange]:
    """Return the limits that hold producers back: for everybody without one, and for all who have one of their own."""
    every = QuotaKey(_EVERY_CLIENT, _RATE)
    own = (key for key in present if key.limit == _RATE and {kind for kind, _ in key.entity} <= _KINDS)
    return {key: QuotaChange(present.get(key), _FENCED_RATE) for key in sorted({every, *own}, key=str)}


def own_topics(settings: MirrorSettings, alias: str) -> Any:
    """Return what says of a topic of a cluster why mirrors must go on writing to it; None if they need not."""
    into = [flow for flow in settings.flows if flow.flow.target == alias]
    out = [flow for flow in settings.flows if flow.flow.source == alias]
    side = {
        name
        for flow in into
        for name in (
            state_topic(flow.flow.source),
            parked_topic(flow.flow.source),
            flow.checkpoints_topic,
            flow.offset_storage_topic,
            flow.config_storage_topic,
        )
    } | {flow.offset_syncs_topic for flow in (*into, *out)}

    def why(topic: str) -> str | None:
        if topic in side or any(flow.policy.is_mm2_internal_topic(topic) for flow in (*into, *out)):
            return "mirrors keep their own records there"
        if any(flow.policy.is_heartbeats_topic(topic) for flow in (*into, *out)):
            return "heartbeats are written there"
        if any(_is_copy(flow, topic) for flow in into):
            return "it is a copy, which mirrors alone write to"
        return None

    return why


def _is_copy(flow: FlowSettings, topic: str) -> bool:
    return flow.policy.can_detect_cycles and flow.policy.topic_source(topic) == flow.flow.source


def _warnings(
    settings: MirrorSettings, alias: str, names: Collection[str] = (), *, is_all: bool = False
) -> tuple[str, ...]:
    """Say which flows write to what is to be fenced."""
    messages = []
    for flow in settings.enabled_flows:
        if flow.flow.target == alias and (
            is_all or any(flow.replicates(name) for name in names if _shares(flow, name))
        ):
            messages.append(f"{flow.flow} writes to what is fenced, and stands still until it is lifted")
        elif flow.flow.source == alias and is_all and flow.offset_syncs_location == "source":
            messages.append(f"{flow.flow} writes its offset syncs there; they are late until it is lifted")
    return tuple(messages)


def _shares(flow: FlowSettings, name: str) -> bool:
    """Whether the copy of a topic has its name."""
    return flow.copy_of(name) == name


def _of_this(record: FenceRecord, cluster: Cluster, path: Path) -> FenceRecord:
    if record.cluster_id != cluster.cluster_id:
        raise ConfigError(
            path,
            None,
            None,
            f"is the record of a fence of the cluster {record.cluster_id} ({record.cluster}), and {cluster.alias} is "
            f"{cluster.cluster_id}",
        )
    return record


def _change(cluster: Cluster, record: FenceRecord) -> list[str]:
    problems = [f"{acl}: {why}" for acl, why in create_acls(cluster, record.acls).items() if why is not None]
    if record.quotas:
        changed = alter_client_quotas(cluster, {key: each.fenced for key, each in record.quotas.items()})
        problems += [f"{key}: {why}" for key, why in changed.items() if why is not None]
    return problems


def _is_in_force(cluster: Cluster, record: FenceRecord) -> bool:
    if record.acls:
        listing = describe_acls(cluster, [Resource.TOPIC])
        if isinstance(listing, NoAuthorizer) or not {*record.acls} <= listing.acls:
            return False
    if record.quotas:
        present = client_quotas(cluster)
        return all(present.get(key) == each.fenced for key, each in record.quotas.items())
    return True


def _is_left(cluster: Cluster, record: FenceRecord) -> bool:
    if not record.acls:
        return False
    listing = describe_acls(cluster, [Resource.TOPIC])
    return not isinstance(listing, NoAuthorizer) and bool({*record.acls} & listing.acls)


def _quotas_to_put_back(
    record: FenceRecord, present: Mapping[QuotaKey, float]
) -> tuple[dict[QuotaKey, float | None], tuple[str, ...]]:
    """Return the limits as they were, of those that are still as the fence has set them; the others are named."""
    back: dict[QuotaKey, float | None] = {}
    left: list[str] = []
    for key, each in record.quotas.items():
        now = present.get(key)
        if now == each.fenced:
            back[key] = each.before
        elif now != each.before:
            left.append(f"{key} is {now} by now, and stays so: somebody has changed it since")
    return back, tuple(left)
