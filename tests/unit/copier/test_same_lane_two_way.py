"""Two flows between topics of one name keep them alike: what one has copied the other passes by, and never appends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.append_point import AppendPoint
from mirror.copier.same_lane import Content, Hole, SameOffsetsLane
from mirror.copier.tail_match import Batch
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import PLAIN, Header, Producer, Record
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.same_offsets.chain import producer_of
from tests.unit.copier.builders import as_logged, dense, record
from tests.unit.copier.lanes import take

TOPIC = TopicPartition("orders", 3)
THERE, BACK = Flow("east", "west"), Flow("west", "east")
THEIRS = producer_of(BACK)


def lane_of(flow: Flow, at: int = 0, *, is_two_way: bool = True) -> SameOffsetsLane:
    position = Position(at, at, 0, True, same_offsets=True)
    work = PartitionWork(flow, TOPIC, TOPIC, "id", None, pad_limit=1_000, is_two_way=is_two_way)
    return SameOffsetsLane(work, Handover(position, (), clean=True), producer_of(flow), AppendPoint(at, 0, False), None)


def batch_of(first: int, count: int, producer: Producer = PLAIN) -> Batch:
    return dense([record(first + number) for number in range(count)], producer=producer)


def look(lane: SameOffsetsLane, end: int) -> None:
    assert lane.wants_look
    lane.asks()
    lane.looked(end)


def read(lane: SameOffsetsLane, content: Content) -> None:
    assert lane.doubt is not None
    assert not lane.wants_look
    assert not lane.is_idle
    lane.read(lane.doubt, content)


def test_nothing_is_appended_before_it_is_known_where_the_copy_ends() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5))
    assert not lane.stream.can_send(float("inf"))
    look(lane, 0)
    assert lane.stream.can_send(float("inf"))


def test_what_the_flow_back_has_copied_is_passed_by_and_mapped() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5, THEIRS))
    look(lane, 5)
    assert lane.stream.is_idle
    assert (lane.upstream, lane.append_point.end, lane.stopped) == (5, 5, None)
    assert lane.result().handover is not None
    assert [tuple(run) for run in lane.result().handover.runs] == [(0, 0, 5)]  # type: ignore[union-attr]


def test_what_the_flow_back_has_copied_is_copied_to_a_topic_that_was_made_anew() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5, THEIRS))
    look(lane, 0)
    assert lane.stream.can_send(float("inf"))


def test_what_was_copied_back_since_the_end_was_asked_for_waits_for_the_next_answer() -> None:
    """Else it would be appended behind the record that it is a copy of."""
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5, THEIRS))
    lane.asks()
    take(lane, batch_of(5, 1, THEIRS))
    lane.looked(5)
    assert not lane.stream.can_send(float("inf"))
    look(lane, 6)
    assert lane.stream.is_idle
    assert lane.append_point.end == 6


def appended(lane: SameOffsetsLane, at: int) -> Header:
    """Let the copy take the next batch at an offset; return it."""
    _, header = as_logged(lane.stream.take().content, at)
    lane.stream.answered(0, at, "")
    return header


def test_behind_a_pause_it_is_looked_up_again_and_not_for_what_follows_at_once() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5))
    look(lane, 0)
    take(lane, batch_of(5, 1))
    assert not lane.wants_look
    appended(lane, 0)
    take(lane, batch_of(6, 1))
    assert lane.wants_look
    assert not lane.stream.can_send(float("inf"))


def test_what_goes_out_behind_what_was_passed_by_has_the_next_sequence() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5, THEIRS))
    take(lane, batch_of(5, 2))
    look(lane, 5)
    assert appended(lane, 5).base_sequence == 0
    take(lane, batch_of(7, 1))
    look(lane, 7)
    assert appended(lane, 7).base_sequence == 2


def test_a_hole_that_was_read_since_the_end_was_asked_for_waits_for_the_next_answer() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 1))
    look(lane, 0)
    take(lane, batch_of(3, 1))
    appended(lane, 0)
    assert lane.hole is None
    look(lane, 1)
    assert lane.hole is not None
    assert lane.hole.until == 3


@pytest.mark.parametrize("content", [Content.OTHERS, Content.NOTHING])
@pytest.mark.parametrize("is_two_way", [True, False])
def test_where_the_copy_holds_something_else_nothing_is_appended_and_the_partition_stops(
    is_two_way: bool, content: Content
) -> None:
    """Markers, too, have offsets that the source has records at."""
    lane = lane_of(THERE, is_two_way=is_two_way)
    take(lane, batch_of(0, 5))
    look(lane, 3)
    assert not lane.stream.can_send(float("inf"))
    read(lane, content)
    assert not lane.stream.can_send(float("inf"))
    assert lane.stopped is not None
    assert "orders-3 on west goes up to offset 3 with records that east does not have there, from 0 on" in lane.stopped
    assert not lane.wants_look


def test_one_way_what_lies_in_the_copy_is_nobodys_copy() -> None:
    lane = lane_of(THERE, is_two_way=False)
    take(lane, batch_of(0, 5, THEIRS))
    look(lane, 5)
    read(lane, Content.OTHERS)
    assert lane.stopped is not None


@pytest.mark.parametrize("is_two_way", [True, False])
def test_what_an_engine_before_had_sent_and_comes_late_is_looked_up_and_stops_nothing(is_two_way: bool) -> None:
    lane = lane_of(THERE, is_two_way=is_two_way)
    take(lane, batch_of(0, 5))
    look(lane, 3)
    read(lane, Content.OWN)
    assert (lane.stopped, lane.is_lost) == (None, True)


def behind_retention(lane: SameOffsetsLane) -> None:
    lane.skip_gap(150, 0)
    take(lane, batch_of(150, 5))


def behind_retention_within_a_batch(lane: SameOffsetsLane) -> None:
    """A broker answers with the whole batch in which its log starts."""
    lane.skip_gap(110, 0)
    take(lane, batch_of(100, 20))


def behind_compaction(lane: SameOffsetsLane) -> None:
    take(lane, batch_of(120, 5))


def behind_a_marker(lane: SameOffsetsLane) -> None:
    lane.fetch_position = 101
    take(lane, batch_of(101, 5))


@pytest.mark.parametrize(
    ("fetch", "end"),
    [
        (behind_retention, 110),
        (behind_retention_within_a_batch, 110),
        (behind_compaction, 110),
        (behind_a_marker, 101),
    ],
)
@pytest.mark.parametrize(("content", "waits"), [(Content.OTHERS, True), (Content.NOTHING, False)])
def test_where_the_source_has_nothing_the_copy_is_read_before_it_is_passed_by(
    fetch: Callable[[SameOffsetsLane], None], end: int, content: Content, waits: bool
) -> None:
    """East was lost, and has come back with records that nobody has copied, at offsets that west has removed.

    Or the flow back has left records out, and is further than was known when the epoch began: so nothing is stopped.
    """
    lane = lane_of(BACK, 100)
    fetch(lane)
    look(lane, end)
    assert (lane.upstream, lane.append_point.end) == (100, 100)
    read(lane, content)
    assert (lane.stopped, lane.is_lost) == (None, False)
    assert ("has none: waits until east->west has passed them" in str(lane.why_troubled)) is waits
    assert lane.append_point.end == (100 if waits else end)


def test_what_the_flow_back_has_copied_by_then_is_not_read() -> None:
    lane = lane_of(BACK, 100)
    lane.fetch_position = 103
    look(lane, 102)
    doubt = lane.doubt
    assert doubt is not None
    assert (doubt.start, doubt.until) == (100, 102)
    take(lane, batch_of(103, 2, producer_of(THERE)))
    assert lane.doubt is None
    lane.read(doubt, Content.OTHERS)
    assert lane.stopped is None
    look(lane, 105)
    assert (lane.append_point.end, lane.doubt) == (105, None)


def test_nor_what_it_has_on_record_as_copied() -> None:
    position = Position(100, 100, 0, True, same_offsets=True)
    back = Position(110, 108, 0, True, 0, "copy", "id", same_offsets=True)
    work = PartitionWork(
        *(BACK, TOPIC, TOPIC, "id", None), target_id="copy", pad_limit=1_000, is_two_way=True, copied_back=back
    )
    handover = Handover(position, (), clean=True)
    lane = SameOffsetsLane(work, handover, producer_of(BACK), AppendPoint(100, 0, False), None)
    behind_compaction(lane)
    look(lane, 110)
    assert lane.doubt is not None
    assert (lane.doubt.start, lane.doubt.until) == (108, 110)


def test_a_copy_that_is_ahead_waits_for_its_records_to_be_copied_back() -> None:
    lane = lane_of(THERE)
    take(lane, batch_of(0, 2, THEIRS))
    look(lane, 9)
    assert (lane.append_point.end, lane.stopped, lane.wants_look) == (2, None, False)
    take(lane, batch_of(2, 7, THEIRS))
    look(lane, 9)
    assert (lane.append_point.end, lane.stopped, lane.wants_look) == (9, None, False)


@pytest.mark.parametrize(("is_two_way", "stops"), [(True, False), (False, True)])
def test_a_copy_that_grows_while_nothing_is_copied_is_somebody_else_s_only_one_way(
    is_two_way: bool, stops: bool
) -> None:
    lane = lane_of(THERE, 10, is_two_way=is_two_way)
    lane.pass_by_foreign(13)
    assert (lane.stopped is not None) == stops


def followed_by(back: Position, at: int) -> SameOffsetsLane:
    """Return a lane of the flow from west at an offset, whose flow back is on record at ``back``."""
    work = PartitionWork(
        *(BACK, TOPIC, TOPIC, "id", None), target_id="copy", pad_limit=1_000, is_two_way=True, copied_back=back
    )
    handover = Handover(Position(at, at, 0, True, same_offsets=True), (), clean=True)
    return SameOffsetsLane(work, handover, producer_of(BACK), AppendPoint(at, 0, False), None)


def gaps_of(lane: SameOffsetsLane) -> list[tuple[int, int]]:
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    return [(each.start, each.end) for each in state.open_gaps]


HEADLESS = Position(150, 0, 150, True, 0, "copy", "id", same_offsets=True)
UP_TO_130 = Position(130, 130, 0, True, 0, "copy", "id", same_offsets=True)


@pytest.mark.parametrize(
    ("back", "starts_at", "gaps"),
    [
        # The flow back has removed the padding of its copy's head, which this flow was reading.
        (HEADLESS, 150, []),
        # What has gone elsewhere is not that; nor is the head of a copy of another topic.
        (HEADLESS, 160, [(100, 160)]),
        (replace(HEADLESS, topic_id="former"), 150, [(100, 150)]),
        (Position(90, 90, 0, True, 0, "copy", "id", same_offsets=True), 150, [(100, 150)]),
        # Retention has removed what the flow back had copied, before this flow had passed it.
        (UP_TO_130, 120, []),
        (UP_TO_130, 150, [(130, 150)]),
        (replace(UP_TO_130, topic_id="former"), 120, [(100, 120)]),
    ],
)
def test_what_the_flow_back_has_written_is_no_gap_when_it_is_removed(
    back: Position, starts_at: int, gaps: list[tuple[int, int]]
) -> None:
    lane = followed_by(back, 100)
    lane.skip_gap(starts_at, 0)
    take(lane, batch_of(starts_at, 5, producer_of(THERE)))
    assert gaps_of(lane) == gaps
    lane.recorded()
    look(lane, starts_at + 5)
    if not gaps:
        assert (lane.append_point.end, lane.doubt, lane.stopped) == (starts_at + 5, None, None)


def test_a_copy_that_ends_before_where_it_did_is_looked_up_anew_once_its_leader_says_so_again() -> None:
    """Whoever leads it no more, and has not heard of that, may be the first to answer."""
    lane = lane_of(THERE, 10)
    take(lane, batch_of(10, 1))
    look(lane, 4)
    assert (lane.is_lost, lane.why_troubled) == (False, None)
    assert not lane.stream.can_send(float("inf"))
    assert lane.look_at > time.monotonic()
    look(lane, 4)
    assert lane.why_troubled == "orders-3 ends at 4, and ended at 10 before"
    assert lane.is_lost


def between_two_batches() -> SameOffsetsLane:
    """Return a lane that has something to send, nothing on its way, and has read on since it was looked up.

    So it is asked where its copy ends, and what is next may go at the same moment.
    """
    lane = lane_of(THERE)
    take(lane, batch_of(0, 5))
    look(lane, 0)
    for first, behind in ((0, 5), (5, 7)):
        lane.stream.take()
        take(lane, batch_of(behind, 2))
        lane.stream.answered(0, first, "")
    assert lane.wants_look
    assert lane.stream.can_send(float("inf"))
    return lane


def test_nothing_goes_out_between_two_answers_that_a_copy_is_shorter() -> None:
    lane = between_two_batches()
    look(lane, 6)
    assert not lane.stream.can_send(float("inf"))
    look(lane, 7)
    assert lane.stream.can_send(float("inf"))


def test_a_copy_that_ends_where_it_did_after_all_is_gone_on_with() -> None:
    lane = lane_of(THERE, 10)
    take(lane, batch_of(10, 1))
    look(lane, 9)
    look(lane, 10)
    assert lane.stream.can_send(float("inf"))
    appended(lane, 10)
    take(lane, batch_of(11, 1))
    look(lane, 10)
    assert (lane.is_lost, lane.why_troubled) == (False, None)


def test_an_answer_from_before_the_last_append_says_nothing() -> None:
    """A batch that was answered went out with the question where the copy ends, and was answered first.

    Where it ended before was taken for a log that was cut off: the partition stopped, and was looked up anew.
    """
    lane = between_two_batches()
    lane.asks()
    appended(lane, 7)
    take(lane, batch_of(9, 1))
    assert lane.wants_look
    lane.looked(7)
    assert (lane.is_lost, lane.look_at, lane.append_point.end) == (False, 0, 9)
    look(lane, 9)
    assert lane.stream.can_send(float("inf"))


@pytest.mark.parametrize("is_two_way", [True, False])
def test_where_the_copy_ends_while_a_hole_is_filled_says_nothing_and_is_asked_again_behind_it(is_two_way: bool) -> None:
    """The marker that filled it was taken for what others had written, and the next record went out before its time."""
    lane = lane_of(THERE, is_two_way=is_two_way)
    take(lane, batch_of(0, 1))
    lane.fetch_position = 2  # a marker
    look(lane, 0)
    appended(lane, 0)
    hole = lane.hole
    assert hole is not None
    lane.asks()
    lane.being_filled()
    take(lane, batch_of(2, 1))
    assert (lane.wants_look, lane.is_idle) == (False, False)
    lane.looked(2)
    assert (lane.append_point.end, lane.stopped, lane.stream.can_send(float("inf"))) == (1, None, False)
    lane.filled(hole, AppendPoint(2, 1, False))
    lane.looked(2)
    assert not lane.stream.can_send(float("inf"))
    look(lane, 2)
    assert appended(lane, 2).base_sequence == 1


class Topic:
    """One of the two topics: its batches, and where it ends."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end = 0

    def append(self, content: memoryview) -> int:
        one, header = as_logged(content, self.end)
        self.batches.append((one, header))
        base, self.end = self.end, header.next_offset
        return base

    @property
    def records(self) -> list[Record]:
        return [each for content, _ in self.batches for each in batch.records(content)]

    def fetch(self, lane: SameOffsetsLane) -> None:
        found = [each for each in self.batches if each[1].next_offset > lane.fetch_position]
        if found and not lane.is_over:
            take(lane, found[0])
        elif self.end > lane.fetch_position:
            # A marker at the end.
            lane.fetch_position = self.end


class Pair:
    """Two topics, a flow each way, and applications that write to one of the two at a time."""

    def __init__(self) -> None:
        self.topics = {"east": Topic(), "west": Topic()}
        self.lanes = {flow.source: lane_of(flow) for flow in (THERE, BACK)}
        self.asked: dict[str, int] = {}
        self.sent: dict[str, list[int]] = {"east": [], "west": []}
        self.filling: dict[str, Hole] = {}
        self.active = "east"
        self.written: list[Record] = []

    def take_step(self, what: str, at: str) -> None:
        lane, source = self.lanes[at], self.topics[at]
        copy = self.topics[lane.work.flow.target]
        if what == "write":
            one = record(self.topics[self.active].end)
            self.written.append(one)
            self.topics[self.active].append(dense([one])[0])
        elif what == "marker":
            self.topics[self.active].end += 1
        elif what == "fetch":
            source.fetch(lane)
        elif what == "ask" and lane.wants_look and at not in self.asked:
            lane.asks()
            self.asked[at] = copy.end
        elif what == "answer" and at in self.asked:
            lane.looked(self.asked.pop(at))
        elif what == "read" and (doubt := lane.doubt) is not None:
            there = [
                each for each in copy.batches if doubt.start < each[1].next_offset and each[1].base_offset < doubt.until
            ]
            others = any(header.producer_id != doubt.own for _, header in there)
            lane.read(doubt, Content.OTHERS if others else Content.OWN if there else Content.NOTHING)
        elif what == "send" and lane.stream.can_send(float("inf")):
            self.sent[at].append(copy.append(lane.stream.take().content))
        elif what == "acknowledge" and self.sent[at]:
            lane.stream.answered(0, self.sent[at].pop(0), "")
        elif what == "fill" and at not in self.filling and (hole := lane.hole) is not None and lane.may_fill(hole):
            # The first look of who fills tells whether there is anything to be filled.
            assert copy.end == hole.append_point.end
            self.filling[at] = hole
            lane.being_filled()
        elif what == "marker arrives" and at in self.filling and copy.end < self.filling[at].until:
            copy.end += 1
        elif what == "filled" and at in self.filling and copy.end >= self.filling[at].until:
            hole = self.filling.pop(at)
            assert copy.end == hole.until
            lane.filled(hole, AppendPoint(copy.end, hole.append_point.sequence, False))
        elif what == "switch" and self.topics["east"].end == self.topics["west"].end and not self.filling:
            self.active = lane.work.flow.target
        # Nor is it asked a second time whether a copy is shorter.
        assert (lane.stopped, lane.is_lost, lane.look_at) == (None, False, 0)

    def settle(self) -> None:
        for _ in range(200):
            for what in ("fetch", "ask", "answer", "read", "send", "acknowledge", "fill", "marker arrives", "filled"):
                for at in self.lanes:
                    self.take_step(what, at)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("write", "marker", "fetch", "ask", "answer", "read", "send", "acknowledge", "fill", "marker arrives"),
                *("filled", "switch"),
            ]
        ),
        st.sampled_from(["east", "west"]),
    ),
    max_size=60,
)


@given(_STEPS)
def test_both_topics_have_every_record_once_at_the_same_offset_however_the_two_flows_take_turns(
    steps: list[tuple[str, str]],
) -> None:
    pair = Pair()
    for what, at in steps:
        pair.take_step(what, at)
    pair.settle()
    east, west = pair.topics["east"], pair.topics["west"]
    expected = [(each.offset, each.key, each.value) for each in pair.written]
    assert [(each.offset, each.key, each.value) for each in east.records] == expected
    assert [(each.offset, each.key, each.value) for each in west.records] == expected
    assert east.end == west.end
    assert [lane.append_point.end for lane in pair.lanes.values()] == [east.end, west.end]
