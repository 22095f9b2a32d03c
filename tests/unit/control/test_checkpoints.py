"""Which positions of the source's groups become checkpoints, and which checkpoints are written (CKP)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from mirror.control.checkpoints import CheckpointsTick, last_checkpoints, plan_checkpoints, remote_partition
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster, Found, GroupListing, GroupPosition
from mirror.kafka.log import NewRecord
from mirror.model.checkpoint import Checkpoint
from mirror.model.partition import TopicPartition
from mirror.model.translation import Bounded, Exact, NotMirrored, TooOld, Translation
from tests.unit.control.builders import Table, at, flow_settings

ORDERS = TopicPartition("orders", 3)
COPY = TopicPartition("east.orders", 3)


def checkpoint(upstream: int, downstream: int, metadata: str = "") -> Checkpoint:
    return Checkpoint("billing", COPY, upstream, downstream, metadata)


def plan_one(position: GroupPosition, translation: Translation, last: Checkpoint | None = None):
    known = {("billing", COPY): last} if last is not None else {}
    translator = Table({("orders", 3, position.position): translation})
    (decision,) = plan_checkpoints({"billing": {ORDERS: position}}, known, translator, flow_settings())
    return decision


def test_a_position_that_translates_becomes_a_checkpoint_with_its_text() -> None:
    """CKP-05, CKP-08."""
    decision = plan_one(at(100, "note"), Exact(42))
    assert decision.checkpoint == checkpoint(100, 42, "note")
    assert decision.is_news


def test_a_bounded_translation_is_a_checkpoint_too() -> None:
    decision = plan_one(at(100), Bounded(40, behind_records=2))
    assert decision.checkpoint == checkpoint(100, 40)
    assert decision.is_news


def test_a_position_that_cannot_be_translated_is_no_checkpoint_and_says_why() -> None:
    """CKP-10."""
    for refusal in (NotMirrored(), TooOld(500)):
        decision = plan_one(at(100), refusal, last=checkpoint(50, 20))
        assert decision.checkpoint is None
        assert not decision.is_news
        assert decision.reason


def test_checkpoints_are_written_forwards_or_when_the_group_itself_went_back() -> None:
    """CKP-05, CKP-06: downstream went forward, or upstream went back; nothing else."""
    last = checkpoint(100, 42)
    assert plan_one(at(101), Exact(43), last).is_news
    assert plan_one(at(100), Exact(43), last).is_news
    assert plan_one(at(99), Exact(41), last).is_news
    assert not plan_one(at(100), Exact(42), last).is_news
    assert not plan_one(at(101), Exact(42), last).is_news
    assert not plan_one(at(101), Exact(41), last).is_news


def test_only_topics_that_pass_the_topic_filter_count() -> None:
    """SEL-10: the filter alone; heartbeats get no exception."""
    settings = flow_settings("topics = orders, app.internal")
    partitions = [TopicPartition(name, 0) for name in ("orders", "app.internal", "refunds", "heartbeats")]
    positions = {"billing": {partition: at(1) for partition in partitions}}
    translator = Table({(partition.topic, 0, 1): Exact(1) for partition in partitions})
    decisions = plan_checkpoints(positions, {}, translator, settings)
    assert [decision.source.topic for decision in decisions] == ["app.internal", "orders"]


def test_a_group_goes_on_with_the_copy_or_with_the_original_of_a_copy_from_the_target() -> None:
    """CKP-07."""
    settings = flow_settings()
    assert remote_partition(ORDERS, settings) == COPY
    assert remote_partition(TopicPartition("west.orders", 2), settings) == TopicPartition("orders", 2)
    assert remote_partition(TopicPartition("south.orders", 2), settings) == TopicPartition("east.south.orders", 2)


def test_the_last_record_of_a_group_and_partition_counts_and_what_does_not_parse_is_skipped() -> None:
    """CKP-03."""
    written = [checkpoint(1, 1), checkpoint(5, 4), checkpoint(3, 2)]
    records = [record(each.key_bytes(), each.value_bytes()) for each in written]
    records.insert(2, record(b"not", b"ours"))
    records.append(record(None, None))
    assert last_checkpoints(records) == {("billing", COPY): checkpoint(3, 2)}
    later = record(checkpoint(9, 9).key_bytes(), checkpoint(9, 9).value_bytes())
    assert last_checkpoints([later], last_checkpoints(records)) == {("billing", COPY): checkpoint(9, 9)}


class Source:
    """A cluster with three groups, of which one, and one partition of another, cannot be read."""

    def groups(self) -> list[GroupListing]:
        return [GroupListing(name, "consumer", "Empty", "classic") for name in ("audit", "billing", "stock")]

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        assert set(names) == {"audit", "billing", "stock"}
        return Found(
            {
                "billing": Found({ORDERS: at(5)}),
                "stock": Found({ORDERS: at(7)}, {TopicPartition("orders", 4): "UNKNOWN_TOPIC_OR_PARTITION"}),
            },
            {"audit": "GROUP_AUTHORIZATION_FAILED"},
        )


class Checkpoints:
    """The checkpoints topic: nothing in it yet, and what is appended."""

    def __init__(self) -> None:
        self.written: list[Checkpoint | None] = []

    def poll(self) -> list[Record]:
        return []

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        assert (topic, partition) == ("east.checkpoints.internal", 0)
        self.written += [Checkpoint.parse(key, value) for key, value, *_ in records]
        return 0


def test_a_group_that_cannot_be_read_is_told_and_the_others_get_their_checkpoints() -> None:
    """CKP-04."""
    log = Checkpoints()
    translator = Table({(*ORDERS, 5): Exact(2), (*ORDERS, 7): Exact(4)})
    tick = CheckpointsTick(flow_settings(), cast(Cluster, Source()), translator, log, log, clock=lambda: 9)
    report = tick.tick()
    assert log.written == [Checkpoint("billing", COPY, 5, 2, ""), Checkpoint("stock", COPY, 7, 4, "")]
    assert (report.done, report.problems) == (
        2,
        (
            "group audit on east: GROUP_AUTHORIZATION_FAILED",
            "group stock on east, orders-4: UNKNOWN_TOPIC_OR_PARTITION",
        ),
    )


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 0, key, value, (), -1)
