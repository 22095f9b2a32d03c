"""An application's consumer, as short as can be: it joins a group, reads from the group's positions, and keeps nothing.

Joining, the hand-out of partitions and the group's positions are kafka-python's consumer's; the log is read by our own
reader, which knows every codec. Nothing is committed. What the records said is reported as digests.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import kafka
from kafka import errors as client_errors
from kafka.consumer.subscription_state import ConsumerRebalanceListener

from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.channel import Channel
from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.failures import error_message
from mirror.kafka.log import LogReader
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.security import client_arguments
from mirror.model.ledger import digest, encode_content
from mirror.model.partition import TopicPartition
from mirror.model.shadow import Handed, Seen

_POLL_MS = 100
_SESSION_MS = 10_000
_FETCH_BYTES = 1 << 20
_NEVER_ASSIGNED = "in the time there was, the group's coordinator did not hand the partition to its only member"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Where reading ends, whichever comes first.

    Attributes
    ----------
    records, size_bytes
        of one partition.
    seconds
        of one group.
    """

    records: int = 100
    size_bytes: int = 8 << 20
    seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class ReadGoal:
    """When a partition has been read far enough even within the limits: at ``end``, with at least ``least`` records."""

    end: int
    least: int


@dataclass(slots=True)
class _Reading:
    """What one partition has given so far; ``log`` is there once the group's position is known."""

    goal: ReadGoal
    log: LogReader | None = None
    start: int = 0
    records: list[Seen] = field(default_factory=list)
    size_bytes: int = 0
    seconds_to_first: float | None = None
    is_done: bool = False
    problem: str | None = None
    is_out_of_range: bool = False

    def is_full(self, limits: ReadLimits) -> bool:
        """Whether a limit is reached."""
        return len(self.records) >= limits.records or self.size_bytes >= limits.size_bytes

    def is_far_enough(self, limits: ReadLimits) -> bool:
        """Whether a limit or the goal is reached."""
        if self.is_full(limits):
            return True
        return self.log is not None and self.log.position >= self.goal.end and len(self.records) >= self.goal.least

    def handed(self, problem: str | None) -> Handed:
        """Return what was handed; what was read far enough is not spoiled by what happened later."""
        if not self.is_done and self.problem is None:
            self.problem = problem or (_NEVER_ASSIGNED if self.log is None else None)
        return Handed(tuple(self.records), self.seconds_to_first, self.problem, self.is_out_of_range)


def read_as_group(
    client: Mapping[str, str],
    group: str,
    goals: Mapping[TopicPartition, ReadGoal],
    limits: ReadLimits,
    stop: threading.Event,
    *,
    alias: str = "cluster",
) -> dict[TopicPartition, Handed]:
    """Join ``group``, read the partitions of ``goals`` from its positions on, leave; return what was handed.

    The consumer subscribes to the topics as an application does, so that the group's coordinator hands it both the
    partitions and the positions. Partitions of the topics that are not asked for are not read. A group whose
    position lies outside the log is not moved anywhere.

    Raises
    ------
    UnsupportedSetting
        if a security setting cannot be honoured.
    """
    keep_client_quiet()
    began = time.monotonic()
    deadline = began + limits.seconds
    readings = {partition: _Reading(goal) for partition, goal in goals.items()}
    problem = None
    try:
        with _member(client, group, goals) as consumer, closing(Channel(alias, client)) as channel:
            while not stop.is_set() and time.monotonic() < deadline:
                consumer.poll(timeout_ms=0 if any(each.log for each in readings.values()) else _POLL_MS)
                _place(consumer, channel, readings)
                _read_round(readings, limits, began)
                if all(reading.is_done for reading in readings.values()):
                    break
    except (client_errors.KafkaError, ConnectionFailed) as error:
        problem = error_message(error)
    if stop.is_set():
        problem = "it was stopped before the end"
    return {partition: reading.handed(problem) for partition, reading in readings.items()}


@contextmanager
def _member(client: Mapping[str, str], group: str, goals: Mapping[TopicPartition, ReadGoal]) -> Iterator[Any]:
    """Make a consumer that is handed partitions and positions, and fetches nothing itself; it leaves in the end."""
    consumer = kafka.KafkaConsumer(
        **client_arguments(client),
        group_id=group,
        client_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=_SESSION_MS // 5,
        metrics_enabled=False,
    )
    try:
        # By pattern, as only then the library knows the topics' partitions before it joins. Otherwise it may hand out
        # none, join once more, and forget that join if a poll ends in the middle of it (kafka-python 3.0.12).
        names = "|".join(re.escape(topic) for topic in sorted({partition.topic for partition in goals}))
        consumer.subscribe(pattern=rf"(?:{names})\Z", listener=_AtRest(consumer, goals))
        yield consumer
    finally:
        consumer.close(autocommit=False, timeout_ms=5000)


class _AtRest(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Lets every partition rest as it is handed out, those that are not wanted at their ends: they need no position."""

    def __init__(self, consumer: Any, wanted: Mapping[TopicPartition, ReadGoal]) -> None:
        self._consumer = consumer
        self._wanted = wanted

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing: there is nothing to be kept."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Pause them before the first fetch."""
        others = [each for each in assigned if TopicPartition(each.topic, each.partition) not in self._wanted]
        if others:
            self._consumer.seek_to_end(*others)
        self._consumer.pause(*assigned)


def _place(consumer: Any, channel: Channel, readings: Mapping[TopicPartition, _Reading]) -> None:
    """Begin with each partition handed out, at the group's position."""
    for address in consumer.assignment():
        partition = TopicPartition(address.topic, address.partition)
        reading = readings.get(partition)
        if reading is None or reading.log is not None:
            continue
        position = consumer.position(address, timeout_ms=_POLL_MS)
        if position is not None:
            reading.start = position
            reading.log = LogReader(channel, partition, position)


def _read_round(readings: Mapping[TopicPartition, _Reading], limits: ReadLimits, began: float) -> None:
    """Fetch once from each partition that is not read far enough."""
    waiting = [reading for reading in readings.values() if reading.log is not None and not reading.is_done]
    for reading in waiting:
        if not reading.is_far_enough(limits):
            # Only data whose transaction is complete, as a careful application reads.
            _fetch(reading, limits, began, wait_ms=_POLL_MS // len(waiting))
        reading.is_done = reading.is_done or reading.is_far_enough(limits)


def _fetch(reading: _Reading, limits: ReadLimits, began: float, wait_ms: int) -> None:
    assert reading.log is not None, "only what has a position is read"
    most = max(1, min(limits.size_bytes - reading.size_bytes, _FETCH_BYTES))
    try:
        for content, _ in reading.log.fetch(wait_ms, read_committed=True, most_bytes=most):
            for record in batch.records(content):
                if record.offset < reading.start or reading.is_full(limits):
                    continue
                if reading.seconds_to_first is None:
                    reading.seconds_to_first = time.monotonic() - began
                encoded = encode_content(record.key, record.value, record.headers)
                reading.records.append(Seen(record.offset, digest(encoded)))
                reading.size_bytes += len(encoded)
    except BrokerRefused as refused:
        reading.is_out_of_range = refused.error is client_errors.OffsetOutOfRangeError
        # A leader that moved is found again.
        if not issubclass(refused.error, client_errors.RetriableError):
            reading.problem, reading.is_done = str(refused), True
    except LeaderUnknown:
        pass  # asked for again, as long as there is time
    except CorruptBatch as problem:
        reading.problem, reading.is_done = str(problem), True
