"""A log with all that takes offsets and is no record: a head that is gone, transactions committed and aborted."""

from __future__ import annotations

from confluent_kafka import Producer

from mirror.lab.faults import remove_first_records
from mirror.model.partition import TopicPartition

_TIMEOUT_SECONDS = 60.0
# Records of transactions one after the other; those with a minus are aborted.
_TRANSACTIONS = (12, -3, 25, 1, -60, 40, 2, -1, 30)


def fill_with_holes(servers: str, partition: TopicPartition, head: int, tail: int) -> None:
    """Write ``head`` records and remove them, then transactions, one of them aborted and long, and ``tail`` records."""
    plain = Producer({"bootstrap.servers": servers})
    _write(plain, partition, 0, head)
    remove_first_records(servers, partition, head)
    # A cluster that has just started says, for a moment, that it has no coordinator yet; the client asks again.
    writer = Producer({"bootstrap.servers": servers, "transactional.id": f"{partition}-writer", "log_level": 2})
    writer.init_transactions(_TIMEOUT_SECONDS)
    number = head
    for count in _TRANSACTIONS:
        writer.begin_transaction()
        number = _write(writer, partition, number, abs(count))
        if count > 0:
            writer.commit_transaction(_TIMEOUT_SECONDS)
        else:
            writer.abort_transaction(_TIMEOUT_SECONDS)
    _write(plain, partition, number, tail)


def _write(producer: Producer, partition: TopicPartition, number: int, count: int) -> int:
    """Write so many numbered records and wait until they are there; return the number of the next."""
    for each in range(number, number + count):
        producer.produce(partition.topic, b"order %d" % each, b"key %d" % (each % 100), partition.partition)
    producer.flush(_TIMEOUT_SECONDS)
    return number + count
