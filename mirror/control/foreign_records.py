"""Who has written into the copies besides mirrors: told by the producer ids of the batches that lie between ours.

A batch between ours that bears the flow's own producer id is one that arrived late: an engine had sent it before
another took the flow over, or before an epoch gave it up. Its records are there twice. Where the target fences
producers there is none (``mirror.engine.flow_producers``). Of a compacted topic the same is seen of copies whose
originals were cleaned before an engine that was killed had put them on record.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from mirror.kafka.batch import NO_PRODUCER
from mirror.kafka.channel import Channel
from mirror.kafka.log import LogReader
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.state_values import ForeignWriter

# So long after it was last seen a foreign writer is a reason to call the flow degraded.
RECENT_MS = 3_600_000

# What is read of a stretch at most: enough to name who wrote there.
_FETCHES = 4
_FETCH_BYTES = 1 << 20
# A single offset holds a marker, most of the time.
_SMALL_FETCH_BYTES = 1 << 10


def find_foreign(
    channel: Channel,
    copy: TopicPartition,
    stretch: tuple[int, int],
    mirrors: frozenset[int] | None,
    known: Mapping[tuple[TopicPartition, int], ForeignWriter],
    at_ms: int,
    own: Container[int] = (),
    *,
    is_again: bool = False,
    is_whole: bool = False,
) -> dict[tuple[TopicPartition, int], ForeignWriter]:
    """Return who has written at some offsets of a copy, apart from ``mirrors``, with what was ``known`` of them.

    Of a long stretch only the first megabytes are read, unless it is to be read ``whole``. Without ``mirrors`` anybody
    may write there, and only what bears one of the flow's ``own`` producer ids is reported: what those of an aborted
    transaction bear is not late. If it may be looked at ``again``, batches among those that are known of a producer are
    not counted once more.

    Raises
    ------
    KafkaProblem
        if they cannot be read.
    """
    found: dict[tuple[TopicPartition, int], ForeignWriter] = {}
    start, end = stretch
    reader = LogReader(channel, copy, start)
    left = _FETCHES
    while reader.position < end and left:
        position = reader.position
        batches = reader.fetch(most_bytes=_FETCH_BYTES if end - start > 1 else _SMALL_FETCH_BYTES)
        # Where nothing comes for now it is not waited for for ever.
        left -= 0 if is_whole and reader.position > position else 1
        for _, header in batches:
            if header.producer_id in own:
                is_foreign = not header.is_transactional
            else:
                is_foreign = mirrors is not None and header.producer_id not in mirrors
            if not is_foreign or not start <= header.base_offset < end:
                continue
            key = copy, header.producer_id
            seen = header.base_offset, header.next_offset, header.record_count, at_ms
            before = found.get(key) or known.get(key)
            if is_again and before and before.first <= header.base_offset and header.next_offset <= before.end:
                found[key] = replace(before, seen_at_ms=at_ms)
                continue
            found[key] = before.with_more(*seen) if before else ForeignWriter(copy, header.producer_id, *seen)
    return found


def foreign_reasons(
    foreign: Iterable[ForeignWriter], alias: str, now_ms: int, own: Container[int] = ()
) -> tuple[str, ...]:
    """Return, in words for people, who has written into the copies on the cluster ``alias`` in the last hour.

    ``own``: the flow's own producer ids.
    """
    return tuple(
        f"{each.copy} on {alias} has {found}"
        for each in sorted(foreign, key=lambda each: (each.copy, each.producer_id))
        if (found := foreign_records(each, now_ms, own))
    )


def foreign_records(each: ForeignWriter, now_ms: int, own: Container[int] = ()) -> str:
    """Return what somebody has written into a copy in the last hour, without saying into which; empty if nothing."""
    if now_ms - each.seen_at_ms >= RECENT_MS:
        return ""
    return f"{counted(each.records, 'record')} at offsets {each.first} to {each.end - 1} that {_what(each, own)}"


def _what(each: ForeignWriter, own: Container[int]) -> str:
    if each.producer_id in own:
        return (
            "arrived after this flow had been taken over or an epoch had given them up, and are there twice, or whose "
            "originals a log cleaner has removed from the source. mirror verify counts what is there; whether the "
            "target refuses such requests stands in mirror status under late requests of earlier engines"
        )
    return (
        f"no mirror wrote ({_who(each.producer_id)}): nobody else should write there, or its readers get what the "
        "source does not have"
    )


def _who(producer_id: int) -> str:
    return "a producer without an id" if producer_id == NO_PRODUCER else f"producer id {producer_id}"
