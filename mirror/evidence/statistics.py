"""What repeats allow to say, of benches and scenarios: the spread of a value, and a share with its Wilson interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

_Z = 1.959964  # of 95 %


@dataclass(frozen=True, slots=True)
class Spread:
    """The smallest, the middle and the largest value of several runs."""

    low: float
    median: float
    high: float

    def describe(self, write: Callable[[float], str], between: str = " ") -> str:
        """Return the median, and behind it the smallest and the largest where they are written otherwise."""
        low, middle, high = write(self.low), write(self.median), write(self.high)
        return middle if low == middle == high else f"{middle}{between}[{low}, {high}]"


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return the spread of those values that are known, None of none."""
    ordered = sorted(value for value in values if value is not None)
    return Spread(ordered[0], median(ordered), ordered[-1]) if ordered else None


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion, and the 95 % interval around it."""

    value: float
    low: float
    high: float


def wilson(successes: int, count: int) -> Share | None:
    """Return a proportion with its Wilson score interval, which is sensible for few runs and for 0 and 1; None of none.

    ::

        3 of 3 -> 1.00 [0.44, 1.00]        0 of 20 -> 0.00 [0.00, 0.16]
    """
    if not count:
        return None
    share = successes / count
    weight = 1 + _Z**2 / count
    middle = (share + _Z**2 / (2 * count)) / weight
    half = _Z / weight * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return Share(share, max(0.0, middle - half), min(1.0, middle + half))
