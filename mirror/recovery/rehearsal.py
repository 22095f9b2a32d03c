"""A test failover that disturbs nobody: shadow groups are made on the target, read from, judged and deleted.

The flow goes on meanwhile, and so do the groups; nothing is written anywhere but the positions of the shadow groups.

Invariants:

(a) A test failover takes positions between two looks at the source. A group that moves is judged against that
    interval; what it would skip is judged against the position that was taken.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass

from mirror.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror.kafka.answers import ItemResult
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.kafka.group_reader import ReadGoal, ReadLimits, read_as_group
from mirror.kafka.log import read_records
from mirror.kafka.problems import KafkaProblem
from mirror.model.absences import absences
from mirror.model.copy_map import CopyMap
from mirror.model.flow_state import FlowState
from mirror.model.ledger import digest, encode_content
from mirror.model.partition import TopicPartition
from mirror.model.progress import Watch, nobody
from mirror.model.shadow import Handed, Seen, ShadowPartition, SourceWindow, TriedPartition, judge
from mirror.model.verdict import Verdict, worst
from mirror.recovery.rehearsal_plan import CopyMaps, RehearsalPlan, returns
from mirror.recovery.shadow_groups import create_shadows, delete_shadows, find_shadows
from mirror.recovery.unchanged_groups import ChangedGroup, GroupPositionsSeen, compare, see_groups
from mirror.waiting import WaitTimeout, wait_until

_GROUPS_AT_ONCE = 8
_MOST_NAMED = 3
# How far around a position the source is looked at, in offsets; and how much of it at most.
_MARGIN = 50
_WIDEST_WINDOW = 20_000
# A flow puts what it has copied on record about once a second.
_ON_RECORD_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a test failover has shown.

    Attributes
    ----------
    seconds_to_first
        by group, from the start of its reader to the first record; groups that were handed none are left out.
    touched
        of the groups themselves, on both sides, whether they moved meanwhile and by whom.
    deleted
        what became of the shadow groups in the end.
    """

    plan: RehearsalPlan
    partitions: tuple[TriedPartition, ...]
    seconds_to_first: Mapping[str, float]
    touched: tuple[ChangedGroup, ...]
    deleted: tuple[ItemResult, ...]

    @property
    def verdict(self) -> Verdict:
        """Return FAIL if a group would not have gone on where it stopped, UNKNOWN if one could not be tried."""
        verdicts = [each.verdict for each in self.partitions]
        return worst([*verdicts, *([Verdict.UNKNOWN] if self.doubts else ())])

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what keeps the rehearsal as a whole from being proof."""
        found = list(self.plan.unknown_positions)
        found += [f"{each.item}: not deleted: {each.problem}" for each in self.deleted if each.problem]
        for each in self.touched:
            if each.problem:
                found.append(f"group {each.group} on {each.alias} could not be looked at: {each.problem}")
            elif not each.is_explained:
                where = ", ".join(map(str, each.moved))
                found.append(f"group {each.group} on {each.alias} was moved at {where}, not by this rehearsal")
        return tuple(found)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return, for people, what is behind a verdict other than PASS."""
        by_reason: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
        for each in self.partitions:
            if each.verdict is not Verdict.PASS:
                for reason in each.reasons:
                    by_reason[each.plan.group, reason].append(each.plan.target)
        messages = [f"group {group}, {_listed(where)}: {reason}" for (group, reason), where in by_reason.items()]
        if not self.partitions:
            messages.append("no position of any group was tried")
        return (*messages, *self.doubts)


def rehearse(
    everything: MirrorSettings,
    plan: RehearsalPlan,
    limits: ReadLimits | None = None,
    *,
    watch: Watch = nobody,
) -> Rehearsal:
    """Carry a plan out; the shadow groups are deleted in the end, whatever happens.

    Raises
    ------
    KafkaProblem
        if a cluster does not answer.
    """
    limits = limits or ReadLimits()
    settings, clusters = plan.settings, everything.clusters
    with (
        Cluster.connect(clusters[settings.flow.source]) as source,
        Cluster.connect(clusters[settings.flow.target]) as target,
        closing(Channel(settings.flow.source, settings.source_consumer)) as channel,
    ):
        before = see_groups(source, plan.groups), see_groups(target, plan.groups)
        goals = _goals(plan, channel, target, settings)
        try:
            problems = create_shadows(target, plan.stamp, plan.partitions)
            handed = _read_all(plan, problems, goals, clusters[settings.flow.target], limits, watch)
        finally:
            watch("deleting shadow groups", 0, 1)
            deleted = delete_shadows(target, list(plan.shadows.values()))
        watch("deleting shadow groups", 1, 1)
        tried = _judge_all(everything, plan, handed, channel, (source, target), limits, watch)
        touched = _touched(before, (source, target), plan, everything)
    firsts: dict[str, float] = {}
    for (group, _), one in handed.items():
        if one.seconds_to_first is not None:
            firsts[group] = min(one.seconds_to_first, firsts.get(group, one.seconds_to_first))
    return Rehearsal(plan, tried, firsts, touched, deleted)


def clean_up(everything: MirrorSettings, aliases: Collection[str]) -> list[tuple[str, ItemResult]]:
    """Delete the shadow groups that rehearsals left on clusters, by their names; those in use are left.

    Raises
    ------
    ClusterError
        if a cluster does not answer.
    """
    results = []
    for alias in aliases:
        with Cluster.connect(everything.clusters[alias]) as cluster:
            results += [(alias, result) for result in delete_shadows(cluster, find_shadows(cluster))]
    return results


def left_behind(everything: MirrorSettings, aliases: Collection[str]) -> list[tuple[str, str]]:
    """Return the shadow groups there are, each with its cluster."""
    found = []
    for alias in aliases:
        with Cluster.connect(everything.clusters[alias]) as cluster:
            found += [(alias, name) for name in find_shadows(cluster)]
    return found


def _listed(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(map(str, partitions[:_MOST_NAMED]))
    return shown if len(partitions) <= _MOST_NAMED else f"{shown} and {len(partitions) - _MOST_NAMED} others"


def _view(settings: FlowSettings) -> View:
    return View.STABLE if settings.reads_committed else View.VISIBLE


def _goals(
    plan: RehearsalPlan, channel: Channel, target: Cluster, settings: FlowSettings
) -> dict[str, dict[TopicPartition, ReadGoal]]:
    """Return how far each group is to be read: what is there now, and a record more where one must still come."""
    tried = [each for each in plan.partitions if each.is_tried]
    ends = target.offsets({each.target for each in tried}, "latest")
    source_ends = channel.offsets({each.source for each in tried}, LATEST, _view(settings)) if tried else {}
    goals: dict[str, dict[TopicPartition, ReadGoal]] = defaultdict(dict)
    for each in tried:
        assert each.upstream is not None, "what is tried has a position"
        least = int(source_ends[each.source] > each.upstream)
        goals[each.group][each.target] = ReadGoal(ends.get(each.target, 0), least)
    return goals


def _read_all(
    plan: RehearsalPlan,
    problems: Mapping[str, str],
    goals: Mapping[str, Mapping[TopicPartition, ReadGoal]],
    target: ClusterSettings,
    limits: ReadLimits,
    watch: Watch,
) -> dict[tuple[str, TopicPartition], Handed]:
    """Read every shadow group, some at once; an interruption stops them all before it goes on its way."""
    handed = {
        (group, partition): Handed(problem=problem) for group, problem in problems.items() for partition in goals[group]
    }
    wanted = {group: name for group, name in plan.shadows.items() if group not in problems}
    stop, doing, done = threading.Event(), "reading as shadow groups", 0
    watch(doing, done, len(wanted))
    with ThreadPoolExecutor(_GROUPS_AT_ONCE, "shadow") as pool:
        futures: dict[Future[dict[TopicPartition, Handed]], str] = {
            pool.submit(read_as_group, target.client, name, goals[group], limits, stop, alias=target.alias): group
            for group, name in wanted.items()
        }
        try:
            for future in as_completed(futures):
                group, done = futures[future], done + 1
                handed |= {(group, partition): one for partition, one in future.result().items()}
                watch(doing, done, len(wanted))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return handed


def _judge_all(
    everything: MirrorSettings,
    plan: RehearsalPlan,
    handed: Mapping[tuple[str, TopicPartition], Handed],
    channel: Channel,
    clusters: tuple[Cluster, Cluster],
    limits: ReadLimits,
    watch: Watch,
) -> tuple[TriedPartition, ...]:
    doing = "comparing with the source"
    read = {each: handed[each.group, each.target] for each in plan.partitions if each.is_tried}
    with closing(
        CopyMaps(everything, plan.settings, has_opposite=any(returns(each.source, plan.settings) for each in read))
    ) as maps:
        state = _on_record(maps, read)
        compacted = _compacted(clusters, read)
        results = []
        for number, each in enumerate(plan.partitions):
            watch(doing, number, len(plan.partitions))
            one, copies = read.get(each, Handed()), maps.of(each.source)
            results.append(_judge_one(each, one, copies, plan.settings, channel, state, each in compacted, limits))
        watch(doing, len(plan.partitions), len(plan.partitions))
    return tuple(results)


def _on_record(maps: CopyMaps, read: Mapping[ShadowPartition, Handed]) -> FlowState:
    """Wait until the flow has on record what was handed, as far as it comes; return its state."""
    state = maps.refresh()

    def lacking() -> list[ShadowPartition]:
        nonlocal state
        state = maps.refresh()
        return [
            each
            for each, handed in read.items()
            if handed.records
            and ((known := maps.of(each.source)) is None or known.known_end <= handed.records[-1].offset)
        ]

    with suppress(WaitTimeout):  # what is not on record then is told by its contents
        wait_until(
            lacking,
            "the flow to record what it copied",
            timeout_seconds=_ON_RECORD_SECONDS,
            until=lambda some: not some,
        )
    return state


def _compacted(clusters: tuple[Cluster, Cluster], read: Collection[ShadowPartition]) -> set[ShadowPartition]:
    """Return the partitions that either side may compact; where that cannot be known, they count as such."""
    source, target = clusters
    topics = {source: {each.source.topic for each in read}, target: {each.target.topic for each in read}}
    plain: set[tuple[str, str]] = set()
    for cluster, names in topics.items():
        for name, entries in cluster.topic_configs(names).items():
            policy = next((each.value or "" for each in entries if each.name == "cleanup.policy"), "compact")
            if "compact" not in policy:
                plain.add((cluster.alias, name))
    return {
        each for each in read if not {(source.alias, each.source.topic), (target.alias, each.target.topic)} <= plain
    }


def _judge_one(
    plan: ShadowPartition,
    handed: Handed,
    copies: CopyMap | None,
    settings: FlowSettings,
    channel: Channel,
    state: FlowState,
    is_compacted: bool,
    limits: ReadLimits,
) -> TriedPartition:
    origins = copies.origins(seen.offset for seen in handed.records) if copies else {}
    gaps = [(each.start, each.end) for each in absences(state, plan.source)]
    window = SourceWindow(0, 0, (), is_compacted)
    if plan.is_tried:
        try:
            window = _window(plan, origins, settings, channel, is_compacted, limits)
        except (KafkaProblem, ValueError) as problem:
            handed = Handed(handed.records, handed.seconds_to_first, f"the source could not be read: {problem}")
    between = copies.copies_between if copies else lambda start, end: max(0, end - start)
    return judge(plan, handed, window, origins, between, gaps)


def _window(
    plan: ShadowPartition,
    origins: Mapping[int, int | None],
    settings: FlowSettings,
    channel: Channel,
    is_compacted: bool,
    limits: ReadLimits,
) -> SourceWindow:
    """Read the source around the group's position and around what the shadow group was handed."""
    assert plan.upstream is not None, "only what was tried is looked at"
    source = plan.source
    known = [upstream for upstream in origins.values() if upstream is not None]
    first, last = min(known, default=plan.upstream), max(known, default=plan.upstream + limits.records)
    start, end = min(plan.upstream, first) - _MARGIN, max(plan.upstream, last) + 1 + _MARGIN
    if end - start > _WIDEST_WINDOW:
        start, end = first - _MARGIN, last + 1 + _MARGIN
    start = max(start, channel.offsets([source], EARLIEST)[source])
    end = min(end, channel.offsets([source], LATEST, _view(settings))[source])
    committed = settings.reads_committed
    transform = None if returns(source, settings) else settings.transform_of(source.topic)
    seen: list[Seen] = []
    size = 0
    if start < end:
        client = settings.source_consumer
        for record in read_records(client, source, start, end, alias=settings.flow.source, read_committed=committed):
            for made in (record,) if transform is None else transform.apply([record], source.partition).records:
                content = encode_content(made.key, made.value, made.headers)
                seen.append(Seen(record.offset, digest(content)))
                size += len(content)
            if size > 4 * limits.size_bytes:
                end = record.offset + 1
                break
    return SourceWindow(start, end, tuple(seen), is_compacted)


def _touched(
    before: tuple[GroupPositionsSeen, GroupPositionsSeen],
    clusters: tuple[Cluster, Cluster],
    plan: RehearsalPlan,
    everything: MirrorSettings,
) -> tuple[ChangedGroup, ...]:
    found: list[ChangedGroup] = []
    for was, cluster in zip(before, clusters, strict=True):
        synced = any(each.sync_group_offsets and each.flow.target == cluster.alias for each in everything.enabled_flows)
        found += compare(was, see_groups(cluster, plan.groups), synced=synced)
    return tuple(found)
