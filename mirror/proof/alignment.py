"""Two logs aligned on Spark, record by record: what is missing, extra, altered, reordered or misplaced.

Invariants:

(a) What is known to be absent is taken out before records are aligned, or a like record further on would be paired
    with it.
(b) Records at their place by the map are paired first. Only then may what the bytes have shown to be equal be left out
    without changing any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.kafka.batch import NO_PRODUCER
from mirror.model.ledger import Column as LedgerColumn
from mirror.model.offset_ranges import Ranges
from mirror.model.partition import TopicPartition
from mirror.model.stretches import runs_within
from mirror.proof.comparison import Difference, Equivalence, FirstDifference, PartitionEquivalence
from mirror.proof.log_reader import LogOutcome, LogRange
from mirror.proof.one_sided import ranges_of
from mirror.proof.pairs import PartitionPair
from mirror.proof.tables import small_table

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
    LedgerColumn("own_from", "long"),
)
_WRITERS = (LedgerColumn("pair", "int"), LedgerColumn("producer_id", "long"))
_ABSENT = (LedgerColumn("absent_pair", "int"), LedgerColumn("absent_from", "long"), LedgerColumn("absent_to", "long"))
_UNMAPPED = (
    LedgerColumn("unmapped_pair", "int"),
    LedgerColumn("unmapped_from", "long"),
    LedgerColumn("unmapped_to", "long"),
)
_OWN_FROM = (LedgerColumn("pair", "int"), LedgerColumn("shared_from", "long"))
_RUNS = (
    LedgerColumn("pair", "int"),
    LedgerColumn("run_upstream", "long"),
    LedgerColumn("run_downstream", "long"),
    LedgerColumn("run_length", "long"),
)


def compare(logs: DataFrame, pairs: Sequence[PartitionPair], outcomes: Iterable[LogOutcome]) -> Equivalence:
    """Compare pairs whose two sides are in ``logs``; two Spark jobs, a third where one side has what the other lacks.

    Parameters
    ----------
    outcomes
        How the reading of each partition went; a side without one was not read.
    """
    read = {(outcome.cluster, outcome.partition): outcome for outcome in outcomes}
    sides = _sides(logs, pairs)
    records = {row["pair"]: row["count"] for row in sides.where("side = 'source'").groupBy("pair").count().collect()}
    cut = [_cut_sides(pair, read) for pair in pairs]
    differences = _provable(_differences(_aligned(sides, pairs), pairs), cut).persist()
    try:
        rows = {row["pair"]: row for row in _summary(differences).collect()}
        is_one_sided = any(row[each.value] for row in rows.values() for each in (Difference.MISSING, Difference.EXTRA))
        places = ranges_of(_one_sided(differences)) if is_one_sided else {}
    finally:
        differences.unpersist()
    found = (equivalence_of(pair, records.get(number, 0), rows.get(number), read) for number, pair in enumerate(pairs))
    return Equivalence(
        tuple(
            replace(
                each,
                missing_at=places.get((number, Difference.MISSING.value), Ranges()),
                extra_at=places.get((number, Difference.EXTRA.value), Ranges()),
            )
            for number, each in enumerate(found)
        )
    )


def _cut_sides(pair: PartitionPair, read: Mapping[tuple[str, TopicPartition], LogOutcome]) -> frozenset[Difference]:
    """Return what cannot be known of a pair: which records a side lacks that was not read to its end.

    Nor which records a compacted side lacks then: what explains that its cleaner has removed them may not have been
    read on either side. What lacks and what is extra at its place look like one that was altered.
    """
    lacking = (pair.source, Difference.EXTRA), (pair.target, Difference.MISSING)
    cut = frozenset(what for side, what in lacking if _unread(side, read) is not None)
    if not cut or pair.compaction is None:
        return cut
    cleaned = (pair.compaction.source, Difference.EXTRA), (pair.compaction.target, Difference.MISSING)
    return cut | {what for is_cleaned, what in cleaned if is_cleaned} | {Difference.ALTERED}


def _provable(differences: DataFrame, cut: Sequence[frozenset[Difference]]) -> DataFrame:
    """Leave out what only seems to be missing or extra: its counterpart may lie in what was not read of a side."""
    of_nobody = (F.col("kind") == "record") & _is_extra()
    unknowable = (Difference.EXTRA, of_nobody), (Difference.MISSING, _is_missing()), (Difference.ALTERED, _is_altered())
    for what, holds in unknowable:
        if concerned := [number for number, unknown in enumerate(cut) if what in unknown]:
            differences = differences.where(~(holds & F.col("pair").isin(concerned)))
    return differences


def _unread(side: LogRange, read: Mapping[tuple[str, TopicPartition], LogOutcome]) -> str | None:
    """Return that a side was not read to its end, and why; None if it was, or nothing of it is wanted."""
    if not side.wanted:
        return None
    outcome = read.get((side.cluster, side.partition))
    if outcome is None or outcome.start > side.start or outcome.end < side.end:
        return f"{side.cluster} {side.partition} [{side.start}, {side.end}) was not read"
    if outcome.problem is not None:
        return f"{side.cluster} {side.partition} was not read to the end: {outcome.problem}"
    return None


def _sides(logs: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Return the records of all pairs by ``side``: source, copy, foreign; foreign_extra where nobody else may write."""
    spark = logs.sparkSession
    sides = [
        (
            *(number, int(side is pair.source), side.cluster, side.partition.topic, side.partition.partition),
            *(side.start, side.end, int(bool(pair.writers)), int(pair.is_shared), pair.own_from),
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
    # Before that Java MirrorMaker has copied, without a producer id.
    is_ours = (F.col("offset") < F.col("own_from")) & (
        (F.col("is_shared") == 0) | (F.col("producer_id") == NO_PRODUCER)
    )
    foreign = (F.col("knows_writers") == 1) & F.col("is_writer").isNull() & ~is_ours
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
            .when(foreign, "foreign_extra")
            .otherwise("copy"),
        )
        .select("pair", "side", "offset", "digest", "timestamp_ms")
    )


def _aligned(sides: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Pair equal records: those that are where the offset map says, then of the others the n-th of a content."""
    content = ("pair", "digest", "timestamp_ms")
    there = Window.partitionBy(*content, "place")
    nth = Window.partitionBy(*content, "is_there", "side").orderBy("offset")
    is_one_of_each = (F.count("*").over(there) == 2) & (F.min("side").over(there) < F.max("side").over(there))
    source, copy = F.col("side") == "source", F.col("side") == "copy"
    paired = (
        _placed(sides.where(source | copy), pairs)
        .withColumn("is_there", F.col("place").isNotNull() & is_one_of_each)
        .withColumn("nth", F.when(F.col("is_there"), F.col("place")).otherwise(F.row_number().over(nth)))
        .groupBy(*content, "is_there", "nth")
        .agg(
            F.max(F.when(source, F.col("offset"))).alias("upstream"),
            F.max(F.when(copy, F.col("offset"))).alias("downstream"),
            F.max(F.when(source, F.col("place"))).alias("expected"),
        )
        .drop("is_there", "nth")
        .withColumn("kind", F.lit("record"))
    )
    # Where others may write, what is no copy and has no producer id may be theirs as well as Java MirrorMaker's.
    shared = [(number, pair.own_from) for number, pair in enumerate(pairs) if pair.is_shared and pair.own_from]
    if shared:
        is_foreign = F.col("upstream").isNull() & (F.col("downstream") < F.col("shared_from"))
        paired = (
            paired.join(F.broadcast(small_table(sides.sparkSession, _OWN_FROM, shared)), "pair", "left")
            .withColumn("kind", F.when(is_foreign, "foreign").otherwise(F.col("kind")))
            .drop("shared_from")
        )
    others = sides.where("side in ('foreign', 'foreign_extra')").select(
        *content,
        F.lit(None).cast("long").alias("upstream"),
        F.col("offset").alias("downstream"),
        F.lit(None).cast("long").alias("expected"),
        F.col("side").alias("kind"),
    )
    return paired.unionByName(others).withColumns({"last": F.col("upstream"), "length": F.lit(1).cast("long")})


def _placed(records: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Add the place in the copy: where a copied record is, and where the map says that the copy of another one is."""
    runs = [(number, *run) for number, pair in enumerate(pairs) for run in runs_within(pair.runs, pair.source.wanted)]
    # A run is a row in front of the records it speaks of.
    map_rows = small_table(records.sparkSession, _RUNS, runs).select(
        "pair",
        F.col("run_upstream").alias("offset"),
        F.lit("run").alias("side"),
        F.struct("run_upstream", "run_downstream", "run_length").alias("run"),
    )
    in_order = Window.partitionBy("pair", F.col("side") == "copy").orderBy("offset", "side")
    run = F.last("run", ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    behind = F.col("offset") - F.col("run_before.run_upstream")
    return (
        records.unionByName(map_rows, allowMissingColumns=True)
        .withColumn("run_before", run)
        .where("side != 'run'")
        .withColumn(
            "place",
            F.when(F.col("side") == "copy", F.col("offset")).when(
                behind < F.col("run_before.run_length"), F.col("run_before.run_downstream") + behind
            ),
        )
        .drop("run", "run_before")
    )


def _with_neighbours(aligned: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Add what stands before each record on either side; what is known to be equal stands there as a row a run."""
    proven = [(number, *run) for number, pair in enumerate(pairs) for run in pair.proven.runs]
    proven_rows = small_table(aligned.sparkSession, _RUNS, proven).select(
        "pair",
        F.col("run_upstream").alias("upstream"),
        F.col("run_downstream").alias("downstream"),
        F.col("run_downstream").alias("expected"),
        F.lit("proven").alias("kind"),
        (F.col("run_upstream") + F.col("run_length") - 1).alias("last"),
        F.col("run_length").alias("length"),
    )
    whole = Window.partitionBy("pair")
    before_upstream = whole.orderBy(F.asc_nulls_first("upstream")).rowsBetween(Window.unboundedPreceding, -1)
    before_downstream = whole.orderBy(F.asc_nulls_first("downstream")).rowsBetween(Window.unboundedPreceding, -1)
    is_pair = F.col("upstream").isNotNull() & F.col("downstream").isNotNull()
    last = F.when(is_pair, F.col("last"))
    return (
        aligned.unionByName(proven_rows, allowMissingColumns=True)
        .withColumn("pair_before", F.max(last).over(before_upstream))
        .withColumn("furthest_before", F.max(last).over(before_downstream))
        .withColumn("pair_in_front", F.last(last, ignorenulls=True).over(before_downstream))
        .withColumn("is_pair", is_pair)
    )


def _differences(aligned: DataFrame, pairs: Sequence[PartitionPair]) -> DataFrame:
    """Return a row per difference; few, in a copy worth its name."""
    mapped = [number for number, pair in enumerate(pairs) if pair.runs]
    unmapped = [(number, *stretch) for number, pair in enumerate(pairs) for stretch in pair.unmapped]
    is_unmapped = (
        (F.col("pair") == F.col("unmapped_pair"))
        & (F.col("upstream") >= F.col("unmapped_from"))
        & (F.col("upstream") < F.col("unmapped_to"))
    )
    in_order_of_side = F.coalesce("upstream", "downstream")
    # What has no counterpart is known by the pair before it and its place after that: a missing one and an extra one
    # with the same neighbour and place are one record, altered.
    anchor = F.coalesce(
        F.when(F.col("upstream").isNotNull(), F.col("pair_before")).otherwise(F.col("pair_in_front")), F.lit(-1)
    )
    is_single = (F.col("kind") == "record") & ~F.col("is_pair")
    return (
        _with_neighbours(aligned, pairs)
        .join(F.broadcast(small_table(aligned.sparkSession, _UNMAPPED, unmapped)), is_unmapped, "left")
        .withColumn(
            "is_reordered", F.col("is_pair") & F.coalesce(F.col("furthest_before") > F.col("upstream"), F.lit(False))
        )
        .withColumn(
            "is_misplaced",
            F.col("is_pair")
            & F.col("pair").isin(mapped)
            & F.col("unmapped_pair").isNull()
            & ~F.col("downstream").eqNullSafe(F.col("expected")),
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
            # Of several in a row those that precede the furthest copy are behind it.
            F.first(
                F.when(
                    F.col("kind") == "proven", F.least("length", F.col("furthest_before") - F.col("upstream"))
                ).otherwise(F.col("length"))
            ).alias("records"),
            F.count_distinct("digest").alias("contents"),
        )
    )


def _is_missing() -> Column:
    has_up, has_down = F.col("upstream").isNotNull(), F.col("downstream").isNotNull()
    return (F.col("kind") == "record") & ~F.col("is_pair") & has_up & ~has_down


def _is_extra() -> Column:
    has_up, has_down = F.col("upstream").isNotNull(), F.col("downstream").isNotNull()
    return ((F.col("kind") == "record") & ~F.col("is_pair") & has_down & ~has_up) | (F.col("kind") == "foreign_extra")


def _is_altered() -> Column:
    has_up, has_down = F.col("upstream").isNotNull(), F.col("downstream").isNotNull()
    return (F.col("kind") == "record") & ~F.col("is_pair") & has_up & has_down


def _one_sided(differences: DataFrame) -> DataFrame:
    """Return a row per record that only one side has: the pair, what it is, its offset on that side."""
    what = F.when(_is_missing(), Difference.MISSING.value).when(_is_extra(), Difference.EXTRA.value)
    offset = F.coalesce("upstream", "downstream").alias("offset")
    return differences.select("pair", what.alias("what"), offset).where("what is not null")


def _summary(differences: DataFrame) -> DataFrame:
    """Return the differences counted per pair, with the first of them in the order of the source."""
    is_foreign_extra = F.col("kind") == "foreign_extra"
    what = {
        Difference.MISSING: _is_missing(),
        Difference.EXTRA: _is_extra(),
        Difference.ALTERED: _is_altered(),
        Difference.REORDERED: F.col("is_reordered"),
        Difference.MISPLACED: F.col("is_misplaced"),
    }
    name = F.coalesce(*(F.when(holds, difference.value) for difference, holds in what.items()))
    detail = (
        F.when(what[Difference.MISSING], "no record of this content and timestamp in the copy")
        .when(is_foreign_extra, "written by a producer that is not the mirror's")
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
        *(F.sum(F.when(holds, F.col("records")).otherwise(0)).alias(name.value) for name, holds in what.items()),
        F.count_if(~is_difference).alias("foreign"),
        F.min(F.when(is_difference, first)).alias("first"),
    )


def equivalence_of(
    pair: PartitionPair, records: int, row: Row | None, read: Mapping[tuple[str, TopicPartition], LogOutcome]
) -> PartitionEquivalence:
    """Return what was found of one pair: ``row`` is its summary, None if it has no differences."""
    problems = [problem for side in (pair.source, pair.target) if (problem := _unread(side, read)) is not None]
    counts = {difference: 0 if row is None else row[difference.value] for difference in Difference}
    first = None if row is None else row["first"]
    return PartitionEquivalence(
        source=pair.source.partition,
        target=pair.target.partition,
        # What is known to be absent, cleaned, or equal, was counted when it was set aside.
        records=records
        + sum(each.records or 0 for each in pair.absences)
        + pair.cleaned.target
        + pair.proven.amount.records
        + (pair.remembered.amount.records if pair.remembered else 0),
        missing=counts[Difference.MISSING],
        extra=counts[Difference.EXTRA],
        altered=counts[Difference.ALTERED],
        reordered=counts[Difference.REORDERED],
        misplaced=counts[Difference.MISPLACED],
        foreign=pair.proven.foreign + (0 if row is None else row["foreign"]),
        first_difference=None
        if first is None
        else FirstDifference(Difference(first["what"]), first["upstream"], first["downstream"], first["detail"]),
        problem="; ".join(problems) or None,
        cleaned=pair.cleaned,
        not_compared=_cut_sides(pair, read),
    )
