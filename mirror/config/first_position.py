"""Where a consumer begins a partition that it has no position of: what Java's ``auto.offset.reset`` may be."""

from __future__ import annotations

from typing import Final

import regex

from mirror.config.definition import BadValue
from mirror.model.patterns import JAVA_TRIMMED

KEY: Final = "auto.offset.reset"
BY_DURATION: Final = "by_duration:"
# java.time.Duration.parse.
_DURATION = regex.compile(
    r"(?<sign>[-+]?)P(?=.)(?:(?<D>[-+]?[0-9]+)D)?"
    r"(?:T(?=.)(?:(?<H>[-+]?[0-9]+)H)?(?:(?<M>[-+]?[0-9]+)M)?(?:(?<S>[-+]?[0-9]+)(?:[.,](?<fraction>[0-9]{0,9}))?S)?)?",
    regex.IGNORECASE,
)
_SECONDS = {"D": 86_400, "H": 3_600, "M": 60, "S": 1}
_MOST_SECONDS = 2**63


def checked(text: str) -> str:
    """Return the value as Java's consumer of 4.3 takes it: without white space around it, and case counts.

    Raises
    ------
    BadValue
        for what it does not take either.
    """
    value = text.strip(JAVA_TRIMMED)
    if value in ("earliest", "latest", "none") or (
        value.startswith(BY_DURATION) and _is_duration(value.removeprefix(BY_DURATION))
    ):
        return value
    raise BadValue(f"{text!r} is not allowed; it must be earliest, latest, none or {BY_DURATION}PnDTnHnMn.nS")


def _is_duration(text: str) -> bool:
    """Whether this is a duration of Java that is not negative."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return False
    parts = [int(match[name]) * unit for name, unit in _SECONDS.items() if match[name]]
    fraction = int((match["fraction"] or "").ljust(9, "0"))
    nanos = sum(parts) * 10**9 + (-fraction if (match["S"] or "").startswith("-") else fraction)
    return all(abs(each) < _MOST_SECONDS for each in parts) and (-nanos if match["sign"] == "-" else nanos) >= 0
