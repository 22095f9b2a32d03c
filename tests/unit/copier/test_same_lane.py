"""A lane to the source's offsets sends nothing but what the copy has the place for, and names what is in between."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.append_point import AppendPoint
from mirror.copier.same_lane import SameOffsetsLane
from mirror.copier.same_offsets import ForeignWrite, Moved
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Record
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.position import Position
from mirror.model.transforms.chain import TopicTransform
from mirror.same_offsets.chain import producer_of
from tests.unit.copier.builders import as_logged, dense, record, sparse
from tests.unit.copier.lanes import SOURCE, TARGET, own, take

FLOW = Flow("east", "west")
OURS = producer_of(FLOW)


def lane_at(
    at: int | Position,
    *,
    is_compacted: bool = False,
    begins_at: int = -1,
    limit: int = 1_000,
    transform: TopicTransform | None = None,
) -> SameOffsetsLane:
    """Begin where the copy ends, or at a position that is on record."""
    end = at if isinstance(at, int) else at.downstream
    position = Position(max(end, begins_at), end, max(begins_at, 0), True, same_offsets=True)
    position = position if isinstance(at, int) else at
    work = PartitionWork(FLOW, SOURCE, TARGET, "id", None, pad_limit=limit, transform=transform)
    append_point = AppendPoint(end, end, is_compacted=is_compacted, begins_at=begins_at)
    return SameOffsetsLane(work, Handover(position, (), clean=True), OURS, append_point, None)


def keep(lane: SameOffsetsLane, state: FlowState) -> None:
    """Have it on record how far the lane is."""
    for key, value in lane.unrecorded():
        state.apply(key, value)
    lane.recorded()


class Copy:
    """What lies in the copy: its broker numbers densely, and counts the records of the lane's producer."""

    def __init__(self, lane: SameOffsetsLane) -> None:
        self.lane = lane
        self.end, self.sequence = lane.append_point.end, lane.append_point.sequence
        self.records: list[Record] = []

    def take_all(self, most: int) -> None:
        """Take whatever is sent, and fill holes by at most so many offsets at a time."""
        while self._appended() or self._filled(most):
            pass

    def _appended(self) -> bool:
        if not self.lane.stream.can_send(float("inf")):
            return False
        content, header = as_logged(self.lane.stream.take().content, self.end)
        assert (header.producer_id, header.base_sequence) == (OURS.producer_id, self.sequence)
        self.records += batch.records(content)
        self.sequence += header.record_count
        base, self.end = self.end, header.next_offset
        self.lane.stream.answered(0, base, "")
        return True

    def _filled(self, most: int) -> bool:
        hole = self.lane.hole
        if hole is None:
            return False
        assert hole.append_point.end == self.end < hole.until
        count = min(most, hole.until - self.end)
        self.end += count
        # Tombstones are records of the producer, markers are not.
        self.sequence += count if hole.append_point.is_compacted else 0
        begins_at = -1 if self.end >= hole.append_point.begins_at else hole.append_point.begins_at
        self.lane.filled(hole, replace(hole.append_point, end=self.end, sequence=self.sequence, begins_at=begins_at))
        return True


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 3),
            st.sampled_from([0, 0, 1, 2, 3, 4]),
            st.sets(st.integers(0, 3), max_size=3),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 12),
    st.integers(1, 4),
    st.booleans(),
)
def test_every_record_lands_at_its_own_offset_whatever_is_missing_between_two(
    shapes: list[tuple[int, int, int, set[int], bool]], start: int, most: int, is_compacted: bool
) -> None:
    """Whole batches, compacted ones, holes between them and at the end, a position in the middle of a batch."""
    lane = lane_at(start, is_compacted=is_compacted)
    copy = Copy(lane)
    offset, records = 0, []
    for count, hole, codec, kept, queues_up in shapes:
        whole = [record(offset + number) for number in range(count)]
        left = [each for number, each in enumerate(whole) if number in kept]
        is_sparse = bool(left) and len(left) < count
        take(lane, sparse(left, offset, offset + count, codec) if is_sparse else dense(whole, codec))
        if not queues_up:
            copy.take_all(most)
        records += left if is_sparse else whole
        end = offset + count
        offset = end + hole
    copy.take_all(most)
    expected = [each for each in records if each.offset >= start]
    assert [each[:5] for each in copy.records] == [each[:5] for each in expected]
    assert lane.upstream == copy.end == max(start, end)
    assert lane.stopped is None


def test_nothing_goes_out_before_the_head_is_there() -> None:
    lane = lane_at(0, begins_at=7)
    take(lane, dense([record(7), record(8)]))
    assert not lane.stream.can_send(float("inf"))
    copy = Copy(lane)
    copy.take_all(3)
    assert [each.offset for each in copy.records] == [7, 8]
    assert lane.upstream == 9


def test_nothing_goes_out_while_the_padding_of_the_head_is_not_removed() -> None:
    """An engine that was killed in between, or has no right to remove it, has left it: records go behind its removal."""
    lane = lane_at(7, begins_at=7)
    take(lane, dense([record(7), record(8)]))
    assert not lane.stream.can_send(float("inf"))
    hole = lane.hole
    assert hole is not None
    lane.filled(hole, replace(hole.append_point, begins_at=-1))
    assert lane.stream.can_send(float("inf"))


def behind_removed_records() -> SameOffsetsLane:
    lane = lane_at(10)
    lane.skip_gap(12, now_ms=1)
    take(lane, dense([record(12), record(13)]))
    return lane


def behind_a_record_left_out() -> SameOffsetsLane:
    """Return a lane that may leave records out (``errors.tolerance = all``), and has left out the first."""
    lane = lane_at(10, transform=own("fail_on_poison", skips_errors=True))
    take(lane, dense([record(10, b"poison"), record(11, b"poison"), record(12), record(13)]))
    return lane


@pytest.mark.parametrize("lane", [behind_removed_records(), behind_a_record_left_out()], ids=["removed", "left out"])
def test_a_gap_is_on_record_before_its_offsets_are_filled(lane: SameOffsetsLane) -> None:
    """Whoever is next goes on where the copy ends, and does not find it again: it left no trace behind a kill -9."""
    copy, state = Copy(lane), FlowState()
    copy.take_all(60)
    assert copy.end == lane.upstream == 10
    assert lane.awaits_commit
    for key, value in lane.unrecorded():
        state.apply(key, value)
    assert (lane.hole, lane.awaits_commit) == (None, False)
    assert [(each.start, each.end) for each in state.open_gaps] == [(10, 12)]
    lane.recorded()
    copy.take_all(60)
    assert copy.end == lane.upstream == 14
    assert not lane.awaits_commit


@pytest.mark.parametrize("filled_until", [10, 60, 149])
def test_a_gap_that_is_on_record_is_not_found_again_while_its_offsets_are_filled(filled_until: int) -> None:
    """An engine that began behind a part of them told of the rest as of another gap, and stopped at it again."""
    lane, state = lane_at(10), FlowState()
    lane.skip_gap(150, now_ms=1)
    keep(lane, state)
    hole = lane.hole
    assert hole is not None
    if filled_until > 10:
        lane.filled(hole, replace(hole.append_point, end=filled_until))
    keep(lane, state)
    assert [(each.start, each.end) for each in state.open_gaps] == [(10, 150)]
    position = state.positions[SOURCE]
    assert position.upstream == position.downstream == filled_until
    following = lane_at(position)
    assert following.fetch_position == 150
    copy = Copy(following)
    copy.take_all(60)
    assert following.upstream == copy.end == 150
    keep(following, state)
    assert state.positions[SOURCE].passed_gaps == ()


def test_what_the_source_removes_while_a_gap_is_filled_belongs_to_it() -> None:
    lane, state = lane_at(10), FlowState()
    lane.skip_gap(150, now_ms=1)
    keep(lane, state)
    hole = lane.hole
    assert hole is not None
    lane.filled(hole, replace(hole.append_point, end=60))
    lane.skip_gap(300, now_ms=2)
    assert lane.hole is None
    keep(lane, state)
    assert [(each.start, each.end) for each in state.open_gaps] == [(10, 150), (150, 300)]
    assert lane_at(state.positions[SOURCE]).fetch_position == 300


def test_of_two_gaps_with_records_between_neither_is_found_again() -> None:
    lane, state = lane_at(10), FlowState()
    lane.skip_gap(100, now_ms=1)
    take(lane, dense([record(100), record(101)]))
    lane.skip_gap(200, now_ms=2)
    keep(lane, state)
    assert [(each.start, each.end) for each in state.open_gaps] == [(10, 100), (102, 200)]
    assert lane_at(state.positions[SOURCE]).fetch_position == 100
    first = lane.hole
    assert first is not None
    lane.filled(first, replace(first.append_point, end=100))
    lane.stream.take()
    lane.stream.answered(0, 100, "")
    second = lane.hole
    assert second is not None
    assert (second.append_point.end, second.until) == (102, 200)
    lane.filled(second, replace(second.append_point, end=150))
    keep(lane, state)
    assert lane_at(state.positions[SOURCE]).fetch_position == 200


def test_what_is_gone_before_a_gap_on_record_is_told_up_to_that_gap() -> None:
    """Its records were read and not answered for when the engine was killed, and the source has removed them since."""
    on_record = Position(50, 50, 0, True, 0, "here", "there", same_offsets=True, passed_gaps=((100, 200),))
    lane, state = lane_at(on_record), FlowState()
    assert lane.fetch_position == 50
    lane.skip_gap(200, now_ms=3)
    keep(lane, state)
    assert [(each.start, each.end) for each in state.open_gaps] == [(50, 100)]
    hole = lane.hole
    assert hole is not None
    lane.filled(hole, replace(hole.append_point, end=80))
    keep(lane, state)
    assert lane_at(state.positions[SOURCE]).fetch_position == 200


def test_gaps_of_another_incarnation_are_none_of_a_position() -> None:
    """A version that does not know them writes them on, also when the copy has gone back."""
    position = Position(50, 50, 0, True, incarnation=1, passed_gaps=((40, 60), (70, 90)))
    state = FlowState()
    state.apply(*position.record(SOURCE))
    assert state.positions[SOURCE] == position
    key, value = position.record(SOURCE)
    assert value is not None
    state.apply(key, json.dumps(json.loads(value) | {"turn": 2}).encode())
    assert state.positions[SOURCE].passed_gaps == ()


def test_a_record_at_another_offset_stops_the_partition_and_is_not_on_record() -> None:
    lane = lane_at(4)
    take(lane, dense([record(4), record(5)]), dense([record(6)]))
    lane.stream.take()
    lane.stream.answered(0, 5, "")
    assert str(lane.stopped).startswith(f"{TARGET} goes on at offset 5, and its source at 4: somebody else writes")
    assert (lane.upstream, lane.hole) == (4, None)
    assert not lane.stream.can_send(float("inf"))


@pytest.mark.parametrize(("has_append_time", "is_lost"), [(False, True), (True, False)])
def test_a_batch_that_the_leader_has_had_before_is_looked_up_where_records_keep_their_times(
    has_append_time: bool, is_lost: bool
) -> None:
    """Elsewhere each answer has the time of an append, and nothing can be told from it."""
    lane = lane_at(5)
    lane.append_point = replace(lane.append_point, has_append_time=has_append_time)
    take(lane, dense([record(5), record(6)]))
    lane.stream.take()
    lane.stream.answered(0, 5, "", 1_700_000_000_000)
    assert (lane.is_lost, lane.upstream) == (is_lost, 5 if is_lost else 7)


def test_a_hole_longer_than_the_limit_stops_the_partition_by_name() -> None:
    lane = lane_at(4, limit=10)
    take(lane, dense([record(20)]))
    hole = lane.hole
    assert hole is not None
    assert not lane.may_fill(hole)
    assert str(lane.stopped).startswith(f"{SOURCE} has no record from offset 4 up to 20")
    assert lane.hole is None


@pytest.mark.parametrize("stops", [False, True])
def test_a_hole_that_is_not_filled_is_a_trouble_and_what_is_not_in_its_place_stops(stops: bool) -> None:
    lane = lane_at(4)
    take(lane, dense([record(6)]))
    lane.not_filled(ForeignWrite("somebody else") if stops else ConnectionFailed("no coordinator"))
    assert (lane.stopped, lane.why_troubled) == (("somebody else", None) if stops else (None, "no coordinator"))
    assert (lane.hole is None) is stops


def test_a_hole_of_as_many_offsets_as_are_allowed_is_filled_and_one_more_is_not() -> None:
    for first, may in ((14, True), (15, False)):
        lane = lane_at(4, limit=10)
        take(lane, dense([record(first)]))
        hole = lane.hole
        assert hole is not None
        assert (lane.may_fill(hole), lane.stopped is None) == (may, may)


def test_a_hole_in_a_copy_that_ends_elsewhere_is_looked_up_and_not_filled() -> None:
    lane = lane_at(4)
    take(lane, dense([record(6)]))
    lane.not_filled(Moved(TARGET, 4, 5))
    assert (lane.is_lost, lane.stopped, lane.hole) == (True, None, None)


def test_nothing_is_filled_while_a_batch_is_on_its_way() -> None:
    """It would stand behind what fills the hole, at another offset."""
    lane = lane_at(4)
    take(lane, dense([record(4)]), dense([record(8)]))
    lane.stream.take()
    assert lane.hole is None
    lane.stream.answered(0, 4, "")
    hole = lane.hole
    assert hole is not None
    assert (hole.append_point.end, hole.until) == (5, 8)


def test_a_copy_that_is_found_behind_the_hole_that_was_to_be_filled_is_looked_up() -> None:
    for end, is_lost in ((6, False), (7, True)):
        lane = lane_at(4)
        take(lane, dense([record(6)]))
        hole = lane.hole
        assert hole is not None
        lane.filled(hole, replace(hole.append_point, end=end))
        assert lane.is_lost is is_lost


def test_one_record_of_somebody_else_at_the_end_of_the_copy_stops_it() -> None:
    for end, is_stopped in ((4, False), (5, True)):
        lane = lane_at(4)
        lane.pass_by_foreign(end)
        assert (lane.stopped is not None) is is_stopped
