"""The retention cliff: when the source deletes the oldest record that is not mirrored yet.

A broker deletes whole segments, and looks for them every five minutes by default, so what is said here is the earliest
moment. Where the copy goes on meanwhile it is another record's turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: The settings of a topic that say when its records are deleted.
RETENTION_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes")

# Of a shorter time no rate is reported: a burst of a moment would fill every log at once.
_RATE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a topic keeps records: for so many ms, and so many bytes a partition; None: without end."""

    ms: int | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str | None]) -> Retention:
        """Return what the settings of a topic say; one that is only compacted keeps the last record of each key."""
        if "delete" not in (settings.get("cleanup.policy") or "delete"):
            return cls()
        ms, size = (int(settings.get(key) or -1) for key in ("retention.ms", "retention.bytes"))
        return cls(ms if ms >= 0 else None, size if size >= 0 else None)

    def seconds_left(self, lag_records: int, lag_seconds: float, record_bytes: float) -> float | None:
        """Return in how many seconds the oldest record that is not mirrored is deleted; None: never, as things stand.

        Parameters
        ----------
        lag_records, lag_seconds
            how many records are not mirrored, and how old the oldest of them is: from that comes the rate at which the
            log grows.
        record_bytes
            what a record takes in the log, 0 if that is not known.
        """
        found = []
        if self.ms is not None:
            found.append(self.ms / 1000 - lag_seconds)
        if self.bytes is not None and record_bytes > 0 and lag_records > 0:
            rate = lag_records * record_bytes / max(lag_seconds, _RATE_SECONDS)
            found.append((self.bytes - lag_records * record_bytes) / rate)
        return max(0.0, min(found)) if found else None


def is_near(seconds_left: float, lag_seconds: float, limit_seconds: float) -> bool:
    """Whether somebody has to look: it is soon, and more than half of the time that the record had is over.

    A topic that keeps records for a minute is always near the end of it.
    """
    return seconds_left < limit_seconds and seconds_left <= lag_seconds


def duration_words(seconds: float) -> str:
    """Return a time for people, in its two largest units: ``3 h 12 min``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((place for place, (count, _) in enumerate(units) if count), len(units) - 1)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2])
