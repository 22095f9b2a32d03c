"""Where a flow stands that another replicator copies, Java MirrorMaker 2 above all: read from the two clusters alone.

Its positions in Connect's format are up to a minute old (``offset.flush.interval.ms``). Newer is what the last offset
sync of a partition and the end of its copy say together: a sync is written whenever the two logs stop growing alike, so
what stands behind it is as many records of the source. Not where the target is written in transactions: there the
recorded positions are those of the last commit, and the copy has markers.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.kafka.batch import Record
from mirror.kafka.channel import LATEST, Channel
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import KafkaProblem, LeaderUnknown
from mirror.model import connect_offsets
from mirror.model.mm2_trace import Pair
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition

#: What can keep a look from its answer.

_NOTHING_LEFT = "no replicator has left positions or offset syncs of this flow"


def estimated_positions(
    recorded: Mapping[TopicPartition, int],
    syncs: Mapping[TopicPartition, Pair],
    copy_ends: Mapping[TopicPartition, int],
    source_ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return up to which offset of the source each partition is copied, all maps by partition of the source.

    Never beyond the source's end, nor before the recorded position.
    """
    found = {}
    for source in {*recorded, *syncs}:
        position, sync, end = recorded.get(source, 0), syncs.get(source), copy_ends.get(source)
        if sync is not None and end is not None and end > sync.downstream:
            position = max(position, sync.upstream + end - sync.downstream)
        found[source] = min(position, source_ends.get(source, position))
    return found


class CopyObserver:
    """Looks at one flow again and again over connections that it keeps."""

    def __init__(self, flow: FlowSettings, source: ClusterSettings, target: ClusterSettings) -> None:
        """Observe ``flow``; nothing is connected before the first look."""
        self._settings = flow
        self._ends = {"source": source, "target": target}
        self._channels: dict[str, Channel] = {}
        self._syncs: dict[TopicPartition, Pair] = {}
        self._recorded: dict[bytes | None, bytes | None] = {}
        clients, alias = flow.clients, getattr(flow.flow, flow.offset_syncs_location)
        self._tails = {
            "syncs": LogTail(clients.offset_syncs_consumer, flow.offset_syncs_topic, alias=alias),
            "positions": LogTail(
                clients.checkpoints_consumer,
                flow.offset_storage_topic,
                range(flow.offset_storage_partitions),
                alias=flow.flow.target,
            ),
        }

    def look(self) -> FlowStatus:
        """Return where the flow stands now: RUNNING if it is known, else STOPPED (nothing to be seen) or FAILED."""
        flow = self._settings.flow
        try:
            self._follow()
            recorded = connect_offsets.read_source_positions(self._recorded.items(), flow.source)
            known = sorted(each for each in {*recorded, *self._syncs} if self._settings.replicates(each.topic))
            if not known:
                return FlowStatus(flow, "STOPPED", (_NOTHING_LEFT,), ())
            copies = {each: TopicPartition(self._settings.copy_of(each.topic), each.partition) for each in known}
            ends = self._channel("target").find_offsets(copies.values(), LATEST)
        except KafkaProblem as problem:
            self._forget("target")
            return FlowStatus(flow, "FAILED", (str(problem),), ())
        copy_ends = {source: ends[copy] for source, copy in copies.items() if copy in ends}
        reasons: tuple[str, ...] = ()
        source_ends: dict[TopicPartition, int] = {}
        try:
            source_ends = self._channel("source").find_offsets(known, LATEST)
        except KafkaProblem as problem:
            self._forget("source")
            reasons = (str(problem),)
        syncs = {} if self._settings.exactly_once else self._syncs
        positions = estimated_positions(recorded, syncs, copy_ends, source_ends)
        partitions = tuple(
            PartitionStatus(
                *source,
                positions[source],
                end := source_ends.get(source),
                copy_ends.get(source, 0),
                None if end is None else end - positions[source],
                0.0 if end == positions[source] else None,
            )
            for source in known
            if source in positions
        )
        return FlowStatus(flow, "DEGRADED" if reasons else "RUNNING", reasons, partitions)

    def close(self) -> None:
        """Close the connections."""
        for tail in self._tails.values():
            tail.close()
        for end in tuple(self._channels):
            self._forget(end)

    def _follow(self) -> None:
        """Take in what is new of syncs and positions; what has no topic has neither."""
        for record in self._poll("syncs"):
            if (sync := OffsetSync.parse(record.key, record.value)) is not None:
                self._syncs[sync.topic_partition] = Pair(sync.upstream, sync.downstream)
        for record in self._poll("positions"):
            self._recorded[record.key] = record.value

    def _poll(self, name: str) -> list[Record]:
        try:
            return self._tails[name].poll()
        except LeaderUnknown:
            if self._tails[name].exists():
                raise
            return []

    def _channel(self, end: str) -> Channel:
        if end not in self._channels:
            cluster = self._ends[end]
            self._channels[end] = Channel(cluster.alias, cluster.client, bootstrap_ms=2_000)
        return self._channels[end]

    def _forget(self, end: str) -> None:
        if (channel := self._channels.pop(end, None)) is not None:
            channel.close()
