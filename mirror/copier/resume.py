"""Where a partition's copy begins: a new one at its start, a known one behind what already lies on the target.

Invariants:

(a) A copy that is not empty is never begun without a position. Where nobody else writes (the policy's names) it is
    looked up by contents, as Java MirrorMaker's tails are; what is not found stops the partition with a gap
    (``unknown-origin``), behind which the copy begins once that is acknowledged. Under unchanged names, or where a
    router sends records, others write too: there it is looked up only if Java MirrorMaker has run, or the state topic
    was lost (``engine/state_loss.py``), as the flow's other topics tell, or the target's transaction coordinator: it
    is asked whether it knows the flow's ids before an engine asks for them, and what was lost is on record before
    that; older than Kafka 3.0 it tells by the epochs of the flow's producer, which it goes on counting. Where the state
    topic has lost its end, and the first position with it, the leader of a copy under its own name tells that the flow
    has written there. Where nothing tells, a copy that mirrors alone should write is begun behind what it holds, and
    that is said and kept.
(b) A partition's first position is recorded before its first batch, or a crash in between would look like a partition
    never copied, and its records would be copied twice. The same goes for producer ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from mirror.copier.append_point import AppendPoint
from mirror.copier.foreign_batches import LeftOut
from mirror.copier.removed_match import match_removed
from mirror.copier.tail_match import Batch, Matched, Mismatch, match_tail
from mirror.copier.thinned_match import match_thinned
from mirror.copier.transforming import ChangedBatches
from mirror.copier.work import FlowWork, Handover, PartitionWork
from mirror.kafka import codes, partition_state
from mirror.kafka.channel import Channel
from mirror.kafka.log import read_batches
from mirror.kafka.problems import BrokerRefused
from mirror.model.gap import GapKind
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd, epochs_before
from mirror.model.offset_map import Run, extend
from mirror.model.partition import TopicPartition
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import RUNS_PER_CHUNK, Takeover, chunk_record, no_chunk_record

_IF_CHANGED = (
    "; what its transforms make of a record must depend on the record alone, and not be set differently while there is "
    "something to be compared: run it once as it was set before"
)


# All of a tail is held by a digest a record to be counted; what a killed engine leaves is much shorter.
_MOST_COUNTED = 1_000_000

# So many offsets of a copy tell whether the flow has written there a while ago: others may have written very much.
_LAST_OFFSETS = 100_000


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the logs of a partition begin and end on both clusters.

    Attributes
    ----------
    source_end
        as a reader of the flow's isolation level sees it.
    source_written
        what the source's leader has written, replicated or not, committed or not.
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
    source_written: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Copying may begin at ``handover``, once ``records`` are in the state topic; ``note``: what people should know.

    ``append_point``: of a copy with the source's offsets. ``removed``: how many of those skipped by the match are gone
    from the source. ``followed_to``: where the flow back has copied the copy up to there, the offset from which on it
    is gone on with; None where it goes on from what is on record.
    """

    handover: Handover
    records: tuple[StateRecord, ...] = ()
    skipped_by_match: int = 0
    note: str = ""
    append_point: AppendPoint | None = None
    removed: int = 0
    followed_to: int | None = None


@dataclass(frozen=True, slots=True)
class NotYet:
    """It cannot be known now where to begin; it is tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Partly:
    """Some of what lies on the target is matched; it goes on from ``handover``, which is not clean."""

    handover: Handover
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Copying must not begin; ``records`` go to the state topic all the same.

    ``cannot_have_offsets``: not with the source's offsets, though it may with others.
    """

    reason: str
    records: tuple[StateRecord, ...] = ()
    cannot_have_offsets: bool = False


@dataclass(frozen=True, slots=True)
class WrittenByMm2:
    """Java MirrorMaker has copied it since; it is taken over from that first, beside the epochs."""


Place: TypeAlias = Ready | NotYet | Partly | Refused | WrittenByMm2
"""Where a partition's copy begins, or why it does not."""


def has_records(work: PartitionWork, target: Channel, ends: Ends) -> bool:
    """Whether the copy has records that readers of committed data see: markers of a takeover alone are none.

    Raises
    ------
    KafkaProblem
        if it cannot be read.
    """
    batches = read_batches(target, work.target, ends.target_start, ends.target_end, read_committed=True)
    return next(batches, None) is not None


def has_copies(work: PartitionWork, flow: FlowWork, target: Channel, ends: Ends) -> bool:
    """Whether the flow has written to a copy of its own name of which it has nothing on record: that was lost.

    Its leader knows who has written there, for a day or so (KIP-664); who was fenced there is among them, so it is read
    what there is of that.

    Raises
    ------
    KafkaProblem
        if that cannot be found out now.
    """
    if work.source.topic != work.target.topic:
        # What was sent to one topic may come from another one, which is chosen no more.
        return False
    found = partition_state.active_producers(target, [work.target])
    problem = found.problems.get(work.target)
    if isinstance(problem, BrokerRefused) and (problem.is_denied or problem.code == codes.UNSUPPORTED_VERSION):
        return False
    if flow.writers.isdisjoint(each.producer_id for each in found.whole()[work.target]):
        return False
    start = max(ends.target_start, ends.target_end - _LAST_OFFSETS)
    batches = read_batches(target, work.target, start, ends.target_end, read_committed=True)
    return any(header.producer_id in flow.writers for _, header in batches)


def changed_target(work: PartitionWork) -> Refused | None:
    """Refuse another target topic than the one copied to so far."""
    target = work.handover.position.target if work.handover else ""
    if not target or target == work.target.topic:
        return None
    return Refused(
        f"it was copied to {target} so far and is to be copied to {work.target.topic} now; positions in one mean "
        "nothing in the other: set the replication policy and the transforms as they were"
    )


def begin(work: PartitionWork, flow: FlowWork, ends: Ends) -> Ready:
    """Begin with a partition of which this engine has no position; the first one is recorded before the first batch."""
    if flow.from_latest:
        origin, complete = ends.source_end, False
    else:
        origin, complete = ends.source_start, True
    position = Position(
        origin,
        ends.target_end,
        origin,
        complete,
        0,
        work.topic_id,
        work.target_id,
        target=work.target.topic,
        compared=ends.target_end,
    )
    barrier = work.gaps.barrier
    is_passed = barrier is not None and barrier.kind is GapKind.UNKNOWN_ORIGIN
    passed = (replace(barrier, passed=True).record(),) if barrier is not None and is_passed else ()
    return Ready(Handover(position, (), clean=True), (*passed, position.record(work.source)))


def begin_behind_foreign_records(work: PartitionWork, flow: FlowWork, ends: Ends) -> Ready:
    """Begin with a partition whose copy holds records that mirrors alone should write, and say so.

    Nothing says that they are this flow's: there is no trace of another mirror, nor of a state that was lost.
    """
    begun = begin(work, flow, ends)
    at = begun.handover.position
    note = (
        f"{work.target} on {work.flow.target} holds records from offset {ends.target_start} up to {ends.target_end}, "
        f"and nothing on record says that they are copies: they are taken for other writers', and the copy begins "
        f"behind them with offset {at.upstream} of {work.flow.source}. If they are copies after all, they come twice: "
        "delete the topic there to have it made anew"
    )
    report = Takeover(work.source, None, at.upstream, at.downstream, 0, 0, note=note)
    return replace(begun, records=(*begun.records, report.record()), note=note)


class Logs(NamedTuple):
    """What is compared.

    Attributes
    ----------
    source
        data batches of the source from the recorded position on; read only if needed.
    tail
        data batches of the target from the recorded position, or its start, on.
    left_out
        counts what ``source`` does not yield because it is not to be copied.
    foreign_until
        from where on the tail is read, if that is behind the position: others alone have written before.
    looked_until
        from where on it is read because in a piece before nothing was certain. What compaction has removed up to there
        is not seen: a tail that it has thinned is compared from the position on.
    """

    source: Iterable[Batch]
    tail: Iterable[Batch]
    left_out: LeftOut | None = None
    foreign_until: int = 0
    looked_until: int = 0


def resume(
    work: PartitionWork,
    handover: Handover,
    ends: Ends,
    is_ours: Callable[[int], bool],
    read: Callable[[], Logs],
    next_batch: NextBatch | None = None,
    *,
    is_whole: Callable[[], bool] = lambda: False,
) -> Ready | Refused:
    """Begin where somebody stopped without saying how far it got; the target has replicated all that it has.

    Parameters
    ----------
    is_ours
        whether a producer id is one of the flow's writers.
    read
        gives the logs to compare; called again for another try.
    next_batch
        as whom the copy goes on.
    is_whole
        whether what ``read`` has given last was all of the tail: only then can its records be counted.
    """
    old = handover.position
    logs = read()
    compared = _compare(work, old, is_ours, logs, partial(match_tail, downstream=old.downstream))
    if isinstance(compared.outcome, Mismatch) and not logs.looked_until and ends.source_start > old.upstream:
        # Of a batch in which the source's log starts by now a broker hands out what was removed, too; perhaps nothing
        # of that was copied.
        begun = replace(old, upstream=ends.source_start)
        again = _compare(work, begun, is_ours, read(), partial(match_tail, downstream=old.downstream))
        compared = again if isinstance(again.outcome, Matched) else compared
    if isinstance(compared.outcome, Mismatch) and not logs.looked_until:
        # Rare, and dearer: compaction may have thinned either log since.
        thinned = partial(
            match_thinned,
            downstream=old.downstream,
            # What was not read because others wrote it is no hole.
            holes_from=(
                max(old.upstream, ends.source_start),
                max(old.downstream, ends.target_start, logs.foreign_until),
            ),
            source_end=ends.source_end,
        )
        again = _compare(work, old, is_ours, read(), thinned)
        compared = again if isinstance(again.outcome, Matched) else compared
    if isinstance(compared.outcome, Mismatch) and is_whole() and _may_count(work, old, ends):
        counted = partial(match_removed, start=ends.source_start, downstream=max(old.downstream, logs.foreign_until))
        again = _compare(work, old, is_ours, read(), counted)
        # Behind a gap a strict copy goes on only when somebody has said so.
        may_go_on = not work.gaps.stops or _removed(again.outcome, ends) == ends.source_start - old.upstream
        if is_whole() and may_go_on:
            compared = again if isinstance(again.outcome, Matched) else compared
    outcome, epochs, changed, left_out = compared
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
    if left_out is not None:
        left_out.pass_by(outcome.upstream)
    # Behind the match lie only other writers' batches, so the end of the log is where the copy goes on.
    position = replace(
        old,
        upstream=outcome.upstream,
        downstream=ends.target_end,
        chunk=chunk,
        topic_id=work.topic_id or old.topic_id,
        target=work.target.topic,
        target_id=work.target_id or old.target_id,
        epochs=epochs_before(epochs, outcome.upstream) if len(epochs) > 1 or old.epochs else (),
        left_out=left_out.count if left_out is not None else old.left_out,
        next_batch=next_batch,
    )
    skipped = [gap.record() for gap in changed.gaps if old.upstream <= gap.start < outcome.upstream] if changed else []
    records = (*handover.unwritten, *skipped, *chunks, position.record(work.source))
    return Ready(
        Handover(position, open_runs, clean=True, owes_sync=handover.owes_sync),
        records,
        outcome.records,
        removed=_removed(outcome, ends),
    )


def _may_count(work: PartitionWork, old: Position, ends: Ends) -> bool:
    """Whether each record of the tail has an original of its own, of which the source has removed some by now."""
    is_short = ends.target_end - old.downstream <= _MOST_COUNTED
    return ends.source_start > old.upstream and work.transform is None and is_short


def _removed(outcome: Matched | Mismatch, ends: Ends) -> int:
    """Return how many of the records found in the tail the source no longer has."""
    runs = outcome.runs if isinstance(outcome, Matched) else ()
    return sum(max(0, min(run.upstream_end, ends.source_start) - run.upstream) for run in runs)


class _Compared(NamedTuple):
    outcome: Matched | Mismatch
    epochs: list[EpochEnd]
    changed: ChangedBatches | None
    left_out: LeftOut | None


def _compare(
    work: PartitionWork,
    old: Position,
    is_ours: Callable[[int], bool],
    logs: Logs,
    match: Callable[..., Matched | Mismatch],
) -> _Compared:
    epochs = list(old.epochs or [EpochEnd(NOT_KNOWN, old.upstream)])
    changed = ChangedBatches(work) if work.transform is not None else None
    source = noting_epochs(logs.source, epochs)
    outcome = match(source, logs.tail, old.upstream, is_ours, changed.records if changed else None)
    return _Compared(outcome, epochs, changed, logs.left_out)


def forgotten(work: PartitionWork, position: Position) -> list[StateRecord]:
    """Return what takes dead chunks out of the state topic, unless they were found dead before the copy went back."""
    if work.dead is None or work.dead.incarnation != position.incarnation:
        return []
    return [no_chunk_record(work.source, chunk) for chunk in work.dead.chunks if chunk < position.chunk]


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


def noting_epochs(batches: Iterable[Batch], epochs: list[EpochEnd]) -> Iterator[Batch]:
    """Yield batches of the source; what ``epochs`` do not reach to of it is added, by who led when it was written."""
    for content, header in batches:
        if header.next_offset > epochs[-1].end:
            if header.leader_epoch == epochs[-1].epoch:
                epochs.pop()
            epochs.append(EpochEnd(header.leader_epoch, header.next_offset))
        yield content, header
