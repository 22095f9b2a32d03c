"""Fill a topic as an ordinary client does, in batches of just as many records as asked for; no ledger, no headers."""

from __future__ import annotations

from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from mirror.bench.shapes import Shape
from mirror.lab.errors import LabError
from mirror.lab.workload import Workload, planned_records
from mirror.model.progress import Watch

_LARGEST_REQUEST_BYTES = 1_048_588
# Only what is full goes out: nothing is to be sent because it has waited.
_LINGER_MS = 2_000
_QUEUED_KILOBYTES = 131_072
_QUEUED_RECORDS = 100_000
_FLUSH_SECONDS = 60.0
_DIFFERENT_VALUES = 1024
_DIFFERENT_KEYS = 1000
_REPORT_EVERY = 50_000


class FillFailed(LabError):
    """Not every record was acknowledged."""


def fill(bootstrap_servers: str, topic: str, shape: Shape, watch: Watch) -> None:
    """Produce the records of ``shape``, a batch to each partition in turn; values compress to about a half.

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
        "compression.type": shape.codec.value,
        "batch.num.messages": shape.records_per_batch,
        "batch.size": _LARGEST_REQUEST_BYTES,
        "message.max.bytes": _LARGEST_REQUEST_BYTES,
        "linger.ms": _LINGER_MS,
        "queue.buffering.max.kbytes": _QUEUED_KILOBYTES,
        "queue.buffering.max.messages": _QUEUED_RECORDS,
        "delivery.report.only.error": True,
        "on_delivery": delivered,
        "log_level": 2,
    }
    producer = Producer(settings)
    load = Workload(((topic, 1),), value_bytes=shape.value_bytes)
    values = [record.value for record in islice(planned_records(load, "bench"), _DIFFERENT_VALUES)]
    keys = [b"key-%04d" % number for number in range(_DIFFERENT_KEYS)]
    what = f"filling {topic}"
    for number in range(shape.records):
        if problems:
            break
        partition = number // shape.records_per_batch % shape.partitions
        value, key = values[number * 7919 % _DIFFERENT_VALUES], keys[number % _DIFFERENT_KEYS]
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.05)
        if number % _REPORT_EVERY == 0:
            producer.poll(0)
            watch(what, number, shape.records)
    left = producer.flush(_FLUSH_SECONDS)
    if problems or left:
        reason = problems[0] if problems else f"{left} records were not acknowledged within {_FLUSH_SECONDS:.0f} s"
        raise FillFailed(f"{what} at {bootstrap_servers} failed: {reason}")
    watch(what, shape.records, shape.records)
