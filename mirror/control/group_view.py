"""Where each group would go on, on the target: the table of ``mirror offsets``, and the input of a failover.

Positions are read from the source while it answers. When it does not, the checkpoints on the target say where each
group was seen last; they are translated again through the exact offset map.

Invariants:

(a) A group's position is read before the map. The other way round it may be ahead of what is known to be copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.checkpoint_copies import CheckpointCopies
from mirror.control.checkpoints import last_checkpoints, remote_partition
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.control.flows_into import FlowsInto
from mirror.control.group_translator import GroupTranslator, sources_of
from mirror.control.left_out_groups import is_of_tools, left_out_groups
from mirror.control.mesh import MeshTranslator, Thirds
from mirror.control.tick import now_ms
from mirror.control.unknown_positions import GroupPositions, unknown_positions
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupListing, GroupPosition, Topic
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import ClusterError, RequestFailed
from mirror.model.checkpoint import Checkpoint
from mirror.model.group_pattern import no_group
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.state_record import state_topic
from mirror.model.state_values import RunReport
from mirror.model.translation import Bounded, Exact, NotMirrored, Translation, describe


@dataclass(frozen=True, slots=True)
class TranslatedPosition:
    """One group's position on one partition.

    Attributes
    ----------
    topic
        name on the target.
    upstream
        the group's position on the source.
    translation
        what it is on the target, or why that cannot be known.
    metadata
        what the group committed with its position.
    checkpoint_at_ms
        when the last checkpoint of it was written; None if there is none, or nobody asked.
    source
        the partition on the source; None where the checkpoints tell.
    leader_epoch
        of the last record that a reader has committed with it, -1 if it bears none; None where the checkpoints tell.
    is_gone
        whether the flow has dropped all that it knew of the partition: both clusters said that there is neither topic
        nor copy (`mirror.control.gone_topics`), and only a checkpoint is left.
    """

    group: str
    topic: str
    partition: int
    upstream: int
    translation: Translation
    metadata: str = ""
    checkpoint_at_ms: int | None = field(default=None, compare=False)
    source: TopicPartition | None = field(default=None, compare=False)
    leader_epoch: int | None = field(default=None, compare=False)
    is_gone: bool = field(default=False, compare=False)

    @property
    def checkpoint_age_seconds(self) -> float | None:
        """How long ago that was; a checkpoint is written when the position moves, so of an idle group it grows."""
        return None if self.checkpoint_at_ms is None else _age_seconds(self.checkpoint_at_ms)

    @property
    def downstream(self) -> int | None:
        """Return the position on the target, None when there is none."""
        return self.translation.downstream if isinstance(self.translation, Exact | Bounded) else None

    @property
    def behind_records(self) -> int | None:
        """Return how many records it may lie before the exact position; None when there is no position."""
        if isinstance(self.translation, Bounded):
            return self.translation.behind_records
        return 0 if isinstance(self.translation, Exact) else None

    def as_json(self) -> dict[str, Any]:
        """Return the form ``mirror offsets --json`` prints; ``behind_records`` bounds what is read again."""
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "upstream": self.upstream,
            "downstream": self.downstream,
            "exact": isinstance(self.translation, Exact),
            "behind_records": self.behind_records,
            "checkpoint_age_seconds": self.checkpoint_age_seconds,
            "note": describe(self.translation),
        }


@dataclass(frozen=True, slots=True)
class GroupView:
    """The positions of all groups.

    Attributes
    ----------
    source_problem
        why they were read from the checkpoints; None if they were read from the source.
    unknown_positions
        groups and partitions that the source has and whose positions it did not tell, with the reason.
    read
        what the source reported; nothing if it was not asked.
    unmatched
        that no group matches the pattern, in words; None: some do.
    report
        what the engine last said of the flow, as it does while the source is away too; None if none ever has.
    unmirrored
        groups that match whose state no checkpoint holds, and their kind; none if the source was not asked.
    left_out
        groups that match and that the flow leaves out, with its topics that they read; none where nobody asked.
    placed
        where the flow has put groups on the target, by group and partition there.
    copies
        the topics there that the flow has copied to, as far as it has on record; none where only Java has copied.
    hidden_states
        state topics of flows into the source that it does not show, with the reason: where these have put groups that
        have read nothing there since is not known, nor whether they have ever run.
    """

    positions: tuple[TranslatedPosition, ...]
    source_problem: str | None
    unknown_positions: tuple[str, ...] = ()
    read: GroupPositions = field(default_factory=Found)
    unmatched: str | None = None
    report: RunReport | None = None
    unmirrored: Mapping[str, str] = field(default_factory=dict)
    left_out: Found[str, tuple[str, ...]] = field(default_factory=Found)
    placed: Mapping[tuple[str, TopicPartition], Placement] = field(default_factory=dict)
    copies: frozenset[str] = frozenset()
    hidden_states: Mapping[str, str] = field(default_factory=dict)

    @property
    def report_age_seconds(self) -> float | None:
        """How long ago the engine last reported: the newest that checkpoints and copied positions can be."""
        return None if self.report is None else _age_seconds(self.report.at_ms)


def view_groups(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    *,
    pattern: str = ".*",
    ask_source: bool = True,
    flows: Sequence[FlowSettings] = (),
    back: FlowSettings | None = None,
    with_ages: bool = False,
    with_left_out: bool = False,
    log: FlowLog | None = None,
) -> GroupView:
    """Translate the position of every group that passes the flow's filters and whose whole id matches ``pattern``.

    Also of those that have a checkpoint and that the source does not list.

    ``flows`` are all enabled ones of the file: those of other clusters may write to the same topics. ``back`` is the
    flow in the other direction: groups that read its copies go back to the originals, whatever the names of the copies
    are to the topic filter of this flow, which is about what it copies; None: by the topic filter alone. ``with_ages``
    tells how old checkpoints are also where they are not needed, ``with_left_out`` which groups the flow leaves out
    although they read its topics. ``log`` is that of the flow, where somebody follows it; it is not closed.

    Raises
    ------
    KafkaProblem
        if the target does not answer.
    """
    flow = settings.flow
    target_client = clusters[flow.target].client
    own = None if log is not None else FlowLog(target_client, state_topic(flow.source), alias=flow.target)
    log = log or own
    assert log is not None
    into_source = _flows_into_source(flow.source, clusters)
    between = FlowTranslator(log, lambda: into_source.find(flow.target), settings.policy, flow.target)
    thirds = Thirds(settings, flows, clusters[flow.source].client, target_client)
    translator = GroupTranslator(
        between,
        MeshTranslator(between, thirds.of_topic),
        others=sources_of(flow.source, flows, flow.target),
        find=into_source.find,
    )
    try:
        read, listed, others, every, problem = (
            _from_source(settings, clusters, pattern, with_others=with_left_out)
            if ask_source
            else (Found(), [], Found(), set[str](), "it was not asked")
        )
        groups = [each.group for each in listed if each.is_consumer_group]
        last = checkpoints_on_record(settings, target_client) if problem is None else {}
        if problem is None and (unlisted := {group for group, _ in last} - every):
            wanted = [each for each in sorted(unlisted) if is_moved(each, settings, pattern)]
            read = _with(read, _unlisted_positions(wanted, clusters[flow.source]))
        if problem is None:
            # After the positions were read: none is then ahead of what is known to be copied.
            translator.refresh()
            found = [
                _translated(settings, translator, group, source, position)
                for (group, source), position in sorted(
                    _committed(settings, back, read).items(), key=lambda each: each[0]
                )
            ]
            if with_ages and settings.emit_checkpoints:
                found = _with_ages(found, last)
        else:
            log.poll()
            found, groups = _from_checkpoints(settings, target_client, log, CheckpointCopies(between), pattern)
    finally:
        if own is not None:
            own.close()
        translator.close()
        thirds.close()
    where = f"on {flow.source}" if problem is None else f"in the checkpoints on {flow.target}"
    is_matched = any(re.fullmatch(pattern, each) for each in groups)
    unmatched = None if is_matched else no_group(pattern, groups, where)
    unmirrored = {
        each.group: each.unmirrored_kind
        for each in listed
        if each.unmirrored_kind is not None and re.fullmatch(pattern, each.group)
    }
    return GroupView(
        tuple(found),
        problem,
        unknown_positions(read, flow.source),
        read,
        unmatched,
        log.state.run,
        unmirrored,
        left_out_groups(others, settings, lambda topic: _is_copied(topic, settings, back)),
        {(each.group, each.partition): each for each in log.placements()},
        log.copies,
        into_source.hidden,
    )


def _age_seconds(at_ms: int) -> float:
    return max(0, now_ms() - at_ms) / 1000


def _from_source(
    settings: FlowSettings, clusters: Mapping[str, ClusterSettings], pattern: str, *, with_others: bool
) -> tuple[GroupPositions, list[GroupListing], GroupPositions, set[str], str | None]:
    """Return positions of the groups that match, all groups that pass the flow's filters, and why none is reported.

    Before that, ``with_others``, positions of those that match and do not pass, and the ids of all groups. Of groups
    whose state is not mirrored there are no positions.
    """
    try:
        with Cluster.connect(clusters[settings.flow.source], timeout_seconds=5.0) as source:
            every = list(source.groups())
            listed = [each for each in every if settings.group_filter.matches(each.group)]
            asked = [each.group for each in every if each.is_consumer_group and re.fullmatch(pattern, each.group)]
            passing = {each.group for each in listed}
            others = [each for each in asked if with_others and each not in passing and not is_of_tools(each)]
            read = source.positions_of_groups([each for each in asked if each in passing])
            return read, listed, _positions_of_others(others, source), {each.group for each in every}, None
    except ClusterError as problem:
        return Found(), [], Found(), set(), str(problem)


def is_moved(group: str, settings: FlowSettings, pattern: str) -> bool:
    """Tell whether a group whose whole id matches ``pattern`` is moved along a flow; nobody's tools are."""
    matches = settings.group_filter.matches(group) and re.fullmatch(pattern, group) is not None
    return matches and not is_of_tools(group)


def _unlisted_positions(groups: Sequence[str], source: ClusterSettings) -> GroupPositions:
    """Return where groups stand that have checkpoints and that the source does not list, or why it does not tell.

    A list of all groups leaves out what may not be seen, as if it were not there; asked for by name it is refused.
    """
    if not groups:
        return Found()
    try:
        with Cluster.connect(source, timeout_seconds=5.0) as cluster:
            found = cluster.positions_of_groups(groups)
    except ClusterError as problem:
        return Found({}, dict.fromkeys(groups, str(problem)))
    there = {group: positions for group, positions in found.items() if positions or positions.problems}
    return Found(
        there, {group: f"it is not listed, and has a checkpoint: {why}" for group, why in found.problems.items()}
    )


def _with(read: GroupPositions, more: GroupPositions) -> GroupPositions:
    return Found({**read, **more}, {**read.problems, **more.problems})


def _positions_of_others(groups: Sequence[str], source: Cluster) -> GroupPositions:
    """Return the positions of groups that are not moved: that they are not told says nothing of those that are."""
    if not groups:
        return Found()
    try:
        return source.positions_of_groups(groups)
    except ClusterError as problem:
        return Found({}, dict.fromkeys(groups, str(problem)))


def _committed(
    settings: FlowSettings, back: FlowSettings | None, read: GroupPositions
) -> dict[tuple[str, TopicPartition], GroupPosition]:
    return {
        (group, partition): position
        for group, positions in read.items()
        for partition, position in positions.items()
        if settings.topic_filter.matches(partition.topic)
        or (back is not None and _returns(partition.topic, settings, back))
    }


def _is_copied(topic: str, settings: FlowSettings, back: FlowSettings | None) -> bool:
    """Tell whether who reads a topic of the source goes on by what this flow knows; heartbeats are read by nobody."""
    if settings.policy.is_heartbeats_topic(topic):
        return False
    return settings.replicates(topic) or (back is not None and _returns(topic, settings, back))


def _returns(topic: str, settings: FlowSettings, back: FlowSettings) -> bool:
    """Tell whether a topic of the source is a copy that the flow in the other direction makes (CKP-07)."""
    policy = settings.policy
    return policy.topic_source(topic) == settings.flow.target and back.replicates(policy.original_topic(topic))


def _flows_into_source(alias: str, clusters: Mapping[str, ClusterSettings]) -> FlowsInto:
    def topics(names: Sequence[str]) -> Found[str, Topic]:
        with Cluster.connect(clusters[alias]) as source:
            return source.topics(names)

    return FlowsInto(alias, clusters[alias].client, topics)


def _translated(
    settings: FlowSettings,
    translator: GroupTranslator,
    group: str,
    source: TopicPartition,
    found: GroupPosition,
) -> TranslatedPosition:
    return TranslatedPosition(
        group,
        *remote_partition(source, settings),
        found.position,
        translator.translate(group, source, found.position),
        found.metadata,
        source=source,
        leader_epoch=found.leader_epoch,
    )


def checkpoints_on_record(
    settings: FlowSettings, target_client: Mapping[str, str]
) -> Mapping[tuple[str, TopicPartition], Checkpoint]:
    """Return the last checkpoints; none where there are none yet, or they may not be read."""
    tail = LogTail(target_client, settings.checkpoints_topic, alias=settings.flow.target)
    try:
        return last_checkpoints(tail.poll() if tail.exists() else ())
    except RequestFailed:
        return {}
    finally:
        tail.close()


def _with_ages(
    positions: Sequence[TranslatedPosition], last: Mapping[tuple[str, TopicPartition], Checkpoint]
) -> list[TranslatedPosition]:
    return [
        replace(each, checkpoint_at_ms=checkpoint.at_ms if checkpoint else None)
        for each in positions
        for checkpoint in (last.get((each.group, TopicPartition(each.topic, each.partition))),)
    ]


def _from_checkpoints(
    settings: FlowSettings, target_client: Mapping[str, str], log: FlowLog, copies: CheckpointCopies, pattern: str
) -> tuple[list[TranslatedPosition], list[str]]:
    """Return where the groups that match go on, and all groups that have checkpoints and pass the flow's filters."""
    with closing(LogTail(target_client, settings.checkpoints_topic, alias=settings.flow.target)) as tail:
        # No engine has written one yet, or the file has it write none: then nobody can tell where groups stand.
        checkpoints = last_checkpoints(tail.poll() if tail.exists() else ())
    sources, loss = {remote_partition(source, settings): source for source in log.state.positions}, log.state.loss
    found = []
    groups = sorted({group for group, _ in checkpoints if settings.group_filter.matches(group)})
    chosen = {each for each in groups if re.fullmatch(pattern, each)}
    for (group, target), checkpoint in sorted(checkpoints.items()):
        if group not in chosen:
            continue
        source = sources.get(target)
        known = log.offset_map(source) if source else None
        translation = translate_again(checkpoint, known, copies, shares=not settings.policy.can_detect_cycles)
        content = checkpoint.metadata, checkpoint.at_ms
        # Where nothing at all is on record the state is lost, and nobody knows what is gone; nor of what was seen last
        # before a loss, for its position may be what was lost.
        is_known_since = loss is None or (checkpoint.at_ms is not None and checkpoint.at_ms > loss.at_ms)
        is_gone = source is None and bool(sources) and is_known_since
        found.append(TranslatedPosition(group, *target, checkpoint.upstream, translation, *content, is_gone=is_gone))
    return found, groups


def translate_again(
    checkpoint: Checkpoint, known: OffsetMap | None, copies: CheckpointCopies, *, shares: bool
) -> Translation:
    """Return where a group goes on by its last checkpoint and what has been copied since.

    Parameters
    ----------
    known
        the offset map of the partition; None if there is none.
    shares
        whether the topic may hold records of the target itself.
    """
    checkpointed = checkpoint.downstream
    if not copies.is_current(checkpoint):
        lowered = copies.lowered(checkpoint)
        if lowered is None or known is None:
            return NotMirrored()
        return Bounded(lowered.downstream, max(0, known.downstream_next - lowered.downstream))
    if known is None:
        return Bounded(checkpointed, 0)
    again = known.translate(checkpoint.upstream)
    if not isinstance(again, Exact | Bounded):
        return Bounded(checkpointed, 0)
    # Of what the target has from before the source was created anew, or of its own, it may not have read the rest.
    if again.downstream > checkpointed and (shares or _began_behind(known, checkpointed)):
        return Bounded(checkpointed, again.downstream - checkpointed)
    return again


def _began_behind(known: OffsetMap, position: int) -> bool:
    begin = known.translate(known.origin)
    return isinstance(begin, Exact | Bounded) and position < begin.downstream
