"""Comparing bytes first changes no verdict, no number and no place; one record in a million is found in what is left."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirror.kafka import batch
from mirror.kafka.batch import Header, Record
from mirror.model.absences import Absence, AbsenceKind
from mirror.model.offset_map import Run, Runs
from mirror.model.partition import TopicPartition
from mirror.model.stretches import Stretch
from mirror.model.verdict import Verdict
from mirror.proof.alignment import compare
from mirror.proof.comparison import Compared, PartitionEquivalence
from mirror.proof.equivalence import narrowed, to_compare
from mirror.proof.log_reader import LogOutcome, LogRange, log_rows
from mirror.proof.pairs import Amount, Mark, PartitionPair, Remembered
from mirror.proof.raw_batches import RawComparison, RawFinding, mark_of
from mirror.proof.raw_reader import shares_of
from mirror.proof.verified_ranges import Logs, Memory, updated
from mirror.recovery import verify_memory
from tests.raw_logs import CHANGES, MIRROR, SOMEBODY, Log, Mirrored, happened, record
from tests.spark.histories import Row, logs_of

pytestmark = pytest.mark.spark

STORIES = 80
NO_MARK = Mark(0, 0, 0)


def pair_of(number: int, logs: Mirrored, source: Stretch, copy: Stretch, **more: Any) -> PartitionPair:
    return PartitionPair(
        LogRange("east", {}, TopicPartition("orders", number), *source),
        LogRange("west", {}, TopicPartition("east.orders", number), *copy),
        Runs.of(logs.runs),
        frozenset({MIRROR.producer_id}),
        **more,
    )


def by_bytes(pair: PartitionPair, logs: Mirrored, share: int = 10**9) -> RawFinding:
    """What the tasks find, without logs to be read."""
    found = RawFinding()
    for piece in (piece for pieces in shares_of({0: pair}, 1, fewest=share) for piece in pieces):
        comparison = RawComparison(piece.pair)
        source, target = piece.pair.source, piece.pair.target
        comparison.compare(logs.source.read(source.start, source.end), logs.copy.read(target.start, target.end))
        found = found.then(comparison.found())
    return found


def rows_of(side: LogRange, log: Log) -> list[Row]:
    return list(log_rows(side.cluster, side.partition, log.records(side.wanted)))


def said_of(spark: SparkSession, told: Sequence[tuple[PartitionPair, Mirrored]]) -> tuple[PartitionEquivalence, ...]:
    """What the comparison of the records says of what is left of the pairs."""
    rows = [
        row for pair, logs in told for row in (*rows_of(pair.source, logs.source), *rows_of(pair.target, logs.copy))
    ]
    pairs = [pair for pair, _ in told]
    outcomes = [
        LogOutcome(side.cluster, side.partition, side.start, side.end, 0, 0.0, None, Path("not looked at"))
        for pair in pairs
        for side in (pair.source, pair.target)
    ]
    return compare(logs_of(spark, *rows), pairs, outcomes).partitions


def story(seed: int) -> tuple[Mirrored, PartitionPair]:
    """A history of damage, and some of it to be compared: all, any part, behind what is remembered, with absences."""
    random = Random(seed)
    logs = happened(random, 12)
    before = logs.source.end, logs.copy.end
    happened(random, 12, damage=random.choice((0.0, 0.05, 0.3)), onto=logs)
    source, copy = (0, logs.source.end), (0, logs.copy.end)
    is_shared = bool(seed % 2)
    remembered = None
    if seed % 4 == 0:
        source, copy = (random.randrange(8), source[1] - random.randrange(8)), (random.randrange(8), copy[1])
    elif seed % 4 == 1:
        of_others = sum(each.producer_id == SOMEBODY.producer_id for each in logs.copy.records([(0, before[1])]))
        records = sum(1 for _ in logs.source.records([(0, before[0])]))
        remembered = Remembered(*before, Amount(records, 1), of_others, NO_MARK, NO_MARK)
    first = random.randrange(before[0], logs.source.end)
    count = sum(1 for _ in logs.source.records([(first, first + 3)]))
    gap = Absence(AbsenceKind.GAP, first, first + 3, "poison", acknowledged=True, records=count)
    absences = (gap,) if seed % 3 == 0 else ()
    return logs, pair_of(seed, logs, source, copy, is_shared=is_shared, absences=absences, remembered=remembered)


def test_numbers_and_places_are_those_of_a_comparison_of_all_records(spark: SparkSession) -> None:
    told = [story(seed) for seed in range(STORIES)]
    whole = [(replace(pair, remembered=None), logs) for logs, pair in told]
    left = []
    for logs, pair in told:
        found = by_bytes(to_compare(pair), logs, share=Random(pair.source.partition.partition).choice((10, 10**9)))
        rest = narrowed(pair, found)
        left.append((moved(rest, STORIES), logs))
    said = said_of(spark, [*whole, *left])
    expected, found_by_both = said[:STORIES], said[STORIES:]

    assert [facts(each) for each in found_by_both] == [facts(each) for each in expected]
    # The histories are worth the comparison.
    assert len({each.first_difference.what for each in expected if each.first_difference}) == 5
    assert sum(each.verdict is Verdict.PASS for each in expected) > STORIES / 10
    assert sum(pair.proven.amount.records for pair, _ in left) > sum(each.records for each in expected) / 4


def moved(pair: PartitionPair, by: int) -> PartitionPair:
    """The pair under other numbers, so that both ways are compared in one go."""
    source, target = (
        replace(side, partition=TopicPartition(side.partition.topic, side.partition.partition + by))
        for side in (pair.source, pair.target)
    )
    return replace(pair, source=source, target=target)


def facts(said: PartitionEquivalence) -> tuple[Any, ...]:
    counts = (said.missing, said.extra, said.altered, said.reordered, said.misplaced, said.foreign)
    return said.source.partition % STORIES, said.records, counts, said.first_difference


RECORDS_A_BATCH, BATCHES = 2_000, 500
VICTIM = 654_321
MILLION = RECORDS_A_BATCH * BATCHES


def a_million() -> Log:
    """A million records in batches of two thousand, no two of them alike."""
    pattern = batch.encode([record(number) for number in range(RECORDS_A_BATCH)], 0)
    header = Header._make(batch.HEADER.unpack_from(pattern))
    log = Log()
    for number in range(BATCHES):
        content = memoryview(bytearray(pattern))
        stamps = (header.base_timestamp + number * 10**6, header.max_timestamp + number * 10**6)
        batch.HEADER.pack_into(content, 0, *header._replace(base_timestamp=stamps[0], max_timestamp=stamps[1]))
        struct.pack_into(">I", content, 17, batch.crc32c(content[21:]))
        log.take(content)
    return log


def edited(source: Log, edit: dict[int, Callable[[list[Record]], list[Record]]]) -> Log:
    """The copy of a log, with the records of some batches other than they were."""
    copy = Log()
    for number, (content, _) in enumerate(source.batches):
        if number in edit:
            copy.append(edit[number](batch.records(content)), 0, MIRROR)
        else:
            copy.mirror(content)
    return copy


AT, PLACE = divmod(VICTIM, RECORDS_A_BATCH)
LATER = AT + 100
WHOLE = [Run(0, 0, MILLION)]
WITHOUT = [Run(0, 0, VICTIM), Run(VICTIM + 1, VICTIM, MILLION - VICTIM - 1)]


def damages(source: Log) -> Iterator[tuple[str, Log, list[Run], dict[str, int], tuple[str, int | None, int | None]]]:
    """One record of the million damaged, each time in another way; what is to be counted, and where it is."""
    for name, change in CHANGES.items():
        yield (
            f"{name} altered",
            edited(source, {AT: lambda rows, change=change: [*rows[:PLACE], change(rows[PLACE]), *rows[PLACE + 1 :]]}),
            WHOLE,
            {"altered": 1},
            ("altered", VICTIM, VICTIM),
        )
    removed = {AT: lambda rows: rows[:PLACE] + rows[PLACE + 1 :]}
    yield "removed", edited(source, removed), WITHOUT, {"missing": 1}, ("missing", VICTIM, None)
    yield (
        "duplicated",
        edited(source, {AT: lambda rows: rows[: PLACE + 1] + rows[PLACE:]}),
        [Run(0, 0, VICTIM + 1), Run(VICTIM + 1, VICTIM + 2, MILLION - VICTIM - 1)],
        {"extra": 1},
        ("extra", None, VICTIM + 1),
    )
    yield (
        "swapped with the next",
        edited(source, {AT: lambda rows: [*rows[:PLACE], rows[PLACE + 1], rows[PLACE], *rows[PLACE + 2 :]]}),
        WHOLE,
        {"reordered": 1, "misplaced": 2},
        ("reordered", VICTIM, VICTIM + 1),
    )
    victim = batch.records(source.batches[AT][0])[PLACE]
    yield (
        "moved far behind",
        edited(source, {**removed, LATER: lambda rows: [victim, *rows]}),
        [
            Run(0, 0, VICTIM),
            Run(VICTIM + 1, VICTIM, LATER * RECORDS_A_BATCH - VICTIM - 1),
            Run(LATER * RECORDS_A_BATCH, LATER * RECORDS_A_BATCH, MILLION - LATER * RECORDS_A_BATCH),
        ],
        {"reordered": 1, "misplaced": 1},
        ("reordered", VICTIM, LATER * RECORDS_A_BATCH - 1),
    )
    yield (
        "in a wrong place of the map",
        edited(source, {}),
        [Run(0, 0, VICTIM), Run(VICTIM + 1, VICTIM + 1, MILLION - VICTIM - 1)],
        {"misplaced": 1},
        ("misplaced", VICTIM, VICTIM),
    )


def test_one_damaged_record_in_a_million_is_found_and_located_and_hardly_any_other_is_looked_at(
    spark: SparkSession,
) -> None:
    source = a_million()
    expected, left = {}, []
    for number, (name, copy, runs, counts, first) in enumerate(damages(source)):
        logs = Mirrored(source, copy, runs)
        pair = pair_of(number, logs, (0, source.end), (0, copy.end))
        rest = narrowed(pair, by_bytes(pair, logs, share=300_000))
        looked_at = sum(end - start for start, end in rest.source.wanted)
        assert looked_at <= 6 * RECORDS_A_BATCH, name
        assert rest.proven.amount.records == MILLION - looked_at
        # What is not needed any more would take gigabytes.
        kept = Mirrored(logs.source, Log([each for each in copy.batches if holds_any(rest.target, each[1])]), runs)
        expected[name] = counts, first
        left.append((rest, kept))
    said = dict(zip(expected, said_of(spark, left), strict=True))
    found = {name: (counted(each), where(each)) for name, each in said.items()}

    assert found == expected
    assert {each.records for each in said.values()} == {MILLION}


def test_of_a_million_records_that_are_as_they_were_none_is_looked_at() -> None:
    source = a_million()
    logs = Mirrored(source, edited(source, {}), WHOLE)
    found = by_bytes(pair_of(0, logs, (0, MILLION), (0, MILLION)), logs)

    assert (found.amount.records, found.rest, found.target_rest) == (MILLION, (), ())


def holds_any(side: LogRange, header: Header) -> bool:
    return any(start < header.next_offset and header.base_offset < end for start, end in side.wanted)


def counted(said: PartitionEquivalence) -> dict[str, int]:
    names = ("missing", "extra", "altered", "reordered", "misplaced", "foreign")
    return {name: getattr(said, name) for name in names if getattr(said, name)}


def where(said: PartitionEquivalence) -> tuple[str, int | None, int | None] | None:
    first = said.first_difference
    return first and (first.what.value, first.upstream_offset, first.downstream_offset)


LOGS = Logs("east.orders", "id-1", "id-2", 0, committed=False, remote_committed=False)
GROWN, REMOVED, LOST, CUT, ANEW = "grown", "removed", "lost", "cut", "anew"


def since(random: Random, logs: Mirrored, what: str) -> tuple[Mirrored, Logs, int, int]:
    """What has become of the logs since a first comparison; which they are now, and where they begin."""
    begin, copy_begin = 0, 0
    if what == ANEW:
        return happened(random, 14), replace(LOGS, topic_id="id-3"), 0, 0
    if what == CUT:
        # Of one side, or of both; the map tells no more of what is gone.
        for log in (logs.source, logs.copy)[:: random.choice((1, -1))][: random.choice((1, 2))]:
            del log.batches[-random.randint(1, 3) :]
            log.end = log.batches[-1][1].next_offset if log.batches else 0
        ends = logs.source.end, logs.copy.end
        logs.runs[:] = [each for each in logs.runs if each.upstream_end <= ends[0] and each.downstream_end <= ends[1]]
    if what in (REMOVED, LOST):
        begin = random.choice(logs.source.batches[: len(logs.source.batches) // 2])[1].next_offset
        left = (each for each in logs.runs if each.upstream_end > begin)
        copy_begin = next((each.downstream + max(0, begin - each.upstream) for each in left), logs.copy.end)
    if what == LOST:
        copy_begin = min(copy_begin + random.randint(1, 9), logs.copy.end)
    return happened(random, 8, damage=random.choice((0.0, 0.0, 0.3)), onto=logs), LOGS, begin, copy_begin


def first_part(pair: PartitionPair, found: RawFinding, said: PartitionEquivalence) -> PartitionEquivalence:
    """What the comparison of all there was has found, with what is known of the way it went."""
    how = Compared(by_bytes=found.amount, last=found.last, target_last=found.target_last, is_by_batches=True)
    return replace(said, source=pair.source.partition, compared=how)


@pytest.mark.long
def test_a_comparison_in_two_parts_says_what_that_of_the_whole_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between them: what lay in the first part is left out only as long as it is there as it was."""

    def stands(channel: Any, _: TopicPartition, mark: Mark) -> bool:
        return mark in [mark_of(header) for _, header in channel.log.batches]

    monkeypatch.setattr(verify_memory, "_stands", stands)
    randoms = [Random(1_000 + seed) for seed in range(STORIES)]
    before = [happened(random, 10, damage=random.choice((0.0, 0.0, 0.0, 0.2))) for random in randoms]
    pairs = [
        pair_of(seed, logs, (0, logs.source.end), (0, logs.copy.end), is_shared=bool(seed % 2))
        for seed, logs in enumerate(before)
    ]
    found = [by_bytes(pair, logs) for pair, logs in zip(pairs, before, strict=True)]
    told = said_of(spark, [(narrowed(*each), logs) for *each, logs in zip(pairs, found, before, strict=True)])
    first = list(map(first_part, pairs, found, told))
    memory = updated(
        Memory("east->west", "E", "W", {}),
        dict.fromkeys((each.source.partition for each in pairs), LOGS),
        zip(pairs, first, strict=True),
    )
    assert {each.source for each in first if each.verdict is Verdict.PASS} == set(memory.entries)

    whole, rest, changes = [], [], []
    for seed, (random, logs) in enumerate(zip(randoms, before, strict=True)):
        what = random.choice((GROWN, GROWN, REMOVED, LOST, CUT, ANEW))
        now, which, begin, copy_begin = since(random, logs, what)
        pair = pair_of(seed, now, (begin, now.source.end), (copy_begin, now.copy.end), is_shared=bool(seed % 2))
        entry, channels = (
            memory.entries.get(pair.source.partition),
            [SimpleNamespace(alias="", log=log) for log in (now.source, now.copy)],
        )
        recalled = pair
        if entry is not None:
            recalled = verify_memory.with_memory(pair, entry, which, channels, lost=what == LOST)  # type: ignore[arg-type]
        left = narrowed(recalled, by_bytes(to_compare(recalled), now))
        whole.append((pair, now))
        rest.append((moved(left, STORIES), now))
        changes.append((what, recalled.remembered is not None))
    said = said_of(spark, [*whole, *rest])

    for (what, _), expected, both in zip(changes, said[:STORIES], said[STORIES:], strict=True):
        assert (what, both.verdict, facts(both)) == (what, expected.verdict, facts(expected))
    remembering = {what for what, is_recalled in changes if is_recalled}
    assert remembering == {GROWN, REMOVED}
    assert {each.verdict for each in said} == {Verdict.PASS, Verdict.FAIL}
