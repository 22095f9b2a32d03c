"""How much is copied of a partition, and how old the records were on their way: by batches, none of which is decoded.

Of the times in a batch its header tells two: that of its first record and the newest one. The age of the others is
taken to lie between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

NO_TIME = -1


@dataclass(slots=True)
class Ages:
    """How old records were when something happened to them, in ms; ``last`` is the age of the last one."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    last: float = 0.0

    def add(self, now_ms: float, oldest_ms: int, newest_ms: int, count: int) -> None:
        """Take in ``count`` records; without times they say nothing. Clocks may differ."""
        if oldest_ms <= NO_TIME:
            return
        youngest, eldest = now_ms - newest_ms, now_ms - oldest_ms
        self.count += count
        self.total += count * (youngest + eldest) / 2
        # For each batch that is copied: min() and max() would take longer than all the rest.
        if youngest < self.least:  # noqa: PLR1730
            self.least = youngest
        if eldest > self.most:  # noqa: PLR1730
            self.most = eldest
        self.last = youngest

    def join(self, other: Ages) -> None:
        """Take in what came after."""
        if other.count:
            self.count += other.count
            self.total += other.total
            self.least, self.most = min(self.least, other.least), max(self.most, other.most)
            self.last = other.last

    @property
    def mean(self) -> float:
        """The mean age; not a number where there is none."""
        return self.total / self.count if self.count else math.nan


@dataclass(frozen=True, slots=True)
class Waiting:
    """The oldest record that was read and is not acknowledged: its time, and how many bytes a record of it takes."""

    since_ms: int
    record_bytes: float


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of a partition in the epoch that runs.

    Attributes
    ----------
    records, bytes
        acknowledged since the epoch began; in transactions, committed. Bytes are those of batches as the target gets
        them.
    read, acknowledged
        how old the records were when they were read, and when the target had acknowledged them, since that was reported
        before.
    waiting
        None: all that was read is acknowledged.
    """

    records: int = 0
    bytes: int = 0
    read: Ages = field(default_factory=Ages)
    acknowledged: Ages = field(default_factory=Ages)
    waiting: Waiting | None = None
