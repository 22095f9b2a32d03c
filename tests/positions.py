"""Positions of groups, put where a test wants them."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.kafka.answers import ItemResult
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition


def write_positions(
    cluster: Cluster, group: str, positions: Mapping[TopicPartition, GroupPosition]
) -> list[ItemResult]:
    """Commit positions for a group, as nobody's member: the broker refuses it while the group has members."""
    return cluster.write_positions_of_groups({group: positions})[group]
