"""Where a partition's copy begins: a new one at its start, a taken-over one behind what already lies on the target."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.copier.tail_match import Mismatch, match_tail
from mirror.copier.work import FlowWork, Handover, PartitionWork
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import read_batches
from mirror.model.flow_state import RUNS_PER_CHUNK, Position, StateRecord, chunk_record
from mirror.model.offset_map import Run, extend


@dataclass(frozen=True, slots=True)
class Ready:
    """Copying may begin at ``handover``, once ``records`` are in the state topic."""

    handover: Handover
    records: tuple[StateRecord, ...]
    skipped_by_match: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Copying must not begin."""

    reason: str


def prepare(work: PartitionWork, flow: FlowWork, source: Channel, target: Channel) -> Ready | Refused:
    """Find out where to begin with one partition.

    Raises
    ------
    ConnectionFailed, LeaderUnknown, BrokerRefused
        if one of the clusters does not tell; it is tried again.
    """
    if work.handover is None:
        return _begin(work, flow, source, target)
    position = work.handover.position
    if position.topic_id and work.topic_id and position.topic_id != work.topic_id:
        return Refused(
            f"the source topic was deleted and created anew (id {position.topic_id}, now {work.topic_id}); "
            f"the copy ends at upstream offset {position.upstream} of the old one"
        )
    if work.handover.clean:
        return Ready(work.handover, ())
    return _resume(work, work.handover, flow, source, target)


def _begin(work: PartitionWork, flow: FlowWork, source: Channel, target: Channel) -> Ready:
    """A partition of which this engine has no position; the first one is recorded before the first batch."""
    start = source.offsets([work.source], EARLIEST)[work.source]
    downstream = target.offsets([work.target], LATEST)[work.target]
    if work.mm2_position is not None:
        origin, complete = work.mm2_position, False
    elif flow.from_latest:
        origin, complete = source.offsets([work.source], LATEST)[work.source], False
    else:
        origin, complete = start, True
    position = Position(origin, downstream, origin, complete, 0, work.topic_id)
    return Ready(Handover(position, (), clean=True), (position.record(work.source),))


def _resume(
    work: PartitionWork, handover: Handover, flow: FlowWork, source: Channel, target: Channel
) -> Ready | Refused:
    old = handover.position
    end = target.offsets([work.target], LATEST)[work.target]
    if end < old.downstream:
        return Refused(
            f"{work.target} on the target ends at {end}, before the position {old.downstream} recorded for it: "
            "it was truncated or created anew"
        )
    source_end = source.offsets([work.source], LATEST)[work.source]
    outcome = match_tail(
        read_batches(source, work.source, old.upstream, source_end, read_committed=flow.read_committed),
        read_batches(target, work.target, old.downstream, end),
        old.upstream,
        flow.writers.__contains__,
    )
    if isinstance(outcome, Mismatch):
        return Refused(outcome.reason)
    runs: list[Run] = list(handover.runs)
    for run in outcome.runs:
        extend(runs, run)
    records: list[StateRecord] = []
    chunk = old.chunk
    while len(runs) > RUNS_PER_CHUNK:
        records.append(chunk_record(work.source, chunk, runs[:RUNS_PER_CHUNK]))
        runs, chunk = runs[RUNS_PER_CHUNK:], chunk + 1
    # Behind the match lie only other writers' batches, so the end of the log is where the copy goes on.
    position = Position(outcome.upstream, max(end, old.downstream), old.origin, old.complete, chunk, work.topic_id)
    records += (chunk_record(work.source, chunk, runs), position.record(work.source))
    return Ready(Handover(position, tuple(runs), clean=True), tuple(records), outcome.records)
