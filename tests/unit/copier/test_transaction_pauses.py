"""A transaction says when it has something to do next: its task sleeps until then, or until an answer comes."""

from __future__ import annotations

import math

import pytest

from mirror.kafka.channel import ConnectionFailed
from tests.unit.copier.test_transactions import ADD, END, INVALID_EPOCH, STATE, TARGETS, Target

# A turn takes so long, in seconds.
TURN = 0.01


def pause(target: Target) -> float:
    return target.transactions.pause(target.now)


def opened(target: Target, *, answer: int | None = None) -> Target:
    """Let a record go out, to which the target answers so, or nothing."""
    target.answers[TARGETS[0]] = answer
    target.open(0)
    target.turn()
    return target


def test_without_anything_to_write_it_has_nothing_to_do_and_begins_at_once_when_there_is() -> None:
    target = Target()
    target.turn()
    assert (pause(target), target.transactions.is_over) == (math.inf, True)
    target.take(0, 0)
    target.turn()
    assert (pause(target), target.transactions.is_over) == (0.0, False)


def test_it_waits_for_the_connection_and_the_answers_it_has_asked_for() -> None:
    target = Target()
    target.take(0, 0)
    target.turn()
    target.transactions.advance(target.now)
    assert pause(target) == 0.0, "the coordinator is to be asked"
    target.transactions.is_connecting = True
    assert pause(target) == math.inf
    target.transactions.is_connecting = False
    target.turn()
    assert (target.connection.asked, pause(target)) == ([ADD], math.inf)


def test_a_coordinator_that_cannot_be_reached_is_left_alone_for_a_while() -> None:
    target = Target()
    target.reached = ConnectionFailed("nobody answers")
    target.take(0, 0)
    target.turn()
    target.turn()
    rest = pause(target)
    assert 0 < rest < math.inf
    target.now += rest
    assert pause(target) == 0.0
    assert target.transactions.wants_connection(target.now)
    assert not target.transactions.wants_connection(target.now - TURN)
    assert target.transactions.pause(target.now + 5) == 0.0, "never in the past"


@pytest.mark.parametrize("idle_seconds", [0.5, None])
def test_with_something_unanswered_it_takes_more_in_until_its_time_is_over(idle_seconds: float | None) -> None:
    target = opened(Target(seconds=10.0, idle_seconds=idle_seconds))
    assert pause(target) == pytest.approx(10.0)
    target.now += 4.0
    assert pause(target) == pytest.approx(6.0)
    assert target.transactions.pause(target.now + 9.0) == 0.0, "never in the past"


def test_with_all_answered_it_ends_a_while_behind_the_commit_before_or_at_once() -> None:
    """The first one has nothing to keep a distance from."""
    target = Target(seconds=10.0, idle_seconds=0.5)
    target.take(0, 0)
    target.commit()
    committed_at = target.now
    assert pause(target) == math.inf
    target.open(1)
    target.turn()
    assert pause(target) == pytest.approx(committed_at + 0.5 - target.now)
    target.now += pause(target) - 2 * TURN
    target.turn()
    assert target.connection.asked.count(END) == 1
    for _ in range(3):
        target.turn()
    assert target.connection.asked.count(END) == 2
    assert pause(target) == math.inf, "it waits for the answer"


def test_where_it_may_not_end_early_all_answered_changes_nothing() -> None:
    target = Target(seconds=10.0, idle_seconds=None)
    target.open(0)
    target.turn()
    assert pause(target) == pytest.approx(10.0)


def test_while_its_positions_are_under_way_and_when_it_is_lost_it_waits() -> None:
    target = Target()
    target.answers[STATE] = None
    target.open(0)
    for _ in range(3):
        target.turn()
    assert target.connection.asked == [ADD]
    assert pause(target) == math.inf
    lost = opened(Target(), answer=INVALID_EPOCH)
    for _ in range(3):
        lost.turn()
    assert lost.transactions.lost is not None
    assert (pause(lost), lost.transactions.is_over) == (math.inf, True)


def test_a_partition_joins_a_transaction_that_is_open() -> None:
    target = opened(Target(lanes=2))
    target.take(1, 0)
    target.turn()
    assert pause(target) in {0.0, math.inf}
    target.turn()
    assert target.connection.asked == [ADD, ADD]
    target.answer_adding((TARGETS[1], 0))
    target.turn()
    assert TARGETS[1] in target.logs
