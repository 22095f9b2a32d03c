"""How long to leave alone what has just failed: longer each time, and never for as long as everybody else does."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """The delays after failures of one thing: each twice as long as the one before, less up to half by chance.

    Without chance, everything that one broker's failure stopped would come back to it at the same moments.
    """

    __slots__ = ("_chance", "_first", "_longest", "_seconds")

    def __init__(self, first: float, longest: float, chance: Callable[[], float] = random.random) -> None:
        """Begin with ``first`` seconds, go up to ``longest``; ``chance`` returns a number from 0 to 1."""
        self._first = self._seconds = first
        self._longest = longest
        self._chance = chance

    def next_seconds(self) -> float:
        """Return how long to wait after one more failure."""
        seconds, self._seconds = self._seconds, min(2 * self._seconds, self._longest)
        return seconds * (1.0 - 0.5 * self._chance())

    def end(self) -> None:
        """It went well: the next failure is a first one."""
        self._seconds = self._first
