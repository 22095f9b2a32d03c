"""What takes long is done beside the loop, and what comes of it is taken in by the loop alone."""

from __future__ import annotations

import select
import threading

import pytest

from mirror.copier.errands import Errands
from mirror.kafka.channel import ConnectionFailed
from mirror.waiting import wait_until


def take_in(errands: Errands) -> None:
    """Wait, as a loop does, until something is done, and take it in."""
    assert select.select([errands], [], [], 10.0)[0]
    errands.take_in()


def answered(may_answer: threading.Event) -> bool:
    """Answer as late as a broker that was frozen."""
    return wait_until(may_answer.is_set, "leave to answer", timeout_seconds=10)


def test_the_loop_goes_on_while_an_errand_takes_its_time_and_takes_in_what_came_of_it() -> None:
    errands, answers = Errands(), []
    may_answer = threading.Event()
    errands.begin("slow", lambda: answered(may_answer), answers.append)
    errands.begin("quick", lambda: 1, answers.append)
    take_in(errands)
    assert (answers, errands.is_under_way("slow"), errands.is_under_way("quick")) == ([1], True, False)
    may_answer.set()
    take_in(errands)
    assert answers == [1, True]
    errands.close()


def test_a_failure_is_taken_in_and_a_defect_is_raised_where_the_loop_runs() -> None:
    errands, answers = Errands(), []

    def fail() -> None:
        raise ConnectionFailed("nobody there")

    def break_down() -> None:
        raise ValueError("a defect")

    errands.begin("fails", fail, answers.append)
    take_in(errands)
    assert [str(each) for each in answers] == ["nobody there"]
    errands.begin("breaks", break_down, answers.append)
    with pytest.raises(ValueError, match="a defect"):
        take_in(errands)
    errands.close()


def test_what_nobody_waits_for_any_more_is_given_up() -> None:
    errands, taken, dropped = Errands(), [], []
    may_answer = threading.Event()
    errands.begin("late", lambda: answered(may_answer), taken.append, drop=dropped.append)
    errands.close()
    may_answer.set()
    wait_until(lambda: dropped, "the late answer to be dropped", timeout_seconds=10)
    assert (taken, dropped) == ([], [True])
