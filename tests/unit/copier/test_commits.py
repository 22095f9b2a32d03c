"""What a flow writes down beside the data is sent until it is there, and nothing waits for it that need not."""

from __future__ import annotations

import json
import math

from mirror.copier.commits import FlowCommits
from mirror.copier.lane import Lane
from mirror.copier.streams import Stream
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Record
from mirror.model.flow_state import FlowState, Position
from mirror.model.offset_sync import OffsetSync
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
    assert not copied.lane.is_at_rest
    assert copied.syncs_sent() == [OffsetSync(SOURCE, 0, 0)]
    copied.answer("syncs")
    copied.commit()
    copied.emit()
    assert copied.syncs_sent() == [OffsetSync(SOURCE, 604, 604)]
    assert copied.handover().owes_sync
    copied.answer("syncs")
    assert not copied.handover().owes_sync
    assert copied.commits.trouble is None


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
    assert following.lane.is_at_rest
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
