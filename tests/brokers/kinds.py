"""Topics with records of every shape, and what a consumer sees of them."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka

from mirror.model.partition import TopicPartition

PARTITIONS = 2
TIME = 1_700_000_000_000
KINDS: dict[str, dict[str, str]] = {
    "none": {},
    "gzip": {},
    "snappy": {},
    "lz4": {},
    "zstd": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "transactional": {},
}


def fill(bootstrap: str, topic: str, kind: str) -> None:
    """Write records of every shape: null and empty keys and values, headers in order, twice, null; own timestamps."""
    chance = random.Random(kind)
    codec = kind if kind in {"gzip", "snappy", "lz4", "zstd"} else "none"
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
    if kind == "transactional":
        producer = confluent_kafka.Producer({**settings, "transactional.id": topic})
        producer.init_transactions()
        for transaction in range(12):
            producer.begin_transaction()
            write(producer, topic, chance, 40, transaction)
            if transaction % 3 == 1:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        return
    producer = confluent_kafka.Producer(settings)
    for part in range(12):
        write(producer, topic, chance, 40, part)
        producer.flush()


def write(producer: confluent_kafka.Producer, topic: str, chance: random.Random, count: int, part: int) -> None:
    for number in range(count):
        headers = [
            (f"h{chance.randrange(3)}", chance.choice([None, b"", b"value", chance.randbytes(40)]))
            for _ in range(chance.randrange(4))
        ]
        producer.produce(
            topic,
            chance.choice([None, b"", b"value", chance.randbytes(chance.randrange(2_000))]),
            b"key-%d-%d" % (part, number)
            if "compacted" in topic
            else chance.choice([None, b"", b"key", chance.randbytes(20)]),
            partition=number % PARTITIONS,
            timestamp=TIME + part * 1_000 - number,
            headers=headers,
        )


def visible(client: dict[str, str], partition: TopicPartition, isolation: str) -> list[tuple[Any, ...]]:
    """Return what a Java-compatible consumer of that isolation level sees: timestamp, key, value, headers."""
    consumer = confluent_kafka.Consumer(
        {
            **client,
            "group.id": "visible",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(partition.topic, partition.partition, 0)])
    seen: list[tuple[Any, ...]] = []
    while True:
        message = consumer.poll(10)
        assert message is not None, partition
        problem = message.error()
        if problem is not None:
            assert problem.code() == confluent_kafka.KafkaError._PARTITION_EOF, problem
            break
        headers = tuple((name, value) for name, value in message.headers() or ())
        seen.append((message.timestamp()[1], message.key(), message.value(), headers))
    consumer.close()
    return seen
