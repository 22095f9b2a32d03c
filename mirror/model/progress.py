"""Somebody is told how far something long is."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Is called with that."""

    def __call__(self, doing: str, done: int, total: int) -> None:
        """Take in that ``done`` of ``total`` are done of what is being done now."""
        ...


def nobody(doing: str, done: int, total: int) -> None:
    """Take in nothing."""
