"""What a copy lacks of what the ledger says was sent: the amounts that the RPO is made of."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.model.ledger import SendStatus
from mirror.model.partition import TopicPartition
from mirror.proof.delivery import Route
from mirror.proof.objectives import Missing


def stranded_records(sends: DataFrame, logs: DataFrame, route: Route) -> DataFrame:
    """Return every send of a route whose record is not in the copy, though it was acked or is in its own log.

    Columns are those of the ledger of sends, and ``in_own_log``: whether the cluster it was sent to (still) has it.
    That column is false throughout when ``logs`` does not hold the log of that cluster. Sends that were not acked and
    are in neither log never came about, and are not in the list.
    """
    ids = ["producer", "sequence"]
    at = {
        place: (F.col("cluster") == place.cluster) & (F.col("topic") == place.topic)
        for place in (route.sent, route.kept)
    }
    copied = logs.where(at[route.kept] & F.col("producer").isNotNull()).select(*ids)
    own = logs.where(at[route.sent] & F.col("producer").isNotNull()).select(*ids).distinct()
    return (
        sends.where(at[route.sent])
        .join(copied, ids, "left_anti")
        .join(own.withColumn("in_own_log", F.lit(True)), ids, "left")
        .withColumn("in_own_log", F.coalesce("in_own_log", F.lit(False)))
        .where((F.col("status") == SendStatus.ACKED.value) | F.col("in_own_log"))
        .select(*sends.columns, "in_own_log")
    )


def missing_acked(sends: DataFrame, logs: DataFrame, route: Route) -> tuple[Missing, ...]:
    """Return what of the acked records of a route the copy lacks, per partition of the source that lacks any."""
    rows = (
        stranded_records(sends, logs, route)
        .where(F.col("status") == SendStatus.ACKED.value)
        .groupBy("cluster", "topic", "partition")
        .agg(
            F.count("*").alias("records"),
            F.sum("size_bytes").alias("bytes"),
            F.min("acked_at_ms").alias("first_acked_at_ms"),
        )
        .orderBy("cluster", "topic", "partition")
        .collect()
    )
    return tuple(
        Missing(
            row["cluster"],
            TopicPartition(row["topic"], row["partition"]),
            row["records"],
            row["bytes"],
            row["first_acked_at_ms"],
        )
        for row in rows
    )
