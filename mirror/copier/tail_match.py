"""Resume without duplicates: which source records already lie on the target beyond the recorded position.

After a crash the target may hold batches that were acknowledged but not recorded, or written and never acknowledged.
They carry the producer id of one of the flow's writers and stand in the order of the source, so they are matched
against the source from the recorded position on; the contents are the check.

Invariants:

(a) A long tail is matched a second at a time; where that got to is handed over as a position that is not clean. It is
    right behind the last record found, of both logs: what the target has removed behind that counts with what follows.
(b) The tail is matched up to the leader's log end, once that is replicated, not up to the high watermark: what lies
    between was written too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mirror.kafka import batch
from mirror.kafka.batch import Header, Record
from mirror.model.offset_map import Run, extend

# A data batch: its bytes and its header.
Batch = tuple[memoryview, Header]


@dataclass(frozen=True, slots=True)
class Matched:
    """The tail is understood: copying goes on at ``upstream``, and ``runs`` say what was found to be copied already."""

    upstream: int
    runs: tuple[Run, ...]
    records: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The tail holds something that the source does not: nothing is guessed, the partition stops."""

    reason: str


def match_tail(
    source: Iterable[Batch],
    tail: Iterable[Batch],
    upstream: int,
    is_ours: Callable[[int], bool],
    changed: Callable[[memoryview], Sequence[Record]] | None = None,
    *,
    downstream: int = 0,
) -> Matched | Mismatch:
    """Match what ``tail`` holds of our writers against ``source``, both beginning at the recorded position.

    Parameters
    ----------
    source
        data batches of the source from ``upstream`` on; the first may begin before it.
    tail
        data batches of the target from the recorded downstream position on; the first may begin before it.
    upstream
        the recorded upstream position.
    is_ours
        whether a producer id is one of the flow's writers; batches of others in between are passed over. So are those
        of transactions, ours too: positions are committed with them, so what lies behind the position was aborted.
    changed
        decodes a batch of the source into what was sent of it, with the offsets of the originals, where that is not
        what it holds.
    downstream
        the recorded downstream position.
    """
    runs: list[Run] = []
    reader = _SourceRecords(source, upstream, changed)
    count = 0
    for content, header in tail:
        if header.is_transactional or not is_ours(header.producer_id):
            continue
        whole = reader.take_batch(content, header) if header.base_offset >= downstream else None
        if whole is not None:
            extend(runs, whole)
            count += header.record_count
            continue
        copies = [record for record in batch.records(content) if record.offset >= downstream]
        expected = reader.take(len(copies))
        # A target that stamps records itself has not kept their timestamps.
        kept = slice(2, 5) if header.has_append_time else slice(1, 5)
        if [record[kept] for record in expected] != [record[kept] for record in copies]:
            return Mismatch(
                f"the target holds {len(copies)} records at offset {header.base_offset}, written by this flow "
                f"(producer id {header.producer_id}), that are not the source's from offset "
                f"{expected[0].offset if expected else reader.position} on"
            )
        # Compaction may have left holes between them, the same on both sides.
        for original, copy in zip(expected, copies, strict=True):
            extend(runs, Run(original.offset, copy.offset, 1))
        count += len(copies)
    return Matched(reader.position, tuple(runs), count)


class _SourceRecords:
    """The source from a position on: whole batches where both sides agree byte for byte, records otherwise."""

    def __init__(
        self, batches: Iterable[Batch], upstream: int, changed: Callable[[memoryview], Sequence[Record]] | None
    ) -> None:
        self._batches = iter(batches)
        self._is_changed = changed is not None
        self._decode = changed or batch.records
        self._start = upstream
        self._pending: list[Record] = []
        self._ahead: Batch | None = None
        self.position = upstream

    def take_batch(self, copy: memoryview, header: Header) -> Run | None:
        if self._pending or self._is_changed:
            return None
        if self._ahead is None:
            self._ahead = next(self._batches, None)
        if self._ahead is None:
            return None
        original, source_header = self._ahead
        if source_header.base_offset < self._start or not source_header.is_dense:
            return None
        if not batch.same_records(original, copy):
            return None
        self._ahead = None
        self.position = source_header.next_offset
        return Run(source_header.base_offset, header.base_offset, header.record_count)

    def take(self, count: int) -> list[Record]:
        while len(self._pending) < count:
            following = self._ahead or next(self._batches, None)
            self._ahead = None
            if following is None:
                break
            self._pending += [record for record in self._decode(following[0]) if record.offset >= self._start]
        taken, self._pending = self._pending[:count], self._pending[count:]
        if taken:
            self.position = taken[-1].offset + 1
        return taken
