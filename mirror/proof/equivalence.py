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
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from mirror.model.absences import Absence
from mirror.model.offset_map import Chunk, Runs
from mirror.model.partition import TopicPartition
from mirror.model.progress import Watch, nobody
from mirror.model.stretches import between, runs_within, united
from mirror.proof.alignment import compare, equivalence_of
from mirror.proof.comparison import Compared, Equivalence, PartitionEquivalence
from mirror.proof.declared_gaps import filtered, held
from mirror.proof.fast_path import same_records
from mirror.proof.log_reader import LogOutcome, LogRange, logs_frame, read_logs
from mirror.proof.pairs import NOTHING, Amount, PartitionPair, Proven
from mirror.proof.raw_batches import RawFinding
from mirror.proof.raw_reader import compare_batches
from mirror.proof.set_aside import Remaining, set_aside


def verify(spark: SparkSession, pairs: Sequence[PartitionPair], directory: Path, watch: Watch = nobody) -> Equivalence:
    """Compare both sides of every pair; records that had to be read are left in ``directory``.

    Spark reads the logs: first as batches, then the records of what their bytes do not show to be equal. Only pairs
    that the fast path does not find to be the same are aligned record by record; where a side is compacted, what its
    cleaner explains is set aside first.
    """
    began = time.monotonic()
    found, cpu_seconds = compare_batches(spark, _by_bytes(pairs), watch)
    whole = pairs
    pairs = [narrowed(pair, found[number]) if number in found else pair for number, pair in enumerate(whole)]
    read = _by_partition(read_logs(spark, _ranges(pairs), directory, watch))
    pairs = [_with_absences(pair, read) for pair in pairs]
    same = {number: equal for number, pair in enumerate(pairs) if (equal := _same_by_fast_path(pair, read)) is not None}
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
            same[number] = equivalence_of(each.pair, each.equal, None, read)
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
    notes = pair.notes
    if pair.remembered is not None:
        notes += ("all of it was compared anew: only that shows what the log cleaner has removed",)
    source = replace(pair.source, reads_on=pair.source.transform is None)
    return replace(pair, source=source, target=replace(pair.target, reads_on=True), remembered=None, notes=notes)


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
    if rest or found.target_rest:
        before = runs_within(pair.runs, between(absent, pair.source.start, earlier))
        runs = Runs([Chunk.of(before), *found.equal])
    foreign = found.foreign + (pair.remembered.foreign if pair.remembered else 0)
    return replace(
        pair,
        source=replace(pair.source, stretches=rest),
        target=replace(pair.target, stretches=found.target_rest),
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


def _same_by_fast_path(
    pair: PartitionPair, read: Mapping[tuple[str, TopicPartition], LogOutcome]
) -> PartitionEquivalence | None:
    if not pair.source.wanted and not pair.target.wanted:
        return equivalence_of(pair, 0, None, read)
    source = read.get((pair.source.cluster, pair.source.partition))
    copy = read.get((pair.target.cluster, pair.target.partition))
    if source is None or copy is None or source.problem is not None or copy.problem is not None:
        return None
    records = same_records(
        (pair.source, source.path), (pair.target, copy.path), pair.runs, pair.writers, pair.absences, pair.own_from
    )
    return None if records is None else equivalence_of(pair, records, None, read)


def _ranges(pairs: Sequence[PartitionPair]) -> list[LogRange]:
    """Return what is to be read: every partition once, also where several sources share a target."""
    wanted: dict[tuple[str, TopicPartition], LogRange] = {}
    for side in (side for pair in pairs for side in (pair.source, pair.target) if side.wanted):
        known = wanted.get((side.cluster, side.partition), side)
        widest = replace(side, start=min(side.start, known.start), end=max(side.end, known.end))
        wanted[side.cluster, side.partition] = widest
    return list(wanted.values())
