"""Logs that were replaced, or emptied, on purpose: what was sent before that and after it is judged apart.

Offsets of a log and of the one that takes its place have no order among each other, and what the old one is excused for
the new one is not.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.proof.delivery import Place, Route
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import NOTHING_TOLERATED, Anomaly, Delivery, Era, Finding, merge
from mirror.proof.shared_logs import judge_by_origin


@dataclass(frozen=True, slots=True)
class Replaced:
    """The log of ``place`` was replaced or emptied on purpose between two instants, in ms since 1970 UTC."""

    place: Place
    began_ms: int
    ended_ms: int


def era_of(replaced: Replaced) -> Column:
    """Return, of rows of the ledger of sends, the era in which each was sent."""
    return (
        F.when(F.col("sent_at_ms") >= replaced.ended_ms, Era.AFTER.value)
        .when(F.coalesce(F.col("acked_at_ms") < replaced.began_ms, F.lit(False)), Era.BEFORE.value)
        .otherwise(Era.DURING.value)
    )


def judge_by_era(
    sends: DataFrame,
    logs: DataFrame,
    routes: Sequence[Route],
    *,
    shared: Set[Place],
    replaced: Sequence[Replaced] = (),
    gaps: Sequence[MissingEvidence] = (),
) -> Delivery:
    """Judge logs as `judge_by_origin` does, the records of each era apart where what they were sent to was replaced."""
    judged = []
    left = list(routes)
    for each in replaced:
        concerned = [route for route in left if route.sent == each.place]
        left = [route for route in left if route.sent != each.place]
        if not concerned:
            continue
        by_era = sends.withColumn("era", era_of(each))
        ids = by_era.select("producer", "sequence", "era")
        # What nobody sent is found where nothing is excused.
        known = logs.join(ids, ["producer", "sequence"], "left").withColumn(
            "era", F.coalesce("era", F.lit(Era.AFTER.value))
        )
        for era in Era:
            of_era = f"era = '{era.value}'"
            found = judge_by_origin(
                by_era.where(of_era).drop("era"),
                known.where(of_era).select(*logs.columns),
                concerned,
                shared=shared,
                tolerated=NOTHING_TOLERATED,
                gaps=gaps,
            )
            judged.append(replace(found, findings=tuple(_of_era(finding, era) for finding in found.findings)))
    if left:
        judged.append(judge_by_origin(sends, logs, left, shared=shared, tolerated=NOTHING_TOLERATED, gaps=gaps))
    return merge(judged)


def _of_era(finding: Finding, era: Era) -> Finding:
    """Return a finding of an era; what an earlier one ends with is lost, for the copy has gone on."""
    ended = era is not Era.AFTER and finding.anomaly is Anomaly.STRANDED
    return replace(finding, era=era, anomaly=Anomaly.LOST if ended else finding.anomaly)
