"""An application's consumer, as short as can be: it joins a group, reads from the group's positions, and keeps nothing.

It commits nothing either. What the records said is told as digests; a reader can be stopped at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kafka
from kafka import errors as client_errors
from kafka.consumer.subscription_state import ConsumerRebalanceListener

from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.security import client_arguments
from mirror.model.ledger import digest, encode_content
from mirror.model.partition import TopicPartition
from mirror.model.shadow import Handed, Seen

_POLL_MS = 100
_SESSION_MS = 10_000
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
    records: list[Seen] = field(default_factory=list)
    size_bytes: int = 0
    seconds_to_first: float | None = None
    is_assigned: bool = False
    is_done: bool = False
    is_out_of_range: bool = False


def read_as_group(
    client: Mapping[str, str],
    group: str,
    goals: Mapping[TopicPartition, ReadGoal],
    limits: ReadLimits,
    stop: threading.Event,
    watch: Callable[[int], None] = lambda _: None,
) -> dict[TopicPartition, Handed]:
    """Join ``group``, read the partitions of ``goals`` from its positions on, leave; return what was handed.

    The consumer subscribes to the topics as an application does, so that the group's coordinator hands it both the
    partitions and the positions. Partitions of the topics that are not asked for are not read. A group whose
    position lies outside the log is not moved anywhere.

    Parameters
    ----------
    watch
        called with the number of records handed so far.

    Raises
    ------
    UnsupportedSetting
        if a security setting cannot be honoured.
    """
    keep_client_quiet()
    began = time.monotonic()
    readings = {partition: _Reading() for partition in goals}
    try:
        # Only data whose transaction is complete: what a careful application reads.
        consumer = kafka.KafkaConsumer(
            **client_arguments(client),
            group_id=group,
            client_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            allow_auto_create_topics=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_SESSION_MS // 5,
            max_poll_records=limits.records,
            max_partition_fetch_bytes=min(limits.size_bytes, 1 << 20),
            metrics_enabled=False,
        )
    except client_errors.KafkaError as error:
        return _told(readings, f"group {group}: {_spelled(error)}")
    try:
        consumer.subscribe(
            sorted({partition.topic for partition in goals}), listener=_ReadNothingElse(consumer, goals.keys())
        )
        _read(consumer, readings, goals, limits, began, stop, watch)
    except client_errors.KafkaError as error:
        return _told(readings, f"group {group}: {_spelled(error)}")
    finally:
        consumer.close(autocommit=False, timeout_ms=5000)
    return _told(readings, "it was stopped before the end" if stop.is_set() else None)


class _ReadNothingElse(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Puts partitions that are not wanted to their ends and lets them rest there."""

    def __init__(self, consumer: Any, wanted: Iterable[TopicPartition]) -> None:
        self._consumer = consumer
        self._wanted = set(wanted)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Do nothing: there is nothing to be kept."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Set the others aside before the positions are asked for."""
        others = [each for each in assigned if TopicPartition(each.topic, each.partition) not in self._wanted]
        if others:
            self._consumer.seek_to_end(*others)
            self._consumer.pause(*others)


def _read(
    consumer: Any,
    readings: Mapping[TopicPartition, _Reading],
    goals: Mapping[TopicPartition, ReadGoal],
    limits: ReadLimits,
    began: float,
    stop: threading.Event,
    watch: Callable[[int], None],
) -> None:
    while not stop.is_set() and time.monotonic() < began + limits.seconds:
        for address, records in _poll(consumer, readings).items():
            reading = readings.get(TopicPartition(address.topic, address.partition))
            if reading is not None:
                _take(reading, records, limits, time.monotonic() - began)
        watch(sum(len(reading.records) for reading in readings.values()))
        resting = []
        for address in consumer.assignment():
            partition = TopicPartition(address.topic, address.partition)
            reading = readings.get(partition)
            if reading is None or reading.is_done:
                continue
            reading.is_assigned = True
            if len(reading.records) < limits.records and reading.size_bytes < limits.size_bytes:
                if len(reading.records) < goals[partition].least:
                    continue
                position = consumer.position(address, timeout_ms=_POLL_MS)
                if position is None or position < goals[partition].end:
                    continue
            reading.is_done = True
            resting.append(address)
        if resting:
            consumer.pause(*resting)
        if all(reading.is_done for reading in readings.values()):
            return


def _poll(consumer: Any, readings: Mapping[TopicPartition, _Reading]) -> Mapping[Any, Iterable[Any]]:
    try:
        polled: Mapping[Any, Iterable[Any]] = consumer.poll(timeout_ms=_POLL_MS)
    except client_errors.OffsetOutOfRangeError as error:
        # The others are read all the same.
        for address in error.args[0]:
            reading = readings[TopicPartition(address.topic, address.partition)]
            reading.is_out_of_range = reading.is_done = True
            consumer.seek_to_end(address)
            consumer.pause(address)
        return {}
    return polled


def _take(reading: _Reading, records: Iterable[Any], limits: ReadLimits, seconds: float) -> None:
    for record in records:
        if len(reading.records) >= limits.records or reading.size_bytes >= limits.size_bytes:
            return
        if reading.seconds_to_first is None:
            reading.seconds_to_first = seconds
        content = encode_content(record.key, record.value, record.headers)
        reading.records.append(Seen(record.offset, digest(content)))
        reading.size_bytes += len(content)


def _told(readings: Mapping[TopicPartition, _Reading], problem: str | None) -> dict[TopicPartition, Handed]:
    return {
        partition: Handed(
            tuple(reading.records),
            reading.seconds_to_first,
            # What was read far enough is not spoiled by what happened later.
            None if reading.is_done else problem or (None if reading.is_assigned else _NEVER_ASSIGNED),
            reading.is_out_of_range,
        )
        for partition, reading in readings.items()
    }


def _spelled(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
