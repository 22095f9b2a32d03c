"""What a lane makes of a refusal of the target, of what others have written there, and of a gap on the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.copier.foreign_batches import ForeignBatches
from mirror.copier.lane import Lane
from mirror.copier.merging import MERGED_BYTES, SMALL_BATCH_BYTES, CopiedBatch, Merging
from mirror.copier.work import Handover
from mirror.model.flow_state import FlowState
from mirror.model.position import Position
from tests.unit.copier.builders import TIME, dense, record
from tests.unit.copier.lanes import OURS, new_lane, send_all, take

TOO_LARGE, LIST_TOO_LARGE, OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, INVALID_RECORD = 10, 18, 45, 47, 48, 87
# No batch with such a record is merged with another.
LARGE = b"x" * SMALL_BATCH_BYTES


def lane_of(*, is_watched: bool, sequence: int, end: int = 10) -> Lane:
    """Return a lane whose copy ends at ``end``, for a producer that has written so many records there."""
    work = replace(new_lane().work, is_watched=is_watched)
    return Lane(work, Handover(Position(0, end, 0, True), (), clean=True), OURS, sequence, None)


def copy(lane: Lane, *places: int) -> None:
    """Copy a record to each of these places of the target."""
    for place in places:
        take(lane, dense([record(lane.fetch_position)]))
        send_all(lane, place)


@pytest.mark.parametrize(
    ("is_watched", "sequence", "found"),
    [
        (True, 5, ((10, 12), (14, 17))),
        (True, 0, ((10, 12), (14, 17))),
        (False, 0, ((10, 12),)),
        (False, 1, ()),
    ],
    ids=["watched", "watched, new", "new", "neither"],
)
def test_what_others_write_is_told_of_a_watched_copy_and_before_the_first_batch_of_a_new_producer(
    *, is_watched: bool, sequence: int, found: tuple[tuple[int, int], ...]
) -> None:
    """Late requests of an engine before arrive then; outside of transactions one record is one too many."""
    lane = lane_of(is_watched=is_watched, sequence=sequence)
    copy(lane, 12, 13, 17)
    assert lane.result().foreign == found
    alone = lane_of(is_watched=True, sequence=sequence)
    copy(alone, 10, 11, 13)
    assert alone.result().foreign == ((12, 13),)


def test_a_partition_without_a_batch_in_a_transaction_gets_no_marker_of_it() -> None:
    """What stands where it would be is somebody else's."""
    for is_ours_first, found in ((True, ()), (False, ((10, 11),))):
        seen = ForeignBatches(9 if is_ours_first else 10, has_markers=True)
        if is_ours_first:
            seen.appended(9, 10)
        seen.committed()
        seen.appended(11, 12)
        assert seen.found == found


def test_what_is_passed_by_is_told_once() -> None:
    lane = lane_of(is_watched=True, sequence=5)
    lane.pass_by_foreign(20)
    assert lane.result().foreign == ((10, 20),), "also if nothing more is copied"
    copy(lane, 20)
    assert lane.result().foreign == ((10, 20),)
    unwatched = lane_of(is_watched=False, sequence=5)
    unwatched.pass_by_foreign(20)
    copy(unwatched, 20)
    assert unwatched.result().foreign == ()


def refused(lane: Lane, code: int, message: str = "") -> Lane:
    """Let the first of a lane's batches be refused."""
    lane.stream.take()
    lane.stream.answered(code, -1, message)
    return lane


def with_batches(count: int = 1) -> Lane:
    lane = new_lane()
    take(lane, *(dense([record(number, LARGE)]) for number in range(count)))
    return lane


@pytest.mark.parametrize("code", [OUT_OF_ORDER, INVALID_EPOCH])
def test_where_the_sequence_is_refused_what_the_target_has_is_looked_up(code: int) -> None:
    lane = refused(with_batches(), code)
    assert "is looked up before going on" in str(lane.doubts)
    assert (lane.is_lost, lane.stopped) == (True, None)
    handover = lane.result().handover
    assert handover is not None
    assert not handover.clean


@pytest.mark.parametrize("code", [INVALID_STATE, INVALID_RECORD])
def test_any_other_refusal_stops_the_partition_outside_of_transactions(code: int) -> None:
    lane = refused(with_batches(), code, "said so")
    assert str(lane.stopped).startswith("the target refuses the batch behind upstream offset 0: ")
    assert str(lane.stopped).endswith(" said so")
    assert (lane.doubts, lane.is_lost) == (None, False)


@pytest.mark.parametrize("code", [TOO_LARGE, LIST_TOO_LARGE])
def test_one_record_that_is_too_large_stops_its_partition_with_its_size(code: int) -> None:
    lane = with_batches()
    piece = lane.stream.take()
    lane.stream.answered(code, -1, "")
    assert f"with {len(piece.content)} bytes as a batch it is more than the max.message.bytes" in str(lane.stopped)
    assert "the target refuses the record at upstream offset 0" in str(lane.stopped)
    assert lane.doubts is None


def test_what_comes_behind_a_doubt_changes_nothing_more() -> None:
    """The next epoch looks; a stop would keep it from doing so."""
    lane = with_batches(2)
    for _ in range(2):
        lane.stream.take()
    lane.lose("its transaction will not be committed")
    for code in (OUT_OF_ORDER, INVALID_RECORD):
        lane._refused(code, "")
    assert (lane.stopped, lane.doubts) == (None, "its transaction will not be committed")
    lane.lose("the epoch was over")
    assert lane.doubts == "its transaction will not be committed", "what came first is the reason"


def test_a_gap_found_with_nothing_under_way_says_where_it_is_in_the_copy_and_is_passed_at_once() -> None:
    lane = new_lane(0, 7)
    copy(lane, 7)
    lane.unrecorded()
    lane.recorded()
    lane.skip_gap(10, TIME)
    assert (lane.upstream, lane.fetch_position, lane.is_dirty) == (10, 10, True)
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    (gap,) = state.gaps.values()
    assert (gap.start, gap.end, gap.downstream) == (1, 10, 8)


def test_batches_are_merged_up_to_the_limits_and_no_further() -> None:
    """The line's, the one for small batches, and what was learned from refusals."""
    merging = Merging(OURS, lambda *_: False)

    def piece(size: int) -> CopiedBatch:
        return CopiedBatch(memoryview(bytearray(size)), ((0, 1),), 1, 0, (0, 0))

    small, most = SMALL_BATCH_BYTES - 1, MERGED_BYTES
    assert merging.fits(piece(small), most - 500, piece(500), 0)
    assert not merging.fits(piece(small), most - 499, piece(500), 0)
    assert not merging.fits(piece(small + 1), 1000, piece(500), 0)
    assert not merging.fits(piece(500), 1000, piece(small + 1), 0)
    assert merging.fits(piece(small + 1), 1000, piece(500), 1500)
    assert not merging.fits(piece(small + 1), 1000, piece(500), 1499)
    merging.largest = 1500
    assert merging.fits(piece(500), 1000, piece(500), 0)
    merging.largest = 1499
    assert not merging.fits(piece(500), 1000, piece(500), 0)
