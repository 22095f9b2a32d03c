"""What is said of logs, told by histories of a few records; the harmless twin of each stands beside it.

Starting a judgement costs Spark a second or two, whatever it judges. So all stories are judged at once, each in topics of
its own, and every test looks at what was said of its story.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.delivery import Place, Route, judge_logs
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import Anomaly, Delivery, Finding
from tests.spark.histories import COPY, MIRRORED, NEW, ORDERS, Row, logged, logs_of, own, sends_of, sent

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Story:
    """What happened, and which records (by sequence) must be named for it."""

    told: str
    sends: Sequence[Row]
    logs: Sequence[Row]
    expected: Mapping[Anomaly, list[int]] = field(default_factory=dict)
    routes: Sequence[Route] = (MIRRORED,)
    details: Mapping[int, str] = field(default_factory=dict)


THREE = [sent(0), sent(1), sent(2)]
TIMED_OUT = [sent(number, status="indeterminate") for number in range(3)]
OWN = (Route.own(ORDERS),)

STORIES = [
    Story(
        "Three records were copied to other offsets, as a record of somebody else was there before them.",
        THREE,
        [logged(None, 0), logged(0, 1), logged(1, 2), logged(2, 3)],
    ),
    Story(
        "The copy has the first and the third record, so it went past the second: that one is lost.",
        THREE,
        [logged(0), logged(2, 1)],
        {Anomaly.LOST: [1]},
        details={1: "acked at offset 1"},
    ),
    Story(
        "The copy ends after the first record, and nothing behind it was copied: the tail is stranded, not lost.",
        THREE,
        [logged(0)],
        {Anomaly.STRANDED: [1, 2]},
    ),
    Story(
        "Partition 1 was copied to its end, which says nothing of partition 0: every partition has its own tail.",
        [sent(0), sent(1, partition=1)],
        [logged(1, partition=1)],
        {Anomaly.STRANDED: [0]},
    ),
    Story(
        "The cluster had acknowledged the last record and has it no more: in its own log, a missing tail is lost.",
        [sent(0), sent(1)],
        [own(0)],
        {Anomaly.LOST: [1]},
        OWN,
    ),
    Story(
        "Two sends timed out, and the record of one of them was written: both are as good as the other.",
        [sent(0), sent(1, status="indeterminate"), sent(2, status="indeterminate"), sent(3, 2)],
        [logged(0), logged(2, 1), logged(3, 2)],
    ),
    Story(
        "The broker refused the second record, and it is not there.",
        [sent(0), sent(1, status="failed")],
        [logged(0)],
    ),
    Story(
        "The broker refused the second record, and yet it is there.",
        [sent(0), sent(1, status="failed")],
        [logged(0), logged(1)],
        {Anomaly.UNEXPECTED: [1]},
        details={1: "refused when it was sent, says the ledger"},
    ),
    Story(
        "The ledger of the producer ends before a record that is in the log.",
        [sent(0)],
        [logged(0), logged(1)],
        {Anomaly.UNEXPECTED: [1]},
        details={1: "not in the ledger of what was sent here"},
    ),
    Story(
        "After a restart the copy took up two records too early: they are there twice, and nothing is out of order.",
        THREE,
        [logged(0), logged(1), logged(0, 2), logged(1, 3), logged(2, 4)],
        {Anomaly.DUPLICATED: [0, 1]},
        details={0: "there 2 times, last at offset 2"},
    ),
    Story(
        "Two producers take turns, and the copy keeps their turns.",
        [sent(0), sent(5, 1, producer="q"), sent(1, 2)],
        [logged(0), logged(5, 1, producer="q"), logged(1, 2)],
    ),
    Story(
        "Two producers take turns, and two neighbours have changed places in the copy.",
        [sent(0), sent(5, 1, producer="q"), sent(1, 2)],
        [logged(0), logged(1, 1), logged(5, 2, producer="q")],
        {Anomaly.REORDERED: [5]},
        details={5: "was at offset 1 and is behind the one that was at 2"},
    ),
    Story(
        "Three sends timed out and were written all the same, in order.",
        TIMED_OUT,
        [logged(0), logged(1), logged(2)],
    ),
    Story(
        "Three sends timed out and were written all the same, in another order than that of their producer.",
        TIMED_OUT,
        [logged(0), logged(2, 1), logged(1, 2)],
        {Anomaly.REORDERED: [1]},
        details={1: "is behind number 2 of the same producer"},
    ),
    Story(
        "Of three records one was encoded anew, one stamped anew, and one put into another partition.",
        THREE,
        [logged(0, other_content=True), logged(1, later_by=5), logged(2, 0, partition=1)],
        {Anomaly.ALTERED: [0, 2, 1]},  # worst first, and among equals by offset
        details={0: "content differs", 1: "timestamp is 1000006, was 1000001", 2: "is in partition 1"},
    ),
    Story(
        "The broker said offset 5 and the record is at 6: the acknowledgement was not true.",
        [sent(0, 5)],
        [own(0, 6)],
        {Anomaly.ALTERED: [0]},
        OWN,
    ),
    Story(
        "After a failover: the own log and the new cluster's log are whole, and the copy has lost a record.",
        [*THREE, sent(0, producer="new", place=NEW)],
        [own(0), own(1), own(2), logged(0), logged(2, 1), logged(0, producer="new", place=NEW)],
        {Anomaly.LOST: [1]},
        (Route.own(ORDERS), MIRRORED, Route.own(NEW)),
    ),
    Story(
        "Thirty records are lost: twenty are shown, all are counted.",
        [sent(number) for number in range(31)],
        [logged(30, 0)],
        {Anomaly.LOST: list(range(20))},
    ),
]


def topic_of(number: int, topic: str) -> str:
    return f"story{number}.{topic}"


def moved(number: int, row: Row, topic_column: int) -> Row:
    return (*row[:topic_column], topic_of(number, row[topic_column]), *row[topic_column + 1 :])


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Delivery:
    """All stories, judged at once."""
    sends = [moved(number, row, 3) for number, story in enumerate(STORIES) for row in story.sends]
    logs = [moved(number, row, 1) for number, story in enumerate(STORIES) for row in story.logs]
    routes = [
        Route(*(Place(each.cluster, topic_of(number, each.topic)) for each in (route.sent, route.kept)))
        for number, story in enumerate(STORIES)
        for route in story.routes
    ]
    return judge_logs(sends_of(spark, *sends), logs_of(spark, *logs), routes)


def named(findings: Iterable[Finding]) -> dict[Anomaly, list[int]]:
    """The sequences that are named, per anomaly."""
    return {each.anomaly: [example.sequence for example in each.examples] for each in findings}


@pytest.mark.parametrize("number", range(len(STORIES)), ids=[story.told for story in STORIES])
def test_what_is_said_of(number: int, judged: Delivery) -> None:
    story = STORIES[number]
    findings = [each for each in judged.findings if each.partition.topic.startswith(topic_of(number, ""))]

    assert named(findings) == story.expected
    said = {example.sequence: example.detail for each in findings for example in each.examples}
    assert {sequence: said[sequence] for sequence in story.details} == story.details


def test_findings_are_located(judged: Delivery) -> None:
    """A finding names the log: in the story of a failover, the copy."""
    number = next(number for number, story in enumerate(STORIES) if story.told.startswith("After a failover"))
    [finding] = [each for each in judged.findings if each.partition.topic.startswith(topic_of(number, ""))]

    assert (finding.cluster, finding.partition) == ("west", TopicPartition(topic_of(number, "east.orders"), 0))
    assert str(finding) == f"west story{number}.east.orders-0: 1 lost, such as p:1: acked at offset 1"


def test_all_are_counted_though_twenty_are_shown(judged: Delivery) -> None:
    [finding] = [each for each in judged.findings if each.partition.topic.startswith(topic_of(len(STORIES) - 1, ""))]

    assert (finding.count, len(finding.examples)) == (30, 20)


def test_what_was_judged_is_counted(judged: Delivery) -> None:
    """Of the first story: three records expected, three found, and one of somebody who keeps no ledger."""
    [count] = [each for each in judged.counts if each.partition.topic == "story0.east.orders"]

    assert (count.expected, count.found, count.without_ledger) == (3, 3, 1)


class TestVerdict:
    """What the findings come to."""

    @staticmethod
    def judge(
        spark: SparkSession,
        logs: Sequence[Row],
        *,
        tolerated: Iterable[Anomaly] = (),
        gaps: Sequence[MissingEvidence] = (),
    ) -> Delivery:
        sends = [sent(0), sent(1), sent(9, place=Place("east", "topics nobody asked about"))]
        return judge_logs(
            sends_of(spark, *sends), logs_of(spark, *logs), [MIRRORED], tolerated=frozenset(tolerated), gaps=gaps
        )

    def test_a_log_that_was_not_read_to_its_end_proves_no_absence(self, spark: SparkSession) -> None:
        """The broker went away while the copy was read; what was not seen may well be there."""
        gap = MissingEvidence(
            "west east.orders-0", "was not read to the end", (COPY.cluster, TopicPartition(COPY.topic, 0))
        )
        delivery = self.judge(spark, [logged(0)], gaps=[gap])

        assert (delivery.verdict, named(delivery.findings)) == (Verdict.UNKNOWN, {Anomaly.STRANDED: [1]})

    def test_a_ledger_that_was_not_closed_proves_nothing_of_records_it_does_not_know(self, spark: SparkSession) -> None:
        """The load generator was killed before it could write its last part."""
        gap = MissingEvidence("sends/p-3.parquet", "not closed")
        unknown = self.judge(spark, [logged(0), logged(1), logged(2)], gaps=[gap])
        broken = self.judge(spark, [logged(0), logged(1), logged(1, 2)], gaps=[gap])

        assert (unknown.verdict, named(unknown.findings)) == (Verdict.UNKNOWN, {Anomaly.UNEXPECTED: [2]})
        assert (broken.verdict, named(broken.findings)) == (Verdict.FAIL, {Anomaly.DUPLICATED: [1]})

    def test_what_is_tolerated_is_told_and_is_no_failure(self, spark: SparkSession) -> None:
        delivery = self.judge(spark, [logged(0)], tolerated=[Anomaly.STRANDED])

        assert (delivery.verdict, delivery.total(Anomaly.STRANDED)) == (Verdict.PASS, 1)
        assert "1 stranded (tolerated)" in str(delivery.findings[0])
