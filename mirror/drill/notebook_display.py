"""How what cells return is shown in notebooks: tables that fit, sentences that break between words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from IPython.core.getipython import get_ipython

_MOST_ROWS = 100
_SHORT = 24


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences for a person.

    Attributes
    ----------
    html
        the same as HTML; empty: there is nothing to mark in them.
    """

    text: str
    html: str = ""

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __repr__(self) -> str:
        """Return the text, as a console shows it."""
        return self.text

    def _repr_html_(self) -> str:
        """Return what Jupyter shows."""
        return f"<div>{self.html or escape(self.text)}</div>"


def style_outputs() -> None:
    """Show tables and texts that cells of this kernel return as this module does."""
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        return
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(pd.DataFrame, table_html)
    formatter.for_type(str, text_html)


def table_html(frame: pd.DataFrame) -> str:
    """Return a table without its index; words stand on the left, numbers on the right, headers break between words."""
    names = [str(name).replace("_", " ") for name in frame.columns]
    sides = ["right" if pd.api.types.is_numeric_dtype(kind) else "left" for kind in frame.dtypes]
    rows = [[_cell(value) for value in row] for row in frame.head(_MOST_ROWS).itertuples(index=False, name=None)]
    more = f"<p>and {len(frame) - _MOST_ROWS:,} more</p>" if len(frame) > _MOST_ROWS else ""
    head = _row("th", names, sides)
    body = "".join(_row("td", row, sides) for row in rows)
    return (
        f"<div style='overflow-x:auto'><table><thead>{head}</thead><tbody>{body}</tbody></table></div>{more}"
        if len(frame.columns)
        else "<p>nothing</p>"
    )


def text_html(text: str) -> str:
    """Return a sentence as a paragraph, several lines as they are."""
    return f"<pre>{escape(text)}</pre>" if "\n" in text else f"<p>{escape(text)}</p>"


def _row(tag: str, values: Sequence[str], sides: Sequence[str]) -> str:
    cells = "".join(
        f"<{tag} style='vertical-align:top;{_width(tag, value)}text-align:{side}'>{_breakable(value)}</{tag}>"
        for value, side in zip(values, sides, strict=True)
    )
    return f"<tr>{cells}</tr>"


def _width(tag: str, text: str) -> str:
    """Return the style of what stands in one line beside a long sentence: names, not headers."""
    return "white-space:nowrap;" if tag == "td" and len(text) <= _SHORT else ""


def _breakable(text: str) -> str:
    """Return a text as HTML; paths and keys, which no line could hold, may break behind what joins their words."""
    return re.sub(r"\S{21,}", lambda word: re.sub(r"(?<=[./,:=_-])(?=\w)", "<wbr>", word[0]), escape(text))


def _cell(value: Any) -> str:
    """Return a value as it is read and copied: numbers whole, what is missing as a dash."""
    if pd.api.types.is_list_like(value):
        return ", ".join(map(str, value))
    if pd.isna(value):
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
