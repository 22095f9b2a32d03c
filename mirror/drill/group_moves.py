"""Moving groups along a flow: every position translated and written on its target, under all guards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.group_view import GroupView, TranslatedPosition, view_groups
from mirror.control.groups import (
    GroupAction,
    GroupDecision,
    apply_group_writes,
    plan_group_writes,
    read_target_groups,
    recorder,
)
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition
from mirror.model.translation import NothingRead, NotMirrored, TooOld, describe
from mirror.proof.delivery import GroupMove

# Decisions by which a group does not go on where it stopped, and those that leave it on purpose.
_REFUSED = (GroupAction.SKIP_ACTIVE, GroupAction.SKIP_UNKNOWN, GroupAction.SKIP_BEYOND_END)
_LEFT = (GroupAction.SKIP_REWIND, GroupAction.SKIP_SET_BACK, GroupAction.SKIP_ABSENT)


@dataclass(frozen=True, slots=True)
class Unmoved:
    """A group, or its position on one partition of the target, that was not moved, and why."""

    group: str
    partition: TopicPartition | None
    reason: str

    def __str__(self) -> str:
        return f"group {self.group}{f', {self.partition}' if self.partition else ''}: {self.reason}"


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
                {"group": move.group, "topic": topic, "partition": number, "upstream": upstream}
                for move in self.moves(groups, "", "")
                for (topic, number), upstream in move.upstream.items()
            ],
        }

    def moves(
        self, groups: Iterable[str], source: str, target: str, *, known_by_ms: int | None = None
    ) -> list[GroupMove]:
        """Return, for the judges, where these groups go on; see `GroupMove`."""
        return [
            GroupMove(
                group,
                source,
                target,
                {
                    TopicPartition(each.topic, each.partition): each.upstream - behind
                    for each in self.positions
                    if each.group == group and (behind := each.behind_records) is not None
                },
                known_by_ms,
            )
            for group in groups
        ]

    def require(self) -> None:
        """Raise unless every group was moved.

        Raises
        ------
        MoveRefused
            if one was not.
        """
        if self.refused:
            raise MoveRefused(self.refused)


class MoveRefused(Exception):
    """Groups that should have been moved were not; names each, the partition and the reason."""

    def __init__(self, refused: Sequence[Unmoved]) -> None:
        super().__init__("; ".join(map(str, refused)))
        self.refused = tuple(refused)


def move_groups(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    groups: Sequence[str],
    *,
    ask_source: bool,
    flows: Sequence[FlowSettings] = (),
) -> GroupMoves:
    """Translate the positions of groups along a flow and write them on its target; return what became of each.

    What can be moved is moved, whatever else cannot be; moving again is safe. ``flows`` are all enabled ones of the
    file, as for :func:`view_groups`.

    Raises
    ------
    ClusterError, ConnectionFailed, BrokerRefused, LeaderUnknown
        if the target does not answer.
    """
    view = view_groups(settings, clusters, pattern="|".join(map(re.escape, groups)), ask_source=ask_source, flows=flows)
    refused, left = untranslated(view, groups, settings)
    checkpoints = [
        Checkpoint(
            each.group, TopicPartition(each.topic, each.partition), each.upstream, each.downstream, each.metadata
        )
        for each in view.positions
        if each.downstream is not None
    ]
    if not checkpoints:
        return GroupMoves(view.positions, 0, tuple(refused), tuple(left))
    with Cluster.connect(clusters[settings.flow.target]) as target:
        decisions = plan_group_writes(checkpoints, read_target_groups(checkpoints, target))
        with closing(LogWriter(settings.target_producer, alias=settings.flow.target)) as writer:
            writes = apply_group_writes(decisions, target, recorder(settings, writer))
    failed = [_unmoved(each.decision, f"it could not be written: {each.problem}") for each in writes if each.problem]
    there = sum(each.action in (GroupAction.WRITE, GroupAction.KEEP) for each in decisions) - len(failed)
    refused += [*(_unmoved(each, each.reason) for each in decisions if each.action in _REFUSED), *failed]
    left += [_unmoved(each, each.reason) for each in decisions if each.action in _LEFT]
    return GroupMoves(view.positions, there, tuple(refused), tuple(left))


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
    known = {each.group for each in view.positions} | {each.group for each in refused}
    said = (
        f"it has no position on {flow.source}, or does not pass the filters of {flow}"
        if view.source_problem is None
        else f"no checkpoint on {flow.target} says where it stands on {flow.source}"
    )
    refused += [Unmoved(group, None, said) for group in groups if group not in known]
    return refused, left


def _unmoved(decision: GroupDecision, reason: str) -> Unmoved:
    return Unmoved(decision.group, decision.partition, reason)
