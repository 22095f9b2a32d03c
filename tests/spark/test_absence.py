"""What a copy lacks: told, silent or not yet copied; and which transactions it holds in part."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.proof.absence import Absence, measure_absence
from mirror.proof.delivery import Place, Route
from mirror.proof.findings import Anomaly
from mirror.proof.shared_logs import judge_by_origin, shared_places
from mirror.proof.transactions import TransactionCount, count_transactions
from tests.spark.histories import COPY, MIRRORED, ORDERS, logged, logs_of, own, sends_of, sent

PARTITION = TopicPartition("orders", 0)


def test_a_complete_copy_lacks_nothing(spark: SparkSession) -> None:
    sends = sends_of(spark, *(sent(n) for n in range(3)))
    logs = logs_of(spark, *(own(n) for n in range(3)), *(logged(n) for n in range(3)))

    assert measure_absence(sends, logs, MIRRORED, {}) == Absence()


def test_what_is_missing_in_front_of_copied_records_is_silent_unless_the_replicator_names_it(
    spark: SparkSession,
) -> None:
    """Offsets 1 and 2 are gone from the source too, 4 is still there, 6 and 7 are the tail."""
    sends = sends_of(spark, *(sent(n) for n in range(8)))
    logs = logs_of(spark, *(own(n) for n in (0, 3, 4, 5, 6, 7)), *(logged(n) for n in (0, 3, 5)))

    assert measure_absence(sends, logs, MIRRORED, {}) == Absence(silent=3, tail=2, uncopied=3)
    told = measure_absence(sends, logs, MIRRORED, {PARTITION: [(1, 3)]})
    assert told == Absence(told=2, silent=1, tail=2, uncopied=3)
    parked = measure_absence(sends, logs, MIRRORED, {PARTITION: [(4, 5)]})
    assert parked == Absence(told=1, silent=2, tail=2, uncopied=2)
    elsewhere = measure_absence(sends, logs, MIRRORED, {TopicPartition("orders", 1): [(1, 3)]})
    assert elsewhere.told == 0
    up_to_there = measure_absence(sends, logs, MIRRORED, {PARTITION: [(0, 1), (3, 4), (5, 6)]})
    assert up_to_there.told == 0


def test_a_partition_of_which_nothing_is_copied_lacks_its_tail(spark: SparkSession) -> None:
    """It is no silent loss: nothing behind it was copied either."""
    sends = sends_of(spark, sent(0), *(sent(n, partition=1, producer="q") for n in (0, 1)))
    logs = logs_of(spark, own(0), logged(0), *(own(n, partition=1, producer="q") for n in (0, 1)))

    assert measure_absence(sends, logs, MIRRORED, {}) == Absence(tail=2, uncopied=2)


def test_a_send_that_was_not_acked_is_no_loss_though_its_record_may_be_uncopied(spark: SparkSession) -> None:
    sends = sends_of(spark, sent(0), sent(1, status="indeterminate"), sent(2))
    logs = logs_of(spark, own(0), own(1), own(2), logged(0), logged(2))

    assert measure_absence(sends, logs, MIRRORED, {}) == Absence(uncopied=1)


def test_a_transaction_of_which_the_copy_holds_a_part_is_torn(spark: SparkSession) -> None:
    """Four transactions of two records: whole, torn, absent, aborted and copied all the same."""
    sends = sends_of(spark, *(sent(n) for n in range(6)), *(sent(n, status="failed") for n in (6, 7)))
    logs = logs_of(spark, *(logged(n) for n in (0, 1, 2, 6)))

    found = count_transactions(sends, logs, ORDERS.cluster, {"orders": COPY}, 2)

    assert found == TransactionCount(whole=1, torn=1, absent=1, aborted_seen=1)


def test_records_of_two_clusters_in_one_log_have_no_order_among_each_other(spark: SparkSession) -> None:
    """Topics keep their names: the log on west holds its own records and those of east."""
    east, west = Place("east", "orders"), Place("west", "orders")
    routes = [Route(east, west), Route.own(west)]
    sends = sends_of(
        spark,
        *(sent(n, producer="e", place=east) for n in (0, 1)),
        *(sent(n, 10 + n, producer="w", place=west) for n in (0, 1)),
    )
    places = [(0, 10, "w"), (0, 11, "e"), (1, 12, "w"), (1, 13, "e")]
    logs = logs_of(spark, *(logged(n, at, producer=producer, place=west) for n, at, producer in places))
    shared = shared_places(routes)

    found = judge_by_origin(sends, logs, routes, shared=shared, tolerated=frozenset())
    late = judge_by_origin(
        sends,
        logs.where("not (producer = 'e' and sequence = 0)"),
        routes,
        shared=shared,
        tolerated=frozenset(),
    )

    assert shared == {west}
    assert found.totals[Anomaly.REORDERED] == 0
    assert late.totals[Anomaly.LOST] == 1
