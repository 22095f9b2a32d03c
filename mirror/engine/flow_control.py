"""The control thread of one enabled flow: discovery, topics, checkpoints, group positions and the flow's own report."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mirror.config.settings import FlowSettings
from mirror.control.acls import AclsTick
from mirror.control.checkpoint_copies import CheckpointCopies
from mirror.control.checkpoints import CheckpointsTick
from mirror.control.dead_chunks import DeadChunksTick
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.control.group_translator import GroupTranslator, sources_of
from mirror.control.groups import GroupOffsetsTick, recorder
from mirror.control.mesh import MeshTranslator, Thirds
from mirror.control.quotas import QuotasTick
from mirror.control.tick import TickReport, now_ms, run_tick
from mirror.control.topics import TopicConfigsTick, TopicsTick
from mirror.control.users import UsersTick
from mirror.engine.hold import FlowHold
from mirror.engine.mirrors import Mirrors
from mirror.engine.mm2_traces import read_traces
from mirror.engine.routes import plan_routes
from mirror.engine.standing import FlowStanding
from mirror.engine.strangers import Strangers
from mirror.engine.ticking import Ticking, Timed
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogTail, LogWriter
from mirror.model.flow_state import RunReport, source_record, state_topic

REPORT_SECONDS = 2.0
# Logs are shortened every five minutes, unless brokers are told otherwise.
_DEAD_CHUNKS_SECONDS = 60.0
_RETRY_SECONDS = 0.5


class FlowControl:
    """Keeps one flow's control plane going."""

    def __init__(
        self,
        settings: FlowSettings,
        standing: FlowStanding,
        source: Cluster,
        target: Cluster,
        ticking: Ticking,
        hold: FlowHold,
        *,
        matches_mm2: bool,
        flows: Sequence[FlowSettings] = (),
    ) -> None:
        """Work between ``source`` and ``target``, beside other ``flows``; ``standing`` gets what the copy needs."""
        self._settings = settings
        self._mirrors = Mirrors(settings, flows or (settings,), target.cluster_id)
        self._thirds = Thirds(settings, flows, settings.source_consumer, settings.clients.checkpoints_consumer)
        self._flows = flows
        self._matches_mm2 = matches_mm2
        self._standing = standing
        self._source = source
        self._target = target
        self._ticking = ticking
        self._hold = hold

    def run(self, stop: threading.Event, discovery_seconds: float) -> None:
        """Tick until told to stop; the last report says that the flow has stopped.

        Raises
        ------
        Superseded
            if another engine has taken the flow over; what is reported of it is the other's then.
        """
        settings, flow = self._settings, self._settings.flow
        topics = TopicsTick(self._source, self._target, settings)
        # Nothing else can be done before the side topics are there.
        self._ticking.once(topics.tick)
        while not topics.side_topics_are_there:
            if stop.wait(_RETRY_SECONDS):
                return
            self._ticking.once(topics.tick)
        state_reader = settings.clients.checkpoints_consumer
        log = FlowLog(state_reader, state_topic(flow.source), alias=flow.target)
        writer = LogWriter(settings.target_producer, alias=flow.target)
        ticks: list[Timed] = [
            (_RETRY_SECONDS, lambda: self._keep_known(log, writer)),
            (discovery_seconds, topics.tick),
            (discovery_seconds, self._find_partitions),
            (REPORT_SECONDS, lambda: self._report(log, writer)),
            (_DEAD_CHUNKS_SECONDS, DeadChunksTick(flow, log, self._target, self._standing.take_dead).tick),
        ]
        strangers = Strangers(settings, self._standing, log, self._target, writer)
        ticks.append((REPORT_SECONDS, strangers.tick))
        if settings.sync_topic_configs:
            configs = TopicConfigsTick(self._source, self._target, settings)
            ticks.append((settings.sync_topic_configs_interval_seconds, configs.tick))
        ticks += self._access_ticks(log, writer)
        if settings.emit_checkpoints:
            tail = LogTail(state_reader, settings.checkpoints_topic, alias=flow.target)
            between = FlowTranslator(log, lambda: self._flow_into_source(flow.target), settings.policy, flow.target)
            translator = GroupTranslator(
                between,
                MeshTranslator(between, self._thirds.of_topic),
                others=sources_of(flow.source, self._flows, flow.target),
                find=self._flow_into_source,
            )
            checkpoints = CheckpointsTick(
                settings,
                self._source,
                translator,
                tail,
                writer,
                before_translating=translator.refresh,
                copies=CheckpointCopies(between),
                record=recorder(settings, writer),
            )
            ticks.append((settings.emit_checkpoints_interval_seconds, checkpoints.tick))
            if settings.sync_group_offsets:
                groups = GroupOffsetsTick(settings, self._target, checkpoints.writable, recorder(settings, writer), log)
                ticks.append((settings.sync_group_offsets_interval_seconds, groups.tick))
        self._ticking.until(stop, ticks)
        self._ticking.once(lambda: run_tick(f"report {flow}", now_ms, lambda _: self._say(writer, "STOPPED", ())))
        log.close()
        writer.close()
        strangers.close()
        self._mirrors.close()
        self._thirds.close()

    def _access_ticks(self, log: FlowLog, writer: LogWriter) -> list[Timed]:
        """Return what keeps up who may do what on the target; the first round comes at once (RUN-01)."""
        settings, ends = self._settings, (self._source, self._target, self._settings)
        if not settings.sync_topic_acls:
            return []
        ticks = [AclsTick(*ends, log, writer).tick]
        if settings.acls.client_quotas:
            ticks.append(QuotasTick(*ends, log, writer).tick)
        if settings.acls.scram_users:
            ticks.append(UsersTick(*ends).tick)
        return [(settings.sync_topic_acls_interval_seconds, tick) for tick in ticks]

    def _flow_into_source(self, alias: str) -> FlowLog | None:
        """Return the state of the flow from a cluster to this flow's source, where it lies, if it ever ran."""
        topic = state_topic(alias)
        if topic not in self._source.topics([topic]):
            return None
        return FlowLog(self._settings.source_consumer, topic, alias=self._settings.flow.source)

    def _keep_known(self, log: FlowLog, writer: LogWriter) -> TickReport:
        """Read back where the flow stands: at the start, and after an epoch that was lost."""

        def read_back(_: int) -> tuple[int, Sequence[str]]:
            if self._standing.is_known:
                return 0, ()
            producers = self._hold.take(log)
            state = log.state
            if state.source_id != self._source.cluster_id:
                # Other engines tell by it whose records these are, and must know before there are any.
                key, value = source_record(self._source.cluster_id)
                writer.append(state_topic(self._settings.flow.source), 0, [(key, value, (), now_ms())])
            mm2 = read_traces(self._settings, state, self._target, matches=self._matches_mm2)
            self._standing.take_state(state, mm2, producers)
            return 1, ()

        return run_tick(f"positions {self._settings.flow}", now_ms, read_back)

    def _find_partitions(self) -> TickReport:
        return run_tick(f"partitions {self._settings.flow}", now_ms, self._found)

    def _found(self, _: int) -> tuple[int, Sequence[str]]:
        settings = self._settings
        if settings.transforms.has_routers and not self._standing.is_known:
            # Of two topics sent to one, that is copied on which was copied before.
            return 0, ()
        topics = self._source.topics()
        problems = self._mirrors.look(topics)
        routes = plan_routes(
            topics, self._target.topics(), settings, self._standing.handovers.keys(), self._mirrors.ring_problem
        )
        names = {source.topic for source, *_ in routes.partitions}
        self._standing.take_mirrors(
            self._mirrors.known,
            {name: self._mirrors.left_out(name) for name in names},
            frozenset(name for name in names if not self._mirrors.has_way_back(name)),
        )
        self._standing.take_partitions(routes.partitions)
        return len(routes.partitions), (*routes.problems, *problems)

    def _report(self, log: FlowLog, writer: LogWriter) -> TickReport:
        def report(_: int) -> tuple[int, Sequence[str]]:
            state = log.poll()
            self._hold.require(state)
            self._standing.take_gaps(state)
            self._standing.taking = state.takeovers
            self._standing.foreign = tuple(state.foreign.values())
            reasons = self._standing.reasons()
            return self._say(writer, "DEGRADED" if reasons else "RUNNING", reasons)

        return run_tick(f"report {self._settings.flow}", now_ms, report)

    def _say(self, writer: LogWriter, state: str, reasons: tuple[str, ...]) -> tuple[int, Sequence[str]]:
        at_ms = now_ms()
        key, value = RunReport(state, reasons, at_ms, self._standing.notes()).record()
        writer.append(state_topic(self._settings.flow.source), 0, [(key, value, (), at_ms)])
        return 1, ()
