"""Numbers of things, as people read them: ``1 partition``, ``1,204 records``."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, of which ``noun`` is the singular; the plural has an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def are(number: int) -> str:
    """Return the verb for so many things."""
    return "is" if number == 1 else "are"


def first_of(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return at most so many of some names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more
