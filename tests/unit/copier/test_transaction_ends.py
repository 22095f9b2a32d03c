"""What is left of a transaction when it, or its epoch, ends."""

from __future__ import annotations

import pytest

from mirror.copier import transactions as module
from tests.unit.copier.test_transactions import ADD, CONCURRENT, END, INVALID_EPOCH, INVALID_RECORD, STATE, Target


def test_what_was_never_sent_keeps_no_epoch_from_ending() -> None:
    """It is read again in the next one, whether this one was wound down or given up."""
    wound_down = Target()
    wound_down.take(0, 0)
    wound_down.transactions.wind_down()
    assert wound_down.lanes[0].stream.is_quiet
    given_up = Target()
    given_up.take(0, 0)
    given_up.turn()
    given_up.transactions.wind_down()
    assert not given_up.lanes[0].stream.is_quiet, "one record at least is sent in each epoch"
    given_up.transactions.give_up()
    assert given_up.lanes[0].stream.is_quiet


def test_a_position_without_data_that_is_not_written_yet_is_not_committed() -> None:
    target = Target()
    (lane,) = target.lanes
    lane.skip_gap(10, 0)
    target.transactions.call()
    target.turn()
    target.turn()
    assert target.connection.asked == [ADD]
    end = target.transactions.end()
    assert "the epoch was over before it was" in str(end.lost)
    assert end.is_stuck


def test_whether_the_cluster_may_come_to_its_senses_is_told_with_what_was_lost() -> None:
    """Where the slot was fenced another one is needed at once; where nothing is answered the id may be stuck."""
    fenced, unsure = Target(), Target()
    for target in (fenced, unsure):
        target.open(0)
    fenced.lanes[0].stream.take()
    fenced.lanes[0].stream.answered(INVALID_EPOCH, -1, "")
    unsure.lanes[0].stream.take()
    unsure.lanes[0].stream.lost("the connection broke")
    unsure.lanes[0].stream.take()
    unsure.lanes[0].stream.answered(INVALID_RECORD, -1, "")
    for target in (fenced, unsure):
        for _ in range(3):
            target.turn()
    assert [each.transactions.end().is_stuck for each in (fenced, unsure)] == [False, True]


def test_of_a_lost_transaction_nothing_is_asked_and_no_answer_waited_for() -> None:
    target = Target()
    target.answers[STATE] = INVALID_RECORD
    target.open(0)
    for _ in range(3):
        target.turn()
    target.take(0, 1)
    target.turn()
    assert target.transactions.lost is not None
    asked = list(target.connection.asked)
    target.transactions.ask(target.now + 1000)
    assert target.connection.asked == asked
    waiting = Target()
    waiting.take(0, 0)
    waiting.turn()
    waiting.turn()
    waiting.transactions._lose("another has the slot")
    waiting.transactions.ask(waiting.now + 1000)
    assert waiting.connection.asked == [ADD]


def test_a_transaction_without_a_connection_has_none_to_keep() -> None:
    target = Target()
    target.transactions.release()
    assert not target.given_back


def test_a_coordinator_that_recovers_is_no_trouble_any_more_and_is_asked_soon_the_next_time() -> None:
    target = Target()
    target.open(0)
    for _ in range(3):
        target.turn()
    waits = []
    for _ in range(12):
        assert target.connection.asked[-1] == END
        target.answer_commit(CONCURRENT)
        waits.append(target.transactions.pause(target.now))
        target.now += waits[-1]
        target.turn()
    assert waits[0] == pytest.approx(module._FIRST_REST_SECONDS)
    assert waits[-1] == pytest.approx(module._LONGEST_REST_SECONDS)
    assert target.transactions.trouble is not None
    target.answer_commit()
    assert target.transactions.trouble is None
    target.now += 1.0
    target.open(1)
    for _ in range(3):
        target.turn()
    target.answer_commit(CONCURRENT)
    assert target.transactions.pause(target.now) == pytest.approx(module._FIRST_REST_SECONDS)
    assert target.transactions.trouble is None
