"""A lane accounts for every record it takes: acknowledged, on its way, or in a gap; never silently passed."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.lane import BACKLOG_BYTES, Lane
from mirror.copier.merging import MERGED_BYTES, SMALL_BATCH_BYTES, CopiedBatch
from mirror.copier.tail_match import Batch
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import HEADER, CorruptBatch, Header, Producer, Record
from mirror.kafka.wire import Aborted
from mirror.model.copied import Waiting
from mirror.model.flow import Flow
from mirror.model.flow_state import DeadChunks, FlowState
from mirror.model.gap import GapKind
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.offset_map import Run
from mirror.model.position import Position
from mirror.model.state_values import RUNS_PER_CHUNK, no_chunk_record
from tests.unit.copier.builders import TIME, dense, flagged, record, sparse
from tests.unit.copier.lanes import OURS, SOURCE, TARGET, fetched, new_lane, send_all, take

TOO_LARGE, OUT_OF_ORDER, TIMED_OUT = 10, 45, 7


def marker(offset: int, producer: Producer, *, abort: bool) -> Batch:
    key = struct.pack(">hh", 0, 0 if abort else 1)
    content, header = dense([Record(offset, TIME, key, b"", (), producer.producer_id)], producer=producer, sequence=-1)
    return flagged((content, header), 0x30)


def map_of(lane: Lane) -> list[tuple[int, int]]:
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    known = state.offset_map(SOURCE)
    assert known is not None
    return [(run.upstream + each, run.downstream + each) for run in known.runs for each in range(run.length)]


def without_place(records: list[Record]) -> list[tuple[Any, ...]]:
    return [tuple(each[1:5]) for each in records]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 2),
            st.sampled_from([0, 0, 0, 1, 2, 3, 4]),
            st.sets(st.integers(0, 3), max_size=3),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 12),
    st.integers(0, 9),
)
def test_every_record_from_the_position_on_is_copied_in_order_and_mapped(
    shapes: list[tuple[int, int, int, set[int], bool]], start: int, base_offset: int
) -> None:
    """Whole batches, compacted ones, a position in the middle of a batch, holes between batches; all codecs.

    Batches that queue up are merged, others go as they are.
    """
    lane = new_lane(start, base_offset)
    offset, records, log = 0, [], []
    for count, hole, codec, kept, queues_up in shapes:
        whole = [record(offset + number) for number in range(count)]
        left = [each for number, each in enumerate(whole) if number in kept]
        is_sparse = bool(left) and len(left) < count
        take(lane, sparse(left, offset, offset + count, codec) if is_sparse else dense(whole, codec))
        if not queues_up:
            log += send_all(lane, base_offset + len(log))
        records += left if is_sparse else whole
        end = offset + count
        offset = end + hole
    log += send_all(lane, base_offset + len(log))
    expected = [each for each in records if each.offset >= start]
    assert without_place(log) == without_place(expected)
    assert {each.producer_id for each in log} <= {OURS.producer_id}
    assert map_of(lane) == [(each.offset, base_offset + place) for place, each in enumerate(expected)]
    assert lane.upstream == max(start, end)
    assert lane.acknowledged_sequence == len(expected)


def large(offset: int) -> Record:
    """A record that makes a batch too large to be merged with its neighbours."""
    return record(offset, b"x" * SMALL_BATCH_BYTES)


def test_the_position_is_never_ahead_of_what_is_acknowledged() -> None:
    lane = new_lane()
    take(lane, dense([large(0), large(1)]), dense([large(2)]), marker(3, OURS, abort=False))
    assert lane.upstream == 0
    lane.stream.take()
    lane.stream.answered(0, 0, "")
    assert lane.upstream == 2
    send_all(lane, 2)
    assert lane.upstream == 4


def test_a_batch_that_was_read_already_says_nothing_of_the_log_any_more() -> None:
    """Brokers give it once more where the position lies in it, or right behind it."""
    lane = new_lane(2)
    lane.read_epoch = 5
    read = under(3, dense([record(0), record(1)]))
    take(lane, read, under(5, dense([record(2)])))
    assert (lane.is_lost, lane.fetch_position, lane.read_epoch) == (False, 3, 5)
    assert without_place(send_all(lane, 0)) == without_place([record(2)])


def test_append_time_becomes_the_records_time() -> None:
    """MM2 sends the timestamp a consumer sees, which is the batch's, not the record's."""
    lane = new_lane()
    take(lane, flagged(dense([record(0), record(1)]), 0x08))
    going_out = lane.stream.take().content
    assert [each.timestamp for each in batch.records(going_out)] == [TIME + 1] * 2
    # A broker refuses what says of itself that it was stamped by a log.
    assert not Header._make(HEADER.unpack_from(going_out)).has_append_time


def test_markers_and_aborted_data_are_holes_for_a_reader_of_committed_data() -> None:
    good, bad = Producer(1, 0), Producer(2, 0)
    batches = [
        flagged(dense([record(0)], producer=good, sequence=0), 0x10),
        flagged(dense([record(1)], producer=bad, sequence=0), 0x10),
        dense([record(2)]),
        marker(3, bad, abort=True),
        marker(4, good, abort=False),
        flagged(dense([record(5)], producer=bad, sequence=1), 0x10),
        marker(6, bad, abort=False),
    ]
    lane = new_lane()
    take(lane, *batches, aborted=(Aborted(2, 1),), read_committed=True)
    assert without_place(send_all(lane, 0)) == without_place([record(0), record(2), record(5)])
    assert map_of(lane) == [(0, 0), (2, 1), (5, 2)]
    assert lane.upstream == 7
    # Who reads uncommitted data leaves nothing out, whatever an answer tells.
    for aborted in ((), (Aborted(2, 1),)):
        lane = new_lane()
        take(lane, *batches, aborted=aborted)
        assert without_place(send_all(lane, 0)) == without_place([record(number) for number in (0, 1, 2, 5)])


def test_a_transaction_that_was_aborted_before_the_position_says_nothing_of_the_next_one() -> None:
    """The broker answers with whole batches: its first ones, and their marker, may lie before what is asked for."""
    producer = Producer(2, 0)
    lane = new_lane(2)
    take(
        lane,
        flagged(dense([record(0)], producer=producer, sequence=0), 0x10),
        marker(1, producer, abort=True),
        flagged(dense([record(2)], producer=producer, sequence=1), 0x10),
        marker(3, producer, abort=False),
        aborted=(Aborted(2, 0),),
        read_committed=True,
    )
    assert without_place(send_all(lane, 0)) == without_place([record(2)])


def test_a_damaged_batch_stops_the_lane_and_what_came_before_it_is_copied() -> None:
    lane = new_lane()
    damaged = dense([record(1)])
    damaged[0][-1] ^= 1
    with pytest.raises(CorruptBatch):
        take(lane, dense([record(0)]), damaged, dense([record(2)]))
    lane.stop("damaged")
    assert not lane.wants_data(0.0)
    assert without_place(send_all(lane, 0)) == without_place([record(0)])
    assert lane.upstream == 1
    result = lane.result()
    assert (result.stopped, result.records) == ("damaged", 1)
    assert result.handover is not None
    assert result.handover.clean


def test_a_refused_batch_stops_the_lane_before_it() -> None:
    lane = new_lane()
    take(lane, dense([large(0)]), dense([large(1)]), dense([large(2)]), marker(3, OURS, abort=False))
    lane.stream.take()
    lane.stream.answered(0, 0, "")
    for _ in range(2):
        lane.stream.take()
    lane.stream.answered(TOO_LARGE, -1, "too large")
    lane.stream.answered(OUT_OF_ORDER, -1, "")
    result = lane.result()
    assert result.stopped is not None
    assert "refuses the record at upstream offset 1: MessageSizeTooLarge too large" in result.stopped
    assert "max.message.bytes of east.orders" in result.stopped
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean) == (1, True)


def test_small_batches_that_queue_up_go_as_one_and_are_taken_apart_when_that_is_too_large() -> None:
    lane = new_lane()
    take(lane, *(dense([record(offset)], 3) for offset in range(4)))
    together = lane.stream.take().content
    assert without_place(batch.records(together)) == without_place([record(offset) for offset in range(4)])
    assert batch.codec_of(together) == 3
    # Its leader is the right one, and nothing has to be waited for.
    assert not lane.stream.answered(TOO_LARGE, -1, "")
    for offset in range(4):
        content = lane.stream.take().content
        assert without_place(batch.records(content)) == without_place([record(offset)])
        assert Header._make(HEADER.unpack_from(content)).base_sequence == offset
        lane.stream.answered(0, offset, "")
    assert lane.stream.bytes == 0
    assert lane.result().stopped is None
    assert map_of(lane) == [(offset, offset) for offset in range(4)]


def test_once_a_merged_batch_was_too_large_no_more_than_half_of_it_is_merged() -> None:
    lane = new_lane()
    take(lane, *(dense([record(offset, b"x" * 500)]) for offset in range(8)))
    refused = len(lane.stream.take().content)
    lane.stream.answered(TOO_LARGE, -1, "")
    assert len(send_all(lane, 0)) == 8
    take(lane, *(dense([record(offset, b"x" * 500)]) for offset in range(8, 16)))
    sizes = []
    while lane.stream.can_send(float("inf")):
        content = lane.stream.take().content
        sizes.append(len(content))
        lane.stream.answered(0, lane.upstream, "")
    assert lane.upstream == 16
    assert 1 < len(sizes) < 8
    assert max(sizes) <= refused // 2


def test_what_was_sent_is_sent_again_as_it_was() -> None:
    """Merged with others it would have another count, and the broker would not recognise it."""
    lane = new_lane()
    take(lane, dense([record(0)]))
    first = bytes(lane.stream.take().content)
    take(lane, dense([record(1)]), dense([record(2)]))
    lane.stream.lost("gone")
    assert bytes(lane.stream.take().content) == first
    lane.stream.answered(0, 0, "")
    assert without_place(batch.records(lane.stream.take().content)) == without_place([record(1), record(2)])


def test_at_the_end_of_an_epoch_what_was_never_sent_is_left_to_the_next() -> None:
    lane = new_lane()
    take(lane, dense([large(0)]))
    lane.stream.take()
    take(lane, dense([large(1)]), marker(2, OURS, abort=False))
    lane.stream.wind_down()
    take(lane, dense([large(3)]))
    assert not lane.stream.is_quiet
    lane.stream.answered(0, 0, "")
    assert lane.stream.is_quiet
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.position.downstream, handover.clean) == (1, 1, True)
    assert (lane.acknowledged_sequence, lane.stream.bytes) == (1, 0)


def test_at_the_end_of_an_epoch_what_may_have_arrived_is_sent_until_that_is_certain() -> None:
    lane = new_lane()
    take(lane, dense([large(0)]))
    lane.stream.take()
    lane.stream.lost("gone")
    take(lane, dense([large(1)]))
    lane.stream.wind_down()
    assert not lane.stream.is_quiet
    assert lane.stream.can_send(float("inf"))
    lane.stream.take()
    lane.stream.answered(TIMED_OUT, -1, "")
    assert lane.stream.can_send(float("inf"))
    lane.stream.give_up()
    assert lane.stream.is_quiet
    result = lane.result().handover
    assert result is not None
    assert not result.clean


def test_a_lost_sequence_leaves_the_handover_unclean() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    lane.stream.take()
    lane.stream.answered(OUT_OF_ORDER, -1, "")
    result = lane.result()
    assert result.stopped is None
    assert result.trouble is not None
    assert "looked up" in result.trouble
    assert result.handover is not None
    assert not result.handover.clean


def test_batches_under_way_leave_the_handover_unclean() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    lane.stream.take()
    result = lane.result()
    assert result.handover is not None
    assert not result.handover.clean


def test_a_gap_is_kept_until_it_is_in_the_state_topic() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    lane.skip_gap(10, TIME)
    take(lane, dense([record(10)]))
    send_all(lane, 0)
    (gap,) = [record_ for record_ in lane.unrecorded() if record_[0].startswith(b'["gap"')]
    unfinished = lane.result().handover
    assert unfinished is not None
    assert not unfinished.is_recorded
    assert unfinished.unwritten == (gap,)
    state = FlowState()
    state.apply(*gap)
    (kept,) = state.gaps.values()
    assert (kept.source, kept.start, kept.end, kept.found_at_ms) == (SOURCE, 1, 10, TIME)
    assert (kept.kind, kept.passed) == (GapKind.RETENTION, True)
    lane.recorded()
    finished = lane.result().handover
    assert finished is not None
    assert finished.is_recorded
    assert finished.unwritten == ()


@pytest.mark.parametrize(("incarnation", "forgotten"), [(2, [0, 1]), (1, [])])
def test_dead_chunks_are_forgotten_unless_the_copy_has_gone_back_since(incarnation: int, forgotten: list[int]) -> None:
    """A chunk of the same number may have been written anew by then; the one being filled always is."""
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None, dead=DeadChunks(incarnation, (0, 1, 2)))
    handover = Handover(Position(9, 9, 0, True, chunk=2, incarnation=2), (), clean=True)
    lane = Lane(work, handover, OURS, 0, None)
    assert lane.is_dirty is bool(forgotten)
    written = [record_ for record_ in lane.unrecorded() if record_[1] is None]
    assert written == [no_chunk_record(SOURCE, chunk) for chunk in forgotten]
    lane.recorded()
    assert not any(value is None for _, value in lane.unrecorded())


def test_what_is_found_while_a_commit_is_under_way_is_written_with_the_next() -> None:
    """A gap, and a chunk of the map that is full: the commit did not say them."""
    lane = new_lane()
    take(lane, dense([record(0)]))
    send_all(lane, 0)
    offered = lane.unrecorded()
    lane.skip_gap(10, TIME)
    offsets = list(range(10, 10 + 2 * RUNS_PER_CHUNK + 10, 2))
    take(lane, *(dense([record(offset)]) for offset in offsets))
    send_all(lane, 1)
    lane.recorded()
    assert lane.is_dirty
    state = FlowState()
    for key, value in (*offered, *lane.unrecorded()):
        state.apply(key, value)
    assert [gap.start for gap in state.gaps.values()] == [1]
    known = state.offset_map(SOURCE)
    assert known is not None
    mapped = [(run.upstream + each, run.downstream + each) for run in known.runs for each in range(run.length)]
    assert mapped == [(offset, place) for place, offset in enumerate([0, *offsets])]
    assert len(state.chunks[SOURCE]) == 2, "what is full is not written with every commit"


def test_whatever_is_to_be_written_down_keeps_a_lane_from_its_rest_until_it_is_written() -> None:
    lane = new_lane()
    assert lane.is_idle
    take(lane, dense([record(0)]))
    send_all(lane, 0)
    assert not lane.is_idle
    lane.unrecorded()
    assert not lane.is_dirty
    assert not lane.is_idle, "the commit is under way"
    lane.recorded()
    assert lane.is_idle


@pytest.mark.parametrize("gaps", [GapPolicy(), GapPolicy(stops=True)])
def test_a_gap_is_to_be_written_down_though_nothing_more_is_copied(gaps: GapPolicy) -> None:
    """Also while what was read before it is under way, so that the position stays where it is."""
    lane = new_lane(gaps=gaps)
    take(lane, dense([record(0)]))
    lane.unrecorded()
    lane.recorded()
    assert not lane.is_dirty
    lane.skip_gap(10, TIME)
    assert lane.upstream == 0
    assert lane.is_dirty
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    (gap,) = state.gaps.values()
    assert (gap.start, gap.end, gap.downstream) == (1, 10, None), "where it will be in the copy is not known yet"


def test_how_far_the_source_reached_is_recorded_though_nothing_is_copied() -> None:
    """A log that ends before that was truncated."""
    lane = new_lane()
    frame, part = fetched()
    lane.take(frame, part._replace(high_watermark=1), read_committed=False)
    assert lane.is_dirty
    lane.unrecorded()
    lane.recorded()
    lane.take(frame, part._replace(high_watermark=1), read_committed=False)
    assert not lane.is_dirty
    handover = lane.result().handover
    assert handover is not None
    assert handover.position.source_end == 1
    take(lane, dense([record(number) for number in range(5)]))
    ahead = Lane(lane.work, replace(handover, position=replace(handover.position, upstream=7)), OURS, 0, None)
    told = ahead.result().handover
    assert told is not None
    assert told.position.source_end == 7, "what was copied was there"


def test_batches_of_different_codecs_are_not_made_one() -> None:
    lane = new_lane()
    take(lane, dense([record(0)], 3), dense([record(1)], 1), dense([record(2)], 1))
    assert len(batch.records(lane.stream.take().content)) == 1
    lane.stream.answered(0, 0, "")
    following = lane.stream.take().content
    assert (len(batch.records(following)), batch.codec_of(following)) == (2, 1)


def test_a_lane_reads_no_further_while_much_waits_for_the_target() -> None:
    lane = new_lane()
    assert lane.wants_data(0.0)
    offset = 0
    while lane.stream.bytes < BACKLOG_BYTES:
        assert lane.wants_data(0.0)
        take(lane, dense([record(offset, b"x" * (1 << 20))]))
        offset += 1
    assert not lane.wants_data(0.0)
    send_all(lane, 0)
    assert lane.wants_data(0.0)


def test_a_topic_that_was_created_anew_is_read_no_further() -> None:
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None)
    lane = Lane(work, Handover(Position(0, 0, 0, True, 0, "id"), (), clean=True), OURS, 0, None)
    lane.check_topic("id")
    assert not lane.is_lost
    lane.check_topic("other")
    assert lane.is_lost
    assert not lane.wants_data(0.0)


def test_a_full_chunk_of_the_map_is_kept_until_it_is_in_the_state_topic() -> None:
    """Holes make runs; a commit that fails must not lose those of a chunk that is full."""
    lane = new_lane()
    offsets = list(range(0, 1200, 2))
    take(lane, *(dense([record(offset)]) for offset in offsets))
    send_all(lane, 0)
    lost = lane.unrecorded()
    handover = lane.result().handover
    assert handover is not None
    later = Lane(lane.work, handover, OURS, lane.acknowledged_sequence, None)
    assert later.is_dirty
    assert later.unrecorded() == lost
    assert map_of(later) == [(offset, place) for place, offset in enumerate(offsets)]


def test_what_is_recorded_is_not_written_again() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    send_all(lane, 0)
    assert lane.is_dirty
    lane.unrecorded()
    lane.recorded()
    assert not lane.is_dirty
    assert lane.result().handover == Handover(Position(1, 1, 0, True, source_end=1000), (Run(0, 0, 1),), clean=True)


def under(epoch: int, one: Batch) -> Batch:
    """The batch as another leader has written it."""
    content, _ = one
    struct.pack_into(">i", content, 12, epoch)
    return content, Header._make(HEADER.unpack_from(content))


def test_the_position_says_under_which_leaders_the_copied_was_written() -> None:
    """Of what was read, only what is acknowledged; markers count too."""
    lane = new_lane(5)
    take(lane, under(3, dense([large(5), large(6)])), under(3, dense([large(7)])), under(4, dense([large(8)])))
    assert lane.read_epoch == 4
    result = lane.result().handover
    assert result is not None
    assert result.position.epochs == (EpochEnd(NOT_KNOWN, 5),)
    lane.stream.take()
    lane.stream.answered(0, 0, "")
    result = lane.result().handover
    assert result is not None
    assert result.position.epochs == (EpochEnd(NOT_KNOWN, 5), EpochEnd(3, 7))
    send_all(lane, 2)
    take(lane, under(6, marker(9, OURS, abort=False)))
    result = lane.result().handover
    assert result is not None
    assert result.position.epochs == (EpochEnd(NOT_KNOWN, 5), EpochEnd(3, 8), EpochEnd(4, 9), EpochEnd(6, 10))
    onwards = Lane(lane.work, result, OURS, 0, None)
    assert onwards.read_epoch == 6
    again = onwards.result().handover
    assert again is not None
    assert again.position.epochs == result.position.epochs


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_log_whose_leader_epochs_go_back_is_another_log(epoch: int) -> None:
    """Nothing of it is copied before it is known which."""
    lane = new_lane()
    take(lane, under(3, dense([record(0)])), under(epoch, dense([record(1)])))
    assert lane.is_lost
    assert lane.is_over
    assert len(send_all(lane, 0)) == 1
    result = lane.result()
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean) == (1, False)
    assert f"epoch {epoch} behind epoch 3" in str(result.trouble)


@pytest.mark.parametrize("end", [4, 9])
def test_a_target_that_appends_before_the_position_was_truncated(end: int) -> None:
    """What it took there is not on the map, which stays in order; where it ended is handed over."""
    lane = new_lane(0, 10)
    take(lane, dense([large(0)]), dense([large(1)]))
    lane.stream.take()
    lane.stream.answered(0, end, "")
    assert not lane.stream.can_send(float("inf"))
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.position.downstream, handover.runs) == (0, 10, ())
    assert (handover.clean, handover.target_ended_at) == (False, end)


def test_what_a_target_takes_before_the_position_is_told_since_it_is_copied_again() -> None:
    """Also of what was on its way behind it."""
    lane = new_lane(4, 10)
    take(lane, dense([large(4)]))
    send_all(lane, 10)
    take(lane, dense([large(5)]), dense([large(6), large(7)]))
    for _ in range(2):
        lane.stream.take()
    lane.stream.answered(0, 3, "")
    lane.stream.answered(0, 4, "")
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    found = [(gap.start, gap.end, gap.downstream, gap.kind, gap.passed) for gap in state.gaps.values()]
    assert found == [(5, 6, 3, GapKind.COPIED_AGAIN, True), (6, 8, 4, GapKind.COPIED_AGAIN, True)]
    assert "at offset 3 of east.orders-3" in next(iter(state.gaps.values())).reason
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.target_ended_at) == (5, 3)


def test_a_gap_stops_a_strict_lane_until_it_is_acknowledged() -> None:
    """It is written down once, and again when it is passed, with the range it has by then."""
    lane = new_lane(gaps=GapPolicy(stops=True))
    take(lane, dense([record(0)]))
    send_all(lane, 0)
    lane.skip_gap(10, TIME)
    assert "offsets 1 to 9 of orders-3" in str(lane.stopped)
    assert "mirror gaps FILE --acknowledge --topic orders --partition 3" in str(lane.stopped)
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    (gap,) = state.gaps.values()
    assert (gap.start, gap.end, gap.passed, lane.upstream) == (1, 10, False, 1)
    lane.recorded()
    stopped = lane.result().handover
    assert stopped is not None
    still = Lane(replace(lane.work, gaps=GapPolicy(True, gap)), stopped, OURS, 0, None)
    still.skip_gap(15, TIME + 5)
    assert still.stopped
    assert not [key for key, _ in still.unrecorded() if b"gap" in key]
    onwards = Lane(replace(lane.work, gaps=GapPolicy(True, gap, is_lifted=True)), stopped, OURS, 0, None)
    onwards.skip_gap(15, TIME + 5)
    assert (onwards.stopped, onwards.upstream) == (None, 15)
    for key, value in onwards.unrecorded():
        state.apply(key, value)
    assert state.gaps == {gap.key: replace(state.gaps[gap.key], end=15, passed=True)}


def test_what_others_wrote_into_the_copy_is_passed_by_and_what_is_copied_next_stands_behind_it() -> None:
    lane = new_lane()
    take(lane, dense([record(0), record(1)]))
    send_all(lane, 0)
    lane.unrecorded()
    lane.recorded()
    lane.pass_by_foreign(2)
    assert not lane.is_dirty
    lane.pass_by_foreign(50)
    assert lane.is_dirty
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.position.downstream, handover.clean) == (2, 50, True)
    take(lane, dense([record(2)]))
    send_all(lane, 60)
    assert map_of(lane) == [(0, 0), (1, 1), (2, 60)]


def test_a_copy_that_begins_behind_a_settled_position_is_not_settled_any_more() -> None:
    begun = replace(Position(0, 0, 0, True), settled=True)
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None)
    lane = Lane(work, Handover(begun, (), clean=True), OURS, 0, None)
    handover = lane.result().handover
    assert handover is not None
    assert not handover.position.settled


def test_a_lane_that_is_read_no_further_says_why_first() -> None:
    lane = new_lane()
    lane.look_again("the first reason")
    lane.look_again("another")
    assert lane.why_troubled == "the first reason"


def test_a_lane_was_resumed_only_where_nobody_said_how_far_it_got() -> None:
    handover = Handover(Position(0, 0, 0, True), (), clean=True)
    for left, was_resumed in ((None, False), (handover, False), (replace(handover, clean=False), True)):
        work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", left)
        assert Lane(work, handover, OURS, 0, None).was_resumed is was_resumed


def test_a_lane_is_not_at_rest_while_something_is_under_way_though_all_that_was_acknowledged_is_recorded() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    lane.stream.take()
    lane.unrecorded()
    lane.recorded()
    assert not lane.is_dirty
    assert not lane.is_idle


def test_the_handover_is_recorded_once_everything_is() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    send_all(lane, 0)
    before = lane.result().handover
    lane.unrecorded()
    lane.recorded()
    after = lane.result().handover
    assert before is not None
    assert after is not None
    assert (before.is_recorded, after.is_recorded) == (False, True)


def test_batches_are_counted_as_they_were_read_and_records_that_were_decoded_apart() -> None:
    lane = new_lane()
    take(lane, dense([record(0), record(1)]))
    send_all(lane, 0)
    whole = lane.result()
    assert (whole.records, whole.batches, whole.slow_records) == (2, 1, 0)
    take(lane, sparse([record(2), record(4)], 2, 5))
    send_all(lane, 2)
    assert (lane.result().batches, lane.result().slow_records) == (2, 2)
    take(lane, dense([record(5)]), dense([record(6)]), dense([record(7)]))
    send_all(lane, 4)
    merged = lane.result()
    assert (merged.records, merged.batches, merged.slow_records) == (7, 5, 5)


def test_small_batches_are_made_one_with_small_ones_only_and_to_a_limit_unless_the_line_is_long() -> None:
    """Both must be small."""
    merging = new_lane().merging
    small, large = (CopiedBatch(dense([record(0, b"x" * size)])[0], ((0, 1),), 1, 0, (0, 0)) for size in (10, 20_000))
    assert merging.fits(small, len(small.content), small, 0)
    assert not merging.fits(small, len(small.content), large, 0)
    assert not merging.fits(large, len(large.content), small, 0)
    assert merging.fits(large, len(large.content), small, 1 << 20)
    assert merging.fits(small, MERGED_BYTES - len(small.content), small, 0)
    assert not merging.fits(small, MERGED_BYTES - len(small.content) + 1, small, 0)
    merging.largest = 2 * len(small.content)
    assert merging.fits(small, len(small.content), small, 0)
    assert not merging.fits(small, len(small.content) + 1, small, 0)


def test_a_lane_whose_stream_is_closed_or_whose_source_rests_is_not_read() -> None:
    lane = new_lane()
    assert lane.wants_data(0.0)
    lane.pause("the source is away")
    assert not lane.wants_data(lane.backoff_until - 0.001)
    assert lane.wants_data(lane.backoff_until)
    assert lane.backoff_until > 0
    lane.stream.close()
    assert lane.is_over
    assert not lane.wants_data(lane.backoff_until)


def test_how_much_is_copied_is_told_with_the_ages_of_the_records_and_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MET-02: age at the reading, latency at the acknowledgement; a batch is not decoded for either."""
    monkeypatch.setattr("mirror.copier.lane.time.time", lambda: (TIME + 1_000) / 1_000)
    monkeypatch.setattr(batch, "records", None)
    lane = new_lane()
    assert lane.news() is None
    take(lane, dense([record(0), record(100), record(200)]))
    told = lane.news()
    assert told is not None
    assert (told.records, told.bytes, told.acknowledged.count) == (0, 0, 0)
    assert (told.read.count, told.read.least, told.read.most, told.read.mean) == (3, 800, 1_000, 900)
    size = len(lane.stream.take().content)
    assert told.waiting == Waiting(TIME, size / 3)
    assert lane.news() is None
    monkeypatch.setattr("mirror.copier.lane.time.time", lambda: (TIME + 1_500) / 1_000)
    lane.stream.answered(0, 0, "")
    told = lane.news()
    assert told is not None
    assert (told.records, told.bytes, told.read.count, told.waiting) == (3, size, 0, None)
    assert (told.acknowledged.count, told.acknowledged.least, told.acknowledged.most) == (3, 1_300, 1_500)
    assert lane.news() is None


def test_what_was_not_told_of_ages_comes_with_the_result() -> None:
    lane = new_lane()
    take(lane, dense([record(0)]))
    lane.news()
    send_all(lane, 0)
    result = lane.result()
    assert (result.records, result.read.count, result.acknowledged.count) == (1, 0, 1)


def test_a_merged_batch_is_as_old_as_its_oldest_and_as_new_as_its_newest_record() -> None:
    lane = new_lane()
    take(lane, dense([record(5)]), dense([record(6), record(7)]))
    piece = lane.stream.take(1 << 20)
    assert isinstance(piece, CopiedBatch)
    assert (piece.count, piece.times) == (3, (TIME + 5, TIME + 7))


@pytest.mark.parametrize(
    ("base", "newest", "flags", "times"),
    [(5, 9, 0, (5, 9)), (5, 9, 0x08, (9, 9)), (5, 9, 0x40, (9, 9)), (9, 5, 0, (5, 5)), (-1, -1, 0, (-1, -1))],
)
def test_a_header_tells_the_oldest_and_the_newest_time(
    base: int, newest: int, flags: int, times: tuple[int, int]
) -> None:
    """Where the log has stamped the records, a cleaner its horizon, or a clock went back, the newest alone is known."""
    _, header = dense([record(0)])
    assert header._replace(base_timestamp=base, max_timestamp=newest, attributes=flags).times == times
