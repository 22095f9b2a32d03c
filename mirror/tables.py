"""Tables for people, in terminals of any width.

No header is ever broken inside a word. Where a terminal is too narrow for all columns, what many rows share stands
above them and sentences stand below the table; where that is not enough each row is told by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mirror.escaping import printable_lines

#: So many rows of a list that may be long are shown unless all are asked for.
MOST_ROWS: Final = 20

# A column of words may be folded to this, or to the longest word that it has.
_NARROWEST: Final = 18
# What stands between two columns, and on both sides: a line and a blank each.
_BETWEEN, _AROUND = 3, 4

# Columns of whole sentences.
_SENTENCES: Final = frozenset({"note", "reason", "problem"})

Row = Mapping[str, Any]


def print_rows(
    console: Console,
    title: str | None,
    rows: Sequence[Row],
    *,
    most: int | None = None,
    under: str | None = None,
    unbroken: frozenset[str] = frozenset(),
) -> None:
    """Print rows as a table, the keys of the first as headers; of more than ``most`` so many, and how many more.

    ``under`` names the column whose value many rows in a row share: where room is short it stands in a line above them.
    """
    shown = rows if most is None else rows[:most]
    console.print(table(title, shown, console.width, under=under, unbroken=unbroken))
    if len(rows) > len(shown):
        console.print(f"… and {len(rows) - len(shown):,} more, --all shows them", highlight=False)


def table(
    title: str | None,
    rows: Sequence[Row],
    width: int,
    *,
    under: str | None = None,
    unbroken: frozenset[str] = frozenset(),
) -> RenderableType:
    """Return rows, at least one, as suits a terminal of so many columns; the keys of the first are the headers.

    Values that are rich's `Text` keep their style; no other is taken for markup. No word is broken in columns that are
    to be ``unbroken``, such as names that people search for; where there is no room for one, rows are not a table.
    """
    names = list(rows[0])
    whole = _Layout(
        title, names, [[_text(row[name]) for name in names] for row in rows], _numbers(names, rows), unbroken
    )
    if whole.fits_in_lines(width):
        return whole.drawn(width)
    nested = whole.nested(under) if under in names[:1] and len(names) > 1 else whole
    noted = nested.noted()
    for one in (nested, noted):
        if one.fits_in_lines(width):
            return one.drawn(width)
    for one in (nested, noted):
        if one.fits(width):
            return one.drawn(width)
    return _row_by_row(title, names, whole.cells)


def _numbers(names: Sequence[str], rows: Sequence[Row]) -> frozenset[str]:
    return frozenset(
        name
        for name in names
        if all(isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows)
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """A table that may be drawn: its columns and cells, which columns are of numbers, and lines below it."""

    title: str | None
    names: Sequence[str]
    cells: Sequence[Sequence[Text]]
    numbers: frozenset[str]
    unbroken: frozenset[str] = frozenset()
    #: Which lines stand above those that share them, in the first column alone; they may be folded.
    above: frozenset[int] = frozenset()
    below: tuple[str, ...] = ()

    def nested(self, under: str | None) -> _Layout:
        """Return the same with the first column, ``under``, as lines of the second above the rows that share it."""
        cells: list[Sequence[Text]] = []
        above = set()
        for number, (shared, first, *others) in enumerate(self.cells):
            if number == 0 or self.cells[number - 1][0].plain != shared.plain:
                above.add(len(cells))
                cells.append([Text.assemble(shared, style="bold"), *(Text() for _ in others)])
            cells.append([Text.assemble("  ", first), *others])
        names = [f"{under}, {self.names[1]}", *self.names[2:]]
        return _Layout(self.title, names, cells, self.numbers - {self.names[1]}, self.unbroken, frozenset(above))

    def noted(self) -> _Layout:
        """Return the same with the sentences below the table, each once, and their numbers in it."""
        cells = [list(line) for line in self.cells]
        numbers: dict[str, int] = {}
        for at in (at for at, name in enumerate(self.names) if name in _SENTENCES):
            for line in cells:
                if line[at].plain:
                    line[at] = Text(f"({numbers.setdefault(line[at].plain, len(numbers) + 1)})")
        below = tuple(f"({number}) {text}" for text, number in numbers.items())
        return _Layout(self.title, self.names, cells, self.numbers, self.unbroken, self.above, below)

    def fits(self, width: int) -> bool:
        return sum(self._least()) <= self._room(width)

    def fits_in_lines(self, width: int) -> bool:
        """Whether no cell takes more than a line, but for those above others, and headers."""
        return sum(self._in_lines()) <= self._room(width)

    def drawn(self, width: int) -> RenderableType:
        drawn = Table(title=self.title and Text(self.title), title_justify="left")
        least = self._in_lines() if self.fits_in_lines(width) else self._least()
        sizes = _shared_out(least, self._wanted(), self._room(width))
        for name, size in zip(self.names, sizes, strict=True):
            justify: JustifyMethod = "right" if name in self.numbers else "left"
            drawn.add_column(Text(name), width=size, justify=justify, overflow="fold")
        for line in self.cells:
            drawn.add_row(*line)
        return Group(drawn, *(Text(each, overflow="fold") for each in self.below)) if self.below else drawn

    def _room(self, width: int) -> int:
        return width - _AROUND - _BETWEEN * (len(self.names) - 1)

    def _least(self) -> list[int]:
        return [
            _least(name, [line[at].plain for line in self.cells], is_unbroken=name in self.unbroken)
            for at, name in enumerate(self.names)
        ]

    def _in_lines(self) -> list[int]:
        rows = [line for number, line in enumerate(self.cells) if number not in self.above]
        return [
            max(0, *map(cell_len, name.split()), *(_longest(line[at].plain) for line in rows))
            for at, name in enumerate(self.names)
        ]

    def _wanted(self) -> list[int]:
        return [
            max(cell_len(name), *(_longest(line[at].plain) for line in self.cells))
            for at, name in enumerate(self.names)
        ]


def _text(value: Any) -> Text:
    return value if isinstance(value, Text) else Text(printable_lines(cell(value)))


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


def _least(name: str, column: Sequence[str], *, is_unbroken: bool) -> int:
    """Return the narrowest that a column may be: no word of its header is broken, no number, and no name in shreds."""
    header = max(map(cell_len, name.split()), default=1)
    longest = max((cell_len(word) for text in column for word in text.split()), default=1)
    return max(header, longest if is_unbroken else min(longest, _NARROWEST))


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
        row = Text(overflow="fold")
        given = [(name, text) for name, text in zip(names[1:], others, strict=True) if text.plain]
        for at, (name, text) in enumerate(given):
            row.append_text(Text.assemble(", " if at else "", (f"{name}: ", "dim"), text))
        if given:
            lines.append(Padding(row, (0, 0, 0, 2)))
    return Group(*lines)
