"""Which acknowledged records a copy lacks, which of them somebody was told of, and which nobody was.

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
from mirror.proof.eras import Replaced, era_of
from mirror.proof.findings import Era
from mirror.proof.history import stranded_records


@dataclass(frozen=True, slots=True)
class DeclaredGap:
    """Offsets, from ``start`` up to, not including, ``end``, that the replicator has named as missing in the copy.

    Attributes
    ----------
    is_of_old_log
        whether they are those of a log that another has taken the place of: of the new one's records, which have the
        same offsets, it says nothing.
    is_still_there
        whether the source may still have these records: they were left out.
    """

    start: int
    end: int
    is_of_old_log: bool = False
    is_still_there: bool = False


Ranges = Mapping[TopicPartition, Sequence[DeclaredGap]]
"""What was reported, by partition of the source."""


@dataclass(frozen=True, slots=True)
class MissingRecords:
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

    def __add__(self, other: MissingRecords) -> MissingRecords:
        """Return both together."""
        return MissingRecords(
            self.told + other.told,
            self.silent + other.silent,
            self.tail + other.tail,
            self.uncopied + other.uncopied,
        )


def measure_losses(
    sends: DataFrame,
    logs: DataFrame,
    route: Route,
    declared: Ranges,
    *,
    replaced: Replaced | None = None,
    least_bytes: int = 0,
) -> MissingRecords:
    """Count what the copy of a route lacks.

    Parameters
    ----------
    declared
        The gaps that the replicator names, in upstream offsets.
    replaced
        When the source's log was replaced or emptied on purpose, if it was.
    least_bytes
        What is smaller than that had no reason to be left out: that it was reported is no excuse.
    """
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
    rows = (
        missing.withColumn("is_new", F.lit(True) if replaced is None else era_of(replaced) == Era.AFTER.value)
        .join(last, "partition", "left")
        .select("topic", "partition", "offset", "status", "size_bytes", "is_new", "in_own_log", "last_copied")
    )
    found = MissingRecords()
    for row in rows.collect():
        is_acked = row["status"] == SendStatus.ACKED.value
        # The copy has gone on behind what an old log ended with.
        is_tail = row["is_new"] and (row["last_copied"] is None or row["offset"] > row["last_copied"])
        gaps = declared.get(TopicPartition(row["topic"], row["partition"]), ())
        is_old = not row["in_own_log"] and (replaced is None or not row["is_new"])
        is_declared = is_acked and any(
            gap.start <= row["offset"] < gap.end
            and (is_old or not gap.is_of_old_log)
            and (not row["in_own_log"] or (gap.is_still_there and row["size_bytes"] >= least_bytes))
            for gap in gaps
        )
        found += MissingRecords(
            told=int(is_declared),
            silent=int(is_acked and not is_tail and not is_declared),
            tail=int(is_acked and is_tail and not is_declared),
            uncopied=int(row["in_own_log"] and not is_declared),
        )
    return found
