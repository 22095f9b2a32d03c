"""Which fetched batches belong to aborted transactions: what a reader of committed data must leave out itself.

Invariants:

(a) Compaction empties batches, markers too: a control batch without records ends no transaction as aborted.
"""

from __future__ import annotations

from mirror.kafka import batch
from mirror.kafka.batch import Header
from mirror.kafka.wire import Aborted


class AbortedTransactions:
    """The aborted transactions of one fetch, told by the answer's abort index and the markers between the batches."""

    def __init__(self, aborted: tuple[Aborted, ...]) -> None:
        """Begin at the first batch of a fetch whose answer named these."""
        self._coming = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open: set[int] = set()

    def covers(self, content: memoryview, header: Header) -> bool:
        """Whether the batch is aborted data; to be asked for every batch in order, markers included."""
        while self._coming and self._coming[-1].first_offset < header.next_offset:
            self._open.add(self._coming.pop().producer_id)
        if header.is_control:
            if batch.marker_is_abort(content):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open
