"""Where a copy was truncated, although something else has been written in its place since.

A leader without the newest copies was elected, or a broker has lost what it had not flushed. Whoever takes the flow
over leaves a marker there before anybody looks, and others may write there: where the log ends tells nothing then.

Invariants:

(a) What lies at the last offset at which the offset map has a copy is a copy, or the log was truncated before it: where
    a leader of an epoch not newer than that of what lies there began to write. Where nothing lies any more, since
    compaction or retention removed it, nothing is said.
(b) Where both flows had kept the source's offsets under one name, the map also has what was passed by: originals, of
    which the flow back has made the copies that are read here. An original was not replaced.
(c) What the flow itself has written there behind the position is no copy of what lay before it: its sequence is not
    before that of the next batch, or its epoch is a later one. An engine that was killed before it had put the answer
    on record leaves no other trace. Nor is what was aborted a copy: of another slot no sequence tells. Between the last
    copy and the position, where others had written, it lies in the place of that: no copy is gone then, and it is
    matched.
"""

from __future__ import annotations

from collections.abc import Callable

from mirror.copier.resume import Ends
from mirror.copier.work import FlowWork, Handover, PartitionWork
from mirror.kafka.batch import LARGEST_SEQUENCE, Header
from mirror.kafka.channel import Channel
from mirror.kafka.log import LogReader, batch_at, is_aborted_at
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import Run, Runs
from mirror.model.position import NextBatch
from mirror.same_offsets.chain import producer_of

# Where others write much between the last copy and the position, only so much of it is looked at.
_LOOKED_AT_BYTES = 64 << 10


def truncated_at(
    flow: FlowWork,
    work: PartitionWork,
    handover: Handover,
    ends: Ends,
    state: Callable[[], FlowState],
    source: Channel,
    target: Channel,
) -> int | None:
    """Return from which offset on the copies are gone, None if what lies there is as it was written.

    Raises
    ------
    KafkaProblem
        if a cluster does not tell now.
    """
    end, found = min(handover.position.downstream, ends.target_end), None
    while (run := _last_before(end, handover, work, state)) is not None:
        last = min(run.downstream_end, end) - 1
        header = batch_at(target, work.target, last) if last >= ends.target_start else None
        if (
            header is None
            or (
                _is_copy(last, header, flow, work, state)
                and not _is_behind(handover.position.next_batch, header)
                and not _came_to_nothing(last, header, work, handover, target)
            )
            or _is_original(run, last, header, work, handover, ends, source)
        ):
            break
        found = end = min(header.base_offset, _begun(header.leader_epoch, work, ends, target))
    if found is None and run is not None and ends.target_start <= run.downstream_end < end:
        return _written_on(run.downstream_end, end, flow, work, handover, ends, target)
    return found


def _written_on(
    start: int, end: int, flow: FlowWork, work: PartitionWork, handover: Handover, ends: Ends, target: Channel
) -> int | None:
    """Return from where on the flow has written what belongs behind the position, between the last copy and that.

    Others had written there, or fences left their markers.
    """
    reader = LogReader(target, work.target, start)
    reader.ask(most_bytes=_LOOKED_AT_BYTES)
    for _, header in reader.answer(with_markers=True):
        if header.base_offset >= end:
            break
        if header.producer_id in flow.writers and _is_behind(handover.position.next_batch, header):
            return max(start, min(header.base_offset, _begun(header.leader_epoch, work, ends, target)))
    return None


def _last_before(end: int, handover: Handover, work: PartitionWork, state: Callable[[], FlowState]) -> Run | None:
    """Return the last run that has a copy before an offset; mostly that is in the chunk which is being filled."""
    run = Runs.of(handover.runs).last_before_copy(end)
    if run is None and handover.position.chunk > 0:
        known = state().offset_map(work.source)
        run = known.runs.last_before_copy(end) if known is not None else None
    return run


def _is_copy(offset: int, header: Header, flow: FlowWork, work: PartitionWork, state: Callable[[], FlowState]) -> bool:
    """Tell whether what lies there can be a copy: data of the flow, or of Java MirrorMaker, from before a takeover."""
    if header.is_control or header.producer_id in flow.writers:
        return not header.is_control
    taken = state().takeovers.get(work.source)
    return taken is not None and (taken.downstream is None or offset < taken.downstream)


def _is_behind(next_batch: NextBatch | None, header: Header) -> bool:
    """Tell whether a batch of the flow was written behind the position, as whom and where the next one was to be."""
    if next_batch is None or header.is_control or header.producer_id != next_batch.producer_id:
        return False
    if header.producer_epoch != next_batch.epoch:
        return header.producer_epoch > next_batch.epoch
    # Behind the last sequence comes the first one.
    return (header.base_sequence - next_batch.sequence) % (LARGEST_SEQUENCE + 1) <= LARGEST_SEQUENCE // 2


def _came_to_nothing(offset: int, header: Header, work: PartitionWork, handover: Handover, target: Channel) -> bool:
    """Tell whether what lies there was aborted; of the producer that writes on, its sequence tells that already."""
    following = handover.position.next_batch
    is_another = following is None or header.producer_id != following.producer_id
    return header.is_transactional and is_another and is_aborted_at(target, work.target, offset)


def _is_original(
    run: Run, offset: int, header: Header, work: PartitionWork, handover: Handover, ends: Ends, source: Channel
) -> bool:
    """Tell whether what lies there was passed by, since what is read at the same offset is the flow back's copy of it.

    Where the source no longer has that copy it is taken for one only until a translated record is on record.
    """
    if run.upstream != run.downstream or header.is_control or not work.left_out or offset >= ends.source_end:
        return False
    copy = batch_at(source, work.source, offset) if offset >= ends.source_start else None
    if copy is None:
        return handover.position.same_offsets
    return copy.producer_id == producer_of(Flow(work.flow.target, work.flow.source)).producer_id


def _begun(epoch: int, work: PartitionWork, ends: Ends, target: Channel) -> int:
    """Return where the first leader of an epoch not before this one began to write."""
    before = target.find_epoch_ends({work.target: epoch - 1}).whole()[work.target]
    return before.end if before is not None and before.end >= 0 else ends.target_start
