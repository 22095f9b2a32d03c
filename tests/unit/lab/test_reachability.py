"""Whoever reaches no broker any more waits for nothing at its end: no outcome can come, and nobody takes a goodbye."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mirror.lab.load import StopRequest, run_load
from mirror.lab.reachability import Reachability
from mirror.lab.readers import Commits, GroupMember
from mirror.model.ledger import COMMITS, READS
from mirror.parts import LAST, PartWriter

DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN)


def test_one_broker_of_several_that_is_gone_is_no_loss_and_an_answer_ends_it() -> None:
    reach = Reachability()
    reach.failed(KafkaError(KafkaError._TRANSPORT))
    assert not reach.is_lost
    reach.failed(DOWN)
    assert reach.is_lost
    reach.answered()
    assert not reach.is_lost


def test_a_load_that_reaches_nobody_does_not_wait_for_outcomes() -> None:
    """An hour was to be waited for the one that is on the way."""
    done: list[str] = []
    producer: Any = SimpleNamespace(
        in_flight=1, is_cut_off=True, is_broken=False, sent=1,
        poll=lambda _: None, end_transaction=lambda: None, close=lambda: done.append("closed"),
    )  # fmt: skip
    run_load([producer], rate=1, records=None, flush_seconds=3600.0, stop=StopRequest(asked=True))
    assert done == ["closed"]


def test_what_was_fetched_before_the_loss_and_is_handed_out_with_it_is_no_answer() -> None:
    """The client calls back while it is asked for records, and tells of each loss once."""
    reach = Reachability()
    before = reach.losses
    reach.failed(DOWN)
    reach.answered(losses=before)
    assert reach.is_lost
    reach.answered(losses=reach.losses)
    assert not reach.is_lost


def test_a_reader_that_loses_its_brokers_while_records_are_handed_out_knows_it(tmp_path: Path) -> None:
    reach, stopping, consumer = Reachability(), threading.Event(), Consumer()

    def consume(*_: object) -> list[Any]:
        reach.failed(DOWN)
        stopping.set()
        return [
            SimpleNamespace(
                error=lambda: None, topic=lambda: "orders", partition=lambda: 0, offset=lambda: 4, headers=list,
                key=lambda: None, value=lambda: b"4", timestamp=lambda: (1, 5), leader_epoch=lambda: 0,
            )
        ]  # fmt: skip

    consumer.consume = consume  # type: ignore[attr-defined]
    a_member(tmp_path, reach, stopping, consumer).run()
    assert reach.is_lost
    assert consumer.asked == []


class Consumer:
    """Hands nothing out; a commit that waits for its answer, and a goodbye, are noted."""

    def __init__(self, *, answers: bool = True) -> None:
        self.asked: list[str] = []
        self.answers = answers

    def subscribe(self, *_: object, **__: object) -> None:
        pass

    def list_topics(self, *, timeout: float) -> None:
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT), f"no answer in {timeout} s")

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("orders", 0)]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self.asked.append("commit")
        return offsets

    def close(self) -> None:
        self.asked.append("close")


def a_member(ledger: Path, reach: Reachability, stopping: threading.Event, consumer: Consumer) -> GroupMember:
    return GroupMember(
        "c-0",
        group="billing",
        cluster="east",
        consumer=consumer,  # type: ignore[arg-type]
        topics=["orders"],
        parts=PartWriter(ledger / "reads", "c-0", READS),
        commits=Commits("billing", "c-0", "east"),
        commit_parts=PartWriter(ledger / "commits", "c-0", COMMITS),
        max_rate=0.0,
        stopping=stopping,
        reach=reach,
    )


@pytest.mark.parametrize(
    ("is_known", "answers", "asked"),
    [(False, True, ["commit", "close"]), (True, True, []), (False, False, [])],
    ids=["answers", "known to be lost", "has yet to be told"],
)
def test_a_reader_that_reaches_nobody_closes_its_ledger_and_asks_nothing(
    tmp_path: Path, is_known: bool, answers: bool, asked: list[str]
) -> None:
    """A loss is told behind the records that were fetched before it: a slow reader waited 4 s for a dead coordinator."""
    reach, stopping, consumer = Reachability(), threading.Event(), Consumer(answers=answers)
    stopping.set()
    if is_known:
        reach.failed(DOWN)
    member = a_member(tmp_path, reach, stopping, consumer)
    member._reading.positions["orders", 0] = (5, 0)
    member.run()
    assert consumer.asked == asked
    assert member.is_cut_off is (asked == [])
    for table in ("reads", "commits"):
        (part,) = (tmp_path / table).glob("*.parquet")
        assert pq.read_schema(part).metadata[LAST] == b"true"
