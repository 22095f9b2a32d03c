"""A suite that takes longer than there is time: what of it is begun, and in which order.

Each run begins with other files, by a word such as its commit, so that several limited runs begin all of them. What was not begun
is skipped and counted: a limited run states nothing of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest


def in_order(items: Sequence[pytest.Item], word: str) -> list[pytest.Item]:
    """Return the tests with their files in the order that the word decides, the tests of a file as they were."""
    return sorted(items, key=lambda item: hashlib.sha256(f"{word} {item.nodeid.partition('::')[0]}".encode()).digest())


def not_begun(begun_at: float, minutes: float | None, now: float) -> str | None:
    """Return why a test is not begun ``minutes`` after ``begun_at`` (seconds of one monotonic clock), None if it is."""
    if minutes is None or now < begun_at + minutes * 60:
        return None
    return f"not begun within {minutes:g} minutes (--begin-within)"
