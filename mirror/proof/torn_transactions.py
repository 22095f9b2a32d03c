"""Torn transactions: those of which a copy holds some records and lacks others."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.model.ledger import SendStatus
from mirror.proof.delivery import Place


@dataclass(frozen=True, slots=True)
class TransactionCount:
    """How many transactions a copy holds whole, in part, and not at all; aborted ones count where any of it is there.

    Attributes
    ----------
    whole, torn, absent
        committed ones.
    aborted_seen
        aborted ones of which the copy holds any record.
    """

    whole: int = 0
    torn: int = 0
    absent: int = 0
    aborted_seen: int = 0


def count_transactions(
    sends: DataFrame, logs: DataFrame, sent_to: str, copies: dict[str, Place], records_each: int
) -> TransactionCount:
    """Count the transactions that were sent to a cluster by what the copies of its topics hold.

    Parameters
    ----------
    sent_to
        the cluster.
    copies
        where each topic's copy is.
    records_each
        records in a transaction: those of a producer whose numbers, divided by it, are the same.
    """
    at_copies = F.lit(False)
    for place in copies.values():
        at_copies = at_copies | ((F.col("cluster") == place.cluster) & (F.col("topic") == place.topic))
    found = logs.where(at_copies & F.col("producer").isNotNull()).select("producer", "sequence").distinct()
    rows = (
        sends.where((F.col("cluster") == sent_to) & F.col("topic").isin(sorted(copies)))
        .join(found.withColumn("is_there", F.lit(1)), ["producer", "sequence"], "left")
        .groupBy("producer", F.floor(F.col("sequence") / records_each).alias("number"))
        .agg(
            F.count("*").alias("records"),
            F.count("is_there").alias("there"),
            F.count_if(F.col("status") == SendStatus.ACKED.value).alias("acked"),
            F.count_if(F.col("status") == SendStatus.FAILED.value).alias("aborted"),
        )
        .collect()
    )
    committed = [row for row in rows if row["acked"] and not row["aborted"]]
    return TransactionCount(
        whole=sum(row["there"] == row["records"] for row in committed),
        torn=sum(0 < row["there"] < row["records"] for row in committed),
        absent=sum(row["there"] == 0 for row in committed),
        aborted_seen=sum(bool(row["there"] and row["aborted"]) for row in rows),
    )
