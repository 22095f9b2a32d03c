"""Tables in terminals of 80 and 120 columns: no header is broken inside a word, and nothing is cut off."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mirror.tables import MOST_ROWS, print_rows

LONG = "a" * 249
NAMES = st.text(alphabet="abcxyz.-_[]/", min_size=1, max_size=249)
VALUES = st.none() | st.booleans() | st.integers(0, 2**63) | st.floats(0, 1e9) | NAMES


def printed(rows: list[dict[str, Any]], width: int, most: int | None = None) -> list[str]:
    stream = io.StringIO()
    print_rows(Console(file=stream, width=width, color_system=None), "a title", rows, most=most)
    return stream.getvalue().splitlines()


HEADERS = (
    "partition",
    "lag in records",
    "behind by",
    "copied up to",
    "end of source",
    "trouble",
    "acknowledged",
    "verdict",
)


@given(
    st.sampled_from([80, 120]),
    st.lists(st.sampled_from(HEADERS), min_size=1, max_size=8, unique=True).flatmap(
        lambda names: st.lists(st.fixed_dictionaries(dict.fromkeys(names, VALUES)), min_size=1, max_size=4)
    ),
)
def test_no_word_of_a_header_is_broken_and_no_line_is_too_long(width: int, rows: list[dict[str, Any]]) -> None:
    lines = printed(rows, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    names = list(rows[0])
    # Where rows are told one by one, the first value stands for itself.
    wanted = names if "┃" in text else names[1:]
    for word in " ".join(wanted).split():
        assert re.search(rf"(?<!\w){word}(?!\w)", text), (word, text)


@pytest.mark.parametrize("width", [80, 120])
def test_a_name_of_249_characters_is_there_whole(width: int) -> None:
    row = {"partition": f"{LONG}-0", "lag in records": 12_345_678, "behind by": "3 min", "end of source": 99_999_999}
    text = "".join(printed([row], width))
    assert text.count("a") >= 249
    assert "12,345,678" in text
    assert "99,999,999" in text


def groups(count: int = 3, position: int = 123) -> list[dict[str, Any]]:
    return [
        {
            "group": group,
            "partition": f"east.orders-{number}",
            "upstream": position,
            "before": None,
            "after": position,
            "exact": True,
            "action": "write",
            "reason": "the group has no position yet",
        }
        for group in ("a-group-with-a-rather-long-name-of-its-own", "billing")
        for number in range(count)
    ]


def grouped(rows: list[dict[str, Any]], width: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    print_rows(console, "Groups", rows, under="group")
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return lines


@pytest.mark.parametrize("width", [80, 120])
def test_a_partition_of_a_group_takes_one_line(width: int) -> None:
    """It took seven in 80 columns."""
    lines = grouped(groups(), width)
    assert sum("east.orders-" in line for line in lines) == 6
    assert sum("billing" in line for line in lines) == 1
    assert sum("the group has no position yet" in line for line in lines) == (1 if width == 80 else 6)
    # A title, three lines of headers, six partitions, the groups' names, the end, the reason.
    assert len(lines) <= 4 + 6 + 4 + 1 + 1


def test_where_there_is_room_a_row_has_its_group_and_its_reason() -> None:
    lines = grouped(groups(), 200)
    assert sum("billing" in line and "no position yet" in line for line in lines) == 3


def test_where_no_table_fits_a_row_takes_few_lines() -> None:
    lines = grouped(groups(position=12_345_678_901_234), 60)
    assert len(lines) <= 1 + 6 * 4
    assert sum("12,345,678,901,234" in line for line in lines) >= 6


def test_the_rest_of_many_rows_is_counted() -> None:
    rows = [{"partition": f"orders-{number}"} for number in range(MOST_ROWS + 5)]
    assert printed(rows, 80, MOST_ROWS)[-1] == "… and 5 more, --all shows them"
    assert "orders-24" in "".join(printed(rows, 80))


def test_what_others_wrote_is_no_markup() -> None:
    assert any("svc[/prod]" in line for line in printed([{"group": "svc[/prod]"}], 80))


KEYS = [
    {"key": "producer.max.in.flight.requests.per.connection", "value": "5", "why": "requests are pipelined, in order"},
    {"key": "topics", "value": ", ".join(f"orders-{each}" for each in range(9)), "why": ""},
]


@pytest.mark.parametrize(("width", "is_table"), [(60, False), (80, True), (120, True)])
def test_a_key_is_never_broken(width: int, is_table: bool) -> None:
    """People search for it."""
    stream = io.StringIO()
    print_rows(Console(file=stream, width=width, color_system=None), "Keys", KEYS, unbroken=frozenset({"key"}))
    lines = stream.getvalue().splitlines()
    assert any(KEYS[0]["key"] in line for line in lines)
    assert all(len(line) <= width for line in lines)
    assert ("┃" in stream.getvalue()) is is_table
    assert "why: ," not in stream.getvalue()
    assert all(f"orders-{each}" in stream.getvalue() for each in range(9))
