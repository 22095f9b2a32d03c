"""What a copy lacks: told, silent or not yet copied; and which transactions it holds in part."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.proof.delivery import Place, Route
from mirror.proof.eras import Replaced, judge_by_era
from mirror.proof.findings import Anomaly, Era
from mirror.proof.losses import DeclaredGap, MissingRecords, measure_losses
from mirror.proof.same_offsets import count_moved
from mirror.proof.shared_logs import judge_by_origin, shared_places
from mirror.proof.torn_transactions import TransactionCount, count_transactions
from tests.spark.histories import COPY, MIRRORED, ORDERS, SENT_AT, Row, logged, logs_of, own, sends_of, sent

PARTITION = TopicPartition("orders", 0)


def test_a_complete_copy_lacks_nothing(spark: SparkSession) -> None:
    sends = sends_of(spark, *(sent(n) for n in range(3)))
    logs = logs_of(spark, *(own(n) for n in range(3)), *(logged(n) for n in range(3)))

    assert measure_losses(sends, logs, MIRRORED, {}) == MissingRecords()


def test_what_is_missing_in_front_of_copied_records_is_silent_unless_the_replicator_names_it(
    spark: SparkSession,
) -> None:
    """Offsets 1 and 2 are gone from the source too, 4 is still there, 6 and 7 are the tail."""
    sends = sends_of(spark, *(sent(n) for n in range(8)))
    logs = logs_of(spark, *(own(n) for n in (0, 3, 4, 5, 6, 7)), *(logged(n) for n in (0, 3, 5)))

    assert measure_losses(sends, logs, MIRRORED, {}) == MissingRecords(silent=3, tail=2, uncopied=3)
    told = measure_losses(sends, logs, MIRRORED, {PARTITION: [DeclaredGap(1, 3)]})
    assert told == MissingRecords(told=2, silent=1, tail=2, uncopied=3)
    parked = measure_losses(sends, logs, MIRRORED, {PARTITION: [DeclaredGap(4, 5, is_still_there=True)]})
    assert parked == MissingRecords(told=1, silent=2, tail=2, uncopied=2)
    elsewhere = measure_losses(sends, logs, MIRRORED, {TopicPartition("orders", 1): [DeclaredGap(1, 3)]})
    assert elsewhere.told == 0
    up_to_there = measure_losses(
        sends, logs, MIRRORED, {PARTITION: [DeclaredGap(0, 1), DeclaredGap(3, 4), DeclaredGap(5, 6)]}
    )
    assert up_to_there.told == 0


def test_a_record_that_the_source_still_has_is_excused_only_where_it_was_left_out_for_its_size(
    spark: SparkSession,
) -> None:
    sends = sends_of(spark, sent(0), sent(1, size=2000), sent(2, size=10), sent(3))
    logs = logs_of(spark, *(own(n) for n in range(4)), logged(0), logged(3))

    def found(gap: DeclaredGap) -> MissingRecords:
        return measure_losses(sends, logs, MIRRORED, {PARTITION: [gap]}, least_bytes=1000)

    assert found(DeclaredGap(1, 3)) == MissingRecords(silent=2, uncopied=2)
    assert found(DeclaredGap(1, 3, is_still_there=True)) == MissingRecords(told=1, silent=1, uncopied=1)


REPLACED = Replaced(ORDERS, SENT_AT + 10, SENT_AT + 20)


def test_a_gap_of_the_old_log_says_nothing_of_the_same_offsets_of_the_new_one(spark: SparkSession) -> None:
    """Offsets 2 and 3 of the old topic are gone, and named; of the new one 2 lacks, and its own log has lost 3."""
    old = [sent(n, producer="old") for n in range(4)]
    new = [sent(100 + n, n) for n in range(5)]
    sends = sends_of(spark, *old, *new)
    logs = logs_of(
        spark,
        *(own(100 + n, n) for n in (0, 1, 2, 4)),
        *(logged(n, n, producer="old") for n in (0, 1)),
        *(logged(100 + n, 10 + n) for n in (0, 1, 4)),
    )

    def found(gap: DeclaredGap) -> MissingRecords:
        return measure_losses(sends, logs, MIRRORED, {PARTITION: [gap]}, replaced=REPLACED)

    assert found(DeclaredGap(2, 4, is_of_old_log=True)) == MissingRecords(told=2, silent=2, uncopied=1)
    # Offsets of the old topic behind the new one's last are no tail: the copy has gone on.
    assert measure_losses(sends, logs, MIRRORED, {}, replaced=REPLACED) == MissingRecords(silent=4, uncopied=1)


def test_each_era_of_a_log_is_judged_on_its_own(spark: SparkSession) -> None:
    """The new topic's offsets begin at 0 again, which is no disorder; two of the new records that change places are."""
    old = [sent(n, 50 + n, producer="old") for n in range(3)]
    new = [sent(100 + n, n) for n in range(3)]
    sends = sends_of(spark, *old, *new)
    copied = [logged(n, n, producer="old") for n in range(2)]

    def found(*after: Row) -> Mapping[tuple[Anomaly, Era], int]:
        logs = logs_of(spark, *copied, *after)
        said = judge_by_era(sends, logs, [MIRRORED], shared=frozenset(), replaced=[REPLACED])
        return {(each.anomaly, each.era): each.count for each in said.findings}

    tail_of_the_old_one = {(Anomaly.LOST, Era.BEFORE): 1}
    assert found(*(logged(100 + n, 10 + n) for n in range(3))) == tail_of_the_old_one
    assert found(logged(101, 10), logged(100, 11), logged(102, 12)) == {
        **tail_of_the_old_one,
        (Anomaly.REORDERED, Era.AFTER): 1,
    }
    strange = logged(7, 13, producer="nobody")
    assert (Anomaly.UNEXPECTED, Era.AFTER) in found(*(logged(100 + n, 10 + n) for n in range(3)), strange)


def test_a_partition_of_which_nothing_is_copied_lacks_its_tail(spark: SparkSession) -> None:
    """It is no silent loss: nothing behind it was copied either."""
    sends = sends_of(spark, sent(0), *(sent(n, partition=1, producer="q") for n in (0, 1)))
    logs = logs_of(spark, own(0), logged(0), *(own(n, partition=1, producer="q") for n in (0, 1)))

    assert measure_losses(sends, logs, MIRRORED, {}) == MissingRecords(tail=2, uncopied=2)


def test_a_send_that_was_not_acked_is_no_loss_though_its_record_may_be_uncopied(spark: SparkSession) -> None:
    sends = sends_of(spark, sent(0), sent(1, status="indeterminate"), sent(2))
    logs = logs_of(spark, own(0), own(1), own(2), logged(0), logged(2))

    assert measure_losses(sends, logs, MIRRORED, {}) == MissingRecords(uncopied=1)


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


def test_records_at_another_offset_than_the_source_s_are_counted_and_those_that_are_gone_are_not(
    spark: SparkSession,
) -> None:
    """Of three copies one is where it was; the record of another topic with the same number is none of them."""
    there = (own(0), own(1), own(2), own(4), own(3, 9, place=Place("east", "payments")))
    logs = logs_of(spark, *there, logged(0), logged(1, 2), logged(2, 3), logged(3))

    assert count_moved(logs, MIRRORED) == 2
