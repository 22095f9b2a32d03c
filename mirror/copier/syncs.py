"""When a copied partition owes an offset sync: MirrorMaker 2's rule, applied to whole batches at once."""

from __future__ import annotations

from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition


class PartitionSyncs:
    """MM2's emission rule (OSW-01 to OSW-05) for one partition, for runs of consecutive records instead of single ones.

    Within a run only the lag rule can fire, so what a record-by-record writer would have emitted last is known without
    asking record by record. At most one sync waits; a newer one takes its place (OSW-03).
    """

    def __init__(self, source: TopicPartition, offset_lag_max: int) -> None:
        """Start a writer's life: the first record owes a sync (OSW-08)."""
        self._source = source
        self._step = offset_lag_max + 1
        self._previous_upstream = -1
        self._previous_downstream = -1
        self._last_downstream = -1
        self._due: OffsetSync | None = None
        self._delayed: OffsetSync | None = None
        self._under_way: OffsetSync | None = None

    def acknowledged(self, upstream: int, downstream: int, count: int) -> None:
        """Take in ``count`` acknowledged records with consecutive offsets on both sides."""
        is_first = self._last_downstream == -1
        is_gap = upstream - self._previous_upstream != 1
        is_truncation = downstream < self._previous_downstream
        if is_first or is_gap or is_truncation or downstream - self._last_downstream >= self._step:
            self._owe(upstream, downstream)
        last_downstream = downstream + count - 1
        steps = (last_downstream - self._last_downstream) // self._step
        if steps:
            due = self._last_downstream + steps * self._step
            self._owe(upstream + due - downstream, due)
        last_upstream = upstream + count - 1
        last = OffsetSync(self._source, last_upstream, last_downstream)
        if last != self._due:
            self._delayed = last
        self._previous_upstream, self._previous_downstream = last_upstream, last_downstream

    @property
    def is_settled(self) -> bool:
        """Whether every sync is written, and none will be due with a commit."""
        return self._due is None and self._delayed is None and self._under_way is None

    def promote_delayed(self) -> None:
        """Make the newest pair due although no rule asks for it; done with every commit (OSW-05)."""
        if self._delayed is not None:
            self._due, self._delayed = self._delayed, None

    def owe_again(self, upstream: int, downstream: int) -> None:
        """Make a pair due that could not be written before (ERR-11); the rule goes on as if there were none."""
        self._due = OffsetSync(self._source, upstream, downstream)

    def take_due(self) -> OffsetSync | None:
        """Return the sync that is to be written now, if any; it is under way until :meth:`written` says otherwise."""
        due, self._due = self._due, None
        self._under_way = due or self._under_way
        return due

    def written(self, sync: OffsetSync) -> None:
        """Take in that ``sync`` is in the log; a newer one may be under way by now."""
        if self._under_way == sync:
            self._under_way = None

    def _owe(self, upstream: int, downstream: int) -> None:
        self._due = OffsetSync(self._source, upstream, downstream)
        self._delayed = None
        self._last_downstream = downstream
