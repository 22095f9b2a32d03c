"""Bookmarks: positions that an application keeps in a file of its own, as Flink does, and which no cluster knows of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Assigned

from mirror.atomic_file import write_atomically
from mirror.model.partition import TopicPartition

_POLL_SECONDS = 1.0

Bookmarks = Mapping[TopicPartition, int]
"""Of each partition the offset of the next record to be read."""


def load(path: Path) -> dict[TopicPartition, int]:
    """Read a file of bookmarks; none if there is no file yet."""
    if not path.exists():
        return {}
    return {TopicPartition(topic, int(partition)): at for topic, partition, at in json.loads(path.read_text("utf-8"))}


def save(path: Path, bookmarks: Bookmarks) -> None:
    """Write a file of bookmarks, which replaces the one before at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps([[*each, at] for each, at in sorted(bookmarks.items())]) + "\n")


def carried_over(bookmarks: Bookmarks, copy_of: Callable[[str], str], copied: Bookmarks) -> dict[TopicPartition, int]:
    """Return the bookmarks for the copies, which have the source's offsets.

    One that is ahead of what was copied goes back to there: what follows on the copy are other records, written to it
    since, and they have not been read.

    Parameters
    ----------
    copied
        of each partition of the source up to where it was copied when the flow was cut.
    """
    return {
        TopicPartition(copy_of(each.topic), each.partition): min(at, copied.get(each, 0))
        for each, at in bookmarks.items()
    }


def read_on(servers: str, partition: TopicPartition, bookmark: int | None, most: int) -> list[tuple[int, bytes]]:
    """Read on where a bookmark is (None: at the beginning); return offset and value of at most so many records.

    Raises
    ------
    confluent_kafka.KafkaException
        if the partition cannot be read.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "by bookmarks",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # A bookmark that is not there must not be read as another one.
            "auto.offset.reset": "error",
        }
    )
    found: list[tuple[int, bytes]] = []
    try:
        consumer.assign([Assigned(*partition, OFFSET_BEGINNING if bookmark is None else bookmark)])
        while len(found) < most:
            message = consumer.poll(_POLL_SECONDS)
            if message is None:
                continue
            problem = message.error()
            if problem is not None and problem.code() == KafkaError._PARTITION_EOF:
                break
            if problem is not None and not problem.retriable():
                raise KafkaException(problem)
            if problem is None:
                found.append((message.offset() or 0, message.value() or b""))
    finally:
        consumer.close()
    return found
