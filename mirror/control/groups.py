"""Group positions on the target: written from checkpoints, never into a group with members, never backwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.kafka.log import LogWriter
from mirror.model.checkpoint import Checkpoint
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.state_record import PLACEMENT_KEY, StateRecord, stamped, state_topic
from mirror.model.state_values import no_placement_record, placement_record

# Puts records into the state topic of the flow, acknowledged.
Recorder: TypeAlias = Callable[[Sequence[StateRecord]], None]


# What a broker says when a position is written for a group with members.
_HAS_MEMBERS = "UNKNOWN_MEMBER_ID"
_NOT_ASKED = "it was not asked for"


class GroupAction(StrEnum):
    """What is done with one checkpointed position of a group on the target."""

    WRITE = "write"
    KEEP = "already there"
    SKIP_ACTIVE = "skip: active"
    SKIP_REWIND = "skip: would rewind"
    SKIP_SET_BACK = "skip: was set back"
    SKIP_ABSENT = "skip: no such partition"
    SKIP_BEYOND_END = "skip: beyond the end"
    SKIP_UNKNOWN = "skip: unknown"


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What is done with one checkpointed position, and why.

    Attributes
    ----------
    present
        the group's position on the target now, with its text; None if it has none or it is not known.
    wanted
        the position, with its text, that the checkpoint gives.
    placement, placed_before
        what is put on record if it is written, and what was on record.
    """

    group: str
    partition: TopicPartition
    present: GroupPosition | None
    wanted: GroupPosition
    action: GroupAction
    reason: str
    placement: Placement
    placed_before: Placement | None = None

    @property
    def is_problem(self) -> bool:
        """Whether something has to be looked at: what must be known before writing could not be read."""
        return self.action in (GroupAction.SKIP_UNKNOWN, GroupAction.SKIP_BEYOND_END)


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """What came of writing a position that was decided on; without a ``problem`` it is there."""

    decision: GroupDecision
    problem: str | None


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """What must be known of the target before positions are written there.

    Attributes
    ----------
    states
        of the checkpointed groups.
    positions
        of those groups that have no members.
    ends
        the end offsets of those checkpointed partitions that exist.
    starts
        and their start offsets.
    topic_ids
        the ids of the topics that exist.
    placed
        where the flow has put groups; what a group was given once it is not given again when it was set back since.
    """

    states: Found[str, GroupDescription]
    positions: Found[str, Found[TopicPartition, GroupPosition]]
    ends: Found[TopicPartition, int]
    starts: Found[TopicPartition, int] = field(default_factory=Found)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    placed: Mapping[tuple[str, TopicPartition], Placement] = field(default_factory=dict)


def plan_group_writes(checkpoints: Iterable[Checkpoint], target: TargetGroups) -> tuple[GroupDecision, ...]:
    """Return for every checkpoint whether its position is written on the target, and why (GOS-02).

    Stricter than MirrorMaker 2, which writes whenever it could not find out about a group (GOS-03, GOS-04): what is
    not known is not written over. A group with members is left alone, and none is written beyond the end of the log,
    where readers would start over. One before its start, where they would start over too or pass everything, is raised
    to it: what was there is gone on the target.

    A position never goes back (GOS-05), but from beyond the end of the log: nothing was read there. A group that was
    set back on the target, after it was put where the checkpoint says, stays there until it has read on the source. One
    that still stands where it did before it was to be put there was not set back: the position was not written.
    """
    return tuple(
        _decide(checkpoint, target)
        for checkpoint in sorted(checkpoints, key=lambda each: (each.group, each.topic_partition))
    )


def apply_group_writes(
    decisions: Sequence[GroupDecision],
    target: Cluster,
    record: Recorder,
    before: Callable[[], None] = lambda: None,
) -> tuple[GroupWrite, ...]:
    """Write the positions decided on; the broker refuses those of a group to which members came meanwhile (GOS-09).

    That they are put there goes on record first, so that whoever reads such a position can tell that the group has not
    read up to it, and once more when it is there. What members have prevented is taken off the record; what else went
    wrong may have been done, and stays pending.

    ``before`` is called right before each request; what it raises keeps that, and all behind it, from being sent.
    """
    by_group: dict[str, dict[TopicPartition, GroupDecision]] = defaultdict(dict)
    for decision in decisions:
        if decision.action is GroupAction.WRITE:
            by_group[decision.group][decision.partition] = decision
    if by_group:
        record([placement_record(_pending(each)) for of_group in by_group.values() for each in of_group.values()])
    results = target.write_positions_of_groups(
        {group: {each: of_group[each].wanted for each in of_group} for group, of_group in by_group.items()},
        before,
    )
    writes = []
    for group, of_group in by_group.items():
        problems = {result.item: result.problem for result in results[group]}
        writes += [GroupWrite(each, problems[str(partition)]) for partition, each in of_group.items()]
    undone = [
        placement_record(each.decision.placed_before)
        if each.decision.placed_before
        else no_placement_record(each.decision.placement)
        for each in writes
        if each.problem is not None and _HAS_MEMBERS in each.problem
    ]
    if known := [placement_record(each.decision.placement) for each in writes if each.problem is None] + undone:
        record(known)
    return tuple(writes)


def found_there(decisions: Iterable[GroupDecision]) -> list[StateRecord]:
    """Return what is to go on record of groups that stand where they should.

    Pending ones were put there. So was one behind what it has not read, of which nothing is on record any more since
    the state topic was lost: the flow back would take it for read.
    """
    found = []
    for each in decisions:
        placed = each.placed_before
        if each.action is not GroupAction.KEEP:
            continue
        if placed is None and each.placement.is_raised:
            found.append(placement_record(each.placement))
        elif placed is not None and placed.before is not None and placed.written == each.wanted.position:
            found.append(placement_record(placed.answered))
    return found


def _pending(decision: GroupDecision) -> Placement:
    present = decision.present.position if decision.present is not None else None
    return decision.placement.pending(present, decision.placed_before)


def recorder(settings: FlowSettings, writer: LogWriter, clock: Clock = now_ms, *, term: int | None = None) -> Recorder:
    """Return who puts records into the state topic of a flow, by a writer to its target.

    ``term``: in which an engine says it that leads the flow; None: it is somebody else who does.
    """

    def record(records: Sequence[StateRecord]) -> None:
        writer.append(state_topic(settings.flow.source), 0, stamped(records, term, clock()))

    return record


def follow_log(flow: Flow, log: FlowLog, record: Recorder) -> TickReport:
    """Take in what the state topic says, and write again where groups were put that was written over.

    To be called in the thread that puts groups somewhere: from another one it could come behind a newer placement.
    """

    def follow(_: int) -> tuple[int, Sequence[str]]:
        state = log.poll()
        if lacking := sorted(key for key in state.overwritten if key.startswith(PLACEMENT_KEY)):
            record([state.record_of(key) for key in lacking])
        return 1, ()

    return run_tick(f"upkeep {flow}", now_ms, follow)


def read_target_groups(checkpoints: Sequence[Checkpoint], target: Cluster) -> TargetGroups:
    """Read what `plan_group_writes` needs to know of the target."""
    states = target.describe_groups({checkpoint.group for checkpoint in checkpoints})
    idle = [group for group, state in states.items() if not state.is_active]
    partitions = {checkpoint.topic_partition for checkpoint in checkpoints}
    topics = target.topics({partition.topic for partition in partitions})
    present = partitions.intersection(each for topic in topics.values() for each in topic.topic_partitions)
    return TargetGroups(
        states,
        target.positions_of_groups(idle),
        target.offsets(present, "latest"),
        target.offsets(present, "earliest"),
        {name: topic.topic_id for name, topic in topics.items()},
    )


class GroupOffsetsTick:
    """Keeps the positions of idle groups on the target in step with the checkpoints (``sync.group.offsets``).

    ``decisions`` are those of the last round that got so far.
    """

    about = "group offsets"

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        checkpoints: Callable[[], Iterable[Checkpoint]],
        record: Recorder,
        log: FlowLog,
        clock: Clock = now_ms,
        *,
        before_writing: Callable[[], None] = lambda: None,
        flows: Iterable[FlowSettings] = (),
    ) -> None:
        """Move groups on ``target``; ``before_writing`` is called before each request, and may keep it from it.

        ``flows`` are all of the file: others that copy into the same partitions put groups there too.
        """
        self._before_writing = before_writing
        ours = settings.flow
        self._others = [each for each in flows if each.flow.target == ours.target and each.flow != ours]
        self._settings = settings
        self._target = target
        self._checkpoints = checkpoints
        self._record = record
        self._log = log
        self._clock = clock
        self.decisions: tuple[GroupDecision, ...] = ()

    def tick(self) -> TickReport:
        """Run one round; groups that cannot be read are problems and left alone until the next round."""
        return run_tick(f"{self.about} {self._settings.flow}", self._clock, self._round)

    def _round(self, _: int) -> tuple[int, tuple[str, ...]]:
        checkpoints = [each for each in self._checkpoints() if self._settings.group_filter.matches(each.group)]
        target = read_target_groups(checkpoints, self._target)
        self._log.poll()
        # The copy may have been created anew before its ends were read: those of the one before are none any more.
        still = set(self._checkpoints())
        checkpoints = [each for each in checkpoints if each in still]
        placed = {(each.group, each.partition): each for each in self._log.placements()}
        self.decisions = plan_group_writes(checkpoints, replace(target, placed=placed))
        if found := found_there(self.decisions):
            self._record(found)
        writes = apply_group_writes(self.decisions, self._target, self._record, self._before_writing)
        failures = [
            f"writing on {self._target.alias} the position of group {each.decision.group} at "
            f"{each.decision.partition}: {each.problem}"
            for each in writes
            if each.problem is not None
        ]
        skipped = [
            f"group {each.group} on {self._target.alias}, {each.partition}: {each.reason}"
            for each in self.decisions
            if each.is_problem
        ]
        return len(writes) - len(failures), (*skipped, *self._passed(), *failures)

    def _passed(self) -> list[str]:
        """Return which groups stand behind copies of this flow that nobody has read, put there by another flow.

        Positions never go back, so that of this flow is not written. A reader has committed a leader epoch (KIP-320).
        """
        found = []
        for each in self.decisions if self._others else ():
            present, placed = each.present, each.placed_before
            if each.action is not GroupAction.SKIP_REWIND or present is None or present.leader_epoch >= 0:
                continue
            if placed is not None and any(put.written == present.position for put in placed.possible):
                # The group was set back on the source.
                continue
            source = self._log.source_of(each.partition)
            known = self._log.offset_map(source) if source is not None else None
            if source is None or known is None or not (others := self._others_into(source, each.partition)):
                continue
            if unread := known.runs.copies_between(each.wanted.position, present.position):
                found.append(
                    f"group {each.group} on {self._target.alias} stands at {present.position} of {each.partition}, "
                    f"where no reader has committed it, and by {self._settings.flow} it goes on at "
                    f"{each.wanted.position}: {counted(unread, 'record')} of {source} on {self._settings.flow.source} "
                    f"between them would not be read. {', '.join(others)} copies there too, and positions never go back"
                )
        return found

    def _others_into(self, source: TopicPartition, copy: TopicPartition) -> list[str]:
        return [
            str(each.flow)
            for each in self._others
            if each.copy_of(source.topic) == copy.topic and each.replicates(source.topic)
        ]


def _decide(checkpoint: Checkpoint, target: TargetGroups) -> GroupDecision:
    group, partition = checkpoint.group, checkpoint.topic_partition
    start = target.starts.get(partition, 0)
    wanted = GroupPosition(max(checkpoint.downstream, start), checkpoint.metadata)

    placement = Placement(
        group,
        partition,
        checkpoint.upstream,
        checkpoint.downstream,
        wanted.position,
        target.topic_ids.get(partition.topic, ""),
    )
    placed = target.placed.get((group, partition))

    def decision(action: GroupAction, reason: str, committed: GroupPosition | None = None) -> GroupDecision:
        return GroupDecision(group, partition, committed, wanted, action, reason, placement, placed)

    state = target.states.get(group)
    if state is None:
        why = target.states.problems.get(group, _NOT_ASKED)
        return decision(GroupAction.SKIP_UNKNOWN, f"the state of the group is not known: {why}")
    if state.is_share:
        why = "a share group (KIP-932) has that name on the target, and takes no positions: one needs another name"
        return decision(GroupAction.SKIP_UNKNOWN, why)
    if state.is_active:
        members = f"{state.state}, {state.members} members"
        return decision(GroupAction.SKIP_ACTIVE, f"the group is in use ({members}); its position is its members'")
    positions = target.positions.get(group)
    if positions is None:
        why = target.positions.problems.get(group, _NOT_ASKED)
        return decision(GroupAction.SKIP_UNKNOWN, f"the position of the group is not known: {why}")
    if partition in positions.problems:
        why = positions.problems[partition]
        return decision(GroupAction.SKIP_UNKNOWN, f"the position of the group is not known: {why}")
    committed = positions.get(partition)
    present = committed.position if committed else None
    if partition in target.starts.problems:
        # Below it a reader that is told to begin at the end would skip all that is there.
        why = f"the start of the log is not known: {target.starts.problems[partition]}"
        return decision(GroupAction.SKIP_UNKNOWN, why, committed)
    end = target.ends.get(partition)
    # Where the end is not known nothing is written, and a group that is there already may stay.
    may_stay = partition in target.ends.problems or (end is not None and wanted.position <= end)
    if present == wanted.position and may_stay:
        return decision(GroupAction.KEEP, f"the group is at {present} already", committed)
    if partition in target.ends.problems:
        why = f"the end of the log is not known: {target.ends.problems[partition]}"
        return decision(GroupAction.SKIP_UNKNOWN, why, committed)
    if end is None:
        return decision(GroupAction.SKIP_ABSENT, "the target has no such partition", committed)
    if present is None:
        why = "the group has no position yet"
    elif present > end:
        why = f"the group is at {present}, but the log ends at {end}"
    elif present < wanted.position:
        was_put = placed is not None and not placed.is_unwritten_at(present)
        if placed and was_put and start <= present < placed.written and checkpoint.upstream <= placed.upstream:
            why = f"the group was set back here, to {present}, after it was put at {placed.written}"
            return decision(GroupAction.SKIP_SET_BACK, why, committed)
        why = f"the group is behind, at {present}"
    else:
        why = f"the group is at {present} already; from {wanted.position} on it would read again"
        return decision(GroupAction.SKIP_REWIND, why, committed)
    if wanted.position > end:
        why = f"the checkpoint says {wanted.position}, but the log ends at {end}: was it truncated or created anew?"
        return decision(GroupAction.SKIP_BEYOND_END, why, committed)
    if checkpoint.downstream < start:
        why += f"; the checkpoint says {checkpoint.downstream}, but the log begins at {start} only"
    return decision(GroupAction.WRITE, why, committed)
