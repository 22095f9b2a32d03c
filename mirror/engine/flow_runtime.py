"""What the engine knows of a flow between epochs."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from mirror.config.settings import FlowSettings
from mirror.control.tick import TickReport
from mirror.copier.work import ForeignUntil, GapPolicy, Handover, PartitionResult, Slot, SlotEnd
from mirror.engine.copied_back import CopiedBack
from mirror.engine.flow_slots import FlowSlots
from mirror.engine.late_writes import LateWrites
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers, Writing
from mirror.engine.translated_copies import TranslatedCopies
from mirror.kafka.batch import Producer
from mirror.model import connect_offsets
from mirror.model.flow_state import DeadChunks, FlowState
from mirror.model.gap import Gap
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses
from mirror.model.position import Position
from mirror.model.state_values import DataProducer, ForeignWriter, Takeover
from mirror.model.writers import WrittenBy
from mirror.same_offsets.chain import producer_of

# Much less than the least that producer.id.expiration.ms is likely to be; it is a day by default.
REFUSED_SECONDS = 20.0
P = ParamSpec("P")
T = TypeVar("T")


def _alone(method: Callable[Concatenate[FlowRuntime, P], T]) -> Callable[Concatenate[FlowRuntime, P], T]:
    """Let one thread at a time read or change a flow's runtime."""

    @wraps(method)
    def with_lock(runtime: FlowRuntime, /, *args: P.args, **named: P.kwargs) -> T:
        with runtime.lock:
            return method(runtime, *args, **named)

    return with_lock


@dataclass(slots=True)
class FlowRuntime:
    """What the engine knows of a flow between epochs; shared by the copy loop and the flow's other threads.

    Its methods can be called from any thread. Who reads or sets several of its attributes holds its ``lock`` meanwhile.
    ``changed`` is called when there is something else to copy than the running epoch was given; ``silent_seconds``
    says for how long a task of that was not heard of.
    """

    settings: FlowSettings
    changed: Callable[[], None] = lambda: None
    silent_seconds: Callable[[], float] = lambda: 0.0
    partitions: tuple[tuple[TopicPartition, TopicPartition, str, str], ...] = ()
    handovers: dict[TopicPartition, Handover] = field(default_factory=dict)
    mm2: Mm2Traces = field(default_factory=Mm2Traces)
    takeovers: dict[TopicPartition, Mm2Trace] = field(default_factory=dict)
    taking: dict[TopicPartition, Takeover] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    stopped: dict[TopicPartition, str] = field(default_factory=dict)
    # Those of them that stay stopped as long as the state topic holds what is not understood of them.
    not_understood: dict[TopicPartition, str] = field(default_factory=dict)
    troubles: dict[TopicPartition, str] = field(default_factory=dict)
    # Of partitions that are read from their leaders although client.rack is set: why.
    leaders_alone: dict[TopicPartition, str] = field(default_factory=dict)
    translated: TranslatedCopies = field(default_factory=TranslatedCopies)
    copy_trouble: str | None = None
    throttles: tuple[str, ...] = ()
    takeover_trouble: str | None = None
    reports: dict[str, TickReport] = field(default_factory=dict)
    open_gaps: tuple[Gap, ...] = ()
    # The gaps at which partitions have stopped, and whether they are acknowledged.
    barriers: dict[TopicPartition, tuple[Gap, bool]] = field(default_factory=dict)
    slots: FlowSlots = field(default_factory=FlowSlots)
    writing: Writing = field(default_factory=Writing)
    late: LateWrites = field(default_factory=LateWrites)
    # Until when tasks of an epoch that failed may write, by `steady_seconds`: one that is cut off does not hear of it.
    tasks_write_until: float = -math.inf
    # The term in which this engine leads the flow, None while it does not.
    term: int | None = None
    # Its right to write in that term.
    lease: Lease = field(default_factory=Lease)
    was_settled: bool = False
    # Whether partitions found next may be ones that the engine before had found, and begun, too.
    fences_found: bool = False
    # How many times a term began, or the flow was begun from what the target has on record.
    begun: int = 0
    # What of the offset maps is to be forgotten by the tasks of the next epoch.
    dead: dict[TopicPartition, DeadChunks] = field(default_factory=dict)
    # The writers of other flows into the source, by their state topic; and by topic, the flows that are left out.
    mirrors: WrittenBy = field(default_factory=dict)
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    copied_back: CopiedBack = field(default_factory=CopiedBack)
    # The topics whose copies mirrors alone should write to, and where others did: the source, offsets of the copy. Of
    # very many the newest are kept: it is the writers that matter, and they come again.
    watched: frozenset[str] = frozenset()
    foreign_ranges: deque[tuple[TopicPartition, tuple[int, int]]] = field(default_factory=lambda: deque(maxlen=2_000))
    # Of these something was not looked at: whoever leads the flow next finds it on record once more.
    passed_over: set[TopicPartition] = field(default_factory=set)
    foreign: tuple[ForeignWriter, ...] = ()
    #: What people should know of the file that this engine runs by.
    file_notes: tuple[str, ...] = ()
    #: What was lost of the state topic since this engine runs.
    loss: str | None = None
    pauses: Pauses = field(default_factory=Pauses)
    # The partitions that were paused and are to be copied on, once it is known whether Java MirrorMaker has copied them
    # meanwhile.
    resumed: set[TopicPartition] = field(default_factory=set)
    # The partitions of which an engine that leads no longer has written over how far they are copied.
    to_record: set[TopicPartition] = field(default_factory=set)
    # To the copies of which the tasks of the running epoch may append.
    at_work: frozenset[TopicPartition] = frozenset()
    # Set when there is something to be said of what is paused, which somebody waits for.
    pause_changed: threading.Event = field(default_factory=threading.Event)
    is_known: bool = False
    # Since this engine leads: whether it was found out what there is to copy, and an epoch has said how it went.
    has_looked: bool = False
    has_reported: bool = False
    # Held while it is looked what the flow was begun from, and what has come of that is taken in.
    lock: threading.RLock = field(default_factory=threading.RLock)
    # What tasks were asked to write again the last time.
    asked_again: set[tuple[bytes, bool]] = field(default_factory=set)
    _is_to_be_read_again: bool = False
    # The term whose leader's marks count, the one right before; None once a task of this one may have copied something.
    _former_term: int | None = None

    @_alone
    def take_state(self, state: FlowState, mm2: Mm2Traces, held: TakenProducers) -> None:
        """Begin from what the target has on record; where the copy stands exactly is then found by matching the tail.

        Parameters
        ----------
        mm2
            what Java MirrorMaker has left. What it has certainly copied since is taken over from it first.
        held
            as whom the flow is written from now on.
        """
        if (transactions := self.settings.transactions) is not None:
            self.slots.begin(held.slots, transactions)
        self.writers |= {producer.producer_id for _, producer in held.slots}
        self.writers |= state.writers
        if self.settings.same_offsets is not None:
            self.writers.add(producer_of(self.settings.flow).producer_id)
        self.writing = Writing(held.producer)
        self.translated.begin(self.settings, state)
        if not held.is_next:
            # Who led in between may have copied on behind any mark: the state topic has lost the end that said so.
            self.was_settled, self._former_term = False, None
        unfenced, kept = [*held.unended], set[TopicPartition]()
        self.fences_found = held.producer is not None and not (held.is_first or self.was_settled)
        if self.fences_found:
            # Of those not copied yet the engine before may have been about to record the first position.
            new = (
                copy
                for source, copy, *_ in self.partitions
                if source not in state.positions and not self.has_source_offsets(source)
            )
            known = (
                TopicPartition(position.target or self.settings.copy_of(source.topic), source.partition)
                for source, position in state.positions.items()
                if not self.has_source_offsets(source)
            )
            unfenced.extend((*known, *new))
            kept = set(filter(self.has_source_offsets, (*state.positions, *(each for each, *_ in self.partitions))))
        self.late.begin(unfenced, kept)
        self.slots.given_up.clear()
        # What is on record is looked at anew.
        self.passed_over.clear()
        self.to_record.clear()
        self.take_gaps(state)
        self.mm2 = mm2
        self.takeovers = {each: trace for each, trace in mm2.certain.items() if not self.has_source_offsets(each)}
        # The engine before may have been about to take the mark back: after its death only its own marks count, which
        # it sets once its tasks have ended.
        self.handovers = {
            source: Handover(
                replace(at, settled=at.settled and (self.was_settled or at.settled_in == self._former_term)),
                state.open_runs(source),
                clean=False,
            )
            for source, at in state.positions.items()
        }
        self.begun += 1
        self.was_settled, self._former_term = False, None
        self.is_known, self._is_to_be_read_again = True, False
        self.changed()

    def has_source_offsets(self, source: TopicPartition) -> bool:
        """Whether a copy is to have the source's offsets: a marker would shift them, and nothing that is late can."""
        return self.translated.pad_limit(self.settings, source) is not None

    @property
    @_alone
    def is_settled(self) -> bool:
        """Whether nothing that was sent can arrive late, in any partition."""
        return self.is_known and self.late.is_settled

    def lead(self, term: int, *, was_settled: bool, lease: Lease | None = None) -> None:
        """Copy the flow, which this engine leads in ``term``, for as long as ``lease`` says; None: without a limit.

        ``was_settled``: the leader before had stopped with nothing on its way that could arrive late.
        """
        with self.lock:
            self.was_settled, self.is_known, self.term = was_settled, False, term
            self._former_term = term - 1
            # What a task of an earlier term brings back is past: others may have written as it since.
            self.begun += 1
            self.lease = lease or Lease()
            self.has_looked = self.has_reported = False
            self.slots.given_up.clear()
            self.late.begin_term()
        self.changed()

    def stand_by(self) -> None:
        """Copy nothing any more: another engine leads the flow, or may."""
        self.lease.end()
        with self.lock:
            self.term, self.is_known = None, False
        self.changed()

    @contextmanager
    def in_term_of(self, lease: Lease) -> Iterator[None]:
        """Hold the lock, to take in what was found out in the term that ``lease`` is the right to write in.

        Raises
        ------
        NotLeading
            if that term is over: what is found out by then is not of the one that may have begun since.
        """
        with self.lock:
            lease.require_term()
            yield

    @property
    def grace_seconds(self) -> float:
        """For how long tasks may go on behind the end of the right to write: where the target refuses what is late.

        Not for ever: brokers forget an idle producer. Copies with the source's offsets refuse nothing.
        """
        return REFUSED_SECONDS if self.late.weakness is None and self.settings.same_offsets is None else 0.0

    @property
    def may_be_copied(self) -> bool:
        """Whether a task could write anything now."""
        return self.lease.left + self.grace_seconds > 0

    @_alone
    def to_fence(self) -> frozenset[TopicPartition]:
        """Return the partitions of the target where something may still arrive late."""
        return frozenset(self.late.unfenced)

    @_alone
    def waits(self, source: TopicPartition, target: TopicPartition) -> bool:
        """Whether something may still arrive late where a partition is written, or its position within a transaction.

        A transaction with a position in a partition that takes no marker would not end either, and be done again and
        again with all that is in it.
        """
        unfenced = self.late.unfenced
        if not self.slots.known or not unfenced or target in unfenced:
            return target in unfenced
        settings = self.settings
        key = connect_offsets.source_key(settings.flow.source, source)
        number = connect_offsets.partition_of(key, settings.offset_storage_partitions)
        return TopicPartition(settings.offset_storage_topic, number) in unfenced

    @_alone
    def needs_next_epoch(self, targets: Collection[TopicPartition]) -> bool:
        """Whether what may still arrive in any of these was sent with the epoch that is written with now."""
        producer = self.writing.producer
        return producer is not None and any(self.late.unfenced.get(each) == producer for each in targets)

    @_alone
    def take_producer(self, producer: Producer) -> None:
        """Write as this producer from the next epoch on."""
        self.writing = Writing(producer)

    @_alone
    def to_compare(self, targets: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return how far those of these partitions are copied of which it is to be found out what lies behind that."""
        if self.slots.known:
            return {}
        copies = self.copies()
        return {
            copy: handover.position
            for source, handover in self.handovers.items()
            if handover.position.next_batch is not None
            and not (handover.clean or handover.position.settled or handover.foreign_until)
            and (copy := self.copy_of(source, copies)) in targets
        }

    @_alone
    def take_foreign_until(
        self, asked: Mapping[TopicPartition, Position], found: Mapping[TopicPartition, ForeignUntil]
    ) -> None:
        """Take in up to where nothing of this flow lies behind the positions that were asked about."""
        copies = self.copies()
        for source, handover in self.handovers.items():
            copy, at = self.copy_of(source, copies), handover.position
            # What else is known of it may have changed meanwhile: up to where it was looked who else has written.
            if copy in found and (at.incarnation, at.upstream, at.downstream) == (
                asked[copy].incarnation,
                asked[copy].upstream,
                asked[copy].downstream,
            ):
                self.handovers[source] = replace(handover, foreign_until=found[copy])

    @_alone
    def take_fenced(
        self,
        asked: Collection[TopicPartition],
        troubles: Mapping[TopicPartition, str],
        state: FlowState,
        former: DataProducer | None = None,
        *,
        is_own: bool = False,
    ) -> None:
        """Go on with the partitions that were asked for and have no trouble: what was sent before is refused there.

        Partitions that another engine had begun before that stand in ``state``.
        """
        for source, position in state.positions.items():
            if source not in self.handovers:
                self.handovers[source] = Handover(position, state.open_runs(source), clean=False)
        if self.late.take_fenced(asked, troubles, self.writing.producer, former, is_own=is_own):
            self.changed()

    @_alone
    def read_again(self) -> None:
        """Have the running epoch end, and positions be read again before the next: the state topic was lost."""
        self._is_to_be_read_again = True
        self.changed()

    @_alone
    def take_settings(self, settings: FlowSettings) -> None:
        """Go on by other settings, from the next epoch on; the others are the same (`mirror.config.changes`).

        Of topics that are chosen from now on it is looked up again what is on record, and what others have left: they
        may have been copied by whoever led before, or by Java MirrorMaker.
        """
        before, self.settings = self.settings, settings
        if (before.topic_filter, before.heartbeats_replication) != (
            settings.topic_filter,
            settings.heartbeats_replication,
        ):
            self._is_to_be_read_again = True
        self.changed()

    @_alone
    def between_epochs(self) -> None:
        """No task is at work: what is to be read again is not known until it is."""
        if self._is_to_be_read_again:
            self._is_to_be_read_again = self.is_known = False
        if self.is_known:
            self.slots.given_up.clear()

    @_alone
    def is_idle(self, source: TopicPartition) -> bool:
        """Whether a partition is paused, and it is on record how far it is copied, or where its copy is to begin.

        Without a position its copy would begin, once it is resumed, with what the source has by then.
        """
        is_recorded = source in self.handovers and source not in self.to_record
        return self.pauses.is_paused(source.topic) and is_recorded and self.is_final(source)

    def copies(self) -> dict[TopicPartition, str]:
        """Return the topics on the target of what is on record, by source; empty: the usual one."""
        return {source: handover.position.target for source, handover in self.handovers.items()}

    def copy_of(self, source: TopicPartition, topics: Mapping[TopicPartition, str]) -> TopicPartition:
        """Return the copy of a partition, by its topic in ``topics``."""
        return TopicPartition(topics[source] or self.settings.copy_of(source.topic), source.partition)

    def is_final(self, source: TopicPartition) -> bool:
        """Whether it is on record how far a partition is copied, or that nothing of it is.

        What begins at the end of the source has to have that on record: what is written from now on is to be copied.
        """
        handover = self.handovers.get(source)
        if handover is None:
            # Else somebody has copied it, or may have.
            is_nobodys = source not in self.takeovers and source not in self.stopped
            return is_nobodys and self.settings.auto_offset_reset != "latest"
        return handover.clean and handover.is_recorded

    @_alone
    def trace(self, source: TopicPartition) -> Mm2Trace | None:
        """Return what Java MirrorMaker may have left of a partition."""
        return self.takeovers.get(source) or self.mm2.possible(
            source, is_known=source in self.handovers, is_alone=self.settings.is_alone(source.topic)
        )

    @_alone
    def take_partitions(
        self, partitions: tuple[tuple[TopicPartition, TopicPartition, str, str], ...], looked_in: int | None = None
    ) -> None:
        """Copy these from now on: of each the source, the target and the ids of both topics.

        ``looked_in`` is what ``begun`` was before they were looked for; None: what it is now. The engine before may
        have found others since, if the flow was begun anew meanwhile.
        """
        self.has_looked = True
        if self.is_known and self.fences_found:
            before = {copy for _, copy, *_ in self.partitions}
            found = (
                copy
                for source, copy, *_ in partitions
                if source not in self.handovers and copy not in before and not self.has_source_offsets(source)
            )
            self.late.unfenced |= dict.fromkeys(found)
            self.fences_found = looked_in not in (None, self.begun)
        if partitions != self.partitions:
            known = {source: ids for source, _, *ids in self.partitions}
            self.partitions = partitions
            # Where a topic was made anew it is looked again whether it can be copied.
            copied = {source for source, _, *ids in partitions if known.get(source, ids) == ids}
            # Of what is not copied any more, such as a deleted topic, nothing is wrong.
            for reasons in (self.stopped, self.troubles, self.leaders_alone):
                for source in reasons.keys() - copied - self.not_understood.keys():
                    reasons.pop(source, None)
            self.changed()

    @_alone
    def take_mirrors(
        self, mirrors: WrittenBy, left_out: Mapping[str, tuple[str, ...]], watched: frozenset[str], back: CopiedBack
    ) -> None:
        """Take in who else writes into the source, whose copies are left out, by topic, and which copies are ours."""
        self.mirrors, self.watched = mirrors, watched
        is_news = left_out != self.left_out or back.concerns_other_topics(self.copied_back)
        self.left_out, self.copied_back = left_out, back
        if is_news:
            self.changed()

    @_alone
    def follow(self, state: FlowState) -> None:
        """Take in what the state topic says by now that the copy does not write, or others write too."""
        self.take_gaps(state)
        self.taking = state.takeovers
        self.foreign = tuple(state.foreign.values())

    @_alone
    def take_gaps(self, state: FlowState) -> None:
        """Take in the gaps on record; a partition whose gap has been acknowledged goes on."""
        self.open_gaps = tuple(state.open_gaps)
        self.barriers = {source: (gap, gap.key in state.acknowledgements) for source, gap in state.barriers.items()}
        lifted = {source for source, (_, is_lifted) in self.barriers.items() if is_lifted}
        lifted |= self.not_understood.keys()
        self.not_understood = state.stops
        for source in lifted - self.not_understood.keys():
            if self.stopped.pop(source, None) is not None:
                self.changed()
        self.stopped |= self.not_understood

    @_alone
    def handover_of(self, source: TopicPartition) -> Handover | None:
        """Return where a task goes on with a partition of the next epoch; it records that if it was written over."""
        found = self.handovers.get(source)
        if source not in self.to_record:
            return found
        self.to_record.discard(source)
        return found and replace(found, is_recorded=False)

    @_alone
    def gap_policy(self, source: TopicPartition) -> GapPolicy:
        """Return what a gap does to a partition."""
        barrier, is_lifted = self.barriers.get(source, (None, False))
        return GapPolicy(self.settings.stops_at_gaps, barrier, is_lifted)

    @_alone
    def take_dead(self, dead: Mapping[TopicPartition, DeadChunks]) -> None:
        """Take in what of the offset maps is to be forgotten."""
        self.dead = dict(dead)

    @_alone
    def forget(self, sources: Collection[TopicPartition]) -> None:
        """Forget where partitions stand whose topics are gone; not of one that is copied again."""
        copied = {source for source, *_ in self.partitions}
        for source in sources:
            if source not in copied:
                self.handovers.pop(source, None)

    @_alone
    def keep(self, report: TickReport) -> None:
        """Keep the last report of each tick."""
        self.reports[report.name] = report

    @_alone
    def begin_epoch(self, copied: Mapping[TopicPartition, TopicPartition], producer: Producer | None) -> None:
        """Take in to which copies tasks may append from now on, by source, and as whom; None: in transactions."""
        self.at_work = frozenset(copied)
        if producer is not None:
            self.late.begin_epoch(copied.values(), producer)

    @_alone
    def end_epoch(self) -> None:
        """Take in that no task appends to anything until the next epoch begins."""
        self.at_work = frozenset()
        if self.pauses.pauses_any:
            self.pause_changed.set()

    @_alone
    def take_written(self, target: TopicPartition, result: PartitionResult, producer: Producer) -> None:
        """Take in where ``producer`` stands on a partition of the target after an epoch without transactions."""
        if self.has_source_offsets(result.source):
            return
        self.late.take_written(target, result, producer)
        if not result.may_arrive_late and result.sequence is not None and producer == self.writing.producer:
            self.writing.sequences[target] = result.sequence

    @_alone
    def take_result(self, result: PartitionResult) -> None:
        """Take in what became of one partition in an epoch."""
        self.has_reported = True
        self.late.take_copied(result, keeps_offsets=self.has_source_offsets(result.source))
        before = self.handovers.get(result.source)
        if result.handover is not None:
            self.handovers[result.source] = result.handover
            if before is not None:
                self.take_compared(result.source, before.position)
            if before is None or result.handover.position.incarnation != before.position.incarnation:
                # It has gone on: whatever it had stopped at lies behind it, as the ledger says by now. An epoch that
                # was over before it came to the partition leaves it where it was.
                self.barriers.pop(result.source, None)
        self.take_foreign_ranges([(result.source, stretch) for stretch in result.foreign])
        if result.written_by_mm2:
            # Without a trace of Java MirrorMaker it was the flow itself, which has lost what it had on record.
            of_flow = Mm2Trace(matches=self.mm2.matches, is_alone=True)
            self.takeovers[result.source] = self.trace(result.source) or of_flow
        self.take_trouble(result.source, result.trouble)
        stopped = result.stopped
        if self.translated.takes(self.settings, result):
            # Whoever wrote it before this engine may have been about to, with what is not refused yet.
            self.late.unfenced.setdefault(self.copy_of(result.source, self.copies() | {result.source: ""}))
            stopped = None
            self.changed()
        stopped = stopped or self.not_understood.get(result.source)
        for reasons, reason in ((self.stopped, stopped), (self.leaders_alone, result.leader_alone)):
            if reason:
                reasons[result.source] = reason
            else:
                reasons.pop(result.source, None)

    @_alone
    def take_foreign_ranges(self, met: Sequence[tuple[TopicPartition, tuple[int, int]]]) -> None:
        """Take in where others have written; what there is no more room for, the oldest, is not looked at."""
        queue, most = (*self.foreign_ranges, *met), self.foreign_ranges.maxlen
        if most is not None:
            self.passed_over |= {source for source, _ in queue[: max(0, len(queue) - most)]}
        self.foreign_ranges.extend(met)

    @_alone
    def take_compared(self, source: TopicPartition, looked_at: Position) -> None:
        """Take in, for the position that follows, up to where it is on record who else has written into the copy."""
        handover = self.handovers.get(source)
        if handover is None or handover.position.incarnation != looked_at.incarnation:
            return
        # Within incarnation it is looked at once.
        left = handover.position.uncompared if looked_at.uncompared is not None else None
        compared = max(handover.position.compared, looked_at.compared)
        position = replace(handover.position, compared=compared, uncompared=left)
        if position != handover.position:
            self.handovers[source] = replace(handover, position=position)

    @_alone
    def take_trouble(self, source: TopicPartition, trouble: str | None) -> None:
        """Take in what keeps a partition from being copied for now, None if nothing does any more."""
        if trouble:
            self.troubles[source] = trouble
        else:
            self.troubles.pop(source, None)

    @_alone
    def slot(self, number: int, addresses: Container[TopicPartition], side_topics: Container[str]) -> Slot | None:
        """Return as whom task ``number`` writes to some partitions, and to any of the side topics; None: as anybody."""
        return self.slots.of(number, addresses, side_topics)

    @_alone
    def take_slot(self, number: int, end: SlotEnd) -> None:
        """Take in how a task left its slot; one that is lost must be taken over anew, and positions be read again."""
        if not self.slots.take(number, end):
            self.is_known = False

    @property
    @_alone
    def is_starting(self) -> bool:
        """Whether it is not known yet how the copying goes: there is something to copy, and no epoch has reported."""
        is_done = not self.partitions or (self.is_known and all(self.is_idle(each) for each, *_ in self.partitions))
        return not self.has_reported and not (self.has_looked and is_done)
