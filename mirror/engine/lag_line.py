"""The line about lag that the log gets of each flow once a minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror.control.flow_log import FlowLog
from mirror.control.tick import TickReport, now_ms, run_tick
from mirror.copier.work import MOST_SLOT_PATIENCE_SECONDS
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.run_log import logger_of
from mirror.kafka.cluster import Cluster
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition

LAG_SECONDS = 60.0


@dataclass(eq=False, repr=False)
class LagLine:
    """Says how many records are still to be copied, where most of them are, and how many were since the line before.

    Records are counted by offsets of the source, as ``mirror status`` does: transaction markers count too.

    Compare what ``log`` has on record with the ends on ``source``; ``clock`` gives seconds.
    """

    runtime: FlowRuntime
    log: FlowLog
    source: Cluster
    clock: Callable[[], float] = time.monotonic
    # When it was looked last, how far the copies had come by then, and what there was to copy.
    _before: tuple[float, dict[TopicPartition, int], Mapping[TopicPartition, int]] | None = field(
        default=None, init=False
    )
    # Since when records wait, and no copy has come further, whenever it was looked.
    _still_since: float = field(default=-math.inf, init=False)

    def tick(self) -> TickReport:
        """Write the line, once the first epoch of this engine has reported; none while a failover has cut the flow."""
        return run_tick(f"lag {self.runtime.settings.flow}", now_ms, self._round)

    def _round(self, _: int) -> tuple[int, Sequence[str]]:
        log = logger_of(flow := self.runtime.settings.flow)
        with self.runtime.lock:
            is_starting, partitions = self.runtime.is_starting, self.runtime.partitions
            stopped = sorted(self.runtime.stopped.keys() & {source for source, *_ in partitions})
            idle = {source for source, *_ in partitions if self.runtime.is_idle(source)}
            is_cut = self.runtime.pauses.is_cut
        if is_starting:
            return 0, ()
        if is_cut:
            # Nothing is to be copied: what grows there is no lag, and mirror status names it.
            self._before = None
            return 0, ()
        if not partitions:
            log.info("lag: 0 records; no topic on %s is selected", flow.source)
            return 1, ()
        known = self.log.poll().positions
        reached = {source: known[source].upstream for source, *_ in partitions if source in known}
        at, ends = self.clock(), self.source.offsets(list(reached), "latest")
        lags = {source: max(0, end - reached[source]) for source, end in ends.items()}
        worst = max(lags, key=lambda source: (lags[source], source), default=None)
        where = f", most in {worst} ({lags[worst]:,})" if worst is not None and lags[worst] else ""
        unknown = (
            f"; not known of {counted(len(partitions) - len(lags), 'partition')}" if len(lags) < len(partitions) else ""
        )
        # Of what has stopped because its copy is lost the position says that all is copied.
        stays = f"; {len(stopped):,} stopped, first {stopped[0]}" if stopped else ""
        since = ""
        standstill: tuple[str, ...] = ()
        waiting: dict[TopicPartition, int] = {}
        if self._before is not None:
            then, before, lagged = self._before
            more = sum(max(0, end - before[source]) for source, end in reached.items() if source in before)
            since = f"; {more:,} copied in {at - then:.0f} s"
            could = reached.keys() - idle - set(stopped)
            waiting = {} if more else self._waiting(lagged, could, reached)
            # What is copied in a transaction is not told of before that is committed, which it waits for a while.
            transactions = self.runtime.settings.transactions
            longest = transactions.seconds + MOST_SLOT_PATIENCE_SECONDS if transactions is not None else 0.0
            if waiting and at - self._still_since > longest:
                standstill = (self._standstill(waiting, at - self._still_since),)
        if not waiting:
            self._still_since = at
        self._before = at, reached, lags
        behind = sum(lag > 0 for lag in lags.values())
        log.info(
            "lag: %s in %s of %s%s%s%s%s",
            *(counted(sum(lags.values()), "record"), f"{behind:,}", counted(len(partitions), "partition")),
            *(where, unknown, stays, since),
        )
        return 1, standstill

    def _waiting(
        self,
        lagged: Mapping[TopicPartition, int],
        copied: Collection[TopicPartition],
        reached: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Return how many records of what had some to copy a look ago can be read now, and are not copied."""
        candidates = [each for each in copied if lagged.get(each)]
        ends = self.source.offsets(candidates, "stable" if self.runtime.settings.reads_committed else "latest")
        return {each: end - reached[each] for each, end in ends.items() if end > reached[each]}

    @staticmethod
    def _standstill(waiting: Mapping[TopicPartition, int], seconds: float) -> str:
        worst = max(waiting, key=lambda each: (waiting[each], each))
        return (
            f"nothing was copied in the last {seconds:.0f} s, and {counted(sum(waiting.values()), 'record')} of "
            f"{counted(len(waiting), 'partition')} wait, most in {worst} ({waiting[worst]:,})"
        )
