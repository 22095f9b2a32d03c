"""Records that a target will not take: kept in a topic of their own beside the copy, with where they belong.

The topic's name matches MirrorMaker 2's default excludes, so no flow ever mirrors it. Key, value, timestamp and headers
of a parked record are the original's; headers of ours stand behind them. Whoever parks is not in the same transaction
as the position that counts the record as done: after a crash in between it is parked once more, with the same
coordinates.
"""

from __future__ import annotations

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
    said = {
        "cluster": cluster,
        "topic": source.topic,
        "partition": source.partition,
        "offset": offset,
        "timestamp": timestamp,
        "reason": reason,
    }
    return tuple((PREFIX + name, str(value).encode()) for name, value in said.items())
