"""Delivery: what was lost, stranded, duplicated, reordered or altered, per partition of a log and per group of readers.

Everything is a function of three tables (`mirror.model.ledger`): what was sent, what is in the logs, what was read. The
logs are read to their ends first: without that, "lost" would mean "late".

What is judged, record by record, by id (producer and sequence):

1. A record that was acked is in every log it belongs to (**lost**, or **stranded** when nothing later was copied
   either). An indeterminate send may be there or not, and is never counted as lost; whether a copy holds what its
   source holds, acked or not, is for `mirror.proof.equivalence` to say.
2. It is there once (**duplicated**), with the content, timestamp and partition it was sent with (**altered**), and
   behind all those of its partition that were before it on the cluster it was sent to (**reordered**).
3. What is there was sent there, and not refused (**unexpected**).
4. A group was handed every record before its position, which is what it has committed in the end (**lost**); what lies
   behind it is **unseen**. No record twice (**redelivered**), none for the first time after a later one of the same log
   (**reordered**), each as it was sent.
5. Of what it was handed again nothing is to lie before a position that was to be kept (**rewound**): in one log the
   position that it had committed by then; after a move to another cluster the one that was translated, which is to be
   no older than promised. So much may be read again: what was read and not committed, or not long enough ago.

A record that is put far behind its place counts as one reordered record; one that is put far ahead makes every record
it has overtaken count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses
from pyspark.storagelevel import StorageLevel

from mirror.model.ledger import Column as LedgerColumn
from mirror.model.ledger import SendStatus
from mirror.model.partition import TopicPartition
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import (
    AT_LEAST_ONCE,
    MOST_EXAMPLES,
    NOTHING_TOLERATED,
    Anomaly,
    Delivery,
    Example,
    Finding,
    PartitionCount,
)
from mirror.proof.group_move import GroupMove
from mirror.proof.tables import small_table


@dataclass(frozen=True, slots=True)
class Place:
    """A topic on a cluster."""

    cluster: str
    topic: str


@dataclass(frozen=True, slots=True)
class Route:
    """Records sent to ``sent`` must be found in ``kept``: its own log, or a remote topic that copies it."""

    sent: Place
    kept: Place

    @classmethod
    def own(cls, place: Place) -> Route:
        """Return the route of a topic to its own log."""
        return cls(place, place)


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The topics a group was to read, on every cluster where it did."""

    group: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class GroupCommits:
    """What groups have committed, as the clusters and the groups themselves say.

    Attributes
    ----------
    positions
        what they have committed in the end, by group, alias and partition. No entry: 0.
    commits
        every commit of theirs that was acknowledged (`mirror.model.ledger.COMMITS`).
    moves
        how they came from one cluster to another.
    """

    positions: Mapping[tuple[str, str, TopicPartition], int]
    commits: DataFrame
    moves: Sequence[GroupMove] = ()


_ABSENCES = frozenset({Anomaly.LOST, Anomaly.STRANDED, Anomaly.UNSEEN})
_LOG = ("cluster", "topic", "partition")
_WANTED = (LedgerColumn("group", "string"), LedgerColumn("cluster", "string"), LedgerColumn("topic", "string"))
_POSITIONS = (
    *(LedgerColumn("group", "string"), LedgerColumn("cluster", "string"), LedgerColumn("topic", "string")),
    *(LedgerColumn("partition", "int"), LedgerColumn("position", "long")),
)
_MOVES = (
    *(LedgerColumn("group", "string"), LedgerColumn("before_cluster", "string"), LedgerColumn("cluster", "string")),
    LedgerColumn("known_by_ms", "long", nullable=True),
)
_TRANSLATED = (
    *(LedgerColumn("group", "string"), LedgerColumn("before_cluster", "string"), LedgerColumn("cluster", "string")),
    *(LedgerColumn("topic", "string"), LedgerColumn("partition", "int"), LedgerColumn("upstream", "long")),
)
_ROUTES = (
    LedgerColumn("sent_cluster", "string"),
    LedgerColumn("sent_topic", "string"),
    LedgerColumn("cluster", "string"),
    LedgerColumn("topic", "string"),
    LedgerColumn("is_own", "int"),
)


def judge_logs(
    sends: DataFrame,
    logs: DataFrame,
    routes: Sequence[Route],
    *,
    tolerated: Set[Anomaly] = NOTHING_TOLERATED,
    gaps: Sequence[MissingEvidence] = (),
) -> Delivery:
    """Judge the logs of ``routes`` by what was sent: two Spark jobs.

    Parameters
    ----------
    sends, logs
        Tables of the ledger; rows of topics that no route names are ignored.
    tolerated
        Anomalies that are found and told, but are no failure.
    gaps
        What is known to be missing of the evidence.
    """
    kept = logs.join(F.broadcast(_places(logs, (route.kept for route in routes))), ["cluster", "topic"], "left_semi")
    judged = _with_order(_matched(_expected(sends, routes), kept)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found_others = kept.where("producer is null").groupBy(*_LOG).agg(F.count("*").alias("others"))
        counts = (
            judged.groupBy(*_LOG)
            .agg(
                F.count_if(F.col("status") == SendStatus.ACKED.value).alias("expected"),
                F.sum(F.coalesce("times", F.lit(0))).alias("found"),
            )
            .join(found_others, list(_LOG), "full_outer")
            .withColumn("group", F.lit(None))
            .collect()
        )
        cases = judged.select(*_LOG, F.lit(None).cast("string").alias("group"), F.explode(_log_cases()).alias("case"))
        findings = _findings(cases, tolerated, gaps)
    finally:
        judged.unpersist()
    return Delivery(_counts(counts), findings, tuple(gaps))


def judge_groups(
    reads: DataFrame,
    sends: DataFrame,
    logs: DataFrame,
    groups: Sequence[GroupReading],
    group_commits: GroupCommits,
    *,
    tolerated: Set[Anomaly] = AT_LEAST_ONCE,
    gaps: Sequence[MissingEvidence] = (),
) -> Delivery:
    """Judge what groups were handed by what the logs hold, what was sent, and where they stand: two Spark jobs.

    A record counts as read by a group wherever it read it: on the cluster it was sent to, or its copy on another. A
    group is taken to have begun at the start of the logs.
    """
    rows = [(each.group, place.cluster, place.topic) for each in groups for place in each.places]
    wanted = F.broadcast(small_table(reads.sparkSession, _WANTED, rows))
    relevant = reads.join(wanted, ["group", "cluster", "topic"], "left_semi")
    # Both are asked for more than once.
    history = _read_history(relevant, sends).persist(StorageLevel.MEMORY_AND_DISK)
    in_logs = _log_records_of_groups(logs.join(wanted, ["cluster", "topic"]), group_commits, history)
    in_logs = in_logs.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = (
            in_logs.groupBy("group", *_LOG)
            .agg(
                F.count_if(F.col("producer").isNotNull()).alias("expected"),
                F.count_if(F.col("was_read") & F.col("producer").isNotNull()).alias("found"),
                F.count_if(F.col("producer").isNull()).alias("others"),
            )
            .collect()
        )
        cases = (
            _absent_cases(in_logs)
            .unionByName(_handed_cases(history))
            .unionByName(_rewound_cases(relevant, group_commits))
        )
        findings = _findings(cases, tolerated, gaps)
    finally:
        in_logs.unpersist()
        history.unpersist()
    return Delivery(_counts(counts), findings, tuple(gaps))


def _places(like: DataFrame, places: Iterable[Place]) -> DataFrame:
    rows = sorted({(place.cluster, place.topic) for place in places})
    return small_table(like.sparkSession, _WANTED[1:], rows)


def _expected(sends: DataFrame, routes: Sequence[Route]) -> DataFrame:
    """Return a row per send and log it belongs to, named as that log is."""
    rows = [
        (route.sent.cluster, route.sent.topic, route.kept.cluster, route.kept.topic, int(route.sent == route.kept))
        for route in routes
    ]
    table = small_table(sends.sparkSession, _ROUTES, rows).withColumn("is_own", F.col("is_own") == 1)
    sent = sends.select(
        F.col("cluster").alias("sent_cluster"),
        F.col("topic").alias("sent_topic"),
        F.col("partition").alias("sent_partition"),
        F.when(F.col("offset") >= 0, F.col("offset")).alias("sent_offset"),
        F.col("digest").alias("sent_digest"),
        F.col("timestamp_ms").alias("sent_timestamp_ms"),
        "producer",
        "sequence",
        "status",
    )
    return sent.join(F.broadcast(table), ["sent_cluster", "sent_topic"]).drop("sent_cluster", "sent_topic")


def _matched(expected: DataFrame, kept: DataFrame) -> DataFrame:
    """Return what was sent side by side with the first place it was found at; ``times`` says how often it was."""
    found = (
        kept.where("producer is not null")
        .groupBy("cluster", "topic", "producer", "sequence")
        .agg(
            F.min(F.struct("offset", F.col("partition").alias("found_partition"), "timestamp_ms", "digest")).alias(
                "at"
            ),
            F.max("offset").alias("last_offset"),
            F.count("*").alias("times"),
        )
        .select("cluster", "topic", "producer", "sequence", "at.*", "last_offset", "times")
    )
    return expected.join(found, ["cluster", "topic", "producer", "sequence"], "full_outer").withColumn(
        "partition", F.coalesce("sent_partition", "found_partition")
    )


def _with_order(matched: DataFrame) -> DataFrame:
    """Add, per partition, what every record is behind of: by the offsets it had first, and by its producer's count."""
    whole = Window.partitionBy(*_LOG)
    before = (Window.unboundedPreceding, -1)
    by_offset = whole.orderBy("offset").rowsBetween(*before)
    by_producer = Window.partitionBy(*_LOG, "producer").orderBy("offset").rowsBetween(*before)
    in_place = F.col("times").isNotNull() & (F.col("sent_partition") == F.col("found_partition"))
    return (
        matched.withColumn("last_copied", F.max(F.when(F.col("times").isNotNull(), F.col("sent_offset"))).over(whole))
        .withColumn("highest_before", F.max(F.when(in_place, F.col("sent_offset"))).over(by_offset))
        .withColumn("sequence_before", F.max(F.when(in_place, F.col("sequence"))).over(by_producer))
        .withColumn("in_place", F.coalesce(in_place, F.lit(False)))
    )


def _case(condition: Column, anomaly: Anomaly, detail: Column, badness: Column | None = None) -> Column:
    """Return a case where the condition holds, null elsewhere."""
    return F.when(
        condition,
        F.struct(
            F.lit(anomaly.value).alias("anomaly"),
            F.col("producer"),
            F.col("sequence"),
            F.col("offset"),
            detail.alias("detail"),
            F.coalesce(badness if badness is not None else F.lit(0), F.lit(0)).cast("long").alias("badness"),
        ),
    )


def _difference() -> Column:
    """Return what a record differs in from what was sent, in words; empty when in nothing."""
    acked = F.col("status") == SendStatus.ACKED.value
    return F.concat_ws(
        "; ",
        F.when(F.col("digest") != F.col("sent_digest"), F.lit("content differs")),
        F.when(
            # Of a send that was not acked it is not known which timestamp the broker has given it.
            acked & (F.col("timestamp_ms") != F.col("sent_timestamp_ms")),
            F.format_string("timestamp is %d, was %d", F.col("timestamp_ms"), F.col("sent_timestamp_ms")),
        ),
        F.when(
            F.col("found_partition") != F.col("sent_partition"),
            F.format_string("is in partition %d", F.col("found_partition")),
        ),
        F.when(
            F.col("is_own") & (F.col("times") == 1) & (F.col("offset") != F.col("sent_offset")),
            F.format_string("was acked at offset %d", F.col("sent_offset")),
        ),
    )


def _log_cases() -> Column:
    is_found = F.col("times").isNotNull()
    is_absent = (F.col("status") == SendStatus.ACKED.value) & ~is_found
    is_tail = ~F.col("is_own") & (
        F.col("last_copied").isNull() | (F.coalesce("sent_offset", F.lit(-1)) > F.col("last_copied"))
    )
    acked_at = F.format_string("acked at offset %d", F.col("sent_offset"))
    overtaken_by = F.when(F.col("highest_before") > F.col("sent_offset"), F.col("highest_before"))
    behind_own = F.when(F.col("sequence_before") > F.col("sequence"), F.col("sequence_before"))
    cases = [
        _case(is_absent & ~is_tail, Anomaly.LOST, acked_at, -F.col("sent_offset")),
        _case(is_absent & is_tail, Anomaly.STRANDED, acked_at, -F.col("sent_offset")),
        _case(
            F.col("times") > 1,
            Anomaly.DUPLICATED,
            F.format_string("there %d times, last at offset %d", F.col("times"), F.col("last_offset")),
            F.col("times"),
        ),
        _case(
            F.col("in_place") & F.coalesce(overtaken_by, behind_own).isNotNull(),
            Anomaly.REORDERED,
            F.when(
                overtaken_by.isNotNull(),
                F.format_string("was at offset %d and is behind the one that was at %d", "sent_offset", overtaken_by),
            ).otherwise(F.format_string("is behind number %d of the same producer", behind_own)),
            F.coalesce(overtaken_by - F.col("sent_offset"), behind_own - F.col("sequence")),
        ),
        _case(is_found & (F.length(_difference()) > 0), Anomaly.ALTERED, _difference()),
        _case(
            is_found & F.col("status").isNull(), Anomaly.UNEXPECTED, F.lit("not in the ledger of what was sent here")
        ),
        _case(
            is_found & (F.col("status") == SendStatus.FAILED.value),
            Anomaly.UNEXPECTED,
            F.lit("refused when it was sent, says the ledger"),
        ),
    ]
    return F.array_compact(F.array(*cases))


def _read_history(reads: DataFrame, sends: DataFrame) -> DataFrame:
    """Return a row per group and record it was handed: the first reading of it, the last one, and what was sent."""
    moment = ("read_at_ms", "consumer", "read_number", *_LOG, "offset")
    read = (
        reads.where("producer is not null")
        .groupBy("group", "producer", "sequence")
        .agg(
            F.min(F.struct(*moment, "digest", "timestamp_ms")).alias("first"),
            F.max(F.struct(*moment)).alias("last"),
            F.count("*").alias("times"),
        )
        .select("group", "producer", "sequence", "first.*", "last", "times")
    )
    sent = sends.select(
        "producer",
        "sequence",
        "status",
        F.col("digest").alias("sent_digest"),
        F.col("timestamp_ms").alias("sent_timestamp_ms"),
    )
    in_order_of_reading = (
        Window.partitionBy("group", *_LOG)
        .orderBy("read_at_ms", "consumer", "read_number")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return read.join(sent, ["producer", "sequence"], "left").withColumn(
        "highest_before", F.max("offset").over(in_order_of_reading)
    )


def _handed_cases(history: DataFrame) -> DataFrame:
    """Return what is wrong with what groups were handed; a redelivery is reported where it happened last."""
    again = _case(
        F.col("times") > 1,
        Anomaly.REDELIVERED,
        F.format_string("handed out %d times, first on %s as %s-%d", "times", "cluster", "topic", "partition"),
        F.col("times"),
    )
    late = _case(
        F.col("highest_before") > F.col("offset"),
        Anomaly.REORDERED,
        F.format_string("read for the first time after offset %d", "highest_before"),
        F.col("highest_before") - F.col("offset"),
    )
    content = F.col("digest") != F.col("sent_digest")
    moved = (F.col("status") == SendStatus.ACKED.value) & (F.col("timestamp_ms") != F.col("sent_timestamp_ms"))
    changed = _case(content, Anomaly.ALTERED, F.lit("content differs"))
    stamped = _case(
        ~content & moved,
        Anomaly.ALTERED,
        F.format_string("timestamp is %d, was %d", "timestamp_ms", "sent_timestamp_ms"),
    )
    at_first = history.select(*_LOG, "group", F.explode(F.array_compact(F.array(late, changed, stamped))).alias("case"))
    at_last = history.select(*(F.col(f"last.{name}").alias(name) for name in _LOG), "group", again.alias("case")).where(
        "case is not null"
    )
    return at_first.unionByName(at_last)


def _rewound_cases(reads: DataFrame, group_commits: GroupCommits) -> DataFrame:
    """Return the readings of records that a position that was to be kept lies behind."""
    spark, names = reads.sparkSession, (*_LOG, "offset")
    in_order = Window.partitionBy("group", "producer", "sequence").orderBy("read_at_ms", "consumer", "read_number")
    again = (
        reads.where("producer is not null")
        .select("group", *names, "producer", "sequence", "read_at_ms", "consumer", "read_number")
        .withColumns({f"before_{name}": F.lag(name).over(in_order) for name in names})
        .where("before_offset is not null")
        .withColumn("stayed", F.struct(*_LOG) == F.struct(*(F.col(f"before_{name}").alias(name) for name in _LOG)))
    )
    moves = [(each.group, each.source, each.target, each.known_by_ms) for each in group_commits.moves]
    translated = [
        (each.group, each.source, each.target, *partition, upstream)
        for each in group_commits.moves
        for partition, upstream in each.upstream.items()
    ]
    ways = small_table(spark, _MOVES, moves).withColumn("was_moved", F.lit(True))
    positions = small_table(spark, _TRANSLATED, translated)
    judged = again.join(F.broadcast(ways), ["group", "before_cluster", "cluster"], "left").join(
        F.broadcast(positions), ["group", "before_cluster", "cluster", "topic", "partition"], "left"
    )
    # A commit in the log where the record was read before: the same log, or the one the group came from.
    commits = group_commits.commits.select(
        "group", *(F.col(name).alias(f"before_{name}") for name in _LOG), "position", "committed_at_ms"
    )
    until = F.when(F.col("stayed"), F.col("read_at_ms")).otherwise(
        F.when(F.col("was_moved"), F.coalesce("known_by_ms", F.lit(0)))
    )
    judged = (
        judged.withColumn("until_ms", until)
        .join(
            F.broadcast(commits.withColumnsRenamed({name: f"commit_{name}" for name in commits.columns})),
            F.expr(
                "group = commit_group and before_cluster = commit_before_cluster and before_topic = commit_before_topic"
                " and before_partition = commit_before_partition and commit_position > before_offset"
                " and commit_committed_at_ms < until_ms"
            ),
            "left",
        )
        .groupBy("group", *names, "producer", "sequence", "before_cluster", "before_topic", "before_partition")
        .agg(
            F.first("stayed").alias("stayed"),
            F.first("was_moved").alias("was_moved"),
            F.first("upstream").alias("upstream"),
            F.min("before_offset").alias("before_offset"),
            F.max("commit_position").alias("committed"),
        )
    )
    was = F.format_string("%s %s-%d", "before_cluster", "before_topic", "before_partition")
    detail = (
        F.when(F.col("committed").isNotNull(), F.format_string("it had committed %d on %s", "committed", was))
        .when(
            ~F.col("stayed") & F.col("was_moved").isNull(),
            F.concat(F.lit("it was never moved from "), "before_cluster"),
        )
        .when(
            ~F.col("stayed") & (F.col("before_offset") < F.col("upstream")),
            F.format_string("it was %d on %s, and the group was moved from %d there", "before_offset", was, "upstream"),
        )
    )
    case = _case(detail.isNotNull(), Anomaly.REWOUND, detail, -F.col("before_offset"))
    return judged.select(*_LOG, "group", case.alias("case")).where("case is not null")


def _log_records_of_groups(logs: DataFrame, group_commits: GroupCommits, history: DataFrame) -> DataFrame:
    """Return a row per group and record of the logs it was to read: the group's position, and whether it read it."""
    rows = [(group, cluster, *partition, at) for (group, cluster, partition), at in group_commits.positions.items()]
    positions = small_table(logs.sparkSession, _POSITIONS, rows)
    was_read = history.select("group", "producer", "sequence", F.lit(True).alias("was_read"))
    return (
        logs.select("group", *_LOG, "offset", "producer", "sequence")
        .join(F.broadcast(positions), ["group", *_LOG], "left")
        .join(was_read, ["group", "producer", "sequence"], "left")
        .withColumn("position", F.coalesce("position", F.lit(0)))
        .withColumn("was_read", F.coalesce("was_read", F.lit(False)))
    )


def _absent_cases(in_logs: DataFrame) -> DataFrame:
    """Return the records that groups were not handed."""
    position = F.format_string("the group is at %d", "position")
    passed = F.col("offset") < F.col("position")
    case = F.coalesce(
        _case(passed, Anomaly.LOST, position, -F.col("offset")),
        _case(~passed, Anomaly.UNSEEN, position, -F.col("offset")),
    )
    return in_logs.where("producer is not null and not was_read").select(*_LOG, "group", case.alias("case"))


def _findings(cases: DataFrame, tolerated: Set[Anomaly], gaps: Sequence[MissingEvidence]) -> tuple[Finding, ...]:
    """Return the cases counted per anomaly and partition, with the worst of each."""
    kind = ["group", *_LOG, "anomaly"]
    same = Window.partitionBy(*kind)
    worst_first = same.orderBy(F.desc("badness"), F.asc_nulls_last("offset"), "producer", "sequence")
    rows = (
        cases.select("group", *_LOG, "case.*")
        .withColumn("rank", F.row_number().over(worst_first))
        .withColumn("count", F.count("*").over(same))
        .where(F.col("rank") <= MOST_EXAMPLES)
        .collect()
    )
    rows.sort(key=lambda row: (row["group"] or "", *(row[name] for name in kind[1:]), row["rank"]))
    return tuple(
        _finding(list(alike), tolerated, gaps)
        for _, alike in groupby(rows, key=lambda row: tuple(row[name] for name in kind))
    )


def _finding(rows: Sequence[Row], tolerated: Set[Anomaly], gaps: Sequence[MissingEvidence]) -> Finding:
    first = rows[0]
    anomaly = Anomaly(first["anomaly"])
    partition = TopicPartition(first["topic"], first["partition"])
    log_is_short = any(gap.log == (first["cluster"], partition) for gap in gaps)
    ledger_is_short = any(gap.log is None for gap in gaps)
    if anomaly in _ABSENCES:
        is_proven = not log_is_short and not (first["group"] and ledger_is_short)
    else:
        is_proven = not (anomaly is Anomaly.UNEXPECTED and ledger_is_short)
    return Finding(
        anomaly=anomaly,
        cluster=first["cluster"],
        partition=partition,
        group=first["group"],
        count=first["count"],
        examples=tuple(Example(row["producer"], row["sequence"], row["offset"], row["detail"]) for row in rows),
        is_tolerated=anomaly in tolerated,
        is_proven=is_proven,
    )


def _counts(rows: Iterable[Row]) -> tuple[PartitionCount, ...]:
    counted = [
        PartitionCount(
            cluster=row["cluster"],
            partition=TopicPartition(row["topic"], row["partition"]),
            group=row["group"],
            expected=row["expected"] or 0,
            found=row["found"] or 0,
            without_ledger=row["others"] or 0,
        )
        for row in rows
    ]
    return tuple(sorted(counted, key=lambda each: (each.group or "", each.cluster, each.partition)))
