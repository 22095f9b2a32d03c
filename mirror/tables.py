"""Tables for people, in terminals of any width.

No header is ever broken inside a word. Where a terminal is too narrow for all columns, each row is told by itself, a
line a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: So many rows of a list that may be long are shown unless all are asked for.
MOST_ROWS: Final = 20

# A column of words may be folded to this, or to the longest word that it has.
_NARROWEST: Final = 18
# What stands between two columns, and on both sides: a line and a blank each.
_BETWEEN, _AROUND = 3, 4

Row = Mapping[str, Any]


def print_rows(console: Console, title: str | None, rows: Sequence[Row], *, most: int | None = None) -> None:
    """Print rows as a table, the keys of the first as headers; of more than ``most`` so many, and how many more."""
    shown = rows if most is None else rows[:most]
    console.print(table(title, shown, console.width))
    if len(rows) > len(shown):
        console.print(f"… and {len(rows) - len(shown):,} more, --all shows them", highlight=False)


def table(title: str | None, rows: Sequence[Row], width: int) -> RenderableType:
    """Return rows, at least one, as suits a terminal of so many columns; the keys of the first are the headers.

    Values that are rich's `Text` keep their style; no other is taken for markup.
    """
    names = list(rows[0])
    cells = [[_text(row[name]) for name in names] for row in rows]
    least = [_least(name, [line[at].plain for line in cells]) for at, name in enumerate(names)]
    room = width - _AROUND - _BETWEEN * (len(names) - 1)
    if sum(least) > room:
        return _row_by_row(title, names, cells)
    wanted = [max(cell_len(name), *(_longest(line[at].plain) for line in cells)) for at, name in enumerate(names)]
    drawn = Table(title=title and Text(title), title_justify="left")
    for name, size in zip(names, _shared_out(least, wanted, room), strict=True):
        is_number = all(isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows)
        drawn.add_column(Text(name), width=size, justify="right" if is_number else "left", overflow="fold")
    for line in cells:
        drawn.add_row(*line)
    return drawn


def _text(value: Any) -> Text:
    return value if isinstance(value, Text) else Text(cell(value))


def _longest(text: str) -> int:
    return max(map(cell_len, text.splitlines()), default=0)


def cell(value: Any) -> str:
    """Return a value as people read it: thousands apart, nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _least(name: str, column: Sequence[str]) -> int:
    """Return the narrowest that a column may be: no word of its header is broken, no number, and no name in shreds."""
    header = max(map(cell_len, name.split()), default=1)
    longest = max((cell_len(word) for text in column for word in text.split()), default=1)
    return max(header, min(longest, _NARROWEST))


def _shared_out(least: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns: what each needs, and then what it wants, the least greedy first."""
    sizes, left = list(least), room - sum(least)
    greedy = sorted(range(len(sizes)), key=lambda at: wanted[at] - least[at])
    for served, at in enumerate(greedy):
        share = min(max(0, wanted[at] - sizes[at]), left // (len(greedy) - served))
        sizes[at] += share
        left -= share
    return sizes


def _row_by_row(title: str | None, names: Sequence[str], cells: Sequence[Sequence[Text]]) -> RenderableType:
    lines: list[RenderableType] = [Text(title, style="italic")] if title else []
    for first, *others in cells:
        lines.append(Text.assemble(first, style="bold", overflow="fold"))
        lines += (
            Padding(Text.assemble((f"{name}: ", "dim"), text, overflow="fold"), (0, 0, 0, 2))
            for name, text in zip(names[1:], others, strict=True)
        )
    return Group(*lines)
