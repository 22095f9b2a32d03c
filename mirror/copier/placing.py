"""Where the copy of each partition goes on: at its position, behind a matched tail, or around what is gone.

Invariants:

(a) What is resumed is looked at before it is copied on: Java MirrorMaker may have copied it while a live engine had it
    paused. Where the copy does not end at the position, its positions and syncs are read again, and what it has copied
    is taken over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from mirror.copier import gaps, resume
from mirror.copier.committed_tail import LOST_END, LookedUntil, committed, has_committed, undecided
from mirror.copier.foreign_batches import LeftOut
from mirror.copier.links import ClusterLinks
from mirror.copier.mirrored import Mirrored, Undecided
from mirror.copier.resume import Ends, NotYet, Partly, Place, Ready, Refused, WrittenByMm2
from mirror.copier.stale_leaders import stale_leaders
from mirror.copier.tail_match import Batch
from mirror.copier.takeover import JavaWrote, watched
from mirror.copier.truncated import truncated_at
from mirror.copier.work import FlowWork, GapPolicy, Handover, PartitionWork
from mirror.kafka.batch import LARGEST_SEQUENCE, CorruptBatch, Producer
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.log import LogWriter, read_batches
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.topic_ids import differ
from mirror.model import connect_offsets
from mirror.model.flow_state import FlowState
from mirror.model.leader_epochs import EpochEnd, find_divergence
from mirror.model.mm2_trace import Pair
from mirror.model.partition import TopicPartition
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import StateRecord, epoch_of, stamped, term_of
from mirror.model.state_values import chunk_record
from mirror.waiting import last_seen

_REPLICATION_SECONDS = 0.5
_LOST_NOTE = (
    f"{LOST_END}; what this flow had committed since is found on the target, and not copied again. See why brokers of "
    "the target lost records that were acknowledged (unclean.leader.election.enable, min.insync.replicas of that topic)"
)
# So much of a tail is matched before others are looked at again.
_MATCH_SECONDS = 1.0


def as_whom(flow: FlowWork, work: PartitionWork) -> tuple[Producer, int]:
    """Return as whom a partition is written, and the first sequence."""
    if flow.slot is not None:
        return flow.slot.producer, flow.slot.sequences.get(work.target, 0)
    assert flow.producer is not None
    return flow.producer, work.sequence


def unrecorded(place: Place) -> Place:
    """Leave it to the lane to write down what there is to write down."""
    if not isinstance(place, Ready) or not place.records:
        return place
    handover = replace(place.handover, is_recorded=False, unwritten=place.records)
    return replace(place, handover=handover, records=())


def find_places(
    flow: FlowWork,
    partitions: Sequence[PartitionWork],
    source: ClusterLinks,
    target: ClusterLinks,
    mirrored: Mirrored,
    is_over: Callable[[], bool],
) -> dict[TopicPartition, Place]:
    """Find out where to begin with partitions, by source partition.

    Of a long tail some is matched at a time. The shortest come first, and what is left when the time for a piece is
    over is looked at the next time, so that what is found need not wait for all the others.
    """
    places: dict[TopicPartition, Place] = {}
    unknown: list[PartitionWork] = []
    for work in partitions:
        elsewhere = resume.changed_target(work)
        if elsewhere:
            places[work.source] = elsewhere
        elif work.handover is not None and work.handover.clean and not gaps.is_replaced(work):
            # What was found when it was taken over stands on the target before the first batch does.
            lacking = () if work.handover.is_recorded else work.handover.unwritten
            places[work.source] = Ready(work.handover, lacking)
        else:
            unknown.append(work)
    if not unknown:
        return places
    # Ids as they are now: the engine's may be some seconds old.
    source.forget_leaders({work.source.topic for work in unknown})
    target.forget_leaders({work.target.topic for work in unknown})
    ends = look_up(flow, unknown, source, target)
    history = LogHistory(flow, source, [work for work in unknown if isinstance(ends[work.source], Ends)])
    until = time.monotonic() + _MATCH_SECONDS
    for work in sorted(unknown, key=lambda work: _tail_length(work, ends[work.source])):
        if time.monotonic() > until and not all(isinstance(place, NotYet) for place in places.values()):
            break
        found = ends[work.source]
        now = with_ids(work, source.channel(), target.channel())
        if isinstance(found, NotYet):
            places[work.source] = found
        elif work.handover is None:
            places[work.source] = _first_place(flow, now, found, target)
        else:
            try:
                places[work.source] = _go_on(
                    flow, now, found, history, source.channel(), target.channel(), mirrored, is_over
                )
            except (KafkaProblem, Undecided) as problem:
                places[work.source] = NotYet(str(problem))
    return places


def _tail_length(work: PartitionWork, ends: Ends | NotYet) -> int:
    """Return how many offsets of the copy are to be read to find out where it goes on."""
    handover = work.handover
    if isinstance(ends, NotYet) or handover is None or handover.position.settled:
        return 0
    until = handover.foreign_until.offset if handover.foreign_until is not None else 0
    return max(0, ends.target_end - max(handover.position.downstream, until, handover.looked_until))


def _first_place(flow: FlowWork, work: PartitionWork, ends: Ends, target: ClusterLinks) -> Place:
    """Begin with a partition of which there is no position, unless Java MirrorMaker, or the flow, has copied it."""
    try:
        is_asked = not gaps.may_begin_behind(work) and ends.target_end > ends.target_start
        is_copied = is_asked and work.mm2 is None and resume.has_copies(work, flow, target.channel(), ends)
        is_asked = is_asked and (work.mm2 is not None or work.is_watched)
        has_records = is_asked and resume.has_records(work, target.channel(), ends)
    except KafkaProblem as problem:
        return NotYet(str(problem))
    if is_copied or (has_records and work.mm2 is not None):
        return WrittenByMm2()
    return resume.begin_behind_foreign_records(work, flow, ends) if has_records else resume.begin(work, flow, ends)


def with_ids(work: PartitionWork, source: Channel, target: Channel) -> PartitionWork:
    """Return it with the ids that both topics have now."""
    return replace(
        work,
        topic_id=source.topic_id(work.source.topic) or work.topic_id,
        target_id=target.topic_id(work.target.topic) or work.target_id,
    )


class LogHistory:
    """What the source and the state topic know of logs whose copies cannot simply go on; read when it is asked for."""

    def __init__(self, flow: FlowWork, source: ClusterLinks, works: Sequence[PartitionWork]) -> None:
        self._flow = flow
        self._source = source
        self._state: FlowState | None = None
        epochs = {
            work.source: work.handover.position.epochs[-1].epoch
            for work in works
            if work.handover is not None and work.handover.position.epochs
        }
        found = source.ask(lambda channel: channel.find_epoch_ends(epochs))
        self._problems = found.problems
        self._epoch_ends = {(partition, epochs[partition]): end for partition, end in found.items()}

    def divergence(self, source: TopicPartition, position: Position) -> int | None:
        """Return from where on the source's log is not the one that was copied up to ``position``."""

        def ask(epoch: int) -> EpochEnd | None:
            if (source, epoch) not in self._epoch_ends:
                if source in self._problems:
                    raise self._problems[source]
                found = self._source.ask(lambda channel: channel.find_epoch_ends({source: epoch}))
                self._epoch_ends[source, epoch] = found.whole()[source]
            return self._epoch_ends[source, epoch]

        return find_divergence(position.epochs, position.upstream, ask)

    def state(self, source: TopicPartition, handover: Handover) -> FlowState:
        """Return what the flow knows, with what ``handover`` says of its partition, recorded or not."""
        if self._state is None:
            tail = LogTail(self._flow.target_client, self._flow.state_topic, alias=self._flow.flow.target)
            self._state = FlowState()
            try:
                for record in tail.poll():
                    written_in = term_of(record.headers), epoch_of(record.headers)
                    self._state.apply(record.key, record.value, *written_in)
            finally:
                tail.close()
        position = handover.position
        for key, value in (
            *handover.unwritten,
            chunk_record(source, position.chunk, handover.runs),
            position.record(source),
        ):
            self._state.apply(key, value)
        return self._state


def _go_on(
    flow: FlowWork,
    work: PartitionWork,
    ends: Ends,
    history: LogHistory,
    source: Channel,
    target: Channel,
    mirrored: Mirrored,
    is_over: Callable[[], bool],
) -> Place:
    """Go on from the handover: around what is missing, or behind what lies on the target already."""
    assert work.handover is not None
    before = handover = work.handover
    # Nothing of ours that counts lies behind a position that was committed with its records, or when all was settled.
    is_decided = handover.position.settled or (flow.slot is not None and handover.position.atomic)
    may_be_committed = (flow.slot is not None or handover.position.atomic) and not handover.position.settled
    # What is written behind it from now on is not decided.
    position = replace(handover.position, atomic=handover.position.atomic and flow.slot is not None, settled=False)
    handover = replace(handover, position=position)
    work = replace(work, handover=handover)
    if ends.target_end < ends.target_written:
        return NotYet(
            f"{work.target} on the target has {ends.target_written - ends.target_end} records that are not replicated "
            "yet; what was written last cannot be read before they are"
        )
    foreign_until = 0 if is_decided or _stretches(work) else _foreign_until(work, ends, target)
    if not (foreign_until or gaps.is_replaced(work)):
        truncated = truncated_at(
            flow, work, handover, ends, lambda: history.state(work.source, handover), source, target
        )
        if truncated is not None:
            handover = replace(handover, target_ended_at=truncated)
    records: tuple[StateRecord, ...] = handover.unwritten
    is_on_detour = is_behind_gap = False
    while (detour := _next_detour(work, handover, ends, history)) is not None:
        around = _around(flow, work, handover, detour, history, ends)
        records += around.records
        if isinstance(around, Refused):
            return replace(around, records=records)
        handover, is_on_detour, is_behind_gap = around.handover, True, is_behind_gap or detour.gap is not None
        # What it had stopped at lies behind it now.
        work = replace(work, gaps=GapPolicy(work.gaps.stops))
    if is_behind_gap or (is_on_detour and handover.position.downstream >= ends.target_end):
        return Ready(handover, records)
    if is_on_detour:
        handover = replace(handover, clean=False, unwritten=records)
        work = replace(work, handover=handover)
    if handover.clean:
        return Ready(handover)
    now_ms = int(time.time() * 1000)
    # A detour is found anew by each epoch, and the handover behind it has forgotten how far the one before had looked.
    behind = max(handover.position.downstream, ends.target_start, _looked_until(before, ends))
    # One that is not the last is as good as none: what was committed behind it is matched.
    has_lost = may_be_committed and has_committed(
        *(target, work.target, behind, ends.target_end, flow.writers.__contains__, handover.position.next_batch),
        _Piece(is_over).is_over,
    )
    if isinstance(has_lost, LookedUntil):
        looked_until = has_lost.offset
        reason = f"looking for what was committed behind the position: at offset {looked_until} of {ends.target_end}"
        return Partly(replace(before, clean=False, looked_until=looked_until), reason)
    if has_lost:
        if (why := undecided(target, work.target, ends.target_end)) is not None:
            return NotYet(why)
        is_decided = False
    outcome = _resume(flow, work, ends, source, target, mirrored, is_decided, has_lost, foreign_until, is_over)
    if isinstance(outcome, WrittenByMm2 | NotYet):
        return outcome
    again = None
    if isinstance(outcome, Ready | Partly) and not is_decided:
        looked_from = max(handover.position.downstream, foreign_until, handover.looked_until)
        again = gaps.copied_again(work, handover.position, outcome.handover.position, ends, looked_from, now_ms)
    if again is not None and not again.passed:
        return Refused(gaps.stop_reason(again), (*records, *gaps.news(again, work.gaps)))
    if isinstance(outcome, Partly):
        found = outcome.handover
        passed = gaps.unrecorded(work, handover.position, found.position, ends, now_ms)
        news = tuple(gap.record() for gap in (again, *passed) if gap is not None)
        return replace(outcome, handover=replace(found, unwritten=(*news, *found.unwritten)))
    if isinstance(outcome, Refused):
        detour = gaps.unmatched(work, handover.position, ends, outcome.reason, now_ms)
        around = _around(flow, work, handover, detour, history, ends)
        return replace(around, records=records + around.records)
    at = outcome.handover.position
    passed = gaps.unrecorded(work, handover.position, at, ends, now_ms, outcome.removed)
    news = tuple(gap.record() for gap in (again, *passed) if gap is not None)
    return replace(outcome, records=(*news, *outcome.records), note=_LOST_NOTE if has_lost and not is_on_detour else "")


def _next_detour(work: PartitionWork, handover: Handover, ends: Ends, history: LogHistory) -> gaps.Detour | None:
    return gaps.find_detour(
        work,
        handover,
        lambda: history.state(work.source, handover),
        ends,
        lambda position: history.divergence(work.source, position),
        int(time.time() * 1000),
    )


def _around(
    flow: FlowWork, work: PartitionWork, handover: Handover, detour: gaps.Detour, history: LogHistory, ends: Ends
) -> Ready | Refused:
    """Go on behind a gap if that may be."""
    # What the flow has left before the end of the copy was not written behind this position; where the position is not
    # that end, it may have been, and nothing would tell the next engine so.
    is_end = detour.position.downstream >= ends.target_end
    detour = replace(detour, position=replace(detour.position, next_batch=_next_batch(flow, work) if is_end else None))
    gap = detour.gap and gaps.settle(detour.gap, work.gaps, is_certain=detour.is_certain)
    if gap is not None and not gap.passed:
        return Refused(gaps.stop_reason(gap), gaps.news(gap, work.gaps))
    found, records = gaps.take(detour, gap, work.source, history.state(work.source, handover))
    return Ready(found, records)


def _resume(
    flow: FlowWork,
    work: PartitionWork,
    ends: Ends,
    source: Channel,
    target: Channel,
    mirrored: Mirrored,
    is_decided: bool,  # passed on
    has_lost: bool,  # passed on
    foreign_until: int,
    is_over: Callable[[], bool],
) -> Place:
    assert work.handover is not None
    old = work.handover.position
    start = max(old.upstream, ends.source_start)
    stretches = _stretches(work)
    is_ours = flow.writers.__contains__
    piece = _Piece(is_over)
    looked_until = _looked_until(work.handover, ends)

    def read() -> resume.Logs:
        piece.reached = start_at = max(old.downstream, ends.target_start, foreign_until, looked_until)
        # A marker is no hole that compaction has left.
        read_tail = committed if has_lost else partial(read_batches, with_markers=True)
        tail = piece.of(read_tail(target, work.target, start_at, ends.target_end))
        originals = read_batches(source, work.source, start, ends.source_end, read_committed=flow.read_committed)
        skipped = LeftOut(old.left_out)
        if work.left_out:
            originals = mirrored.without(originals, work.left_out, skipped)
        watching = () if is_decided and not stretches else watched(tail, stretches, is_ours)
        return resume.Logs(originals, watching, skipped, foreign_until, looked_until)

    try:
        found = resume.resume(
            work, work.handover, ends, _of_no_producer if is_decided else is_ours, read, _next_batch(flow, work)
        )
        if isinstance(found, Refused) and (piece.is_cut or looked_until or ends.source_start > old.upstream):
            # What compaction has left, or retention, is compared with the whole.
            piece.until, looked_until = math.inf, 0
            if is_over():
                return NotYet(_matching(piece, ends))
            found = resume.resume(
                *(work, work.handover, ends, is_ours, read, _next_batch(flow, work)),
                is_whole=lambda: not piece.is_cut,
            )
            # What is certain when the epoch ends is kept: a whole can be longer than an epoch.
            if piece.is_cut and (isinstance(found, Refused) or not found.skipped_by_match):
                return NotYet(_matching(piece, ends))
        if isinstance(found, Refused) or not piece.is_cut:
            return found
        # Right behind the last that is certain: what compaction has removed since explains something of what follows.
        is_further = found.skipped_by_match > 0
        downstream = found.handover.runs[-1].downstream_end if is_further else old.downstream
        position = replace(found.handover.position, downstream=downstream, next_batch=None)
        looked_until = 0 if is_further else piece.reached
        # The position is recorded when all is matched: until then it is one of many.
        unwritten = found.records[:-1]
        return Partly(
            replace(
                found.handover,
                position=position,
                clean=False,
                is_recorded=False,
                unwritten=unwritten,
                looked_until=looked_until,
            ),
            _matching(piece, ends),
        )
    except JavaWrote:
        return WrittenByMm2()
    except CorruptBatch as problem:
        return Refused(f"what lies on the target cannot be compared with the source: {problem}")


def _stretches(work: PartitionWork) -> Sequence[tuple[Pair, ...]]:
    """Return what Java MirrorMaker's syncs say; where it has left some it may be among the others: all is looked at."""
    return work.mm2.stretches if work.mm2 else ()


def _next_batch(flow: FlowWork, work: PartitionWork) -> NextBatch | None:
    if flow.slot is not None or flow.producer is None:
        return None
    return NextBatch(flow.producer.producer_id, flow.producer.epoch, work.sequence)


def _foreign_until(work: PartitionWork, ends: Ends, target: Channel) -> int:
    """Return the offset of the copy before which nothing of this flow lies behind its position; 0: that is not known.

    It is if the log still is the one of which its leader has said so, up to there. Of more records than there are
    sequences the last one does not tell.
    """
    handover = work.handover
    before = handover.foreign_until if handover is not None else None
    if handover is None or before is None or before.offset > ends.target_end:
        return 0
    if before.offset - handover.position.downstream > LARGEST_SEQUENCE:
        return 0
    found = target.find_epoch_ends({work.target: before.leader_epoch})
    end = found.get(work.target)
    # With an older epoch it may go on as a leader had it that had not heard of that one.
    is_the_same = end is not None and end.epoch == before.leader_epoch and end.end >= before.offset
    return before.offset if is_the_same else 0


class _Piece:
    """As much of a tail as is matched at a time: others wait for it, or the epoch is over."""

    def __init__(self, is_epoch_over: Callable[[], bool]) -> None:
        self.until = time.monotonic() + _MATCH_SECONDS
        self.reached = 0
        self.is_cut = False
        self._is_epoch_over = is_epoch_over

    def is_over(self) -> bool:
        return self._is_epoch_over() or time.monotonic() > self.until

    def of(self, tail: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches of a piece; ``reached`` is where it ends.

        The first is always one of it: over a slow line a batch can take longer than a piece may.
        """
        self.is_cut, is_begun = False, False
        for content, header in tail:
            if is_begun and self.is_over():
                self.is_cut = True
                return
            is_begun = True
            yield content, header
            self.reached = header.next_offset


def _looked_until(handover: Handover, ends: Ends) -> int:
    """Return up to where an earlier piece has found nothing; 0: there is none, or the copy was truncated since."""
    return handover.looked_until if handover.looked_until <= ends.target_end else 0


def _matching(piece: _Piece, ends: Ends) -> str:
    return f"matching what lies on the target: at offset {piece.reached} of {ends.target_end}"


def _of_no_producer(_producer_id: int) -> bool:
    return False


def moved_back(
    flow: FlowWork,
    partitions: Sequence[PartitionWork],
    places: Mapping[TopicPartition, Place],
) -> dict[int, list[tuple[bytes, bytes | None]]]:
    """Return MM2's positions of the partitions whose copy goes back, by partition of their topic."""
    moved: dict[int, list[tuple[bytes, bytes | None]]] = {}
    for work in partitions:
        place = places.get(work.source)
        if not isinstance(place, Ready) or work.handover is None:
            continue
        upstream = place.handover.position.upstream
        if upstream < work.handover.position.upstream:
            key = connect_offsets.source_key(flow.flow.source, work.source)
            value = connect_offsets.source_value(upstream - 1) if upstream else None
            moved.setdefault(connect_offsets.partition_of(key, flow.offsets_partitions), []).append((key, value))
    return moved


def look_up(
    flow: FlowWork, partitions: Sequence[PartitionWork], source: ClusterLinks, target: ClusterLinks
) -> dict[TopicPartition, Ends | NotYet]:
    """Return where the logs begin and end, with a few requests for all partitions, by source partition."""
    if not partitions:
        return {}
    sources, targets = [one.source for one in partitions], [one.target for one in partitions]
    visible = View.STABLE if flow.read_committed else View.VISIBLE
    source_starts = source.ask(lambda channel: channel.find_offsets(sources, EARLIEST))
    source_ends = source.ask(lambda channel: channel.find_offsets(sources, LATEST, visible))
    target_starts = target.ask(lambda channel: channel.find_offsets(targets, EARLIEST))
    source_written = source.ask(lambda channel: channel.find_offsets(sources, LATEST, View.WRITTEN))
    stale = source.ask(lambda channel: stale_leaders(channel, _newest_epochs(partitions, channel)))
    written = target.ask(lambda channel: channel.find_offsets(targets, LATEST, View.WRITTEN))
    replicated = _replicated(target, written)
    ends: dict[TopicPartition, Ends | NotYet] = {}
    for one in partitions:
        problem = (
            source_starts.problems.get(one.source)
            or source_ends.problems.get(one.source)
            or source_written.problems.get(one.source)
            or target_starts.problems.get(one.target)
            or written.problems.get(one.target)
        )
        if problem or one.target not in replicated:
            ends[one.source] = NotYet(str(problem or f"{flow.flow.target}: {one.target} has no leader"))
        elif one.source in stale:
            ends[one.source] = NotYet(stale[one.source])
        else:
            ends[one.source] = Ends(
                source_starts[one.source],
                source_ends[one.source],
                target_starts[one.target],
                replicated[one.target],
                written[one.target],
                source_written[one.source],
            )
    return ends


def _newest_epochs(partitions: Sequence[PartitionWork], source: Channel) -> dict[TopicPartition, int]:
    """Return under which leader was written what was copied last, of topics that are the ones that were copied."""
    known = {one.source: one.handover.position for one in partitions if one.handover is not None}
    return {
        each: position.epochs[-1].epoch
        for each, position in known.items()
        if position.epochs and not differ(position.topic_id, source.topic_id(each.topic))
    }


def _replicated(target: ClusterLinks, written: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the ends that readers see, once they see all that was written up to now, or after a short while."""

    def look() -> dict[TopicPartition, int]:
        return target.ask(lambda channel: channel.find_offsets(written, LATEST))

    return last_seen(
        look,
        "replication of what was written",
        timeout_seconds=_REPLICATION_SECONDS,
        until=lambda seen: all(seen.get(partition, end) >= end for partition, end in written.items()),
    )


def always() -> None:
    """Let everything be written."""


def write(
    flow: FlowWork,
    topic: str,
    records: Mapping[int, Sequence[tuple[bytes, bytes | None]]],
    before: Callable[[], None],
) -> None:
    """Append records, by partition, to a side topic on the target; ``before`` each request, which it may prevent."""
    if not any(records.values()):
        return
    now, term = int(time.time() * 1000), flow.term if topic == flow.state_topic else None
    with closing(LogWriter(flow.target_client, alias=flow.flow.target, before=before)) as writer:
        for partition, content in records.items():
            if content:
                writer.append(topic, partition, stamped(content, term, now, flow.epoch))
