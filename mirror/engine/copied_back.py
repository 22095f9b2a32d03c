"""The topics of a flow that the flow back copies too, to the same offsets, and how far that one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.model.partition import TopicPartition
from mirror.model.position import Position


@dataclass(frozen=True, slots=True)
class CopiedBack:
    """What is known of the flow back.

    Attributes
    ----------
    topics
        that are copied both ways to the same offsets, under one name.
    positions
        how far the flow back has copied partitions of the target.
    """

    topics: frozenset[str] = frozenset()
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)

    def of(self, target: TopicPartition) -> Position | None:
        """Return how far a partition of the target is copied back; None: not at all, or not both ways."""
        return self.positions.get(target) if target.topic in self.topics else None

    def concerns_other_topics(self, before: CopiedBack) -> bool:
        """Whether other topics are copied both ways than before, or other ones of their names."""
        return self.topics != before.topics or self._copies != before._copies

    @property
    def _copies(self) -> dict[TopicPartition, object]:
        return {each: position.copy_id for each, position in self.positions.items()}
