"""The control threads of one enabled flow: one takes it over and fences, the other keeps up all that lies beside.

Topics, checkpoints and group positions are asked of both clusters, of very many groups at times. Whoever takes the flow
over does not wait for them, nor does a partition that is to be fenced: that thread asks the target alone, and has a
state topic's reader and writer of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import ParamSpec

from mirror.clock import steady_seconds
from mirror.config.settings import FlowSettings
from mirror.control.checkpoint_copies import CheckpointCopies
from mirror.control.checkpoints import CheckpointsTick
from mirror.control.closed_copies import open_again
from mirror.control.dead_chunks import DeadChunksTick
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.control.flows_into import FlowsInto
from mirror.control.gone_topics import GoneTopicsTick
from mirror.control.group_translator import GroupTranslator, sources_of
from mirror.control.groups import GroupOffsetsTick, Recorder, follow_log, recorder
from mirror.control.mesh import MeshTranslator, Thirds
from mirror.control.routes import plan_routes
from mirror.control.source_brokers import SourceBrokersTick
from mirror.control.state_notes import state_notes
from mirror.control.tick import NotLeading, TickReport, now_ms, run_tick
from mirror.control.topics import TopicConfigsTick, TopicsTick
from mirror.engine.access_ticks import access_ticks
from mirror.engine.copied_back import CopiedBack
from mirror.engine.copy_counters import CopyCounters
from mirror.engine.earlier_runs import has_run_before, has_shared_copies
from mirror.engine.flow_messages import used_meanwhile
from mirror.engine.flow_pauses import look_at_resumed, unless_cut, while_uncut
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.flow_runtime import REFUSED_SECONDS, FlowRuntime
from mirror.engine.foreign_writers import ForeignWriters
from mirror.engine.lag_line import LAG_SECONDS, LagLine
from mirror.engine.mirrors import Mirrors
from mirror.engine.mm2_traces import Mm2Traces, read_traces
from mirror.engine.recreated_copies import recreated_topics
from mirror.engine.same_offsets_fence import fence_same_offsets
from mirror.engine.state_loss import begun_anew, lacking_pauses, restored
from mirror.engine.taken_producers import TakenProducers
from mirror.engine.ticking import Ticking, Timed
from mirror.engine.written_over import write_again
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord, stamped, state_topic
from mirror.model.state_values import Loss, source_record

REPORT_SECONDS = 2.0
# Logs are shortened every five minutes, unless brokers are told otherwise.
_DEAD_CHUNKS_SECONDS = 60.0
# Brokers come and go rarely; until they are on record, who looks for a source that is gone knows less of them.
_BROKERS_SECONDS = 10.0
_RETRY_SECONDS = 0.5
# What is held up by a partition without enough replicas is not asked for again at once.
_FENCE_AGAIN_SECONDS = 3.0
# Clusters forget a transactional id after seven days without a transaction, unless they are told otherwise.
_KEEP_ALIVE_SECONDS = 3_600.0

P = ParamSpec("P")


class FlowControl:
    """Keeps one flow's control plane going in one term."""

    def __init__(
        self,
        runtime: FlowRuntime,
        source: Cluster | None,
        target: Cluster,
        ticking: Ticking,
        producers: FlowProducers,
        *,
        matches_mm2: bool,
        flows: Callable[[], Sequence[FlowSettings]] | None = None,
        tally: CopyCounters | None = None,
    ) -> None:
        """Work between ``source`` and ``target``, beside other ``flows``; ``runtime`` gets what the copy needs.

        The settings are those of ``runtime``, which may become others. ``tally`` gets what is to be counted of
        checkpoints. ``source`` is None while it has not been reached: :meth:`run` is told how to find it.
        """
        self._tally = tally or CopyCounters()
        self._flows = flows or (lambda: (runtime.settings,))
        self._matches_mm2 = matches_mm2
        self._runtime = runtime
        self._source = source
        self._target = target
        self._ticking = ticking
        self._producers = producers
        # What is kept up beside may go on for a while once the term is over: it asks by this whether it still counts.
        with runtime.lock:
            self._lease, self._term = runtime.lease, runtime.term
        self._fence_at = 0.0
        # Not before it was looked what an engine before has left, and that is on record.
        self._may_keep_up = threading.Event()
        self._held: tuple[int, TakenProducers] | None = None
        # Positions were read back before the source was reached; under the lock of the flow's runtime.
        self._is_known_without_source = False

    @property
    def _settings(self) -> FlowSettings:
        return self._runtime.settings

    def run(
        self,
        stop: threading.Event,
        await_copy: Callable[[], object] = lambda: None,
        find_source: Callable[[Ticking, threading.Event], Cluster | None] = lambda *_: None,
    ) -> threading.Thread:
        """Tick until told to stop, or until another engine leads the flow.

        A source that does not answer keeps nobody from pausing the flow: what it takes for that is on the target.

        Parameters
        ----------
        await_copy
            is called at the end, and returns when the last results of the copy are in.
        find_source
            connects to the source, if that is not known yet; returns None once it is told to stop.

        Returns
        -------
        the thread of what is kept up beside, which ends with the round that it is at: of a source that is slow to
        answer that takes long. Another term begins without it. Behind the end of this one it writes nothing, and what
        it has found out by then is not taken in.
        """
        upkeep = threading.Thread(
            target=self._keep_up_from,
            args=(find_source, stop, await_copy),
            name=f"upkeep {self._settings.flow}",
            daemon=True,
        )
        upkeep.start()
        try:
            self.take_over(stop)
        finally:
            # Where nothing was read back nobody waits for that any more.
            self._may_keep_up.set()
        return upkeep

    def take_over(self, stop: threading.Event) -> None:
        """Read back where the flow stands, fence, and follow the state topic; begins once its topics are there."""
        settings, flow = self._settings, self._settings.flow
        while not self._has_topics():
            if stop.wait(_RETRY_SECONDS):
                return
        log = FlowLog(settings.clients.checkpoints_consumer, state_topic(flow.source), alias=flow.target)
        writer = LogWriter(settings.target_producer, alias=flow.target, before=self._runtime.lease.require)
        self._ticking.until(
            stop,
            [
                (_RETRY_SECONDS, lambda: self._keep_known(log, writer)),
                (_RETRY_SECONDS, lambda: self._fence(log)),
                (_RETRY_SECONDS, lambda: self._look_at_resumed(log)),
                (REPORT_SECONDS, lambda: self._follow(log, writer)),
                (_KEEP_ALIVE_SECONDS, lambda: self._keep_alive(log)),
            ],
        )
        log.close()
        writer.close()

    def _has_topics(self) -> bool:
        """Look whether the target has the topics of the flow's state and positions, which the other thread makes."""
        wanted = {state_topic(self._settings.flow.source), self._settings.offset_storage_topic}
        found: set[str] = set()

        def look(_: int) -> tuple[int, Sequence[str]]:
            found.update(self._target.topics(wanted))
            return 0, ()

        self._ticking.once(lambda: run_tick(f"positions {self._settings.flow}", now_ms, look))
        return found == wanted

    def _keep_up_from(
        self,
        find_source: Callable[[Ticking, threading.Event], Cluster | None],
        stop: threading.Event,
        await_copy: Callable[[], object],
    ) -> None:
        if stop.is_set():
            # The lease may be that of the next term.
            return
        with suppress(NotLeading):
            ticking = self._ticking.keeping(self._in_term(self._runtime.keep))
            if self._source is None:
                self._source = find_source(ticking, stop)
                with self._runtime.in_term_of(self._lease):
                    if self._is_known_without_source:
                        # What Java MirrorMaker has left there is not known yet, nor whether it is the one on record.
                        self._runtime.read_again()
            while self._source is not None and not stop.is_set():
                self.keep_up(self._source, ticking, stop, await_copy)

    def _in_term(self, take: Callable[P, None]) -> Callable[P, None]:
        """Return what takes in what was found out, as ``take`` does, unless the term is over: then it raises."""

        def take_in(*args: P.args, **named: P.kwargs) -> None:
            with self._runtime.in_term_of(self._lease):
                take(*args, **named)

        return take_in

    def keep_up(
        self,
        source: Cluster,
        ticking: Ticking,
        stop: threading.Event,
        await_copy: Callable[[], object] = lambda: None,
    ) -> None:
        """Keep up topics, checkpoints and all else beside the copy, until the settings are others; see :meth:`run`.

        Raises
        ------
        NotLeading
            if the term ended meanwhile.
        """
        # First: whoever sets others for one flow has set those of the others by then.
        settings, flows = self._settings, self._flows()
        flow = settings.flow

        def is_outdated() -> bool:
            return self._settings is not settings

        mirrors = Mirrors(settings, flows, self._target.cluster_id)
        thirds = Thirds(settings, flows, settings.source_consumer, settings.clients.checkpoints_consumer)
        # Whoever was stopped meanwhile finds out before it writes, not after (ADR 8).
        may_write = self._lease.require
        # Without a state topic that right cannot be renewed: topics are made by whoever leads as far as it knows.
        may_change = self._lease.require_term
        source, target = source.asking(may_change), self._target.asking(may_change)
        topics = TopicsTick(source, target, settings)
        discovering: list[Timed] = [
            (settings.discovery_seconds, topics.tick),
            (settings.discovery_seconds, lambda: self._find_partitions(source, settings, mirrors)),
        ]
        with ExitStack() as opened:
            opened.callback(mirrors.close)
            opened.callback(thirds.close)
            # Nothing else can be done before the side topics are there.
            ticking.once(topics.tick)
            while not topics.side_topics_are_there:
                if is_outdated() or stop.wait(_RETRY_SECONDS):
                    return
                ticking.once(topics.tick)
            ticking.until(self._may_keep_up, discovering, is_outdated)
            if is_outdated():
                return
            state_reader = settings.clients.checkpoints_consumer
            log = opened.enter_context(closing(FlowLog(state_reader, state_topic(flow.source), alias=flow.target)))
            writer = opened.enter_context(
                closing(LogWriter(settings.target_producer, alias=flow.target, before=may_write))
            )
            record = self.recorder(writer)
            while not (stop.is_set() or ticking.once(lambda: follow_log(flow, log, record))):
                stop.wait(_RETRY_SECONDS)
            take_dead = self._in_term(self._runtime.take_dead)
            ticks: list[Timed] = [
                (REPORT_SECONDS, lambda: follow_log(flow, log, record)),
                *discovering,
                (LAG_SECONDS, LagLine(self._runtime, log, source).tick),
                (_DEAD_CHUNKS_SECONDS, DeadChunksTick(flow, log, target, take_dead).tick),
                (_DEAD_CHUNKS_SECONDS, self._gone_topics(source, log, writer)),
                (settings.discovery_seconds, recreated_topics(self._runtime, log, source, target, writer)),
                (_BROKERS_SECONDS, SourceBrokersTick(flow, log, source, writer).tick),
            ]
            foreign_writers = ForeignWriters(settings, self._runtime, log, target, writer, self._lease)
            opened.enter_context(closing(foreign_writers))
            ticks.append((REPORT_SECONDS, foreign_writers.tick))
            if settings.sync_topic_configs:
                configs = TopicConfigsTick(source, target, settings)
                ticks.append((settings.sync_topic_configs_interval_seconds, unless_cut(self._runtime, configs)))
            ticks += access_ticks(self._runtime, settings, source, target, log, writer)
            ticks += self._group_ticks(settings, source, log, writer, record, thirds, flows)
            ticking.until(stop, ticks, is_outdated)
            if not stop.is_set():
                return
            await_copy()
            with self._runtime.lock:
                has_met_foreign = bool(self._runtime.foreign_ranges)
            if has_met_foreign:
                # Told sooner than by the next engine.
                ticking.once(foreign_writers.tick)

    def _group_ticks(
        self,
        settings: FlowSettings,
        source: Cluster,
        log: FlowLog,
        writer: LogWriter,
        record: Recorder,
        thirds: Thirds,
        flows: Sequence[FlowSettings],
    ) -> list[Timed]:
        """Return what keeps up checkpoints and, if asked to, positions of groups."""
        flow = settings.flow
        if not settings.emit_checkpoints:
            return []
        into_source = FlowsInto(flow.source, settings.source_consumer, source.topics)
        tail = LogTail(settings.clients.checkpoints_consumer, settings.checkpoints_topic, alias=flow.target)
        between = FlowTranslator(log, lambda: into_source.find(flow.target), settings.policy, flow.target)
        translator = GroupTranslator(
            between,
            MeshTranslator(between, thirds.of_topic),
            others=sources_of(flow.source, flows, flow.target),
            find=into_source.find,
        )
        checkpoints = CheckpointsTick(
            settings,
            source,
            translator,
            tail,
            writer,
            before_translating=translator.refresh,
            copies=CheckpointCopies(between),
            record=record,
            written=self._tally.take_checkpoints,
            found=self._tally.take_rereads,
            notes=into_source.notes,
        )
        ticks: list[Timed] = [(settings.emit_checkpoints_interval_seconds, checkpoints.tick)]
        if settings.sync_group_offsets:
            groups = GroupOffsetsTick(
                settings,
                self._target,
                checkpoints.writable,
                record,
                log,
                # What was handed over goes out while the others are asked for: nothing is waited for in between.
                before_writing=while_uncut(self._runtime, self._lease.require_now),
                flows=flows,
            )
            ticks.append((settings.sync_group_offsets_interval_seconds, unless_cut(self._runtime, groups)))
        return ticks

    def recorder(self, writer: LogWriter) -> Recorder:
        """Return who puts records into the state topic in this term, by a writer to the target."""
        return recorder(self._settings, writer, term=self._term)

    def _gone_topics(self, source: Cluster, log: FlowLog, writer: LogWriter) -> Callable[[], TickReport]:
        forget = self._in_term(self._runtime.forget)
        return GoneTopicsTick(source, self._target, self._settings, log, writer, forget).tick

    def _keep_known(self, log: FlowLog, writer: LogWriter) -> TickReport:
        """Read back where the flow stands: at the start, and after an epoch that was lost."""

        def read_back(_: int) -> tuple[int, Sequence[str]]:
            # Until the source answers what is on the target lets the flow be paused and fenced; nothing is copied.
            source, settings = self._source, self._settings
            if log.loss is not None and self._runtime.is_known:
                self._runtime.read_again()
            if self._runtime.is_known:
                return 0, ()
            term = self._runtime.term
            if term is None:
                return 0, ()
            if source is None and (not log.poll().source_id or log.loss is not None):
                # Only the source tells whether the flow has run before.
                return 0, ()
            lost = self._lost_before(log, source)
            if log.state.source_id:
                # Who it is of is on record, so what is kept up beside is not taken for left by an engine before.
                self._may_keep_up.set()
            if lost is not None and lost != log.state.loss:
                # With ids of this engine's on record the next one, should this be killed, could not tell any more.
                self._append(writer, [lost.record()])
            # Each time it is taken the producer's epoch is used up.
            if self._held is None or self._held[0] != term:
                is_alone = self._runtime.was_settled or self._runtime.lease.is_alone(REFUSED_SECONDS)
                with self._runtime.lock:
                    given_up = dict(self._runtime.slots.given_up)
                self._held = term, self._producers.take(log, term, given_up, is_alone=is_alone)
                if self._runtime.was_settled and self._held[1].is_next:
                    # What the leader before had sent has arrived.
                    self._producers.unrefused = None
            if self._may_have_foreign_writers():
                return 0, ()
            if lost is None and log.loss is None and self._held[1].was_used_before:
                if source is None:
                    return 0, ()
                if has_shared_copies(self._settings, source, self._target):
                    lost = begun_anew(log.state, settings.same_offsets, has_run=True, now_ms=now_ms())
            self._append(writer, open_again(self._target, log.state.closed.values()).records)
            if lacking := self._lacking(log, lost):
                self._append(writer, lacking)
                log.restored()
            state = log.poll()
            mm2 = read_traces(settings, state, self._target, matches=self._matches_mm2) if source else Mm2Traces()
            with self._runtime.lock:
                if not self._leads(state, term) or source is not self._source or settings is not self._settings:
                    # Another engine leads the flow by now, whose positions these may be; or nothing was read of the
                    # source, which answers by now, or of topics that are chosen by now.
                    return 0, ()
                self._report_fence()
                (_, held), self._held = self._held, None
                self._runtime.take_state(state, mm2, held)
                self._is_known_without_source = source is None
            self._may_keep_up.set()
            return 1, ()

        return run_tick(f"positions {self._settings.flow}", now_ms, read_back)

    def _may_have_foreign_writers(self) -> bool:
        """Whether the leader before, or a task of an epoch that failed, may still write, and nothing refuses it."""
        former = self._producers.unrefused
        if former is None or self._runtime.was_settled:
            return False
        if steady_seconds() < self._runtime.tasks_write_until:
            return True
        # Its tasks went on for a while after its right had ended, if the target would have refused that.
        return not self._runtime.lease.is_alone(REFUSED_SECONDS if former.transactional_id else 0.0)

    def _lost_before(self, log: FlowLog, source: Cluster | None) -> Loss | None:
        """Return what was lost of the state topic before this engine began; to be asked before it writes into it."""
        state = log.poll()
        if log.loss is not None or state.source_id or source is None:
            return None
        # An engine that was killed before it was done has put it on record.
        if state.loss is not None:
            return state.loss
        settings, target = self._settings, self._target
        has_run = has_run_before(settings, source, target) or (
            self._producers.was_given(state) and has_shared_copies(settings, source, target)
        )
        return begun_anew(state, settings.same_offsets, has_run=has_run, now_ms=now_ms())

    def _lacking(self, log: FlowLog, lost: Loss | None) -> list[StateRecord]:
        """Return what must stand in the state topic before anything is copied, and does not."""
        state, records = log.state, list[StateRecord]()
        if log.loss is not None:
            # After a failed epoch it is not known what was committed since; in transactions no tail tells.
            are_certain = self._settings.transactions is None or self._runtime.copy_trouble is None
            with self._runtime.lock:
                known = dict(self._runtime.handovers), set(self._runtime.writers)
            pauses = self._runtime.pauses
            records = restored(log.records(), state, *known, log.loss, now_ms(), are_certain=are_certain, pauses=pauses)
            self._runtime.loss = log.loss
        elif lost is not None:
            if lost != state.loss:
                records.append(lost.record())
            self._runtime.loss = lost.reason
        if log.loss is not None or lost is not None:
            records += lacking_pauses(self._runtime.pauses, state)
        if self._source is not None and state.source_id != self._source.cluster_id:
            # Other engines tell by it whose records these are, and must know before there are any.
            # What was copied from another one before may be all that is left of that.
            before = dict.fromkeys((*state.former_sources, *([state.source_id] if state.source_id else ())))
            records.append(source_record(self._source.cluster_id, former=tuple(before)))
        return records

    def _find_partitions(self, source: Cluster, settings: FlowSettings, mirrors: Mirrors) -> TickReport:
        return run_tick(f"partitions {settings.flow}", now_ms, lambda _: self._found(source, settings, mirrors))

    def _found(self, source: Cluster, settings: FlowSettings, mirrors: Mirrors) -> tuple[int, Sequence[str]]:
        if settings.transforms.has_routers and not self._runtime.is_known:
            # Of two topics sent to one, that is copied on which was copied before.
            return 0, ()
        begun = self._runtime.begun
        if self._settings is not settings:
            # What is read back by now is of topics that are chosen otherwise.
            return 0, ()
        topics = source.topics()
        problems = mirrors.look(topics)
        with self._runtime.lock:
            copied = frozenset(self._runtime.handovers)
        routes = plan_routes(topics, self._target.topics(), settings, copied, mirrors.loop_problem)
        names = {source.topic for source, *_ in routes.partitions}
        left_out = {name: mirrors.left_out(name) for name in names}
        watched = frozenset(name for name in names if not mirrors.has_way_back(name))
        copied_back = CopiedBack(frozenset(filter(mirrors.is_two_way, names)), mirrors.copied_back)
        with self._runtime.in_term_of(self._lease):
            self._runtime.take_mirrors(mirrors.known, left_out, watched, copied_back)
            self._runtime.take_partitions(routes.partitions, begun)
        return len(routes.partitions), (*routes.problems, *problems)

    def _fence(self, log: FlowLog) -> TickReport:
        """Have the target refuse what was sent before to partitions where it may still arrive (ADR 8)."""

        def fence(_: int) -> tuple[int, Sequence[str]]:
            runtime = self._runtime
            if not runtime.is_known or runtime.term is None or time.monotonic() < self._fence_at:
                return 0, ()
            asked = runtime.to_fence()
            if not (asked or self._producers.has_unended):
                # The transaction may have been seen to have ended by who keeps the producer from expiring.
                return 0, self._used_meanwhile()
            self._fence_at = time.monotonic() + _FENCE_AGAIN_SECONDS
            if runtime.needs_next_epoch(asked) and not self._take_next_producer(log):
                return 0, ()
            with runtime.lock:
                compared, writers = runtime.to_compare(asked), frozenset(runtime.writers)
            runtime.take_foreign_until(compared, self._producers.foreign_until(compared, writers))
            troubles = self._fenced(asked, log)
            troubles |= fence_same_offsets(runtime, asked - troubles.keys())
            producers = self._producers
            runtime.take_fenced(asked, troubles, log.poll(), producers.unrefused, is_own=producers.has_sent_unrefused)
            if not (troubles or self._producers.has_unended):
                self._fence_at = 0.0
            return len(asked) - len(troubles), self._used_meanwhile()

        return run_tick(f"fencing {self._settings.flow}", now_ms, fence)

    def _look_at_resumed(self, log: FlowLog) -> TickReport:
        """Find out whether somebody has copied what was paused, so that it is not copied once more."""

        def look(_: int) -> tuple[int, Sequence[str]]:
            return look_at_resumed(self._runtime, log, self._target, matches=self._matches_mm2), ()

        return run_tick(f"resuming {self._settings.flow}", now_ms, look)

    def _used_meanwhile(self) -> Sequence[str]:
        """Have positions read again if somebody else has written as this flow; return what people should know of it."""
        if not (used := sorted(self._producers.used_meanwhile)):
            return ()
        self._runtime.read_again()
        return [used_meanwhile(used[0])]

    def _fenced(self, asked: Set[TopicPartition], log: FlowLog) -> dict[TopicPartition, str]:
        """Fence partitions; return of which it could not be done now, and why.

        Raises
        ------
        BrokerRefused
            if the cluster has given the transactional id to somebody else, or not to this engine any more. Where this
            one leads the flow it has taken the id anew by then.
        """
        try:
            return self._producers.fence(asked)
        except BrokerRefused:
            if self._runtime.writing.producer is not None:
                self._take_next_producer(log)
            raise
        finally:
            self._report_fence()

    def _take_next_producer(self, log: FlowLog) -> bool:
        """Write with the producer's next epoch from now on; return whether this engine leads the flow still."""
        term = self._runtime.term
        if term is None or not self._leads(log.poll(), term):
            return False
        producer = self._producers.next_producer(term)
        if not self._leads(log.poll(), term):
            # It may have been obtained after its successor's.
            return False
        self._runtime.take_producer(producer)
        return True

    def _leads(self, state: FlowState, term: int) -> bool:
        return state.claim is not None and state.claim.term == term == self._runtime.term

    def _report_fence(self) -> None:
        with self._runtime.lock:
            self._runtime.late.weakness, self._runtime.late.note = self._producers.weakness, self._producers.note

    def _keep_alive(self, log: FlowLog) -> TickReport:
        """Keep the transactional id from expiring: the cluster forgets one that writes no transactions (KIP-98)."""

        def keep(_: int) -> tuple[int, Sequence[str]]:
            if self._runtime.is_known:
                self._fenced({TopicPartition(state_topic(self._settings.flow.source), 0)}, log)
            return 1, ()

        return run_tick(f"producer {self._settings.flow}", now_ms, keep)

    def _follow(self, log: FlowLog, writer: LogWriter) -> TickReport:
        """Take in what the state topic says, and write again what an engine that led before has written over."""

        def follow(_: int) -> tuple[int, Sequence[str]]:
            state = log.poll()
            self._runtime.follow(state)
            # What others of this engine write is left to them: they may have written something newer since.
            if lacking := write_again(self._runtime, state.overwritten):
                self._append(writer, [state.record_of(key) for key in sorted(lacking)])
            return 1, ()

        report = run_tick(f"state {self._settings.flow}", now_ms, follow)
        return replace(report, notes=state_notes(self._settings.flow, log.state))

    def _append(self, writer: LogWriter, records: Sequence[StateRecord]) -> None:
        if records and (term := self._runtime.term) is not None:
            writer.append(state_topic(self._settings.flow.source), 0, stamped(records, term, now_ms()))
