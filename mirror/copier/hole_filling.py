"""Fills holes of copies with the source's offsets, beside the copy loop: one transaction serves many."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from mirror.copier.append_point import AppendPoint
from mirror.copier.markers import Markers
from mirror.copier.same_lane import Hole
from mirror.copier.same_offsets import ForeignWrite, Moved, NotFilled, SameOffsetsCopy, leave_many, leave_one
from mirror.copier.work import FlowWork
from mirror.kafka import partition_state
from mirror.kafka.appending import Appender
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem
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
_Found: TypeAlias = dict[TopicPartition, AppendPoint | NotFilled]


class HoleFiller:
    """Fills the holes of one flow's copies in a task.

    The transactional id of the markers is taken over before the first; what an earlier task, or engine, had asked for
    has happened then, and each copy is looked at behind that.
    """

    def __init__(self, flow: FlowWork, before_writing: Callable[[], None]) -> None:
        """Write to the flow's target; ``before_writing`` raises when nothing may be written."""
        self._flow = flow
        self._before_writing = before_writing
        self._appender = Appender(flow.flow.target, flow.target_client)
        self._markers: Markers | None = None
        self._copies: dict[TopicPartition, SameOffsetsCopy] = {}
        self._is_over = False
        # Held while something is filled: who closes does not wait for it.
        self._filling = threading.Lock()

    def fill(self, holes: Sequence[Hole]) -> Filled:
        """Fill holes for a while; in a thread of its own, one at a time.

        Raises
        ------
        KafkaProblem
            if nothing can be filled now; how far each copy is then is looked up the next time.
        """
        with self._filling:
            try:
                return self._filled(holes)
            except KafkaProblem:
                self._markers = None
                self._copies.clear()
                raise
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
            self._before_writing()
            writes_many = self._appender.may_write_markers()
            self._markers = Markers(self._flow.flow, self._appender.channel, writes_many=writes_many)
        found: _Found = {}
        left = {hole.copy: hole for hole in holes}
        until = time.monotonic() + _SECONDS
        while left:
            self._fill_once(left, found, self._markers)
            if self._is_over or time.monotonic() > until:
                break
        return found | {copy: _append_point(hole, self._copies[copy]) for copy, hole in left.items()}

    def _fill_once(self, left: dict[TopicPartition, Hole], found: _Found, markers: Markers) -> None:
        """Carry out the next step of each hole: markers, which most are filled with, for all copies at once."""
        waits_for_one: list[SameOffsetsCopy] = []
        waits_for_many: dict[SameOffsetsCopy, int] = {}
        wants_epoch = False
        for hole in tuple(left.values()):
            try:
                made = self._copy(hole, markers)
                match step := self._next_step(hole, made, markers):
                    case None | Records():
                        found[hole.copy] = _append_point(left.pop(hole.copy), made)
                    case OneMarker():
                        waits_for_one.append(made)
                    case ManyMarkers(count):
                        waits_for_many[made] = count
                    case RaiseEpoch():
                        wants_epoch = True
                    case _:
                        self._before_writing()
                        made.fill(step, int(time.time() * 1000))
            except (ForeignWrite, Moved, KafkaProblem) as problem:
                self._give_up(left.pop(hole.copy), problem, found)
        if waits_for_many:
            self._before_writing()
            most = max(1, MARKERS_AT_ONCE // len(waits_for_many))
            counts = {copy: min(count, most) for copy, count in waits_for_many.items()}
            for copy, why in leave_many(self._appender, markers, counts).items():
                if isinstance(why, BrokerRefused) and why.is_denied:
                    # Whoever fills holes next asks for the right again.
                    markers.writes_one_at_a_time()
                self._give_up(left.pop(copy), why, found)
        if waits_for_one:
            self._leave_one(waits_for_one, left, found, markers)
        if wants_epoch:
            # Behind the others, which were decided by the epoch of before.
            self._before_writing()
            markers.raise_epoch()

    def _leave_one(
        self,
        waiting: Sequence[SameOffsetsCopy],
        left: dict[TopicPartition, Hole],
        found: _Found,
        markers: Markers,
    ) -> None:
        """Leave a marker in each of some copies; one that can take none now would keep the others from theirs."""
        unable = partition_state.unable_to_append(self._appender.channel, [each.partition for each in waiting])
        for copy, reason in unable.items():
            self._give_up(left.pop(copy), ConnectionFailed(f"{copy} on {self._flow.flow.target}: {reason}"), found)
        able = [each for each in waiting if each.partition not in unable]
        if able:
            self._before_writing()
            for copy, why in leave_one(self._appender, markers, able).items():
                self._give_up(left.pop(copy), why, found)

    def _give_up(
        self,
        hole: Hole,
        problem: NotFilled,
        found: _Found,
    ) -> None:
        found[hole.copy] = problem
        self._copies.pop(hole.copy, None)

    def _copy(self, hole: Hole, markers: Markers) -> SameOffsetsCopy:
        """Return the copy as it is filled: looked at the first time, and known from then on.

        Raises
        ------
        Moved
            if it does not end where the hole begins: what came there instead is not taken for what fills it.
        KafkaProblem
            if the target does not tell.
        """
        made = self._copies.get(hole.copy)
        if made is None:
            made = SameOffsetsCopy(
                hole.producer, self._appender, markers, hole.copy, is_compacted=hole.append_point.is_compacted
            )
            if (end := made.place.copy.bounds.end) != hole.append_point.end:
                raise Moved(hole.copy, hole.append_point.end, end)
            self._copies[hole.copy] = made
        elif made.place.copy.bounds.end < hole.append_point.end:
            made.stands_at(hole.append_point.end, hole.append_point.sequence)
        return made

    @staticmethod
    def _next_step(hole: Hole, made: SameOffsetsCopy, markers: Markers) -> Step | None:
        if made.place.copy.bounds.end > hole.until:
            return None
        return next_step(max(hole.append_point.begins_at, 0), made.place.copy, Ahead(hole.until, 0), markers.known)


def _append_point(hole: Hole, made: SameOffsetsCopy) -> AppendPoint:
    bounds, begins_at = made.place.copy.bounds, hole.append_point.begins_at
    is_headless = bounds.start >= begins_at or hole.append_point.is_compacted
    return replace(
        hole.append_point,
        end=bounds.end,
        sequence=made.place.sequence,
        begins_at=-1 if bounds.end >= begins_at and is_headless else begins_at,
    )
