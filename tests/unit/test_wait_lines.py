"""What is waited for is told with what is left: at a terminal by a bar, elsewhere in a line now and then."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from mirror.model.progress import Watch
from mirror.wait_lines import LINE_SECONDS, waits_on
from mirror.waiting import Counted


@contextmanager
def _no_bars() -> Iterator[Watch]:
    raise AssertionError("bars are for terminals")


def test_without_a_terminal_a_line_a_quarter_of_a_minute_says_how_much_is_left() -> None:
    said, now = io.StringIO(), [0.0]
    with waits_on(Console(file=said), _no_bars, lambda: now[0])("west to have it") as tell:
        for look in range(1, 5):
            now[0] = look * LINE_SECONDS / 2
            tell(Counted(1_000 * look, 5_000))
        tell(["not counted"])
    assert said.getvalue().splitlines() == [
        "waiting for west to have it, 15 s: 3,000 of 5,000 left",
        "waiting for west to have it, 30 s: 1,000 of 5,000 left",
    ]


def test_at_a_terminal_a_bar_goes_to_its_end_and_what_is_there_at_once_shows_none() -> None:
    seen: list[tuple[int, int]] = []

    @contextmanager
    def bars() -> Iterator[Watch]:
        yield lambda _, done, total: seen.append((done, total))

    waits = waits_on(Console(file=io.StringIO(), force_terminal=True), bars)
    with waits("nothing") as tell:
        tell(Counted(0, 0))
    assert seen == []
    with waits("west to have it") as tell:
        tell(Counted(0, 5))
        tell(Counted(5, 5))
    assert seen == [(0, 5), (5, 5)]
