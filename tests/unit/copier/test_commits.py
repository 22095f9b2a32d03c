"""What a flow writes down beside the data is sent until it is there, and nothing waits for it that need not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest

from mirror.copier import oversized
from mirror.copier.commits import FlowCommits
from mirror.copier.lane import Lane
from mirror.copier.streams import Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch, Producer, Record
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.model import connect_offsets
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import epoch_of, term_of
from tests.flows import EAST_WEST, flow_work
from tests.unit.copier.builders import as_logged, dense, record
from tests.unit.copier.lanes import OURS, SOURCE, TARGET, send_all, take

TIMED_OUT, TOO_LARGE, TOO_FEW_REPLICAS = 7, 10, 19
_BEGIN = Handover(Position(0, 0, 0, True), (), clean=True)


class Copied:
    """One partition that is copied, and what becomes of what is written down about it."""

    def __init__(self, handover: Handover = _BEGIN) -> None:
        work = PartitionWork(EAST_WEST, SOURCE, TARGET, "id", handover)
        self.lane = Lane(work, handover, OURS, 0, PartitionSyncs(SOURCE, 100))
        self.commits = FlowCommits(flow_work(syncs_topic="syncs", offsets_partitions=1))
        self.streams: dict[str, Stream] = {}
        self._next = handover.position.upstream

    def copy(self, count: int) -> None:
        """Copy so many more records."""
        take(self.lane, dense([record(self._next + number) for number in range(count)]))
        send_all(self.lane, self._next)
        self._next += count

    def emit(self) -> None:
        """Write the offset syncs that are due, as a task does every 100 ms."""
        self.commits.emit_syncs([self.lane])

    def commit(self) -> None:
        """Write the position, as a task does every second."""
        self.commits.commit([self.lane])

    def sent(self, topic: str) -> list[Record]:
        """Return what goes out to a side topic now, nothing if nothing may."""
        self.streams |= {stream.partition.topic: stream for _, stream in self.commits.new_streams()}
        if topic not in self.streams or not self.streams[topic].can_send(math.inf):
            return []
        return batch.records(as_logged(self.streams[topic].take().content, 0)[0])

    def answer(self, topic: str, code: int = 0) -> None:
        """The broker answers what was sent last."""
        self.streams[topic].answered(code, 0, "")

    def syncs_sent(self) -> list[OffsetSync | None]:
        return [OffsetSync.parse(each.key, each.value) for each in self.sent("syncs")]

    def upstream_sent(self) -> int | None:
        """Return the position that goes out to the state topic now."""
        state = FlowState()
        for each in self.sent(self.commits.work.state_topic):
            state.apply(each.key, each.value)
        return state.positions[SOURCE].upstream if SOURCE in state.positions else None

    def handover(self) -> Handover:
        found = self.lane.result().handover
        assert found is not None
        return found


def test_an_offset_sync_is_sent_until_it_is_there_and_then_the_newest_pair_is() -> None:
    """ERR-11: of the pairs that become due meanwhile only the newest waits."""
    copied = Copied()
    copied.copy(5)
    copied.emit()
    assert copied.syncs_sent() == [OffsetSync(SOURCE, 0, 0)]
    copied.answer("syncs", TOO_FEW_REPLICAS)
    for _ in range(2):
        copied.copy(300)
        copied.emit()
    assert "NotEnoughReplicas" in str(copied.commits.trouble)
    assert not copied.lane.is_idle
    assert copied.syncs_sent() == [OffsetSync(SOURCE, 0, 0)]
    copied.answer("syncs")
    copied.commit()
    copied.emit()
    assert copied.syncs_sent() == [OffsetSync(SOURCE, 604, 604)]
    assert copied.handover().owes_sync
    copied.answer("syncs")
    assert not copied.handover().owes_sync
    assert copied.commits.trouble is None


class Open:
    """A transaction that is open."""

    transactional_id = "east-0"
    writer: Any = SimpleNamespace(
        producer=Producer(7, 0, is_transactional=True), sequence=lambda _: 0, keep_sequence=lambda *_: None
    )

    def lets(self, partition: TopicPartition, *, again: bool) -> bool:
        return True


def test_a_position_that_is_committed_with_its_records_counts_whoever_leads_by_then() -> None:
    """It says so of itself: whoever leads next finds the records in the copy, too."""
    copied = Copied()
    copied.commits = FlowCommits(flow_work(offsets_partitions=1, term=4, epoch=7), Open())
    copied.copy(5)
    copied.commits.record_inside([copied.lane])
    said = copied.sent(copied.commits.work.state_topic)
    assert said
    assert {term_of(each.headers) for each in said} == {None}


def test_no_position_waits_for_an_offset_sync_that_cannot_be_sent_and_an_epoch_ends_without_it() -> None:
    """ERR-11."""
    copied = Copied()
    copied.copy(5)
    copied.emit()
    copied.syncs_sent()
    copied.answer("syncs", TOO_FEW_REPLICAS)
    copied.commit()
    assert copied.upstream_sent() == 5
    copied.answer(copied.commits.work.state_topic)
    assert copied.sent(copied.commits.work.offsets_topic)
    copied.answer(copied.commits.work.offsets_topic)
    assert copied.handover().is_recorded
    assert not copied.commits.is_done(0.0)
    copied.commits.give_up()
    assert copied.commits.is_done(0.0)
    assert copied.handover().owes_sync


def test_no_position_of_ours_waits_for_mm2s_and_the_newest_of_those_is_owed_to_the_next_epoch() -> None:
    """Where MM2's positions cannot be written, as without a leader, ours go on."""
    copied = Copied()
    state, offsets = copied.commits.work.state_topic, copied.commits.work.offsets_topic
    for copies in (5, 10, 15):
        copied.copy(5)
        copied.commit()
        assert copied.upstream_sent() == copies
        copied.answer(state)
    assert not copied.handover().is_recorded
    assert not copied.commits.is_done(0.0)
    assert copied.commits.is_done(math.inf)
    following = Copied(copied.handover())
    following.commit()
    assert following.upstream_sent() == 15
    following.answer(state)
    (written,) = following.sent(offsets)
    assert json.loads(written.value or b"") == {"offset": 14}
    following.answer(offsets)
    assert following.handover().is_recorded


def test_of_mm2s_positions_that_had_to_wait_the_newest_is_written() -> None:
    copied = Copied()
    state, offsets = copied.commits.work.state_topic, copied.commits.work.offsets_topic
    found = []
    for copies in (5, 10, 15):
        copied.copy(5)
        copied.commit()
        assert copied.upstream_sent() == copies
        copied.answer(state)
        if copies == 5:
            found += copied.sent(offsets)
    copied.answer(offsets)
    found += copied.sent(offsets)
    copied.answer(offsets)
    assert [json.loads(each.value or b"")["offset"] for each in found] == [4, 14]
    assert copied.handover().is_recorded


def test_the_newest_pair_that_could_not_be_sent_is_owed_in_the_next_epoch_although_no_record_comes() -> None:
    """ERR-11: MirrorMaker 2 drops it, and an idle partition has its newest pair only with the next record."""
    copied = Copied()
    copied.copy(5)
    copied.emit()
    copied.syncs_sent()
    copied.answer("syncs", TOO_LARGE)
    copied.copy(2)
    copied.commit()
    assert copied.upstream_sent() == 7
    copied.answer(copied.commits.work.state_topic)
    assert copied.sent(copied.commits.work.offsets_topic)
    copied.answer(copied.commits.work.offsets_topic)
    assert "syncs-0 on the source refuses" in str(copied.commits.trouble)
    following = Copied(copied.handover())
    following.emit()
    assert following.syncs_sent() == [OffsetSync(SOURCE, 6, 6)]
    following.answer("syncs")
    assert following.lane.is_idle
    settled = Copied(following.handover())
    settled.emit()
    assert settled.syncs_sent() == []


def test_positions_that_are_not_acknowledged_are_sent_again_and_the_copy_does_not_wait() -> None:
    """WANT-05: no commit is given up for lack of time; the next one brings all that was copied meanwhile."""
    copied = Copied()
    state = copied.commits.work.state_topic
    copied.copy(5)
    copied.commit()
    for _ in range(3):
        assert copied.upstream_sent() == 5
        copied.answer(state, TIMED_OUT)
        copied.copy(10)
        copied.commit()
    assert copied.lane.upstream == 35
    assert copied.upstream_sent() == 5
    copied.answer(state)
    assert copied.sent(copied.commits.work.offsets_topic), "MirrorMaker's position follows ours"
    copied.commit()
    assert copied.upstream_sent() == 35


def test_nothing_is_taken_for_recorded_before_the_last_of_several_batches_is_acknowledged() -> None:
    """What the state topic lacks may be more than a request holds; the position stands in the last batch."""
    lacking = tuple(Gap(SOURCE, number, number + 1, "x" * 600_000, 0).record() for number in range(3))
    copied = Copied(Handover(Position(4, 4, 0, True), (), clean=True, is_recorded=False, unwritten=lacking))
    state = copied.commits.work.state_topic
    copied.commit()
    for _ in range(2):
        assert copied.upstream_sent() is None
        copied.answer(state)
        assert copied.handover().unwritten == lacking
        assert not copied.handover().is_recorded
        copied.commit()
        assert copied.sent(copied.commits.work.offsets_topic) == [], "MirrorMaker's position comes behind ours"
    assert copied.upstream_sent() == 4
    copied.answer(state)
    assert (copied.handover().unwritten, copied.handover().is_recorded) == ((), False)
    assert [each.key for each in copied.sent(copied.commits.work.offsets_topic)] != []
    copied.answer(copied.commits.work.offsets_topic)
    assert copied.handover().is_recorded, "MirrorMaker's position is there too"


def test_of_a_partition_of_which_nothing_is_copied_mirrormaker_has_no_position() -> None:
    copied = Copied(Handover(Position(0, 0, 0, True), (), clean=True, is_recorded=False))
    copied.commit()
    assert copied.upstream_sent() == 0
    copied.answer(copied.commits.work.state_topic)
    assert copied.sent(copied.commits.work.offsets_topic) == []


LIMIT = 1_000
NOTHING: oversized.Parked = frozenset()


class Parking:
    """Some partitions with a record each that the target does not take, and the flow that parks it."""

    def __init__(self, count: int, before: int = 0) -> None:
        """Copy ``before`` records of each first."""
        self.commits = FlowCommits(flow_work(parked_topic="parked"))
        self.lanes = []
        for number in range(count):
            source, target = TopicPartition("orders", number), TopicPartition("east.orders", number)
            lane = Lane(PartitionWork(EAST_WEST, source, target, "", _BEGIN), _BEGIN, OURS, 0, None, "parked")
            if before:
                take(lane, dense([record(offset) for offset in range(before)]))
                send_all(lane, 0)
            take(lane, dense([record(before, b"x" * LIMIT)]), dense([record(before + 1)]))
            while not lane.is_held:
                lane.stream.take()
                lane.stream.answered(TOO_LARGE, -1, "")
            self.lanes.append(lane)

    def park(self) -> None:
        for lane in self.lanes:
            self.commits.park(lane)

    def opened(self) -> Stream | None:
        """Return the stream of dead letters that was opened since the last call."""
        return next((stream for _, stream in self.commits.new_streams() if stream.partition.topic == "parked"), None)


def sent_from(stream: Stream) -> TopicPartition:
    """Send the next dead letter; return where its record comes from."""
    (dead_letter,) = batch.records(stream.take().content)
    headers = dict(dead_letter.headers)
    return TopicPartition(
        (headers["mirror.parked.topic"] or b"").decode(), int(headers["mirror.parked.partition"] or b"")
    )


@pytest.fixture
def parked_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[oversized.Parked], None]:
    """Say what lies in the topic of parked records already; nothing unless told."""

    def tell(parked: oversized.Parked) -> None:
        monkeypatch.setattr(oversized, "parked_last", lambda _flow: parked)

    tell(NOTHING)
    return tell


@pytest.mark.usefixtures("parked_before")
def test_a_letter_that_is_refused_stops_its_partition_and_no_other() -> None:
    """Those behind it, which were never sent, go out anew; whoever is told of them is the one whose letter it was."""
    parking = Parking(3)
    first, second, third = parking.lanes
    parking.park()
    stream = parking.opened()
    assert stream is not None
    assert sent_from(stream) == first.work.source
    stream.answered(TOO_LARGE, -1, "")
    assert "nor parked in parked" in str(first.stopped)
    assert (second.stopped, third.stopped) == (None, None)
    parking.park()
    again = parking.opened()
    assert again is not None
    for lane in (second, third):
        assert not lane.awaits_commit
        assert sent_from(again) == lane.work.source
        again.answered(0, 0, "")
        assert lane.awaits_commit
    assert not again.has_unsent
    assert not first.awaits_commit


@pytest.mark.usefixtures("parked_before")
def test_a_letter_goes_out_once_however_often_it_is_due() -> None:
    parking = Parking(1)
    for _ in range(3):
        parking.park()
    stream = parking.opened()
    assert stream is not None
    sent_from(stream)
    stream.answered(0, 0, "")
    parking.park()
    assert not stream.has_unsent
    assert parking.opened() is None


@pytest.mark.parametrize(("before", "was_resumed"), [(0, False), (0, True), (2, True)])
def test_a_letter_that_may_have_been_written_before_is_looked_for(
    before: int, was_resumed: bool, parked_before: Callable[[oversized.Parked], None]
) -> None:
    """A partition's first: whoever was there before had it under way, perhaps, and then it is not written again."""
    parking = Parking(1, before)
    (lane,) = parking.lanes
    lane.was_resumed = was_resumed
    dead_letter = lane.dead_letter
    assert dead_letter is not None
    parked_before(oversized._parked(dead_letter.content))
    parking.park()
    assert parking.opened() is None
    assert lane.awaits_commit
    lane.unrecorded()
    assert not lane.awaits_commit
    lane.recorded()
    assert lane.upstream == before + 1


def test_another_record_that_was_parked_before_is_not_taken_for_this_one(
    parked_before: Callable[[oversized.Parked], None],
) -> None:
    parking, other = Parking(1), Parking(2)
    dead_letter = other.lanes[1].dead_letter
    assert dead_letter is not None
    parked_before(oversized._parked(dead_letter.content))
    parking.park()
    assert parking.opened() is not None
    assert not parking.lanes[0].awaits_commit


def test_where_it_cannot_be_told_what_was_parked_nothing_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_flow: object) -> oversized.Parked:
        raise ConnectionFailed("west: nobody there")

    monkeypatch.setattr(oversized, "parked_last", away)
    parking = Parking(1)
    parking.park()
    assert parking.opened() is None
    (lane,) = parking.lanes
    assert "is parked is not known: west: nobody there" in str(lane.result().trouble)
    assert lane.is_over


def test_what_is_written_of_a_flow_has_the_term_of_its_leader_and_the_epoch_in_the_state_topic_and_nowhere_else() -> (
    None
):
    """MirrorMaker reads the other topics, and knows no such headers."""
    copied = Copied()
    copied.commits = FlowCommits(flow_work(syncs_topic="syncs", offsets_partitions=1, term=4, epoch=7))
    state, offsets = copied.commits.work.state_topic, copied.commits.work.offsets_topic
    copied.copy(5)
    copied.emit()
    copied.commit()
    assert {(term_of(each.headers), epoch_of(each.headers)) for each in copied.sent(state)} == {(4, 7)}
    copied.answer(state)
    for topic in (offsets, "syncs"):
        assert {each.headers for each in copied.sent(topic)} == {()}


@pytest.mark.usefixtures("parked_before")
def test_an_epoch_waits_for_a_letter_under_way_but_not_for_ever_and_drops_those_that_were_not_sent() -> None:
    parking = Parking(2)
    first, second = parking.lanes
    parking.park()
    stream = parking.opened()
    assert stream is not None
    sent_from(stream)
    parking.commits.wind_down()
    assert not parking.commits.is_done(0.0)
    stream.answered(TIMED_OUT, -1, "")
    assert "what the flow writes down in parked-0 on the target is not acknowledged" in str(parking.commits.trouble)
    assert parking.commits.is_done(math.inf)
    sent_from(stream)
    stream.answered(0, 0, "")
    assert parking.commits.is_done(0.0)
    assert (first.awaits_commit, second.awaits_commit) == (True, False)


def test_where_no_offset_syncs_are_written_there_is_nothing_to_emit() -> None:
    copied = Copied()
    copied.commits = FlowCommits(flow_work(offsets_partitions=1))
    copied.copy(5)
    copied.emit()
    assert copied.commits.new_streams() == []
    assert copied.commits.is_done(0.0)


@pytest.mark.usefixtures("parked_before")
def test_one_letter_is_under_way_at_a_time() -> None:
    """So that those behind one that is refused were never sent."""
    parking = Parking(4)
    parking.park()
    stream = parking.opened()
    assert stream is not None
    for _ in range(3):
        sent_from(stream)
        assert not stream.can_send(math.inf)
        stream.answered(0, 0, "")
        assert stream.can_send(math.inf)


@pytest.mark.parametrize(
    "problem",
    [
        BrokerRefused("west: parked", kafka.errors.TopicAuthorizationFailedError),
        ConnectionFailed("west: nobody there"),
        CorruptBatch("the batch at offset 7 is torn"),
        LeaderUnknown("parked-0 has no leader"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_whatever_keeps_the_parked_records_from_being_read_the_partition_looks_again(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_flow: object) -> oversized.Parked:
        raise problem

    monkeypatch.setattr(oversized, "parked_last", unreadable)
    parking = Parking(2)
    parking.park()
    assert parking.opened() is None
    assert all(lane.is_over and "is parked is not known" in str(lane.result().trouble) for lane in parking.lanes)


def test_mirrormaker_has_a_position_from_the_first_record_on() -> None:
    """It writes the offset of the last record that is copied, not of the next."""
    copied = Copied()
    copied.copy(1)
    copied.commit()
    assert copied.upstream_sent() == 1
    copied.answer(copied.commits.work.state_topic)
    (written,) = copied.sent(copied.commits.work.offsets_topic)
    found = connect_offsets.read_source_positions([(written.key, written.value)], "east")
    assert list(found.values()) == [1]
