"""Content equivalence: is a remote partition, record by record, what its source partition is?

Where a batch was passed on as it was, its bytes say so (`mirror.proof.raw_batches`). Of everything else both sides are
read to (offset, digest, timestamp) and aligned on Spark: equal records are paired where the offset map says, the others
by content in order, so one that is missing does not make all behind it look wrong. What remains on one side only is
**missing** or **extra**; where one of each stands between the same pairs, it is one record that was **altered**. Pairs
out of order are **reordered**. What the flow says that the copy lacks, and is as it says, is not missing but counted by
itself: **parked**, in **gaps**, **filtered**; so is what one side of a compacted topic lacks because its log cleaner
has removed it: **cleaned**. Where the exact offset map is known, a pair that is not where the map says is
**misplaced**: the copy is right, and positions translated with that map are not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name all of Spark's documentation uses

from mirror.kafka.batch import NO_PRODUCER
from mirror.model.absences import Absence, AbsenceKind
from mirror.model.ledger import Column as LedgerColumn
from mirror.model.offset_map import Chunk, Runs
from mirror.model.offset_ranges import Ranges
from mirror.model.partition import TopicPartition
from mirror.model.progress import Watch, nobody
from mirror.model.stretches import Stretch, between, runs_within, united
from mirror.model.verdict import Verdict, worst
from mirror.proof.declared_gaps import filtered, held
from mirror.proof.fast_path import same_records
from mirror.proof.left_out import LeftOut, unchecked
from mirror.proof.log_reader import LogOutcome, LogRange, logs_frame, read_logs
from mirror.proof.one_sided import ranges_of
from mirror.proof.pairs import NOTHING, Amount, Cleaned, Mark, PartitionPair, Proven, total
from mirror.proof.raw_batches import RawFinding
from mirror.proof.raw_reader import compare_batches
from mirror.proof.set_aside import Remaining, set_aside
from mirror.proof.tables import small_table


class Difference(StrEnum):
    """How two partitions differ at one record."""

    MISSING = "missing"
    EXTRA = "extra"
    ALTERED = "altered"
    REORDERED = "reordered"
    MISPLACED = "misplaced"


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first place where source and target differ; an offset is None on the side that has no such record."""

    what: Difference
    upstream_offset: int | None
    downstream_offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared of a pair, and how.

    Attributes
    ----------
    source, target
        the offsets on both sides; where they end is the fixed point up to which a flow that goes on was compared.
    by_bytes, by_record, remembered
        what was found equal by the bytes of its batches, what was compared record by record, and what was not read
        because it was compared earlier.
    last, target_last
        the last data batches of what was compared; None if there are none.
    is_by_batches
        whether the batches of both logs were read to their ends; if not, the last ones are not known.
    notes
        what else there is to know of the way it was compared.
    """

    source: Stretch = (0, 0)
    target: Stretch = (0, 0)
    by_bytes: Amount = NOTHING
    by_record: Amount = NOTHING
    remembered: Amount = NOTHING
    last: Mark | None = None
    target_last: Mark | None = None
    is_by_batches: bool = False
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the ends of what was compared, and how."""
        return {
            "upstream_start": self.source[0],
            "upstream_end": self.source[1],
            "downstream_start": self.target[0],
            "downstream_end": self.target[1],
            "compared": _amounts(self.by_bytes, self.by_record, self.remembered),
            "notes": list(self.notes),
        }


def _amounts(by_bytes: Amount, by_record: Amount, remembered: Amount) -> dict[str, dict[str, int]]:
    named = {"by_bytes": by_bytes, "by_record": by_record, "remembered": remembered}
    return {name: {"records": records, "bytes": size} for name, (records, size) in named.items()}


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
    compared
        up to where, and how.
    cleaned
        what one side lacks because its log cleaner has removed it; none of it is missing or extra.
    missing_at, extra_at
        where those records lie: offsets of the source, and of the copy.
    not_compared
        what could not be told, because the side that would show it was not read to its end: what is missing in a copy,
        what is extra by a source. Of those the counts have only what was found in another way.
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
    compared: Compared = Compared()  # frozen
    cleaned: Cleaned = Cleaned()  # noqa: RUF009  # frozen
    missing_at: Ranges = Ranges()  # noqa: RUF009  # frozen
    extra_at: Ranges = Ranges()  # noqa: RUF009  # frozen
    not_compared: frozenset[Difference] = frozenset()

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

    def _told(self, what: Difference, records: int) -> int | None:
        return None if what in self.not_compared and not records else records

    def as_json(self) -> dict[str, Any]:
        """Return the partition as ``mirror verify --json`` shows it; topic and partition are those of the source.

        What is missing or extra is null where it was not compared.
        """
        first = self.first_difference
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "remote_topic": self.target.topic,
            "records": self.records,
            "missing": self._told(Difference.MISSING, self.missing),
            "extra": self._told(Difference.EXTRA, self.extra),
            "altered": self.altered,
            "reordered": self.reordered,
            "misplaced": self.misplaced,
            "foreign": self.foreign,
            "parked": self.absent(AbsenceKind.PARKED),
            "gaps": self.absent(AbsenceKind.GAP),
            "filtered": self.absent(AbsenceKind.FILTERED),
            "cleaned": self.cleaned.records,
            "cleaned_by": {"source": self.cleaned.source, "target": self.cleaned.target},
            "first_difference": None
            if first is None
            else {
                "what": first.what.value,
                "upstream_offset": first.upstream_offset,
                "downstream_offset": first.downstream_offset,
                "detail": first.detail,
            },
            "missing_at": self.missing_at.as_json(),
            "extra_at": self.extra_at.as_json(),
            "problem": self.problem,
            "verdict": self.verdict.value,
            **self.compared.as_json(),
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
    """The comparison of all pairs of a flow.

    Attributes
    ----------
    seconds
        how long it took.
    cpu_seconds
        CPU time of the tasks that compared batches.
    left_out
        what was not compared, and why.
    """

    partitions: tuple[PartitionEquivalence, ...]
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    left_out: tuple[LeftOut, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of the pairs; UNKNOWN if there are none, or if something was not checked and none is wrong."""
        pairs = (pair.verdict for pair in self.partitions)
        return worst((*pairs, *(Verdict.UNKNOWN for _ in unchecked(self.left_out))))

    @property
    def by_bytes(self) -> Amount:
        """What was found equal by the bytes of its batches."""
        return total(pair.compared.by_bytes for pair in self.partitions)

    @property
    def by_record(self) -> Amount:
        """What was compared record by record."""
        return total(pair.compared.by_record for pair in self.partitions)

    @property
    def remembered(self) -> Amount:
        """What was compared earlier, and not again."""
        return total(pair.compared.remembered for pair in self.partitions)

    @property
    def mb_per_second(self) -> float:
        """Return how much of the source was compared in a second, in 10^6 bytes."""
        size = self.by_bytes.size_bytes + self.by_record.size_bytes
        return size / 1e6 / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the stable contract of ``mirror verify --json``."""
        return {
            "verdict": self.verdict.value,
            "compared": {
                **_amounts(self.by_bytes, self.by_record, self.remembered),
                "seconds": round(self.seconds, 3),
                "mb_per_second": round(self.mb_per_second, 1),
            },
            "partitions": [pair.as_json() for pair in self.partitions],
            "left_out": [each.as_json() for each in self.left_out],
        }


def verify(spark: SparkSession, pairs: Sequence[PartitionPair], directory: Path, watch: Watch = nobody) -> Equivalence:
    """Compare both sides of every pair; records that had to be read are left in ``directory``.

    Spark reads the logs: first as batches, then the records of what their bytes do not show to be equal. Only pairs
    whose records are not obviously the same are aligned record by record; where a side is compacted, after what its
    cleaner explains was set aside.
    """
    began = time.monotonic()
    found, cpu_seconds = compare_batches(spark, _by_bytes(pairs), watch)
    whole = pairs
    pairs = [narrowed(pair, found[number]) if number in found else pair for number, pair in enumerate(whole)]
    read = _by_partition(read_logs(spark, _ranges(pairs), directory, watch))
    pairs = [_with_absences(pair, read) for pair in pairs]
    same = {number: equal for number, pair in enumerate(pairs) if (equal := _obviously_same(pair, read)) is not None}
    thinned = _thinned(whole, same)
    left = {number: _remaining(pairs[number], read) for number in thinned if _is_read_whole(pairs[number])}
    explained = {number: each for number, each in left.items() if each is not None and each.equal is not None}
    if anew := [number for number in thinned if number not in explained]:
        # What explains may lie in what was not read; and a cleaner may have been at work while a log was read.
        asked = {number: _read_whole(whole[number]) for number in anew}
        read |= _by_partition(read_logs(spark, _ranges(list(asked.values())), directory / "whole", watch))
        for number in anew:
            pairs[number] = _with_absences(asked[number], read)
            if (remaining := _remaining(pairs[number], read)) is not None:
                explained[number] = remaining
    for number, each in explained.items():
        pairs[number] = each.pair
        read |= _by_partition((each.source, each.copy))
        if each.equal is not None:
            same[number] = _equivalence(each.pair, each.equal, None, read)
    rest = [number for number in range(len(pairs)) if number not in same]
    if rest:
        watch("comparing records", 0, 1)
        aligned = compare(logs_frame(spark, read.values()), [pairs[number] for number in rest], read.values())
        same.update(zip(rest, aligned.partitions, strict=True))
        watch("comparing records", 1, 1)
    return Equivalence(
        tuple(
            replace(
                same[number],
                absences=_absences(pair, read),
                compared=_compared(pair, same[number].records, found.get(number), read),
            )
            for number, pair in enumerate(pairs)
        ),
        time.monotonic() - began,
        cpu_seconds,
    )


def _by_bytes(pairs: Sequence[PartitionPair]) -> dict[int, PartitionPair]:
    """Return, by number, the pairs whose batches may show what they are: copied as they are, to known places.

    Where several sources share a target each needs all of it: their records are compared.
    """
    return {number: to_compare(pairs[number]) for number in _alone(pairs) if pairs[number].source.transform is None}


def _alone(pairs: Sequence[PartitionPair]) -> list[int]:
    """Return the numbers of the pairs that know their places, and share neither side with another pair."""
    readers = Counter((side.cluster, side.partition) for pair in pairs for side in (pair.source, pair.target))
    return [
        number
        for number, pair in enumerate(pairs)
        if pair.runs and all(readers[side.cluster, side.partition] == 1 for side in (pair.source, pair.target))
    ]


def _thinned(pairs: Sequence[PartitionPair], same: Collection[int]) -> list[int]:
    """Return the numbers of the pairs whose logs may differ because they are compacted."""
    return [number for number in _alone(pairs) if pairs[number].compaction is not None and number not in same]


def _read_whole(pair: PartitionPair) -> PartitionPair:
    """Return the pair with all of it to be read: a later record of a key may be anywhere, also behind the range.

    What transforms make of a record that is not copied yet is not looked at: they may leave it out, or fail on it.
    """
    beyond = 0 if pair.compaction is None or pair.source.transform else pair.compaction.source_end
    notes = pair.notes
    if pair.remembered is not None:
        notes += ("all of it was compared anew: only that shows what the log cleaner has removed",)
    return replace(pair, source=replace(pair.source, beyond=beyond), remembered=None, notes=notes)


def _is_read_whole(pair: PartitionPair) -> bool:
    """Whether nothing was left out of the reading because it is known to be equal, or of others."""
    return pair.remembered is None and pair.proven == Proven()


def _remaining(pair: PartitionPair, read: Mapping[tuple[str, TopicPartition], LogOutcome]) -> Remaining | None:
    """Return what the log cleaner does not explain of a pair that was read whole; None if a side could not be read."""
    source, copy = (read.get((side.cluster, side.partition)) for side in (pair.source, pair.target))
    if source is None or copy is None or source.problem is not None or copy.problem is not None:
        return None
    return set_aside(pair, source, copy)


def _by_partition(outcomes: Iterable[LogOutcome]) -> dict[tuple[str, TopicPartition], LogOutcome]:
    return {(outcome.cluster, outcome.partition): outcome for outcome in outcomes}


def to_compare(pair: PartitionPair) -> PartitionPair:
    """Return the pair without what is remembered."""
    if pair.remembered is None:
        return pair
    source_end, target_end = pair.remembered.source_end, pair.remembered.target_end
    return replace(pair, source=replace(pair.source, start=source_end), target=replace(pair.target, start=target_end))


def narrowed(pair: PartitionPair, found: RawFinding) -> PartitionPair:
    """Return the pair with nothing to be read but what its batches have not shown to be equal.

    What is said to be absent is read also where the pair was compared earlier: it must still be as it is said.
    """
    earlier = pair.source.start if pair.remembered is None else pair.remembered.source_end
    absent = united(pair.absent, pair.source.start, earlier)
    rest = (*absent, *found.rest)
    runs = Runs()
    if rest or found.target_backoff:
        before = runs_within(pair.runs, between(absent, pair.source.start, earlier))
        runs = Runs([Chunk.of(before), *found.equal])
    foreign = found.foreign + (pair.remembered.foreign if pair.remembered else 0)
    return replace(
        pair,
        source=replace(pair.source, stretches=rest),
        target=replace(pair.target, stretches=found.target_backoff),
        proven=Proven(found.amount, foreign, runs),
    )


def _compared(
    pair: PartitionPair, records: int, found: RawFinding | None, read: Mapping[tuple[str, TopicPartition], LogOutcome]
) -> Compared:
    """Return how a pair with so many records was compared."""
    outcome = read.get((pair.source.cluster, pair.source.partition))
    remembered = pair.remembered.amount if pair.remembered else NOTHING
    rest = records - pair.proven.amount.records - remembered.records
    notes = pair.notes
    if found is not None and found.problem is not None:
        notes += (f"batches could not be read to the end ({found.problem}): the records behind were compared instead",)
    return Compared(
        (pair.source.start, pair.source.end),
        (pair.target.start, pair.target.end),
        pair.proven.amount,
        Amount(rest, outcome.size_bytes if outcome else 0),
        remembered,
        found.last if found else None,
        found.target_last if found else None,
        found is not None and found.problem is None,
        notes,
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
    if not pair.source.wanted and not pair.target.wanted:
        return _equivalence(pair, 0, None, read)
    source = read.get((pair.source.cluster, pair.source.partition))
    copy = read.get((pair.target.cluster, pair.target.partition))
    if source is None or copy is None or source.problem is not None or copy.problem is not None:
        return None
    records = same_records(
        (pair.source, source.path), (pair.target, copy.path), pair.runs, pair.writers, pair.absences, pair.own_from
    )
    return None if records is None else _equivalence(pair, records, None, read)


def _ranges(pairs: Sequence[PartitionPair]) -> list[LogRange]:
    """Return what is to be read: every partition once, also where several sources share a target."""
    wanted: dict[tuple[str, TopicPartition], LogRange] = {}
    for side in (side for pair in pairs for side in (pair.source, pair.target) if side.wanted):
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
    found = (_equivalence(pair, records.get(number, 0), rows.get(number), read) for number, pair in enumerate(pairs))
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
    """Return what cannot be told of a pair: which records a side lacks that was not read to its end."""
    lacking = (pair.source, Difference.EXTRA), (pair.target, Difference.MISSING)
    return frozenset(what for side, what in lacking if _unread(side, read) is not None)


def _provable(differences: DataFrame, cut: Sequence[frozenset[Difference]]) -> DataFrame:
    """Leave out what only seems to be missing or extra: its counterpart may lie in what was not read of a side."""
    of_nobody = (F.col("kind") == "record") & _is_extra()
    for what, holds in ((Difference.EXTRA, of_nobody), (Difference.MISSING, _is_missing())):
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
    """Return the records of all pairs by ``side``: source, copy; foreign, or intruder where none may write."""
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
            .when(foreign, "intruder")
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
        is_of_others = F.col("upstream").isNull() & (F.col("downstream") < F.col("shared_from"))
        paired = (
            paired.join(F.broadcast(small_table(sides.sparkSession, _OWN_FROM, shared)), "pair", "left")
            .withColumn("kind", F.when(is_of_others, "foreign").otherwise(F.col("kind")))
            .drop("shared_from")
        )
    others = sides.where("side in ('foreign', 'intruder')").select(
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
    return ((F.col("kind") == "record") & ~F.col("is_pair") & has_down & ~has_up) | (F.col("kind") == "intruder")


def _one_sided(differences: DataFrame) -> DataFrame:
    """Return a row per record that only one side has: the pair, what it is, its offset on that side."""
    what = F.when(_is_missing(), Difference.MISSING.value).when(_is_extra(), Difference.EXTRA.value)
    offset = F.coalesce("upstream", "downstream").alias("offset")
    return differences.select("pair", what.alias("what"), offset).where("what is not null")


def _summary(differences: DataFrame) -> DataFrame:
    """Return the differences counted per pair, with the first of them in the order of the source."""
    has_up, has_down = F.col("upstream").isNotNull(), F.col("downstream").isNotNull()
    is_single = (F.col("kind") == "record") & ~F.col("is_pair")
    is_intruder = F.col("kind") == "intruder"
    what = {
        Difference.MISSING: _is_missing(),
        Difference.EXTRA: _is_extra(),
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
        *(F.sum(F.when(holds, F.col("records")).otherwise(0)).alias(name.value) for name, holds in what.items()),
        F.count_if(~is_difference).alias("foreign"),
        F.min(F.when(is_difference, first)).alias("first"),
    )


def _equivalence(
    pair: PartitionPair, records: int, row: Row | None, read: Mapping[tuple[str, TopicPartition], LogOutcome]
) -> PartitionEquivalence:
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
