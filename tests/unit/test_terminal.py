"""Strings are printed as they are, wherever rich would read them: lines, cells, headers, titles, bars."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from mirror import terminal
from mirror.tables import print_rows

OF_OTHERS = st.lists(
    st.sampled_from(["[", "]", "/", "\\", ":", "key", "warning", "red", "prod", "[/prod]", "[bold]", ":key:", "="]),
    min_size=1,
    max_size=6,
).map("".join)


def printed(print_with: Callable[[Console], None]) -> str:
    out = terminal.console(width=200)
    out.file = stream = io.StringIO()
    print_with(out)
    return stream.getvalue()


def test_a_remark_goes_on_further_in_and_no_word_of_it_is_broken() -> None:
    """In 80 columns reasons that went on at the margin could not be told from one another."""
    out = terminal.console(width=30)
    out.file = stream = io.StringIO()
    out.print(terminal.Remark("orders-0 is stopped: the transform mask failed [/prod]"))
    out.print(terminal.Remark("note: a"))
    out.print(terminal.Remark(" groups: all stand where they were", lead=("PASS", "green")))
    assert [line.rstrip() for line in stream.getvalue().splitlines()] == [
        "  orders-0 is stopped: the",
        "    transform mask failed",
        "    [/prod]",
        "  note: a",
        "  PASS groups: all stand",
        "    where they were",
    ]


@given(OF_OTHERS)
def test_a_line_a_cell_a_header_and_a_title_are_printed_as_they_are(text: str) -> None:
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)

    assert printed(lambda out: out.print(text)) == f"{text}\n"
    assert printed(lambda out: out.print(table)).count(text) >= 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("svc\x1b[2J", "svc\\x1b[2J"),
        ("a\rb", "a\\rb"),
        ("\u202esvc", "\\u202esvc"),
        ("grüppe-漢😀", "grüppe-漢😀"),
        ("a\nb", "a\nb"),
    ],
)
def test_no_name_moves_the_cursor_or_turns_the_line_round(text: str, shown: str) -> None:
    """The id of a group may hold any character, so also those that clear the screen or overwrite a line."""
    assert printed(lambda out: out.print(text)) == f"{shown}\n"
    rows = printed(lambda out: print_rows(out, None, [{"group": text}]))
    assert all(line in rows for line in shown.split("\n"))
    assert rows.replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["svc[/prod]", "billing-[ab]+", "a:key:b"])
def test_a_bar_shows_its_task_as_it_is(text: str) -> None:
    def bar(out: Console) -> None:
        with Progress(terminal.progress_text(), console=out) as bars:
            bars.add_task(text, total=1)

    assert text in printed(bar)
