"""Who writes where nobody should any more, in one form: for ``mirror status``, ``mirror fence --watch`` and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mirror.model.partition import TopicPartition

NO_ID = -1


@dataclass(frozen=True, slots=True)
class LateWriter:
    """A producer, or clients without an id, that wrote to a partition of a cluster from which writers were moved away.

    Attributes
    ----------
    start, end
        the offsets of the partition that were written late, by it or others: from ``start``, -1 where that is not
        known, to before ``end``.
    producer_id, epoch
        `NO_ID` for clients without an id, and where nobody tells who it was.
    last_ms
        the timestamp of its last batch, in ms since the epoch; None where nobody tells.
    client_id, address
        None: brokers tell neither of producers. Their own logs of requests do.
    """

    cluster: str
    partition: TopicPartition
    start: int
    end: int
    producer_id: int = NO_ID
    epoch: int = NO_ID
    transactional_id: str | None = None
    last_ms: int | None = None
    client_id: str | None = None
    address: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return who it is, for programs; of the partition it is said where it is listed."""
        return {
            "producer_id": self.producer_id,
            "epoch": self.epoch,
            "transactional_id": self.transactional_id,
            "client_id": self.client_id,
            "address": self.address,
            "last_timestamp_ms": self.last_ms,
        }
