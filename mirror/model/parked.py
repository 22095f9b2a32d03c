"""Records that a target will not take: kept in a topic of their own beside the copy, with where they belong.

The topic's name matches MirrorMaker 2's default excludes, so no flow ever mirrors it. Key, value, timestamp and headers
of a parked record are the original's; headers of ours stand behind them. Whoever parks is not in the same transaction
as the position that counts the record as done: after a crash in between it may be parked once more, with the same
coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror.model.partition import TopicPartition

PREFIX: Final = "mirror.parked."


def parked_topic(source_alias: str) -> str:
    """Return the name of the topic on the target; like MM2's own names it always uses dots (DED-05)."""
    return f"mm2-parked.{source_alias}.internal"


def parked_headers(
    cluster: str, source: TopicPartition, offset: int, timestamp: int, reason: str
) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that say where a parked record belongs and why it is not there.

    Parameters
    ----------
    cluster
        alias of the source.
    timestamp
        the record's, in ms.
    """
    values = {
        "cluster": cluster,
        "topic": source.topic,
        "partition": source.partition,
        "offset": offset,
        "timestamp": timestamp,
        "reason": reason,
    }
    return tuple((PREFIX + name, str(value).encode()) for name, value in values.items())


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a parked record comes from.

    Attributes
    ----------
    timestamp
        the record's, in ms.
    headers
        those it had there.
    """

    source: TopicPartition
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def origin(headers: Sequence[tuple[str, bytes | None]]) -> Origin | None:
    """Read the headers of a parked record; None if they are not those of one."""
    own = [place for place, (name, _) in enumerate(headers) if name == PREFIX + "cluster"]
    if not own:
        return None
    values = {name: (value or b"").decode("utf-8", "replace") for name, value in headers[own[-1] :]}
    try:
        source = TopicPartition(values[PREFIX + "topic"], int(values[PREFIX + "partition"]))
        offset, timestamp = int(values[PREFIX + "offset"]), int(values[PREFIX + "timestamp"])
    except (KeyError, ValueError):
        return None
    return Origin(source, offset, timestamp, tuple(headers[: own[-1]]))
