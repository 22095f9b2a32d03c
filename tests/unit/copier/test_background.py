"""What takes long is done beside the loop, and what comes of it is taken in by the loop alone."""

from __future__ import annotations

import select
import threading

import pytest

from mirror.copier.background import BackgroundCalls
from mirror.kafka.problems import ConnectionFailed
from mirror.waiting import wait_until


def take_in(calls: BackgroundCalls) -> None:
    """Wait, as a loop does, until something is done, and take it in."""
    assert select.select([calls], [], [], 10.0)[0]
    calls.take_in()


def answered(may_answer: threading.Event) -> bool:
    """Answer as late as a broker that was frozen."""
    return wait_until(may_answer.is_set, "leave to answer", timeout_seconds=10)


def test_the_loop_goes_on_while_a_call_takes_its_time_and_takes_in_what_came_of_it() -> None:
    calls, answers = BackgroundCalls(), []
    may_answer = threading.Event()
    calls.begin("slow", lambda: answered(may_answer), answers.append)
    calls.begin("quick", lambda: 1, answers.append)
    take_in(calls)
    assert (answers, calls.is_under_way("slow"), calls.is_under_way("quick")) == ([1], True, False)
    may_answer.set()
    take_in(calls)
    assert answers == [1, True]
    calls.close()


def test_a_failure_is_taken_in_and_a_defect_is_raised_where_the_loop_runs() -> None:
    calls, answers = BackgroundCalls(), []

    def fail() -> None:
        raise ConnectionFailed("nobody there")

    def break_down() -> None:
        raise ValueError("a defect")

    calls.begin("fails", fail, answers.append)
    take_in(calls)
    assert [str(each) for each in answers] == ["nobody there"]
    calls.begin("breaks", break_down, answers.append)
    with pytest.raises(ValueError, match="a defect"):
        take_in(calls)
    calls.close()


def test_what_nobody_waits_for_any_more_is_given_up() -> None:
    calls, taken, dropped = BackgroundCalls(), [], []
    may_answer = threading.Event()
    calls.begin("late", lambda: answered(may_answer), taken.append, drop=dropped.append)
    calls.close()
    may_answer.set()
    wait_until(lambda: dropped, "the late answer to be dropped", timeout_seconds=10)
    assert (taken, dropped) == ([], [True])


def test_one_thread_serves_calls_that_come_one_after_the_other_and_ends_with_the_loop() -> None:
    """The start of a thread is waited for: on a busy machine that took a sixth of the copy loop's time."""
    calls, threads = BackgroundCalls(), list[threading.Thread]()
    for _ in range(3):
        calls.begin("again", threading.current_thread, threads.append)
        take_in(calls)
    assert len(set(threads)) == 1
    calls.close()
    threads[0].join(10)
    assert not threads[0].is_alive()
