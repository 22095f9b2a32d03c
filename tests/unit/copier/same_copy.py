"""One copy with the source's offsets, in memory: what clusters, engines and people do to it, and the law that holds."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mirror.copier import same_places, transforming
from mirror.copier.append_point import AppendPoint
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.placing import LogHistory
from mirror.copier.resume import Ends, Place, Ready
from mirror.copier.same_lane import Hole, SameOffsetsLane
from mirror.copier.same_offsets import sequence_of
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka.batch import Producer, Record
from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord
from mirror.model.state_values import chunk_record
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
            cast(LogHistory, SimpleNamespace(divergence=lambda *_: None, state=self._known)),
            cast(Channel, source),
            cast(Channel, target),
        )

    def _known(self, source: TopicPartition, handover: Handover) -> FlowState:
        """Return what is on record, with what a handover says of the copy."""
        known = copy.deepcopy(self.state)
        for key, value in (
            *handover.unwritten,
            chunk_record(source, handover.position.chunk, handover.runs),
            handover.position.record(source),
        ):
            known.apply(key, value)
        return known

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
