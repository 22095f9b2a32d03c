"""Where copies of unchanged names end, looked up beside the copy loop before anything is appended to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from mirror.copier.connections import Connections
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.same_lane import SameOffsetsLane
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.problems import KafkaProblem
from mirror.model.flow import Flow


class _Share(Protocol):
    flow: Flow
    lanes: list[Lane]
    filler: HoleFiller | None


class CopyEnds:
    """Finds the lanes that want to know where their copies end, and tells them: of a cluster all at once."""

    def __init__(self, connections: Connections, touched: Callable[[Lane], None]) -> None:
        """Ask over ``connections``; ``touched`` is called of each lane that is told something."""
        self._connections = connections
        self._touched = touched

    def look(self, now: float, shares: Iterable[_Share], clusters: Mapping[tuple[Flow, str], ClusterLinks]) -> None:
        """Begin to ask each target that is not being asked anything."""
        for share in shares:
            if share.filler is None:
                # None of its copies has the source's offsets.
                continue
            waiting = [
                lane
                for lane in share.lanes
                if isinstance(lane, SameOffsetsLane) and lane.wants_look and now >= lane.stream.backoff_until
            ]
            cluster = clusters[share.flow, "target"]
            if waiting and not self._connections.is_asking(cluster):
                for lane in waiting:
                    lane.asks()
                copies = [lane.work.target for lane in waiting]
                # A leader that was just chosen does not know yet what its readers have seen.
                question = partial(Channel.find_offsets, partitions=copies, at=LATEST, view=View.WRITTEN)
                self._connections.ask(cluster, question, partial(self._found, waiting))

    def _found(self, waiting: Sequence[SameOffsetsLane], found: PartitionAnswers[int] | KafkaProblem) -> None:
        ends: PartitionAnswers[int] = PartitionAnswers() if isinstance(found, KafkaProblem) else found
        for lane in waiting:
            copy = lane.work.target
            if copy in ends:
                lane.looked(ends[copy])
            else:
                lane.stream.pause(str(ends.problems.get(copy, found)))
            self._touched(lane)
