"""Asking until an answer is as it is wanted, or time is up."""

from __future__ import annotations

import pytest

from mirror.waiting import WaitTimeout, last_seen, wait_until


def test_the_answer_that_is_wanted_is_returned() -> None:
    answers = [1, 2, 3]
    assert wait_until(lambda: answers.pop(0), "two", timeout_seconds=9, until=lambda seen: seen == 2) == 2
    assert answers == [3]


def test_who_waits_in_vain_is_told_what_was_seen_last() -> None:
    with pytest.raises(WaitTimeout, match=r"waited 0.0 s for nine; last seen: 'one'"):
        wait_until(lambda: "one", "nine", timeout_seconds=0.0, until=lambda seen: seen == "nine")


def test_or_gets_what_was_seen_last() -> None:
    asked = []
    assert last_seen(lambda: asked.append(1) or "one", "nine", timeout_seconds=0.0, until=lambda _: False) == "one"  # type: ignore[func-returns-value]
    assert asked == [1]


def test_what_goes_wrong_is_not_tried_again() -> None:
    answers: list[int] = []
    with pytest.raises(IndexError):
        last_seen(answers.pop, "anything", timeout_seconds=9)
