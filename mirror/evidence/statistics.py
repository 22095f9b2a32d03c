"""What repeats allow to say: a proportion with its Wilson interval, a distribution with a bootstrapped one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_Z = 1.959964  # of 95 %
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the 95 % interval around it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values of some runs: their median with its interval, and the worst; ``count`` is how many there are."""

    count: int
    median: Interval
    worst: float


def wilson(successes: int, count: int) -> Interval | None:
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
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def distribution(values: Sequence[float], *, seed: int = 0) -> Distribution | None:
    """Return the median of some values with its bootstrapped percentile interval; None of no values.

    Of one value the interval is that value: it says nothing about others, as ``count`` does.
    """
    if not values:
        return None
    sample = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).choice(sample, size=(_DRAWS, len(sample)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return Distribution(len(sample), Interval(float(np.median(sample)), float(low), float(high)), float(sample.max()))
