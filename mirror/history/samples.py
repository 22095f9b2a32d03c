"""Samples of flows, and the two tables in which a history keeps them; `docs/history.md` explains the columns.

A **sample** is one look at a flow: a row of `FLOWS` with what `mirror status` says of it, and one row of `PARTITIONS`
for each partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from mirror.control.flow_status import FlowStatus
from mirror.model.cliff import Retention
from mirror.model.partition import TopicPartition

#: The version of the format, in the metadata of every file.
VERSION_KEY: Final = b"mirror.history"
VERSION: Final = b"1"

_NAME = pa.dictionary(pa.int32(), pa.string())

PARTITIONS: Final = pa.schema(
    [
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("flow", _NAME, nullable=False),
        pa.field("topic", _NAME, nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("source_end", pa.int64()),
        pa.field("copy_position", pa.int64(), nullable=False),
        pa.field("lag_seconds", pa.float32()),
        pa.field("carried", pa.bool_(), nullable=False),
        pa.field("stopped", pa.bool_(), nullable=False),
        pa.field("paused", pa.bool_(), nullable=False),
        pa.field("gaps", pa.int32(), nullable=False),
        pa.field("source_start", pa.int64()),
        pa.field("retention_ms", pa.int64()),
        pa.field("retention_bytes", pa.int64()),
    ],
    metadata={VERSION_KEY: VERSION},
)

FLOWS: Final = pa.schema(
    [
        pa.field("at_ms", pa.int64(), nullable=False),
        pa.field("flow", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("reasons", pa.list_(pa.string()), nullable=False),
        pa.field("notes", pa.list_(pa.string()), nullable=False),
        pa.field("term", pa.int64()),
        pa.field("partitions", pa.int32(), nullable=False),
    ],
    metadata={VERSION_KEY: VERSION},
)

#: No end of time or size, in the columns of retention.
KEPT_FOR_EVER: Final = -1


@dataclass(frozen=True, slots=True)
class SourceLog:
    """What the source keeps of one partition: its start offset, and its topic's retention; None: not told."""

    start: int
    retention: Retention | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a flow.

    Attributes
    ----------
    at_ms
        when, in ms since the epoch.
    status
        what was seen; of a flow whose target does not answer, with the partitions as they were known last.
    is_carried
        whether those positions are the last known ones, because the target did not tell.
    logs
        what the source keeps, of the partitions for which it was asked this time.
    """

    at_ms: int
    status: FlowStatus
    is_carried: bool = False
    logs: Mapping[TopicPartition, SourceLog] = field(default_factory=dict)

    def flow_row(self) -> pa.Table:
        """Return the row of `FLOWS`."""
        status = self.status
        row = {
            "at_ms": self.at_ms,
            "flow": str(status.flow),
            "state": status.state,
            "reasons": [*status.reasons],
            "notes": [*status.notes],
            "term": status.claim.term if status.claim is not None and not status.claim.is_released else None,
            "partitions": len(status.partitions),
        }
        return pa.Table.from_pylist([row], schema=FLOWS)

    def partition_rows(self) -> pa.Table:
        """Return the rows of `PARTITIONS`."""
        found = self.status.partitions
        logs = [self.logs.get(TopicPartition(each.topic, each.partition)) for each in found]
        columns: dict[str, Sequence[Any]] = {
            "at_ms": [self.at_ms] * len(found),
            "flow": [str(self.status.flow)] * len(found),
            "topic": [each.topic for each in found],
            "partition": [each.partition for each in found],
            "position": [each.upstream_next for each in found],
            "source_end": [each.source_end for each in found],
            "copy_position": [each.downstream_next for each in found],
            "lag_seconds": [each.lag_seconds for each in found],
            "carried": [self.is_carried] * len(found),
            "stopped": [each.stopped is not None for each in found],
            "paused": [each.is_paused for each in found],
            "gaps": [each.gaps for each in found],
            "source_start": [log and log.start for log in logs],
            "retention_ms": [log and _limit(log.retention, "ms") for log in logs],
            "retention_bytes": [log and _limit(log.retention, "bytes") for log in logs],
        }
        return pa.Table.from_arrays([_column(columns[one.name], one.type) for one in PARTITIONS], schema=PARTITIONS)


def _limit(retention: Retention | None, of: str) -> int | None:
    if retention is None:
        return None
    limit: int | None = getattr(retention, of)
    return KEPT_FOR_EVER if limit is None else limit


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, type=kind.value_type).dictionary_encode()
    return pa.array(values, type=kind)
