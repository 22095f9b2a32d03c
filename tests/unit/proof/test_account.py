"""The verdict on an account: PASS only for one that balances, of something, with nothing missing from the evidence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.account import Account, AccountLine, Fate
from mirror.proof.evidence import MissingEvidence

# Fates that nobody may be left with.
UNSETTLED = {Fate.MISSING, Fate.STRANDED, Fate.NOT_RETURNED}
UNREAD = MissingEvidence("east orders-0", "was not read to the end", ("east", TopicPartition("orders", 0)))
UNCLOSED = MissingEvidence("sends/p-3.parquet", "was not closed")


def account(acked: int, lines: Sequence[tuple[Fate, int]], gaps: Sequence[MissingEvidence] = ()) -> Account:
    counted = tuple(AccountLine("east", "orders", fate, records, 100 * records) for fate, records in lines)
    return Account(counted, acked, (), 0, 0, tuple(gaps))


@pytest.mark.parametrize("fate", sorted(set(Fate) - UNSETTLED))
def test_an_account_that_balances_passes(fate: Fate) -> None:
    assert account(3, [(fate, 3)]).verdict is Verdict.PASS


@pytest.mark.parametrize("fate", sorted(UNSETTLED))
def test_one_record_that_is_not_settled_fails_it(fate: Fate) -> None:
    assert account(3, [(Fate.MIRRORED, 2), (fate, 1)]).verdict is Verdict.FAIL


@pytest.mark.parametrize("counted", [2, 4])
def test_lines_that_do_not_add_up_fail_it(counted: int) -> None:
    """A record without a fate, or with two."""
    assert account(3, [(Fate.MIRRORED, counted)]).verdict is Verdict.FAIL


def test_where_nothing_was_acknowledged_nothing_is_accounted_for() -> None:
    empty = account(0, [])
    assert empty.is_balanced
    assert empty.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("lines", "gaps", "verdict"),
    [
        ([(Fate.MIRRORED, 3)], [UNREAD], Verdict.UNKNOWN),
        ([(Fate.MIRRORED, 3)], [UNCLOSED], Verdict.UNKNOWN),
        ([(Fate.MIRRORED, 2), (Fate.MISSING, 1)], [UNREAD], Verdict.UNKNOWN),
        ([(Fate.MIRRORED, 2), (Fate.MISSING, 1)], [UNCLOSED], Verdict.FAIL),
    ],
    ids=["unread", "unclosed", "missing in what was not read", "missing, and the ledger is short"],
)
def test_missing_evidence_never_passes_and_only_an_unread_log_excuses(
    lines: Sequence[tuple[Fate, int]], gaps: Sequence[MissingEvidence], verdict: Verdict
) -> None:
    assert account(3, lines, gaps).verdict is verdict
