"""The Spark side of taking over: reads both logs, decides where the copy goes on, and writes nothing but its progress.

What was decided is handed back as a handover, and recorded by the first task that copies on from it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mirror.copier import gaps, links, resume, takeover
from mirror.copier.foreign_batches import LeftOut
from mirror.copier.links import ClusterLinks
from mirror.copier.mirrored import Mirrored, Undecided
from mirror.copier.placing import always, look_up
from mirror.copier.resume import Ends, NotYet, Ready, Refused
from mirror.copier.takeover import Found, SourceLog, Unclear
from mirror.copier.takeover_record import taken
from mirror.copier.task import heard_by_driver
from mirror.copier.work import FlowWork, PartitionResult, PartitionWork, TaskResult, TaskWork
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.fingerprints import Fingerprints, all_fingerprints
from mirror.kafka.log import LogWriter, read_batches
from mirror.kafka.problems import KafkaProblem
from mirror.model.mm2_trace import Anchor, Mm2Trace, NoAnchor, Pair, find_anchor
from mirror.model.partition import TopicPartition
from mirror.model.state_record import stamped
from mirror.model.state_values import Takeover

_PROGRESS_SECONDS = 2.0


def take_over(work: TaskWork) -> TaskResult:
    """Decide where to go on with each partition, as many as can be begun in ``work.seconds``; the others are left out.

    Whatever goes wrong with a partition or a cluster comes back as a value.
    """
    return heard_by_driver(
        work, lambda driver: _take_over(work, driver.require_answer if driver is not None else always)
    )


def _take_over(work: TaskWork, before: Callable[[], None]) -> TaskResult:
    began = time.monotonic()
    results: list[PartitionResult] = []
    for flow in work.flows:
        source = links.cluster(flow.flow.source, flow.source_client)
        target = links.cluster(flow.flow.target, flow.target_client)
        partitions = [_unsettled(one) for one in work.partitions if one.flow == flow.flow]
        try:
            ends = look_up(flow, partitions, source, target)
            open_ends = _open_ends(target, partitions)
        except KafkaProblem as problem:
            results += [
                PartitionResult(flow.flow, one.source, one.handover, trouble=str(problem)) for one in partitions
            ]
            continue
        for one in partitions:
            if results and time.monotonic() - began > work.seconds:
                break
            place = _place(flow, one, ends[one.source], open_ends, (source, target), before)
            results.append(_result(one, _recorded(flow, place, before)))
    return TaskResult(tuple(results))


def _unsettled(work: PartitionWork) -> PartitionWork:
    """Take the mark from a position behind which is copied again."""
    if work.handover is None:
        return work
    position = replace(work.handover.position, settled=False)
    return replace(work, handover=replace(work.handover, position=position))


def _result(work: PartitionWork, place: Ready | NotYet | Refused) -> PartitionResult:
    match place:
        case Ready(handover, records, skipped, note):
            ready = replace(handover, is_recorded=False, unwritten=records)
            return PartitionResult(work.flow, work.source, ready, skipped_by_match=skipped, note=note)
        case NotYet(reason):
            return PartitionResult(work.flow, work.source, work.handover, trouble=reason)
        case Refused(reason, _):
            return PartitionResult(work.flow, work.source, work.handover, stopped=reason)


def _recorded(flow: FlowWork, place: Ready | NotYet | Refused, before: Callable[[], None]) -> Ready | NotYet | Refused:
    """Write down why a partition is refused, so that it can be acknowledged; what is ready waits for its task.

    ``before`` is called right before, and may keep it from being written.
    """
    if not isinstance(place, Refused) or not place.records:
        return place
    try:
        with contextlib.closing(LogWriter(flow.target_client, alias=flow.flow.target, before=before)) as writer:
            at_ms = int(time.time() * 1000)
            writer.append(flow.state_topic, 0, stamped(place.records, flow.term, at_ms, flow.epoch))
    except KafkaProblem as problem:
        return NotYet(str(problem))
    return place


def _open_ends(target: ClusterLinks, partitions: Sequence[PartitionWork]) -> dict[TopicPartition, int]:
    """Return where the first open transaction of each target partition begins, or the partition ends."""
    return target.ask(lambda channel: channel.find_offsets([one.target for one in partitions], LATEST, View.STABLE))


def _place(
    flow: FlowWork,
    work: PartitionWork,
    ends: Ends | NotYet,
    open_ends: dict[TopicPartition, int],
    clusters: tuple[ClusterLinks, ClusterLinks],
    before: Callable[[], None],
) -> Ready | NotYet | Refused:
    source, target = clusters
    if isinstance(ends, NotYet):
        return ends
    refused = resume.changed_target(work) or _created_anew(work)
    if refused is not None:
        return refused
    assert work.mm2 is not None
    is_new = work.handover is None and work.mm2.position is None
    if is_new and gaps.may_begin_behind(work):
        return resume.begin(work, flow, ends)
    try:
        if is_new and ends.target_start == 0 and not resume.has_records(work, target.channel(), ends):
            return _begin_empty(flow, work, ends, work.mm2)
    except KafkaProblem as problem:
        return NotYet(str(problem))
    if is_new and (work.transform is not None or not work.mm2.matches):
        why = "transforms change them" if work.transform is not None else "mirror.takeover = position"
        return gaps.unknown_origin(work, ends, f"it is not compared with the source: {why}", int(time.time() * 1000))
    if not work.mm2.matches:
        return _at_position(work, work.mm2, ends)
    if ends.target_end < ends.target_written:
        return NotYet(
            f"{work.target} on the target has {ends.target_written - ends.target_end} records that are not replicated "
            "yet; what Java MirrorMaker wrote last cannot be read before they are"
        )
    stable = open_ends.get(work.target, ends.target_end)
    if stable < ends.target_end:
        return NotYet(
            f"{work.target} on the target has an open transaction from offset {stable} on; what Java MirrorMaker wrote "
            "cannot be known before it ends"
        )
    with contextlib.closing(_Progress(flow, work, before)) as progress:
        try:
            mirrored = Mirrored(source, flow.mirrors)
            return _Taking(
                flow, work, ends, work.mm2, source.channel(), target.channel(), mirrored, progress.seen
            ).place()
        except (KafkaProblem, Undecided) as problem:
            return NotYet(f"what Java MirrorMaker left cannot be read: {problem}")
        except CorruptBatch as problem:
            return Refused(f"what Java MirrorMaker left on the target cannot be compared with the source: {problem}")


def _created_anew(work: PartitionWork) -> Refused | None:
    """Refuse a topic, or a copy, that is not the one this engine copied before Java MirrorMaker did."""
    if not gaps.is_replaced(work):
        return None
    return Refused(
        f"{work.source} or its copy {work.target} was deleted and created anew since this engine copied it last, and "
        "Java MirrorMaker has copied it since: what is where is not known; delete the copy, and its positions with it"
    )


def _sync_message(trace: Mm2Trace) -> str:
    newest = trace.stretches[-1][-1]
    return f"an offset sync says that upstream offset {newest.upstream} was copied to offset {newest.downstream}"


def _begin_empty(flow: FlowWork, work: PartitionWork, ends: Ends, trace: Mm2Trace) -> Ready:
    """Begin a copy that has never had a record, also where syncs speak of one: nothing can be doubled.

    Flows that differ in their aliases only share their topic, and a sync names the source partition and not the copy.
    """
    begun = resume.begin(work, flow, ends)
    if not trace.stretches:
        return begun
    note = (
        f"{work.target} has never had a record and begins at its start, although {_sync_message(trace)}: that is of "
        f"another flow that shares {flow.syncs_topic}, or of a copy that is no more"
    )
    position = begun.handover.position
    report = Takeover(work.source, None, position.upstream, position.downstream, 0, 0, note=note)
    return replace(begun, records=(*begun.records, report.record()), note=note)


def _at_position(work: PartitionWork, trace: Mm2Trace, ends: Ends) -> Ready:
    """Go on where MirrorMaker recorded that it stood; what it wrote behind that is copied again."""
    upstream = ends.source_start if trace.position is None else trace.position
    return taken(work, trace, Pair(upstream, ends.target_end), Found(upstream, ()), ends, "by its position alone")


@dataclass(frozen=True, slots=True)
class _Taking:
    """One partition on its way from Java MirrorMaker to this engine."""

    flow: FlowWork
    work: PartitionWork
    ends: Ends
    trace: Mm2Trace
    source: Channel
    target: Channel
    mirrored: Mirrored
    on_progress: Callable[[int, int], None]

    def place(self) -> Ready | NotYet | Refused:
        """Decide where to go on."""
        if self._own is None and self.trace.position is None and self.trace.stretches and self._is_empty:
            return self._known_by_syncs_alone()
        anchor = self._anchor(newest=False)
        if isinstance(anchor, NoAnchor):
            return self._among_syncs_of_other_flows(anchor)
        if anchor is None:
            return self._without_syncs()
        outcome = self._match(anchor)
        note = ""
        if isinstance(outcome, Unclear):
            last = self._anchor(newest=True)
            if not isinstance(last, Anchor) or last.at == anchor.at:
                return self._refused(outcome.reason)
            # The newest sync alone says how far the copy got, whatever lies before it.
            note = f"before downstream offset {last.at.downstream} the logs do not agree: {outcome.reason}"
            anchor, outcome = last, self._match(last)
            if isinstance(outcome, Unclear):
                return self._refused(outcome.reason)
        return taken(self.work, self.trace, anchor.at, outcome, self.ends, note)

    @property
    def _own(self) -> Pair | None:
        handover = self.work.handover
        return Pair(handover.position.upstream, handover.position.downstream) if handover else None

    def _anchor(self, *, newest: bool) -> Anchor | NoAnchor | None:
        ends = self.ends
        return find_anchor(self.trace, self._own, ends.source_start, ends.target_start, ends.target_end, newest=newest)

    def _match(self, anchor: Anchor) -> Found | Unclear:
        downstream = max(anchor.at.downstream, self.ends.target_start)
        span = self.ends.target_end - downstream
        return takeover.match(
            self._source_from(anchor.source_from),
            self._target_from(downstream),
            anchor,
            self.trace.position,
            is_ours=self.flow.writers.__contains__,
            is_shared=self._is_shared,
            on_progress=lambda seen: self.on_progress(seen, span),
        )

    @property
    def _is_empty(self) -> bool:
        return self.ends.target_end == self.ends.target_start

    def _known_by_syncs_alone(self) -> Refused:
        """Refuse a copy that was emptied, of which only syncs speak: it can have been made by this very flow."""
        return self._refused(
            f"{_sync_message(self.trace)}, and the copy begins and ends at offset {self.ends.target_end}: its records "
            "were removed"
        )

    def _among_syncs_of_other_flows(self, none: NoAnchor) -> Ready | Refused:
        """Find by contents what this flow recorded last; its syncs cannot be told from those of another flow."""
        found = None if self.trace.position is None or self._own is not None or self._is_empty else self._search()
        if not isinstance(found, Found):
            return self._refused(
                f"{none.reason}, or the sync is of another flow that shares {self.flow.syncs_topic}"
                + (f"; by contents: {found.reason}" if found else "")
            )
        # Whose the older ones are is not known either, so that no position is translated by them.
        return replace(self, trace=replace(self.trace, stretches=()))._found_by_contents(found)

    def _without_syncs(self) -> Ready | Refused:
        """Look for what MirrorMaker recorded last, or else for the source's first record, by contents."""
        work, ends, position = self.work, self.ends, self.trace.position
        outcome = None if self._is_empty else self._search()
        if isinstance(outcome, Unclear):
            return self._refused(f"it left no offset sync, and {outcome.reason}")
        if outcome is not None:
            return self._found_by_contents(outcome)
        if position is None and self.trace.is_alone and not self._is_empty:
            return self._refused("it holds no copy of the first record that the source has")
        if position is None:
            return resume.begin(work, self.flow, ends)
        return taken(work, self.trace, Pair(position, ends.target_end), Found(position, ()), ends, "")

    def _search(self) -> Found | Unclear | None:
        ends, position = self.ends, self.trace.position
        first = ends.source_start if position is None else max(ends.source_start, position - 1)
        source = self._source_from(first)
        lowest = self._earliest_copy(source)
        target = list(self._reporting_progress(self._target_from(lowest), ends.target_end - lowest))
        return takeover.search(
            source, target, position, is_ours=self.flow.writers.__contains__, is_shared=self._is_shared
        )

    def _found_by_contents(self, found: Found) -> Ready:
        at = Pair(found.runs[0].upstream, found.runs[0].downstream)
        return taken(self.work, self.trace, at, found, self.ends, "found by contents alone")

    def _earliest_copy(self, source: SourceLog) -> int:
        """Return an offset of the target before which no copy of the source's first record can stand."""
        timestamp = source.first_timestamp()
        if timestamp is None or timestamp < 0:
            return self.ends.target_start
        found = self.target.offsets([self.work.target], timestamp)[self.work.target]
        if found < 0:
            return self.ends.target_end
        stamped = next(iter(self._target_from(found)), None)
        return self.ends.target_start if stamped is not None and stamped.has_append_time else found

    @property
    def _is_shared(self) -> bool:
        """Whether others may write to the target topic: nobody but the mirror does where it is renamed."""
        return self.work.source.topic == self.work.target.topic

    def _source_from(self, start: int) -> SourceLog:
        begin = max(start, self.ends.source_start)
        batches = read_batches(
            self.source, self.work.source, begin, self.ends.source_end, read_committed=self.flow.read_committed
        )
        if self.work.left_out:
            batches = self.mirrored.without(batches, self.work.left_out, LeftOut(0))
        return SourceLog(all_fingerprints(batches), start)

    def _target_from(self, start: int) -> Iterator[Fingerprints]:
        return all_fingerprints(
            read_batches(self.target, self.work.target, start, self.ends.target_end, read_committed=True)
        )

    def _reporting_progress(self, target: Iterator[Fingerprints], span: int) -> Iterator[Fingerprints]:
        seen = 0
        for each in target:
            seen += len(each.offsets)
            self.on_progress(seen, span)
            yield each

    def _refused(self, reason: str) -> Refused:
        if self.work.handover is None and self.trace.position is None:
            return gaps.unknown_origin(self.work, self.ends, reason, int(time.time() * 1000))
        position = "no position" if self.trace.position is None else f"position {self.trace.position}"
        return Refused(
            f"Java MirrorMaker copied this partition and recorded {position}, but how far it got cannot be known: "
            f"{reason}. To go on at its position all the same, and copy again what lies behind it, set "
            "mirror.takeover = position and start again"
        )


class _Progress:
    """Writes down now and then how far the match is, where the status finds it."""

    def __init__(self, flow: FlowWork, work: PartitionWork, before: Callable[[], None]) -> None:
        self._before = before
        self._flow = flow
        self._work = work
        self._next_at = time.monotonic() + _PROGRESS_SECONDS
        self._writer: LogWriter | None = None

    def seen(self, seen: int, span: int) -> None:
        """Tell it, if it is time."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + _PROGRESS_SECONDS
        assert self._work.mm2 is not None
        progress = Takeover(self._work.source, self._work.mm2.position, None, None, seen, span).record()
        if self._writer is None:
            self._writer = LogWriter(self._flow.target_client, alias=self._flow.flow.target, before=self._before)
        at_ms, flow = int(time.time() * 1000), self._flow
        self._writer.append(flow.state_topic, 0, stamped([progress], flow.term, at_ms, flow.epoch))

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
