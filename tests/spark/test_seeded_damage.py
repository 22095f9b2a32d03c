"""One record of each kind damaged among a hundred thousand is found and named; an undamaged history raises nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mirror.model.offset_map import Runs, runs_of
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.alignment import compare
from mirror.proof.delivery import judge_logs
from mirror.proof.findings import Anomaly
from mirror.proof.log_reader import LogOutcome, LogRange
from mirror.proof.pairs import PartitionPair
from tests.spark.histories import MIRRORED, Row, logged, logs_of, own, sends_of, sent
from tests.spark.small import compiled

pytestmark = pytest.mark.spark

PARTITIONS = 4
RECORDS = 25_000  # a partition
PRODUCERS = ("p", "q", "r")


def history() -> tuple[list[Row], list[list[Row]]]:
    """What three producers sent to four partitions, as it was interleaved there, and the copy of each partition."""
    random = Random(7)
    sequences = dict.fromkeys(PRODUCERS, 0)
    sends, copies = [], []
    for partition in range(PARTITIONS):
        copy = []
        for offset in range(RECORDS):
            producer = random.choice(PRODUCERS)
            sequence = sequences[producer]
            sequences[producer] += 1
            sends.append(sent(sequence, offset, producer=producer, partition=partition))
            copy.append(logged(sequence, offset, producer=producer, partition=partition))
        copies.append(copy)
    return sends, copies


def moved_to(row: Row, offset: int) -> Row:
    return (*row[:3], offset, *row[4:])


def renumbered(rows: list[Row]) -> list[Row]:
    return [moved_to(row, offset) for offset, row in enumerate(rows)]


def damaged(copies: list[list[Row]]) -> tuple[list[list[Row]], dict[Anomaly, Row]]:
    """One record lost, duplicated, reordered and altered, in a partition each; returns also which ones."""
    lossy, doubled, mixed, changed = (list(copy) for copy in copies)
    victims = {
        Anomaly.LOST: lossy.pop(20_011),
        Anomaly.DUPLICATED: doubled[11],
        Anomaly.REORDERED: mixed[12_345],
        Anomaly.ALTERED: changed[RECORDS - 1],
    }
    doubled.insert(12, doubled[11])
    mixed.insert(12_400, mixed.pop(12_345))
    changed[-1] = (*changed[-1][:7], b"\0" * 16, *changed[-1][8:])
    return [renumbered(rows) for rows in (lossy, doubled, mixed, changed)], victims


@pytest.fixture(scope="module", autouse=True)
def for_many_rows(spark: SparkSession) -> Iterator[None]:
    with compiled(spark):
        yield


@pytest.fixture(scope="module")
def sends_and_copies() -> tuple[list[Row], list[list[Row]]]:
    return history()


@pytest.mark.long
def test_an_undamaged_history_raises_nothing(
    spark: SparkSession, sends_and_copies: tuple[list[Row], list[list[Row]]]
) -> None:
    sends, copies = sends_and_copies
    delivery = judge_logs(
        sends_of(spark, *sends), logs_of(spark, *(row for copy in copies for row in copy)), [MIRRORED]
    )

    assert (delivery.verdict, delivery.findings) == (Verdict.PASS, ())
    assert sum(count.found for count in delivery.counts) == PARTITIONS * RECORDS


def test_each_damaged_record_is_found_and_named_by_the_ledger(
    spark: SparkSession, sends_and_copies: tuple[list[Row], list[list[Row]]]
) -> None:
    sends, copies = sends_and_copies
    broken, victims = damaged(copies)
    delivery = judge_logs(
        sends_of(spark, *sends), logs_of(spark, *(row for copy in broken for row in copy)), [MIRRORED]
    )
    named = {
        finding.anomaly: (finding.count, finding.partition, finding.examples[0].producer, finding.examples[0].sequence)
        for finding in delivery.findings
    }

    assert named == {anomaly: (1, TopicPartition(row[1], row[2]), row[5], row[6]) for anomaly, row in victims.items()}
    assert delivery.verdict is Verdict.FAIL


@pytest.mark.long
def test_each_damaged_record_is_found_and_located_by_content(
    spark: SparkSession, sends_and_copies: tuple[list[Row], list[list[Row]]]
) -> None:
    """Without any ledger, by what is in source and copy alone; the offset map still tells of the undamaged copy."""
    _, copies = sends_and_copies
    broken, _ = damaged(copies)
    sources = [own(row[6], row[3], producer=row[5], partition=row[2]) for copy in copies for row in copy]
    pairs = [
        PartitionPair(
            LogRange("east", {}, TopicPartition("orders", partition), 0, RECORDS),
            LogRange("west", {}, TopicPartition("east.orders", partition), 0, RECORDS + 1),
            Runs.of(runs_of(range(RECORDS), 0)) if partition == 3 else Runs(),
        )
        for partition in range(PARTITIONS)
    ]
    outcomes = [
        LogOutcome(side.cluster, side.partition, side.start, side.end, 0, 0.0, None, Path("not looked at"))
        for pair in pairs
        for side in (pair.source, pair.target)
    ]
    said = compare(logs_of(spark, *sources, *(row for copy in broken for row in copy)), pairs, outcomes)
    counts = [(each.missing, each.extra, each.altered, each.reordered, each.misplaced) for each in said.partitions]
    firsts = [
        (each.first_difference.upstream_offset, each.first_difference.downstream_offset)
        for each in said.partitions
        if each.first_difference
    ]

    assert counts == [(1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 1, 0, 0)]
    assert firsts == [(20_011, None), (None, 12), (12_345, 12_400), (RECORDS - 1, RECORDS - 1)]
