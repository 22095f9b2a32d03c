"""What is done about an error of the protocol: sent again, looked up, done again in another transaction, or given up."""

from __future__ import annotations

from typing import Any

import kafka.errors
import pytest

from mirror.kafka import codes
from mirror.kafka.problems import BrokerRefused

ERRORS: list[Any] = [
    each
    for each in vars(kafka.errors).values()
    if isinstance(each, type) and issubclass(each, kafka.errors.BrokerResponseError)
]
KNOWN = {error.errno: error for error in ERRORS if error.errno is not None}


def named(*names: str) -> set[int]:
    return {next(code for code, error in KNOWN.items() if codes.name(code) == name) for name in names}


def test_where_only_the_log_tells_what_was_written() -> None:
    """Nobody needs to look at a partition for these: the next epoch matches its tail."""
    assert named(
        "OutOfOrderSequenceNumber",
        "DuplicateSequenceNumber",
        "InvalidProducerEpoch",
        "UnknownProducerId",
        "ProducerFenced",
    ) == set(codes.SEQUENCE_ERRORS)


def test_what_ends_a_transaction_for_good() -> None:
    assert named(
        "InvalidProducerEpoch",
        "InvalidTxnState",
        "InvalidProducerIdMapping",
        "TransactionalIdAuthorizationFailed",
        "ProducerFenced",
    ) | {120} == set(codes.TRANSACTION_ERRORS)


def test_what_a_coordinator_will_be_able_to_do_later() -> None:
    assert named(
        "CoordinatorLoadInProgress",
        "CoordinatorNotAvailable",
        "NotCoordinator",
        "ConcurrentTransactions",
        "RequestTimedOut",
    ) | {-1} == set(codes.COORDINATOR_BUSY)
    assert named("CoordinatorNotAvailable", "NotCoordinator") == set(codes.COORDINATOR_MOVED)


def test_a_right_that_is_lacking_is_named_and_no_other_error_asks_for_one() -> None:
    assert codes.hint(29, "Write on the topic") == " (needs Write on the topic)"
    assert codes.hint(19, "Write on the topic") == ""
    assert codes.hint(29, "") == ""


def test_an_end_that_a_leader_does_not_know_yet_is_told_with_what_it_waits_for() -> None:
    """Without enough replicas in sync it waits for as long as that lasts."""
    refused = str(BrokerRefused("offsets of orders-0", codes.OFFSET_NOT_AVAILABLE))
    assert refused.startswith("offsets of orders-0: OffsetNotAvailable (a leader")
    assert "min.insync.replicas" in refused


def test_what_begins_a_fetch_session_anew() -> None:
    """KIP-227: not found, another epoch, and a topic id that the session has otherwise."""
    assert named("FetchSessionIdNotFound", "InvalidFetchSessionEpoch") | {106} == set(codes.FETCH_SESSION_ERRORS)


@pytest.mark.parametrize("code", [-1, 2, 3, 5, 6, 7, 13, 19, 20, 29, 31])
def test_what_may_pass_is_sent_again(code: int) -> None:
    """Leaders that moved, replicas that lag, a batch damaged on its way, and rights that can still be granted."""
    assert codes.is_retriable(code)


@pytest.mark.parametrize("code", [10, 18, 22, 32, 45, 47, 48, 49, 53, 58, 87, 90])
def test_what_stands_against_the_batch_itself_is_not(code: int) -> None:
    assert not codes.is_retriable(code)
