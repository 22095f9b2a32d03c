"""Every judge once, on a handful of made-up records: so that Spark has loaded and compiled what they need."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mirror.model.ledger import COMMITS, LOGS, READS, SENDS, Column, SendStatus
from mirror.proof.account import Sides, settle_account
from mirror.proof.delivery import GroupCommits, GroupReading, Place, Route, judge_groups, judge_logs
from mirror.proof.history import missing_acked
from mirror.proof.tables import small_table

_ACTIVE, _COPY = Place("active", "topic"), Place("standby", "active.topic")
_DIGEST = bytes(16)


def warm_up(spark: SparkSession) -> None:
    """Judge a history of two records, one of which was never copied."""
    sends = _table(
        spark,
        SENDS,
        [{"cluster": "active", "topic": "topic", "sequence": n, "offset": n, "acked_at_ms": n} for n in (0, 1)],
    )
    logs = _table(
        spark,
        LOGS,
        [
            {"cluster": place.cluster, "topic": place.topic, "sequence": n, "offset": n}
            for place, n in ((_ACTIVE, 0), (_ACTIVE, 1), (_COPY, 0))
        ],
    )
    reads = _table(spark, READS, [{"cluster": "active", "topic": "topic", "sequence": 0, "offset": 0}])
    group_commits = GroupCommits({}, _table(spark, COMMITS, [{"cluster": "active", "topic": "topic", "position": 1}]))
    route = Route(_ACTIVE, _COPY)
    with ThreadPoolExecutor() as pool:
        parts: list[Future[Any]] = [
            pool.submit(missing_acked, sends, logs, route),
            pool.submit(judge_logs, sends, logs, [Route.own(_ACTIVE), route]),
            pool.submit(judge_groups, reads, sends, logs, [GroupReading("group", (_ACTIVE, _COPY))], group_commits),
            pool.submit(settle_account, sends, logs, Sides("active", "standby", (route,), returned_at_ms=10)),
        ]
        for part in parts:
            part.result()


def _table(spark: SparkSession, columns: tuple[Column, ...], rows: list[dict[str, object]]) -> DataFrame:
    """Return rows with what they do not say filled in: the words that matter nowhere, zeros, and an acknowledgement."""
    empty: dict[str, object] = {"string": "x", "int": 0, "long": 0, "binary": _DIGEST, "boolean": False}
    given = {"group": "group", "status": SendStatus.ACKED.value}
    filled = [tuple((given | row).get(column.name, empty[column.type]) for column in columns) for row in rows]
    return small_table(spark, columns, filled)
