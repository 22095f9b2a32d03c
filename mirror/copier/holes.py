"""The holes of copies with the source's offsets, as the copy loop has them filled: beside it, all of a flow at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from mirror.copier.append_point import AppendPoint
from mirror.copier.background import BackgroundCalls
from mirror.copier.hole_filling import Filled, HoleFiller
from mirror.copier.lane import Lane
from mirror.copier.same_lane import Hole, SameOffsetsLane
from mirror.copier.share import Share
from mirror.kafka.problems import KafkaProblem
from mirror.model.partition import TopicPartition


class Holes:
    """Finds the lanes that wait at holes, and tells them how far those are filled."""

    def __init__(self, background: BackgroundCalls, touched: Callable[[Lane], None]) -> None:
        """Fill in threads of ``background``; ``touched`` is called of each lane that is told something."""
        self._background = background
        self._touched = touched
        self._begun_at: dict[HoleFiller, float] = {}

    @property
    def begun_at(self) -> Collection[float]:
        """Since when holes are being filled, by flow."""
        return self._begun_at.values()

    def fill(self, now: float, shares: Iterable[Share]) -> None:
        """Begin to fill the holes of each flow of which none is being filled."""
        for share in shares:
            if share.filler is None or share.filler in self._begun_at:
                continue
            waiting = {
                lane.work.target: (lane, hole)
                for lane in share.lanes
                if isinstance(lane, SameOffsetsLane) and now >= lane.stream.backoff_until
                if (hole := lane.hole) is not None and lane.may_fill(hole)
            }
            if waiting:
                self._begun_at[share.filler] = now
                for lane, _ in waiting.values():
                    lane.being_filled()
                call = partial(share.filler.fill, [hole for _, hole in waiting.values()])
                self._background.begin(share.filler, call, partial(self._filled, share.filler, waiting))

    def _filled(
        self,
        filler: HoleFiller,
        waiting: Mapping[TopicPartition, tuple[SameOffsetsLane, Hole]],
        found: Filled | KafkaProblem,
    ) -> None:
        self._begun_at.pop(filler)
        for copy, (lane, hole) in waiting.items():
            now = found[copy] if isinstance(found, Mapping) else found
            may_arrive = copy in filler.unanswered
            if isinstance(now, AppendPoint):
                lane.filled(hole, now, may_arrive=may_arrive)
            else:
                lane.not_filled(now, may_arrive=may_arrive)
            self._touched(lane)
