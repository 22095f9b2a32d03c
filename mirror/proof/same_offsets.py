"""Copies that are to have the source's offsets: how many records have another one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.proof.delivery import Route

_KEY = ("producer", "sequence", "partition")


def count_moved(logs: DataFrame, route: Route) -> int:
    """Return how many records of the ledger lie at another offset on the copy than in the log they were sent to."""

    def of(cluster: str, topic: str, name: str) -> DataFrame:
        chosen = (F.col("cluster") == cluster) & (F.col("topic") == topic) & F.col("producer").isNotNull()
        return logs.where(chosen).select(*_KEY, F.col("offset").alias(name))

    sent = of(route.sent.cluster, route.sent.topic, "upstream")
    kept = of(route.kept.cluster, route.kept.topic, "downstream")
    return sent.join(kept, list(_KEY)).where("upstream <> downstream").count()
