"""Moving groups along a flow: a plan of every position, then the same written on its target, under all guards.

Invariants:

(a) The ends of a log are read before the state when groups are moved: a new copy is on record before its first
    record, so a long enough log is never that of an unknown one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.group_view import GroupView, TranslatedPosition, view_groups
from mirror.control.groups import (
    GroupAction,
    GroupDecision,
    apply_group_writes,
    plan_group_writes,
    read_target_groups,
    recorder,
)
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.log import LogWriter
from mirror.model.checkpoint import Checkpoint
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.group_pattern import pattern_of
from mirror.model.partition import TopicPartition
from mirror.model.topics import DefaultReplicationPolicy
from mirror.model.translation import NothingRead, NotMirrored, TooOld, Translation, describe, leads_to
from mirror.recovery.group_snapshot import GroupSnapshot, SavedPosition
from mirror.recovery.step_facts import named
from mirror.recovery.unseen_readers import unseen_readers

# Decisions by which a group does not go on where it stopped, and those that leave it on purpose.
_REFUSED_BY_LOG = (GroupAction.SKIP_UNKNOWN, GroupAction.SKIP_BEYOND_END)
_LEFT = (GroupAction.SKIP_REWIND, GroupAction.SKIP_SET_BACK)


@dataclass(frozen=True, slots=True)
class Unmoved:
    """A group, or its position on one partition of the target, that was not moved, and why."""

    group: str
    partition: TopicPartition | None
    reason: str

    def __str__(self) -> str:
        return f"group {self.group}{f', {self.partition}' if self.partition else ''}: {self.reason}"


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What is to become of the groups that are to be moved; nothing is written yet.

    Attributes
    ----------
    positions
        what was translated, in order; also what will not be written.
    decisions
        what is done with each translated position, by what the target held when it was asked.
    untranslated, unneeded
        what should have a position on the target and has none; what needs none.
    source_problem
        why the positions are those of the checkpoints; None if the source reported them.
    unmatched
        that no group matches the pattern, in words; None: some do.
    unseen
        where the checkpoints tell: the groups that may have read copies of which there are none, in words for people.
    idle_positions
        where groups stand on the target that have read nothing since they were put where they are: they stay there.
    unmirrored
        groups whose state no checkpoint holds, and what to do about them.
    idle_starts
        where the logs begin in which those groups stand, as far as the target tells.
    left_out
        groups that the filters leave out, with the topics of the flow that they read; none where nobody asked.
    copies
        the topics on the target that the flow has copied to, as far as it has that on record.
    made_anew
        the topics on the target that are not copied again yet: whether groups can go on there is known once they are.
    hidden_states
        as `mirror.control.group_view.GroupView` has them.
    """

    settings: FlowSettings
    positions: tuple[TranslatedPosition, ...]
    decisions: tuple[GroupDecision, ...] = ()
    untranslated: tuple[Unmoved, ...] = ()
    unneeded: tuple[Unmoved, ...] = ()
    source_problem: str | None = None
    unmatched: str | None = None
    unseen: tuple[str, ...] = ()
    idle_positions: Mapping[str, Mapping[TopicPartition, GroupPosition]] = field(default_factory=dict)
    unmirrored: tuple[Unmoved, ...] = ()
    idle_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    left_out: Found[str, tuple[str, ...]] = field(default_factory=Found)
    copies: frozenset[str] = frozenset()
    made_anew: frozenset[str] = frozenset()
    hidden_states: Mapping[str, str] = field(default_factory=dict)

    @property
    def writes(self) -> tuple[GroupDecision, ...]:
        """The positions that are written."""
        return tuple(each for each in self.decisions if each.action is GroupAction.WRITE)

    @property
    def refused(self) -> tuple[Unmoved, ...]:
        """What should be moved and cannot be."""
        return (
            *(each for each in self.untranslated if each.partition is None or self._is_copied(each.partition)),
            *(
                _unmoved(each, each.reason)
                for each in self.decisions
                if (each.action is GroupAction.SKIP_ACTIVE and not self._is_at_home(each))
                or (each.action in _REFUSED_BY_LOG and self._is_copied(each.partition))
            ),
            *(
                _unmoved(
                    each,
                    f"{each.reason}: the copy that is on record was deleted, so the group has nothing to go on with",
                )
                for each in self.decisions
                if each.action is GroupAction.SKIP_ABSENT
                and not self._is_gone(each)
                and self._is_copied(each.partition)
            ),
        )

    @property
    def left(self) -> tuple[Unmoved, ...]:
        """What stays as it is on purpose."""
        return (
            *self.unneeded,
            *self.unmirrored,
            *(
                _unmoved(each, each.reason)
                for each in self.decisions
                if each.action in _LEFT
                or self._is_at_home(each)
                or (each.action is GroupAction.SKIP_ABSENT and self._is_gone(each))
            ),
        )

    @property
    def pattern_of_others(self) -> str | None:
        """The pattern for ``--groups`` that leaves out those that cannot be moved; None: there are no others."""
        refused = {each.group for each in self.refused}
        others = sorted({each.group for each in self.positions} - refused)
        return pattern_of(others) if refused and others else None

    def _is_at_home(self, decision: GroupDecision) -> bool:
        """Tell whether a group is at work on the target in a topic of the target's own, and so has not been elsewhere.

        The flow back makes it known on the source, and checkpoints lead from there to where it is. Only where the
        source is gone: on the way back the originals are what applications return to. Names tell whose a topic is only
        under the default policy, and where no transform renames copies.
        """
        if self.source_problem is None or decision.action is not GroupAction.SKIP_ACTIVE:
            return False
        topic, policy = decision.partition.topic, self.settings.policy
        names_tell = isinstance(policy, DefaultReplicationPolicy) and not self.settings.transforms.has_routers
        if topic in self.copies or not (self.copies or names_tell):
            return False
        return policy.topic_source(topic) != self.settings.flow.source

    def _is_copied(self, partition: TopicPartition) -> bool:
        return partition.topic not in self.made_anew

    def _is_gone(self, decision: GroupDecision) -> bool:
        """Tell whether the topic is gone from both clusters: then there is nothing to go on with."""
        where = decision.group, decision.partition
        return any(
            each.is_gone for each in self.positions if (each.group, TopicPartition(each.topic, each.partition)) == where
        )

    def without(self, groups: Collection[str]) -> MovePlan:
        """Return the plan for all other groups."""
        if not groups:
            return self
        return replace(
            self,
            positions=tuple(each for each in self.positions if each.group not in groups),
            decisions=tuple(each for each in self.decisions if each.group not in groups),
            untranslated=tuple(each for each in self.untranslated if each.group not in groups),
            unneeded=tuple(each for each in self.unneeded if each.group not in groups),
            unmirrored=tuple(each for each in self.unmirrored if each.group not in groups),
            left_out=Found(
                {group: topics for group, topics in self.left_out.items() if group not in groups},
                self.left_out.problems,
            ),
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row a position, the form of ``mirror groups --json``; ``before`` and ``after`` are the target's.

        None is no position.
        """
        decided = {(each.group, each.partition): each for each in self.decisions}
        rows = []
        for each in self.positions:
            partition = TopicPartition(each.topic, each.partition)
            decision = decided.get((each.group, partition))
            present = decision.present if decision else self._idle_position(each, partition)
            before = present.position if present else None
            after = decision.wanted.position if decision and decision.action is GroupAction.WRITE else before
            rows.append(
                {
                    "group": each.group,
                    "topic": each.topic,
                    "partition": each.partition,
                    "upstream": each.upstream,
                    "before": before,
                    "after": after,
                    # Of what stays where the group was on the target nobody can say that it has not passed a record.
                    "exact": after is not None
                    and _is_exactly(each.translation, after)
                    and not (self._idle_position(each, partition) and self.may_be_removed(partition, after)),
                    "action": str(decision.action) if decision else "keep" if present else "skip: no position",
                    "reason": decision.reason if decision else describe(each.translation),
                }
            )
        return rows

    def may_be_removed(self, partition: TopicPartition, position: int) -> bool:
        """Whether a log of :attr:`idle_starts` may begin behind a position: whose group stays there begins anywhere."""
        start = self.idle_starts.get(partition)
        return start is None or position < start

    def _idle_position(self, position: TranslatedPosition, partition: TopicPartition) -> GroupPosition | None:
        if not isinstance(position.translation, NothingRead):
            return None
        return self.idle_positions.get(position.group, {}).get(partition)


def _is_exactly(translation: Translation, position: int) -> bool:
    """Tell whether who goes on at a position of the target goes on at the very record."""
    if isinstance(translation, NothingRead):
        return position == translation.home == translation.restart
    return leads_to(translation, position)


@dataclass(frozen=True, slots=True)
class GroupMoves:
    """What became of the groups that were to be moved.

    Attributes
    ----------
    positions
        what was translated, in order; also what was not written.
    written
        how many positions were written, or were there already.
    refused
        what should have been moved and was not: the group would not go on where it stopped.
    left
        what was left as it is on purpose: what is further on there already, where nothing is to be moved.
    """

    positions: tuple[TranslatedPosition, ...]
    written: int = 0
    refused: tuple[Unmoved, ...] = ()
    left: tuple[Unmoved, ...] = ()

    def moved(self, groups: Iterable[str]) -> list[str]:
        """Return those of ``groups`` that go on where they stopped, on every partition."""
        refused = {each.group for each in self.refused}
        return [group for group in groups if group not in refused]

    def facts(self, groups: Iterable[str]) -> dict[str, Any]:
        """Return what a journal says of them."""
        return {
            "groups": self.moved(groups),
            "positions": self.written,
            "refused": [str(each) for each in self.refused],
            "left": [str(each) for each in self.left],
            "translated": [
                {
                    "group": each.group,
                    "topic": each.topic,
                    "partition": each.partition,
                    "upstream": each.upstream - behind,
                }
                for group in groups
                for each in self.positions
                if each.group == group and (behind := each.behind_records) is not None
            ],
        }


def plan_moves(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    *,
    groups: Sequence[str] = (),
    pattern: str | None = None,
    ask_source: bool = True,
    flows: Sequence[FlowSettings] = (),
    back: FlowSettings | None = None,
    with_left_out: bool = False,
    log: FlowLog | None = None,
) -> MovePlan:
    """Translate the positions of groups along a flow, and say of each what is to be done with it on the target.

    Groups are named by their ids, or are all whose whole id matches ``pattern``; one that is named and of which nothing
    is known is refused. ``flows``, ``back``, ``with_left_out`` and ``log`` are as for :func:`view_groups`.

    Raises
    ------
    KafkaProblem
        if the target does not answer.
    """
    chosen = pattern_of(groups) if pattern is None else pattern
    view = view_groups(
        settings,
        clusters,
        pattern=chosen,
        ask_source=ask_source,
        flows=flows,
        back=back,
        with_left_out=with_left_out,
        log=log,
    )
    lacking, unneeded = untranslated(view, groups, settings)
    decisions: tuple[GroupDecision, ...] = ()
    there = back if view.source_problem is not None else None
    unseen: tuple[str, ...] = ()
    idle_positions: Mapping[str, Mapping[TopicPartition, GroupPosition]] = {}
    idle_starts: Mapping[TopicPartition, int] = {}
    idle = sorted({each.group for each in view.positions if isinstance(each.translation, NothingRead)})
    if idle or there is not None or any(each.downstream is not None for each in view.positions):
        with Cluster.connect(clusters[settings.flow.target]) as target:
            if idle:
                idle_positions = found = target.positions_of_groups(idle)
                lacking += [Unmoved(group, None, problem) for group, problem in found.problems.items()]
                stand_in = {TopicPartition(each.topic, each.partition) for each in view.positions if each.group in idle}
                idle_starts = target.offsets(stand_in, "earliest")
            if checkpoints := _checkpoints(view.positions, idle_positions):
                decisions = tuple(
                    replace(each, placed_before=view.placed.get((each.group, each.partition)))
                    for each in plan_group_writes(checkpoints, read_target_groups(checkpoints, target))
                )
            if there is not None:
                reported = {(each.group, each.topic) for each in view.positions}
                unseen = unseen_readers(settings, there, target, reported, chosen)
    decided = {(each.group, each.partition) for each in decisions}
    return MovePlan(
        settings,
        view.positions,
        decisions,
        tuple(lacking),
        tuple(each for each in unneeded if (each.group, each.partition) not in decided),
        view.source_problem,
        view.unmatched,
        unseen,
        idle_positions,
        tuple(_unmirrored(group, view, settings) for group in sorted(view.unmirrored.keys() - set(groups))),
        idle_starts,
        view.left_out,
        view.copies,
        hidden_states=view.hidden_states,
    )


def apply_moves(plan: MovePlan, clusters: Mapping[str, ClusterSettings], *, snapshot: Path | None = None) -> GroupMoves:
    """Write what the plan says, if the target is still as it was planned for; return what became of each group.

    What can be moved is moved, whatever else cannot be; moving again is safe. If a group or a log that is concerned is
    not any more as the plan found it, nothing at all is written and each difference is a refusal.

    Parameters
    ----------
    snapshot
        the file in which the positions that are about to change are saved before; None if that is not wanted.

    Raises
    ------
    KafkaProblem
        if the target does not answer.
    ConfigError
        if the snapshot cannot be written, or is there already; nothing was changed then.
    """
    if not plan.writes:
        there = sum(each.action is GroupAction.KEEP for each in plan.decisions)
        return GroupMoves(plan.positions, there, plan.refused, plan.left)
    settings = plan.settings
    checkpoints = _checkpoints(plan.positions, plan.idle_positions)
    with Cluster.connect(clusters[settings.flow.target]) as target:
        now = plan_group_writes(checkpoints, read_target_groups(checkpoints, target))
        if drifted := _drift(plan.decisions, now):
            changed = {(each.group, each.partition) for each in drifted}
            with_them = [
                _unmoved(each, "nothing was written, since others have changed after the plan was made")
                for each in plan.writes
                if (each.group, each.partition) not in changed
            ]
            return GroupMoves(plan.positions, 0, (*plan.refused, *drifted, *with_them), plan.left)
        if snapshot is not None:
            _saved(plan, target).save(snapshot)
        with closing(LogWriter(settings.target_producer, alias=settings.flow.target)) as writer:
            writes = apply_group_writes(plan.decisions, target, recorder(settings, writer))
    failed = [_unmoved(each.decision, f"it could not be written: {each.problem}") for each in writes if each.problem]
    there = sum(each.action in (GroupAction.WRITE, GroupAction.KEEP) for each in plan.decisions) - len(failed)
    return GroupMoves(plan.positions, there, (*plan.refused, *failed), plan.left)


def untranslated(view: GroupView, groups: Iterable[str], settings: FlowSettings) -> tuple[list[Unmoved], list[Unmoved]]:
    """Return what of ``groups`` has no position on the target: what should have one, and what needs none."""
    flow = settings.flow
    refused = [
        *(Unmoved(group, None, problem) for group, problem in view.read.problems.items()),
        *(
            Unmoved(group, partition, problem)
            for group, found in view.read.items()
            for partition, problem in found.problems.items()
        ),
    ]
    left = []
    for each in view.positions:
        why = Unmoved(each.group, TopicPartition(each.topic, each.partition), describe(each.translation))
        # Who has read nothing passes nothing.
        if isinstance(each.translation, NothingRead) or (
            isinstance(each.translation, NotMirrored) and each.upstream == 0
        ):
            left.append(why)
        elif isinstance(each.translation, TooOld | NotMirrored):
            refused.append(why)
    refused += [_unmirrored(group, view, settings) for group in groups if group in view.unmirrored]
    known = {each.group for each in view.positions} | {each.group for each in refused}
    message = (
        f"it has no position on {flow.source}, or does not pass the filters of {flow}"
        if view.source_problem is None
        else f"no checkpoint on {flow.target} says where it stands on {flow.source}"
    )
    refused += [Unmoved(group, None, message) for group in groups if group not in known]
    return refused, left


def _unmirrored(group: str, view: GroupView, settings: FlowSettings) -> Unmoved:
    target = settings.flow.target
    advice = f"decide where it begins on {target}, and set that there before its members start"
    return Unmoved(group, None, f"the state of {view.unmirrored[group]} is not mirrored: {advice}")


def _checkpoints(
    positions: Iterable[TranslatedPosition], idle_positions: Mapping[str, Mapping[TopicPartition, GroupPosition]]
) -> list[Checkpoint]:
    """Return what is to be written by; who has read nothing since goes on where it was, if it is nowhere any more.

    Brokers forget the positions of groups that are empty for long.
    """
    found = []
    for each in positions:
        partition, downstream = TopicPartition(each.topic, each.partition), each.downstream
        if isinstance(each.translation, NothingRead) and each.group in idle_positions:
            downstream = each.translation.restart if partition not in idle_positions[each.group] else None
        if downstream is not None:
            found.append(Checkpoint(each.group, partition, each.upstream, downstream, each.metadata))
    return found


def _drift(planned: Iterable[GroupDecision], now: Iterable[GroupDecision]) -> tuple[Unmoved, ...]:
    """Return, for each position of which another thing would be done by now, what has changed."""
    again = {(each.group, each.partition): each for each in now}
    found = []
    for each in planned:
        other = again[each.group, each.partition]
        # Not the reasons: they hold figures of a log that may go on growing.
        if (other.action, other.present, other.wanted) != (each.action, each.present, each.wanted):
            changed = f"planned: {each.action} ({each.reason}); now: {other.action} ({other.reason})"
            found.append(_unmoved(each, f"the target has changed since the plan was made. {changed}. Plan again"))
    return tuple(found)


def _saved(plan: MovePlan, target: Cluster) -> GroupSnapshot:
    return GroupSnapshot(
        plan.settings.flow,
        target.cluster_id,
        tuple(
            SavedPosition(each.group, each.partition, each.placement.target_id, each.present, each.wanted)
            for each in plan.writes
        ),
    )


def _unmoved(decision: GroupDecision, reason: str) -> Unmoved:
    return Unmoved(decision.group, decision.partition, reason)


def unseen_groups_message(plan: MovePlan, flow: Flow) -> str:
    """Return, for people, which groups stay where they are since no checkpoint tells what they have read."""
    return (
        f"{counted(len(plan.unseen), 'group')} may have read copies on {flow.source} that topics of {flow} leaves out. "
        f"They have no checkpoints, and would go on at their old positions on {flow.target}: {named(plan.unseen)}"
    )
