"""Who follows a topic and could not read it for long reads all of it again: deletions may have been cleaned away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from mirror.kafka import codes, lazy_channel, log_tail
from mirror.kafka.channel import EARLIEST
from mirror.kafka.log import LogTruncated
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition

KEPT_SECONDS = 86_400.0
STATE = TopicPartition("state", 0)


class Topic:
    """A compacted topic of one partition, and the clock of who follows it."""

    alias = "west"

    def __init__(self) -> None:
        self.now = 1000.0
        self.start, self.end = 0, 3
        self.id = "id"
        self.is_away = False
        self.truncated_at: int | None = None
        self.kept_ms: str | None = str(int(1000 * KEPT_SECONDS))

    def refresh(self, _: object) -> None:
        if self.is_away:
            raise ConnectionFailed("west: away")

    def topic_id(self, _: str) -> str:
        return self.id

    def offsets(self, _: object, at: int, *__: object) -> dict[TopicPartition, int]:
        return {STATE: self.start if at == EARLIEST else self.end}


class Reader:
    """Reads the offsets themselves."""

    def __init__(self, channel: Topic, address: TopicPartition, position: int) -> None:
        self.channel, self.address, self.position = channel, address, position
        self.read_up_to = EpochEnd(NOT_KNOWN, position)

    def fetch(self, **_: object) -> None:
        at = self.channel.truncated_at
        if at is not None and self.read_up_to == EpochEnd(3, self.position):
            raise LogTruncated("west", self.address, self.read_up_to, EpochEnd(3, at))

    def read_to(self, end: int, **_: object) -> Iterator[tuple[list[int], None]]:
        self.fetch()
        found, self.position = list(range(self.position, end)), end
        self.read_up_to = EpochEnd(3, end)
        yield found, None


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(lazy_channel, "Channel", lambda *_: topic)
    monkeypatch.setattr(log_tail, "LogReader", Reader)
    monkeypatch.setattr(log_tail, "steady_seconds", lambda: topic.now)
    monkeypatch.setattr(log_tail, "decoded", lambda _channel, _partition, found: found)

    def settings(_: object, names: Any, keys: Any) -> dict[str, dict[str, str]]:
        assert keys == ["delete.retention.ms"]
        return {name: {"delete.retention.ms": topic.kept_ms} for name in names if topic.kept_ms is not None}

    monkeypatch.setattr(log_tail, "topic_settings", settings)
    return topic


def test_from_a_leader_that_knows_nothing_of_the_epoch_it_is_read_on_by_the_offset(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poll put the epoch back that the reader had forgotten, and was refused for ever."""

    def refuse(reader: Reader, **_: object) -> None:
        if reader.read_up_to.epoch != NOT_KNOWN:
            reader.read_up_to = EpochEnd(NOT_KNOWN, reader.position)
            raise BrokerRefused("west: fetch", codes.OFFSET_OUT_OF_RANGE)

    tail = LogTail({}, "state")
    assert tail.poll() == [0, 1, 2]
    topic.end = 5
    monkeypatch.setattr(Reader, "fetch", refuse)
    with pytest.raises(BrokerRefused):
        tail.poll()
    assert tail.poll() == [3, 4]


@pytest.mark.parametrize(
    ("away_seconds", "kept_ms", "is_read_again"),
    [
        (0.5, "86400000", False),
        (KEPT_SECONDS - 1, "86400000", False),
        (KEPT_SECONDS, "86400000", True),
        (3600.0, "60000", True),
        (3600.0, None, True),
    ],
    ids=["a look later", "in time", "too late", "kept for a minute", "not told"],
)
def test_all_is_read_again_once_a_deletion_may_have_been_cleaned_away_unseen(
    topic: Topic, away_seconds: float, kept_ms: str | None, *, is_read_again: bool
) -> None:
    tail = LogTail({}, "state")
    assert (tail.poll(), tail.has_begun_anew) == ([0, 1, 2], False)
    topic.kept_ms = kept_ms
    topic.is_away = True
    topic.now += away_seconds / 2
    with pytest.raises(ConnectionFailed):
        tail.poll()
    topic.is_away = False
    topic.now += away_seconds / 2
    topic.end = 5
    assert (tail.poll(), tail.has_begun_anew) == ([0, 1, 2, 3, 4] if is_read_again else [3, 4], is_read_again)
    topic.end = 6
    assert (tail.poll(), tail.has_begun_anew) == ([5], False)
    assert tail.loss is None


@pytest.mark.parametrize(
    "lost",
    [
        {"id": "another"},
        {"start": 4, "end": 6},
        {"end": 2},
        {"end": 9, "truncated_at": 2},
        {"start": 3, "end": 9, "truncated_at": 2},
    ],
    ids=["created anew", "no beginning", "no end", "another end, and more", "nothing of what was read"],
)
def test_what_is_known_of_a_topic_that_was_lost_meanwhile_is_not_forgotten(topic: Topic, lost: dict[str, Any]) -> None:
    """It is to be written again."""
    tail = LogTail({}, "state")
    tail.poll()
    vars(topic).update(lost)
    topic.now = math.inf
    assert tail.poll() == list(range(topic.start, topic.end))
    assert tail.loss is not None
    assert not tail.has_begun_anew
