"""What commands print to a terminal: no string is markup.

Groups, paths, patterns and what brokers answer are the text of others, and `svc[/prod]`, `billing-[ab]+` and `a:x:b`
are legal in it. rich takes `[...]` in any string for a style and `:x:` for an emoji, in titles and cells of tables too.
So consoles and columns of text are made here alone, and styles are given as rich's `Text`, never inside a string.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text

from mirror.escaping import printable_lines


class _Plain(Console):
    """Fingerprints strings as they are, but for what a terminal would obey."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable_lines(text), **how)


def console(
    *, stderr: bool = False, width: int | None = None, highlight: bool = True, soft_wrap: bool = False
) -> Console:
    """Return a console that prints strings as they are; the arguments are those of rich's `Console`."""
    return _Plain(stderr=stderr, width=width, highlight=highlight, soft_wrap=soft_wrap, markup=False, emoji=False)


def progress_text(form: str = "{task.description}", style: str = "none") -> TextColumn:
    """Return a column of bars of progress that shows what ``form`` names as it is."""
    return TextColumn(form, style=style, markup=False)
