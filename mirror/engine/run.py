"""The engine: what ``mirror run`` does with a properties file, until it is told to stop.

For each flow a control thread keeps topics, heartbeats, checkpoints and group positions; one loop runs the copy as
rolling Spark epochs over the partitions of all flows. Nothing of value is held here: whatever is killed, a new engine
finds positions, offset map and writers on the target.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from mirror.config.changes import in_effect
from mirror.config.errors import ConfigError
from mirror.config.secrets import holds_secrets
from mirror.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror.control.tick import TickReport, now_ms
from mirror.control.topics import TopicsTick
from mirror.copier.assignment import assign
from mirror.copier.epoch_channel import CopiedNews, Troubles
from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import FlowWork, PartitionWork, TaskResult, TaskWork
from mirror.engine.cluster_news import Away, ClusterNews, Outages, news_of
from mirror.engine.connecting import connect, connect_source
from mirror.engine.copy_counters import CopyCounters
from mirror.engine.election import Identity
from mirror.engine.epoch_plan import flow_work, partitions_to_copy
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_heartbeats import FlowHeartbeats
from mirror.engine.flow_messages import throttle_reasons
from mirror.engine.flow_news import log_begun
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.leader import FlowLeader
from mirror.engine.lease import Lease
from mirror.engine.refusals import SameCluster, not_reachable, place_of
from mirror.engine.run_log import logger_of
from mirror.engine.settled import settled
from mirror.engine.start_check import chosen_flows, cluster_ids, same_cluster
from mirror.engine.takeovers import Takeovers
from mirror.engine.ticking import Ticking
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import ClusterUnreachable, KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.state_record import stamped, state_topic
from mirror.spark_conf import BadSparkConf, with_encryption

_LOG = logging.getLogger(__name__)
_BACKOFF_SECONDS = 0.5
# The first epoch with a flow is short: it finds out how much each partition moves, so that the next share it evenly,
# and tells soon whether all is well.
_FIRST_EPOCH_SECONDS = 2.0
_TICK_SECONDS = 0.1
_UNMEASURED_BYTES = 1 << 16
# A claim that is released lets another engine lead at once; of a cluster that does not answer none is.
_RELEASE_SECONDS = 10.0
_JOIN_SECONDS = 1.0
_TAKEOVER_SECONDS = 10.0
# Another engine that stands by is to copy within five seconds.
_STOP_SECONDS = 3.0
# An epoch that has not ended so long after its time never will.
_STUCK_SECONDS = 180.0


class PartEnded(Exception):
    """A thread of the engine ended by a defect; names it, the defect is the cause."""


class Engine:
    """Runs the flows of a properties file."""

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        clusters: Collection[str] = (),
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        reports_copied: bool = False,
    ) -> None:
        """Prepare to run ``settings``.

        Parameters
        ----------
        clusters
            aliases; only flows whose target is among them run (CLI-02). None given: all.
        master
            the Spark master; by default this machine.
        spark_conf
            further settings of Spark.
        reports_copied
            whether the tallies of flows go on while an epoch runs, and not at its end alone.

        Raises
        ------
        ConfigError
            if no flow is left, one asks for what no engine does yet, or logins would go over a network as they are.
        """
        self._settings = settings
        self._flows = chosen_flows(settings, clusters)
        clients = [client for flow in self._flows for client in (flow.source_consumer, flow.target_producer)]
        try:
            conf = with_encryption(master, spark_conf or {}, has_secrets=any(map(holds_secrets, clients)))
        except BadSparkConf as problem:
            raise ConfigError(settings.path, None, None, str(problem)) from problem
        epochs = self._epochs = Epochs(
            master, settings.engine.tasks, self._take_troubles, self._write_seconds, self._take_copied, conf
        )
        self._reports_copied = reports_copied
        #: What was copied of each enabled flow since the start, and in how many epochs; how many failed; tasks of each.
        enabled = [(flow.flow, flow) for flow in self._flows if flow.enabled]
        self.tallies = {flow: CopyCounters() for flow, _ in enabled}
        self.epochs_ended, self.epochs_failed, self.tasks = 0, 0, epochs.tasks
        self._runtimes = {flow: FlowRuntime(one, epochs.end_epoch, epochs.silent_seconds) for flow, one in enabled}
        self._defects: list[tuple[str, BaseException]] = []
        self._parts: tuple[threading.Thread, ...] = ()
        self._has_copied = threading.Event()
        # The rights to write that the tasks of the epoch depend on, and for how long behind their end they may go on.
        self._rights: tuple[tuple[Lease, float], ...] = ()
        # Of a flow that copies, who leads it has seen to its topics before.
        self._has_topics = {flow.flow: threading.Event() for flow in self._flows}
        for flow in self._runtimes:
            self._has_topics[flow].set()
        # When the epoch that runs is to be over, in any case.
        self._over_at = math.inf
        self._loads: dict[tuple[Flow, TopicPartition], float] = {}
        aliases = sorted({alias for flow in self._flows for alias in (flow.flow.source, flow.flow.target)})
        self._clusters = {alias: news_of(settings.clusters[alias]) for alias in aliases}
        self._outages = Outages(self._clusters)
        # Those that did not answer when they were asked at the start.
        self._away: dict[str, Away] = {}
        self._identity = Identity.of_this_process(uuid.uuid4().hex)
        self._leaders = {
            flow: FlowLeader(
                runtime.settings,
                runtime,
                self._identity,
                timeout_seconds=settings.engine.leader_timeout_seconds,
                lost=self._epochs.abort,
                is_stuck=self._is_stuck,
                outages=self._outages,
            )
            for flow, runtime in self._runtimes.items()
        }

    def check(self, stop: threading.Event | None = None) -> None:
        """Ask which cluster is which, and refuse a flow from a cluster to itself; changes nothing anywhere.

        A cluster that does not answer now is asked again later: what does not need it is copied meanwhile. All are
        asked at once, and no answer is waited for once ``stop`` is set.

        Raises
        ------
        NotReachable
            if no target of an enabled flow can be reached, and waiting helps none of them: a login that is refused, a
            host's name that nobody has.
        SameCluster
            if both ends of a flow are one cluster.
        TooFewBrokers
            if a topic that a flow is to begin with is to have more replicas than there are brokers.
        """
        answers = cluster_ids(self._settings, self._flows, stop or threading.Event())
        for answer in answers.values():
            if isinstance(answer, Exception) and not isinstance(answer, ClusterUnreachable):
                raise answer
        ids = {alias: answer for alias, answer in answers.items() if isinstance(answer, str)}
        away = {alias: answer for alias, answer in answers.items() if isinstance(answer, ClusterUnreachable)}
        for flow in self._flows:
            if same := same_cluster(flow.flow, ids):
                raise SameCluster(self._settings.path, *place_of(self._settings.path, flow.flow.target), same)
        targets = [flow.flow.target for flow in self._flows if flow.enabled]
        if all(alias in away and away[alias].is_for_people for alias in targets):
            raise not_reachable(self._settings.path, away[targets[0]])
        for alias, why in away.items():
            self._away[alias] = Away(why.reason, why.is_refusal)

    @property
    def settings(self) -> MirrorSettings:
        """The settings that it runs by."""
        return self._settings

    def take_settings(self, new: MirrorSettings) -> None:
        """Go on by what can be taken of a file that was read anew; nothing that is copied is copied again or missed."""
        # What a flow does depends on the others as well: whoever sees its own has to see theirs.
        self._settings = in_effect(self._settings, new)
        for flow, runtime in self._runtimes.items():
            runtime.take_settings(self._settings_of(flow))

    def take_file_notes(self, notes: Sequence[str]) -> None:
        """Have each flow's status say what people should know of the file."""
        for runtime in self._runtimes.values():
            runtime.file_notes = tuple(notes)

    def _settings_of(self, flow: Flow) -> FlowSettings:
        return self._settings.known(flow)

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set; then finish the epoch, record what was acknowledged, and return.

        Raises
        ------
        NotReachable, SameCluster, TooFewBrokers
            as :meth:`check`, before anything is created.
        SparkDidNotStart
            if Spark cannot be started.
        PartEnded
            if a part of the engine ended by a defect, which is the cause; the others were stopped.
        """
        self.check(stop)
        if stop.is_set():
            return
        flows = ", ".join(str(flow) for flow in self._runtimes)
        _LOG.info("mirror %s starts: %s, flows %s", version("mirrorbook"), self._settings.path, flows)
        for alias, why in self._away.items():
            self._clusters[alias].begin_away(why)
        for line in self._settings.ignored:
            _LOG.warning("%s", line)
        # By the clusters that each depends on.
        threads = [
            (
                {flow.flow.source, flow.flow.target},
                threading.Thread(
                    target=self._guarded,
                    args=(partial(target, flow.flow), stop),
                    name=f"{name} {flow.flow}",
                    daemon=True,
                ),
            )
            for flow in self._flows
            for name, target in (("control", self._control), ("heartbeats", self._heartbeats))
        ]
        # Also while the engine stops: an outage that begins then is not waited for either.
        is_over = threading.Event()
        watching = [
            threading.Thread(
                target=self._guarded, args=(partial(_watch, news, is_over), stop), name=f"cluster {alias}", daemon=True
            )
            for alias, news in self._clusters.items()
        ]
        threads.append((set(), threading.Thread(target=self._wind_down, args=(stop,), name="stop", daemon=True)))
        leaders = [
            (
                {flow.target},
                threading.Thread(
                    target=self._guarded, args=(partial(self._lead, flow), stop), name=f"leader {flow}", daemon=True
                ),
            )
            for flow in self._leaders
        ]
        takeovers = Takeovers(self._epochs, self._runtimes, self._flow_work)
        taking_over = threading.Thread(target=self._guarded, args=(takeovers.run, stop), name="takeovers", daemon=True)
        # Also one that is not listed here: of a library, or begun by one that is.
        threading.excepthook = lambda ended: self._end_by(
            ended.exc_value or ended.exc_type(), ended.thread.name if ended.thread else "a thread", stop
        )
        parts = [thread for _, thread in (*threads, *leaders)]
        for thread in (*parts, *watching):
            thread.start()
        self._parts = (*watching, *(each for each in parts if each.name.startswith(("control", "leader"))))
        has_ended = False
        try:
            # Topics are created and positions read while Spark starts.
            self._epochs.start()
            # Its jobs are Spark's: a takeover before Spark runs would be reported as one that failed.
            taking_over.start()
            self._guarded(self._copy, stop)
            if not self._defects:
                self._settle()
                has_ended = True
        finally:
            self._has_copied.set()
            stop.set()
            self._join(threads, _STOP_SECONDS)
            # Nothing is copied any more, so another engine need not wait until this process has ended.
            for flow, leader in self._leaders.items():
                leader.end(is_settled=has_ended and self._runtimes[flow].is_settled)
            self._join([*leaders, *threads], _RELEASE_SECONDS)
            is_over.set()
            _join([*parts, *watching], _JOIN_SECONDS)
            # Which ends a takeover that is under way, too; it has written nothing.
            self._epochs.stop()
            if taking_over.ident is not None:
                taking_over.join(timeout=_TAKEOVER_SECONDS)
            threading.excepthook = threading.__excepthook__
        if self._defects:
            part, defect = self._defects[0]
            raise PartEnded(part) from defect

    def wrong(self) -> tuple[str, ...]:
        """Return which parts of the engine are not at work, and why; none before it runs."""
        ended = [f"{each.name} has ended" for each in self._parts if not each.is_alive()]
        stuck = ["Spark does not end an epoch that was cancelled minutes ago"] if self._is_stuck() else []
        return (*(f"{part} ended by a defect: {defect!r}" for part, defect in self._defects), *ended, *stuck)

    @property
    def seam_seconds(self) -> float | None:
        """For how long nothing was copied between the last two epochs; None before the second."""
        return self._epochs.seam_seconds

    @property
    def runtimes(self) -> Mapping[Flow, FlowRuntime]:
        """What is known of the flows that are enabled."""
        return self._runtimes

    def _is_stuck(self) -> bool:
        """Whether Spark does not even end an epoch that was cancelled."""
        return time.monotonic() > self._over_at

    def _lead(self, flow: Flow, _: threading.Event) -> None:
        self._leaders[flow].run(self._admin(flow, flow.target), self._ticking(flow))

    def _wind_down(self, stop: threading.Event) -> None:
        stop.wait()
        for leader in self._leaders.values():
            leader.over()
        self._epochs.end_epoch()
        if not self._has_copied.wait(_STOP_SECONDS):
            # What is unanswered by now is left to the next engine, which has it refused.
            self._epochs.abort()

    def _join(self, threads: Iterable[tuple[Set[str], threading.Thread]], seconds: float) -> None:
        """Wait for threads, for so many seconds in all, but not for what depends on a cluster that does not answer."""
        until = time.monotonic() + seconds
        for aliases, thread in threads:
            while thread.is_alive() and time.monotonic() < until and not any(map(self._outages.is_known, aliases)):
                thread.join(timeout=_TICK_SECONDS)

    def _guarded(self, target: Callable[[threading.Event], None], stop: threading.Event) -> None:
        """Run a thread; what a cluster does to it is dealt with inside, so whatever gets here ends the engine."""
        try:
            target(stop)
        except Exception as defect:  # noqa: BLE001  # raised again by run()
            thread = threading.current_thread()
            self._end_by(defect, "copy" if thread is threading.main_thread() else thread.name, stop)

    def _end_by(self, defect: BaseException, part: str, stop: threading.Event) -> None:
        """Stop, because a part of the engine has ended: the others alone would do half of the work, in silence."""
        self._defects.append((part, defect))
        stop.set()
        _LOG.error("%s ended by a defect, so the engine stops", part, exc_info=defect)

    def _settle(self) -> None:
        """Record that nothing was being copied at the end: the next engine need not compare what lies behind."""
        for flow, runtime in self._runtimes.items():
            if not (records := settled(runtime)) or runtime.term is None or runtime.lease.left <= 0:
                continue
            try:
                with closing(LogWriter(runtime.settings.target_producer, alias=flow.target)) as writer:
                    writer.append(state_topic(flow.source), 0, stamped(records, runtime.term, now_ms()))
            except KafkaProblem as problem:
                logger_of(flow).warning("the next start compares what lies behind its positions: %s", problem)

    # The copy: rolling epochs.

    def _copy(self, stop: threading.Event) -> None:
        known: dict[Flow, int] = {}
        while not stop.is_set():
            longest = self._settings.engine.epoch_seconds
            with ExitStack() as held:
                # What is planned and what its results are taken in for must be of the same beginning.
                at_once = self._epochs.at_once()
                for runtime in self._runtimes.values():
                    held.enter_context(runtime.lock)
                begun = {flow: runtime.begun for flow, runtime in self._runtimes.items()}
                taking_part = [flow for flow, each in self._runtimes.items() if each.is_known and each.may_be_copied]
                is_first = any(known.get(flow) != begun[flow] for flow in taking_part)
                seconds = min(_FIRST_EPOCH_SECONDS, longest) if is_first else longest
                # With exactly once a task needs a slot of each flow.
                slots = [len(runtime.slots.known) for runtime in self._runtimes.values() if runtime.slots.known]
                works = self._plan_epoch(seconds, min([at_once, *slots]))
            if not works:
                stop.wait(_TICK_SECONDS)
                continue
            began = time.monotonic()
            self._over_at = began + seconds + _STUCK_SECONDS
            try:
                results = self._epochs.run(works)
            except EpochFailed as failure:
                self.epochs_failed += 1
                self._end_tallies()
                for runtime in self._runtimes.values():
                    with runtime.lock:
                        runtime.end_epoch()
                        # Tasks of an epoch before this one may be cut off too.
                        runtime.tasks_write_until = max(runtime.tasks_write_until, failure.write_until)
                        runtime.copy_trouble = f"the last epoch failed, and its end is looked up: {failure}"
                        # What the tasks wrote is on the target; the control thread reads it back.
                        runtime.is_known = False
                known = {}
                stop.wait(_BACKOFF_SECONDS)
                continue
            finally:
                self._over_at = math.inf
            known = {flow: begun[flow] for flow in taking_part}
            lasted = max(time.monotonic() - began, 0.001)
            self.epochs_ended += 1
            for work, result in zip(works, results, strict=True):
                self._take_result(work, result, begun, lasted)
            log_begun(partition for result in results for partition in result.partitions)
            self._end_tallies()
            self._take_slots(results, begun)
            for flow, runtime in self._runtimes.items():
                # Only now: what is to be said of the partitions that are paused is known.
                runtime.end_epoch()
                runtime.throttles = throttle_reasons(flow, results, lasted)

    def _take_result(self, work: TaskWork, result: TaskResult, begun: Mapping[Flow, int], seconds: float) -> None:
        """Take in what a task has done, but for flows that were begun anew since: it went on from what is past."""
        targets = {(one.flow, one.source): one.target for one in work.partitions}
        producers = {flow.flow: flow.producer for flow in work.flows if flow.slot is None}
        for partition in result.partitions:
            flow, runtime = partition.flow, self._runtimes[partition.flow]
            self._loads[flow, partition.source] = partition.bytes / seconds
            self.tallies[flow].take_result(partition)
            with runtime.lock:
                runtime.copy_trouble = None
                if runtime.begun != begun[flow]:
                    continue
                runtime.take_result(partition)
                if (producer := producers.get(flow)) is not None:
                    runtime.take_written(targets[flow, partition.source], partition, producer)

    def _take_copied(self, news: CopiedNews) -> None:
        """Take in how much a task that runs says is copied by now."""
        for (flow, source), copied in news.items():
            self.tallies[flow].take_copied(source, copied)

    def _end_tallies(self) -> None:
        for tally in self.tallies.values():
            tally.end_epoch()

    def _take_troubles(self, troubles: Troubles) -> None:
        """Take in what a task that runs says is wrong now: an epoch is not ended for its sake."""
        for (flow, source), reason in troubles.items():
            self._runtimes[flow].take_trouble(source, reason)

    def _write_seconds(self) -> float:
        """Return for how long the tasks of the epoch may write from now on, unless they hear more by then."""
        return min((lease.left + grace_seconds for lease, grace_seconds in self._rights), default=math.inf)

    def _take_slots(self, results: Sequence[TaskResult], begun: Mapping[Flow, int]) -> None:
        """Take in how the tasks left their slots; the lost ones last, for those flows are then begun anew."""
        ends = [(flow, number, end) for number, result in enumerate(results) for flow, end in result.slots.items()]
        for flow, number, end in sorted(ends, key=lambda each: each[2].lost is not None):
            with self._runtimes[flow].lock:
                if self._runtimes[flow].begun == begun[flow]:
                    self._runtimes[flow].take_slot(number, end)

    def _plan_epoch(self, seconds: float, at_once: int) -> list[TaskWork]:
        for each in self._runtimes.values():
            each.between_epochs()
        # Another term has another.
        rights = {flow: (runtime.lease, runtime.grace_seconds) for flow, runtime in self._runtimes.items()}
        # A producer may be replaced meanwhile, and sequences belong to the one they were written with.
        writing = {flow: runtime.writing for flow, runtime in self._runtimes.items()}
        partitions = partitions_to_copy(self._runtimes, writing)
        for flow, runtime in self._runtimes.items():
            copied = {work.source: work.target for work in partitions if work.flow == flow and not work.is_paused}
            runtime.begin_epoch(copied, writing[flow].producer)
        engine = self._settings.engine
        self._rights = tuple(rights[flow] for flow in {work.flow for work in partitions})
        return [
            TaskWork(
                tuple(
                    replace(self._slotted(flow, number, share), producer=writing[flow].producer)
                    for flow in sorted({work.flow for work in share})
                ),
                share,
                seconds,
                engine.commit_interval_seconds,
                reports_copied=self._reports_copied,
            )
            for number, share in enumerate(assign(partitions, self._load, at_once))
        ]

    def _load(self, work: PartitionWork) -> float:
        return max(self._loads.get((work.flow, work.source), _UNMEASURED_BYTES), 1.0)

    def _slotted(self, flow: Flow, task: int, share: Sequence[PartitionWork]) -> FlowWork:
        """Return what a task must know of a flow, and as whom it writes."""
        work = self._flow_work(flow)
        slot = self._runtimes[flow].slot(task, {one.target for one in share}, {work.state_topic, work.offsets_topic})
        return replace(work, slot=slot)

    def _flow_work(self, flow: Flow) -> FlowWork:
        return flow_work(self._runtimes[flow], epoch=self.epochs_ended + self.epochs_failed)

    # The control plane: a thread a flow, another for its heartbeats.

    def _ticking(self, flow: Flow) -> Ticking:
        runtime = self._runtimes.get(flow)
        return Ticking(runtime.keep if runtime else lambda _: None, flow, self._outages)

    def _heartbeats(self, flow: Flow, stop: threading.Event) -> None:
        """Heartbeats have a thread of their own: a source that does not answer must not silence them."""
        runtime = self._runtimes.get(flow)
        # Of a flow that copies nothing there is no leader.
        leads = (lambda: True) if runtime is None else (lambda: runtime.term is not None)
        heartbeats = FlowHeartbeats(partial(self._settings_of, flow), leads, self._ticking(flow))
        heartbeats.run(self._has_topics[flow], stop)

    def _is_outdated(self, flow: Flow) -> Callable[[], bool]:
        """Return what tells whether the settings of a flow are others than they are now."""
        settings = self._settings_of(flow)
        return lambda: self._settings_of(flow) is not settings

    def _admin(self, flow: Flow, alias: str) -> ClusterSettings:
        return self._settings_of(flow).admin(alias)

    def _control(self, flow: Flow, stop: threading.Event) -> None:
        ticking = self._ticking(flow)
        with ExitStack() as connections:
            target = connect(partial(self._admin, flow, flow.target), flow, ticking, stop)
            if target is None:
                return
            connections.enter_context(target)
            if flow in self._runtimes:
                self._control_led(flow, target, ticking, stop, connections)
                return
            source = connect_source(partial(self._admin, flow, flow.source), flow, target, ticking, stop, connections)
            if source is None:
                return
            while not stop.is_set():
                is_outdated, settings = self._is_outdated(flow), self._settings_of(flow)
                topics = TopicsTick(source, target, settings)

                def discover(topics: TopicsTick = topics) -> TickReport:
                    report = topics.tick()
                    if topics.side_topics_are_there:
                        self._has_topics[flow].set()
                    return report

                ticking.until(stop, [(settings.discovery_seconds, discover)], is_outdated)

    def _control_led(
        self,
        flow: Flow,
        target: Cluster,
        ticking: Ticking,
        stop: threading.Event,
        connections: ExitStack,
    ) -> None:
        """Keep the flow's control plane going whenever this engine leads the flow."""
        settings = self._settings_of(flow)
        topic = settings.offset_storage_topic
        positions = {TopicPartition(topic, number) for number in range(settings.offset_storage_partitions)}
        producers = FlowProducers(
            flow, settings.target_producer, settings.transactions, slots=self._epochs.tasks, positions=positions
        )
        found: list[Cluster] = []

        def find_source(of_term: Ticking, lease_over: threading.Event) -> Cluster | None:
            admin = partial(self._admin, flow, flow.source)
            source = connect_source(admin, flow, target, of_term, lease_over, connections)
            found.extend([source] if source is not None else [])
            return source

        ending: list[threading.Thread] = []
        while (lease_over := self._leaders[flow].await_lease(stop)) is not None:
            upkeep = FlowControl(
                self._runtimes[flow],
                found[0] if found else None,
                target,
                ticking,
                producers,
                matches_mm2=self._settings.engine.matches_mm2,
                flows=lambda: self._settings.enabled_flows,
                tally=self.tallies[flow],
            ).run(
                lease_over,
                lambda: stop.is_set() and self._has_copied.wait(_STOP_SECONDS),
                find_source,
            )
            ending = [each for each in (*ending, upkeep) if each.is_alive()]
        for each in ending:
            # The clusters are closed behind it.
            each.join()


def _watch(news: ClusterNews, until: threading.Event, _: threading.Event) -> None:
    news.run(until)


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Wait for all of them, for so many seconds in all."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(timeout=max(0.0, until - time.monotonic()))
