"""Group positions on the target: written from checkpoints, never into a group with members, never backwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mirror.config.settings import FlowSettings
from mirror.control.tick import Clock, TickReport, now_ms, problems_of, run_tick
from mirror.kafka.cluster import Cluster, Found, GroupDescription, GroupPosition, ItemResult
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition

_NOT_ASKED = "it was not asked for"


class GroupAction(StrEnum):
    """What is done with one checkpointed position of a group on the target."""

    WRITE = "write"
    KEEP = "already there"
    SKIP_ACTIVE = "skip: active"
    SKIP_REWIND = "skip: would rewind"
    SKIP_ABSENT = "skip: no such partition"
    SKIP_BEYOND_END = "skip: beyond the end"
    SKIP_UNKNOWN = "skip: unknown"


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What is done with one checkpointed position, and why.

    Attributes
    ----------
    present
        the group's position on the target now, None if it has none or it is not known.
    wanted
        the position, with its text, that the checkpoint gives.
    """

    group: str
    partition: TopicPartition
    present: int | None
    wanted: GroupPosition
    action: GroupAction
    reason: str

    @property
    def is_problem(self) -> bool:
        """Whether something has to be looked at: what must be known before writing could not be read."""
        return self.action in (GroupAction.SKIP_UNKNOWN, GroupAction.SKIP_BEYOND_END)


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
        and their start offsets, as far as they are known.
    """

    states: Found[str, GroupDescription]
    positions: Found[str, Found[TopicPartition, GroupPosition]]
    ends: Found[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)


def plan_group_writes(checkpoints: Iterable[Checkpoint], target: TargetGroups) -> tuple[GroupDecision, ...]:
    """Return for every checkpoint whether its position is written on the target, and why (GOS-02).

    Stricter than MirrorMaker 2, which writes whenever it could not find out about a group (GOS-03, GOS-04): what is
    not known is not written over. A group with members is left alone, a position never goes back (GOS-05), and none
    is written beyond the end of the log, where readers would start over. One before its start, where they would start
    over too or pass everything, is raised to it: what was there is gone on the target.
    """
    return tuple(
        _decide(checkpoint, target)
        for checkpoint in sorted(checkpoints, key=lambda each: (each.group, each.topic_partition))
    )


def apply_group_writes(decisions: Sequence[GroupDecision], target: Cluster) -> tuple[ItemResult, ...]:
    """Write the positions decided on, one request a group; the broker refuses it if members came meanwhile (GOS-09)."""
    by_group: dict[str, dict[TopicPartition, GroupPosition]] = defaultdict(dict)
    for decision in decisions:
        if decision.action is GroupAction.WRITE:
            by_group[decision.group][decision.partition] = decision.wanted
    return tuple(
        ItemResult(f"{group} at {result.item}", result.problem)
        for group, positions in by_group.items()
        for result in target.write_group_positions(group, positions)
    )


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
    )


class GroupOffsetsTick:
    """Keeps the positions of idle groups on the target in step with the checkpoints (``sync.group.offsets``).

    ``decisions`` are those of the last round that got so far.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        checkpoints: Callable[[], Iterable[Checkpoint]],
        clock: Clock = now_ms,
    ) -> None:
        self._settings = settings
        self._target = target
        self._checkpoints = checkpoints
        self._clock = clock
        self.decisions: tuple[GroupDecision, ...] = ()

    def tick(self) -> TickReport:
        """Run one round; groups that cannot be read are problems and left alone until the next round."""
        return run_tick(f"group offsets {self._settings.flow}", self._clock, self._round)

    def _round(self, _: int) -> tuple[int, tuple[str, ...]]:
        checkpoints = [each for each in self._checkpoints() if self._settings.group_filter.matches(each.group)]
        self.decisions = plan_group_writes(checkpoints, read_target_groups(checkpoints, self._target))
        results = apply_group_writes(self.decisions, self._target)
        failures = problems_of(results, f"writing on {self._target.alias} the position of group")
        skipped = [
            f"group {each.group} on {self._target.alias}, {each.partition}: {each.reason}"
            for each in self.decisions
            if each.is_problem
        ]
        return len(results) - len(failures), (*skipped, *failures)


def _decide(checkpoint: Checkpoint, target: TargetGroups) -> GroupDecision:
    group, partition = checkpoint.group, checkpoint.topic_partition
    start = target.starts.get(partition, 0)
    wanted = GroupPosition(max(checkpoint.downstream, start), checkpoint.metadata)

    def decision(action: GroupAction, reason: str, present: int | None = None) -> GroupDecision:
        return GroupDecision(group, partition, present, wanted, action, reason)

    state = target.states.get(group)
    if state is None:
        why = target.states.problems.get(group, _NOT_ASKED)
        return decision(GroupAction.SKIP_UNKNOWN, f"the state of the group is not known: {why}")
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
    present = positions[partition].position if partition in positions else None
    if present == wanted.position:
        return decision(GroupAction.KEEP, f"the group is at {present} already", present)
    if present is not None and present > wanted.position:
        why = f"the group is at {present} already; from {wanted.position} on it would read again"
        return decision(GroupAction.SKIP_REWIND, why, present)
    if partition in target.ends.problems:
        why = f"the end of the log is not known: {target.ends.problems[partition]}"
        return decision(GroupAction.SKIP_UNKNOWN, why, present)
    end = target.ends.get(partition)
    if end is None:
        return decision(GroupAction.SKIP_ABSENT, "the target has no such partition", present)
    if wanted.position > end:
        why = f"the checkpoint says {wanted.position}, but the log ends at {end}: was it truncated or created anew?"
        return decision(GroupAction.SKIP_BEYOND_END, why, present)
    why = "the group has no position yet" if present is None else f"the group is behind, at {present}"
    if checkpoint.downstream < start:
        why += f"; the checkpoint says {checkpoint.downstream}, but the log begins at {start} only"
    return decision(GroupAction.WRITE, why, present)
