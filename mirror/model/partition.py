"""The address of one partition, and of several."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic on one cluster; which cluster is said by the name of the variable."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return ``orders-3``, the form Kafka's own tools print."""
        return f"{self.topic}-{self.partition}"
