"""What is missing, and how the copy goes on behind it: found, recorded, and passed or waited at; never silently.

The decisions are made here from what both clusters say; nothing here talks to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mirror.copier.resume import Ends, Refused
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka.topic_ids import differ
from mirror.model.counts import counted
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.leader_epochs import epochs_before
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import chunk_record

# Behind these the copy goes on by itself: nothing that the source still has is missing in it.
_PASSED = frozenset({GapKind.RETENTION, GapKind.TRUNCATED, GapKind.RECREATED, GapKind.COPIED_AGAIN})


@dataclass(frozen=True, slots=True)
class Detour:
    """The copy cannot go on where it was but at ``position``, because of ``gap``; None when nothing of it is missing.

    Attributes
    ----------
    restarts
        whether all that the offset map says is of another topic.
    is_certain
        whether nothing beside the gap can be missing; otherwise somebody must say that the copy may go on.
    intact_to
        up to where the copy is the log that was written; None: all of it is.
    """

    gap: Gap | None
    position: Position
    restarts: bool = False
    is_certain: bool = True
    intact_to: int | None = None


def is_replaced(work: PartitionWork) -> bool:
    """Tell whether the topic, or its copy, is another one than when it was last copied, although its name is the same.

    A cluster that gives no ids cannot be asked.
    """
    if work.handover is None:
        return False
    known = work.handover.position
    return differ(known.topic_id, work.topic_id) or differ(known.target_id, work.target_id)


def find_detour(
    work: PartitionWork,
    handover: Handover,
    state: Callable[[], FlowState],
    ends: Ends,
    divergence: Callable[[Position], int | None],
    now_ms: int,
) -> Detour | None:
    """Return where the copy must go on instead, None if it can go on where it was.

    What is wrong with the target comes first: once that is settled, the source is looked at from where it goes on then.

    Parameters
    ----------
    state
        gives what the flow knows, the offset map of this partition up to date.
    divergence
        asks the source from which offset on its log is not the one that was copied up to a position.
    """
    position = handover.position
    lost_from = _lost_from(work, handover, ends)
    if lost_from is not None:
        return _without_copies(work, position, state(), ends, lost_from, now_ms)
    if differ(position.topic_id, work.topic_id):
        return _of_another_topic(work, position, ends, now_ms)
    diverged = divergence(position)
    if diverged is not None:
        return _of_another_log(work, position, ends, diverged, now_ms)
    if not position.epochs and ends.source_written < position.upstream:
        return _of_who_knows_what(work, position, ends, now_ms)
    return None


def settle(gap: Gap, policy: GapPolicy, *, is_certain: bool = True) -> Gap:
    """Return the gap as it goes into the ledger: passed if the copy may go on behind it.

    One at which the copy stopped before is the same gap, however long it has become; that it was acknowledged counts.
    """
    may_pass = is_certain and gap.kind in _PASSED and not policy.stops
    barrier = _barrier_of(gap, policy)
    if barrier is None:
        return replace(gap, passed=may_pass)
    return replace(gap, start=barrier.start, found_at_ms=barrier.found_at_ms, passed=may_pass or policy.is_lifted)


def parts(gap: Gap, policy: GapPolicy) -> tuple[Gap, ...]:
    """Return a gap settled; what of it lies before the one at which the copy stopped is one of its own.

    Nobody has acknowledged that, and it may have held records that were read and not copied.
    """
    return _with_part_before(gap, settle(gap, policy))


def _with_part_before(gap: Gap, settled: Gap) -> tuple[Gap, ...]:
    if not settled.passed or settled.start <= gap.start:
        return (settled,)
    before = replace(gap, end=settled.start, passed=True)
    return (before, settled) if settled.start < settled.end else (before,)


def news(gap: Gap, policy: GapPolicy) -> tuple[StateRecord, ...]:
    """Return what the state topic lacks of a settled gap."""
    return () if not gap.passed and _barrier_of(gap, policy) is not None else (gap.record(),)


def stop_reason(gap: Gap) -> str:
    """Return for people why the copy stops at a gap, and what they can do."""
    topic, partition = gap.source
    return (
        f"{gap.reason}; to let the copy go on, acknowledge it: "
        f"mirror gaps FILE --acknowledge --topic {topic} --partition {partition} --reason TEXT"
    )


def take(
    detour: Detour, gap: Gap | None, source: TopicPartition, state: FlowState
) -> tuple[Handover, tuple[StateRecord, ...]]:
    """Return how the copy goes on behind a detour, and what must be in the state topic before.

    Parameters
    ----------
    gap
        the detour's gap, settled.
    state
        what the flow knows; what is returned is applied to it.
    """
    chunk, runs = (0, ()) if detour.restarts else state.chunk_before(source, detour.position.upstream)
    before, begun = state.positions[source], detour.position.downstream
    # The map does not tell any more what of that was copied; what bears the flow's producer ids is the copy's own.
    uncompared = _uncompared(before, detour)
    position = replace(
        detour.position, chunk=chunk, incarnation=before.incarnation + 1, compared=begun, uncompared=uncompared
    )
    records = (
        *((gap.record(),) if gap is not None else ()),
        chunk_record(source, chunk, runs),
        position.record(source),
    )
    for key, value in records:
        state.apply(key, value)
    return Handover(position, runs, clean=True), records


def _uncompared(before: Position, detour: Detour) -> tuple[int, int] | None:
    """Return where nobody has looked yet who else has written, of the copy as it was before a detour."""
    if before.compared < 0:
        return None
    known = [before.compared, *(before.uncompared or ())[:1]]
    start = min(known if detour.intact_to is None else [*known, detour.intact_to])
    return (start, detour.position.downstream) if start < detour.position.downstream else None


def overtaken(work: PartitionWork, position: Position, log_start: int, downstream: int | None, now_ms: int) -> Gap:
    """Return the gap of records behind ``position`` that the source removed before they were copied."""
    start = position.upstream
    reason = (
        f"{work.flow.source} no longer had the offsets {_range(start, log_start)} of {work.source} when they were "
        "to be copied: retention, or deleted records"
    )
    return Gap(work.source, start, log_start, reason, now_ms, GapKind.RETENTION, downstream, position.topic_id)


def unrecorded(
    work: PartitionWork, recorded: Position, found: Position, ends: Ends, now_ms: int, removed: int = 0
) -> tuple[Gap, ...]:
    """Return what was passed, but not recorded, between the recorded position and the one found by a match.

    ``removed``: how many records between the two were copied before the source removed them; by the offset map they
    are the last ones.
    """
    # What the source has removed behind the end of the match is found by who reads on there.
    end = min(ends.source_start, found.upstream) - removed
    if found.upstream == recorded.upstream or end <= recorded.upstream:
        return ()
    gap = overtaken(work, recorded, end, recorded.downstream, now_ms)
    if removed:
        at_most = counted(end - recorded.upstream, "record")
        message = (
            f"of the offsets {_range(recorded.upstream, ends.source_start)} of {work.source}, which {work.flow.source} "
            f"no longer had when an engine came back, {removed} records had been copied; {at_most} at most are "
            "missing, the last of them, or fewer if some offsets held none"
        )
        gap = replace(gap, reason=message)
    return _with_part_before(gap, replace(settle(gap, work.gaps), passed=True))


def made_anew(work: PartitionWork, before: Position, state: FlowState, ends: Ends, now_ms: int) -> Gap | None:
    """Return the gap of a copy that is made anew because its source topic was: neither cluster has the old records.

    None if nothing was copied of the old topic, nor left, or that is on record: whoever deletes a copy records it.
    """
    end = max(before.upstream, before.source_end)
    recorded = {(gap.source, gap.topic_id) for gap in state.gaps.values() if gap.kind is GapKind.RECREATED}
    if end == before.origin or (work.source, before.topic_id) in recorded:
        return None
    reason = (
        f"the topic {work.source.topic} on {work.flow.source} was deleted and created anew (id {before.topic_id}, now "
        f"{work.topic_id}), and so was its copy {work.target.topic} on {work.flow.target}: neither has the offsets "
        f"{_range(before.origin, end)} of the old {work.source} any more, which was copied up to {before.upstream}"
    )
    return Gap(work.source, before.origin, end, reason, now_ms, GapKind.RECREATED, ends.target_end, before.topic_id)


def copied_again(
    work: PartitionWork, recorded: Position, found: Position, ends: Ends, looked_from: int, now_ms: int
) -> Gap | None:
    """Return the gap of copies that the target removed before they could be matched; None if there can be none.

    Where something was found behind them it is known how far the copy was. ``looked_from``: the offset of the copy from
    which on the flow's records may lie there.
    """
    count = ends.target_start - looked_from
    end = min(recorded.upstream + count, ends.source_end)
    if found.upstream != recorded.upstream or end <= max(recorded.upstream, ends.source_start):
        return None
    flow = work.flow
    reason = (
        f"{flow.target} removed the offsets {_range(looked_from, ends.target_start)} of {work.target} (retention, or "
        f"deleted records) before it was on record what lay there. What {flow.source} has from offset "
        f"{recorded.upstream} of {work.source} on is copied: of that {counted(end - recorded.upstream, 'record')} at "
        "most had been copied before, and may have been read twice"
    )
    gap = Gap(
        work.source,
        recorded.upstream,
        end,
        reason,
        now_ms,
        GapKind.COPIED_AGAIN,
        ends.target_end,
        recorded.topic_id,
    )
    return settle(gap, work.gaps)


def copied_before(work: PartitionWork, recorded: Position, ends: tuple[int, int], downstream: int, now_ms: int) -> Gap:
    """Return the gap of records that the target took at ``downstream``, before the position: its log had been cut.

    The copy goes back, and comes to them once more. ``ends``: offsets of the source, from one up to, not including,
    another.
    """
    flow, (start, end) = work.flow, ends
    reason = (
        f"{flow.target} took the offsets {_range(start, end)} of {work.source} at offset {downstream} of {work.target}"
        ", where copies of earlier ones had been: its log was truncated. They are copied again behind those, so that "
        "readers of the copy meet them twice, and the first time too early"
    )
    return Gap(work.source, start, end, reason, now_ms, GapKind.COPIED_AGAIN, downstream, recorded.topic_id)


def unmatched(work: PartitionWork, position: Position, ends: Ends, reason: str, now_ms: int) -> Detour:
    """Return the way on behind a tail of the target that is not understood: all behind the position is copied again."""
    message = (
        f"what {work.flow.target} holds of {work.target} behind offset {position.downstream} is not what "
        f"{work.flow.source} has behind the position {position.upstream}: {reason}; if the copy goes on, the source's "
        f"records from {position.upstream} on come behind it, some of them perhaps a second time"
    )
    at = position.upstream
    gap = Gap(work.source, at, at, message, now_ms, GapKind.UNMATCHED, position.downstream, position.topic_id)
    return Detour(gap, replace(position, downstream=ends.target_end))


def unknown_origin(work: PartitionWork, ends: Ends, reason: str, now_ms: int) -> Refused:
    """Refuse to begin: the copy holds records, and which of the source's they are is not known."""
    barrier = work.gaps.barrier
    if barrier is not None and barrier.kind is GapKind.UNKNOWN_ORIGIN:
        return Refused(stop_reason(barrier))
    flow, start = work.flow, ends.source_start
    message = (
        f"{work.target} on {flow.target} holds records from offset {ends.target_start} up to {ends.target_end}, and "
        f"nothing on record says which of {work.source}'s they are ({reason}): the flow's positions were lost, or "
        "somebody else has written there. Delete the copy to have it made anew; if the copy is to go on behind what "
        f"is there, it begins at the start of the source, {start}, so that what is there already comes a second time, "
        f"or, with {flow}.consumer.auto.offset.reset = latest, at its end"
    )
    gap = Gap(
        work.source,
        start,
        start,
        message,
        now_ms,
        GapKind.UNKNOWN_ORIGIN,
        ends.target_end,
        work.topic_id,
        passed=False,
    )
    return Refused(stop_reason(gap), (gap.record(),))


def may_begin_behind(work: PartitionWork) -> bool:
    """Tell whether somebody has said that the copy may begin behind what it holds already."""
    barrier = work.gaps.barrier
    return barrier is not None and barrier.kind is GapKind.UNKNOWN_ORIGIN and work.gaps.is_lifted


def _lost_from(work: PartitionWork, handover: Handover, ends: Ends) -> int | None:
    """Return the downstream offset from which on the copies are gone, None if all are there."""
    position, barrier = handover.position, work.gaps.barrier
    if differ(position.target_id, work.target_id):
        return 0
    found = [ends.target_written]
    if handover.target_ended_at is not None:
        found.append(handover.target_ended_at)
    if (
        barrier is not None
        and (barrier.kind, barrier.end) == (GapKind.TARGET_LOST, position.upstream)
        and barrier.downstream is not None
    ):
        # The copy has stopped there; others may have written behind it since.
        found.append(barrier.downstream)
    return min(found) if min(found) < position.downstream else None


def _without_copies(
    work: PartitionWork, position: Position, state: FlowState, ends: Ends, lost_from: int, now_ms: int
) -> Detour:
    known = state.offset_map(work.source)
    lost = [run for run in (known.runs if known else ()) if run.downstream_end > lost_from]
    target_id = work.target_id or position.target_id
    if not lost:
        # What others had written is gone; the flow may have written on in its place.
        downstream = ends.target_end if differ(position.target_id, work.target_id) else lost_from
        return Detour(None, replace(position, downstream=downstream, target_id=target_id), intact_to=lost_from)
    back = lost[0].upstream + max(0, lost_from - lost[0].downstream)
    if known and known.is_pruned and lost_from == 0:
        # What the former target had removed by itself is copied again too, as far as the source has it.
        back = position.origin
    count = sum(run.downstream_end - max(run.downstream, lost_from) for run in lost)
    happened = (
        "was deleted and created anew"
        if differ(position.target_id, work.target_id)
        else f"ended at offset {lost_from}, before the position {position.downstream} recorded for it: it was truncated"
    )
    reason = (
        f"{work.target} on {work.flow.target} {happened}; {count} copies of {work.source}'s records are gone. If the "
        f"copy goes on, it goes back to upstream offset {back} and copies again what {work.flow.source} still has"
        + (f", which is from {ends.source_start} on" if ends.source_start > back else "")
    )
    gap = Gap(work.source, back, position.upstream, reason, now_ms, GapKind.TARGET_LOST, lost_from, position.topic_id)
    return Detour(gap, _back(position, back, ends, target_id), intact_to=lost_from)


def _never_copied(position: Position, otherwise: str) -> tuple[int, str]:
    """Return where a log that is gone was seen to end, and what was never copied of it; ``otherwise``: of nothing."""
    end = max(position.upstream, position.source_end)
    if end == position.upstream:
        return end, otherwise
    return end, f"its offsets {_range(position.upstream, end)} were never copied"


def _of_another_topic(work: PartitionWork, position: Position, ends: Ends, now_ms: int) -> Detour:
    end, left = _never_copied(position, f"it is copied up to {position.upstream}, and was not seen to be longer")
    reason = (
        f"the topic {work.source.topic} on {work.flow.source} was deleted and created anew (id {position.topic_id}, "
        f"now {work.topic_id}); of the old {work.source}, {left}; the copy goes on with the new one from its start"
    )
    start = ends.source_start
    gap = Gap(
        work.source, position.upstream, end, reason, now_ms, GapKind.RECREATED, ends.target_end, position.topic_id
    )
    target_id = work.target_id or position.target_id
    begun = Position(start, ends.target_end, start, True, 0, work.topic_id, target_id, target=work.target.topic)
    return Detour(gap, begun, restarts=True)


def _of_another_log(work: PartitionWork, position: Position, ends: Ends, diverged: int, now_ms: int) -> Detour:
    end, left = _never_copied(position, f"what it may have had from {position.upstream} on was never seen")
    reason = (
        f"{work.source} on {work.flow.source} was truncated at offset {diverged} after it had been copied up to "
        f"{position.upstream}, as by an unclean leader election; the copy keeps what it has of the offsets "
        f"{_range(diverged, position.upstream)}, {left}, and the copy goes on with what the source has from {diverged} "
        "on now"
    )
    gap = Gap(
        work.source,
        diverged,
        end,
        reason,
        now_ms,
        GapKind.TRUNCATED,
        position.downstream,
        position.topic_id,
    )
    return Detour(gap, replace(_back(position, diverged, ends, position.target_id), source_end=diverged))


def _of_who_knows_what(work: PartitionWork, position: Position, ends: Ends, now_ms: int) -> Detour:
    """Without topic ids and leader epochs it cannot be known which offsets are still the same."""
    end, start = ends.source_written, ends.source_start
    reason = (
        f"{work.source} on {work.flow.source} ends at {end}, before the position {position.upstream} up to which it "
        "was copied: it was truncated, or created anew; if the copy goes on, it goes back to the start of the source, "
        f"{start}, and what is still the same comes a second time"
    )
    gap = Gap(
        work.source, end, position.upstream, reason, now_ms, GapKind.TRUNCATED, position.downstream, position.topic_id
    )
    return Detour(gap, _back(position, start, ends, position.target_id), is_certain=False)


def _back(position: Position, upstream: int, ends: Ends, target_id: str) -> Position:
    """Return the position from which on the copy is made a second time, behind all that the target has now."""
    return replace(
        position,
        upstream=upstream,
        downstream=ends.target_end,
        origin=min(position.origin, upstream),
        target_id=target_id,
        epochs=epochs_before(position.epochs, upstream),
        # Of another log of the source it says nothing: there may be records where that one had a gap.
        passed_gaps=(),
    )


def _barrier_of(gap: Gap, policy: GapPolicy) -> Gap | None:
    """Return the gap at which the copy stopped before, if it is this one.

    Of what retention removes, that may begin behind markers that were read but not counted as copied.
    """
    barrier = policy.barrier
    if barrier is None or barrier.kind is not gap.kind or differ(barrier.topic_id, gap.topic_id):
        return None
    is_same = barrier.start == gap.start
    return barrier if is_same or (gap.kind is GapKind.RETENTION and gap.start < barrier.start <= gap.end) else None


def _range(start: int, end: int) -> str:
    return f"{start} to {end - 1}" if end - start > 1 else str(start)
