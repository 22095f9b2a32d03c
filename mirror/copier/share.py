"""A task's share of a flow: which of its partitions are copied, which wait, and what became of each."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mirror.copier import gaps, links, resume
from mirror.copier.backoff import Backoff
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.mirrored import Mirrored
from mirror.copier.placing import as_whom, find_places, moved_back, unrecorded, write
from mirror.copier.resume import NotYet, Partly, Place, Ready, Refused, WrittenByMm2
from mirror.copier.same_lane import SameOffsetsLane
from mirror.copier.same_places import find_same_places
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.transactions import Transactions
from mirror.copier.work import FlowWork, PartitionResult, PartitionWork
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord
from mirror.same_offsets.chain import producer_of

# How long those are left alone with which nothing can be begun now.
_FIRST_BACKOFF_SECONDS = 0.2
_LONGEST_BACKOFF_SECONDS = 5.0


def _is_clean(work: PartitionWork) -> bool:
    """Whether nothing has to be looked up before it goes on."""
    is_clean = work.handover is not None and work.handover.clean and work.pad_limit is None
    return is_clean and resume.changed_target(work) is None and not gaps.is_replaced(work)


class Share:
    """One flow's part of a task: as whom it is written, the lanes of what is copied, and what is not, and why.

    What can be copied on at once has a lane from the beginning. The rest is looked at beside the copy, by
    :meth:`look`, as often as it takes.

    Attributes
    ----------
    lanes
        of what is copied.
    has_news
        whether the driver must hear of a partition before that goes on.
    filler
        fills the holes of copies with the source's offsets; None as long as there are no such copies.
    """

    def __init__(
        self,
        flow: FlowWork,
        partitions: Sequence[PartitionWork],
        clusters: Mapping[tuple[Flow, str], ClusterLinks],
        before_writing: Callable[[], None],
    ) -> None:
        """Make lanes of what was handed over clean; ``before_writing`` raises when nothing may be written beside."""
        self.flow = flow.flow
        self._before_writing = before_writing
        self.lanes: list[Lane] = []
        self.has_news = False
        self._work = flow
        self._target = clusters[flow.flow, "target"]
        self.transactions = Transactions(flow, flow.slot, self._target) if flow.slot else None
        self._mirrored = Mirrored(clusters[flow.flow, "source"], flow.mirrors)
        self._idle: list[PartitionResult] = []
        self._begun: dict[TopicPartition, Ready] = {}
        self._troubles: dict[TopicPartition, str] = {}
        self.filler: HoleFiller | None = None
        self._is_over = threading.Event()
        self._backoff = Backoff(_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS)
        self._look_at = 0.0
        self.waiting = [work for work in partitions if not self._is_ready(work)]
        for work in partitions:
            if work not in self.waiting and work.handover is not None:
                self._begin(work, Ready(work.handover))

    def _is_ready(self, work: PartitionWork) -> bool:
        """Whether it can go on at once: nothing has to be looked up, nor written down first."""
        handover = work.handover
        return (
            _is_clean(work)
            and handover is not None
            and (handover.is_recorded or not handover.unwritten or self.transactions is not None)
        )

    def troubles(self) -> Mapping[TopicPartition, str]:
        """Return why those are not copied that are still looked at."""
        return {work.source: self._troubles[work.source] for work in self.waiting if work.source in self._troubles}

    def is_due(self, now: float) -> bool:
        """Whether some are to be looked at now."""
        return bool(self.waiting) and now >= self._look_at and not self._is_over.is_set()

    def end(self) -> None:
        """Look at nothing more; what is being looked at is left where that got to."""
        self._is_over.set()

    def look(self) -> dict[TopicPartition, Place]:
        """Find out where to begin with all that wait, and write down what must stand before their first batches.

        Runs beside the copy, over connections of its own.

        Raises
        ------
        KafkaProblem
            if that cannot be done now.
        """
        flow = self._work
        # Those that have only something to write down do not wait until the others are looked up.
        partitions = [work for work in self.waiting if _is_clean(work)] or self.waiting
        source = links.cluster(flow.flow.source, flow.source_client, beside=flow.flow)
        target = links.cluster(flow.flow.target, flow.target_client, beside=flow.flow)
        # One of the epoch before may not have ended yet.
        with source.asking, target.asking:
            mirrored = Mirrored(source, flow.mirrors)
            usual = [work for work in partitions if work.pad_limit is None]
            same = [work for work in partitions if work.pad_limit is not None]
            places = find_places(flow, usual, source, target, mirrored, self._is_over.is_set)
            places |= find_same_places(flow, same, source, target)
            if self.transactions:
                # What is written down about the partitions goes into the first transaction, or a fenced task could
                # add it.
                places = {source: unrecorded(place) for source, place in places.items()}
            records: list[StateRecord] = []
            for place in places.values():
                if isinstance(place, Ready | Refused):
                    records += place.records
            if self._is_over.is_set() and not any(isinstance(place, Ready | Refused) for place in places.values()):
                return places
            # MM2's position goes back before ours does: one of MM2's ahead of ours would be taken for Java MM2's own.
            write(flow, flow.offsets_topic, moved_back(flow, partitions, places), self._before_writing)
            # From where is written stands on the target before the first batch does.
            write(flow, flow.state_topic, {0: records}, self._before_writing)
            return places

    def take_in(self, places: Mapping[TopicPartition, Place] | Exception) -> list[Lane]:
        """Take in what :meth:`look` has found, or why it has not; return the lanes that begin."""
        before = len(self.lanes)
        is_unsuccessful = isinstance(places, Exception) or (
            any(isinstance(place, NotYet) for place in places.values())
            # Nothing is delayed while tails are matched.
            and all(work.source in places for work in self.waiting)
            and not any(isinstance(place, Partly) for place in places.values())
        )
        self._look_at = time.monotonic() + self._backoff.next_seconds() if is_unsuccessful else 0.0
        if isinstance(places, Exception):
            self._troubles |= {work.source: str(places) for work in self.waiting}
            return []
        looked_at = [work for work in self.waiting if work.source in places]
        self.waiting = [work for work in self.waiting if work.source not in places]
        for work in looked_at:
            match places[work.source]:
                case Ready() as ready:
                    self._begin(work, ready)
                case Partly(handover, reason):
                    self._troubles[work.source] = reason
                    self.waiting.append(replace(work, handover=handover))
                case NotYet(reason):
                    self._troubles[work.source] = reason
                    self.waiting.append(work)
                case WrittenByMm2():
                    self._put_aside(PartitionResult(self.flow, work.source, work.handover, written_by_mm2=True))
                case Refused(reason, _, cannot):
                    self._put_aside(
                        PartitionResult(
                            self.flow, work.source, work.handover, stopped=reason, cannot_have_offsets=cannot
                        )
                    )
        return self.lanes[before:]

    def _put_aside(self, result: PartitionResult) -> None:
        self._idle.append(result)
        self.has_news = True

    def _begin(self, work: PartitionWork, ready: Ready) -> None:
        flow = self._work
        syncs = PartitionSyncs(work.source, flow.offset_lag_max) if flow.syncs_topic else None
        lane = self._lane(work, ready, syncs)
        lane.merging.largest = self._target.largest_batches.get(work.target.topic, math.inf)
        if self.transactions:
            self.transactions.serve(lane)
        self.lanes.append(lane)
        if isinstance(lane, SameOffsetsLane) and self.filler is None:
            self.filler = HoleFiller(flow, self._before_writing)
        # Somebody may wait for its position, so the epoch is not a long one.
        self.has_news |= work.is_paused
        self._begun[work.source] = ready

    def _lane(self, work: PartitionWork, ready: Ready, syncs: PartitionSyncs | None) -> Lane:
        flow, mirrored = self._work, self._mirrored
        if ready.append_point is not None:
            producer = producer_of(flow.flow, ready.handover.position.target_id)
            return SameOffsetsLane(
                work, ready.handover, producer, ready.append_point, syncs, flow.parked_topic, mirrored
            )
        producer, sequence = as_whom(flow, work)
        return Lane(work, ready.handover, producer, sequence, syncs, flow.parked_topic, self.transactions, mirrored)

    def close(self) -> list[PartitionResult]:
        """Return how everything ended, and where the producer of the lanes stands."""
        results = [*self._idle]
        if self.filler is not None:
            self.filler.close()
        for work in self.waiting:
            trouble = self._troubles.get(work.source)
            results.append(PartitionResult(self.flow, work.source, work.handover, trouble=trouble))
        for lane in self.lanes:
            begun = self._begun[lane.work.source]
            if lane.merging.largest < math.inf:
                self._target.largest_batches[lane.work.target.topic] = lane.merging.largest
            results.append(
                replace(
                    lane.result(),
                    skipped_by_match=begun.skipped_by_match,
                    note=begun.note,
                    followed_to=begun.followed_to,
                    sequence=None if isinstance(lane, SameOffsetsLane) else lane.acknowledged_sequence,
                    may_arrive_late=not lane.stream.is_settled
                    or lane.doubts is not None
                    or (isinstance(lane, SameOffsetsLane) and lane.may_get_fillers),
                )
            )
        return results
