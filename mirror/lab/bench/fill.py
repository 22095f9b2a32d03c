"""Fill a topic as fast as one client can; no ledger, no headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from mirror.lab.errors import LabError
from mirror.lab.workload import Workload, planned_records

_BATCH_BYTES = 60_000
_LINGER_MS = 20
_QUEUED_BYTES_KB = 131_072
_QUEUED_RECORDS = 100_000
_FLUSH_SECONDS = 60.0
_DIFFERENT_VALUES = 1024
_TELL_EVERY = 250_000


class FillFailed(LabError):
    """Not every record was acknowledged."""


@dataclass(frozen=True, slots=True)
class Filling:
    """What is to be in the topic; values compress to about a half."""

    topic: str
    partitions: int
    records: int
    value_bytes: int
    compression: str


def fill(bootstrap_servers: str, filling: Filling, tell: Callable[[str], None]) -> None:
    """Produce the records, in batches of about 59 KB before compression, to all partitions alike.

    Raises
    ------
    FillFailed
        naming the first problem.
    """
    problems: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            problems.append(f"{message.topic()}-{message.partition()}: {error}")

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "compression.type": filling.compression,
        "batch.size": _BATCH_BYTES,
        "linger.ms": _LINGER_MS,
        "queue.buffering.max.kbytes": _QUEUED_BYTES_KB,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
        "delivery.report.only.error": True,
        "on_delivery": delivered,
    }
    producer = Producer(settings)
    load = Workload(((filling.topic, 1),), value_bytes=filling.value_bytes)
    values = [record.value for record in islice(planned_records(load, "bench"), _DIFFERENT_VALUES)]
    in_a_batch = max(1, _BATCH_BYTES // filling.value_bytes)
    for number in range(filling.records):
        if problems:
            break
        partition = number // in_a_batch % filling.partitions
        value, key = values[number * 7919 % _DIFFERENT_VALUES], b"key-%d" % (number % 1000)
        while True:
            try:
                producer.produce(filling.topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.05)
        if number % _TELL_EVERY == _TELL_EVERY - 1:
            tell(f"filled {number + 1:,} of {filling.records:,} records")
    left = producer.flush(_FLUSH_SECONDS)
    if problems or left:
        reason = problems[0] if problems else f"{left} records were not acknowledged within {_FLUSH_SECONDS:.0f} s"
        raise FillFailed(f"filling {filling.topic} at {bootstrap_servers} failed: {reason}")
