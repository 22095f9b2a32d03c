"""How a group came from one cluster to another, for the judges; moving a group needs none of PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupMove:
    """A group went on, on another cluster, where it had stopped.

    Attributes
    ----------
    source, target
        aliases of the clusters.
    upstream
        by partition of the target: the position on the source that its position stands for. No entry: 0.
    known_by_ms
        what it had committed on the source by then was to be known, in ms since 1970 UTC; None: whatever was.
    """

    group: str
    source: str
    target: str
    upstream: Mapping[TopicPartition, int] = field(default_factory=dict)
    known_by_ms: int | None = None
