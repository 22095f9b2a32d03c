"""How far work is: a bar at a terminal; in a log a line when it begins and ends, and now and then what is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mirror.display import LINE_SECONDS, Bars, Lines, display_for, going_on, waits_on
from mirror.waiting import Counted, wait_until


def test_in_a_log_work_is_told_at_its_beginning_and_at_its_end() -> None:
    stream = io.StringIO()
    with display_for(Console(file=stream)) as display:
        for done in range(4):
            display.watch("Kafka 4.3.1 jars", done, 3)
        display.watch("[archive]", 0, 2)
    assert stream.getvalue() == "Kafka 4.3.1 jars: begun\nKafka 4.3.1 jars: done\n[archive]: begun\n"


def test_in_a_log_pieces_of_work_say_what_they_turn_to_and_what_came_of_them() -> None:
    stream = io.StringIO()
    with display_for(Console(file=stream)) as display:
        display.count("turns", 2)
        for done in range(3):
            display.at("mm2, round 1", "copying", done, 3)
        display.at("mm2, round 1", "latency")
        display.end("mm2, round 1", ("PASS", "bold"), " 3 s\x1b[2J")
    assert stream.getvalue().splitlines() == [
        "turns: 2",
        "[mm2, round 1] copying",
        "[mm2, round 1] latency",
        "[mm2, round 1] PASS 3 s\\x1b[2J",
    ]


def test_at_a_terminal_there_is_a_bar_for_what_is_under_way_and_a_line_of_what_is_over() -> None:
    stream = io.StringIO()
    with display_for(Console(file=stream, force_terminal=True, width=100)) as display:
        display.watch("Kafka 4.3.1 jars", 3, 3)
        display.at("mm2, round 1", "copying", 1, 7)
        display.end("mm2, round 1", "PASS")
        with display.paused():
            stream.write("Cross it? ")
    said = stream.getvalue()
    assert "3/3" in said
    assert "PASS" in said
    assert "begun" not in said


@pytest.mark.parametrize("is_terminal", [False, True])
def test_where_nothing_is_told_nothing_is_shown(is_terminal: bool) -> None:
    stream = io.StringIO()
    with display_for(Console(file=stream, force_terminal=is_terminal), brief=True):
        pass
    assert stream.getvalue().strip() == ""


def test_without_a_terminal_a_line_a_quarter_of_a_minute_says_how_much_a_wait_has_left() -> None:
    said, now = io.StringIO(), [0.0]
    display = Lines(Console(file=said), brief=True, monotonic=lambda: now[0])
    with waits_on(Console(file=said), lambda: display)("west to have it") as tell:
        for look in range(1, 5):
            now[0] = look * LINE_SECONDS / 2
            tell(Counted(1_000 * look, 5_000))
    assert said.getvalue().splitlines() == [
        "waiting for west to have it, 15 s: 3,000 of 5,000 left",
        "waiting for west to have it, 30 s: 1,000 of 5,000 left",
    ]


def test_of_a_single_piece_of_work_there_is_no_count() -> None:
    """It said "1 of 1 left"."""
    said, now = io.StringIO(), [0.0]
    display = Lines(Console(file=said), brief=True, monotonic=lambda: now[0])
    now[0] = LINE_SECONDS
    display.watch("saving what only east has", 0, 1)
    assert said.getvalue() == "saving what only east has, 15 s\n"


def test_at_a_terminal_the_bar_of_a_wait_goes_to_its_end_and_what_is_there_at_once_shows_none() -> None:
    said = io.StringIO()
    bars = Bars(Console(file=said, force_terminal=True, width=100))
    waits = waits_on(Console(file=said), lambda: bars)
    with waits("nothing") as tell:
        tell(Counted(0, 0))
    assert said.getvalue().strip() == ""
    with waits("west to have it") as tell:
        tell(Counted(0, 5))
        tell(Counted(5, 5))
    assert "5/5" in said.getvalue()


def test_a_wait_that_cannot_be_counted_says_a_quarter_of_a_minute_that_it_goes_on_and_one_within_it_nothing() -> None:
    said, now = io.StringIO(), [0.0]

    def clock() -> float:
        return now[0]

    waits = waits_on(Console(file=said), lambda: Lines(Console(file=said), brief=True, monotonic=clock), clock)
    with waits("the groups to read on west") as tell, waits("a probe") as tell_within:
        for look in range(1, 5):
            now[0] = look * LINE_SECONDS / 2
            tell(False)
            tell_within(False)
    assert said.getvalue().splitlines() == [
        "waiting for the groups to read on west, 15 s",
        "waiting for the groups to read on west, 30 s",
    ]


def test_at_a_terminal_a_wait_that_cannot_be_counted_has_a_bar_once_it_takes_some_seconds() -> None:
    said, now = io.StringIO(), [0.0]
    console = Console(file=said, force_terminal=True, width=100)
    waits = waits_on(console, lambda: Bars(console, transient=True), lambda: now[0])
    with waits("the groups to read on west") as tell:
        tell(False)
    assert "waiting" not in said.getvalue()
    with waits("the groups to read on west") as tell:
        now[0] = 5.0
        tell(False)
    assert "waiting for the groups to read on west" in said.getvalue()


def test_what_takes_long_before_anything_else_is_printed_is_told_meanwhile() -> None:
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=100)
    with going_on(console, "looking at both clusters", lambda: Bars(console, transient=True), 0.01):
        wait_until(lambda: "looking" in said.getvalue(), "it to be shown", timeout_seconds=60)
    assert "looking at both clusters" in said.getvalue()
