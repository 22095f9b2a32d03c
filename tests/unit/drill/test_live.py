"""What a person sees while a cell waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mirror.drill import live
from mirror.drill.live import WaitingLine, answer_of, show_waits, shown
from mirror.drill.unattended import UNATTENDED_VARIABLE
from mirror.lab.service_times import Service
from mirror.waiting import Counted, OnLook, WaitTimeout, wait_until, watched


class Screen:
    """What was displayed, in order; the last of an id is what stands there."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def display(self, line: WaitingLine, *, display_id: bool) -> Screen:
        assert display_id
        self.update(line)
        return self

    def update(self, line: WaitingLine) -> None:
        self.drawn.append(str(line))


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A screen on which even the shortest wait is shown."""
    shown_on = Screen()
    monkeypatch.setattr(live, "display", shown_on.display)
    monkeypatch.setattr(live, "_SOON_SECONDS", 0.0)
    return shown_on


def html(line: WaitingLine) -> str:
    return line._repr_mimebundle_()["text/html"]


def test_a_wait_tells_what_each_look_saw() -> None:
    told: list[object] = []

    @contextmanager
    def watcher(what: str) -> Iterator[OnLook]:
        told.append(what)
        yield told.append
        told.append("over")

    looks = iter([0, 1, 2])
    with watched(watcher):
        assert wait_until(lambda: next(looks), "two", timeout_seconds=5, until=lambda seen: seen == 2) == 2
    wait_until(lambda: True, "nobody is told", timeout_seconds=5)

    assert told == ["two", 0, 1, 2, "over"]


def test_a_wait_that_is_given_up_is_over_too() -> None:
    told: list[object] = []

    @contextmanager
    def watcher(what: str) -> Iterator[OnLook]:
        try:
            yield told.append
        finally:
            told.append("over")

    with watched(watcher), pytest.raises(WaitTimeout):
        wait_until(lambda: False, "never", timeout_seconds=0.01)

    assert told[-1] == "over"


def test_a_soon_ended_wait_shows_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_SOON_SECONDS", 3600.0)
    with shown("a moment") as tell:
        tell(["orders-0: 3"])
    assert screen.drawn == []


def test_a_wait_is_drawn_in_its_place_and_leaves_how_long_it_took(screen: Screen) -> None:
    with shown("the copy") as tell:
        tell(["orders-0: 3"])
        tell([])
    assert screen.drawn == ["waiting 0 s for the copy"] * 2 + ["waited 0 s for the copy"]


def test_a_wait_within_another_is_part_of_it(screen: Screen) -> None:
    with shown("the outer") as outer, shown("the inner") as inner:
        inner(1)
        outer(1)
    with shown("the next") as tell:
        tell(1)
    assert {line.partition(" for ")[2] for line in screen.drawn} == {"the outer", "the next"}


def test_lag_and_positions_are_told_apart_by_place() -> None:
    line = WaitingLine("all to be read")
    line.look(["west orders-0, group billing: 12 records", "east->west orders-1: 7", "no <position>"])
    line.look(["west orders-0, group billing: 4 records"])

    assert "west orders-0, group billing</td><td>4 records" in html(line)
    assert "value='2' max='3'" in html(line)
    line.look(["no <position>"])
    assert "no &lt;position&gt;" in html(line)


def test_of_a_long_list_the_rest_is_counted() -> None:
    line = WaitingLine("all")
    line.look([f"orders-{n}: 1" for n in range(20)])
    assert html(line).count("<tr>") == 8
    assert "and 12 more" in html(line)


def test_what_is_counted_has_a_bar() -> None:
    line = WaitingLine("load")
    line.look(Counted(250, 2000))
    assert "value='250' max='2000'" in html(line)
    assert "250 of 2,000" in html(line)


def test_service_names_what_has_come_about() -> None:
    line = WaitingLine("service")
    line.look(Service(1, {"billing": None}))
    assert "the first write</td><td>seen" in html(line)
    assert "group billing reads</td><td>not yet" in html(line)


@pytest.mark.parametrize("seen", [None, False, 3, "starting", []])
def test_what_cannot_be_counted_has_a_bar_without_an_end(seen: Any) -> None:
    line = WaitingLine("a broker")
    line.look(seen)
    assert "<progress style" in html(line)


def test_a_long_call_is_a_wait_and_raises_what_it_raises(screen: Screen) -> None:
    def fails() -> int:
        raise LookupError("no such thing")

    with watched(shown):
        assert answer_of(lambda: 7, "seven") == 7
        with pytest.raises(LookupError, match="no such thing"):
            answer_of(fails, "nothing")
    assert screen.drawn[-1] == "waited 0 s for nothing"


@pytest.mark.parametrize(("unattended", "drawn"), [("1", []), ("", ["waiting 0 s for one", "waited 0 s for one"])])
def test_nothing_is_shown_where_nobody_is_there(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, unattended: str, drawn: list[str]
) -> None:
    monkeypatch.setenv(UNATTENDED_VARIABLE, unattended)
    monkeypatch.setattr(live, "get_ipython", object)
    show_waits()
    wait_until(lambda: True, "one", timeout_seconds=5)
    live._UNTIL_THE_KERNEL_ENDS.close()
    assert screen.drawn == drawn
