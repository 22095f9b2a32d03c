"""Bookmarks: what an application has finished, in its own file, and where it goes on at the copies of that."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import TopicPartition as Taken

from mirror.lab import bookmarks
from mirror.lab.reachability import Reachability
from mirror.lab.readers import Commits, GroupMember
from mirror.model.ledger import COMMITS, READS
from mirror.model.partition import TopicPartition
from mirror.parts import PartWriter

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def test_what_was_saved_is_read_and_without_a_file_there_are_none(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "bookmarks.json"
    assert bookmarks.load(file) == {}
    bookmarks.save(file, {ORDERS[1]: 7, ORDERS[0]: 5})
    bookmarks.save(file, {ORDERS[1]: 8, ORDERS[0]: 5})
    assert bookmarks.load(file) == {ORDERS[0]: 5, ORDERS[1]: 8}


def test_on_the_copy_a_bookmark_is_the_same_and_no_further_than_what_was_copied() -> None:
    """Behind the last mirrored record other records are written to the copy, which nobody has read."""
    read = {ORDERS[0]: 5, ORDERS[1]: 9, ORDERS[2]: 3}
    carried = bookmarks.carried_over(read, lambda topic: f"east.{topic}", {ORDERS[0]: 6, ORDERS[1]: 7})
    copies = [TopicPartition("east.orders", number) for number in range(3)]
    assert carried == {copies[0]: 5, copies[1]: 7, copies[2]: 0}


class Consumer:
    """Two partitions of one topic, of which it hands one record out."""

    def __init__(self, stopping: threading.Event) -> None:
        self.taken: list[Taken] = []
        self._stopping = stopping

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={"orders": SimpleNamespace(partitions={0: None, 1: None})})

    def assign(self, partitions: list[Taken]) -> None:
        self.taken = partitions

    def assignment(self) -> list[Taken]:
        return self.taken

    def consume(self, *_: Any) -> list[Any]:
        self._stopping.set()
        return [
            SimpleNamespace(
                error=lambda: None, topic=lambda: "orders", partition=lambda: 0, offset=lambda: 41, headers=list,
                key=lambda: None, value=lambda: b"41", timestamp=lambda: (1, 5), leader_epoch=lambda: 0,
            )
        ]  # fmt: skip

    def commit(self, *, offsets: list[Taken], asynchronous: bool) -> list[Taken]:
        return offsets

    def close(self) -> None:
        pass


def test_a_reader_with_bookmarks_asks_no_group_where_it_stands_and_saves_how_far_it_is(tmp_path: Path) -> None:
    file, stopping = tmp_path / "bookmarks.json", threading.Event()
    bookmarks.save(file, {ORDERS[0]: 41})
    consumer = Consumer(stopping)
    member = GroupMember(
        "c-0",
        group="stream",
        cluster="east",
        consumer=consumer,  # type: ignore[arg-type]
        topics=["orders"],
        parts=PartWriter(tmp_path / "reads", "c-0", READS),
        commits=Commits("stream", "c-0", "east"),
        commit_parts=PartWriter(tmp_path / "commits", "c-0", COMMITS),
        max_rate=0.0,
        stopping=stopping,
        reach=Reachability(),
        bookmarks=file,
    )
    member.run()
    assert [(each.partition, each.offset) for each in consumer.taken] == [(0, 41), (1, OFFSET_BEGINNING)]
    assert bookmarks.load(file) == {ORDERS[0]: 42}
