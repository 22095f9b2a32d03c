"""Where a partition's copy begins: a new one at its start, a known one behind what already lies on the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mirror.copier.tail_match import Batch, Mismatch, match_tail
from mirror.copier.transforming import ChangedBatches
from mirror.copier.work import FlowWork, Handover, PartitionWork
from mirror.model.flow_state import RUNS_PER_CHUNK, Position, StateRecord, chunk_record
from mirror.model.offset_map import Run, extend
from mirror.model.partition import TopicPartition

_IF_CHANGED = (
    "; what its transforms make of a record must depend on the record alone, and not be set differently while there is "
    "something to be compared: run it once as it was set before"
)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the logs of a partition begin and end on both clusters.

    Attributes
    ----------
    source_end
        as a reader of the flow's isolation level sees it.
    target_end
        as readers see it.
    target_written
        what the target's leader has written, replicated or not.
    """

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    target_written: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Copying may begin at ``handover``, once ``records`` are in the state topic."""

    handover: Handover
    records: tuple[StateRecord, ...] = ()
    skipped_by_match: int = 0


@dataclass(frozen=True, slots=True)
class NotYet:
    """It cannot be told now where to begin; it is tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Copying must not begin."""

    reason: str


@dataclass(frozen=True, slots=True)
class Javas:
    """Java MirrorMaker has copied it since; it is taken over from that first, beside the epochs."""


def changed_topic(work: PartitionWork) -> Refused | None:
    """Refuse a source topic that is not the one copied so far, although its name is the same, and another target."""
    target = work.handover.position.target if work.handover else ""
    if target and target != work.target.topic:
        return Refused(
            f"it was copied to {target} so far and is to be copied to {work.target.topic} now; positions in one mean "
            "nothing in the other: set the replication policy and the transforms as they were"
        )
    known = work.handover.position.topic_id if work.handover else ""
    if not known or not work.topic_id or known == work.topic_id:
        return None
    assert work.handover is not None
    return Refused(
        f"the source topic was deleted and created anew (id {known}, now {work.topic_id}); "
        f"the copy ends at upstream offset {work.handover.position.upstream} of the old one"
    )


def begin(work: PartitionWork, flow: FlowWork, ends: Ends) -> Ready:
    """Begin with a partition of which this engine has no position; the first one is recorded before the first batch."""
    if flow.from_latest:
        origin, complete = ends.source_end, False
    else:
        origin, complete = ends.source_start, True
    position = Position(origin, ends.target_end, origin, complete, 0, work.topic_id, work.target.topic)
    return Ready(Handover(position, (), clean=True), (position.record(work.source),))


def resume(
    work: PartitionWork,
    handover: Handover,
    ends: Ends,
    is_ours: Callable[[int], bool],
    source: Iterable[Batch],
    tail: Iterable[Batch],
) -> Ready | NotYet | Refused:
    """Begin where somebody stopped without saying how far it got.

    Parameters
    ----------
    is_ours
        whether a producer id is one of the flow's writers.
    source
        data batches of the source from the recorded position on; read only if needed.
    tail
        data batches of the target from the recorded position, or its start, on.
    """
    old = handover.position
    if ends.target_written < old.downstream:
        return Refused(
            f"{work.target} on the target ends at {ends.target_written}, before the position {old.downstream} recorded "
            "for it: it was truncated or created anew"
        )
    if ends.target_end < ends.target_written:
        return NotYet(
            f"{work.target} on the target has {ends.target_written - ends.target_end} records that are not replicated "
            "yet; what was written last cannot be read before they are"
        )
    changed = ChangedBatches(work) if work.transform is not None else None
    outcome = match_tail(source, tail, old.upstream, is_ours, changed.records if changed else None)
    if isinstance(outcome, Mismatch):
        missing = (
            f"; the source no longer has its offsets from {old.upstream} up to {ends.source_start} to compare with"
            if ends.source_start > old.upstream
            else ""
        )
        return Refused(outcome.reason + missing + (_IF_CHANGED if changed else ""))
    runs: list[Run] = list(handover.runs)
    for run in outcome.runs:
        extend(runs, run)
    chunks, open_runs, chunk = in_chunks(work.source, runs, old.chunk)
    # Behind the match lie only other writers' batches, so the end of the log is where the copy goes on.
    position = Position(
        outcome.upstream, ends.target_end, old.origin, old.complete, chunk, work.topic_id, work.target.topic
    )
    gaps = [gap.record() for gap in changed.gaps if old.upstream <= gap.start < outcome.upstream] if changed else []
    records = (*handover.unwritten, *gaps, *chunks, position.record(work.source))
    return Ready(Handover(position, open_runs, clean=True), records, outcome.records)


def in_chunks(
    source: TopicPartition, runs: Sequence[Run], chunk: int
) -> tuple[tuple[StateRecord, ...], tuple[Run, ...], int]:
    """Return the records that keep ``runs`` from chunk ``chunk`` on, the runs of the last one, and its number."""
    records: list[StateRecord] = []
    left = tuple(runs)
    while len(left) > RUNS_PER_CHUNK:
        records.append(chunk_record(source, chunk, left[:RUNS_PER_CHUNK]))
        left, chunk = left[RUNS_PER_CHUNK:], chunk + 1
    return (*records, chunk_record(source, chunk, left)), left, chunk
