"""Logs that several clusters' records end up in: where topics keep their names, or records of one come by two ways.

Offsets that different clusters gave have no order among each other, so the records of each are judged on their own.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.proof.delivery import Place, Route, judge_logs
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import Anomaly, Delivery, merge


def judge_by_origin(
    sends: DataFrame,
    logs: DataFrame,
    routes: Sequence[Route],
    *,
    shared: Set[Place],
    tolerated: Set[Anomaly],
    gaps: Sequence[MissingEvidence] = (),
) -> Delivery:
    """Judge logs as `mirror.proof.delivery.judge_logs` does, the records of each cluster apart where logs are shared.

    Parameters
    ----------
    shared
        the logs that hold records of several clusters (`shared_places` of all routes of a run).
    """
    if not any(route.kept in shared for route in routes):
        return judge_logs(sends, logs, routes, tolerated=tolerated, gaps=gaps)
    rows = sends.groupBy("cluster").agg(F.collect_set("producer").alias("names")).collect()
    producers = {row["cluster"]: list(row["names"]) for row in rows}
    judged = []
    for origin in dict.fromkeys(route.sent.cluster for route in routes):
        others = [name for other, names in producers.items() if other != origin for name in names]
        own = logs.where(F.col("producer").isNull() | ~F.col("producer").isin(others)) if others else logs
        own_routes = [route for route in routes if route.sent.cluster == origin]
        judged.append(judge_logs(sends, own, own_routes, tolerated=tolerated, gaps=gaps))
    return merge(judged)


def shared_places(routes: Sequence[Route]) -> frozenset[Place]:
    """Return the logs that records of more than one cluster belong to; own logs count by `Route.own`."""
    origins: dict[Place, set[str]] = {}
    for route in routes:
        origins.setdefault(route.kept, set()).add(route.sent.cluster)
    return frozenset(place for place, clusters in origins.items() if len(clusters) > 1)
