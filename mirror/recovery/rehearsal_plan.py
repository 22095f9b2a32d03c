"""Planning a test failover: which groups are tried, where each would go on, and what that would cost. Only reads."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.checkpoints import remote_partition
from mirror.control.flow_log import FlowLog
from mirror.control.flows_into import hidden_notes
from mirror.control.group_view import TranslatedPosition, checkpoints_on_record, is_moved, view_groups
from mirror.control.unknown_positions import unknown_positions
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.copy_map import CopyMap
from mirror.model.counts import are, counted
from mirror.model.flow_state import FlowState
from mirror.model.gap import COPIED_ONCE_MORE
from mirror.model.group_pattern import no_group
from mirror.model.partition import TopicPartition
from mirror.model.shadow import (
    SHADOW_PREFIX,
    Forecast,
    Processed,
    ShadowPartition,
    TakenFrom,
    is_shadow,
    processed,
    shadow_name,
)
from mirror.model.state_record import state_topic
from mirror.model.translation import Bounded, NothingRead, NotMirrored, TooOld, describe
from mirror.recovery.shadow_groups import find_shadows


@dataclass(frozen=True, slots=True)
class RehearsalPlan:
    """What a test failover will do.

    Attributes
    ----------
    stamp
        names the rehearsal, and is part of its shadow groups' names.
    partitions
        of all groups, in order.
    rights
        what whoever runs it must be allowed to do, in words.
    unknown_positions
        groups that could not be looked at, with the reason: nothing is proven of them.
    notes
        what else there is to know before it begins.
    """

    settings: FlowSettings
    stamp: str
    taken_from: TakenFrom
    partitions: tuple[ShadowPartition, ...]
    rights: tuple[str, ...]
    unknown_positions: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in order."""
        return tuple(dict.fromkeys(each.group for each in self.partitions))

    @property
    def is_in_order(self) -> bool:
        """Whether there is something to try, all of it can be tried, and the forecast is that no record is skipped."""
        tried = all(each.is_tried and not (each.forecast and each.forecast.skipped) for each in self.partitions)
        return bool(self.partitions) and tried and not self.unknown_positions

    @property
    def shadows(self) -> dict[str, str]:
        """The shadow groups to be made, by group."""
        tried = dict.fromkeys(each.group for each in self.partitions if each.is_tried)
        return {group: shadow_name(self.stamp, group) for group in tried}


class CopyMaps:
    """The offset maps of a flow, and of the opposite one for groups that return to the original."""

    def __init__(self, everything: MirrorSettings, settings: FlowSettings, *, has_opposite: bool) -> None:
        """Follow the state topics; nothing is known before :meth:`refresh`."""
        flow, clusters = settings.flow, everything.clusters
        self._settings = settings
        self._forward = FlowLog(clusters[flow.target].client, state_topic(flow.source), alias=flow.target)
        self._opposite = (
            FlowLog(clusters[flow.source].client, state_topic(flow.target), alias=flow.source) if has_opposite else None
        )

    def refresh(self) -> FlowState:
        """Take in what is new; return the state of the flow."""
        if self._opposite is not None:
            self._opposite.poll()
        return self._forward.poll()

    def of(self, source: TopicPartition) -> CopyMap | None:
        """Return what is known of the copies of a source partition."""
        if returns(source, self._settings):
            original = remote_partition(source, self._settings)
            back = self._opposite.offset_map(original) if self._opposite else None
            return CopyMap(back, is_return=True) if back else None
        forward = self._forward.offset_map(source)
        return CopyMap(forward) if forward else None

    def close(self) -> None:
        """Close the connections."""
        self._forward.close()
        if self._opposite is not None:
            self._opposite.close()


def returns(source: TopicPartition, settings: FlowSettings) -> bool:
    """Tell whether a topic on the source is itself the copy of one on the target (CKP-07)."""
    return settings.policy.topic_source(source.topic) == settings.flow.target


def new_stamp() -> str:
    """Return a name for a rehearsal that begins now: the time, and some letters to tell it from others."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def plan_rehearsal(
    everything: MirrorSettings,
    settings: FlowSettings,
    *,
    pattern: str = ".*",
    taken_from: TakenFrom = TakenFrom.CHECKPOINTS,
) -> RehearsalPlan:
    """Plan a test failover of every group that passes the flow's filters and whose whole id matches ``pattern``.

    Also of those that have a checkpoint and that the source does not list.

    A group's position on the source is read, then the one a failover would use, then again the one on the source: what
    the group had processed by then lies in between.

    Raises
    ------
    ConfigError
        if a flow of the file would carry the shadow groups to another cluster.
    KafkaProblem
        if a cluster does not answer; the source must, too, or there is nothing to compare with.
    """
    _refuse_carriers(everything, settings)
    flow, clusters = settings.flow, everything.clusters
    with Cluster.connect(clusters[flow.source]) as source, Cluster.connect(clusters[flow.target]) as target:
        listed = list(source.groups())
        groups = [
            each.group
            for each in listed
            if each.is_consumer_group and settings.group_filter.matches(each.group) and not is_shadow(each.group)
        ]
        names = [each for each in groups if re.fullmatch(pattern, each)]
        # A list leaves out what may not be seen; asked for by name it is refused.
        known = {group for group, _ in checkpoints_on_record(settings, clusters[flow.target].client)}
        unlisted = known - {each.group for each in listed}
        names += [each for each in sorted(unlisted) if is_moved(each, settings, pattern) and not is_shadow(each)]
        before = source.positions_of_groups(names)
        view = view_groups(settings, clusters, pattern=pattern, ask_source=taken_from is TakenFrom.SOURCE)
        after = source.positions_of_groups(names)
        notes = [] if names else [no_group(pattern, groups, f"on {flow.source}")]
        if taken_from is TakenFrom.SOURCE and view.source_problem:
            notes.append(f"the positions are those of the checkpoints: {view.source_problem}")
        notes += _left_behind((source, target))
        back = source.topics([state_topic(flow.target)])
        notes += hidden_notes(back.problems, flow.source) if names else ()
        has_opposite = bool(back) and settings.policy.can_detect_cycles
        with closing(CopyMaps(everything, settings, has_opposite=has_opposite)) as maps:
            state = maps.refresh()
            planner = _Planner(settings, taken_from, maps, state, source, target)
            partitions = planner.plan(view.positions, before, after)
    unknown = unknown_positions(before, flow.source) or unknown_positions(after, flow.source)
    return RehearsalPlan(
        settings, new_stamp(), taken_from, partitions, _rights(settings), unknown, (*notes, *planner.notes)
    )


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans partition by partition; ``notes`` says what was left out."""

    settings: FlowSettings
    taken_from: TakenFrom
    maps: CopyMaps
    state: FlowState
    source: Cluster
    target: Cluster
    notes: list[str] = field(default_factory=list)

    def plan(
        self,
        view: Iterable[TranslatedPosition],
        before: Mapping[str, Mapping[TopicPartition, GroupPosition]],
        after: Mapping[str, Mapping[TopicPartition, GroupPosition]],
    ) -> tuple[ShadowPartition, ...]:
        translated = {(each.group, TopicPartition(each.topic, each.partition)): each for each in view}
        wanted = sorted(
            {
                (group, source)
                for positions in (before, after)
                for group, of in positions.items()
                for source in of
                if self.settings.topic_filter.matches(source.topic)
                and (self.settings.replicates(source.topic) or returns(source, self.settings))
            }
        )
        sources = {source for _, source in wanted}
        targets = {remote_partition(source, self.settings) for source in sources}
        there = self.target.topics({each.topic for each in targets})
        present = targets.intersection(each for topic in there.values() for each in topic.topic_partitions)
        starts, ends = self.target.offsets(present, "earliest"), self.target.offsets(present, "latest")
        source_starts, source_ends = self.source.offsets(sources, "earliest"), self.source.offsets(sources, "latest")
        # Of one that the source does not show nobody knows.
        without_records = {each for each, end in source_ends.items() if source_starts.get(each) == end}
        planned, empty, unmoved = [], 0, 0
        for group, source in wanted:
            target = remote_partition(source, self.settings)
            one = ShadowPartition(group, source, target, None, None)
            position = translated.get((group, target))
            if source in without_records and target not in ends:
                empty += 1
            elif position is None:
                planned.append(replace(one, refusal="no checkpoint on the target says where the group stands"))
            elif target not in ends or target not in starts:
                why = ends.problems.get(target, "the target has no such partition")
                planned.append(replace(one, upstream=position.upstream, refusal=f"{target}: {why}"))
            elif isinstance(position.translation, NothingRead):
                unmoved += 1
            elif isinstance(position.translation, NotMirrored) and source in without_records:
                empty += 1
            else:
                at = _position(before, group, source), _position(after, group, source)
                planned.append(self._one(one, position, starts[target], ends[target], at))
        if empty:
            self.notes.append(f"{empty} positions on partitions without a record are left out: there is nothing to try")
        if unmoved:
            flow = self.settings.flow
            self.notes.append(
                f"{unmoved} positions are left out: their groups have read nothing on {flow.source} since they were "
                f"put there from {flow.target}, where their own positions count"
            )
        return tuple(planned)

    def _one(
        self,
        one: ShadowPartition,
        translated: TranslatedPosition,
        start: int,
        end: int,
        at: tuple[int | None, int | None],
    ) -> ShadowPartition:
        one = replace(one, upstream=translated.upstream, note=describe(translated.translation))
        if isinstance(translated.translation, TooOld | NotMirrored | NothingRead):
            return replace(one, refusal=f"the group would have no position on the target: {one.note}")
        position = translated.translation.downstream
        if position > end:
            why = f"position {translated.upstream} becomes {position} on the target, whose log ends at {end}"
            return replace(one, position=position, refusal=why, must_fail=True)
        note = one.note if position >= start else f"{one.note}; but the log begins at {start} only"
        behind = translated.translation.behind_records if isinstance(translated.translation, Bounded) else 0
        stands = (
            Processed(translated.upstream, translated.upstream)
            if self.taken_from is TakenFrom.SOURCE
            else processed(at[0], translated.upstream, at[1])
        )
        one = replace(one, position=max(position, start), early_records=behind, processed=stands, note=note)
        return replace(one, forecast=self._forecast(one))

    def _forecast(self, one: ShadowPartition) -> Forecast | None:
        copies, stands = self.maps.of(one.source), one.processed
        if copies is None or stands is None or one.upstream is None or one.position is None:
            return None
        first = copies.first_at(one.position)
        begins = one.upstream if first is None else first
        early = one.early_records if first is None else 0
        again = early + copies.copies_between(begins, stands.high)
        # What is not copied yet will be, before the group gets to what is new to it.
        again += max(0, stands.high - max(begins, copies.source_end))
        gaps = (gap for gap in self.state.gaps_of(one.source) if gap.kind not in COPIED_ONCE_MORE)
        gone = sum(max(0, min(gap.end, begins) - max(gap.start, stands.low)) for gap in gaps)
        return Forecast(gone + copies.copies_between(stands.low, begins), again)


def _position(
    positions: Mapping[str, Mapping[TopicPartition, GroupPosition]], group: str, source: TopicPartition
) -> int | None:
    found = positions.get(group, {}).get(source)
    return None if found is None else found.position


def _refuse_carriers(everything: MirrorSettings, settings: FlowSettings) -> None:
    """Refuse where another flow would take the shadow groups' positions along to a third cluster, or back."""
    example = shadow_name(new_stamp(), "group")
    for each in everything.enabled_flows:
        if each.flow.source == settings.flow.target and each.emit_checkpoints and each.group_filter.matches(example):
            raise ConfigError(
                everything.path,
                None,
                f"{each.flow}.groups.exclude",
                f"the flow {each.flow} would carry the positions of shadow groups on: "
                f"let it leave out {re.escape(SHADOW_PREFIX)}.*, as MirrorMaker's default, __.*, does",
            )


def _left_behind(clusters: Iterable[Cluster]) -> list[str]:
    return [
        f"{counted(len(found), 'shadow group')} of other rehearsals {are(len(found))} on "
        f"{cluster.alias}; those left behind go with --clean"
        for cluster in clusters
        if (found := find_shadows(cluster))
    ]


def _rights(settings: FlowSettings) -> tuple[str, ...]:
    source, target = settings.flow.source, settings.flow.target
    return (
        f"on {target}: READ and DELETE on groups whose names begin with {SHADOW_PREFIX}",
        f"on {target}: READ on the copies, on {state_topic(source)} and on {settings.checkpoints_topic}",
        f"on {target}: DESCRIBE on the groups that are tried, and DESCRIBE on the cluster, to list groups",
        f"on {source}: READ on the topics; DESCRIBE on the groups and on the cluster, to list groups",
    )
