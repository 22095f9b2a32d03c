"""What commands print to a terminal: no string is markup.

Groups, paths, patterns and what brokers answer are the text of others, and `svc[/prod]`, `billing-[ab]+` and `a:x:b`
are legal in it. rich takes `[...]` in any string for a style and `:x:` for an emoji, in titles and cells of tables too.
So consoles and columns of text are made here alone, and styles are given as rich's `Text`, never inside a string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import TextColumn
from rich.text import Text

from mirror.escaping import printable_lines

_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence below a heading: indented, and further where it goes on in another line, so as to be told apart.

    ``lead`` is what stands before it, and how that is styled.
    """

    text: str
    style: str = ""
    lead: tuple[str, str] = ("", "")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fold the sentence between words; only a word that is longer than a line is broken."""
        whole = Text.assemble(self.lead, (printable_lines(self.text), self.style), overflow="fold")
        for number, line in enumerate(whole.wrap(console, max(1, options.max_width - 2 * len(_INDENT)))):
            line.rstrip()
            yield Text.assemble(_INDENT * (2 if number else 1), line, overflow="fold")


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
