"""What long work tells about itself, in a form that a terminal, a notebook and a log can each show in their way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """A piece of work is this far; ``done == total`` ends it."""

    what: str
    done: int
    total: int


#: Called from the thread that does the work, which may be one of several.
OnProgress = Callable[[Progress], None]


def nobody(progress: Progress) -> None:
    """Tell nobody."""
