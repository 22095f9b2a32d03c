"""What a report says of the point of no return: whoever decides by it must know whether applications have moved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.drill.report import _return_sentences
from mirror.evidence.journal import Event

AGREED, STARTED, FAULT = Event.POINT_OF_NO_RETURN, Event.STEP_STARTED, Event.FAULT_INJECTED
CROSSED = ["The point of no return had been crossed.", "The way back: mirror failback."]


def journal(*events: Event) -> Any:
    return SimpleNamespace(entries=[SimpleNamespace(event=each, facts={"undo": "mirror failback"}) for each in events])


@pytest.mark.parametrize(
    ("own", "procedures", "told"),
    [
        pytest.param((STARTED,), (), [], id="nobody was asked"),
        pytest.param((AGREED,), (), ["Nothing was begun."], id="nothing was begun"),
        pytest.param((AGREED,), ((STARTED,),), ["The point of no return was not crossed."], id="taken back"),
        pytest.param((AGREED,), ((STARTED, AGREED),), CROSSED, id="a procedure that has started applications"),
        pytest.param((AGREED, FAULT), (), CROSSED, id="an exercise that has killed a cluster"),
    ],
)
def test_the_point_of_no_return_is_crossed_by_what_was_done_and_not_by_a_word(
    own: tuple[Event, ...], procedures: tuple[tuple[Event, ...], ...], told: list[str]
) -> None:
    """Reports of runs in which nothing was begun said that it had been crossed, and what the way back was."""
    evidence = SimpleNamespace(journal=journal(*own), procedures=[journal(*each) for each in procedures])
    assert _return_sentences(cast(Any, evidence)) == told
