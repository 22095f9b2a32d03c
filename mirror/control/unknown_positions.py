"""Positions that a cluster does not tell: who reads the others must not take them for all there are."""

from __future__ import annotations

from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition

GroupPositions = Found[str, Found[TopicPartition, GroupPosition]]
"""What a cluster tells of the positions of groups, and of which it does not."""


def unknown_positions(positions: GroupPositions, alias: str) -> tuple[str, ...]:
    """Return, in words, of which groups and partitions a cluster has not told the positions, and why."""
    groups = [f"group {group} on {alias}: {problem}" for group, problem in positions.problems.items()]
    partitions = [
        f"group {group} on {alias}, {partition}: {problem}"
        for group, found in positions.items()
        for partition, problem in found.problems.items()
    ]
    return (*groups, *partitions)
