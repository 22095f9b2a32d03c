"""Compacted topics compared from end to end: what cleaners explain is counted, what they do not is found and located.

The logs are in memory; Spark aligns what is left of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirror.kafka import batch
from mirror.kafka.batch import HEADER, Header, Record
from mirror.model.absences import Absence, AbsenceKind
from mirror.model.offset_map import Runs
from mirror.model.partition import TopicPartition
from mirror.model.stretches import Stretch
from mirror.model.verdict import Verdict
from mirror.proof import log_reader, raw_reader
from mirror.proof.comparison import PartitionEquivalence
from mirror.proof.equivalence import verify
from mirror.proof.log_reader import LogRange
from mirror.proof.pairs import Amount, Cleaned, Compaction, Mark, PartitionPair, Remembered
from tests.raw_logs import MIRROR, TIME, Log, Mirrored

pytestmark = pytest.mark.spark

STORIES, BATCHES = 30, 12
Read = tuple[str, TopicPartition]


@dataclass
class Clusters:
    """The logs of all partitions; one that changes while it is read has several states, of which each reading sees one."""

    logs: dict[Read, list[Log]] = field(default_factory=dict)
    record_readings: list[Read] = field(default_factory=list)
    broken_at: dict[Read, int] = field(default_factory=dict)

    def add(self, pair: PartitionPair, source: Sequence[Log], copy: Sequence[Log]) -> None:
        for side, states in ((pair.source, source), (pair.target, copy)):
            self.logs[side.cluster, side.partition] = list(states)

    def end(self, address: Read) -> int:
        return self.logs[address][0].end

    def by_batches(
        self, channel: Channel, partition: TopicPartition, stretches: Sequence[Stretch], **_: bool
    ) -> Iterator[tuple[memoryview, Header]]:
        return (each for stretch in stretches for each in self.logs[channel.alias, partition][0].read(*stretch))

    def by_records(
        self, channel: Channel, partition: TopicPartition, stretches: Sequence[Stretch], **_: bool
    ) -> Iterator[tuple[memoryview, Header]]:
        if stretches:
            address = channel.alias, partition
            self.record_readings.append(address)
            states = self.logs[address]
            state = states.pop(0) if len(states) > 1 else states[0]
            for content, header in state.read(stretches[0][0], stretches[-1][1]):
                if header.next_offset > self.broken_at.get(address, header.next_offset):
                    raise ValueError(f"nothing can be read from offset {header.base_offset} on")
                yield content, header


@dataclass
class Channel:
    """Stands for the way to a cluster."""

    alias: str
    client: object
    clusters: Clusters

    def offsets(self, partitions: Sequence[TopicPartition], *_: object) -> dict[TopicPartition, int]:
        return {each: self.clusters.end((self.alias, each)) for each in partitions}

    def close(self) -> None: ...


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    """Tasks run here, and read what is in memory."""
    clusters = Clusters()
    for module, read in ((raw_reader, clusters.by_batches), (log_reader, clusters.by_records)):
        monkeypatch.setattr(module, "in_tasks", lambda _spark, work, do, *_: [do(each) for each in work])
        monkeypatch.setattr(module, "Channel", lambda alias, client: Channel(alias, client, clusters))
        monkeypatch.setattr(module, "read_stretches", lambda *args, read=read, **more: closable(read(*args, **more)))
    return clusters


def closable(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def copied(batches: Sequence[Sequence[tuple[str, str | None]]], *, shift: int = 3) -> Mirrored:
    """A log of these (key, value) in batches, and its copy, whose offsets are others."""
    logs = Mirrored()
    logs.copy.skip(shift)
    for rows in batches:
        first = logs.source.end
        records = [
            Record(0, TIME + first + number, key.encode(), None if value is None else value.encode(), (), -1)
            for number, (key, value) in enumerate(rows)
        ]
        logs.source.append(records)
        logs.record_run(first, logs.copy.mirror(logs.source.batches[-1][0]), len(rows))
    return logs


def without(log: Log, gone: Callable[[int], bool], change: Callable[[Record], Record] = lambda each: each) -> Log:
    """A log without the records at some offsets; batches that held one are cut there."""
    left = Log(end=log.end)
    for content, header in log.batches:
        records = batch.records(content)
        if not any(gone(each.offset) or change(each) != each for each in records):
            left.batches.append((content, header))
            continue
        for each in records:
            if not gone(each.offset):
                made = memoryview(bytearray(batch.encode([change(each)], 0, MIRROR)))
                struct.pack_into(">q", made, 0, each.offset)
                left.batches.append((made, Header._make(HEADER.unpack_from(made))))
    return left


def cleaned(log: Log, cleaned_to: int, *, drops_tombstones: bool = False) -> Log:
    """What a cleaner leaves that has come up to an offset."""
    records = [each for each in log.records([(0, log.end)]) if each.offset < cleaned_to]
    newest = {each.key: each.offset for each in records}
    gone = {
        each.offset for each in records if newest[each.key] != each.offset or (drops_tombstones and each.value is None)
    }
    return without(log, gone.__contains__)


def offsets(log: Log, end: int) -> list[int]:
    return [each.offset for each in log.records([(0, end)])]


def pair_of(
    number: int, logs: Mirrored, end: int | None = None, copy_end: int | None = None, **more: Any
) -> PartitionPair:
    end, copy_end = end or logs.source.end, copy_end or logs.copy.end
    source, copy = TopicPartition("orders", number), TopicPartition("east.orders", number)
    return PartitionPair(
        LogRange("east", {}, source, 0, end, with_keys=True),
        LogRange("west", {}, copy, 0, copy_end, with_keys=True),
        Runs.of(run for run in logs.runs if run.upstream < end),
        frozenset({MIRROR.producer_id}),
        compaction=Compaction(source=True, target=True),
        **more,
    )


def counts(said: PartitionEquivalence) -> dict[str, int]:
    names = ("missing", "extra", "altered", "reordered", "misplaced", "foreign")
    return {name: getattr(said, name) for name in names if getattr(said, name)}


def test_logs_cleaned_at_any_time_differ_in_nothing(spark: SparkSession, clusters: Clusters, tmp_path: Path) -> None:
    """Both sides up to points of their own, or not at all; some with a mirror that lags behind what the source cleans."""
    pairs, expected = [], []
    for number in range(STORIES):
        random = Random(number)
        rows = [
            [
                (random.choice("abcdefgh"), random.choice([f"{number}-{at}-{each}"] * 3 + [None]))
                for each in range(random.randint(1, 6))
            ]
            for at in range(BATCHES)
        ]
        logs = copied(rows)
        lags = number % 3 == 0
        last = logs.source.batches[random.randrange(4, BATCHES) if lags else -1][1]
        end, copy_end = last.next_offset, last.next_offset + 3
        copy = Log([each for each in logs.copy.batches if each[1].next_offset <= copy_end], copy_end)
        is_untouched = number % 5 == 0
        left = logs.source, copy
        if not is_untouched:
            left = (
                cleaned(logs.source, random.randint(0, logs.source.end), drops_tombstones=not lags and number % 2 == 0),
                cleaned(copy, random.randint(0, copy_end), drops_tombstones=number % 4 == 0),
            )
        pair = pair_of(number, logs, end, copy_end)
        clusters.add(pair, [left[0]], [left[1]])
        here, there = set(offsets(left[0], end)), {each - 3 for each in offsets(left[1], copy_end)}
        pairs.append(pair)
        expected.append((Verdict.PASS, {}, len(here), Cleaned(source=len(there - here), target=len(here - there))))
    said = verify(spark, pairs, tmp_path)

    assert [(each.verdict, counts(each), each.records, each.cleaned) for each in said.partitions] == expected
    assert all(each.first_difference is None for each in said.partitions)
    # The histories are worth the comparison.
    assert sum(bool(each.cleaned.source) for each in said.partitions) > 5
    assert sum(bool(each.cleaned.target) for each in said.partitions) > 5
    assert sum(not each.cleaned.records for each in said.partitions) < STORIES / 2
    # What no cleaner has touched is not read record by record.
    untouched = [pair for number, pair in enumerate(pairs) if number % 5 == 0]
    assert not {(side.cluster, side.partition) for pair in untouched for side in (pair.source, pair.target)} & set(
        clusters.record_readings
    )


# Offsets 0 to 9; those of the copy are three more.
ROWS = [[("a", "1"), ("b", "1")], [("a", "2"), ("c", "1")], [("b", "2"), ("c", None)], [("d", "1")], [("a", "3"), ("d", "2"), ("e", "1")]]  # fmt: skip


def other_value(offset: int) -> Callable[[Record], Record]:
    return lambda each: each._replace(value=b"other") if each.offset == offset else each


@dataclass(frozen=True)
class Defect:
    """What became of both logs, and what must be counted; the first difference as (what, upstream, downstream)."""

    told: str
    gone_at_source: set[int]
    gone_at_target: set[int]
    counts: dict[str, int]
    first: tuple[str, int | None, int | None]
    cleaned: Cleaned
    change: Callable[[Record], Record] = lambda each: each


DEFECTS = [
    Defect("A newest value was lost, and the source is clean.", {0, 1, 2}, {9}, {"missing": 1}, ("missing", 9, None), Cleaned(3, 0)),
    Defect("A newest value was lost whose older ones are there.", {0, 1, 2}, {4, 0}, {"missing": 1}, ("missing", 4, None), Cleaned(2, 0)),
    Defect("An older value was lost, and nothing is behind it.", {0, 1}, {6, 8}, {"missing": 2}, ("missing", 6, None), Cleaned(2, 0)),
    Defect("An older value was lost whose still older one is there.", set(), {2, 1}, {"missing": 1}, ("missing", 2, None), Cleaned(0, 1)),
    Defect("A tombstone was lost, and the deleted value is there.", {0, 3}, {5}, {"missing": 1}, ("missing", 5, None), Cleaned(2, 0)),
    Defect("The deletion is at neither, and the deleted value at one.", {0, 3, 5}, {5}, {"extra": 1}, ("extra", None, 6), Cleaned(1, 0)),
    Defect("An older value was altered.", {0}, {1}, {"altered": 1}, ("altered", 2, 5), Cleaned(1, 1), other_value(5)),
    Defect("The newest value was altered.", {0, 2}, {1}, {"altered": 1}, ("altered", 7, 10), Cleaned(2, 1), other_value(10)),
]  # fmt: skip


def test_what_the_cleaner_does_not_explain_is_found_and_located(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    pairs = []
    for number, defect in enumerate(DEFECTS):
        logs = copied(ROWS)
        pair = pair_of(number, logs)
        pairs.append(pair)
        source = without(logs.source, defect.gone_at_source.__contains__)
        copy = without(logs.copy, {each + 3 for each in defect.gone_at_target}.__contains__, defect.change)
        clusters.add(pair, [source], [copy])
    found = {
        defect.told: (
            counts(said),
            (first := said.first_difference) and (first.what.value, first.upstream_offset, first.downstream_offset),
            said.cleaned,
            said.records,
            said.verdict,
        )
        for defect, said in zip(DEFECTS, verify(spark, pairs, tmp_path).partitions, strict=True)
    }

    assert found == {
        each.told: (each.counts, each.first, each.cleaned, 10 - len(each.gone_at_source), Verdict.FAIL)
        for each in DEFECTS
    }


def test_what_explains_may_be_known_to_be_equal_remembered_or_behind_what_is_copied(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    """Such a pair is read whole, with what is behind the range by then; and once more what changed while it was read."""
    logs = copied(ROWS)
    by_bytes = pair_of(0, logs)
    clusters.add(by_bytes, [cleaned(logs.source, 3)], [logs.copy])
    remembered = pair_of(1, logs, remembered=Remembered(4, 7, Amount(4, 1), 0, Mark(0, 0, 0), Mark(0, 0, 0)))
    clusters.add(remembered, [logs.source], [cleaned(logs.copy, 13)])
    lagging = pair_of(2, logs, 7, 10)
    clusters.add(lagging, [cleaned(logs.source, 10)], [Log(logs.copy.batches[:-1], 10)])
    # The first reading has got past the older value of a key before the cleaner came, and to the next one after that.
    changing = pair_of(3, logs)
    halfway = without(logs.copy, {5, 4, 6}.__contains__)
    clusters.add(changing, [logs.source], [halfway, cleaned(logs.copy, 13)])
    absent = Absence(AbsenceKind.GAP, 6, 7, "poison", acknowledged=True)
    lacking = pair_of(4, logs, absences=(absent,))
    clusters.add(lacking, [logs.source], [without(cleaned(logs.copy, 13), {9}.__contains__)])
    # The mirror goes on, and the cleaner of the copy has come behind the range.
    going_on = pair_of(5, logs, 7, 10)
    clusters.add(going_on, [logs.source], [cleaned(logs.copy, 13)])
    pairs = [by_bytes, remembered, lagging, changing, lacking, going_on]
    said = verify(spark, pairs, tmp_path)

    assert [(each.verdict, counts(each), each.cleaned) for each in said.partitions] == [
        (Verdict.PASS, {}, Cleaned(1, 0)),
        (Verdict.PASS, {}, Cleaned(0, 5)),
        (Verdict.PASS, {}, Cleaned(5, 0)),
        (Verdict.PASS, {}, Cleaned(0, 5)),
        (Verdict.PASS, {}, Cleaned(0, 4)),
        (Verdict.PASS, {}, Cleaned(0, 5)),
    ]
    assert [each.records for each in said.partitions] == [9, 10, 2, 10, 10, 7]
    assert {each.compared.by_bytes.records + each.compared.remembered.records for each in said.partitions} == {0}
    assert [sum(one.records or 0 for one in each.absences) for each in said.partitions] == [0, 0, 0, 0, 1, 0]


# Which side cannot be read to its end, and what cleaners have removed of the source, and of the copy.
CUT = [("east", set(), {0, 1, 2}), ("west", {0, 1, 2}, set()), ("west", {0}, {1}), ("east", {0}, {1})]


def test_what_a_cleaner_may_have_removed_is_no_difference_while_a_side_cannot_be_read_to_its_end(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    """What explains it may lie in what was not read: the comparison before its stop ended a healthy failover."""
    pairs = []
    for number, (cut, gone_at_source, gone_at_target) in enumerate(CUT):
        logs = copied(ROWS)
        pair = pair_of(number, logs)
        pairs.append(pair)
        for side, end in ((pair.source, 7), (pair.target, 10)):
            if side.cluster == cut:
                clusters.broken_at[cut, side.partition] = end
        source = without(logs.source, gone_at_source.__contains__)
        clusters.add(pair, [source], [without(logs.copy, {each + 3 for each in gone_at_target}.__contains__)])
    said = verify(spark, pairs, tmp_path)

    assert [(each.verdict, counts(each)) for each in said.partitions] == [(Verdict.UNKNOWN, {})] * len(CUT)


def test_a_pair_that_is_not_compacted_or_shares_a_side_is_explained_nothing(
    spark: SparkSession, clusters: Clusters, tmp_path: Path
) -> None:
    logs = copied(ROWS)
    plain, shared = (replace(pair_of(number, logs), compaction=None) for number in (0, 1))
    shared = replace(shared, compaction=Compaction(source=True, target=True))
    also = replace(shared, source=replace(shared.source, partition=TopicPartition("orders", 2)))
    for pair in (plain, shared, also):
        clusters.add(pair, [cleaned(logs.source, 3)], [logs.copy])
    said = verify(spark, [plain, shared, also], tmp_path)

    assert [(each.extra, each.cleaned.records) for each in said.partitions] == [(1, 0)] * 3
