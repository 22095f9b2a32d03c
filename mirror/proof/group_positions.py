"""Where groups stand in the end: what the clusters say that they have committed.

Invariants:

(a) Where a group stands is what it has committed, by the cluster; never what it was seen to read: a group that was put
    behind records it never read has lost them. Java MirrorMaker promises no bound of what is read again, so its groups
    are only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition
from mirror.proof.delivery import GroupReading
from mirror.proof.evidence import MissingEvidence


def read_positions(
    readings: Sequence[GroupReading], clusters: Mapping[str, ClusterSettings], gone: Set[str] = frozenset()
) -> tuple[Mapping[tuple[str, str, TopicPartition], int], tuple[MissingEvidence, ...]]:
    """Return what groups have committed on the clusters they read, by group, alias and partition; and what is unknown.

    Raises
    ------
    ClusterError
        if a cluster does not answer.
    """
    positions: dict[tuple[str, str, TopicPartition], int] = {}
    unknown: list[MissingEvidence] = []
    for alias in sorted({place.cluster for reading in readings for place in reading.places} - gone):
        groups = [each.group for each in readings if any(place.cluster == alias for place in each.places)]
        with Cluster.connect(clusters[alias]) as cluster:
            found = cluster.positions_of_groups(groups)
        unknown += [
            MissingEvidence(f"{alias} group {group}", f"its positions are not known: {problem}")
            for group, problem in found.problems.items()
        ]
        for group, committed in found.items():
            positions |= {(group, alias, partition): each.position for partition, each in committed.items()}
            unknown += [
                MissingEvidence(f"{alias} group {group}, {partition}", f"its position is not known: {problem}")
                for partition, problem in committed.problems.items()
            ]
    return positions, tuple(unknown)
