"""What is said of groups of readers: every story has a group of its own, and all are judged at once.

The usual story: a group reads ``orders`` on ``east``, east dies, and it goes on with the copy of it on ``west``. Both logs
hold the records 0 to 5; the copy is one record short, and begins with a record of somebody else, so that its offsets are
one higher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.delivery import GroupReading, judge_groups
from mirror.proof.evidence import Gap
from mirror.proof.findings import Anomaly, Delivery
from tests.spark.histories import COPY, ORDERS, Row, logged, logs_of, own, read, reads_of, sends_of, sent

pytestmark = pytest.mark.spark

SENDS = [sent(number) for number in range(6)]
LOGS = [*(own(number) for number in range(6)), logged(None, 0), *(logged(number, number + 1) for number in range(5))]


def on_east(*sequences: int) -> list[Row]:
    return [read(sequence) for sequence in sequences]


def on_west(*sequences: int) -> list[Row]:
    return [read(sequence, sequence + 1, place=COPY) for sequence in sequences]


@dataclass(frozen=True)
class Story:
    """What a group read, and what must be named: (anomaly, cluster) and sequences."""

    told: str
    reads: Sequence[Row]
    expected: Mapping[tuple[Anomaly, str], list[int]] = field(default_factory=dict)


TAIL = {(Anomaly.UNSEEN, "east"): [5]}
STORIES = [
    Story(
        "It read everything on east and was moved to the end of the copy, where nothing was left.", on_east(*range(6))
    ),
    Story(
        "It was moved exactly, and saw all but the record that never reached the copy.",
        on_east(0, 1, 2) + on_west(3, 4),
        TAIL,
    ),
    Story(
        "It was moved two records back, and read them again.",
        on_east(0, 1, 2) + on_west(1, 2, 3, 4),
        {(Anomaly.REDELIVERED, "west"): [1, 2], **TAIL},
    ),
    Story(
        "It was moved one record too far: that record is lost to it, wherever it lies.",
        on_east(0, 1, 2) + on_west(4),
        {(Anomaly.LOST, "west"): [3], (Anomaly.UNSEEN, "east"): [3, 5]},
    ),
    Story(
        "It has not come to the end yet: what is behind its position is unseen.",
        on_east(0, 1, 2) + on_west(3),
        {(Anomaly.UNSEEN, "east"): [4, 5], (Anomaly.UNSEEN, "west"): [4]},
    ),
    Story(
        "It never read at all.",
        [],
        {(Anomaly.UNSEEN, "east"): [0, 1, 2, 3, 4, 5], (Anomaly.UNSEEN, "west"): [0, 1, 2, 3, 4]},
    ),
    Story(
        "A member that took over read a record for the first time after a later one.",
        on_east(0, 2, 1, 3, 4, 5),
        {(Anomaly.REORDERED, "east"): [1]},
    ),
    Story(
        "It went back and read again, in order: that is a redelivery and no disorder.",
        on_east(0, 1, 2, 1, 2, 3, 4, 5),
        {(Anomaly.REDELIVERED, "east"): [1, 2]},
    ),
    Story(
        "What it was handed is not what was sent.",
        [*on_east(0, 1), read(2, other_content=True), *on_east(3, 4, 5)],
        {(Anomaly.ALTERED, "east"): [2]},
    ),
]


def group_of(number: int) -> str:
    return f"group{number}"


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Delivery:
    reads = [(group_of(number), *row[1:]) for number, story in enumerate(STORIES) for row in story.reads]
    groups = [GroupReading(group_of(number), (ORDERS, COPY)) for number in range(len(STORIES))]
    return judge_groups(reads_of(spark, *reads), sends_of(spark, *SENDS), logs_of(spark, *LOGS), groups)


@pytest.mark.parametrize("number", range(len(STORIES)), ids=[story.told for story in STORIES])
def test_what_is_said_of(number: int, judged: Delivery) -> None:
    said = {
        (finding.anomaly, finding.cluster): sorted(example.sequence for example in finding.examples)
        for finding in judged.findings
        if finding.group == group_of(number)
    }

    assert said == STORIES[number].expected


def test_a_redelivery_is_told_where_it_happened(judged: Delivery) -> None:
    [finding] = [each for each in judged.findings if each.group == group_of(2) and each.anomaly is Anomaly.REDELIVERED]

    assert (finding.partition, finding.is_tolerated) == (TopicPartition("east.orders", 0), True)
    assert finding.examples[0].detail == "handed out 2 times, first on east as orders-0"


def test_reading_is_counted_per_group_and_log(judged: Delivery) -> None:
    """The second group: of east's six records it saw five, on either cluster; of the five in the copy, all."""
    counts = {
        each.cluster: (each.expected, each.found, each.without_ledger)
        for each in judged.counts
        if each.group == group_of(1)
    }

    assert counts == {"east": (6, 5, 0), "west": (5, 5, 1)}


def test_reading_again_and_not_having_finished_is_tolerated_and_passing_over_is_not(spark: SparkSession) -> None:
    sends, logs, groups = sends_of(spark, *SENDS), logs_of(spark, *LOGS), [GroupReading("billing", (ORDERS, COPY))]
    again = judge_groups(reads_of(spark, *on_east(0, 1), *on_west(1, 2)), sends, logs, groups)
    passed_over = judge_groups(reads_of(spark, *on_east(0, 1), *on_west(3)), sends, logs, groups)
    short = judge_groups(
        reads_of(spark, *on_east(0, 1), *on_west(3)), sends, logs, groups, gaps=[Gap("reads/c-1.parquet", "is missing")]
    )

    assert [each.verdict for each in (again, passed_over, short)] == [Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN]
