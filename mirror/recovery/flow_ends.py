"""Both ends of a flow, as the procedure of a failover asks and changes them; one class for any two clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_log import FlowLog, NeverRun
from mirror.control.groups import recorder
from mirror.control.status import judge_state
from mirror.control.tick import now_ms
from mirror.kafka.channel import BrokerRefused, Channel, ConnectionFailed, LeaderUnknown
from mirror.kafka.cluster import Cluster, ClusterError
from mirror.kafka.log import LogWriter, holds_record
from mirror.kafka.partition_state import active_producers
from mirror.model.counts import counted
from mirror.model.failover import FailoverEntry
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState, Position, StateRecord, failover_record, no_failover_record, state_topic
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses
from mirror.model.placement import Placement
from mirror.model.verdict import Verdict
from mirror.recovery.group_moves import GroupMoves, MovePlan, apply_moves, plan_moves
from mirror.recovery.group_snapshot import GroupSnapshot, RestoreAction, look_at, restore
from mirror.recovery.probing import PROBE_SECONDS, Gone, Known, probe_each, wait_until_gone
from mirror.recovery.recent_writers import Writers, find_writers
from mirror.recovery.rewritten import Rewritten, find_rewritten

# What a question to a cluster that does not answer, or refuses, ends with.
AWAY = (ClusterError, BrokerRefused, ConnectionFailed, LeaderUnknown)
_BOOTSTRAP_MS = 5_000


@dataclass(frozen=True, slots=True)
class Copied:
    """What the target has on record of a flow.

    Attributes
    ----------
    positions
        how far each partition that the flow selects is copied.
    stops
        why partitions are stopped.
    open_gaps
        what the copy lacks and nobody has acknowledged, in words for people.
    source_id
        the id of the cluster that was copied; empty if it is not on record.
    is_running
        whether an engine has reported lately.
    report_at_ms
        when one did last, None if never.
    failovers
        the runs of the procedure that are on record, in the order of the log.
    paused
        the topics on record that are not copied for now, because somebody has paused them by hand.
    pauses
        those pauses by hand, in words for people.
    placed
        where the flow has put groups on its target, by group and partition.
    """

    positions: Mapping[TopicPartition, Position]
    stops: Mapping[TopicPartition, str]
    open_gaps: Sequence[str]
    source_id: str
    is_running: bool
    report_at_ms: int | None
    failovers: tuple[FailoverEntry, ...]
    paused: tuple[str, ...] = ()
    pauses: tuple[str, ...] = ()
    placed: Mapping[tuple[str, TopicPartition], Placement] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """That a flow copies nothing any more.

    Attributes
    ----------
    detail
        who has confirmed it, in words for people.
    open_ends
        the partitions of the source of which nobody knows how far they are copied, and why: the copy may reach further
        than is on record.
    limit
        to which copies something that was sent before may still be appended, in words for people; None: to none.
    """

    detail: str
    open_ends: Mapping[TopicPartition, str] = field(default_factory=dict)
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the logs of the source begin and end, of every partition that the flow selects."""

    cluster_id: str
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class FlowEnds(Protocol):
    """What the procedure asks of the two clusters of a flow, and does there.

    Whatever needs a cluster that does not answer raises `ClusterError`, `ConnectionFailed`, `BrokerRefused` or
    `LeaderUnknown`. Everything may be done again.
    """

    @property
    def flow(self) -> Flow:
        """The flow."""
        ...

    def copy_of(self, topic: str) -> str:
        """Return the name of the copy of a topic."""
        ...

    def wait_until_gone(self) -> Gone:
        """Probe every broker of the source that is known until it is gone. Raises `StillThere`."""
        ...

    def answering(self) -> Sequence[str]:
        """Return the addresses at which the source answers."""
        ...

    def copied(self) -> Copied:
        """Return what the target has on record. Nothing, if the flow has never run."""
        ...

    def ends(self) -> Ends:
        """Ask the source for its logs."""
        ...

    def rewritten(self) -> Rewritten:
        """Compare what was copied of the source with what it has there now."""
        ...

    def holding(self, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return those of the stretches of the source's logs in which there are records, and not only markers."""
        ...

    def open_transactions(self) -> Sequence[str]:
        """Return, for people, the transactions that are open on the source, as far as it tells."""
        ...

    def writers(self) -> Writers:
        """Return who has written to the source lately, but for mirrors."""
        ...

    def members(self, groups: Sequence[str]) -> Sequence[str]:
        """Return, for people, which of the groups have members on the source, or may have."""
        ...

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        """Plan where the groups go on."""
        ...

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        """Move the groups as planned; what was there before is saved."""
        ...

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        """Put back what a move has changed; return, for people, what could not be."""
        ...

    def pause(self) -> Cut:
        """Have the flow copied by nobody. Behind it nothing more is copied."""
        ...

    def resume(self) -> str:
        """Have the flow copied again, but for what was paused by hand; return, for people, what was done."""
        ...

    def is_paused(self) -> bool:
        """Tell whether nobody may copy the flow."""
        ...

    def verify(self) -> tuple[Verdict, str]:
        """Compare the copy with its source; return the verdict and what it rests on."""
        ...

    def put(self, entry: FailoverEntry) -> None:
        """Put on record how far a run of the procedure has got."""
        ...

    def take(self, run: str) -> None:
        """Take a run off the record."""
        ...


class Pausing(Protocol):
    """How flows are paused and resumed: a running engine is told through the target."""

    def pause(self, flow: Flow) -> Cut:
        """Return once nobody copies the flow any more."""
        ...

    def resume(self, flow: Flow) -> str:
        """Return once it may be copied again as before; what was paused by hand stays so."""
        ...

    def is_paused(self, flow: Flow) -> bool:
        """Tell whether it may not."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterEnds:
    """The ends of a flow of a properties file; connected to for each question, since clusters come and go meanwhile."""

    settings: MirrorSettings
    chosen: FlowSettings
    pausing: Pausing
    compare: Callable[[FlowSettings], tuple[Verdict, str]]
    pattern: str = ".*"
    probe_seconds: float = PROBE_SECONDS
    detect_seconds: float = 30.0

    @property
    def flow(self) -> Flow:
        """See `FlowEnds`."""
        return self.chosen.flow

    def copy_of(self, topic: str) -> str:
        """See `FlowEnds`."""
        return self.chosen.copy_of(topic)

    def wait_until_gone(self) -> Gone:
        """See `FlowEnds`."""
        return wait_until_gone(
            self.settings.clusters[self.flow.source],
            known=self._known(),
            probe_seconds=self.probe_seconds,
            timeout_seconds=self.detect_seconds,
        )

    def answering(self) -> Sequence[str]:
        """See `FlowEnds`."""
        found = probe_each(self.settings.clusters[self.flow.source], self.probe_seconds, known=self._known())
        return [address for address, heard in found.items() if heard.problem is None]

    def copied(self) -> Copied:
        """See `FlowEnds`."""
        state = self._state()
        by_hand = state.pauses.without_cut()
        stops = state.stops | (dict(state.run.stopped) if state.run is not None else {})
        return Copied(
            {each: position for each, position in sorted(state.positions.items()) if self._selects(each.topic)},
            {each: why for each, why in stops.items() if self._selects(each.topic)},
            [
                f"{gap.source} from {gap.start}: {gap.reason}"
                for gap in state.open_gaps
                if self._selects(gap.source.topic)
            ],
            state.source_id,
            judge_state(state.run, now_ms(), ())[0] != "STOPPED",
            state.run.at_ms if state.run else None,
            tuple(state.failovers.values()),
            tuple(sorted({each.topic for each in state.positions if self._is_paused(by_hand, each.topic)})),
            by_hand.told(),
            dict(state.placements),
        )

    def ends(self) -> Ends:
        """See `FlowEnds`."""
        with Cluster.connect(self.settings.clusters[self.flow.source]) as source:
            topics = source.topics()
            for name, why in topics.problems.items():
                if self._selects(name):
                    raise ClusterError(source.alias, f"looking at the topic {name}", why)
            chosen = [each for name, topic in topics.items() if self._selects(name) for each in topic.topic_partitions]
            starts, ends = source.offsets(chosen, "earliest"), source.offsets(chosen, "latest")
            for each, why in (starts.problems | ends.problems).items():
                raise ClusterError(source.alias, f"asking where {each} ends", why)
            return Ends(source.cluster_id, starts, ends)

    def rewritten(self) -> Rewritten:
        """See `FlowEnds`."""
        state = self._state()
        own = {each: position for each, position in state.positions.items() if self._selects(each.topic)}
        with self._source() as source, closing(self._target()) as target:
            return find_rewritten(self.chosen, state, own, source, target)

    def holding(self, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `FlowEnds`."""
        committed = self.chosen.isolation_level == "read_committed"
        with self._source() as channel:
            return {
                each: (start, end)
                for each, (start, end) in stretches.items()
                if holds_record(channel, each, start, end, read_committed=committed)
            }

    def open_transactions(self) -> Sequence[str]:
        """See `FlowEnds`."""
        partitions = list(self.ends().ends)
        with self._source() as channel:
            found, untold = active_producers(channel, partitions)
        return [
            *(
                f"{each}: producer id {producer.producer_id} has a transaction open from {producer.open_since} on"
                for each, producers in sorted(found.items())
                for producer in producers
                if producer.open_since is not None
            ),
            *(f"{each}: its leader does not tell of open transactions: {why}" for each, why in sorted(untold.items())),
        ]

    def writers(self) -> Writers:
        """See `FlowEnds`."""
        partitions = list(self.ends().ends)
        own = {
            each
            for other in self.settings.enabled_flows
            if other.flow.target == self.flow.source
            for each in self._state_of(other.flow).writers
        }
        with self._source() as channel:
            return find_writers(channel, partitions, own=own, now_ms=now_ms())

    def members(self, groups: Sequence[str]) -> Sequence[str]:
        """See `FlowEnds`."""
        with Cluster.connect(self.settings.clusters[self.flow.source]) as source:
            found = source.describe_groups(groups)
        return [
            *(f"group {group}: {why}" for group, why in found.problems.items()),
            *(
                f"group {group} has {counted(state.members, 'member')} ({state.state})"
                for group, state in found.items()
                if state.is_active
            ),
        ]

    def plan_groups(self, *, ask_source: bool) -> MovePlan:
        """See `FlowEnds`."""
        return plan_moves(
            self.chosen,
            self.settings.clusters,
            pattern=self.pattern,
            ask_source=ask_source,
            flows=self.settings.enabled_flows,
        )

    def move_groups(self, plan: MovePlan, snapshot: Path) -> GroupMoves:
        """See `FlowEnds`."""
        return apply_moves(plan, self.settings.clusters, snapshot=snapshot)

    def restore_groups(self, snapshot: Path) -> Sequence[str]:
        """See `FlowEnds`."""
        saved, target = GroupSnapshot.load(snapshot), self.settings.clusters[self.flow.target]
        decisions = restore(look_at(saved, self.flow, target, snapshot), target, saved)
        return [
            f"group {each.saved.group}, {each.saved.partition}: {each.reason}"
            for each in decisions
            if each.action is RestoreAction.REFUSED
        ]

    def pause(self) -> Cut:
        """See `FlowEnds`."""
        return self.pausing.pause(self.flow)

    def resume(self) -> str:
        """See `FlowEnds`."""
        return self.pausing.resume(self.flow)

    def is_paused(self) -> bool:
        """See `FlowEnds`."""
        return self.pausing.is_paused(self.flow)

    def verify(self) -> tuple[Verdict, str]:
        """See `FlowEnds`."""
        return self.compare(self.chosen)

    def put(self, entry: FailoverEntry) -> None:
        """See `FlowEnds`."""
        self._record(failover_record(entry))

    def take(self, run: str) -> None:
        """See `FlowEnds`."""
        self._record(no_failover_record(run))

    def _known(self) -> Known:
        state = self._state()
        return Known(state.source_brokers, state.source_id)

    def _record(self, record: StateRecord) -> None:
        with closing(LogWriter(self.chosen.target_producer, alias=self.flow.target)) as writer:
            recorder(self.chosen, writer)([record])

    def _selects(self, topic: str) -> bool:
        # Heartbeats come from the engine itself, whatever the applications do.
        return self.chosen.replicates(topic) and not self.chosen.policy.is_heartbeats_topic(topic)

    def _is_paused(self, by_hand: Pauses, topic: str) -> bool:
        return self._selects(topic) and by_hand.is_paused(topic)

    def _state(self) -> FlowState:
        return self._state_of(self.flow)

    def _state_of(self, flow: Flow) -> FlowState:
        log = FlowLog(self.settings.clusters[flow.target].client, state_topic(flow.source), alias=flow.target)
        with closing(log), suppress(NeverRun):
            return log.poll()
        return FlowState()

    def _target(self) -> Channel:
        return Channel(self.flow.target, self.settings.clusters[self.flow.target].client, bootstrap_ms=_BOOTSTRAP_MS)

    @contextmanager
    def _source(self) -> Iterator[Channel]:
        client = self.settings.clusters[self.flow.source].client
        with closing(Channel(self.flow.source, client, bootstrap_ms=_BOOTSTRAP_MS)) as channel:
            yield channel
