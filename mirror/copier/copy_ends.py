"""Where copies of unchanged names end, and what they hold there, looked up beside the copy loop before it appends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from mirror.copier.connections import Connections
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.same_lane import Content, Doubt, SameOffsetsLane
from mirror.copier.share import Share
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.log import holds_record
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

#: For so long the flow back may say that it has copied what is in doubt: mostly it is about to.
_DOUBT_SECONDS = 0.5


class CopyEnds:
    """Finds the lanes that want to know where their copies end, and tells them: of a cluster all at once."""

    def __init__(self, connections: Connections, touched: Callable[[Lane], None]) -> None:
        """Ask over ``connections``; ``touched`` is called of each lane that is told something."""
        self._connections = connections
        self._touched = touched

    def look(self, now: float, shares: Iterable[Share], clusters: Mapping[tuple[Flow, str], ClusterLinks]) -> None:
        """Begin to ask each target that is not being asked anything."""
        for share in shares:
            if share.filler is None:
                # None of its copies has the source's offsets.
                continue
            waiting = [
                lane
                for lane in share.lanes
                if isinstance(lane, SameOffsetsLane)
                and lane.wants_look
                and now >= max(lane.stream.backoff_until, lane.look_at)
            ]
            doubting = [
                (lane, lane.doubt)
                for lane in share.lanes
                if isinstance(lane, SameOffsetsLane)
                and lane.doubt is not None
                and now >= max(lane.stream.backoff_until, lane.doubt.since + _DOUBT_SECONDS)
            ]
            cluster = clusters[share.flow, "target"]
            if doubting and not self._connections.is_asking(cluster):
                reading = partial(_contents, doubts=[doubt for _, doubt in doubting])
                self._connections.ask(cluster, reading, partial(self._read, doubting))
            elif waiting and not self._connections.is_asking(cluster):
                for lane in waiting:
                    lane.asks()
                copies = [lane.work.target for lane in waiting]
                # A leader that was just chosen does not know yet what its readers have seen.
                question = partial(Channel.find_offsets, partitions=copies, at=LATEST, view=View.WRITTEN)
                self._connections.ask(cluster, question, partial(self._found, cluster, waiting))

    def _found(
        self,
        cluster: ClusterLinks,
        waiting: Sequence[SameOffsetsLane],
        found: PartitionAnswers[int] | KafkaProblem,
    ) -> None:
        ends: PartitionAnswers[int] = PartitionAnswers() if isinstance(found, KafkaProblem) else found
        for lane in waiting:
            copy = lane.work.target
            if copy in ends:
                if not lane.looked(ends[copy]):
                    cluster.forget_leaders({copy.topic})
            else:
                lane.stream.pause(str(ends.problems.get(copy, found)))
            self._touched(lane)

    def _read(
        self,
        doubting: Sequence[tuple[SameOffsetsLane, Doubt]],
        found: Mapping[TopicPartition, Content | str] | KafkaProblem,
    ) -> None:
        for lane, doubt in doubting:
            content = str(found) if isinstance(found, KafkaProblem) else found[doubt.copy]
            if isinstance(content, str):
                lane.stream.pause(content)
            else:
                lane.read(doubt, content)
            self._touched(lane)


def _contents(channel: Channel, doubts: Sequence[Doubt]) -> dict[TopicPartition, Content | str]:
    """Return what copies hold at offsets that are in doubt, or why that is not known."""
    found: dict[TopicPartition, Content | str] = {}
    for doubt in doubts:
        try:
            found[doubt.copy] = _content(channel, doubt)
        except ConnectionFailed:
            # Of all of them: each would wait as long.
            raise
        except KafkaProblem as problem:
            found[doubt.copy] = str(problem)
    return found


def _content(channel: Channel, doubt: Doubt) -> Content | str:
    copy, read_committed = doubt.copy, doubt.read_committed
    view = View.STABLE if read_committed else View.VISIBLE
    if channel.offsets([copy], LATEST, view)[copy] < doubt.until:
        return (
            f"{copy} on {channel.alias} is not readable up to {doubt.until} yet: a transaction is open, or replicas lag"
        )
    stretch = partial(holds_record, channel, copy, doubt.start, doubt.until, read_committed=read_committed)
    if stretch(but_for=[doubt.own]):
        return Content.OTHERS
    return Content.OWN if stretch() else Content.NOTHING
