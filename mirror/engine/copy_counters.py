"""How much an engine has copied of a flow since it started, and what MirrorMaker 2 says of the last minute in metrics.

Counts only grow. While an epoch runs the tasks tell how much they have copied in it; its results say that for good. Of
an epoch whose results are lost, what was reported last counts.

Invariants:

(a) What is measured of the copy costs nothing that can be seen. Times are those of batch headers: of the first record,
    unless a cleaner has put its delete horizon there, and of the newest. A task tells the driver once a second, over
    the epoch channel's connection, of the partitions that have moved, and only if somebody is to know
    (``TaskWork.reports_copied``). Counts are sums since the epoch began, so that what is reported twice, or not at all,
    is counted once in the end; ages are what has come since.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mirror.copier.work import PartitionResult
from mirror.model.copied import Ages, Copied, Waiting
from mirror.model.partition import TopicPartition

# As Kafka's own metrics: figures are of the window that is being filled, and of the one before (metrics.num.samples
# and metrics.sample.window.ms).
WINDOW_SECONDS = 30.0


@dataclass(slots=True)
class _Window:
    began: float
    records: int = 0
    bytes: int = 0
    read: Ages = field(default_factory=Ages)
    acknowledged: Ages = field(default_factory=Ages)


@dataclass(frozen=True, slots=True)
class CopiedSince:
    """What is known of one partition, or of the checkpoints of one group in one partition.

    Attributes
    ----------
    records, bytes
        since the engine started.
    record_rate, byte_rate
        a second, over the last half a minute to a minute.
    read, acknowledged
        how old records were then, over the same time; ``last`` stays what it was.
    waiting
        the oldest record that a task has read and the target has not acknowledged.
    """

    records: int
    bytes: int
    record_rate: float
    byte_rate: float
    read: Ages
    acknowledged: Ages
    waiting: Waiting | None = None


class _Count:
    """What was counted of one partition, or of one group in it."""

    __slots__ = ("bytes", "last", "records", "running", "waiting", "windows")

    def __init__(self, now: float) -> None:
        self.records = self.bytes = 0
        #: What was told of the epoch that runs.
        self.running = (0, 0)
        self.waiting: Waiting | None = None
        self.windows = [_Window(now)]
        self.last = (0.0, 0.0)

    def add(self, now: float, records: int, size: int, read: Ages, acknowledged: Ages) -> None:
        """Take in what has come since."""
        if now >= self.windows[-1].began + WINDOW_SECONDS:
            self.windows = [self.windows[-1], _Window(now)]
        window = self.windows[-1]
        self.records += records
        self.bytes += size
        window.records += records
        window.bytes += size
        window.read.join(read)
        window.acknowledged.join(acknowledged)
        self.last = (
            read.last if read.count else self.last[0],
            acknowledged.last if acknowledged.count else self.last[1],
        )

    def figures(self, now: float) -> CopiedSince:
        """Return what is to be said now."""
        recent = [each for each in self.windows if now < each.began + 2 * WINDOW_SECONDS]
        seconds = max(now - min((each.began for each in recent), default=now), WINDOW_SECONDS)
        read, acknowledged = Ages(last=self.last[0]), Ages(last=self.last[1])
        for window in recent:
            read.join(window.read)
            acknowledged.join(window.acknowledged)
        return CopiedSince(
            self.records,
            self.bytes,
            sum(each.records for each in recent) / seconds,
            sum(each.bytes for each in recent) / seconds,
            read,
            acknowledged,
            self.waiting,
        )


class CopyCounters:
    """What an engine has copied of one flow; from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing; ``clock`` gives seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._partitions: dict[TopicPartition, _Count] = {}
        self._checkpoints: dict[tuple[str, TopicPartition], _Count] = {}
        self._rereads: Mapping[str, int] = {}

    def take_copied(self, source: TopicPartition, copied: Copied) -> None:
        """Take in what a task tells of a partition while it runs."""
        with self._lock:
            self._advance(source, copied.records, copied.bytes, copied.read, copied.acknowledged)
            self._partitions[source].waiting = copied.waiting

    def take_result(self, result: PartitionResult) -> None:
        """Take in what a task says of a partition at its end."""
        with self._lock:
            self._advance(result.source, result.records, result.bytes, result.read, result.acknowledged)

    def _advance(self, source: TopicPartition, records: int, size: int, read: Ages, acknowledged: Ages) -> None:
        """Count what is more than was told of the epoch before; of a lost transaction nothing is taken back."""
        count = self._partitions.get(source)
        if count is None:
            count = self._partitions[source] = _Count(self._clock())
        known_records, known_bytes = count.running
        more = max(0, records - known_records), max(0, size - known_bytes)
        count.running = known_records + more[0], known_bytes + more[1]
        count.add(self._clock(), *more, read, acknowledged)

    def end_epoch(self) -> None:
        """Take in that no task runs: the next one counts from 0."""
        with self._lock:
            for count in self._partitions.values():
                count.running, count.waiting = (0, 0), None

    def take_checkpoints(self, written: Collection[tuple[str, TopicPartition]], latency_ms: float) -> None:
        """Take in whose checkpoints, by group and partition on the target, are written so long after the listing."""
        with self._lock:
            for key in written:
                count = self._checkpoints.get(key)
                if count is None:
                    count = self._checkpoints[key] = _Count(self._clock())
                count.add(self._clock(), 1, 0, Ages(), Ages(1, *(latency_ms,) * 4))

    def take_rereads(self, rereads: Mapping[str, int]) -> None:
        """Take in how many records each group would have been handed again, had it failed over a moment ago."""
        with self._lock:
            self._rereads = dict(rereads)

    def partitions(self) -> dict[TopicPartition, CopiedSince]:
        """Return what is known of the partitions on the source that this engine has copied."""
        with self._lock:
            return {key: each.figures(self._clock()) for key, each in self._partitions.items()}

    def checkpoints(self) -> dict[tuple[str, TopicPartition], Ages]:
        """Return by group and partition on the target how long after the listing of groups checkpoints were written."""
        with self._lock:
            return {key: each.figures(self._clock()).acknowledged for key, each in self._checkpoints.items()}

    def rereads(self) -> Mapping[str, int]:
        """Return by group what was taken in last."""
        with self._lock:
            return self._rereads

    def waiting(self, source: TopicPartition) -> Waiting | None:
        """Return the oldest record of a partition that a task has read and the target has not acknowledged."""
        with self._lock:
            return self._partitions[source].waiting if source in self._partitions else None

    def is_moving(self, source: TopicPartition) -> bool:
        """Whether something of a partition was copied in the epoch that runs."""
        with self._lock:
            return source in self._partitions and self._partitions[source].running != (0, 0)
