"""A record that the target will not take even alone: what becomes of it, when the flow's policy is to park it.

The partition waits meanwhile. First the record goes to the topic of parked records; when that is acknowledged, a gap
and the position behind it are recorded together; only then does what follows go on. So whatever is killed in between,
the tail of the target never lacks a record that the recorded position does not account for.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch
from mirror.model.flow_state import Gap
from mirror.model.parked import parked_headers
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Letter:
    """A record to be parked.

    Attributes
    ----------
    offset
        its own, on the source.
    upstream_next
        where the source goes on behind it.
    said
        what the target says of it.
    content
        the batch, with this record alone, for the topic of parked records.
    gap
        what it leaves in the copy.
    """

    offset: int
    upstream_next: int
    said: str
    content: memoryview
    gap: Gap


def letter(
    content: memoryview,
    source_alias: str,
    source: TopicPartition,
    offset: int,
    upstream_next: int,
    parked_topic: str,
    said: str,
    now_ms: int,
) -> Letter | None:
    """Return what is to be parked of a batch with one record; None if it cannot be read."""
    try:
        (record,) = batch.records(content)
    except CorruptBatch:
        return None
    headers = parked_headers(source_alias, source, offset, record.timestamp, said)
    parked = record._replace(headers=record.headers + headers)
    reason = f"parked in {parked_topic}: {said}"
    return Letter(
        offset,
        upstream_next,
        said,
        batch.encode([parked], batch.codec_of(content)),
        Gap(source, offset, offset + 1, reason, now_ms),
    )
