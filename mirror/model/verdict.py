"""PASS, FAIL or UNKNOWN: what is said about an objective, and how verdicts combine."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """The answer to "was the objective met?". What was not run, or crashed, is UNKNOWN, never PASS."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


_WORST_FIRST = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return FAIL over UNKNOWN over PASS; of no verdict at all, UNKNOWN."""
    present = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in present), Verdict.UNKNOWN)
