"""Where every flow stands, read from the clusters themselves, whether or not an engine runs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Protocol

from mirror.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror.control.closed_copies import closed_notes
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.control.flow_status import CLIFF_SECONDS, FlowStatus, PartitionStatus, State, nearest_cliff
from mirror.control.foreign_records import foreign_reasons
from mirror.control.gaps import iso_time, open_gaps_reason
from mirror.control.liveness import Liveness, LivenessWatch, StandbyWatch, ahead_words
from mirror.control.state_notes import state_notes
from mirror.control.tick import connection_name, shortened
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel, topic_settings
from mirror.kafka.codes import OFFSET_OUT_OF_RANGE
from mirror.kafka.log import LogReader, decoded
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem, LeaderAway, RequestFailed
from mirror.kafka.topic_ids import differ
from mirror.model.cliff import RETENTION_KEYS, Retention
from mirror.model.copied import NO_TIME, Waiting
from mirror.model.counts import counted, first_of
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.leadership import differing_words
from mirror.model.partition import TopicPartition
from mirror.model.pause import limit_words
from mirror.model.position import Position
from mirror.model.state_record import data_transactional_id, state_topic
from mirror.model.state_values import RunReport, stopped_reason

# And what it deletes sooner than that is worth a note.
_DAY_SECONDS = 86_400.0
_RETENTION_SECONDS = 60.0
_NAMED = 5
# What the source has deleted before it was copied; how old it was is not known any more.
_DELETED = Waiting(NO_TIME, 0.0)
_NEVER_RUN = "this flow has never run"


class Underway(Protocol):
    """Who knows what is on its way to the target; :class:`mirror.engine.copy_counters.CopyCounters` is one."""

    def waiting(self, source: TopicPartition) -> Waiting | None:
        """Return the oldest record of a partition that was read and is not acknowledged."""
        ...

    def is_moving(self, source: TopicPartition) -> bool:
        """Whether something of a partition was copied lately."""
        ...


def fence_in_force(settings: FlowSettings, state: FlowState) -> str | None:
    """Say what becomes of requests of an earlier engine that arrive late, and which ACL gives more (ADR 8).

    By what the engine that took the flow over last has put on record; None if none ever did.
    """
    target = settings.flow.target
    if settings.transactions is not None:
        return f"refused by {target}, in transactions" if state.claim is not None else None
    if state.producer is None:
        return None
    if state.producer.transactional_id:
        return f"refused by {target} (transactional id {state.producer.transactional_id})"
    needed = data_transactional_id(state_topic(settings.flow.source), target)
    return f"noticed, not refused; grant Write and Describe on the transactional id {needed} on {target}"


def judge_state(
    run: RunReport | None, liveness: Liveness, trouble: Iterable[str], *, is_paused: bool = False
) -> tuple[State, tuple[str, ...]]:
    """Return a flow's state and reasons from its engine's last report and from what was met while reading.

    STARTING until a first epoch has reported, or all is paused: whether anything can be copied is not known before.
    PAUSED if some of it is, and nothing is wrong.
    """
    met = tuple(trouble)
    if run is None:
        return "STOPPED", (_NEVER_RUN, *met)
    if run.state == "STOPPED":
        return "STOPPED", (*run.reasons, f"no engine runs it: the last one stopped at {iso_time(run.at_ms)}", *met)
    if liveness.silence is not None:
        return "STOPPED", (liveness.silence, *dict.fromkeys((*run.reasons, *met)))
    reasons = tuple(dict.fromkeys((*run.reasons, *met)))
    if reasons:
        return "DEGRADED", reasons
    return ("STARTING" if run.state == "STARTING" else "PAUSED" if is_paused else "RUNNING"), ()


class FlowObserver:
    """Looks at one flow again and again over connections that it keeps; a cluster that is away is tried again."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterSettings,
        target: ClusterSettings,
        *,
        underway: Underway | None = None,
        most_read: int | None = None,
        cliff_seconds: float = CLIFF_SECONDS,
    ) -> None:
        """Observe ``flow``; nothing is connected before the first look.

        Parameters
        ----------
        underway
            who knows the times of what is on its way: that is not read once more.
        most_read
            of how many partitions in a look the oldest record to be copied may be read; None: of all.
        cliff_seconds
            how soon the source must delete something that is not copied for that to be reported.
        """
        self._underway = underway
        self._most_read = most_read
        self._cliff_seconds = cliff_seconds
        # Where each partition stood at the last look, and the oldest record from there on, if it was read.
        self._seen: dict[TopicPartition, tuple[int, Waiting | None]] = {}
        self._retention: dict[str, Retention] = {}
        self._retention_at = -math.inf
        self._settings = flow
        self._source_settings = source
        self._target_settings = target
        self._source: Channel | None = None
        self._log: FlowLog | None = None
        self._liveness = LivenessWatch()
        self._standbys = StandbyWatch()

    def look(self) -> FlowStatus:
        """Return where the flow stands now. A target that does not answer makes it FAILED, with the reason."""
        found = self._status(self._liveness.look)
        assert found is not None
        return found

    def glance(self) -> FlowStatus | None:
        """Return what :meth:`look` does, None while it must be watched whether the engine runs: that has begun."""
        return self._status(self._liveness.glance)

    def _status(
        self, judge: Callable[[Callable[[], FlowState]], tuple[FlowState, Liveness | None]]
    ) -> FlowStatus | None:
        flow = self._settings.flow
        try:
            state, liveness = judge(self._state)
        except NeverRun as never:
            return FlowStatus(flow, "STOPPED", (str(never), *self._source_problem()), ())
        except KafkaProblem as problem:
            self._forget_target()
            return FlowStatus(flow, "FAILED", (str(problem),), ())
        if liveness is None:
            return None
        trouble = [open_gaps_reason(state.open_gaps)] if state.open_gaps else []
        trouble += foreign_reasons(state.foreign.values(), flow.target, int(time.time() * 1000), state.writers)
        trouble += [
            stopped_reason(source, reason)
            for source, reason in sorted(state.stops.items())
            if self._settings.replicates(source.topic)
        ]
        notes: tuple[str, ...] = ()
        selected = {topic: self._settings.replicates(topic) for topic in {source.topic for source in state.positions}}
        deselected = tuple(sorted(source for source in state.positions if not selected[source.topic]))
        positions = {source: each for source, each in sorted(state.positions.items()) if selected[source.topic]}
        try:
            leaderless = self._leaderless_copies(positions)
        except KafkaProblem as problem:
            self._forget_target()
            return FlowStatus(flow, "FAILED", (str(problem),), ())
        untold: tuple[str, ...] = ()
        try:
            partitions, notes, untold = self._partitions(positions)
        except KafkaProblem as problem:
            self._forget_source()
            trouble += _beside(state.run, flow, str(problem))
            partitions = tuple(_unknown_lag(source, position) for source, position in positions.items())
        untold += tuple(f"{flow.target}: {copy} has no leader" for copy in leaderless.values())
        # What the engine has reported of a partition is not reported twice.
        reported = state.run.reasons if state.run is not None else ()
        trouble += shortened([each for each in untold if not any(reason.endswith(f": {each}") for reason in reported)])
        gaps_of = Counter(gap.source for gap in state.open_gaps)
        stopped = state.stopped
        partitions = tuple(
            replace(
                each,
                gaps=gaps_of[source],
                stopped=stopped.get(source),
                is_paused=state.pauses.is_paused(source.topic),
                unanswered=_joined(each.unanswered, f"no leader on {flow.target}" if source in leaderless else None),
            )
            for each in partitions
            for source in (TopicPartition(each.topic, each.partition),)
        )
        is_paused = state.pauses.pauses_any
        if (nearest := nearest_cliff(partitions, max(self._cliff_seconds, _DAY_SECONDS))) is not None:
            if nearest.is_near_cliff(self._cliff_seconds):
                trouble.append(nearest.cliff_words)
            else:
                notes += (nearest.cliff_words,)
        verdict, reasons = judge_state(state.run, liveness, trouble, is_paused=is_paused)
        moved, moving = _moves(flow, state.failovers.values(), is_cut=state.pauses.is_cut)
        # Cut, it is paused as it should be; what copies although it is failed over is not, whatever else is paused.
        well = ("RUNNING",) if state.pauses.is_cut else ("RUNNING", "PAUSED", "STARTING")
        verdict, reasons = "DEGRADED" if moved and verdict in well else verdict, (*moved, *reasons)
        notes += moving if liveness.skew is None else (*moving, liveness.skew)
        messages = state.run.notes if state.run else ()
        # What the engine has reported is not reported twice.
        notes += (*messages, *(note for note in state_notes(flow, state) if not any(note in each for each in messages)))
        if verdict == "STOPPED":
            notes += closed_notes(flow, self._target_settings.bootstrap_servers, state)
        gaps, foreign = tuple(state.gaps.values()), tuple(state.foreign.values())
        standbys = self._standbys.standing_by(state.standbys.values())
        notes += ahead_words(each for each in state.standbys.values() if each not in standbys)
        notes += tuple(
            f"an engine on {each.host} (process {each.pid}) stands by"
            + differing_words("its file differs from the leader's", each.differs_in)
            for each in standbys
        )
        notes += _left(deselected)
        is_confirmed = is_paused and _is_pause_confirmed(state)
        limit = _pause_limit(state) if is_confirmed else None
        notes += _paused(state, limit, is_confirmed=is_confirmed) + _behind_pauses(self._settings, partitions)
        return FlowStatus(
            flow,
            verdict,
            reasons,
            partitions,
            gaps,
            foreign,
            notes,
            state.claim,
            standbys,
            deselected,
            state.pauses,
            is_confirmed,
            limit,
            tuple(state.open_gaps),
            stopped,
            tuple(state.failovers.values()),
            fence_in_force(self._settings, state),
            state.run.at_ms if state.run is not None else None,
        )

    def close(self) -> None:
        """Close the connections."""
        self._forget_source()
        self._forget_target()

    def _state(self) -> FlowState:
        if self._log is None:
            flow = self._settings.flow
            self._log = FlowLog(self._target_settings.client, state_topic(flow.source), alias=flow.target)
        return self._log.observe()

    def _source_problem(self) -> tuple[str, ...]:
        """Say why the source does not answer, if it does not."""
        try:
            self._source_channel()
        except ConnectionFailed as problem:
            return (str(problem),)
        return ()

    def _source_channel(self) -> Channel:
        if self._source is None:
            self._source = Channel(self._settings.flow.source, self._source_settings.client, bootstrap_ms=2_000)
        return self._source

    def _partitions(
        self, positions: Mapping[TopicPartition, Position]
    ) -> tuple[tuple[PartitionStatus, ...], tuple[str, ...], tuple[str, ...]]:
        """Return where the partitions stand that the source has, the copies of what it has not (RUN-07), and problems.

        Where a partition without a leader ends is not known; the others are reported all the same.
        """
        channel = self._source_channel()
        ends = channel.find_offsets(positions, LATEST) if positions else PartitionAnswers()
        gone = channel.absent(ends.problems)
        # Offsets of a topic that was created anew are not those of the position.
        present = {source: each for source, each in positions.items() if source in ends}
        recreated = {each for each, at in present.items() if differ(at.topic_id, channel.topic_id(each.topic))}
        there = {source: each for source, each in present.items() if source not in recreated}
        lags = {source: max(0, ends[source] - each.upstream) for source, each in there.items()}
        oldest = self._oldest(channel, {source: each.upstream for source, each in there.items()}, lags, ends)
        retention = self._kept(channel, {source.topic for source in oldest})
        found = []
        for source, each in there.items():
            lag, seconds, left = lags[source], 0.0 if not lags[source] else None, None
            if (record := oldest.get(source)) is not None:
                seconds, left = _age(record), 0.0 if record is _DELETED else None
                if lag and seconds is not None and source.topic in retention:
                    left = retention[source.topic].seconds_left(lag, seconds, record.record_bytes)
            found.append(
                PartitionStatus(
                    *source,
                    each.upstream,
                    ends[source],
                    each.downstream,
                    lag,
                    seconds,
                    each.left_out,
                    deleted_in_seconds=left,
                )
            )
        untold = {source: problem for source, problem in ends.problems.items() if source not in gone}
        found += [_unknown_lag(source, positions[source], ends[source]) for source in recreated]
        found += [
            replace(_unknown_lag(source, positions[source]), unanswered=_few_words(channel.alias, problem))
            for source, problem in untold.items()
        ]
        found.sort(key=lambda each: (each.topic, each.partition))
        return tuple(found), self._left_copies(positions, gone), tuple(map(str, untold.values()))

    def _leaderless_copies(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, TopicPartition]:
        """Return of which partitions the copies have no leader, with these copies."""
        copies = {
            source: TopicPartition(each.target or self._settings.copy_of(source.topic), source.partition)
            for source, each in positions.items()
        }
        leaderless = self._log.leaderless(copies.values()) if self._log is not None and copies else frozenset()
        return {source: copy for source, copy in copies.items() if copy in leaderless}

    def _left_copies(
        self, positions: Mapping[TopicPartition, Position], gone: Collection[TopicPartition]
    ) -> tuple[str, ...]:
        """Say of which topics, or of which of their partitions, the copies are left, since the source has none."""
        flow = self._settings.flow
        topics = {source.topic for source in gone}
        whole = topics - {source.topic for source in positions.keys() - gone}
        copies = {source: positions[source].target or self._settings.copy_of(source.topic) for source in gone}
        of_topics = {source.topic: copies[source] for source in gone if source.topic in whole}
        of_partitions = {
            str(source): str(TopicPartition(copies[source], source.partition))
            for source in gone
            if source.topic not in whole
        }
        return tuple(
            f"{name} is not on {flow.source} any more; its copy {copy} on {flow.target} is left as it is"
            for name, copy in sorted((of_topics | of_partitions).items())
        )

    def _oldest(
        self,
        channel: Channel,
        positions: Mapping[TopicPartition, int],
        lags: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, Waiting]:
        """Return the oldest records to be copied, as far as they are known, or few enough to be read.

        What stands still is read once. What moves is of now, unless who copies it knows better: before the next look it
        stands elsewhere.
        """
        found: dict[TopicPartition, Waiting] = {}
        seen: dict[TopicPartition, tuple[int, Waiting | None]] = {}
        left = math.inf if self._most_read is None else self._most_read
        for source in sorted((each for each in lags if lags[each]), key=lambda each: (-lags[each], each)):
            stood_at, record = self._seen.get(source, (None, None))
            is_still = stood_at == positions[source]
            waiting = self._underway.waiting(source) if self._underway else None
            if waiting is None and not is_still:
                is_moving = self._underway is not None and self._underway.is_moving(source)
                record = waiting = Waiting(int(time.time() * 1000), 0.0) if is_moving else None
            if waiting is None and (record is None or not is_still) and left > 0:
                left -= 1
                record = _first_record(channel, source, positions[source], ends[source])
            if (known := waiting or record) is not None:
                found[source] = known
            seen[source] = positions[source], None if waiting is not None else record
        self._seen = seen
        return found

    def _kept(self, channel: Channel, topics: Collection[str]) -> Mapping[str, Retention]:
        """Return how long the source keeps records, as it said in the last minute."""
        if time.monotonic() >= self._retention_at + _RETENTION_SECONDS:
            self._retention, self._retention_at = {}, time.monotonic()
        found = topic_settings(channel, {each for each in topics if each not in self._retention}, RETENTION_KEYS)
        self._retention |= {topic: Retention.of(settings) for topic, settings in found.items()}
        return self._retention

    def _forget_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _forget_target(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


def _first_record(channel: Channel, source: TopicPartition, position: int, end: int) -> Waiting:
    """Return the first data record from ``position`` on; where only markers follow, one of this moment."""
    reader = LogReader(channel, source, position)
    try:
        while reader.position < end:
            for content, header in reader.fetch(most_bytes=1):
                for record in decoded(channel, source, content):
                    if record.offset >= position:
                        return Waiting(record.timestamp, len(content) / max(header.record_count, 1))
    except BrokerRefused as refused:
        if refused.code != OFFSET_OUT_OF_RANGE:
            raise
        return _DELETED
    return Waiting(int(time.time() * 1000), 0.0)


def _unknown_lag(source: TopicPartition, position: Position, end: int | None = None) -> PartitionStatus:
    """Return what is known of a partition of which nobody can tell how much of it is to be copied."""
    return PartitionStatus(*source, position.upstream, end, position.downstream, None, None, position.left_out)


def _few_words(alias: str, problem: RequestFailed) -> str:
    """Say in a column why a cluster does not tell of a partition."""
    if isinstance(problem, BrokerRefused):
        return f"{problem.error.__name__} on {alias}"
    return f"leader on {alias} away" if isinstance(problem, LeaderAway) else f"no leader on {alias}"


def _joined(*words: str | None) -> str | None:
    return ", ".join(filter(None, words)) or None


def _age(record: Waiting) -> float | None:
    """Return the age of a record in seconds; None if it bears no time.

    Message format 0 knows none, and a producer may leave it out.
    """
    return max(0.0, time.time() - record.since_ms / 1000) if record.since_ms > NO_TIME else None


def _beside(run: RunReport | None, flow: Flow, problem: str) -> list[str]:
    """Return what was met of the source, unless the engine has reported in its own words that it cannot be reached."""
    messages = (f"{connection_name(flow, flow.source)}: ", f"{flow.source} does not answer (")
    return [] if run is not None and any(each.startswith(messages) for each in run.reasons) else [problem]


def _is_pause_confirmed(state: FlowState) -> bool:
    """Whether who led the flow last has said of every wish that nothing more is appended to what it pauses."""
    report = state.leaders_pause_report
    if report is None or state.pauses.obscure is not None:
        # It does not say whether what is not understood was seen.
        return False
    return {each.wish for each in state.wishes.known} == {*report.wishes} and not report.busy


def _pause_limit(state: FlowState) -> str | None:
    """Say to which copies something may be appended all the same, as the target does not refuse it; None: to none."""
    report = state.leaders_pause_report
    return None if report is None else limit_words(dict.fromkeys(report.unrefused, report.weakness))


def _moves(flow: Flow, entries: Iterable[FailoverEntry], *, is_cut: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the runs on record because of which a flow is not simply running, and those that have not cut it yet."""
    done = f"failed over: the applications are on {flow.target}"
    copies = "" if is_cut else ", and yet it is not cut, so that it is copied on"
    described = {
        Phase.DONE: f"{done}{copies}; mirror failback moves them back",
        Phase.UNDER_WAY: "a failover is under way",
        Phase.RETURNING: f"a failback is under way, from {flow.target} back to {flow.source}",
    }

    def going_on(each: FailoverEntry) -> str:
        if each.phase is Phase.DONE:
            return ""
        mode = "" if each.phase is Phase.RETURNING else f" --mode {each.mode}"
        command = f"mirror {'failover' if mode else 'failback'} FILE --flow '{flow}'{mode}"
        stopped = "; if it has stopped, applications may be stopped too: "
        undoes = "with --take-back undoes it until it has started the applications"
        more = "--make-anew and --leave-behind" if each.phase is Phase.RETURNING else "--fence"
        options = f"--run-directory, with that directory, and --applications, --groups, {more} as it was begun"
        return f"{stopped}{command} {options}, goes on, and {undoes}"

    lines = [
        (
            is_cut or each.phase is Phase.DONE,
            f"{described[each.phase]} ({each.mode}, {iso_time(each.at_ms)}, {each.where}){going_on(each)}",
        )
        for each in entries
    ]
    return tuple(words for is_moved, words in lines if is_moved), tuple(
        words for is_moved, words in lines if not is_moved
    )


def _paused(state: FlowState, limit: str | None, *, is_confirmed: bool) -> tuple[str, ...]:
    """Say what is paused, and whether that is so already."""
    if not state.pauses.pauses_any:
        return ()
    so_far = f"nothing more is sent to its copies; {limit}" if limit else "nothing more is appended to its copies"
    so_far = so_far if is_confirmed else "not confirmed by an engine yet"
    return (f"paused: {'; '.join(state.pauses.descriptions())} ({so_far})",)


def _behind_pauses(flow: FlowSettings, partitions: Iterable[PartitionStatus]) -> tuple[str, ...]:
    """Say what lies on the source behind the end of what is paused: nobody copies it, and it may still grow.

    Heartbeats are written by an engine itself, whatever the applications do.
    """
    source, is_heartbeats = flow.flow.source, flow.policy.is_heartbeats_topic
    behind = [each for each in partitions if each.is_paused and each.lag_records and not is_heartbeats(each.topic)]
    if not behind:
        return ()
    count = sum(each.lag_records or 0 for each in behind)
    message = (
        f"{counted(count, 'offset')} of {counted(len(behind), 'paused partition')} on {source} beyond what is "
        f"copied of them, written there or copied there by another flow; which records only "
        f"{source} has: mirror stranded FILE --flow '{flow.flow}'; who writes there: mirror fence FILE --cluster "
        f"{source} --watch SECONDS"
    )
    return (message,)


def _left(deselected: Collection[TopicPartition]) -> tuple[str, ...]:
    """Say what of the state is of topics that the file no longer selects."""
    topics = sorted({each.topic for each in deselected})
    if not topics:
        return ()
    return (f"no longer selected, so not copied any more; the positions are kept: {first_of(topics, _NAMED)}",)


@contextmanager
def observe(settings: MirrorSettings, flows: Container[Flow] | None = None) -> Iterator[list[FlowObserver]]:
    """Yield an observer for every enabled flow, or for those of them among ``flows``; close them whatever happens."""
    with ExitStack() as open_observers:
        yield [
            open_observers.enter_context(
                closing(
                    FlowObserver(
                        flow,
                        settings.clusters[flow.flow.source],
                        settings.clusters[flow.flow.target],
                        cliff_seconds=settings.engine.cliff_seconds,
                    )
                )
            )
            for flow in settings.enabled_flows
            if flows is None or flow.flow in flows
        ]


def look_at_all(observers: Sequence[FlowObserver]) -> list[FlowStatus]:
    """Look at flows one after the other; engines that must be watched are watched together."""
    at_once = [each.glance() for each in observers]
    return [found or each.look() for found, each in zip(at_once, observers, strict=True)]
