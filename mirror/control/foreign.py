"""Who has written into the copies besides mirrors: told by the producer ids of the batches that lie between ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.kafka.batch import NO_PRODUCER
from mirror.kafka.channel import Channel
from mirror.kafka.log import LogReader
from mirror.model.flow_state import ForeignWriter
from mirror.model.partition import TopicPartition

# So long after it was last seen a foreign writer is a reason to call the flow degraded.
RECENT_MS = 3_600_000

# What is read of a stretch at most: enough to name who wrote there.
_FETCHES = 4
_FETCH_BYTES = 1 << 20


def find_foreign(
    channel: Channel,
    copy: TopicPartition,
    stretch: tuple[int, int],
    mirrors: frozenset[int],
    known: Mapping[tuple[TopicPartition, int], ForeignWriter],
    at_ms: int,
) -> dict[tuple[TopicPartition, int], ForeignWriter]:
    """Return who has written at some offsets of a copy, apart from ``mirrors``, with what was ``known`` of them.

    Of a long stretch only the first megabytes are read.

    Raises
    ------
    BrokerRefused, ConnectionFailed, LeaderUnknown
        if they cannot be read.
    """
    found: dict[tuple[TopicPartition, int], ForeignWriter] = {}
    start, end = stretch
    reader = LogReader(channel, copy, start)
    for _ in range(_FETCHES):
        if reader.position >= end:
            break
        for _, header in reader.fetch(most_bytes=_FETCH_BYTES):
            if header.producer_id in mirrors or not start <= header.base_offset < end:
                continue
            key = copy, header.producer_id
            seen = header.base_offset, header.next_offset, header.record_count, at_ms
            before = found.get(key) or known.get(key)
            found[key] = before.with_more(*seen) if before else ForeignWriter(copy, header.producer_id, *seen)
    return found


def foreign_reasons(foreign: Iterable[ForeignWriter], alias: str, now_ms: int) -> tuple[str, ...]:
    """Return, in words for people, who has written into the copies on the cluster ``alias`` of late."""
    return tuple(
        f"{each.copy} on {alias} has {each.records} records at offsets {each.first} to {each.end - 1} that no mirror "
        f"wrote ({_who(each.producer_id)}): nobody else should write there, or its readers get what the source does "
        "not have"
        for each in sorted(foreign, key=lambda each: (each.copy, each.producer_id))
        if now_ms - each.seen_at_ms < RECENT_MS
    )


def _who(producer_id: int) -> str:
    return "a producer without an id" if producer_id == NO_PRODUCER else f"producer id {producer_id}"
