"""A record that the target will not take even alone: what becomes of it, when the flow's policy is to park it.

The partition waits meanwhile. First the record goes to the topic of parked records; when that is acknowledged, a gap
and the position behind it are recorded together; only then does what follows go on. So whatever is killed in between,
the tail of the target never lacks a record that the recorded position does not account for.

A record that may have been parked just before somebody was killed is looked for among those parked last, and not parked
again.

Invariants:

(a) A dead letter not accounted for is a lane's first: it is looked for among the last 50 before it is parked.
(b) A parked record holds its partition until gap and position behind it are recorded together: written on before that,
    a crash would leave a tail that lacks a record of the source. What follows was never appended, so it takes over the
    parked record's sequence.
(c) A record that may have been appended is never parked: after a lost answer what lies on the target is looked up
    first.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

from mirror.copier.work import FlowWork
from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import read_batches
from mirror.model.gap import Gap, GapKind
from mirror.model.ledger import digest, encode_content
from mirror.model.parked import Origin, origin, parked_headers
from mirror.model.partition import TopicPartition

# A dead letter that is not accounted for is one of the last: a task that was killed had at most one in flight for each
# partition.
_LAST_DEAD_LETTERS = 50

Parked: TypeAlias = frozenset[tuple[Origin, bytes]]
"""Records that lie in the topic of parked records: where they come from, and the digest of their content."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record to be parked.

    Attributes
    ----------
    offset
        its own, on the source.
    upstream_next
        where the source goes on behind it.
    message
        what the target says of it.
    content
        the batch, with this record alone, for the topic of parked records.
    gap
        what it leaves in the copy.
    """

    offset: int
    upstream_next: int
    message: str
    content: memoryview
    gap: Gap


def dead_letter(
    content: memoryview,
    source_alias: str,
    source: TopicPartition,
    offset: int,
    upstream_next: int,
    parked_topic: str,
    message: str,
    now_ms: int,
) -> DeadLetter | None:
    """Return what is to be parked of a batch with one record; None if it cannot be read."""
    try:
        (record,) = batch.records(content)
    except CorruptBatch:
        return None
    headers = parked_headers(source_alias, source, offset, record.timestamp, message)
    parked = record._replace(headers=record.headers + headers)
    reason = f"parked in {parked_topic}: {message}"
    return DeadLetter(
        offset,
        upstream_next,
        message,
        batch.encode([parked], batch.codec_of(content)),
        Gap(source, offset, offset + 1, reason, now_ms, GapKind.PARKED),
    )


def parked_last(flow: FlowWork) -> Parked:
    """Return the records that were parked last, whoever parked them.

    Raises
    ------
    KafkaProblem
        if that cannot be known.
    CorruptBatch
        if one cannot be read.
    """
    assert flow.parked_topic is not None
    address = TopicPartition(flow.parked_topic, 0)
    with closing(Channel(flow.flow.target, flow.target_client)) as channel:
        end = channel.offsets([address], LATEST)[address]
        start = max(channel.offsets([address], EARLIEST)[address], end - _LAST_DEAD_LETTERS)
        return frozenset().union(*(_parked(content) for content, _ in read_batches(channel, address, start, end)))


def is_among(dead_letter: DeadLetter, parked: Parked) -> bool:
    """Tell whether the very record of a dead letter is parked already."""
    return _parked(dead_letter.content) <= parked


def _parked(content: memoryview) -> Parked:
    return frozenset(
        (known, digest(encode_content(record.key, record.value, ())))
        for record in batch.records(content)
        if (known := origin(record.headers)) is not None
    )
