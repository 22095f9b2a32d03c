"""Records of one partition on their way through the transforms of their topic.

Invariants:

(a) A transform must depend on the record alone. After a crash it is applied to the source again and the result
    compared with the tail. Transforms set otherwise while a tail is open stop the partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mirror.copier.work import PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Record
from mirror.model.gap import Gap
from mirror.model.partition import TopicPartition
from mirror.model.transforms.chain import Failed, Skipped


@dataclass(frozen=True, slots=True)
class Changed:
    """What is left of records.

    Attributes
    ----------
    records
        those to be sent, with the offsets of their originals.
    gaps
        what an error took away.
    failed
        the record that ended it, None if none did.
    """

    records: list[Record]
    gaps: tuple[Gap, ...] = ()
    failed: Failed | None = None


def change(work: PartitionWork, records: Sequence[Record]) -> Changed:
    """Put records through the transforms of ``work``, if it has any."""
    if work.transform is None:
        return Changed(list(records))
    made = work.transform.apply(records, work.source.partition)
    return Changed(made.records, _gaps(work.source, made.skipped), made.failed and _located(work.source, made.failed))


@dataclass(slots=True)
class ChangedBatches:
    """Decodes batches of the source into what the transforms make of them, and keeps what an error took away."""

    work: PartitionWork
    gaps: tuple[Gap, ...] = ()

    def records(self, content: memoryview) -> list[Record]:
        """Return what would be sent of one batch; nothing from a record on that the transforms fail on."""
        changed = change(self.work, batch.records(content))
        self.gaps += changed.gaps
        return changed.records


def _located(source: TopicPartition, failed: Failed) -> Failed:
    return Failed(
        failed.offset,
        f"{failed.reason}, at upstream offset {failed.offset} of {source}; mend the function and start again, or have "
        "such records left out, each as a gap, by errors.tolerance = all",
    )


def _gaps(source: TopicPartition, skipped: Sequence[Skipped]) -> tuple[Gap, ...]:
    """Return one gap for each row of records that follow one another, with the reason of its first."""
    rows: list[list[Skipped]] = []
    for each in skipped:
        if rows and rows[-1][-1].offset + 1 == each.offset:
            rows[-1].append(each)
        else:
            rows.append([each])
    now = int(time.time() * 1000)
    return tuple(
        Gap(source, row[0].offset, row[-1].offset + 1, f"left out (errors.tolerance = all): {row[0].reason}", now)
        for row in rows
    )
