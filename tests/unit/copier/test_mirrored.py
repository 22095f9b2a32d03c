"""Which batches are left out: decided by producer ids, and never before the writers have been looked up."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mirror.copier.foreign_batches import ForeignBatches, LeftOut
from mirror.copier.lane import Lane
from mirror.copier.mirrored import Mirrored, Undecided
from mirror.copier.tail_match import Batch
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch, writer_log
from mirror.kafka.batch import Producer
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.wire import FetchedPartition
from mirror.model.flow import Flow
from mirror.model.leadership import Claim
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import claim_record, source_record, writer_record
from mirror.model.writers import KnownWriters
from tests.unit.copier.builders import as_logged, dense, record

ORDERS = TopicPartition("orders", 0)
BACK = "mm2-state.west.internal"
LOCAL, MIRROR, LATER = Producer(5, 0), Producer(6, 0), Producer(7, 0)
OURS = Producer(9, 0)


class StateTopic:
    """A source cluster with one state topic; it counts how often it is read."""

    def __init__(self, *writers: Producer) -> None:
        self.records: list[tuple[bytes, bytes]] = []
        self.reads = 0
        self.is_away = self.exists = False
        for each in writers:
            self.register(each)

    def register(self, producer: Producer) -> None:
        self.exists = True
        self.records.append(writer_record(producer.producer_id, 0))

    # As links.ClusterLinks and as a Channel.

    def ask(self, question: Any) -> Any:
        return question(self)

    def has_topic(self, _topic: str) -> bool:
        self.reads += not self.exists
        if self.is_away:
            raise ConnectionFailed("east: away")
        return self.exists

    def topic_id(self, _topic: str) -> str:
        return "id"

    def offsets(self, partitions: list[TopicPartition], at: int, *_: Any) -> dict[TopicPartition, int]:
        if self.is_away:
            raise ConnectionFailed("east: away")
        return dict.fromkeys(partitions, 0 if at == writer_log.EARLIEST else len(self.records))


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read state topics from memory."""

    class Reader:
        def __init__(self, topic: StateTopic, _partition: TopicPartition, position: int) -> None:
            self._topic, self.position = topic, position

        def read_to(self, end: int) -> list[Batch]:
            self._topic.reads += 1
            start, self.position = self.position, end
            return [
                dense([batch.Record(start + place, 0, key, value, (), -1)])
                for place, (key, value) in enumerate(self._topic.records[start:end])
            ]

    monkeypatch.setattr(writer_log, "LogReader", Reader)


def known(topic: StateTopic, writers: KnownWriters | None = None) -> Mirrored:
    return Mirrored(topic, {BACK: writers} if writers else {})  # type: ignore[arg-type]


def test_an_unknown_id_is_looked_up_once_and_before_it_is_decided() -> None:
    topic = StateTopic(MIRROR)
    mirrored = known(topic)
    assert mirrored.has_written(6, (BACK,), received_at=0.0)
    assert not mirrored.has_written(5, (BACK,), received_at=0.0)
    assert topic.reads == 1, "what was read after both had come says all about both"
    assert not mirrored.has_written(5, (BACK,), received_at=float("inf"))
    assert topic.reads == 1


def test_an_id_that_appears_later_is_looked_up_again() -> None:
    """The race: a process that has just been started writes with a new id, and that is read here at once."""
    topic = StateTopic(MIRROR)
    mirrored = known(topic)
    assert not mirrored.has_written(5, (BACK,), received_at=0.0)
    topic.register(LATER)
    assert mirrored.has_written(7, (BACK,), received_at=float("inf"))


def test_what_arrived_after_the_last_look_is_looked_up_anew() -> None:
    """What was read before it came says nothing of it."""
    topic = StateTopic(MIRROR)
    mirrored = known(topic)
    assert not mirrored.has_written(5, (BACK,), received_at=0.0)
    topic.register(LATER)
    assert mirrored.has_written(7, (BACK,), received_at=time.monotonic())


def test_the_flow_back_may_begin_at_any_time() -> None:
    topic = StateTopic()
    mirrored = known(topic)
    assert not mirrored.has_written(5, (BACK,), received_at=0.0)
    topic.register(MIRROR)
    assert mirrored.has_written(6, (BACK,), received_at=float("inf"))


def test_who_is_no_mirror_of_one_flow_may_be_one_of_another() -> None:
    """A topic may be mirrored back by several; each has a state topic of its own."""
    mirrored = Mirrored(StateTopic(), {"another": KnownWriters(frozenset({LOCAL.producer_id}))})  # type: ignore[arg-type]
    assert not mirrored.has_written(LOCAL.producer_id, [BACK], 0.0)
    assert mirrored.has_written(LOCAL.producer_id, [BACK, "another"], 0.0)


def test_what_the_driver_knows_is_not_asked_for() -> None:
    topic = StateTopic(MIRROR)
    mirrored = known(topic, KnownWriters(frozenset({6}), 1, "", "id"))
    assert mirrored.has_written(6, (BACK,), received_at=0.0)
    assert topic.reads == 0


def test_nothing_is_decided_while_the_state_topic_cannot_be_read() -> None:
    """Nor is it asked for again at once."""
    topic = StateTopic(MIRROR)
    topic.is_away = True
    mirrored = known(topic)
    for _ in range(2):
        with pytest.raises(Undecided, match="producer id 6 were mirrored there cannot be known: east: away"):
            mirrored.has_written(6, (BACK,), received_at=0.0)
    assert not mirrored.has_written(-1, (BACK,), received_at=0.0), "a producer without an id is no mirror"


def test_other_records_of_a_state_topic_are_passed_over() -> None:
    topic = StateTopic(MIRROR)
    topic.records += [
        claim_record(Claim("engine")),
        (b'["runs","orders",0,0]', b"of another version"),
        source_record("x"),
    ]
    mirrored = known(topic)
    assert mirrored.has_written(6, (BACK,), received_at=0.0)


def take(lane: Lane, *batches: Batch) -> None:
    frame = memoryview(bytearray(b"".join(bytes(content) for content, _ in batches)))
    part = FetchedPartition(ORDERS, 0, 100, 100, 0, (), 0, len(frame))
    lane.take(frame, part, read_committed=False, received_at=0.0)


def send_all(lane: Lane, base_offset: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while lane.stream.can_send(float("inf")):
        content = lane.stream.take().content
        place = base_offset + len(values)
        values += [each.value for each in batch.records(as_logged(content, place)[0])]
        lane.stream.answered(0, place, "")
    return values


def new_lane(mirrored: Mirrored, upstream: int = 0) -> Lane:
    work = PartitionWork(Flow("east", "west"), ORDERS, ORDERS, "id", None, left_out=(BACK,))
    handover = Handover(Position(upstream, 0, upstream, True), (), clean=True)
    return Lane(work, handover, OURS, 0, None, mirrored=mirrored)


def test_of_a_mirrored_batch_only_what_lies_behind_the_position_is_counted() -> None:
    lane = new_lane(known(StateTopic(MIRROR)), 3)
    take(lane, dense([record(2), record(3), record(4)], producer=MIRROR, sequence=0))
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.position.left_out) == (5, 2)


def test_a_lane_passes_over_what_was_mirrored_and_counts_it_once_the_position_is_behind_it() -> None:
    lane = new_lane(known(StateTopic(MIRROR)))
    take(
        lane,
        dense([record(0), record(1)], producer=LOCAL, sequence=0),
        dense([record(2), record(3), record(4)], producer=MIRROR, sequence=0),
        dense([record(5)], producer=LOCAL, sequence=2),
        dense([record(6)], producer=MIRROR, sequence=3),
    )
    before = lane.result().handover
    assert before is not None
    assert (before.position.upstream, before.position.left_out) == (0, 0)
    assert send_all(lane, 10) == [record(0).value, record(1).value, record(5).value]
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.position.downstream, handover.position.left_out) == (7, 13, 4)
    assert handover.runs == (Run(0, 10, 2), Run(5, 12, 1))


def test_a_lane_that_cannot_decide_goes_on_from_there() -> None:
    topic = StateTopic(MIRROR)
    mirrored = known(topic)
    lane = new_lane(mirrored)
    batches = [dense([record(0)]), dense([record(1)], producer=MIRROR, sequence=0), dense([record(2)])]
    topic.is_away = True
    with pytest.raises(Undecided):
        take(lane, *batches)
    assert send_all(lane, 10) == [record(0).value]
    assert lane.fetch_position == 1
    topic.is_away = False
    mirrored._failures.clear()
    take(lane, *batches)
    assert send_all(lane, 11) == [record(2).value]


def test_what_is_left_out_is_counted_as_far_as_the_position_goes() -> None:
    counted = LeftOut(5)
    counted.add(10, 3)
    counted.add(20, 4)
    counted.pass_by(15)
    assert counted.count == 8
    counted.pass_by(20)
    assert counted.count == 12


def test_what_lies_between_our_batches_was_written_by_others() -> None:
    others = ForeignBatches(100, has_markers=False)
    others.appended(100, 110)
    others.appended(113, 120)
    others.appended(120, 121)
    assert others.found == ((110, 113),)


def test_a_commit_takes_an_offset_and_is_nobody_else() -> None:
    others = ForeignBatches(100, has_markers=True, is_marker_next=True)
    others.appended(101, 110)
    others.appended(110, 111)
    others.committed()
    others.appended(112, 113)
    assert others.found == ()
    others.appended(114, 115)
    others.committed()
    others.appended(118, 119)
    assert others.found == ((113, 114), (115, 118))


def test_an_offset_that_no_commit_of_ours_has_taken_may_hold_somebody_elses_record() -> None:
    """A transaction in which nothing was appended to a partition leaves no marker there."""
    others = ForeignBatches(100, has_markers=True)
    others.appended(101, 102)
    assert others.found == ((100, 101),), "where it begins the marker may lie behind or before"
    others.committed()
    assert others.is_marker_next
    others.committed()
    others.appended(103, 104)
    others.committed()
    others.appended(105, 106)
    others.appended(107, 108)
    assert others.found == ((100, 101), (106, 107))
    others.appended(108, 108)
    others.committed()
    others.committed()
    others.appended(109, 110)
    others.appended(110, 110)
    assert others.found == ((100, 101), (106, 107))
    assert not others.is_marker_next


def test_of_many_stretches_the_last_ones_are_not_told_apart() -> None:
    others = ForeignBatches(0, has_markers=False)
    for place in range(6):
        others.appended(place * 10 + 5, place * 10 + 6)
    assert others.found == ((0, 5), (6, 15), (16, 25), (26, 55))
