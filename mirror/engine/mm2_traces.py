"""What Java MirrorMaker has left of a flow: read once, when the engine begins or has lost its place."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.log_tail import LogTail
from mirror.model import connect_offsets
from mirror.model.flow_state import FlowState
from mirror.model.mm2_trace import Mm2Trace, Pair, SyncTrail
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Mm2Traces:
    """What Java MirrorMaker has left of the partitions of a flow.

    Attributes
    ----------
    certain
        of partitions that it has certainly copied since this engine did, or that only it has.
    beyond
        of partitions whose newest syncs are beyond this engine's own position: its own, or those of Java MirrorMaker
        when it did not live long enough to record a position.
    has_run
        whether it has ever run for this flow, or what this engine had on record was lost: then even a partition of
        which there is no trace can be a copy, if there are no syncs or it was killed at the first record.
    matches
        whether tails are to be matched (``mirror.takeover``).
    """

    certain: Mapping[TopicPartition, Mm2Trace] = field(default_factory=dict)
    beyond: Mapping[TopicPartition, Mm2Trace] = field(default_factory=dict)
    has_run: bool = False
    matches: bool = True

    def possible(self, source: TopicPartition, *, is_known: bool, is_alone: bool = False) -> Mm2Trace | None:
        """Return what it may have left of a partition that this engine has a position of, or has not.

        Of one where nobody else writes to the target (``is_alone``) whatever is there was copied by somebody.
        """
        if is_known:
            return self.beyond.get(source)
        return Mm2Trace(matches=self.matches, is_alone=is_alone) if self.has_run or is_alone else None

    def without(self, source: TopicPartition) -> Mm2Traces:
        """Return the traces of all other partitions."""
        return replace(self, beyond={each: trace for each, trace in self.beyond.items() if each != source})


def read_traces(settings: FlowSettings, state: FlowState, target: Cluster, *, matches: bool) -> Mm2Traces:
    """Read what Java MirrorMaker has left.

    Parameters
    ----------
    state
        what this engine has on record itself.
    matches
        whether the tails behind its positions are to be matched (``mirror.takeover``).

    Raises
    ------
    KafkaProblem
        if its topics cannot be read.
    """
    positions = _positions(settings)
    is_of_use = matches or any(_is_ahead(each, position, state) for each, position in positions.items())
    trails = _trails(settings) if is_of_use and settings.emit_offset_syncs else {}
    # Nobody else makes this topic.
    has_run = matches and bool(target.topics([settings.config_storage_topic]))
    has_run = has_run or state.loss is not None
    return traces_of(positions, trails, state, matches=matches, has_run=has_run)


def traces_of(
    positions: Mapping[TopicPartition, int],
    trails: Mapping[TopicPartition, SyncTrail],
    state: FlowState,
    *,
    matches: bool,
    has_run: bool,
) -> Mm2Traces:
    """Return what Java MirrorMaker's positions and syncs say beside what this engine has on record itself."""
    certain: dict[TopicPartition, Mm2Trace] = {}
    beyond: dict[TopicPartition, Mm2Trace] = {}
    for source in sorted({*positions, *trails, *state.unsettled}):
        own, position, trail = state.positions.get(source), positions.get(source), trails.get(source)
        stretches = trail.stretches(own.downstream if own else 0) if trail else ()
        if own is not None and source in state.unsettled:
            certain[source] = Mm2Trace(None if matches else own.upstream, stretches, matches)
        elif _is_ahead(source, position, state) or (own is None and matches):
            certain[source] = Mm2Trace(position, stretches, matches)
        elif stretches and matches:
            # What this engine has on record is newer than any position of MirrorMaker's.
            beyond[source] = Mm2Trace(None, stretches)
    return Mm2Traces(certain, beyond, has_run, matches)


def _is_ahead(source: TopicPartition, position: int | None, state: FlowState) -> bool:
    own = state.positions.get(source)
    # A position of an engine that led before may come late, and MirrorMaker's that follows it says the same.
    ours = max(own.upstream, state.late.get(source, 0)) if own is not None else None
    return position is not None and (ours is None or position > ours)


def _positions(settings: FlowSettings) -> dict[TopicPartition, int]:
    with closing(
        LogTail(
            settings.clients.checkpoints_consumer,
            settings.offset_storage_topic,
            range(settings.offset_storage_partitions),
            alias=settings.flow.target,
        )
    ) as tail:
        records = [(record.key, record.value) for record in tail.poll()]
    return connect_offsets.read_source_positions(records, settings.flow.source)


def _trails(settings: FlowSettings) -> dict[TopicPartition, SyncTrail]:
    alias = settings.flow.source if settings.offset_syncs_location == "source" else settings.flow.target
    tail = LogTail(settings.clients.offset_syncs_consumer, settings.offset_syncs_topic, alias=alias)
    trails: dict[TopicPartition, SyncTrail] = {}
    try:
        for record in tail.poll():
            sync = OffsetSync.parse(record.key, record.value)
            if sync is not None:
                trails.setdefault(sync.topic_partition, SyncTrail()).take(Pair(sync.upstream, sync.downstream))
    finally:
        tail.close()
    return trails
