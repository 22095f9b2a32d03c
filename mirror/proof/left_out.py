"""What a comparison leaves out: where it lies, how much it is, why, and whether the verdict has to do without it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirror.model.counts import counted
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Offsets of a log, from ``start`` up to, not including, ``end``, that were not compared.

    Attributes
    ----------
    cluster, partition
        whose log it is.
    records
        how many records lie there; None where that was not counted: there are no more than offsets.
    reason
        why they were not compared.
    is_unchecked
        whether they belong to what the verdict is about, so that it is UNKNOWN at best. Not so, for example, what the
        source has no more.
    """

    cluster: str
    partition: TopicPartition
    start: int
    end: int
    records: int | None
    reason: str
    is_unchecked: bool

    def __str__(self) -> str:
        amount = counted(self.end - self.start, "offset") if self.records is None else counted(self.records, "record")
        checked = "not checked" if self.is_unchecked else "left out"
        # Of what has yet to be copied it is not known how much it is.
        span = f"from {self.start} to {self.end - 1} ({amount})" if self.start < self.end else f"from {self.start} on"
        return f"{checked}: {self.cluster} {self.partition} {span}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Return it as ``mirror verify --json`` shows it; the topic is that of the cluster."""
        return {
            "cluster": self.cluster,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "from": self.start,
            "to": self.end,
            "records": self.records,
            "reason": self.reason,
            "is_unchecked": self.is_unchecked,
        }


def unchecked(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """Return what the verdict has to do without."""
    return [each for each in left_out if each.is_unchecked]
