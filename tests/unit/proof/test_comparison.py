"""The verdict on a comparison: any difference fails it, and what was not looked at is never equal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.comparison import Difference, Equivalence, PartitionEquivalence
from mirror.proof.left_out import LeftOut

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
EQUAL = PartitionEquivalence(ORDERS, COPY, 10, 0, 0, 0, 0, 0, 0, None, None)
PASS, FAIL, UNKNOWN = Verdict


@pytest.mark.parametrize("what", Difference)
def test_one_difference_of_any_kind_fails_it(what: Difference) -> None:
    differs = replace(EQUAL, **{what.value: 1})
    assert (EQUAL.verdict, differs.verdict) == (PASS, FAIL)
    assert Equivalence((EQUAL, differs)).verdict is FAIL


def test_what_others_wrote_where_they_may_is_no_difference() -> None:
    assert replace(EQUAL, foreign=5).verdict is PASS


def test_a_side_that_was_not_read_to_its_end_is_not_known_whatever_was_found() -> None:
    unread = replace(EQUAL, problem="west was not read to the end")
    assert (unread.verdict, replace(unread, missing=1).verdict) == (UNKNOWN, UNKNOWN)
    assert Equivalence((EQUAL, unread)).verdict is UNKNOWN


@pytest.mark.parametrize(("is_unchecked", "verdict"), [(True, UNKNOWN), (False, PASS)])
def test_what_was_left_out_without_being_checked_leaves_the_verdict_open(
    *, is_unchecked: bool, verdict: Verdict
) -> None:
    left_out = LeftOut("east", ORDERS, 10, 12, None, "the copy is stopped", is_unchecked)
    assert Equivalence((EQUAL,), left_out=(left_out,)).verdict is verdict
    assert Equivalence((replace(EQUAL, missing=1),), left_out=(left_out,)).verdict is FAIL


def test_of_nothing_that_was_compared_nothing_is_known() -> None:
    assert Equivalence(()).verdict is UNKNOWN


def test_what_could_not_be_compared_is_told_as_not_known_and_not_as_none() -> None:
    half = replace(EQUAL, not_compared=frozenset({Difference.MISSING}))
    assert (half.as_json()["missing"], half.as_json()["extra"]) == (None, 0)
    assert replace(half, missing=2).as_json()["missing"] == 2
