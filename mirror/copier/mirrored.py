"""Which batches of a source other flows have mirrored there: told by their producer ids, and left out by some flows.

The ids stand in the state topics of those flows, on the cluster that is read here, before the first batch that bears
them. So an id that is not known is looked up, once, before anything is decided about its batches.

Invariants:

(a) An unknown producer id is looked up before its batch is decided, in a state topic read to an end asked for after
    the batch had come. Writers stand there, outside transactions, before their first batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from mirror.copier.foreign_batches import LeftOut
from mirror.copier.links import ClusterLinks
from mirror.copier.tail_match import Batch
from mirror.kafka.batch import NO_PRODUCER
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.writer_log import WriterLog
from mirror.model.writers import KnownWriters, WrittenBy

# After a failure it is not asked at once again: what cannot be decided waits, and the others go on.
_BACKOFF_SECONDS = 1.0


class Undecided(Exception):
    """It cannot be known now whether a batch was mirrored; names the producer id and the reason."""


class Mirrored:
    """What one flow knows, for the time of an epoch, of who has written into its source."""

    def __init__(self, source: ClusterLinks, known: WrittenBy) -> None:
        """Begin with what the driver knows of some state topics on ``source``; others are read when needed."""
        self._source = source
        self._logs = {topic: WriterLog(topic, each) for topic, each in known.items()}
        # The ids that are no writer's according to a state topic.
        self._others: dict[str, set[int]] = {}
        self._read_at: dict[str, float] = {}
        self._failures: dict[str, tuple[float, str]] = {}

    def has_written(self, producer_id: int, state_topics: Iterable[str], received_at: float) -> bool:
        """Tell whether a producer id is recorded in one of some state topics.

        Parameters
        ----------
        received_at
            when the batch had arrived here, in monotonic seconds: what was read later says all about it.

        Raises
        ------
        Undecided
            if a state topic cannot be read now.
        """
        if producer_id == NO_PRODUCER:
            return False
        for topic in state_topics:
            log = self._logs.setdefault(topic, WriterLog(topic, KnownWriters()))
            if producer_id in log.writers:
                return True
            others = self._others.setdefault(topic, set())
            if producer_id in others:
                continue
            if self._read_at.get(topic, 0.0) <= received_at:
                self._catch_up(log, producer_id)
            if producer_id in log.writers:
                return True
            others.add(producer_id)
        return False

    def without(self, batches: Iterable[Batch], state_topics: tuple[str, ...], left_out: LeftOut) -> Iterator[Batch]:
        """Yield the batches that are to be copied; the others are counted.

        Raises
        ------
        Undecided
            if a state topic cannot be read now.
        """
        for content, header in batches:
            if self.has_written(header.producer_id, state_topics, time.monotonic()):
                left_out.add(header.next_offset, header.record_count)
            else:
                yield content, header

    def _catch_up(self, log: WriterLog, producer_id: int) -> None:
        began = time.monotonic()
        until, failure = self._failures.get(log.topic, (0.0, ""))
        if began >= until:
            try:
                self._source.ask(log.catch_up)
            except KafkaProblem as problem:
                failure = str(problem)
                self._failures[log.topic] = time.monotonic() + _BACKOFF_SECONDS, failure
            else:
                self._read_at[log.topic] = began
                return
        raise Undecided(
            f"whether the batches of producer id {producer_id} were mirrored there cannot be known: {failure}"
        )
