"""Content equivalence: is a remote partition, record by record, what its source partition is?

Both sides are read to (offset, digest, timestamp) and aligned by content on Spark: equal records are paired in order,
so one that is missing does not make all behind it look wrong. What remains on one side only is **missing** or
**extra**; where one of each stands between the same pairs, it is one record that was **altered**. Pairs out of order
are **reordered**. What the flow says that the copy lacks, and is as it says, is not missing but counted by itself:
**parked**, in **gaps**, **filtered**. Where the exact offset map is known, a pair that is not where the map says is
**misplaced**: the copy is right, and positions translated with that map are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.model.absences import Absence, AbsenceKind
from mirror.model.ledger import Column as LedgerColumn
from mirror.model.offset_map import Runs
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict, worst
from mirror.proof.absences import ParkedContent, filtered, held
from mirror.proof.log_reader import LogOutcome, LogRange, logs_frame, read_logs
from mirror.proof.obvious import same_records
from mirror.proof.tables import small_table


class Difference(StrEnum):
    """How two partitions differ at one record."""

    MISSING = "missing"
    EXTRA = "extra"
    ALTERED = "altered"
    REORDERED = "reordered"
    MISPLACED = "misplaced"


@dataclass(frozen=True, slots=True)
class PartitionPair:
    """What is compared: a range of a source partition, and the range of its remote partition that holds the copy.

    Parameters
    ----------
    runs
        The exact offset map of the range, where one is known.
    writers
        Producer ids that wrote the copy; empty if they are not known. What others wrote is no part of the copy.
    is_shared
        Whether others may write to the remote partition (unchanged topic names, fan-in). Where not, what somebody else
        wrote into it is extra.
    absences
        What the flow says that the copy lacks.
    parked
        What lies in the topic of parked records, by upstream offset.
    """

    source: LogRange
    target: LogRange
    runs: Runs = Runs()  # noqa: RUF009  # frozen
    writers: frozenset[int] = frozenset()
    is_shared: bool = False
    absences: tuple[Absence, ...] = ()
    parked: Mapping[int, ParkedContent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first place where source and target differ; an offset is None on the side that has no such record."""

    what: Difference
    upstream_offset: int | None
    downstream_offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class PartitionEquivalence:
    """The comparison of one pair, in records.

    Attributes
    ----------
    records
        on the source, in the range; without those that transforms leave out.
    foreign
        on the target, in the range, written by others where others may write.
    problem
        why a side could not be read to its end; None if both were.
    absences
        what the copy lacks and the flow says so; none of it is missing.
    """

    source: TopicPartition
    target: TopicPartition
    records: int
    missing: int
    extra: int
    altered: int
    reordered: int
    misplaced: int
    foreign: int
    first_difference: FirstDifference | None
    problem: str | None
    absences: tuple[Absence, ...] = ()

    def absent(self, kind: AbsenceKind) -> int:
        """Return how many records are absent for such a reason."""
        return sum(each.records or 0 for each in self.absences if each.kind is kind)

    @property
    def verdict(self) -> Verdict:
        """UNKNOWN if a side was not read whole; FAIL for any difference; an empty pair is equal.

        What is explained is no difference; that a gap waits to be acknowledged is for the flow's state to say.
        """
        if self.problem is not None:
            return Verdict.UNKNOWN
        differences = (self.missing, self.extra, self.altered, self.reordered, self.misplaced)
        return Verdict.FAIL if any(differences) else Verdict.PASS

    def as_json(self) -> dict[str, Any]:
        """Return the partition as ``mirror verify --json`` shows it; topic and partition are those of the source."""
        first = self.first_difference
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "remote_topic": self.target.topic,
            "records": self.records,
            "missing": self.missing,
            "extra": self.extra,
            "altered": self.altered,
            "reordered": self.reordered,
            "misplaced": self.misplaced,
            "foreign": self.foreign,
            "parked": self.absent(AbsenceKind.PARKED),
            "gaps": self.absent(AbsenceKind.GAP),
            "filtered": self.absent(AbsenceKind.FILTERED),
            "first_difference": None
            if first is None
            else {
                "what": first.what.value,
                "upstream_offset": first.upstream_offset,
                "downstream_offset": first.downstream_offset,
                "detail": first.detail,
            },
            "problem": self.problem,
            "verdict": self.verdict.value,
            "absences": [
                {
                    "what": each.kind.value,
                    "from": each.start,
                    "to": each.end,
                    "records": each.records,
                    "reason": each.reason,
                    "acknowledged": each.acknowledged,
                }
                for each in self.absences
            ],
        }


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The comparison of all pairs of a flow."""

    partitions: tuple[PartitionEquivalence, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the pairs; UNKNOWN if there are none."""
        return worst(pair.verdict for pair in self.partitions)

    def as_json(self) -> dict[str, Any]:
        """Return the stable contract of ``mirror verify --json``."""
        return {"verdict": self.verdict.value, "partitions": [pair.as_json() for pair in self.partitions]}


def verify(spark: SparkSession, pairs: Sequence[PartitionPair], directory: Path) -> Equivalence:
    """Read both sides of every pair into ``directory`` and compare them; the files are left there.

    Spark reads the logs; only pairs that are not obviously the same are aligned record by record.
    """
    outcomes = read_logs(spark, _ranges(pairs), directory)
    read = {(outcome.cluster, outcome.partition): outcome for outcome in outcomes}
    pairs = [_with_absences(pair, read) for pair in pairs]
    same = {number: found for number, pair in enumerate(pairs) if (found := _obviously_same(pair, read)) is not None}
    rest = [number for number in range(len(pairs)) if number not in same]
    if rest:
        aligned = compare(logs_frame(spark, outcomes), [pairs[number] for number in rest], outcomes)
        same.update(zip(rest, aligned.partitions, strict=True))
    return Equivalence(
        tuple(replace(same[number], absences=_absences(pair, read)) for number, pair in enumerate(pairs))
    )


def _with_absences(pair: PartitionPair, read: Mapping[tuple[str, TopicPartition], LogOutcome]) -> PartitionPair:
    """Return the pair with those of its absences that hold."""
    outcome = read.get((pair.source.cluster, pair.source.partition))
    known = () if outcome is None else held(pair.absences, pair.parked, pair.source, outcome.path)
    return replace(pair, absences=known)


def _absences(pair: PartitionPair, read: Mapping[tuple[str, TopicPartition], LogOutcome]) -> tuple[Absence, ...]:
    outcome = read.get((pair.source.cluster, pair.source.partition))
    return (*pair.absences, *(() if outcome is None else filtered(outcome.filtered)))


def _obviously_same(
    pair: PartitionPair, read: Mapping[tuple[str, TopicPartition], LogOutcome]
) -> PartitionEquivalence | None:
    source = read.get((pair.source.cluster, pair.source.partition))
    copy = read.get((pair.target.cluster, pair.target.partition))
    if source is None or copy is None or source.problem is not None or copy.problem is not None:
        return None
    records = same_records((pair.source, source.path), (pair.target, copy.path), pair.runs, pair.writers, pair.absences)
    return None if records is None else _equivalence(pair, records, None, read)


def _ranges(pairs: Sequence[PartitionPair]) -> list[LogRange]:
    """Return what is to be read: every partition once, also where several sources share a target."""
    wanted: dict[tuple[str, TopicPartition], LogRange] = {}
    for side in (side for pair in pairs for side in (pair.source, pair.target)):
        known = wanted.get((side.cluster, side.partition), side)
        widest = replace(side, start=min(side.start, known.start), end=max(side.end, known.end))
        wanted[side.cluster, side.partition] = widest
    return list(wanted.values())


_PAIRS = (
    LedgerColumn("pair", "int"),
    LedgerColumn("is_source", "int"),
    LedgerColumn("cluster", "string"),
    LedgerColumn("topic", "string"),
    LedgerColumn("partition", "int"),
    LedgerColumn("start", "long"),
    LedgerColumn("end", "long"),
    LedgerColumn("knows_writers", "int"),
    LedgerColumn("is_shared", "int"),
)
_WRITERS = (LedgerColumn("pair", "int"), LedgerColumn("producer_id", "long"))
_ABSENT = (LedgerColumn("absent_pair", "int"), LedgerColumn("absent_from", "long"), LedgerColumn("absent_to", "long"))
_RUNS = (
    LedgerColumn("pair", "int"),
    LedgerColumn("run_upstream", "long"),
    LedgerColumn("run_downstream", "long"),
    LedgerColumn("run_end", "long"),
)


def compare(logs: DataFrame, pairs: Sequence[PartitionPair], outcomes: Iterable[LogOutcome]) -> Equivalence:
    """Compare pairs whose two sides are in ``logs``; two Spark jobs.

    Parameters
    ----------
    outcomes
        How the reading of each partition went; a side without one was not read.
    """
    read = {(outcome.cluster, outcome.partition): outcome for outcome in outcomes}
    sides = _sides(logs, pairs)
    records = {row["pair"]: row["count"] for row in sides.where("side = 'source'").groupBy("pair").count().collect()}
    rows = {row["pair"]: row for row in _summary(_differences(_aligned(sides), pairs)).collect()}
    return Equivalence(
        tuple(_equivalence(pair, records.get(number, 0), rows.get(number), read) for number, pair in enumerate(pairs))
    )


def _sides(logs: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Return the records of all pairs by ``side``: source, copy; foreign, or intruder where none may write."""
    spark = logs.sparkSession
    sides = [
        (
            *(number, int(side is pair.source), side.cluster, side.partition.topic, side.partition.partition),
            *(side.start, side.end, int(bool(pair.writers)), int(pair.is_shared)),
        )
        for number, pair in enumerate(pairs)
        for side in (pair.source, pair.target)
    ]
    writers = [(number, writer) for number, pair in enumerate(pairs) for writer in sorted(pair.writers)]
    in_range = (F.col("offset") >= F.col("start")) & (F.col("offset") < F.col("end"))
    absent = [(number, each.start, each.end) for number, pair in enumerate(pairs) for each in pair.absences]
    is_absent = (
        (F.col("is_source") == 1)
        & (F.col("pair") == F.col("absent_pair"))
        & (F.col("offset") >= F.col("absent_from"))
        & (F.col("offset") < F.col("absent_to"))
    )
    foreign = (F.col("knows_writers") == 1) & F.col("is_writer").isNull()
    return (
        logs.join(F.broadcast(small_table(spark, _PAIRS, sides)), ["cluster", "topic", "partition"])
        .where(in_range)
        .join(F.broadcast(small_table(spark, _ABSENT, absent)), is_absent, "left_anti")
        .join(
            F.broadcast(small_table(spark, _WRITERS, writers).withColumn("is_writer", F.lit(1))),
            ["pair", "producer_id"],
            "left",
        )
        .withColumn(
            "side",
            F.when(F.col("is_source") == 1, "source")
            .when(foreign & (F.col("is_shared") == 1), "foreign")
            .when(foreign, "intruder")
            .otherwise("copy"),
        )
        .select("pair", "side", "offset", "digest", "timestamp_ms")
    )


def _aligned(sides: DataFrame) -> DataFrame:
    """Pair equal records: the n-th of a content on the source with the n-th of it in the copy."""
    content = ("pair", "digest", "timestamp_ms")
    nth = Window.partitionBy(*content, "side").orderBy("offset")
    paired = (
        sides.where("side in ('source', 'copy')")
        .withColumn("nth", F.row_number().over(nth))
        .groupBy(*content, "nth")
        .agg(
            F.max(F.when(F.col("side") == "source", F.col("offset"))).alias("upstream"),
            F.max(F.when(F.col("side") == "copy", F.col("offset"))).alias("downstream"),
        )
        .drop("nth")
        .withColumn("kind", F.lit("record"))
    )
    others = sides.where("side in ('foreign', 'intruder')").select(
        *content,
        F.lit(None).cast("long").alias("upstream"),
        F.col("offset").alias("downstream"),
        F.col("side").alias("kind"),
    )
    return paired.unionByName(others)


def _with_neighbours(aligned: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Add what stands before each record on either side, and where the offset map expects its copy."""
    runs = [
        (number, run.upstream, run.downstream, run.upstream_end)
        for number, pair in enumerate(pairs)
        for run in pair.runs
    ]
    # A run is a row in front of the records it speaks of: so the map is looked up in the order that is made anyway.
    map_rows = small_table(aligned.sparkSession, _RUNS, runs).select(
        "pair",
        F.col("run_upstream").alias("upstream"),
        F.lit("run").alias("kind"),
        F.struct("run_upstream", "run_downstream", "run_end").alias("run"),
    )
    whole = Window.partitionBy("pair")
    upstream_order = whole.orderBy(F.asc_nulls_first("upstream"), F.desc("kind"))
    downstream_order = whole.orderBy(F.asc_nulls_first("downstream"))
    before = (Window.unboundedPreceding, -1)
    is_pair = F.col("upstream").isNotNull() & F.col("downstream").isNotNull()
    run = F.col("run_before")
    expected = F.when(
        F.col("upstream") < run["run_end"], run["run_downstream"] + F.col("upstream") - run["run_upstream"]
    )
    return (
        aligned.unionByName(map_rows, allowMissingColumns=True)
        .withColumn("pair_before", F.max(F.when(is_pair, F.col("upstream"))).over(upstream_order.rowsBetween(*before)))
        .withColumn("run_before", F.last("run", ignorenulls=True).over(upstream_order.rowsBetween(*before)))
        .withColumn(
            "furthest_before", F.max(F.when(is_pair, F.col("upstream"))).over(downstream_order.rowsBetween(*before))
        )
        .withColumn(
            "pair_in_front",
            F.last(F.when(is_pair, F.col("upstream")), ignorenulls=True).over(downstream_order.rowsBetween(*before)),
        )
        .where("kind != 'run'")
        .withColumn("expected", expected)
        .withColumn("is_pair", is_pair)
    )


def _differences(aligned: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Return a row per difference; few, in a copy worth its name."""
    mapped = [number for number, pair in enumerate(pairs) if pair.runs]
    in_order_of_side = F.coalesce("upstream", "downstream")
    # What has no counterpart is known by the pair before it and its place after that: a missing one and an extra one
    # with the same neighbour and place are one record, altered.
    anchor = F.coalesce(
        F.when(F.col("upstream").isNotNull(), F.col("pair_before")).otherwise(F.col("pair_in_front")), F.lit(-1)
    )
    is_single = (F.col("kind") == "record") & ~F.col("is_pair")
    return (
        _with_neighbours(aligned, pairs)
        .withColumn(
            "is_reordered", F.col("is_pair") & F.coalesce(F.col("furthest_before") > F.col("upstream"), F.lit(False))
        )
        .withColumn(
            "is_misplaced",
            F.col("is_pair") & F.col("pair").isin(mapped) & ~F.col("downstream").eqNullSafe(F.col("expected")),
        )
        .where("not is_pair or is_reordered or is_misplaced")
        .withColumn("is_upstream", F.col("upstream").isNotNull())
        .withColumn("anchor", anchor)
        .withColumn(
            "place",
            F.when(
                is_single,
                F.row_number().over(
                    Window.partitionBy("pair", "kind", "is_pair", "is_upstream", "anchor").orderBy(in_order_of_side)
                ),
            ).otherwise(-in_order_of_side - 1),
        )
        .groupBy("pair", "kind", "anchor", "place")
        .agg(
            F.max("upstream").alias("upstream"),
            F.max("downstream").alias("downstream"),
            F.first("is_pair").alias("is_pair"),
            F.first("is_reordered").alias("is_reordered"),
            F.first("is_misplaced").alias("is_misplaced"),
            F.first("furthest_before").alias("furthest_before"),
            F.first("expected").alias("expected"),
            F.count_distinct("digest").alias("contents"),
        )
    )


def _summary(differences: DataFrame) -> DataFrame:
    """Return the differences counted per pair, with the first of them in the order of the source."""
    has_up, has_down = F.col("upstream").isNotNull(), F.col("downstream").isNotNull()
    is_single = (F.col("kind") == "record") & ~F.col("is_pair")
    is_intruder = F.col("kind") == "intruder"
    what = {
        Difference.MISSING: is_single & has_up & ~has_down,
        Difference.EXTRA: (is_single & has_down & ~has_up) | is_intruder,
        Difference.ALTERED: is_single & has_up & has_down,
        Difference.REORDERED: F.col("is_reordered"),
        Difference.MISPLACED: F.col("is_misplaced"),
    }
    name = F.coalesce(*(F.when(holds, difference.value) for difference, holds in what.items()))
    detail = (
        F.when(what[Difference.MISSING], "no record of this content and timestamp in the copy")
        .when(is_intruder, "written by a producer that is not the mirror's")
        .when(what[Difference.EXTRA], "no record of this content and timestamp at the source")
        .when(what[Difference.ALTERED] & (F.col("contents") > 1), "content differs")
        .when(what[Difference.ALTERED], "timestamp differs")
        .when(what[Difference.REORDERED], F.format_string("is behind the copy of %d", "furthest_before"))
        .when(F.col("expected").isNull(), "the offset map knows of no copy")
        .otherwise(F.format_string("the offset map says %d", "expected"))
    )
    is_difference = F.col("kind") != "foreign"
    first = F.struct(
        F.coalesce("upstream", "anchor").alias("order"),
        F.coalesce("downstream", F.lit(-1)).alias("then"),
        name.alias("what"),
        "upstream",
        "downstream",
        detail.alias("detail"),
    )
    return differences.groupBy("pair").agg(
        *(F.count_if(holds).alias(difference.value) for difference, holds in what.items()),
        F.count_if(~is_difference).alias("foreign"),
        F.min(F.when(is_difference, first)).alias("first"),
    )


def _equivalence(
    pair: PartitionPair, records: int, row: Row | None, read: Mapping[tuple[str, TopicPartition], LogOutcome]
) -> PartitionEquivalence:
    problems = []
    for side in (pair.source, pair.target):
        outcome = read.get((side.cluster, side.partition))
        if outcome is None or outcome.start > side.start or outcome.end < side.end:
            problems.append(f"{side.cluster} {side.partition} [{side.start}, {side.end}) was not read")
        elif outcome.problem is not None:
            problems.append(f"{side.cluster} {side.partition} was not read to the end: {outcome.problem}")
    counts = {difference: 0 if row is None else row[difference.value] for difference in Difference}
    first = None if row is None else row["first"]
    return PartitionEquivalence(
        source=pair.source.partition,
        target=pair.target.partition,
        # What is known to be absent was counted when it was set aside.
        records=records + sum(each.records or 0 for each in pair.absences),
        missing=counts[Difference.MISSING],
        extra=counts[Difference.EXTRA],
        altered=counts[Difference.ALTERED],
        reordered=counts[Difference.REORDERED],
        misplaced=counts[Difference.MISPLACED],
        foreign=0 if row is None else row["foreign"],
        first_difference=None
        if first is None
        else FirstDifference(Difference(first["what"]), first["upstream"], first["downstream"], first["detail"]),
        problem="; ".join(problems) or None,
    )
