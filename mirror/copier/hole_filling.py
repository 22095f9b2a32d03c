"""Fills holes of copies with the source's offsets, beside the copy loop: one transaction serves many."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from mirror.copier.append_point import AppendPoint
from mirror.copier.markers import Markers
from mirror.copier.same_lane import Hole
from mirror.copier.same_offsets import (
    Filling,
    ForeignWrite,
    Moved,
    NotFilled,
    SameOffsetsCopy,
    ends_of,
    leave_many,
    leave_one,
)
from mirror.copier.work import FlowWork
from mirror.kafka import partition_state
from mirror.kafka.appending import Appender
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem, LeaderAway, RequestFailed
from mirror.model.partition import TopicPartition
from mirror.same_offsets.filling import (
    MARKERS_AT_ONCE,
    Ahead,
    ManyMarkers,
    OneMarker,
    RaiseEpoch,
    Records,
    Step,
    next_step,
)

# So long others wait for a long hole at most, which is filled in several goes.
_SECONDS = 0.5

Filled: TypeAlias = Mapping[TopicPartition, AppendPoint | NotFilled]
"""By copy how far a hole is filled by now, or why it is not."""


class HoleFiller:
    """Fills the holes of one flow's copies in a task.

    The transactional id of the markers is taken over before the first; what an earlier task, or engine, had asked for
    has happened then, and each copy is looked at behind that.

    Attributes
    ----------
    unanswered
        the copies in which something that was sent may still arrive, since no answer came.
    """

    def __init__(self, flow: FlowWork, before_writing: Callable[[], None]) -> None:
        """Write to the flow's target; ``before_writing`` raises when nothing may be written."""
        self._flow = flow
        self._before_writing = before_writing
        self._appender = Appender(flow.flow.target, flow.target_client)
        self._markers: Markers | None = None
        self._copies: dict[TopicPartition, SameOffsetsCopy] = {}
        self.unanswered: set[TopicPartition] = set()
        self._is_over = False
        # Held while something is filled: who closes does not wait for it.
        self._filling = threading.Lock()

    def fill(self, holes: Sequence[Hole]) -> Filled:
        """Fill holes for a while; in a thread of its own, one at a time.

        Raises
        ------
        KafkaProblem
            if the target cannot be reached, or the transactional id cannot be taken over now.
        """
        with self._filling:
            try:
                return self._filled(holes)
            finally:
                if self._is_over:
                    self._appender.close()

    def close(self) -> None:
        """Fill nothing more; what is being filled ends by itself."""
        self._is_over = True
        if self._filling.acquire(blocking=False):
            self._appender.close()
            self._filling.release()

    def _filled(self, holes: Sequence[Hole]) -> Filled:
        if self._markers is None:
            self._copies.clear()
            self._before_writing()
            writes_many = self._appender.may_write_markers()
            self._markers = Markers(self._flow.flow, self._appender.channel, writes_many=writes_many)
        under_way = _Fill(self._appender, self._markers, self._copies, self.unanswered, self._before_writing, holes)
        under_way.look()
        # What a leader that says nothing has taken of the time is not taken from the others.
        until = time.monotonic() + _SECONDS
        while under_way.left and under_way.is_id_certain:
            under_way.go_on()
            if self._is_over or time.monotonic() > until:
                break
        if not under_way.is_id_certain:
            self._markers = None
        return under_way.found


class _Fill:
    """One fill of the holes of a flow: what fails keeps those copies from being filled that need it, and no others.

    A leader that was not reached once is not asked again: all would wait for it as often as it leads one of the copies.

    Attributes
    ----------
    left
        the holes that are to be filled yet, by copy.
    found
        how far each is filled, or why it is not.
    is_id_certain
        whether the transactional id of the markers is still ours, with nothing under way.
    """

    def __init__(
        self,
        appender: Appender,
        markers: Markers,
        copies: dict[TopicPartition, SameOffsetsCopy],
        unanswered: set[TopicPartition],
        before_writing: Callable[[], None],
        holes: Iterable[Hole],
    ) -> None:
        """Fill ``holes``; of ``copies`` it is known where they stand, and what is found out goes there.

        So it does to ``unanswered``: the copies that were sent something without an answer.
        """
        self._appender = appender
        self._markers = markers
        self._copies = copies
        self._unanswered = unanswered
        self._before_writing = before_writing
        self.left = {hole.copy: hole for hole in holes}
        self.found: dict[TopicPartition, AppendPoint | NotFilled] = {}
        self.is_id_certain = True
        self._leaders: dict[TopicPartition, int] = {}
        self._unreached: dict[int, KafkaProblem] = {}

    def look(self) -> None:
        """Find out where the copies stand; of those that were filled before, whether they end where they did.

        An unclean election may have taken their last records away since: a marker would lie in the place of one.

        Raises
        ------
        ConnectionFailed
            if nobody tells who leads them.
        """
        channel = self._appender.channel
        channel.learn_leaders(self.left)
        for copy in tuple(self.left):
            try:
                self._leaders[copy] = channel.leader(copy)
            except KafkaProblem as problem:
                self._give_up(copy, problem)
        known: dict[int, list[Hole]] = {}
        for hole in tuple(self.left.values()):
            if hole.copy in self._copies:
                known.setdefault(self._leaders[hole.copy], []).append(hole)
            else:
                self._ask_leader(hole.copy, partial(self._look_at, hole))
        for holes in known.values():
            self._look_at_known([hole for hole in holes if self._may_be_reached(hole.copy)])

    def go_on(self) -> None:
        """Carry out the next step of each hole: markers, which most are filled with, for all copies at once."""
        waits_for_one: list[SameOffsetsCopy] = []
        waits_for_many: dict[SameOffsetsCopy, int] = {}
        waits_for_epoch: list[SameOffsetsCopy] = []
        for hole in tuple(self.left.values()):
            made = self._copies[hole.copy]
            match step := self._next_step(hole, made):
                case None | Records():
                    self.found[hole.copy] = _append_point(self.left.pop(hole.copy), made)
                case OneMarker():
                    waits_for_one.append(made)
                case ManyMarkers(count):
                    waits_for_many[made] = count
                case RaiseEpoch():
                    waits_for_epoch.append(made)
                case _:
                    self._ask_leader(hole.copy, partial(self._fill, made, step))
        self._together(waits_for_many, lambda copies: self._leave_many({each: waits_for_many[each] for each in copies}))
        self._together(waits_for_one, self._leave_one)
        # Behind the others, which were decided by the epoch of before.
        self._together(waits_for_epoch, self._raise_epoch)
        for copy, hole in self.left.items():
            self.found[copy] = _append_point(hole, self._copies[copy])

    def _ask_leader(self, copy: TopicPartition, ask: Callable[[], object]) -> None:
        if self._may_be_reached(copy):
            try:
                ask()
            except (ForeignWrite, Moved, KafkaProblem) as problem:
                self._give_up(copy, problem)

    def _together(
        self,
        waiting: Iterable[SameOffsetsCopy],
        carry_out: Callable[[Sequence[SameOffsetsCopy]], Mapping[TopicPartition, NotFilled]],
    ) -> None:
        """Carry out a step of several copies, which returns, or raises, why some, or all, are to be looked at anew."""
        if not self.is_id_certain:
            return
        able = [each for each in waiting if self._may_be_reached(each.partition)]
        try:
            problems = carry_out(able) if able else {}
        except KafkaProblem as problem:
            self.is_id_certain = False
            problems = {each.partition: problem for each in able}
        for copy, why in problems.items():
            self._give_up(copy, why)

    def _leave_many(self, counts: Mapping[SameOffsetsCopy, int]) -> Mapping[TopicPartition, NotFilled]:
        most = max(1, MARKERS_AT_ONCE // len(counts))
        fewer = {copy: min(count, most) for copy, count in counts.items()}
        found = self._sent(counts, lambda: leave_many(self._appender, self._markers, fewer))
        if any(isinstance(why, BrokerRefused) and why.is_denied for why in found.values()):
            # Whoever fills holes next asks for the right again.
            self._markers.writes_one_at_a_time()
        return found

    def _leave_one(self, copies: Sequence[SameOffsetsCopy]) -> Mapping[TopicPartition, NotFilled]:
        """Leave a marker in each of some copies; one that can take none now would keep the others from theirs."""
        channel = self._appender.channel
        unable = partition_state.unable_to_append(channel, [each.partition for each in copies])
        found: dict[TopicPartition, NotFilled] = {
            copy: RequestFailed(f"{copy} on {channel.alias}: {reason}") for copy, reason in unable.items()
        }
        able = [each for each in copies if each.partition not in unable]
        if able:
            found |= self._sent(able, lambda: leave_one(self._appender, self._markers, able))
        return found

    def _raise_epoch(self, _: object) -> Mapping[TopicPartition, NotFilled]:
        self._before_writing()
        self._markers.raise_epoch()
        return {}

    def _fill(self, made: SameOffsetsCopy, step: Filling) -> None:
        def fill() -> Mapping[TopicPartition, NotFilled]:
            try:
                made.fill(step, int(time.time() * 1000))
            except BrokerRefused as refused:
                return {made.partition: refused}
            return {}

        for problem in self._sent([made], fill).values():
            raise problem

    def _sent(
        self, copies: Iterable[SameOffsetsCopy], send: Callable[[], Mapping[TopicPartition, NotFilled]]
    ) -> Mapping[TopicPartition, NotFilled]:
        """Send something to copies, and keep of which of them no answer came; return what ``send`` does, the problems.

        What a broker takes has it refuse what was sent before; what it refuses does not.
        """
        self._before_writing()
        names, before = {each.partition for each in copies}, frozenset(self._unanswered)
        self._unanswered |= names
        problems = send()
        refused = {each for each, why in problems.items() if isinstance(why, BrokerRefused)} - before
        self._unanswered -= (names - problems.keys()) | refused
        return problems

    def _may_be_reached(self, copy: TopicPartition) -> bool:
        """Whether its leader was reached whenever it was asked for something; if not, the copy is given up."""
        problem = self._unreached.get(self._leaders[copy])
        if problem is not None:
            self._give_up(copy, problem)
        return problem is None

    def _give_up(self, copy: TopicPartition, problem: NotFilled) -> None:
        """Have a copy looked at before it is filled again."""
        hole = self.left.pop(copy)
        self._copies.pop(copy, None)
        if copy in self._leaders and isinstance(problem, ConnectionFailed | LeaderAway):
            self._unreached.setdefault(self._leaders[copy], problem)
        before = self.found.get(copy)
        is_further = isinstance(before, AppendPoint) and before.end > hole.append_point.end
        # What was filled before stays so; what keeps the rest from being filled is met again behind that.
        if not (is_further and isinstance(problem, KafkaProblem)):
            self.found[copy] = problem

    def _look_at(self, hole: Hole) -> None:
        """See where the copy stands: it is looked at the first time, and known from then on.

        Raises
        ------
        Moved
            if it does not end where the hole begins: what came there instead is not taken for what fills it.
        KafkaProblem
            if the target does not tell.
        """
        made = SameOffsetsCopy(
            hole.producer, self._appender, self._markers, hole.copy, is_compacted=hole.append_point.is_compacted
        )
        if (end := made.place.copy.bounds.end) != hole.append_point.end:
            raise Moved(hole.copy, hole.append_point.end, end)
        self._copies[hole.copy] = made

    def _look_at_known(self, holes: Sequence[Hole]) -> None:
        """See that copies that one broker leads end where they are known to."""
        ends = ends_of(self._appender.channel.find_offsets, [hole.copy for hole in holes])
        for hole in holes:
            made, point = self._copies[hole.copy], hole.append_point
            if made.place.copy.bounds.end < point.end:
                made.stands_at(point.end, point.sequence)
            expected = made.place.copy.bounds.end
            if (problem := ends.problems.get(hole.copy)) is not None:
                self._give_up(hole.copy, problem)
            elif ends[hole.copy] != expected:
                self._give_up(hole.copy, Moved(hole.copy, expected, ends[hole.copy]))

    def _next_step(self, hole: Hole, made: SameOffsetsCopy) -> Step | None:
        if made.place.copy.bounds.end > hole.until:
            return None
        copy, markers = made.place.copy, self._markers.known
        return next_step(max(hole.append_point.begins_at, 0), copy, Ahead(hole.until, 0), markers)


def _append_point(hole: Hole, made: SameOffsetsCopy) -> AppendPoint:
    bounds, begins_at = made.place.copy.bounds, hole.append_point.begins_at
    is_headless = bounds.start >= begins_at or hole.append_point.is_compacted
    return replace(
        hole.append_point,
        end=bounds.end,
        sequence=made.place.sequence,
        begins_at=-1 if bounds.end >= begins_at and is_headless else begins_at,
    )
