"""The final account of a failover and failback: every acknowledged record is accounted for, exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses
from pyspark.storagelevel import StorageLevel

from mirror.model.counts import counted
from mirror.model.ledger import Column as LedgerColumn
from mirror.model.ledger import SendStatus
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.delivery import Route
from mirror.proof.evidence import MissingEvidence, with_gaps
from mirror.proof.findings import MOST_EXAMPLES
from mirror.proof.tables import small_table


class Fate(StrEnum):
    """What became of an acknowledged record in the end; the classes exclude one another."""

    MIRRORED = "mirrored"
    """Sent to the old active cluster, and on the standby."""
    RECOVERED = "recovered"
    """Was stranded, and listed so; is on the standby now."""
    LISTED = "listed"
    """Stranded on the old active cluster only, and on the list that was handed over."""
    WRITTEN_ON_STANDBY = "written on the standby"
    """Sent to the standby while it was active, there, and copied back where that was asked for."""
    WRITTEN_AFTER_RETURN = "written after the return"
    """Sent to the old active cluster once it was active again, and there; whether it is copied again or not."""
    NOT_RETURNED = "not returned"
    """Sent to the standby while it was active, there, and not copied back though that was asked for."""
    STRANDED = "stranded"
    """On the old active cluster only, and on no list."""
    MISSING = "missing"
    """In no log."""


UNSETTLED = frozenset({Fate.MISSING, Fate.STRANDED, Fate.NOT_RETURNED})
"""Fates that nobody may be left with."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Who was who, and what was copied where.

    Parameters
    ----------
    active, standby
        Aliases: the cluster that failed, and the one that took over.
    copies
        The routes from the old active cluster to the standby, one a topic.
    returns
        The routes from the standby back; leave out a topic whose records need not return.
    returned_at_ms
        When the old active cluster was active again; None if it is not.
    """

    active: str
    standby: str
    copies: tuple[Route, ...]
    returns: tuple[Route, ...] = ()
    returned_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AccountLine:
    """So many records of a topic met this fate."""

    cluster: str
    topic: str
    fate: Fate
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unsettled:
    """One record that is not accounted for as it should be; the offset is that of its acknowledgement."""

    fate: Fate
    cluster: str
    partition: TopicPartition
    record_offset: int
    producer: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Account:
    """The account, and how it was come by.

    Attributes
    ----------
    acked
        acknowledged records of the ledger, counted on their own.
    unsettled
        at most 20 of the records with each fate of `UNSETTLED`, in the order of their offsets.
    indeterminate_found, indeterminate_absent
        sends of unknown outcome whose record is in a log, and in none. They were promised to nobody.
    """

    lines: tuple[AccountLine, ...]
    acked: int
    unsettled: tuple[Unsettled, ...]
    indeterminate_found: int
    indeterminate_absent: int
    gaps: tuple[MissingEvidence, ...]

    def records(self, fate: Fate) -> int:
        """Return how many records met a fate."""
        return sum(line.records for line in self.lines if line.fate is fate)

    @property
    def is_balanced(self) -> bool:
        """Whether the lines add up to the acknowledged records, and none is unsettled."""
        adds_up = sum(line.records for line in self.lines) == self.acked
        return adds_up and not any(self.records(fate) for fate in UNSETTLED)

    @property
    def verdict(self) -> Verdict:
        """PASS if it balances; UNKNOWN if there is nothing to account for, or a log or the ledger is not whole."""
        if not self.is_balanced:
            # A record may be in the part of a log that was not read.
            return Verdict.UNKNOWN if any(gap.log for gap in self.gaps) else Verdict.FAIL
        return with_gaps(Verdict.PASS, self.gaps) if self.acked else Verdict.UNKNOWN

    def table(self) -> pd.DataFrame:
        """Return the lines as a table for people."""
        columns = ["cluster", "topic", "fate", "records", "bytes"]
        rows = [(line.cluster, line.topic, str(line.fate), line.records, line.bytes) for line in self.lines]
        return pd.DataFrame(rows, columns=columns)


_ROUTES = (
    LedgerColumn("cluster", "string"),
    LedgerColumn("topic", "string"),
    LedgerColumn("copy_cluster", "string", nullable=True),
    LedgerColumn("copy_topic", "string", nullable=True),
)
_ID = ("producer", "sequence")


def settle_account(
    sends: DataFrame,
    logs: DataFrame,
    sides: Sides,
    *,
    listed: DataFrame | None = None,
    gaps: Sequence[MissingEvidence] = (),
) -> Account:
    """Account for every acknowledged record: three Spark jobs.

    Parameters
    ----------
    sends, logs
        Tables of the ledger; ``logs`` read to the end, of both clusters, after everything has been copied.
    listed
        ``producer`` and ``sequence`` of the records that were handed over as stranded (`history.stranded_records`).
    gaps
        What is known to be missing of the evidence.
    """
    judged = _with_fate(sends, logs, sides, listed).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = (
            judged.groupBy("cluster", "topic", "status", "fate", "is_found")
            .agg(F.count("*").alias("records"), F.sum("size_bytes").alias("bytes"))
            .orderBy("cluster", "topic", "fate")
            .collect()
        )
        first = Window.partitionBy("fate").orderBy("cluster", "topic", "partition", "offset", *_ID)
        worst = (
            judged.where(F.col("fate").isin([str(fate) for fate in sorted(UNSETTLED)]))
            .withColumn("rank", F.row_number().over(first))
            .where(F.col("rank") <= MOST_EXAMPLES)
            .orderBy("fate", "rank")
            .collect()
        )
    finally:
        judged.unpersist()
    acked = sends.where(F.col("status") == SendStatus.ACKED.value)
    counted = acked.agg(F.count("*"), F.count_distinct(*_ID)).collect()[0]
    return Account(
        lines=tuple(
            AccountLine(row["cluster"], row["topic"], Fate(row["fate"]), row["records"], row["bytes"])
            for row in rows
            if row["fate"] is not None
        ),
        acked=counted[0],
        unsettled=tuple(_unsettled(row) for row in worst),
        indeterminate_found=_indeterminate(rows, is_found=True),
        indeterminate_absent=_indeterminate(rows, is_found=False),
        gaps=(*gaps, *_ledger_gaps(rows, twice=counted[0] - counted[1])),
    )


def _with_fate(sends: DataFrame, logs: DataFrame, sides: Sides, listed: DataFrame | None) -> DataFrame:
    """Add to every send whether it is in a log at all, and, if it was acked, its fate."""
    spark = sends.sparkSession
    pairs = [
        (each.sent.cluster, each.sent.topic, each.kept.cluster, each.kept.topic)
        for each in (*sides.copies, *sides.returns)
    ]
    routes = small_table(spark, _ROUTES, pairs)
    found = (
        logs.where("producer is not null")
        .groupBy(*_ID)
        .agg(F.collect_set(F.struct("cluster", "topic")).alias("places"))
    )
    handed_over = small_table(spark, (LedgerColumn("producer", "string"), LedgerColumn("sequence", "long")), [])
    if listed is not None:
        handed_over = listed.select(*_ID).distinct()
    return (
        sends.join(F.broadcast(routes), ["cluster", "topic"], "left")
        .join(found, list(_ID), "left")
        .join(handed_over.withColumn("is_listed", F.lit(True)), list(_ID), "left")
        .withColumn("is_found", F.col("places").isNotNull())
        .withColumn("in_own", _is_in("cluster", "topic"))
        .withColumn("in_copy", _is_in("copy_cluster", "copy_topic"))
        .withColumn("is_listed", F.coalesce("is_listed", F.lit(False)))
        .withColumn("fate", F.when(F.col("status") == SendStatus.ACKED.value, _fate(sides)))
    )


def _is_in(cluster: str, topic: str) -> Column:
    place = F.struct(F.col(cluster).alias("cluster"), F.col(topic).alias("topic"))
    return F.coalesce(F.array_contains("places", place), F.lit(False))


def _fate(sides: Sides) -> Column:
    own, copy, listed = F.col("in_own"), F.col("in_copy"), F.col("is_listed")
    after_return = F.lit(False) if sides.returned_at_ms is None else F.col("sent_at_ms") >= sides.returned_at_ms
    of_active = (
        F.when(own & after_return, str(Fate.WRITTEN_AFTER_RETURN))
        .when(copy & listed, str(Fate.RECOVERED))
        .when(copy, str(Fate.MIRRORED))
        .when(own & listed, str(Fate.LISTED))
        .when(own, str(Fate.STRANDED))
        .otherwise(str(Fate.MISSING))
    )
    of_standby = (
        F.when(copy | (own & F.col("copy_topic").isNull()), str(Fate.WRITTEN_ON_STANDBY))
        .when(own, str(Fate.NOT_RETURNED))
        .otherwise(str(Fate.MISSING))
    )
    return F.when(F.col("cluster") == sides.active, of_active).when(F.col("cluster") == sides.standby, of_standby)


def _unsettled(row: Row) -> Unsettled:
    partition = TopicPartition(row["topic"], row["partition"])
    return Unsettled(Fate(row["fate"]), row["cluster"], partition, row["offset"], row["producer"], row["sequence"])


def _indeterminate(rows: Sequence[Row], *, is_found: bool) -> int:
    return sum(
        row["records"]
        for row in rows
        if row["status"] == SendStatus.INDETERMINATE.value and row["is_found"] is is_found
    )


def _ledger_gaps(rows: Sequence[Row], *, twice: int) -> list[MissingEvidence]:
    gaps = [
        MissingEvidence(
            f"{row['cluster']} {row['topic']}",
            f"{counted(row['records'], 'record')} {'was' if row['records'] == 1 else 'were'} sent to a "
            f"cluster that the account does not know",
        )
        for row in rows
        if row["status"] == SendStatus.ACKED.value and row["fate"] is None
    ]
    if twice:
        gaps.append(
            MissingEvidence("the ledger of sends", f"holds {twice} ids more than once: two producers had the same name")
        )
    return gaps
