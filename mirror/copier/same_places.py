"""Where copies with the source's offsets go on: at the end of their logs, as their leaders tell it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mirror.copier import gaps, resume
from mirror.copier.append_point import AppendPoint
from mirror.copier.links import ClusterLinks
from mirror.copier.placing import LogHistory, look_up, with_ids
from mirror.copier.resume import Ends, NotYet, Place, Ready, Refused, in_chunks, noting_epochs
from mirror.copier.same_offsets import sequence_of
from mirror.copier.tail_match import Batch
from mirror.copier.transforming import change
from mirror.copier.work import FlowWork, Handover, PartitionWork
from mirror.kafka import partition_state
from mirror.kafka.batch import CorruptBatch, Header, Record, records
from mirror.kafka.channel import Channel, topic_settings
from mirror.kafka.log import read_batches
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.topic_ids import differ
from mirror.model.gap import Gap
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd, epochs_before
from mirror.model.offset_map import Run, extend, runs_from
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import chunk_record, writer_record
from mirror.model.stretches import Stretch, add, between, hold, united
from mirror.same_offsets import filling
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.fillers import are_fillers, is_filler, is_tombstone
from mirror.same_offsets.filling import Bounds

_POLICY, _TIMES = "cleanup.policy", "message.timestamp.type"
# So many offsets of a log that was cut off tell whether something came behind the cut: it lies at the end, but for
# what an engine had on its way then.
_LATE_OFFSETS = 100_000


def find_same_places(
    flow: FlowWork, partitions: Sequence[PartitionWork], source: ClusterLinks, target: ClusterLinks
) -> dict[TopicPartition, Place]:
    """Find out where to begin with partitions whose copies are to have the source's offsets, by source partition.

    Their positions on record say which copy is meant, and what was copied to it; how far it is says its log alone.

    Raises
    ------
    BrokerRefused, ConnectionFailed, LeaderUnknown
        if a cluster cannot be asked.
    """
    if not partitions:
        return {}
    source.forget_leaders({work.source.topic for work in partitions})
    target.forget_leaders({work.target.topic for work in partitions})
    copies = [work.target for work in partitions]
    before = target.ask(lambda channel: partition_state.active_producers(channel, copies))
    ends = look_up(flow, partitions, source, target)
    after = target.ask(lambda channel: partition_state.active_producers(channel, copies))
    names = [_POLICY, _TIMES]
    configs = target.ask(lambda channel: topic_settings(channel, {each.topic for each in copies}, names))
    history = LogHistory(flow, source, [work for work in partitions if isinstance(ends[work.source], Ends)])
    places: dict[TopicPartition, Place] = {}
    for work in partitions:
        found, copy = ends[work.source], work.target
        problem = after.problems.get(copy)
        if isinstance(found, NotYet) or problem is not None or copy not in before or copy not in after:
            places[work.source] = (
                found if isinstance(found, NotYet) else NotYet(str(problem or f"{copy} has no leader"))
            )
            continue
        try:
            now = with_ids(work, source.channel(), target.channel())
            producer = producer_of(flow.flow, now.target_id)
            sequence = sequence_of(before[copy], producer), sequence_of(after[copy], producer)
            # What of this flow arrives in between would be neither in the end nor in the sequence that belongs to it.
            # What others write meanwhile, as applications do to an original, lies behind that end.
            if sequence[0] != sequence[1] or found.target_end < found.target_written:
                where = f"{copy} on {flow.flow.target}"
                places[work.source] = NotYet(
                    f"{where} gets what an engine before had sent just now, or replicates it: looked at again"
                )
                continue
            config = configs.get(copy.topic, {})
            append_point = AppendPoint(
                *(found.target_end, sequence[1]),
                is_compacted="compact" in (config.get(_POLICY) or ""),
                # Where the cluster does not tell, nothing can be told from the time of an append.
                has_append_time=config.get(_TIMES) != "CreateTime",
            )
            places[work.source] = _place(flow, now, found, append_point, history, source.channel(), target.channel())
        except KafkaProblem as failure:
            places[work.source] = NotYet(str(failure))
        except CorruptBatch as corrupt:
            places[work.source] = Refused(f"{copy} on {flow.flow.target} cannot be read: {corrupt}")
    return places


def _place(
    flow: FlowWork,
    work: PartitionWork,
    ends: Ends,
    append_point: AppendPoint,
    history: LogHistory,
    source: Channel,
    target: Channel,
) -> Place:
    elsewhere = resume.changed_target(work)
    if elsewhere is not None:
        return elsewhere
    handover = work.handover
    if handover is None or differ(handover.position.target_id, work.target_id):
        return _begun(flow, work, ends, append_point, history)
    if not handover.position.same_offsets:
        copy = Bounds(ends.target_start, ends.target_end)
        if copy.end > copy.start:
            refused = filling.may_begin(Bounds(ends.source_start, ends.source_end), copy, work.pad_limit or 0)
            assert refused is not None
            return Refused(
                f"{work.target} on {flow.flow.target} was copied to other offsets: {refused.reason}",
                cannot_have_offsets=True,
            )
        return _begun(flow, work, ends, append_point, history)
    return _gone_on(flow, work, handover, ends, append_point, history, source, target)


def _begun(flow: FlowWork, work: PartitionWork, ends: Ends, append_point: AppendPoint, history: LogHistory) -> Place:
    """Begin with a copy that has nothing in it; where the source begins is on record before anything is filled.

    A topic that is copied both ways has what the flow back has copied from it, and is gone on with behind that.
    """
    if work.is_two_way and ends.target_end > 0:
        if work.is_original:
            return _followed(flow, work, ends, append_point)
        return _not_followed(flow, work, may_both_be_originals=ends.source_written > 0)
    if work.is_outdated:
        return _recreated(flow, work, f"{work.target.topic} on {flow.flow.target}")
    before = work.handover.position if work.handover is not None else None
    bounds = Bounds(ends.source_start, ends.source_end)
    origin, is_complete = filling.origin(
        bounds, before, work.topic_id, from_latest=flow.from_latest, is_two_way=work.is_two_way
    )
    copy = Bounds(ends.target_start, ends.target_end)
    refused = filling.may_begin(Bounds(origin, ends.source_end), copy, work.pad_limit or 0)
    if refused is not None:
        keeps_name = work.source.topic == work.target.topic
        reason = filling.with_caution(refused.reason, copy, flow.flow.source, keeps_name=keeps_name)
        where = f"{work.target} on {flow.flow.target}"
        return Refused(f"{where} cannot get the source's offsets: {reason}", cannot_have_offsets=True)
    now_ms = int(time.time() * 1000)
    removed = _removed_before(work, ends, now_ms)
    if removed and not removed[-1].passed:
        return Refused(gaps.stop_reason(removed[-1]), _news(work, removed))
    position = Position(
        origin,
        ends.target_end,
        origin,
        is_complete,
        0,
        work.topic_id,
        work.target_id,
        target=work.target.topic,
        incarnation=before.incarnation + 1 if before is not None else 0,
        compared=ends.target_end,
        same_offsets=True,
    )
    written_as = writer_record(producer_of(flow.flow).producer_id, now_ms)
    gap = _gone_with_the_source(work, ends, history, now_ms)
    news = (gap.record(),) if gap is not None else _news(work, removed)
    chunks = (chunk_record(work.source, 0, ()),) if before is not None else ()
    note = (
        f"{work.target} on {flow.flow.target} is another topic than before, or empty: it is made anew, from offset "
        f"{origin} on; it was copied from {before.origin} up to {before.upstream}"
        if before is not None and before.upstream > before.origin
        else ""
    )
    return Ready(
        Handover(position, (), clean=True),
        (*_unwritten(work), written_as, *news, *chunks, position.record(work.source)),
        note=note,
        append_point=_with_head(position, (), ends, append_point),
    )


def _unwritten(work: PartitionWork) -> tuple[StateRecord, ...]:
    """Return what an epoch before has found, a gap perhaps, and not recorded."""
    return work.handover.unwritten if work.handover is not None else ()


def _gone_with_the_source(work: PartitionWork, ends: Ends, history: LogHistory, now_ms: int) -> Gap | None:
    handover = work.handover
    if handover is None or not differ(handover.position.topic_id, work.topic_id):
        return None
    return gaps.made_anew(work, handover.position, history.state(work.source, handover), ends, now_ms)


def _removed_before(work: PartitionWork, ends: Ends, now_ms: int) -> tuple[Gap, ...]:
    """Return the gap of what the source has removed that the former copy had not got yet, settled; none: nothing.

    What had come from that copy, as far as the flow back says, is no record of the source's.
    """
    before = work.handover.position if work.handover is not None else None
    if before is None or differ(before.topic_id, work.topic_id):
        return ()
    start, back = before.upstream, work.copied_back
    if back is not None and back.same_offsets and not differ(back.target_id, work.topic_id):
        start = max(start, ends.source_start if back.origin == ends.source_start else back.filled_until)
    missing = between(before.passed_gaps, start, ends.source_start)
    if not missing:
        return ()
    found = replace(before, upstream=missing[0][0])
    return gaps.parts(gaps.overtaken(work, found, missing[-1][1], ends.source_start, now_ms), work.gaps)


def _news(work: PartitionWork, found: Sequence[Gap]) -> tuple[StateRecord, ...]:
    return tuple(record for gap in found for record in gaps.news(gap, work.gaps))


def _followed(flow: FlowWork, work: PartitionWork, ends: Ends, append_point: AppendPoint) -> Ready:
    """Go on behind what the flow back has copied from the copy: up to there both have the same."""
    at = _copied_back_until(work, ends)
    origin = min(at, max(ends.source_start, ends.target_start))
    runs = (Run(origin, origin, at - origin),) if at > origin else ()
    before = work.handover.position if work.handover is not None else None
    position = Position(
        at,
        at,
        origin,
        True,
        0,
        work.topic_id,
        work.target_id,
        target=work.target.topic,
        incarnation=before.incarnation + 1 if before is not None else 0,
        compared=at,
        same_offsets=True,
    )
    written_as = writer_record(producer_of(flow.flow).producer_id, int(time.time() * 1000))
    return Ready(
        Handover(position, runs, clean=True),
        (*_unwritten(work), written_as, chunk_record(work.source, 0, runs), position.record(work.source)),
        followed_to=at,
        append_point=replace(append_point, end=at),
    )


def _copied_back_until(work: PartitionWork, ends: Ends) -> int:
    """Return up to where the source has what the flow back has copied from the copy."""
    assert work.copied_back is not None
    filled_until = work.copied_back.filled_until
    until = ends.source_start if work.begins_with_copy(ends.source_start) else filled_until
    return min(until, ends.target_end, ends.source_written)


def _not_followed(flow: FlowWork, work: PartitionWork, *, may_both_be_originals: bool = False) -> NotYet:
    source, target = flow.flow.source, flow.flow.target
    both = (
        f". Where that flow says the same of {source}, both held records before either was copied, and neither ever "
        "is: save what is to be kept of one of them, and delete the topic there, to have it made anew from the other"
    )
    return NotYet(
        f"{work.target} on {target} is not empty, and nothing says that {source} has the same at its offsets: it "
        f"waits until {target}->{source} has copied it{both if may_both_be_originals else ''}"
    )


def _recreated(flow: FlowWork, work: PartitionWork, where: str) -> Refused:
    becomes = (
        "is deleted by the engine, to be made anew, as mirror.offsets.recreated says, unless mirror status names what "
        "keeps it from that"
        if work.is_made_anew
        else f"keeps what it has: {_advice(flow, work)}, or set mirror.offsets.recreated = make-anew"
    )
    return Refused(
        f"{work.source.topic} on {flow.flow.source} was deleted and created anew, and numbers its records from the "
        f"beginning; {where} {becomes}"
    )


def _gone_on(
    flow: FlowWork,
    work: PartitionWork,
    handover: Handover,
    ends: Ends,
    append_point: AppendPoint,
    history: LogHistory,
    source: Channel,
    target: Channel,
) -> Place:
    """Go on where the log of the copy ends, if that is of the same source, and of this flow alone."""
    position, where = handover.position, f"{work.target} on {flow.flow.target}"
    if differ(position.topic_id, work.topic_id):
        if work.is_original:
            return _followed(flow, work, ends, append_point)
        if work.is_two_way:
            return _not_followed(flow, work)
        return _recreated(flow, work, where)
    diverged = history.divergence(work.source, position)
    if diverged is not None:
        return Refused(
            f"{work.source} on {flow.flow.source} was truncated at offset {diverged}, and {where} has other records "
            f"from there on: {_advice(flow, work)}"
        )
    end = append_point.end
    if work.is_original and end > position.upstream and not _is_headless(handover, append_point):
        # What others have written there comes back with the source; the lane passes it by.
        end = _own_until(work, ends, position, end, flow, source, target)
        append_point = replace(append_point, end=end)
    if work.is_original and max(position.upstream, end) < min(_copied_back_until(work, ends), ends.source_start):
        # What the source has removed behind that had come from the copy: nothing is missing there.
        return _followed(flow, work, ends, append_point)
    # The flow back may just be copying what applications write to the copy: then this flow is told so soon.
    may_be_original = work.is_two_way and not work.is_original
    if ends.source_written < max(position.upstream, end):
        if may_be_original and ends.source_written >= position.upstream:
            return _not_followed(flow, work)
        return Refused(
            f"{where} goes up to offset {max(position.upstream, end)}, and {work.source} on {flow.flow.source} ends at "
            f"{ends.source_written}: that was truncated, or somebody else writes to the copy: {_advice(flow, work)}"
        )
    with_head = _with_head(position, handover.runs, ends, append_point)
    if with_head.begins_at >= 0:
        is_own = _holds_fillers_alone(work, ends, with_head.begins_at, flow, target)
        if is_own is False and position.downstream < with_head.begins_at:
            return _head_of_others(flow, work, with_head.begins_at)
        if not is_own and position.downstream >= with_head.begins_at:
            # It was gone on with behind what the flow back had copied: what lies there may be all there is of it.
            with_head = append_point
    is_behind = end < position.downstream
    if not (is_behind or handover.clean or work.is_original or _is_headless(handover, append_point)):
        lost = _replaced(flow, work, handover, ends, history, source, target, is_compacted=append_point.is_compacted)
        if lost is not None:
            return Refused(
                f"{where}: something else lies at offset {lost}, where the source has a record that was copied; "
                f"{flow.flow.target} has lost it: {_advice(flow, work)}"
            )
    chunk, runs = position.chunk, list(handover.runs)
    behind: tuple[Run, ...] = ()
    held: list[Stretch] = []
    start = end
    if is_behind:
        chunk, kept = history.state(work.source, handover).chunk_before(work.source, end)
        runs = list(kept)
        behind = runs_from(kept, end - _LATE_OFFSETS)
        start = behind[0].upstream if behind else end
    elif not _is_headless(handover, append_point):
        behind = (Run(position.upstream, position.upstream, max(0, end - position.upstream)),)
        # What is parked is behind the position before its offset is filled: of that there is no run.
        start = min(position.upstream, position.downstream) if runs or chunk else position.upstream
    epochs = list(position.epochs or [EpochEnd(NOT_KNOWN, position.upstream)])
    copied_from = max(start, ends.target_start)
    if start < end:
        # What retention, or somebody, has removed from the beginning of the copy is not there to be compared.
        begins_at = max(start, ends.source_start, ends.target_start)
        batches = read_batches(source, work.source, begins_at, end, read_committed=flow.read_committed)
        originals = _originals(work, noting_epochs(batches, epochs), begins_at, end) if not work.left_out else iter(())
        found = _foreign_write(
            *(work, copied_from, behind, end, originals, epochs, target, held),
            gaps=position.passed_gaps,
            is_compacted=append_point.is_compacted,
        )
        if found is not None and may_be_original:
            return NotYet(f"{where}: {found}")
        if found is not None:
            return Refused(f"{where}: {found}: {_advice(flow, work)}")
    # What was removed from the copy may have been there.
    for first, last in united([(position.upstream, copied_from), *held], position.upstream, end):
        extend(runs, Run(first, first, last - first))
    upstream = end if is_behind else max(position.upstream, end)
    chunks, open_runs, chunk = in_chunks(work.source, runs, chunk)
    moved = replace(
        position,
        upstream=upstream,
        downstream=end,
        chunk=chunk,
        topic_id=work.topic_id or position.topic_id,
        target_id=work.target_id or position.target_id,
        epochs=epochs_before(epochs, upstream) if len(epochs) > 1 or position.epochs else (),
        settled=False,
        next_batch=None,
    )
    if history.divergence(work.source, moved) is not None:
        # Of batches that were removed, or were markers, it is not known under which leader they were written.
        moved = replace(moved, epochs=())
    is_news = moved != position or not handover.is_recorded or handover.unwritten
    note = (
        f"{where} ended at offset {end}, before the position {position.downstream} on record: it was truncated; what "
        f"{flow.flow.source} still has is copied again"
        if is_behind
        else ""
    )
    return Ready(
        Handover(moved, open_runs, clean=True, owes_sync=handover.owes_sync, read_from=_read_from(moved, ends)),
        (*handover.unwritten, *chunks, moved.record(work.source)) if is_news else (),
        note=note,
        append_point=with_head,
    )


def _replaced(
    flow: FlowWork,
    work: PartitionWork,
    handover: Handover,
    ends: Ends,
    history: LogHistory,
    source: Channel,
    target: Channel,
    *,
    is_compacted: bool,
) -> int | None:
    """Return the offset of the last record on record as copied, if what fills offsets lies there; None if it does not.

    An unclean election takes the end of the copy away, and what was on its way to fill a hole behind it comes there.
    """
    position = handover.position
    runs = handover.runs or (
        history.state(work.source, handover).chunk_before(work.source, position.upstream)[1] if position.chunk else ()
    )
    last = runs[-1].upstream_end - 1 if runs else -1
    if last < max(ends.source_start, ends.target_start, 0) or work.left_out:
        return None
    batches = read_batches(source, work.source, last, last + 1, read_committed=flow.read_committed)
    original = next(_originals(work, batches, last, last + 1), None)
    if original is None or is_filler(original):
        return None
    for content, header in read_batches(target, work.target, last, last + 1):
        for each in records(content):
            if each.offset == last:
                is_own = header.producer_id == producer_of(flow.flow).producer_id
                return last if is_own and is_filler(each) else None
    if not is_compacted:
        return last
    # Its own cleaner may have removed it, but for a later one of its key alone that is copied; or what deletes one,
    # after a while.
    end = min(ends.source_end, ends.target_end)
    batches = read_batches(source, work.source, last + 1, end, read_committed=flow.read_committed)
    behind = (each.key for each in _originals(work, batches, last + 1, end))
    return None if original.value is None or original.key in behind else last


def _read_from(position: Position, ends: Ends) -> int:
    """Return from where the source is read: where a replica leads by now that had removed less it has records again."""
    return replace(position, passed_gaps=united(position.passed_gaps, 0, ends.source_start)).read_from


def _is_headless(handover: Handover, append_point: AppendPoint) -> bool:
    """Whether the head is being filled: nothing is on record as copied, and the copy does not reach where it begins."""
    return not handover.runs and handover.position.chunk == 0 and append_point.end <= handover.position.upstream


def _with_head(position: Position, runs: Sequence[Run], ends: Ends, append_point: AppendPoint) -> AppendPoint:
    """Say where the head ends that is still to be filled, or to be removed; no record of the source is behind it then.

    Before anything is on record as copied it may be removed again: that takes nothing of the source away.
    """
    begins_at = position.upstream
    is_filled = append_point.end >= begins_at and (append_point.is_compacted or ends.target_start >= begins_at)
    if runs or position.chunk > 0 or is_filled:
        return append_point
    return replace(append_point, begins_at=begins_at)


def _holds_fillers_alone(
    work: PartitionWork, ends: Ends, begins_at: int, flow: FlowWork, target: Channel
) -> bool | None:
    """Whether all that the copy holds before an offset fills offsets for this flow; None if no record lies there."""
    ours, is_own = producer_of(flow.flow).producer_id, None
    for content, header in read_batches(target, work.target, ends.target_start, min(ends.target_end, begins_at)):
        if header.producer_id != ours or not are_fillers(content, header):
            return False
        is_own = True
    return is_own


def _head_of_others(flow: FlowWork, work: PartitionWork, begins_at: int) -> Refused:
    return Refused(
        f"{work.target} on {flow.flow.target} holds records of somebody else before offset {begins_at}, with which "
        f"{flow.flow.source} began: {_advice(flow, work)}"
    )


def _advice(flow: FlowWork, work: PartitionWork) -> str:
    """Return what to do with a copy that cannot be gone on with; one that is copied both ways may be the original."""
    if work.is_two_way:
        return filling.may_be_original(flow.flow.source)
    return "delete the topic there to have it made anew"


def _own_until(
    work: PartitionWork,
    ends: Ends,
    position: Position,
    end: int,
    flow: FlowWork,
    source: Channel,
    target: Channel,
) -> int:
    """Return up to where nobody but this flow has written records into the copy behind a position.

    Markers behind that may be those of applications: the source gets them, too.
    """
    ours, until = producer_of(flow.flow).producer_id, position.upstream
    for _, header in read_batches(target, work.target, max(until, ends.target_start), end):
        if header.producer_id != ours:
            return until
        until = min(end, header.next_offset)
    # Behind that there are markers alone. Where the source has nothing to be copied, an aborted transaction perhaps,
    # both have the same up to there, whoever has written them. What it has removed it may have had, unless that is on
    # record as a gap.
    begins_at, stable = max(until, ends.source_start), min(end, ends.source_end)
    if stable > until and replace(position, upstream=until).read_from >= ends.source_start:
        batches = read_batches(source, work.source, begins_at, stable, read_committed=flow.read_committed)
        if next(_originals(work, batches, begins_at, stable), None) is None:
            until = stable
    return until


def _foreign_write(
    work: PartitionWork,
    start: int,
    runs: Sequence[Run],
    end: int,
    originals: Iterator[Record],
    epochs: Sequence[EpochEnd],
    target: Channel,
    held: list[Stretch],
    *,
    gaps: Sequence[Stretch],
    is_compacted: bool,
) -> str | None:
    """Return what tells that somebody else wrote into the copy from ``start`` on, before ``end``; None if nothing does.

    Where ``runs`` say that it has the source's records these, ``originals``, are compared: a marker that came twice
    takes the place of one, too. Of what was parked there is no run. The offsets of its records, but for tombstones that
    fill offsets, are added to ``held``.

    What is lacked in ``gaps`` on record a replica of the source may have that leads by now and had removed less. And a
    compacted copy may lack a record that its own cleaner has removed, or that of the replica that was read, for a later
    one of its key. But a source that was truncated has other records there by now: so one that is lacked must not be of
    a later leader (``epochs`` end with that of the last original) than one before it that is in both, unless one behind
    it is.
    """
    ours = producer_of(work.flow).producer_id
    foreign: list[Header] = []
    leader, absent = epochs[-1].epoch, None

    def copied() -> Iterator[Record]:
        for content, header in read_batches(target, work.target, start, end):
            if header.producer_id != ours and not work.is_original:
                foreign.append(header)
                return
            for each in records(content):
                if not is_tombstone(each):
                    add(held, each.offset, each.offset + 1)
                yield each

    copies = copied()
    at = next(copies, None)
    for original in originals:
        while at is not None and at.offset < original.offset:
            at = next(copies, None)
        if foreign:
            break
        run = bisect_right(runs, original.offset, key=lambda each: each.upstream) - 1
        if run < 0 or original.offset >= runs[run].upstream_end:
            continue
        if at is not None and at.offset == original.offset:
            if (at.key, at.value, at.headers) == (original.key, original.value, original.headers):
                leader, absent = epochs[-1].epoch, None
                continue
            if not is_tombstone(at):
                return f"its record at offset {original.offset} is not the source's"
        if hold(gaps, original.offset, original.offset + 1):
            continue
        if not is_compacted:
            return f"something else lies at offset {original.offset}, where the source has a record"
        if absent is None and NOT_KNOWN < leader < epochs[-1].epoch:
            absent = original.offset
    deque(copies, maxlen=0)
    if foreign:
        (first,) = foreign
        return f"somebody else has written at offset {first.base_offset} (producer id {first.producer_id})"
    if absent is not None:
        return f"it lacks the source's record at offset {absent}, of a later leader than what was copied"
    return None


def _originals(work: PartitionWork, batches: Iterator[Batch], start: int, end: int) -> Iterator[Record]:
    """Yield what is copied of the source's ``batches`` from ``start`` up to, not including, ``end``."""
    for content, header in batches:
        if header.next_offset > start:
            yield from change(work, [each for each in records(content) if start <= each.offset < end]).records
