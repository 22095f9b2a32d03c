"""Moving groups along a flow: every position translated and written on its target, under all guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.group_view import TranslatedPosition, view_groups
from mirror.control.groups import apply_group_writes, plan_group_writes, read_target_groups
from mirror.control.tick import problems_of
from mirror.kafka.cluster import Cluster
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition


class MoveRefused(Exception):
    """A group could not be moved; names the group, the partition and the reason."""


def move_groups(
    settings: FlowSettings, clusters: Mapping[str, ClusterSettings], groups: Sequence[str], *, ask_source: bool
) -> tuple[TranslatedPosition, ...]:
    """Translate the positions of groups along a flow and write them on its target; return them.

    Groups that were moved by the time another cannot be keep their new positions; moving again is safe.

    Raises
    ------
    MoveRefused
        if a group cannot be moved.
    """
    view = view_groups(settings, clusters, pattern="|".join(groups), ask_source=ask_source)
    if view.unread:
        raise MoveRefused("; ".join(view.unread))
    checkpoints = [
        Checkpoint(
            each.group, TopicPartition(each.topic, each.partition), each.upstream, each.downstream, each.metadata
        )
        for each in view.positions
        if each.downstream is not None
    ]
    with Cluster.connect(clusters[settings.flow.target]) as target:
        decisions = plan_group_writes(checkpoints, read_target_groups(checkpoints, target))
        refused = [f"group {each.group}, {each.partition}: {each.reason}" for each in decisions if each.is_problem]
        if refused:
            raise MoveRefused("; ".join(refused))
        problems = problems_of(apply_group_writes(decisions, target), "writing the position of group")
        if problems:
            raise MoveRefused("; ".join(problems))
    return view.positions
