"""When a stream commits, and what: after a flush of what it covers, and never what another member has now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.copier.epoch_channel import Signal
from mirror.legacy import stream
from mirror.legacy.client_settings import consumer_settings, producer_settings
from mirror.legacy.options import Options
from mirror.legacy.stream import Stream, StreamEnd, StreamWork
from mirror.model.partition import TopicPartition

Step = Callable[["World"], Any]
ORDERS = [confluent_kafka.TopicPartition("orders", number) for number in range(2)]


class World:
    """Both clusters and the epoch channel, as far as a stream sees them: what happens is a list of steps, one a poll."""

    def __init__(self, steps: list[Step], **clients: Mapping[str, str]) -> None:
        self.steps = list(steps)
        self.done: list[str] = []
        self.said: list[str] = []
        self.answers: list[KafkaError | None] = []
        self.refusals: list[KafkaError] = []
        self.topics = {"orders": None, "__consumer_offsets": None}
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.failed: Callable[..., None] | None = None
        self.clients = clients

    def run(self, **options: Any) -> StreamEnd:
        """Run a stream until nothing happens any more."""
        consumer = consumer_settings(
            {"bootstrap.servers": "a:1", "group.id": "g"} | dict(self.clients.get("consumer", {}))
        )
        producer = producer_settings(
            {"bootstrap.servers": "b:1"} | dict(self.clients.get("producer", {})), aborts=options.get("aborts", True)
        )
        work = StreamWork(0, Options(Path("c"), Path("p"), "orders|__.*", **options), consumer, producer, ("", 0))
        return Stream(work, self).run()  # type: ignore[arg-type]

    # The epoch channel.
    has_sent_all = True

    def signal(self) -> Signal:
        return Signal.NOTHING if self.steps else Signal.END

    def log(self, _: int, text: str) -> None:
        self.said.append(text)

    # The consumer, and what is the same of the producer.
    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        there = SimpleNamespace(error=None, partitions={0: None})
        return SimpleNamespace(topics={topic: there} if topic else self.topics)

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        self.callbacks = callbacks
        self.done.append(f"subscribe {','.join(topics)}")

    def poll(self, _: float = 0) -> Any:
        return self.steps.pop(0)(self) if self.steps else None

    def committed(self, partitions: list[confluent_kafka.TopicPartition], timeout: float = 0) -> Any:
        return [confluent_kafka.TopicPartition(each.topic, each.partition, 5) for each in partitions]

    def assign(self, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.done.append("assign " + ",".join(f"{each.partition}@{each.offset}" for each in partitions))

    def commit(self, offsets: list[confluent_kafka.TopicPartition], asynchronous: bool) -> Any:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise KafkaException(answer)
        self.done.append("commit " + ",".join(f"{each.partition}@{each.offset}" for each in offsets))
        return offsets

    def get_watermark_offsets(self, partition: confluent_kafka.TopicPartition, timeout: float = 0) -> tuple[int, int]:
        return 20, 30

    def close(self) -> None:
        self.done.append("close")


class Target:
    """The producer; the first records fail for which the world has a refusal."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: list[Callable[..., None]] = []

    def __len__(self) -> int:
        return 0

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, **more: Any) -> None:
        self.world.done.append(f"send {value.decode()}")
        self.waiting.append(more["on_delivery"])

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        self.world.done.append("flush")
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if self.world.refusals:
                each(self.world.refusals.pop(0), None)
        return 0

    def purge(self) -> None:
        self.world.done.append("purge")

    def list_topics(self, topic: str, timeout: float) -> Any:
        return self.world.list_topics(topic)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    """Make a world of steps."""

    def make(*steps: Step, **clients: Mapping[str, str]) -> World:
        made = World(list(steps), **clients)
        monkeypatch.setattr(stream, "Consumer", lambda _: made)
        monkeypatch.setattr(stream, "Producer", lambda _: Target(made))
        return made

    return make


def gets(world: World) -> None:
    world.callbacks["on_assign"](world, ORDERS)


def gives_away(world: World) -> None:
    world.callbacks["on_revoke"](world, ORDERS[:1])


def loses(world: World) -> None:
    world.callbacks["on_lost"](world, ORDERS)


def record(number: int, value: str) -> Step:
    """A record of a partition; its offset is 5 in either."""
    return lambda _: SimpleNamespace(
        error=lambda: None,
        topic=lambda: "orders",
        partition=lambda: number,
        offset=lambda: 5,
        timestamp=lambda: (1, 7),
        key=lambda: b"k",
        value=value.encode,
        headers=lambda: None,
        leader_epoch=lambda: 3,
    )


def meets(code: int) -> Step:
    """An error of a partition, in place of a record."""
    return lambda _: SimpleNamespace(error=lambda: KafkaError(code), topic=lambda: "orders", partition=lambda: 1)


def test_what_was_read_is_flushed_and_then_committed_at_the_end(world: Callable[..., World]) -> None:
    """MM1-29, MM1-30."""
    seen = world(gets, record(0, "a"), record(1, "b"))
    end = seen.run()
    assert seen.done == ["subscribe orders", "assign 0@5,1@5", "send a", "send b", "flush", "commit 0@6,1@6", "close"]
    assert (end.read, end.sent, end.failure) == (2, 2, None)


def test_internal_topics_are_read_only_if_that_is_asked_for(world: Callable[..., World]) -> None:
    """MM1-03."""
    seen = world(gets, consumer={"exclude.internal.topics": "false"})
    seen.run()
    assert seen.done[0] == "subscribe __consumer_offsets,orders"


def test_a_commit_comes_after_each_interval(world: Callable[..., World]) -> None:
    """MM1-24: between two looks at the clock everything that is there is taken."""
    seen = world(gets, record(0, "a"), lambda _: None, record(1, "b"))
    seen.run(commit_interval_seconds=0)
    commits = [number for number, each in enumerate(seen.done) if each.startswith("commit")]
    assert [seen.done[number - 2 : number + 1] for number in commits] == [
        ["send a", "flush", "commit 0@6"],
        ["send b", "flush", "commit 1@6"],
    ]


def test_partitions_that_are_given_away_are_committed_before_and_never_after(world: Callable[..., World]) -> None:
    """MM1-26."""
    seen = world(gets, record(0, "a"), gives_away, record(1, "b"))
    seen.run()
    assert seen.done[2:] == ["send a", "flush", "commit 0@6", "send b", "flush", "commit 1@6", "close"]


def test_of_partitions_that_are_lost_nothing_is_committed(world: Callable[..., World]) -> None:
    """MM1-26: others read them by now."""
    seen = world(gets, record(0, "a"), loses)
    seen.run()
    assert seen.done[2:] == ["send a", "flush", "close"]


def test_a_commit_that_times_out_is_tried_again_without_topics_that_are_gone(world: Callable[..., World]) -> None:
    """MM1-25."""
    seen = world(gets, record(0, "a"))
    seen.answers = [KafkaError(KafkaError.REQUEST_TIMED_OUT)] * 2
    assert seen.run().failure is None
    assert seen.done[-2:] == ["commit 0@6", "close"]
    gone = world(gets, record(0, "a"), lambda world: world.topics.clear())
    gone.answers = [KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)] * 9
    assert gone.run().failure is None
    assert "commit 0@6" not in gone.done
    assert any("the source has them no more: orders-0" in each for each in gone.said)


def test_during_a_rebalance_positions_are_kept_for_the_next_commit(world: Callable[..., World]) -> None:
    """MM1-25."""
    seen = world(gets, record(0, "a"), lambda _: None, lambda _: None)
    seen.answers = [KafkaError(KafkaError.REBALANCE_IN_PROGRESS)]
    assert seen.run(commit_interval_seconds=0).failure is None
    assert "commit 0@6" in seen.done


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_a_commit_that_is_refused_for_good_ends_the_stream(code: int, world: Callable[..., World]) -> None:
    seen = world(gets, record(0, "a"))
    seen.answers = [KafkaError(code)]
    assert "positions are not committed" in (seen.run().failure or "")


def test_after_a_send_that_fails_nothing_is_committed(world: Callable[..., World]) -> None:
    """MM1-27."""
    seen = world(gets, record(0, "a"), record(1, "b"))
    seen.refusals = [KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    end = seen.run()
    assert seen.done[2:] == ["send a", "send b", "flush", "purge", "close"]
    assert (end.failure or "").startswith("orders-0 at offset 5 is not sent")
    assert end.dropped == 1


def test_where_each_send_is_waited_for_the_first_that_fails_ends_the_stream(world: Callable[..., World]) -> None:
    """MM1-28: whatever is said of aborts."""
    seen = world(gets, record(0, "a"), record(1, "b"), producer={"producer.type": "sync"})
    seen.refusals = [KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)]
    assert seen.run(aborts=False).dropped == 1
    assert seen.done[2:] == ["send a", "flush", "purge", "close"]


def test_a_record_that_is_skipped_is_told_before_it_is_committed(world: Callable[..., World]) -> None:
    """MM1-27, MM1-32; in a batch that is too large each is sent again by itself, and only one fails then too."""
    too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    seen = world(gets, record(0, "a"), record(1, "b"))
    seen.refusals = [too_large, too_large, too_large]
    end = seen.run(aborts=False)
    assert seen.done[2:] == [
        "send a",
        "send b",
        "flush",
        "send a",
        "flush",
        "send b",
        "flush",
        "commit 0@6,1@6",
        "close",
    ]
    assert (end.dropped, end.sent, end.failure) == (1, 1, None)
    assert str(end.skipped[TopicPartition("orders", 0)]) == "5"
    assert any("orders-0: 1 record skipped" in each and "numDroppedMessages: 1" in each for each in seen.said)


def test_a_topic_that_goes_is_not_skipped(world: Callable[..., World]) -> None:
    seen = world(gets, record(0, "a"))
    seen.refusals = [KafkaError(KafkaError._UNKNOWN_TOPIC)]
    assert seen.run(aborts=False).failure is not None
    assert not any(each.startswith("commit") for each in seen.done)


@pytest.mark.parametrize(
    ("reset", "start", "not_copied"), [("earliest", 20, 15), ("latest", 30, 25), ("none", None, None)]
)
def test_a_position_that_is_not_in_the_log_is_never_reset_silently(
    reset: str, start: int | None, not_copied: int | None, world: Callable[..., World]
) -> None:
    """MM1-20: what is not copied is counted, and where it goes on is committed at once."""
    seen = world(gets, meets(KafkaError._AUTO_OFFSET_RESET), consumer={"auto.offset.reset": reset})
    end = seen.run()
    if start is None:
        assert "auto.offset.reset is none" in (end.failure or "")
        return
    assert f"assign 0@5,1@{start}" in seen.done
    assert f"commit 1@{start}" in seen.done
    assert end.passed_over == not_copied


def test_an_error_of_the_source_that_does_not_pass_ends_the_stream(world: Callable[..., World]) -> None:
    seen = world(gets, record(0, "a"), meets(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert (seen.run().failure or "").startswith("the source: ")
    assert not any(each.startswith("commit") for each in seen.done)
