"""How long a record takes from its producer to a reader on the target: one process plays both, so one clock is read."""

from __future__ import annotations

import math
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from mirror.bench.figures import Latencies
from mirror.lab.errors import LabError
from mirror.waiting import WaitTimeout, wait_until

_STAMP = struct.Struct(">qqq")
SMALLEST_VALUE_BYTES = _STAMP.size
_FIRST_SECONDS = 60.0
_LATE_SECONDS = 30.0
_POLL_SECONDS = 0.2


class NotArrived(LabError):
    """Records that were sent did not come out at the other end, or came out twice."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where records are written and where they are read."""

    source_servers: str
    source_topic: str
    target_servers: str
    target_topic: str
    partitions: int
    value_bytes: int


class LatencyMeter:
    """A producer without linger and a reader that takes what comes at once; a context manager."""

    def __init__(self, route: Route) -> None:
        """Connect; the topics exist."""
        self._route = route
        self._series = 0
        self._problems: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": route.source_servers,
                "linger.ms": 0,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                "log_level": 2,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": route.target_servers,
                "group.id": "latency",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._consumer.assign(
            [TopicPartition(route.target_topic, number, OFFSET_BEGINNING) for number in range(route.partitions)]
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the reader."""
        self._consumer.close()

    def until_something_arrives(self) -> None:
        """Send single records until one arrives.

        Raises
        ------
        NotArrived
            if none does within a minute.
        """
        self._series += 1

        def one() -> int | None:
            self._send(0)
            self._producer.flush(_POLL_SECONDS)
            return self._receive(_POLL_SECONDS)

        try:
            wait_until(one, "a record to arrive", timeout_seconds=_FIRST_SECONDS, until=lambda seen: seen is not None)
        except WaitTimeout as late:
            raise NotArrived(f"{self._route.target_topic} at {self._route.target_servers}: {late}") from late

    def measure(self, rate: int, seconds: float, settle_seconds: float) -> Latencies:
        """Send ``rate`` records a second, evenly; those of the first ``settle_seconds`` are sent but do not count.

        Raises
        ------
        NotArrived
            if one is missing half a minute after the last was sent, or one arrives twice.
        """
        self._series += 1
        unmeasured = int(rate * settle_seconds)
        count = unmeasured + int(rate * seconds)
        arrived: dict[int, float] = {}
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._send_evenly, rate, count)
            until = time.monotonic() + settle_seconds + seconds + _LATE_SECONDS
            while len(arrived) < count and time.monotonic() < until and not self._problems:
                self._receive(_POLL_SECONDS, arrived)
            took = sending.result()
        if self._problems:
            raise NotArrived(f"sending to {self._route.source_topic} failed: {self._problems[0]}")
        if len(arrived) < count:
            raise NotArrived(
                f"{count - len(arrived)} of {count} records sent to {self._route.source_topic} did not arrive in "
                f"{self._route.target_topic} at {self._route.target_servers} within {_LATE_SECONDS:.0f} s"
            )
        return Latencies(rate, count / took, tuple(arrived[number] for number in range(unmeasured, count)))

    def _send_evenly(self, rate: int, count: int) -> float:
        """Send ``count`` records, each when it is due or within a millisecond; return the seconds that took."""
        began = time.monotonic()
        sent = 0
        while sent < count and not self._problems:
            elapsed = time.monotonic() - began
            due = min(count, math.floor(elapsed * rate) + 1)
            while sent < due:
                self._send(sent)
                sent += 1
            # Serving the client's reports is the wait; shorter ones than a millisecond would not wait at all.
            self._producer.poll(max(0.001, sent / rate - elapsed))
        return time.monotonic() - began

    def _send(self, number: int) -> None:
        route = self._route
        filler = bytes(max(0, route.value_bytes - SMALLEST_VALUE_BYTES))
        value = _STAMP.pack(self._series, number, time.monotonic_ns()) + filler
        self._producer.produce(route.source_topic, value, partition=number % route.partitions)

    def _receive(self, seconds: float, arrived: dict[int, float] | None = None) -> int | None:
        """Return the number of the next record of this series and note its arrival; None when none is there in time."""
        message = self._consumer.poll(seconds)
        at = time.monotonic_ns()
        if message is None:
            return None
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF or error.retriable():
                return None
            raise KafkaException(error)
        value = message.value()
        assert value is not None
        series, number, sent = _STAMP.unpack_from(value)
        if series != self._series:
            return None
        if arrived is not None:
            if number in arrived:
                raise NotArrived(f"record {number} arrived twice in {self._route.target_topic}")
            arrived[number] = (at - sent) / 1e6
        return int(number)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._problems.append(f"{message.topic()}-{message.partition()}: {error}")
