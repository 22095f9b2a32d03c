"""The account of a failover and failback, and the amounts that the RPO is made of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.account import Account, Fate, Sides, settle_account
from mirror.proof.delivery import Place, Route
from mirror.proof.evidence import MissingEvidence
from mirror.proof.history import missing_acked, stranded_records
from mirror.proof.objectives import Missing
from tests.spark.histories import MIRRORED, NEW, SENT_AT, Row, logged, logs_of, own, sends_of, sent

pytestmark = pytest.mark.spark

HOME = Place("east", "west.orders")
SIDES = Sides("east", "west", copies=(MIRRORED,), returns=(Route(NEW, HOME),), returned_at_ms=SENT_AT + 50)

# East acked 0 to 4, of which 0 to 2 were copied; 5 timed out and was written, 6 timed out and was not. West then acked
# two of its own, which came home. After the return east acked number 60.
SENDS = [
    *(sent(number) for number in range(5)),
    sent(5, status="indeterminate"),
    sent(6, status="indeterminate"),
    *(sent(number, producer="new", place=NEW) for number in (0, 1)),
    sent(60, 6),
]
WEST = [*(logged(number) for number in range(3)), *(own(number, producer="new", place=NEW) for number in (0, 1))]
EAST = [*(own(number) for number in range(6)), own(60, 6)]
RETURNED = [logged(number, producer="new", place=HOME) for number in (0, 1)]


def settle(
    spark: SparkSession, logs: Sequence[Row], *, listed: Sequence[Row] = (), gaps: Sequence[MissingEvidence] = ()
) -> Account:
    return settle_account(
        sends_of(spark, *SENDS), logs_of(spark, *logs), SIDES, listed=sends_of(spark, *listed), gaps=gaps
    )


def fates(account: Account) -> dict[Fate, int]:
    return {line.fate: line.records for line in account.lines}


def test_every_acked_record_has_one_fate_and_the_account_balances(spark: SparkSession) -> None:
    account = settle(spark, [*WEST, *EAST, *RETURNED], listed=[sent(3), sent(4)])

    assert fates(account) == {
        Fate.MIRRORED: 3,
        Fate.LISTED: 2,
        Fate.WRITTEN_ON_STANDBY: 2,
        Fate.WRITTEN_AFTER_RETURN: 1,
    }
    assert (account.acked, account.is_balanced, account.verdict) == (8, True, Verdict.PASS)
    assert (account.indeterminate_found, account.indeterminate_absent) == (1, 1)
    assert account.table().set_index("fate").loc["mirrored", "bytes"] == 300


def test_a_listed_record_that_is_on_the_standby_after_all_is_recovered(spark: SparkSession) -> None:
    """The stranded tail was copied once the old cluster was back."""
    account = settle(spark, [*WEST, *EAST, *RETURNED, logged(3), logged(4)], listed=[sent(3), sent(4)])

    assert fates(account)[Fate.RECOVERED] == 2
    assert account.verdict is Verdict.PASS


def test_a_record_in_no_log_breaks_the_account_and_is_named(spark: SparkSession) -> None:
    """East lost number 4 when it came back; number 3 is only there, and nobody was told."""
    account = settle(spark, [*WEST, *(row for row in EAST if row[6] != 4), *RETURNED])

    assert (fates(account)[Fate.MISSING], fates(account)[Fate.STRANDED]) == (1, 1)
    assert [(each.fate, each.producer, each.sequence, each.record_offset) for each in account.unsettled] == [
        (Fate.MISSING, "p", 4, 4),
        (Fate.STRANDED, "p", 3, 3),
    ]
    assert (account.is_balanced, account.verdict) == (False, Verdict.FAIL)


def test_where_nothing_was_acknowledged_nothing_is_accounted_for(spark: SparkSession) -> None:
    account = settle_account(sends_of(spark, sent(0, status="failed")), logs_of(spark), SIDES)

    assert (account.acked, account.is_balanced, account.verdict) == (0, True, Verdict.UNKNOWN)


def test_what_was_sent_at_the_very_return_is_of_after_it_and_must_be_there(spark: SparkSession) -> None:
    """It need not be copied again; but a record that is nowhere is missing, whenever it was sent."""
    returned, lost = sent(50, 5), sent(51, 6)
    account = settle_account(sends_of(spark, returned, lost), logs_of(spark, own(50, 5)), SIDES)

    assert fates(account) == {Fate.WRITTEN_AFTER_RETURN: 1, Fate.MISSING: 1}


def test_what_was_written_on_the_standby_must_come_home(spark: SparkSession) -> None:
    account = settle(spark, [*WEST, *EAST, RETURNED[0]], listed=[sent(3), sent(4)])

    assert fates(account)[Fate.NOT_RETURNED] == 1
    assert account.verdict is Verdict.FAIL


def test_short_evidence_leaves_the_account_open(spark: SparkSession) -> None:
    """A log was not read to its end: what is missing may be there. A ledger without its end: what balances may not."""
    unread = MissingEvidence("east orders-0", "was not read to the end", ("east", TopicPartition("orders", 0)))
    unclosed = MissingEvidence("sends/p-3.parquet", "was not closed")

    assert settle(spark, [*WEST, *EAST[:3], *RETURNED], gaps=[unread]).verdict is Verdict.UNKNOWN
    assert (
        settle(spark, [*WEST, *EAST, *RETURNED], listed=[sent(3), sent(4)], gaps=[unclosed]).verdict is Verdict.UNKNOWN
    )


def test_a_ledger_that_gives_an_id_twice_or_names_a_strange_cluster_is_not_trusted(spark: SparkSession) -> None:
    strange = sent(0, producer="z", place=Place("north", "orders"))
    account = settle_account(sends_of(spark, sent(0), sent(0), strange), logs_of(spark, own(0), logged(0)), SIDES)

    assert account.verdict is Verdict.FAIL  # three are acked, and not all of them have a fate
    assert [str(gap) for gap in account.gaps] == [
        "north orders: 1 record was sent to a cluster that the account does not know",
        "the ledger of sends: holds 1 ids more than once: two producers had the same name",
    ]


def test_what_the_target_lacks_is_told_per_partition(spark: SparkSession) -> None:
    """The RPO's raw material: partition 0 lacks two acked records, partition 1 none."""
    sends = sends_of(spark, *SENDS, sent(7, 0, partition=1))
    missing = missing_acked(sends, logs_of(spark, *WEST, logged(7, 0, partition=1)), MIRRORED)

    # The record sent after the return was never copied either, and is the third.
    assert missing == (Missing("east", TopicPartition("orders", 0), 3, 300, SENT_AT + 3),)


def test_the_list_of_the_stranded_holds_what_was_written_without_being_acked(spark: SparkSession) -> None:
    """Number 5 timed out and was written; its application may have tried again elsewhere, so it is told as well."""
    rows = stranded_records(sends_of(spark, *SENDS), logs_of(spark, *WEST, *EAST[:5], own(5)), MIRRORED).collect()

    assert {(row["sequence"], row["status"], row["in_own_log"]) for row in rows} == {
        (3, "acked", True),
        (4, "acked", True),
        (5, "indeterminate", True),
        (60, "acked", False),
    }
