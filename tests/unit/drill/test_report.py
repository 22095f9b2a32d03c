"""What a report says of procedures and the point of no return: whoever decides by it must know what has moved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.drill.report import _return_sentences, _taken
from mirror.evidence.journal import Event, Journal
from mirror.kafka.problems import ClusterError
from mirror.model.verdict import Verdict
from mirror.recovery.steps import Result, Step, carry_out, take_back

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


def test_it_says_what_nobody_has_seen_when_it_was_taken_back_and_what_could_not_be(tmp_path: Path) -> None:
    """Both were missing: a row said "taken back" whether or not anybody had looked."""
    journal = Journal(tmp_path / "journal.jsonl")
    passed = Result(Verdict.PASS, "done")

    def fail() -> Result:
        raise ClusterError("west", "resuming", "no answer")

    steps = [
        Step("begin", "", lambda _: passed, undo=lambda: passed),
        Step("stop", "", lambda _: passed, undo=lambda: Result(Verdict.UNKNOWN, "nobody has looked")),
        Step("cut", "", lambda _: passed, undo=fail),
        Step("verify", "", lambda _: passed),
    ]
    carry_out(steps, journal, goes_back=True)
    take_back(steps, journal)
    rows = [(each.name, each.verdict, each.detail) for each in _taken(journal.read())[len(steps) :]]
    assert rows == [
        ("verify", None, "taken back"),
        ("cut", Verdict.FAIL, "not taken back: cluster west: resuming: no answer"),
        ("stop", Verdict.UNKNOWN, "taken back: nobody has looked"),
        ("begin", Verdict.PASS, "taken back: done"),
    ]
