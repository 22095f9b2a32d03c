"""What is said of logs, told by histories of a few records; the harmless twin of each stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.delivery import Delivery, Place, Route, judge_logs
from mirror.proof.evidence import Gap
from mirror.proof.findings import Anomaly
from tests.spark.histories import COPY, MIRRORED, NEW, ORDERS, Row, logged, logs_of, own, sends_of, sent

pytestmark = pytest.mark.spark


def judge(
    spark: SparkSession, sends: Iterable[Row], logs: Iterable[Row], *routes: Route, gaps: Iterable[Gap] = ()
) -> Delivery:
    return judge_logs(sends_of(spark, *sends), logs_of(spark, *logs), routes or (MIRRORED,), gaps=tuple(gaps))


def told(delivery: Delivery) -> Mapping[Anomaly, list[int]]:
    """The sequences named, per anomaly."""
    return {each.anomaly: [example.sequence for example in each.examples] for each in delivery.findings}


def test_a_whole_copy_passes(spark: SparkSession) -> None:
    """Three records are sent, and copied at other offsets, as another record was there before them."""
    delivery = judge(spark, [sent(0), sent(1), sent(2)], [logged(None, 0), logged(0, 1), logged(1, 2), logged(2, 3)])

    assert (delivery.verdict, told(delivery)) == (Verdict.PASS, {})
    assert [(each.partition, each.expected, each.found, each.without_ledger) for each in delivery.counts] == [
        (TopicPartition("east.orders", 0), 3, 3, 1)
    ]


def test_an_acked_record_that_was_passed_over_is_lost(spark: SparkSession) -> None:
    """The copy has the first and the third record, so it went past the second."""
    delivery = judge(spark, [sent(0), sent(1), sent(2)], [logged(0), logged(2, 1)])

    assert (delivery.verdict, told(delivery)) == (Verdict.FAIL, {Anomaly.LOST: [1]})
    [finding] = delivery.findings
    assert str(finding) == "west east.orders-0: 1 lost, such as p:1: acked at offset 1"


def test_the_tail_that_was_not_copied_is_stranded_not_lost(spark: SparkSession) -> None:
    """The copy ends after the first record; nothing behind it was copied."""
    delivery = judge(spark, [sent(0), sent(1), sent(2)], [logged(0)])

    assert (delivery.verdict, told(delivery)) == (Verdict.FAIL, {Anomaly.STRANDED: [1, 2]})


def test_every_partition_has_its_own_tail(spark: SparkSession) -> None:
    """Partition 1 was copied to its end; that says nothing about partition 0, of which nothing was copied."""
    delivery = judge(spark, [sent(0), sent(1, partition=1)], [logged(1, partition=1)])

    assert told(delivery) == {Anomaly.STRANDED: [0]}
    assert delivery.findings[0].partition == TopicPartition("east.orders", 0)


def test_in_its_own_log_a_missing_tail_is_lost(spark: SparkSession) -> None:
    """The cluster had acknowledged the last record, and has it no more."""
    delivery = judge(spark, [sent(0), sent(1)], [own(0)], Route.own(ORDERS))

    assert told(delivery) == {Anomaly.LOST: [1]}


def test_an_indeterminate_send_may_be_there_or_not(spark: SparkSession) -> None:
    """Two sends timed out; the record of one of them is in the log."""
    delivery = judge(
        spark,
        [sent(0), sent(1, status="indeterminate"), sent(2, status="indeterminate"), sent(3, 2)],
        [logged(0), logged(2, 1), logged(3, 2)],
    )

    assert (delivery.verdict, told(delivery)) == (Verdict.PASS, {})


def test_a_failed_send_must_not_be_there(spark: SparkSession) -> None:
    """The broker refused the second record, and yet it is there."""
    assert told(judge(spark, [sent(0), sent(1, status="failed")], [logged(0)])) == {}
    assert told(judge(spark, [sent(0), sent(1, status="failed")], [logged(0), logged(1)])) == {Anomaly.UNEXPECTED: [1]}


def test_a_record_that_nobody_sent_is_unexpected(spark: SparkSession) -> None:
    """The ledger of this producer ends before the record that is in the log."""
    delivery = judge(spark, [sent(0)], [logged(0), logged(1)])

    assert (delivery.verdict, told(delivery)) == (Verdict.FAIL, {Anomaly.UNEXPECTED: [1]})


def test_a_ledger_that_was_not_closed_proves_nothing_about_records_it_does_not_know(spark: SparkSession) -> None:
    """The same log; but the load generator was killed before it could write its last part."""
    delivery = judge(spark, [sent(0)], [logged(0), logged(1)], gaps=[Gap("sends/p-3.parquet", "not closed")])

    assert (delivery.verdict, told(delivery)) == (Verdict.UNKNOWN, {Anomaly.UNEXPECTED: [1]})


def test_a_record_that_is_there_twice_is_duplicated_and_not_reordered(spark: SparkSession) -> None:
    """After a restart the copy took up two records too early."""
    delivery = judge(
        spark, [sent(0), sent(1), sent(2)], [logged(0), logged(1), logged(0, 2), logged(1, 3), logged(2, 4)]
    )

    assert told(delivery) == {Anomaly.DUPLICATED: [0, 1]}
    assert delivery.findings[0].examples[0].detail == "there 2 times, last at offset 2"


def test_a_record_behind_one_that_it_should_precede_is_reordered(spark: SparkSession) -> None:
    """Two neighbours have changed places, though they are of different producers."""
    sends = [sent(0), sent(0, 1, producer="q"), sent(1, 2)]
    in_order = [logged(0), logged(0, 1, producer="q"), logged(1, 2)]
    swapped = [logged(0), logged(1, 1), logged(0, 2, producer="q")]

    assert told(judge(spark, sends, in_order)) == {}
    [finding] = judge(spark, sends, swapped).findings
    assert (finding.anomaly, finding.examples[0].producer) == (Anomaly.REORDERED, "q")
    assert finding.examples[0].detail == "was at offset 1 and is behind the one that was at 2"


def test_the_order_of_a_producer_is_kept_also_where_no_offset_is_known(spark: SparkSession) -> None:
    """Three sends timed out and were written all the same, in another order."""
    sends = [sent(number, status="indeterminate") for number in range(3)]

    assert told(judge(spark, sends, [logged(0), logged(1), logged(2)])) == {}
    assert told(judge(spark, sends, [logged(0), logged(2, 1), logged(1, 2)])) == {Anomaly.REORDERED: [1]}


def test_another_content_or_timestamp_or_partition_is_an_alteration(spark: SparkSession) -> None:
    """Of three records one was re-encoded, one stamped anew, one put into another partition."""
    delivery = judge(
        spark,
        [sent(0), sent(1), sent(2)],
        [logged(0, other_content=True), logged(1, later_by=5), logged(2, 0, partition=1)],
    )

    [finding] = delivery.findings
    assert finding.anomaly is Anomaly.ALTERED
    assert {example.sequence: example.detail for example in finding.examples} == {
        0: "content differs",
        1: "timestamp is 1000006, was 1000001",
        2: "is in partition 1",
    }


def test_an_acknowledged_offset_must_be_that_of_the_record(spark: SparkSession) -> None:
    """The broker said offset 5, and the record is at 6: somebody else's record was put in between."""
    delivery = judge(spark, [sent(0, 5)], [own(0, 6)], Route.own(ORDERS))

    assert told(delivery) == {Anomaly.ALTERED: [0]}


def test_one_ledger_judges_several_logs(spark: SparkSession) -> None:
    """After a failover: the own log is whole, the copy has lost a record, the new active cluster has its own records."""
    sends = [sent(0), sent(1), sent(2), sent(0, producer="new", place=NEW)]
    logs = [own(0), own(1), own(2), logged(0), logged(2, 1), logged(0, producer="new", place=NEW)]
    delivery = judge(spark, sends, logs, Route.own(ORDERS), MIRRORED, Route.own(NEW))

    assert told(delivery) == {Anomaly.LOST: [1]}
    assert delivery.findings[0].cluster == COPY.cluster
    assert [(each.cluster, each.partition.topic, each.expected) for each in delivery.counts] == [
        ("east", "orders", 3),
        ("west", "east.orders", 3),
        ("west", "orders", 1),
    ]


def test_what_is_tolerated_is_told_and_is_no_failure(spark: SparkSession) -> None:
    delivery = judge_logs(
        sends_of(spark, sent(0), sent(1)),
        logs_of(spark, logged(0)),
        [MIRRORED],
        tolerated={Anomaly.STRANDED},
    )

    assert (delivery.verdict, delivery.total(Anomaly.STRANDED)) == (Verdict.PASS, 1)
    assert "1 stranded (tolerated)" in str(delivery.findings[0])


def test_a_log_that_was_not_read_to_its_end_proves_no_loss(spark: SparkSession) -> None:
    """The broker went away while the copy was read; what was not seen may well be there."""
    gap = Gap("west east.orders-0", "was not read to the end", (COPY.cluster, TopicPartition(COPY.topic, 0)))
    delivery = judge(spark, [sent(0), sent(1)], [logged(0)], gaps=[gap])
    whole = judge(spark, [sent(0)], [logged(0)], gaps=[gap])

    assert (delivery.verdict, told(delivery)) == (Verdict.UNKNOWN, {Anomaly.STRANDED: [1]})
    assert (whole.verdict, told(whole)) == (Verdict.UNKNOWN, {})


def test_a_failure_stays_one_however_short_the_evidence(spark: SparkSession) -> None:
    gap = Gap("sends/p-3.parquet", "cannot be read")

    assert judge(spark, [sent(0), sent(1)], [logged(0), logged(0, 1), logged(1, 2)], gaps=[gap]).verdict is Verdict.FAIL


def test_of_nothing_nothing_is_known(spark: SparkSession) -> None:
    assert judge(spark, [], []).verdict is Verdict.UNKNOWN


def test_at_most_twenty_examples_are_shown_and_all_are_counted(spark: SparkSession) -> None:
    sends = [sent(number) for number in range(31)]
    [finding] = judge(spark, sends, [logged(30, 0)]).findings

    assert (finding.count, [example.sequence for example in finding.examples]) == (30, list(range(20)))


def test_other_topics_are_nobodys_business(spark: SparkSession) -> None:
    other = Place("west", "other")
    assert told(judge(spark, [sent(0), sent(1, place=other)], [logged(0), logged(9, place=other)])) == {}
