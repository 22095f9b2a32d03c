"""Names that others chose, as text of a line: what a terminal would obey is escaped."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with what is not printable escaped: line ends, what moves a cursor, half characters."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """Return the same, with its line ends as they are."""
    return "\n".join(map(printable, text.split("\n")))
