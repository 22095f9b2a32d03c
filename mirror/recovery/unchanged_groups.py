"""Proof that a rehearsal has touched nobody's group: positions before and after, and who else may have moved them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupPositionsSeen:
    """Groups of one cluster at one moment.

    Attributes
    ----------
    positions
        of every group that could be read.
    active
        groups with members.
    problems
        why others could not be read.
    """

    alias: str
    positions: Mapping[str, Mapping[TopicPartition, int]]
    active: frozenset[str]
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChangedGroup:
    """What became of a group's positions while the rehearsal ran.

    Attributes
    ----------
    moved
        partitions whose position changed.
    by
        who moved them, None where that cannot be known; empty where nothing moved.
    problem
        why it cannot be known whether they moved.
    """

    alias: str
    group: str
    moved: tuple[TopicPartition, ...] = ()
    by: str | None = ""
    problem: str | None = None

    @property
    def is_explained(self) -> bool:
        """Whether nothing happened, or only what was to be expected."""
        return self.problem is None and self.by is not None


def see_groups(cluster: Cluster, groups: Collection[str]) -> GroupPositionsSeen:
    """Read positions and states of groups; one that does not exist has no positions."""
    positions, states = cluster.positions_of_groups(groups), cluster.describe_groups(groups)
    return GroupPositionsSeen(
        cluster.alias,
        {group: {each: found.position for each, found in of.items()} for group, of in positions.items()},
        frozenset(group for group, state in states.items() if state.is_active),
        {**states.problems, **positions.problems},
    )


def compare(before: GroupPositionsSeen, after: GroupPositionsSeen, *, synced: bool) -> tuple[ChangedGroup, ...]:
    """Say of every group whether it moved, and by whom: its own members, or the flow that keeps it in step.

    Parameters
    ----------
    synced
        whether a flow writes positions of idle groups on this cluster (``sync.group.offsets.enabled``).
    """
    found = []
    for group in sorted({*before.positions, *before.problems}):
        problem = before.problems.get(group) or after.problems.get(group)
        if problem is not None:
            found.append(ChangedGroup(before.alias, group, problem=problem))
            continue
        was, now = before.positions[group], after.positions.get(group, {})
        moved = tuple(sorted(each for each in was.keys() | now.keys() if was.get(each) != now.get(each)))
        by: str | None = ""
        if moved:
            by = (
                "its members"
                if group in before.active | after.active
                else "the flow, which keeps idle groups in step"
                if synced
                else None
            )
        found.append(ChangedGroup(before.alias, group, moved, by))
    return tuple(found)
