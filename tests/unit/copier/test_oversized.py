"""Batches that the target finds too large go in smaller ones, and records that are too large alone are parked.

Whatever is killed, or lost on its way, at whatever moment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier import oversized
from mirror.copier.lane import Lane
from mirror.copier.merging import SMALL_BATCH_BYTES
from mirror.copier.tail_match import Batch, Matched, match_tail
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Producer, Record
from mirror.kafka.wire import FetchedPartition
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.parked import parked_topic
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.translation import Exact
from tests.unit.copier.builders import TIME, dense, record, sparse
from tests.unit.copier.lanes import Target

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
TOO_LARGE, LIST_TOO_LARGE = 10, 18
PARKED = parked_topic("east")
REST = float("inf")


def work() -> PartitionWork:
    return PartitionWork(Flow("east", "west"), SOURCE, TARGET, "", None)


def lane_at(handover: Handover, producer: int = 7, *, parks: bool = True, sequence: int = 0) -> Lane:
    return Lane(work(), handover, Producer(producer, 0), sequence, None, PARKED if parks else None)


def new_lane(*, parks: bool = True, sequence: int = 0) -> Lane:
    return lane_at(Handover(Position(0, 0, 0, True), (), clean=True), parks=parks, sequence=sequence)


def take(lane: Lane, batches: Sequence[Batch]) -> None:
    frame = memoryview(bytearray(b"".join(bytes(content) for content, _ in batches)))
    lane.take(frame, FetchedPartition(SOURCE, 0, 1000, 1000, 0, (), 0, len(frame)), read_committed=False)


def serve(lane: Lane, target: Target, *, at_once: int = 1) -> None:
    """Let the target handle what comes, up to ``at_once`` batches in flight."""
    while lane.stream.can_send(REST):
        sent = []
        while lane.stream.can_send(REST) and len(sent) < at_once:
            sent.append(bytes(lane.stream.take().content))
        for content in sent:
            lane.stream.answered(*target.append(content), "")


def commit(lane: Lane, state: list[StateRecord]) -> None:
    state += lane.unrecorded()
    lane.recorded()


def folded(records: Sequence[StateRecord]) -> FlowState:
    state = FlowState()
    for key, value in records:
        state.apply(key, value)
    return state


def contents(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [tuple(each[1:5]) for each in records]


def of_size(offset: int, size: int) -> Record:
    return record(offset, b"%d" % offset * size)


def limit_of(one: Record) -> int:
    """The size of the smallest batch with this record."""
    return len(batch.encode([one], 0, Producer(7, 0), 0))


@pytest.mark.parametrize("code", [TOO_LARGE, LIST_TOO_LARGE])
@pytest.mark.parametrize("at_once", [1, 5])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_that_is_too_large_goes_in_smaller_ones(code: int, at_once: int, codec: int) -> None:
    """As few as it takes, by halves, with the sequences that the broker expects."""
    noise = random.Random(codec)
    records = [record(number, noise.randbytes(SMALL_BATCH_BYTES // 5)) for number in range(40)]
    batches = [dense(records[start : start + 10], codec) for start in range(0, 40, 10)]
    limit = min(len(content) for content, _ in batches) - 1
    lane, target = new_lane(sequence=2**31 - 15), Target(limit, code)
    take(lane, batches)
    serve(lane, target, at_once=at_once)
    assert contents(target.records()) == contents(records)
    assert {header.codec for _, header in target.log} == {codec}
    assert all(header.is_dense for _, header in target.log)
    assert target.appended == 8
    assert lane.upstream == 40
    assert lane.stream.bytes == 0
    assert lane.acknowledged_sequence == 40 - 15
    assert folded(lane.unrecorded()).offset_map(SOURCE).translate(17) == Exact(17)  # type: ignore[union-attr]


def test_what_comes_after_a_refusal_is_cut_before_it_is_sent() -> None:
    lane = new_lane()
    first, second = (dense([of_size(start + each, 3000) for each in range(5)]) for start in (0, 5))
    target = Target(len(first[0]) - 1)
    take(lane, [first])
    serve(lane, target)
    take(lane, [second])
    serve(lane, target)
    assert target.refused == 1
    assert contents(target.records()) == contents([of_size(each, 3000) for each in range(10)])


def test_a_compacted_batch_is_cut_too_and_its_holes_stay_where_they_are() -> None:
    kept = [record(offset) for offset in (3, 4, 9, 10, 11, 20)]
    one = sparse(kept, 0, 30)
    lane, target = new_lane(), Target(220)
    take(lane, [one])
    serve(lane, target)
    assert target.refused > 0
    assert contents(target.records()) == contents(kept)
    known = folded(lane.unrecorded()).offset_map(SOURCE)
    assert known is not None
    assert [known.translate(each.offset) for each in kept] == [Exact(place) for place in range(6)]
    assert lane.upstream == 30


def test_an_oversized_record_stops_its_partition_right_before_it_by_default() -> None:
    records = [record(0), record(1), of_size(2, 500), record(3)]
    lane, target = new_lane(parks=False), Target(limit_of(records[2]) - 1)
    take(lane, [dense(records)])
    serve(lane, target)
    result = lane.result()
    assert result.stopped is not None
    assert "the record at upstream offset 2: MessageSizeTooLarge" in result.stopped
    assert "mirror.oversized.records = park" in result.stopped
    assert contents(target.records()) == contents(records[:2])
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean) == (2, True)


def test_a_parked_record_holds_the_partition_until_its_gap_is_recorded() -> None:
    """First the dead letter, then gap and position together, then what follows."""
    records = [record(0), of_size(1, 500), record(2), record(3)]
    lane, target, state = new_lane(), Target(limit_of(records[1]) - 1), list[StateRecord]()
    take(lane, [dense(records)])
    serve(lane, target)
    assert contents(target.records()) == contents(records[:1])
    commit(lane, state)
    assert (folded(state).positions[SOURCE].upstream, folded(state).gaps) == (1, {})
    assert lane.dead_letter is not None
    (parked,) = batch.records(lane.dead_letter.content)
    assert contents([parked._replace(headers=records[1].headers)]) == contents(records[1:2])
    assert parked.headers[: len(records[1].headers)] == records[1].headers
    told = dict(parked.headers[len(records[1].headers) :])
    assert {
        name: told[f"mirror.parked.{name}"] for name in ("cluster", "topic", "partition", "offset", "timestamp")
    } == {
        "cluster": b"east",
        "topic": b"orders",
        "partition": b"3",
        "offset": b"1",
        "timestamp": b"%d" % (TIME + 1),
    }
    assert b"takes no batch of" in (told["mirror.parked.reason"] or b"")
    lane.parked()
    assert lane.dead_letter is None
    serve(lane, target)
    assert len(target.records()) == 1
    assert lane.upstream == 1
    commit(lane, state)
    ((gap),) = folded(state).gaps.values()
    assert (gap.source, gap.start, gap.end) == (SOURCE, 1, 2)
    assert PARKED in gap.reason
    assert folded(state).positions[SOURCE].upstream == 2
    serve(lane, target, at_once=5)
    assert contents(target.records()) == contents([records[0], *records[2:]])
    assert lane.upstream == 4
    assert lane.stream.bytes == 0
    assert lane.result().trouble is None


def test_a_parked_record_is_the_only_one_that_its_gap_speaks_of() -> None:
    """Offsets behind it that hold nothing are no records that the copy lacks."""
    big = of_size(1, 500)
    lane, target, state = new_lane(), Target(limit_of(big) - 1), list[StateRecord]()
    take(lane, [sparse([big], 0, 6)])
    serve(lane, target)
    lane.parked()
    commit(lane, state)
    ((gap),) = folded(state).gaps.values()
    assert (gap.start, gap.end) == (1, 2)
    assert folded(state).positions[SOURCE].upstream == 6


def test_a_record_that_cannot_be_parked_either_stops_its_partition() -> None:
    lane, target = new_lane(), Target(200)
    take(lane, [dense([of_size(0, 500)])])
    serve(lane, target)
    lane.cannot_park("the target answers MessageSizeTooLarge")
    stopped = lane.result().stopped
    assert stopped is not None
    assert "offset 0 cannot be copied" in stopped
    assert f"nor parked in {PARKED}: the target answers" in stopped
    assert lane.dead_letter is None
    assert not lane.stream.can_send(REST)


def test_a_letter_that_is_not_recorded_when_the_epoch_ends_leaves_the_position_before_its_record() -> None:
    """The next epoch would go on behind it although the state topic does not know yet that it may."""
    lane, target = new_lane(), Target(200)
    take(lane, [dense([record(0), of_size(1, 500), record(2)])])
    serve(lane, target)
    lane.parked()
    lane.unrecorded()
    lane.stream.wind_down()
    assert lane.stream.is_quiet
    handover = lane.result().handover
    assert handover is not None
    assert (handover.position.upstream, handover.clean) == (1, True)
    again = lane_at(handover, sequence=lane.acknowledged_sequence)
    take(again, [dense([record(0), of_size(1, 500), record(2)])])
    serve(again, target)
    assert again.dead_letter is not None


def test_a_record_that_may_have_been_appended_is_not_parked_but_looked_up() -> None:
    """The limit was lowered while an answer was lost."""
    lane = new_lane()
    take(lane, [dense([of_size(0, 500)])])
    lane.stream.take()
    lane.stream.lost("gone")
    lane.stream.take()
    lane.stream.answered(TOO_LARGE, -1, "")
    result = lane.result()
    assert lane.dead_letter is None
    assert result.stopped is None
    assert result.handover is not None
    assert not result.handover.clean


class World:
    """A source, a target with a limit, a state topic, parked records, and a mirror that can be killed at any moment."""

    def __init__(self, batches: Sequence[Batch], limit: int, data: st.DataObject) -> None:
        self.batches = batches
        self.end = batches[-1][1].next_offset
        self.target = Target(limit)
        self.state: list[StateRecord] = [Position(0, 0, 0, True).record(SOURCE)]
        self.dead_letters: list[Record] = []
        self.pending: list[StateRecord] | None = None
        self.in_flight: list[bytes] = []
        self.producer = 7
        self.data = data
        self.lane = self._begin(Handover(folded(self.state).positions[SOURCE], (), clean=True))

    def _begin(self, handover: Handover) -> Lane:
        lane = lane_at(handover, self.producer)
        take(lane, [each for each in self.batches if each[1].next_offset > handover.position.upstream])
        return lane

    def step(self, what: str) -> None:
        lane = self.lane
        match what:
            case "send" if lane.stream.can_send(REST):
                self.in_flight.append(bytes(lane.stream.take().content))
            case "answer" if self.in_flight:
                lane.stream.answered(*self.target.append(self.in_flight.pop(0)), "")
            case "letter" if lane.dead_letter is not None:
                self.dead_letters += batch.records(lane.dead_letter.content)
                lane.parked()
            case "commit" if self.pending is None and lane.is_dirty:
                self.pending = lane.unrecorded()
            case "committed" if self.pending is not None:
                self.state += self.pending
                self.pending = None
                lane.recorded()
            case "lost" if self.in_flight:
                self._handle_some()
                lane.stream.lost("connection lost")
            case "killed":
                self._handle_some()
                if lane.dead_letter is not None and self.data.draw(st.booleans(), "letter written, not known"):
                    self.dead_letters += batch.records(lane.dead_letter.content)
                if self.pending is not None and self.data.draw(st.booleans(), "commit written, not known"):
                    self.state += self.pending
                self._resume()
        if not self.in_flight and self.lane.stream.closed:
            self._resume()

    def _handle_some(self) -> None:
        for content in self.in_flight[: self.data.draw(st.integers(0, len(self.in_flight)), "handled all the same")]:
            self.target.append(content)
        self.in_flight.clear()

    def _resume(self) -> None:
        """Begin anew from what the target has on record, as :mod:`mirror.copier.resume` does."""
        self.pending = None
        self.in_flight.clear()
        self.producer += 1
        state = folded(self.state)
        position = state.positions[SOURCE]
        outcome = match_tail(
            [each for each in self.batches if each[1].next_offset > position.upstream],
            [each for each in self.target.log if each[1].base_offset >= position.downstream],
            position.upstream,
            range(7, self.producer).__contains__,
        )
        assert isinstance(outcome, Matched), outcome
        runs = list(state.open_runs(SOURCE))
        for run in outcome.runs:
            batch_end = run.downstream + run.length
            assert batch_end <= self.target.end
            runs.append(run)
        at = Position(outcome.upstream, self.target.end, 0, True)
        self.lane = self._begin(Handover(at, tuple(runs), clean=True, is_recorded=False))


STEPS = ["send", "send", "send", "answer", "answer", "letter", "commit", "committed", "lost", "killed"]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from([1, 1, 20, 90, 400]), min_size=1, max_size=6), st.sampled_from([0, 1, 3])),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from(STEPS), max_size=60),
    st.data(),
)
def test_every_record_is_copied_once_or_parked_whatever_happens(
    shapes: list[tuple[list[int], int]], steps: list[str], data: st.DataObject
) -> None:
    """Nothing is lost, altered or there twice; a gap stands where a record was parked, and nowhere else."""
    batches, records, too_large = [], [], set()
    limit = 300
    for sizes, codec in shapes:
        # What does not shrink when it is compressed.
        made = [
            record(len(records) + place, data.draw(st.binary(min_size=size, max_size=size), "value"))
            for place, size in enumerate(sizes)
        ]
        batches.append(dense(made, codec))
        records += made
        too_large |= {each.offset for each in made if len(batch.encode([each], codec, Producer(7, 0), 0)) > limit}
    world = World(batches, limit, data)
    for step in steps:
        world.step(step)
    for _ in range(40 * len(records)):
        for step in ("send", "answer", "letter", "commit", "committed"):
            world.step(step)
        if world.lane.upstream == world.end and not world.lane.is_dirty:
            break
    assert contents(world.target.records()) == contents([each for each in records if each.offset not in too_large])
    dead_letters = {int(dict(each.headers)["mirror.parked.offset"] or b"") for each in world.dead_letters}
    assert dead_letters == too_large
    state = folded(world.state)
    assert {gap.start for gap in state.gaps.values()} == too_large
    assert state.positions[SOURCE].upstream == world.end
    known = state.offset_map(SOURCE)
    assert known is not None
    expected = [each.offset for each in records if each.offset not in too_large]
    assert [known.translate(offset) for offset in expected] == [Exact(place) for place in range(len(expected))]


@pytest.mark.parametrize(
    ("offset", "value", "is_parked"), [(5, b"large", True), (5, b"other", False), (6, b"large", False)]
)
def test_only_the_very_record_is_taken_for_one_that_is_parked_already(
    offset: int, value: bytes, *, is_parked: bool
) -> None:
    """Where the topic was created anew another one has its offset."""

    def letter(offset: int, value: bytes) -> oversized.DeadLetter:
        content, _ = dense([record(offset, value)])
        found = oversized.dead_letter(content, "east", SOURCE, offset, offset + 1, "parked", "too large", TIME)
        assert found is not None
        return found

    parked = oversized._parked(letter(5, b"large").content)
    assert oversized.is_among(letter(offset, value), parked) is is_parked
