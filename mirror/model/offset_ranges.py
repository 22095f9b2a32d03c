"""Ranges of offsets at which records lie: the first of them, and how many more there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

#: So many ranges of a partition are reported; a log that has more has them everywhere.
MOST_RANGES: Final = 20


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets from ``start`` up to, not including, ``end``, and how many records there the other side lacks."""

    start: int
    end: int
    records: int

    def __str__(self) -> str:
        where = str(self.start) if self.end - self.start == 1 else f"{self.start} to {self.end - 1}"
        return where if self.records == self.end - self.start else f"{where} ({self.records:,} in these)"


@dataclass(frozen=True, slots=True)
class Ranges:
    """The first ranges, in order, and how many there are beyond them."""

    first: tuple[Range, ...] = ()
    more: int = 0

    def __str__(self) -> str:
        more = f", and {self.more:,} more" if self.more else ""
        return ", ".join(map(str, self.first)) + more

    def also(self, one: Range) -> Ranges:
        """Return the same with one more, which lies behind all others."""
        if len(self.first) < MOST_RANGES:
            return replace(self, first=(*self.first, one))
        return replace(self, more=self.more + 1)

    def as_json(self) -> dict[str, Any]:
        """Return the form that ``mirror verify --json`` prints; ``to`` is not part of a range."""
        shown = [{"from": each.start, "to": each.end, "records": each.records} for each in self.first]
        return {"ranges": shown, "more": self.more}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Ranges:
        """Return what :meth:`as_json` has written."""
        return cls(
            tuple(Range(each["from"], each["to"], each["records"]) for each in content["ranges"]), content["more"]
        )
