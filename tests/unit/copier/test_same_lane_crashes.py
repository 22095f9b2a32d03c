"""One copy with the source's offsets: whatever is lost, refused or killed, no record is missing without being told.

A source and a target in memory do, in the order that Hypothesis thinks of, what clusters do to a copy; engine after
engine goes on with it. After each step the logs and the state topic are compared, as the next engine would find them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mirror.copier import same_places, transforming
from mirror.copier.append_point import AppendPoint
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.placing import LogHistory
from mirror.copier.resume import Ends, Place, Ready, Refused
from mirror.copier.same_lane import Hole, SameOffsetsLane
from mirror.copier.same_offsets import sequence_of
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka.batch import Producer, Record
from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, GapKind
from mirror.model.state_record import StateRecord
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.fillers import RESERVED_KEY
from tests.flows import EAST_WEST, flow_work
from tests.unit.copier.lanes import SOURCE, TARGET, own, take
from tests.unit.copier.same_offsets_in_memory import (
    Failure,
    FillingRequests,
    Killed,
    SourceLog,
    TargetLog,
    is_filler,
    stand_ins,
)

TIMED_OUT, NOT_LEADER = 7, 6
FLOW = flow_work()
POISON = b"poison"


class Copy(RuleBasedStateMachine):
    """One engine after another goes on with the copy, as :mod:`mirror.copier.loop` and its threads would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.source = SourceLog(0)
        self.target = TargetLog()
        self.state = FlowState()
        self.seconds = itertools.count(1)
        self.requests = FillingRequests(self.target, writes_many=False)
        self.transform = own("fail_on_poison", skips_errors=True)
        self.is_compacted = self.stops = False
        self.lane: SameOffsetsLane = cast(SameOffsetsLane, None)
        self.filler: HoleFiller = cast(HoleFiller, None)
        self.in_flight: list[bytes] = []
        self.hole: Hole | None = None
        self.committing: list[StateRecord] | None = None
        self._patch: Any = None

    @initialize(
        start=st.sampled_from([0, 0, 3, 9]),
        is_compacted=st.booleans(),
        writes_many=st.booleans(),
        skips=st.booleans(),
        stops=st.booleans(),
    )
    def begin(self, start: int, is_compacted: bool, writes_many: bool, skips: bool, stops: bool) -> None:
        """The source may have lost its beginning before anything is copied; the copy may be cleaned by key."""
        self.stops = stops
        self.source, self.is_compacted = SourceLog(start), is_compacted
        self.requests = FillingRequests(self.target, writes_many=writes_many)
        self.transform = self.transform if skips else None
        self._patch = stand_ins(self.requests)
        clock = SimpleNamespace(time=lambda: float(next(self.seconds)))
        self._patch.enter_context(mock.patch.object(transforming, "time", clock))
        self._begin(None)

    def _begin(self, handover: Handover | None) -> None:
        """Begin another epoch; nothing of the last one is under way any more."""
        self.in_flight.clear()
        self.hole = self.committing = None
        work = PartitionWork(
            EAST_WEST,
            SOURCE,
            TARGET,
            "of the source",
            handover,
            transform=self.transform,
            target_id="of the copy",
            pad_limit=1_000,
            gaps=self._gap_policy(),
        )
        producer = producer_of(EAST_WEST, work.target_id)
        place = self._place(work, producer)
        assert isinstance(place, Ready), place
        assert place.append_point is not None
        self._keep(place.records)
        self.lane = SameOffsetsLane(work, place.handover, producer, place.append_point, None)
        self.filler = HoleFiller(FLOW, lambda: None)

    def _place(self, work: PartitionWork, producer: Producer) -> Place:
        source, target = self.source, self.target
        return same_places._place(
            FLOW,
            work,
            Ends(source.start, source.end, target.start, target.end, target.end, source.end),
            AppendPoint(target.end, sequence_of(target.producers(), producer), self.is_compacted),
            cast(LogHistory, SimpleNamespace(divergence=lambda *_: None)),
            cast(Channel, source),
            cast(Channel, target),
        )

    def _gap_policy(self) -> GapPolicy:
        barrier = self.state.barriers.get(SOURCE)
        return GapPolicy(self.stops, barrier, barrier is not None and barrier.key in self.state.acknowledgements)

    def _keep(self, records: Iterable[StateRecord]) -> None:
        for key, value in records:
            self.state.apply(key, value)

    # What becomes of the source.

    @rule(count=st.integers(1, 3), poisoned=st.sets(st.integers(0, 2)))
    def records_are_written(self, count: int, poisoned: set[int]) -> None:
        is_poison = [number in poisoned and self.transform is not None for number in range(count)]
        self.source.write([POISON if each else None for each in is_poison])

    @rule(count=st.sampled_from([1, 1, 1, 2, 12]))
    def transactions_end(self, count: int) -> None:
        """Each with a marker; so many that a hole may take many requests to fill."""
        for _ in range(count):
            self.source.mark()

    @rule(data=st.data(), kept=st.sets(st.integers(0, 2), max_size=2))
    @precondition(lambda self: len(self.source.batches) > 1)
    def a_batch_is_compacted(self, data: st.DataObject, kept: set[int]) -> None:
        """Not the last one: it is still written to."""
        self.source.compact(data.draw(st.integers(0, len(self.source.batches) - 2)), kept)
        if not self.is_compacted:
            # A copy that may lack nothing cannot be made of replicas that lack different records.
            self.source.follow()

    @rule()
    def another_replica_of_the_source_leads(self) -> None:
        """It has cleaned and removed what it had when it led last; or it was the one that is read (`client.rack`)."""
        self.source.lead_by_follower()

    @rule(data=st.data(), is_unread=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.source.start < self.source.end)
    def the_source_removes_its_beginning(self, data: st.DataObject, is_unread: bool) -> None:
        """Mostly more than the engine has read."""
        first = min(self.lane.fetch_position, self.source.end - 1) if is_unread else 0
        self.source.remove_before(data.draw(st.integers(max(first, self.source.start) + 1, self.source.end)))

    # What an engine does.

    @rule(most=st.integers(1, 3))
    @precondition(lambda self: self._can_fetch())
    def the_source_is_read(self, most: int) -> None:
        lane = self.lane
        if lane.fetch_position < self.source.start:
            lane.skip_gap(self.source.start, next(self.seconds) * 1000)
        else:
            take(lane, *self.source.fetch(lane.fetch_position, most))

    @rule(count=st.integers(1, 2))
    @precondition(lambda self: not self.lane.is_over)
    def retention_overtakes_the_engine(self, count: int) -> None:
        """Just what the law is about, more often than chance would have it."""
        self.source.write([None] * count)
        self.source.remove_before(self.source.end)
        self.the_source_is_read(1)

    def _can_fetch(self) -> bool:
        is_to_be_read = bool(self.source.fetch(self.lane.fetch_position, 1))
        return not self.lane.is_over and (is_to_be_read or self.lane.fetch_position < self.source.start)

    @rule(is_answered_at_once=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.lane.stream.can_send(math.inf))
    def a_batch_goes_out(self, is_answered_at_once: bool = False) -> None:
        self.in_flight.append(bytes(self.lane.stream.take().content))
        if is_answered_at_once:
            self.a_batch_is_appended()

    @rule()
    @precondition(lambda self: self.in_flight)
    def a_batch_is_appended(self) -> None:
        code, base = self.target.append(self.in_flight.pop(0))
        self.lane.stream.answered(code, base, "", self.target.appended_at)

    @rule(code=st.sampled_from([TIMED_OUT, NOT_LEADER]), is_appended=st.booleans())
    @precondition(lambda self: self.in_flight)
    def a_batch_fails(self, code: int, is_appended: bool) -> None:
        """Or only the leader's patience ends, and the batch is there."""
        content = self.in_flight.pop(0)
        if code == TIMED_OUT and is_appended:
            self.target.append(content)
        self.lane.stream.answered(code, -1, "")

    @rule(appended=st.integers(0, 2))
    @precondition(lambda self: self.in_flight)
    def the_connection_breaks(self, appended: int) -> None:
        self._append(appended)
        self.in_flight.clear()
        self.lane.stream.lost("the connection broke")

    def _append(self, count: int) -> None:
        for content in self.in_flight[:count]:
            self.target.append(content)

    @rule(is_filled_at_once=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.hole is None and self.lane.hole is not None)
    def a_hole_is_handed_to_who_fills_it(self, is_filled_at_once: bool = False) -> None:
        self.hole = self.lane.hole
        assert self.hole is not None
        assert self.lane.may_fill(self.hole)
        self.lane.being_filled()
        if is_filled_at_once:
            self.some_of_a_hole_is_filled()

    @rule(fails=st.none() | st.integers(0, 3))
    @precondition(lambda self: self.hole is not None)
    def some_of_a_hole_is_filled(self, fails: int | None = None) -> None:
        """Or the answer gets lost: to a request that was carried out, was not, or in part."""
        self._fill(None if fails is None else Failure(fails, ConnectionFailed("the connection broke")))

    def _fill(self, failure: Failure | None) -> None:
        hole, self.hole = self.hole, None
        assert hole is not None
        self.requests.failure = failure
        try:
            (found,) = self.filler.fill([hole]).values()
        except KafkaProblem as problem:
            found = problem
        self.requests.failure = None
        if isinstance(found, AppendPoint):
            self.lane.filled(hole, found)
        else:
            self.lane.not_filled(found)

    @rule(is_answered_at_once=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.committing is None and self.lane.is_dirty)
    def a_commit_goes_out(self, is_answered_at_once: bool = False) -> None:
        self.committing = self.lane.unrecorded()
        if is_answered_at_once:
            self.a_commit_is_on_record()

    @rule()
    @precondition(lambda self: self.committing is not None)
    def a_commit_is_on_record(self) -> None:
        self._keep(self.committing or ())
        self.committing = None
        self.lane.recorded()

    @rule()
    @precondition(lambda self: self.lane.is_idle)
    def it_is_looked_who_else_has_written_to_the_copy(self) -> None:
        self.lane.pass_by_foreign(self.target.end)

    @rule()
    @precondition(lambda self: self._waits_for_somebody() and SOURCE in self.state.barriers)
    def a_gap_is_acknowledged(self) -> None:
        barrier = self.state.barriers[SOURCE]
        self._keep([Acknowledgement("somebody", "it is known", next(self.seconds) * 1000).record(barrier.key)])
        self._begin(self.lane.result().handover)

    def _waits_for_somebody(self) -> bool:
        """Whether the partition is stopped at a gap; what was read before that has been copied, or never will be."""
        return self.lane.stopped is not None and self.hole is None and not self.in_flight and self.committing is None

    # How an epoch ends.

    @rule(appended=st.integers(0, 2), is_recorded=st.booleans())
    def the_engine_is_killed(self, appended: int = 0, is_recorded: bool = False) -> None:
        """Of what is not answered some may have been done; the next engine knows what is on record."""
        self._append(appended)
        if is_recorded:
            self._keep(self.committing or ())
        self._begin(Handover(self.state.positions[SOURCE], self.state.open_runs(SOURCE), clean=False))

    @rule(steps=st.integers(0, 3))
    @precondition(lambda self: self.hole is not None)
    def the_engine_is_killed_while_a_hole_is_filled(self, steps: int) -> None:
        with contextlib.suppress(Killed):
            self._fill(Failure(steps, Killed()))
        self.the_engine_is_killed()

    @rule(is_recorded=st.booleans())
    @precondition(lambda self: self.hole is None)
    def the_epoch_ends_in_order(self, is_recorded: bool = True) -> None:
        """What was sent is waited for, and all else handed to the next epoch of the same engine."""
        self.lane.stream.wind_down()
        while self.in_flight or self.lane.stream.can_send(math.inf):
            if self.lane.stream.can_send(math.inf):
                self.a_batch_goes_out()
            self.a_batch_is_appended()
        if self.committing is not None and is_recorded:
            self.a_commit_is_on_record()
        self._begin(self.lane.result().handover)

    # What holds at every moment.

    @invariant()
    def what_is_on_record_is_true(self) -> None:
        self._nothing_stops_the_copy()
        self._what_the_copy_has_is_what_the_source_has_at_the_same_offset()
        self._what_the_copy_has_passed_by_is_on_record_as_a_gap()
        self._a_gap_is_on_record_once_and_has_nothing_that_was_copied()
        self._no_position_is_ahead_of_the_copy()

    def _nothing_stops_the_copy(self) -> None:
        is_at_a_gap = self.stops and "mirror gaps FILE --acknowledge" in (self.lane.stopped or "")
        assert is_at_a_gap or self.lane.stopped is None

    def _what_the_copy_has_is_what_the_source_has_at_the_same_offset(self) -> None:
        for each in self._copied().values():
            original = self.source.written[each.offset]
            assert (each.key, each.value, each.headers) == (original.key, original.value, original.headers)

    def _copied(self) -> dict[int, Record]:
        return {each.offset: each for each in self.target.visible if not is_filler(each)}

    def _what_the_copy_has_passed_by_is_on_record_as_a_gap(self) -> None:
        passed = {offset for offset in self.source.written if offset < self.target.end}
        missing = passed - self._copied().keys() - self.source.compacted
        assert missing <= set(self._in_gaps(GapKind.RETENTION, GapKind.SKIPPED))

    def _in_gaps(self, *kinds: GapKind) -> list[int]:
        """Return the offsets of gaps; one that is in two gaps comes twice."""
        return [at for gap in self.state.gaps.values() if gap.kind in kinds for at in range(gap.start, gap.end)]

    def _a_gap_is_on_record_once_and_has_nothing_that_was_copied(self) -> None:
        removed, left_out = self._in_gaps(GapKind.RETENTION), self._in_gaps(GapKind.SKIPPED)
        # Where a copy stops at a gap that is not on record yet, and the gap has grown, it is there as both.
        assert self.stops or len(removed) == len(set(removed))
        assert len(left_out) == len(set(left_out))
        assert all(offset < self.source.removed for offset in removed)
        assert all(self.source.written[offset].value == POISON for offset in left_out)
        assert not self._copied().keys() & {*removed, *left_out} - self.source.again

    def _no_position_is_ahead_of_the_copy(self) -> None:
        position = self.state.positions[SOURCE]
        assert position.downstream <= self.target.end
        assert position.upstream <= max(position.origin, self.target.end)

    def teardown(self) -> None:
        """In the end all that the source has is copied, and on record."""
        if self._patch is None:
            return
        with self._patch:
            for _ in range(300):
                if self._is_done():
                    break
                self._goes_well()
            assert self._is_done()
            self.what_is_on_record_is_true()
            self._readers_see_no_padding()
            self._the_offset_map_has_all_that_is_copied()

    def _is_done(self) -> bool:
        at = self.state.positions[SOURCE]
        return self.lane.is_idle and at.upstream == at.downstream == self.target.end == self.source.end

    def _goes_well(self) -> None:
        """One round of the copy loop in which nothing goes wrong."""
        if self._waits_for_somebody() and not self.lane.is_dirty and SOURCE in self.state.barriers:
            self.a_gap_is_acknowledged()
        elif self.lane.is_lost:
            self.hole = None
            self.the_epoch_ends_in_order()
        if self._can_fetch():
            self.the_source_is_read(3)
        if self.lane.stream.can_send(math.inf):
            self.a_batch_goes_out()
        if self.in_flight:
            self.a_batch_is_appended()
        if self.lane.hole is not None and self.hole is None:
            self.a_hole_is_handed_to_who_fills_it()
        if self.hole is not None:
            self.some_of_a_hole_is_filled()
        if self.lane.is_dirty and self.committing is None:
            self.a_commit_goes_out()
        if self.committing is not None:
            self.a_commit_is_on_record()

    def _readers_see_no_padding(self) -> None:
        """But for the tombstones of a copy that is cleaned by key; everything else is markers."""
        fillers = [each for each in self.target.visible if is_filler(each)]
        assert self.is_compacted or not fillers
        assert all(each.key == RESERVED_KEY for each in fillers)

    def _the_offset_map_has_all_that_is_copied(self) -> None:
        known = self.state.offset_map(SOURCE)
        assert known is not None
        assert all(run.upstream == run.downstream for run in known.runs)
        assert self._copied().keys() <= {run.upstream + each for run in known.runs for each in range(run.length)}


TestCopy = Copy.TestCase
TestCopy.settings = settings(
    max_examples=max(120, settings.default.max_examples), stateful_step_count=40, report_multiple_bugs=False
)


def a_second_gap_while_one_is_filled(copy: Copy) -> None:
    """The offsets 3 to 5 are read and wait behind the first gap; then they are removed, too."""
    for _ in range(3):
        copy.source.write([None] * 3)
    copy.source.remove_before(3)
    copy.the_source_is_read(1)
    copy.the_source_is_read(1)
    copy.source.remove_before(8)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_engine_is_killed()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)


def a_gap_behind_a_marker_that_is_not_there_yet(copy: Copy) -> None:
    copy.source.mark()
    copy.the_source_is_read(1)
    copy.source.write([None])
    copy.source.remove_before(2)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_epoch_ends_in_order()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)


def a_record_left_out_whose_offset_is_not_filled_yet(copy: Copy) -> None:
    copy.source.write([POISON])
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_epoch_ends_in_order()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)


def a_marker_without_an_answer_and_a_look_for_foreign_writes(copy: Copy) -> None:
    """Who fills holes finds the marker there, and the lane is to be looked up anew: it is its own marker."""
    copy.source.write([None])
    copy.source.mark()
    copy.the_source_is_read(2)
    copy.a_batch_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it()
    copy.some_of_a_hole_is_filled(fails=2)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.it_is_looked_who_else_has_written_to_the_copy()


def a_gap_that_stops_the_copy_behind_a_record_that_is_not_copied_yet(copy: Copy) -> None:
    """What was not copied when the engine was killed is gone by now, and in no gap."""
    copy.source.write([None])
    copy.the_source_is_read(1)
    copy.source.write([None])
    copy.source.remove_before(2)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_engine_is_killed()
    copy.the_source_is_read(1)
    copy.a_gap_is_acknowledged()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)


def a_replica_that_is_not_cleaned_yet_leads_when_the_engine_is_killed(copy: Copy) -> None:
    """The tombstones at 2 and 3 were taken for somebody else's, and the copy stopped for good."""
    _reads_what_one_replica_has_cleaned(copy)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    assert copy.target.end == 4
    copy.source.lead_by_follower()
    copy.the_engine_is_killed()


def an_answer_is_lost_where_a_follower_is_read_that_is_cleaned_before_its_leader(copy: Copy) -> None:
    """Comparisons read the leader: a lost answer was enough to stop it."""
    _reads_what_one_replica_has_cleaned(copy)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it()
    copy.some_of_a_hole_is_filled(fails=1)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    assert copy.lane.is_lost
    copy.source.lead_by_follower()
    copy.the_epoch_ends_in_order()


def _reads_what_one_replica_has_cleaned(copy: Copy) -> None:
    for _ in range(3):
        copy.source.write([None] * 2)
    copy.source.compact(1, set())
    copy.the_source_is_read(3)
    copy.a_batch_goes_out(is_answered_at_once=True)


def a_replica_that_had_removed_less_leads_while_a_gap_is_filled(copy: Copy) -> None:
    for _ in range(3):
        copy.source.write([None] * 2)
    copy.source.remove_before(4)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    assert copy.target.end == 1
    copy.source.lead_by_follower()
    copy.the_engine_is_killed()


@pytest.mark.parametrize(
    ("history", "stops", "is_compacted"),
    [
        (a_second_gap_while_one_is_filled, False, False),
        (a_gap_behind_a_marker_that_is_not_there_yet, False, False),
        (a_record_left_out_whose_offset_is_not_filled_yet, False, False),
        (a_marker_without_an_answer_and_a_look_for_foreign_writes, False, False),
        (a_gap_that_stops_the_copy_behind_a_record_that_is_not_copied_yet, True, False),
        (a_replica_that_is_not_cleaned_yet_leads_when_the_engine_is_killed, False, True),
        (an_answer_is_lost_where_a_follower_is_read_that_is_cleaned_before_its_leader, False, True),
        (a_replica_that_had_removed_less_leads_while_a_gap_is_filled, False, False),
    ],
)
def test_histories_that_broke_the_law_once(history: Callable[[Copy], None], stops: bool, is_compacted: bool) -> None:
    copy = Copy()
    copy.begin(start=0, is_compacted=is_compacted, writes_many=False, skips=True, stops=stops)
    with copy._patch:
        history(copy)
        copy.what_is_on_record_is_true()


def test_what_arrives_late_behind_the_marker_that_fills_its_place_is_not_taken_for_the_next_record() -> None:
    """A marker takes no sequence, so it fits, and the leader answers for the next record that it has that already."""
    copy = Copy()
    copy.begin(start=0, is_compacted=False, writes_many=False, skips=False, stops=False)
    with copy._patch:
        copy.source.write([None])
        copy.the_source_is_read(1)
        copy.a_batch_goes_out(is_answered_at_once=True)
        copy.a_commit_goes_out(is_answered_at_once=True)
        copy.source.write([None])
        copy.the_source_is_read(1)
        copy.a_batch_goes_out()
        (late,) = copy.in_flight
        copy.the_engine_is_killed()
        copy.source.write([None])
        copy.source.remove_before(2)
        copy.the_source_is_read(1)
        copy.a_commit_goes_out(is_answered_at_once=True)
        copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
        copy.target.append(late)
        copy.the_source_is_read(1)
        copy.a_batch_goes_out(is_answered_at_once=True)
        assert copy.lane.is_lost
        if copy.lane.is_dirty:
            copy.a_commit_goes_out(is_answered_at_once=True)
        assert copy.state.positions[SOURCE].upstream == 2
        place = copy._place(
            replace(copy.lane.work, handover=copy.lane.result().handover), producer_of(EAST_WEST, "of the copy")
        )
        assert isinstance(place, Refused)
        assert "its record at offset 2 is not the source's" in place.reason
