"""How the source is read: how much at once, how long it waits, and from where; five settings of Java's consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirror.config.definition import BadValue
from mirror.config.definitions import READER
from mirror.config.errors import ErrorAbout, Mistakes


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a reader of the source may ask for.

    Attributes
    ----------
    least_bytes, poll_ms
        ``fetch.min.bytes``, ``fetch.max.wait.ms``: how much an answer waits for, and how long.
    partition_bytes, total_bytes
        ``max.partition.fetch.bytes``, ``fetch.max.bytes``: how far what is asked for may grow, a partition and in all.
        Java's consumer never asks for more than 1 MB of a partition unless told to; what is asked for here follows the
        line, up to 8 MB when nothing is set.
    rack
        ``client.rack``: where this reader is, so that a leader may name a replica that is closer (KIP-392); empty: only
        leaders are read.
    """

    least_bytes: int = 1
    poll_ms: int = 500
    partition_bytes: int = 8 << 20
    total_bytes: int = 50 << 20
    rack: str = ""


_KEYS = {
    "least_bytes": "fetch.min.bytes",
    "poll_ms": "fetch.max.wait.ms",
    "partition_bytes": "max.partition.fetch.bytes",
    "total_bytes": "fetch.max.bytes",
    "rack": "client.rack",
}


def fetch_limits(consumer: Mapping[str, str], error: ErrorAbout) -> FetchLimits:
    """Read the limits from a consumer's properties.

    Raises
    ------
    ConfigError
        for each value that Java's consumer refuses.
    """
    mistakes = Mistakes()
    given: dict[str, Any] = {}
    for field, name in _KEYS.items():
        if name in consumer:
            try:
                given[field] = READER[name].parse(consumer[name])
            except BadValue as problem:
                mistakes.note(error(name, str(problem)).mistakes)
    mistakes.refuse()
    return FetchLimits(**given)
