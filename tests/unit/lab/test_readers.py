"""A commit is written down when the coordinator has acknowledged it, and only then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from mirror.lab.readers import Commits
from mirror.model.ledger import COMMITS


def partition(offset: int, error: KafkaError | None = None) -> Any:
    """What the client answers of one partition: its own class takes no error from outside."""
    return SimpleNamespace(topic="orders", partition=0, offset=offset, error=error)


def test_what_was_refused_or_has_no_position_is_no_commit() -> None:
    commits = Commits("billing", "c-0", "east")
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    commits.note(refused, [TopicPartition("orders", 0, 5)])
    commits.note(None, [partition(6, refused), partition(-1001)])
    commits.note(None, None)
    assert commits.take() == []

    commits.note(None, [partition(7), partition(8)])
    rows = commits.take()
    assert [row[:6] for row in rows] == [("billing", "c-0", "east", "orders", 0, at) for at in (7, 8)]
    assert all(len(row) == len(COMMITS) for row in rows)
    assert commits.take() == []
