"""A history on Spark: what is found of thousands of partitions over days, as tables small enough to be looked at.

Invariants:

(a) Lag in seconds is found from offsets alone in a history: the time since the source ended where the copy stands.
    That needs no record to be read, and holds beside any replicator; where the source did not tell it is not known,
    not 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses
from pyspark.sql.window import WindowSpec

from mirror.history.backtest import Course, cost
from mirror.history.reading import HistoryFiles

_MINUTE_MS: Final = 60_000
# Partitions that are looked at together are summed up before anything goes on.
_PARTITIONS_TOGETHER = 80
# A day of 5,000 partitions is 43 million rows: of few tasks each would have to put gigabytes in order.
_MOST_TASKS = 64
# Samples of one engine are rarely late by more than twice their distance.
_GAP_INTERVALS = 3.5
_LEAST_GAP_SECONDS = 5.0

_KEY = ("topic", "partition")
_FOUND = "topic string, partition int, at_ms long, records double, seconds double, unknown int, there int"


@dataclass(frozen=True, slots=True)
class Span:
    """What is analysed of one flow.

    Attributes
    ----------
    from_ms, until_ms
        first and last sample, in ms since the epoch.
    interval_seconds
        how far samples are apart, as a rule.
    step_ms
        a disaster is supposed every so many ms.
    bucket_ms
        of so many ms the worst moment counts in what is drawn of a partition.
    """

    flow: str
    from_ms: int
    until_ms: int
    interval_seconds: float
    step_ms: int
    bucket_ms: int

    @property
    def longest_gap(self) -> float:
        """Of what lies between two samples further apart than that, in seconds, nothing is said."""
        return max(_LEAST_GAP_SECONDS, _GAP_INTERVALS * self.interval_seconds)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in a history.

    Attributes
    ----------
    flows
        the flow's rows of `mirror.history.samples.FLOWS`.
    costs
        ``at_ms, records, seconds, unknown``: what a disaster at each moment would have cost, the sum and the worst of
        the partitions of which it is known, and of how many it is not; 1 if there are none.
    peaks
        ``topic, partition, at_ms, records, seconds``: of each partition the worst in each bucket; not a number where
        it is not known throughout.
    minutes
        ``topic, at_ms, written, copied``: records in each minute.
    partitions
        ``topic, partition, rate, lag, kept, retention_ms, retention_bytes``: records a second over the whole time,
        what is not copied at its end, how many records the source keeps if it deletes already, and for how long it is
        told to.
    """

    span: Span
    flows: pd.DataFrame
    costs: pd.DataFrame
    peaks: pd.DataFrame
    minutes: pd.DataFrame
    partitions: pd.DataFrame


def span_of(
    flows: pd.DataFrame, flow: str, *, hours: float = 0.0, step_seconds: float = 1.0, buckets: int = 240
) -> Span:
    """Return what there is of a flow in the last ``hours``, 0: in all, by its rows."""
    at = np.sort(flows.loc[flows["flow"] == flow, "at_ms"].to_numpy())
    at = at[at >= at[-1] - 3_600_000 * hours] if hours else at
    apart = np.diff(at)
    interval = float(np.median(apart)) / 1000 if len(apart) else 1.0
    length = max(int(at[-1] - at[0]), 1)
    bucket = max(-(-length // buckets), int(1000 * interval), 1000)
    return Span(flow, int(at[0]), int(at[-1]), interval, int(1000 * step_seconds), bucket)


def analyse(spark: SparkSession, history: HistoryFiles, span: Span) -> Findings:
    """Go through the samples of a flow."""
    rows = (
        spark.read.parquet(*map(str, history.partitions))
        .where((F.col("flow") == span.flow) & F.col("at_ms").between(span.from_ms, span.until_ms))
        .drop("flow")
    )
    found = _judged(rows, span).persist()
    try:
        costs = _costs(found)
        peaks = found.where("topic is not null").drop("unknown", "there").toPandas()
    finally:
        found.unpersist()
    own = (history.flows["flow"] == span.flow) & history.flows["at_ms"].between(span.from_ms, span.until_ms)
    flows = history.flows[own].reset_index(drop=True)
    return Findings(span, flows, costs, peaks, _minutes(rows), _partitions(rows))


def _judged(rows: DataFrame, span: Span) -> DataFrame:
    """Return what disasters would have cost: a row a partition and bucket, and, without a topic, sums of many."""
    when = np.arange(span.from_ms, span.until_ms + 1, span.step_ms, dtype=np.int64)
    bucket = (when - span.from_ms) // span.bucket_ms
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    shares = max(1, -(-rows.select(*_KEY).distinct().count() // _PARTITIONS_TOGETHER))
    gap, first_ms = span.longest_gap, span.from_ms

    def judge(samples: pd.DataFrame) -> pd.DataFrame:
        records, seconds = np.zeros(len(when)), np.zeros(len(when))
        unknown, there = np.zeros((2, len(when)), dtype=np.int32)
        parts: list[pd.DataFrame] = []
        for (topic, partition), one in samples.groupby(list(_KEY), sort=False):
            one = one.sort_values("at_ms", kind="stable")  # noqa: PLW2901
            at = (one["at_ms"].to_numpy() - first_ms) / 1000
            course = Course(
                at,
                one["position"].to_numpy(dtype=float),
                one["source_end"].to_numpy(dtype=float, na_value=np.nan),
                float(one["lag_seconds"].iloc[0]),
            )
            own_records, own_seconds = cost(course, (when - first_ms) / 1000, gap)
            is_there = (when >= first_ms + 1000 * at[0]) & (when <= first_ms + 1000 * at[-1])
            there += is_there
            unknown += is_there & np.isnan(own_records + own_seconds)
            records += np.nan_to_num(own_records)
            np.fmax(seconds, own_seconds, out=seconds)
            parts.append(
                pd.DataFrame(
                    {
                        "topic": topic,
                        "partition": partition,
                        "at_ms": when[starts],
                        "records": np.maximum.reduceat(own_records, starts),
                        "seconds": np.maximum.reduceat(own_seconds, starts),
                        "unknown": 0,
                        "there": 0,
                    }
                )
            )
        sums = {"at_ms": when, "records": records, "seconds": seconds, "unknown": unknown, "there": there}
        return pd.concat([pd.DataFrame({"topic": None, "partition": None, **sums}), *parts])

    columns = ["at_ms", *_KEY, "position", "source_end", "lag_seconds"]
    share = F.pmod(F.hash(*_KEY), F.lit(shares)).alias("share")
    together = rows.select(share, *columns).repartition(min(shares, _MOST_TASKS), "share")
    return together.groupBy("share").applyInPandas(judge, _FOUND)


def _costs(found: DataFrame) -> pd.DataFrame:
    # Before a first partition was seen, nothing is known.
    unknown = F.sum("unknown") + F.when(F.sum("there") == 0, 1).otherwise(0)
    costs: pd.DataFrame = (
        found.where("topic is null")
        .groupBy("at_ms")
        .agg(F.sum("records").alias("records"), F.max("seconds").alias("seconds"), unknown.alias("unknown"))
        .orderBy("at_ms")
        .toPandas()
    )
    return costs


def _minutes(rows: DataFrame) -> pd.DataFrame:
    """Return what was written and copied of each topic in each minute; what begins anew counts from there on."""
    minute = (F.floor(F.col("at_ms") / _MINUTE_MS) * _MINUTE_MS).alias("at_ms")
    reached = rows.groupBy(*_KEY, minute).agg(F.max("source_end").alias("end"), F.max("position").alias("position"))
    before = Window.partitionBy(*_KEY).orderBy("at_ms")
    grown = reached.select("topic", "at_ms", _more("end", before, "written"), _more("position", before, "copied"))
    minutes: pd.DataFrame = (
        grown.groupBy("topic", "at_ms")
        .agg(F.sum("written").alias("written"), F.sum("copied").alias("copied"))
        .orderBy("at_ms", "topic")
        .toPandas()
    )
    return minutes


def _more(name: str, window: WindowSpec, called: str) -> Column:
    known = F.last(name, ignorenulls=True).over(window.rowsBetween(Window.unboundedPreceding, -1))
    return F.greatest(F.coalesce(F.col(name) - known, F.lit(0)), F.lit(0)).alias(called)


def _partitions(rows: DataFrame) -> pd.DataFrame:
    is_known = F.col("source_end").isNotNull()
    at_known = F.when(is_known, F.col("at_ms"))
    logs = F.when(F.col("source_start").isNotNull(), F.col("at_ms"))
    last = {name: F.max_by(name, logs).alias(name) for name in ("source_start", "retention_ms", "retention_bytes")}
    found: pd.DataFrame = (
        rows.groupBy(*_KEY)
        .agg(
            F.min_by("source_end", at_known).alias("first_end"),
            F.max_by("source_end", at_known).alias("end"),
            ((F.max(at_known) - F.min(at_known)) / 1000).alias("seconds"),
            F.max_by("position", "at_ms").alias("position"),
            *last.values(),
        )
        .orderBy(*_KEY)
        .toPandas()
    )
    grown = (found["end"] - found["first_end"]).clip(lower=0)
    found["rate"] = (grown / found["seconds"].where(found["seconds"] > 0)).astype(float)
    found["lag"] = (found["end"] - found["position"]).clip(lower=0)
    # What a log holds that has lost its beginning is what it keeps.
    found["kept"] = (found["end"] - found["source_start"]).where(found["source_start"] > 0).astype(float)
    return found[[*_KEY, "rate", "lag", "kept", "retention_ms", "retention_bytes"]]


def flows_of(history: HistoryFiles) -> tuple[str, ...]:
    """Return the flows that the history knows, in the order in which they appeared."""
    names: Iterable[str] = history.flows["flow"].drop_duplicates()
    return tuple(names)
