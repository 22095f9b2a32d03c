"""Absence: which acknowledged records a copy lacks, which of them somebody was told of, and which nobody was.

A copy that lacks a record is one thing, a copy that lacks one and says nothing is another. A replicator that keeps a
ledger of gaps names ranges of upstream offsets; what is missing outside of them, with later records copied, is a
**silent** loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.model.ledger import SendStatus
from mirror.model.partition import TopicPartition
from mirror.proof.delivery import Route
from mirror.proof.history import stranded_records

Ranges = Mapping[TopicPartition, Sequence[tuple[int, int]]]
"""Ranges of offsets, from and up to but not including, by partition."""


@dataclass(frozen=True, slots=True)
class Absence:
    """What a copy lacks of the acknowledged records of a route.

    Attributes
    ----------
    told
        missing with later ones copied, inside a gap that the replicator has named.
    silent
        missing with later ones copied, and nobody said so.
    tail
        the last ones of their partitions, which were not copied yet.
    uncopied
        how many of all of them but those told of, and of the indeterminate ones, the source still holds.
    """

    told: int = 0
    silent: int = 0
    tail: int = 0
    uncopied: int = 0

    def __add__(self, other: Absence) -> Absence:
        """Return both together."""
        return Absence(
            self.told + other.told,
            self.silent + other.silent,
            self.tail + other.tail,
            self.uncopied + other.uncopied,
        )


def measure_absence(sends: DataFrame, logs: DataFrame, route: Route, told: Ranges) -> Absence:
    """Count what the copy of a route lacks; ``told`` are the gaps that the replicator names, in upstream offsets."""
    missing = stranded_records(sends, logs, route)
    kept = (F.col("cluster") == route.kept.cluster) & (F.col("topic") == route.kept.topic)
    sent = (F.col("cluster") == route.sent.cluster) & (F.col("topic") == route.sent.topic)
    copied = logs.where(kept & F.col("producer").isNotNull()).select("producer", "sequence").distinct()
    last = (
        sends.where(sent & (F.col("offset") >= 0))
        .join(copied, ["producer", "sequence"], "left_semi")
        .groupBy("partition")
        .agg(F.max("offset").alias("last_copied"))
    )
    rows = missing.join(last, "partition", "left").select(
        "topic", "partition", "offset", "status", "in_own_log", "last_copied"
    )
    found = Absence()
    for row in rows.collect():
        is_acked = row["status"] == SendStatus.ACKED.value
        is_tail = row["last_copied"] is None or row["offset"] > row["last_copied"]
        is_told = is_acked and _is_in(row["offset"], told.get(TopicPartition(row["topic"], row["partition"]), ()))
        found += Absence(
            told=int(is_told),
            silent=int(is_acked and not is_tail and not is_told),
            tail=int(is_acked and is_tail and not is_told),
            uncopied=int(row["in_own_log"] and not is_told),
        )
    return found


def _is_in(record_offset: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(start <= record_offset < end for start, end in ranges)
