"""What is done about a disaster: the applications move to the standby, and home again; the same for whoever copies.

What the replicators differ in is how groups are moved: this engine's runbook writes exact positions at the cut, Java
MirrorMaker 2 has written what it had translated by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mirror.evidence.journal import Event
from mirror.kafka.cluster import Cluster, Found, GroupPosition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.proof.delivery import GroupMove
from mirror.proof.objectives import RtoChain
from mirror.recovery.group_moves import GroupMoves, move_groups
from mirror.recovery.probing import wait_until_gone
from mirror.scenario.declaration import Group, Replicator
from mirror.scenario.judging import READ_SECONDS
from mirror.scenario.routes import names_on
from mirror.scenario.stage import Stage
from mirror.scenario.tails import AWAY, TailWatch
from mirror.waiting import WaitTimeout, wait_until

_SERVICE_SECONDS = 90.0


@dataclass(slots=True)
class Recovery:
    """The instants of a failover, in ms since 1970 UTC, as far as they came about.

    Attributes
    ----------
    moves
        where groups went on.
    late, unread
        copies that had not caught up, and groups that had not read to the end, when the applications went home.
    """

    fault_at_ms: int
    detected_at_ms: int | None = None
    fenced_at_ms: int | None = None
    cut_at_ms: int | None = None
    offsets_applied_at_ms: int | None = None
    first_write_at_ms: int | None = None
    groups_reading_at_ms: dict[str, int | None] = field(default_factory=dict)
    returned_at_ms: int | None = None
    moves: list[GroupMove] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def chain(self) -> RtoChain:
        """The chain as the judge of objectives takes it."""
        return RtoChain(
            self.fault_at_ms,
            self.detected_at_ms,
            self.fenced_at_ms,
            self.cut_at_ms,
            self.offsets_applied_at_ms,
            self.first_write_at_ms,
            self.groups_reading_at_ms,
        )


def fail_over(stage: Stage, fault_at_ms: int) -> Recovery:
    """Move the applications from the active cluster to the standby; return when what was done.

    Raises
    ------
    MoveRefused
        if a group cannot be moved.
    WaitTimeout
        if the cluster is not found to be gone.
    """
    scenario, journal = stage.scenario, stage.folder.journal
    recovery = Recovery(fault_at_ms)
    probes = wait_until_gone(stage.settings.clusters[scenario.active])
    recovery.detected_at_ms = journal.append(Event.FAULT_DETECTED, facts={"probes": probes}).at_ms
    killed = [*stage.stop_loads(f"{scenario.active}-main"), *stage.stop_readers()]
    recovery.fenced_at_ms = journal.append(Event.FENCED, facts={"killed": killed}).at_ms
    stage.stop_replicator()
    recovery.cut_at_ms = journal.append(Event.CUT).at_ms
    moved = _move_groups(stage, Flow(scenario.active, scenario.standby), ask_source=False)
    recovery.offsets_applied_at_ms = journal.append(Event.OFFSETS_APPLIED, facts=moved.facts(_names(stage))).at_ms
    moved.require()
    allowed = scenario.objectives.rpo_seconds
    known_by_ms = None if allowed is None else fault_at_ms - round(1000 * allowed)
    recovery.moves += moved.moves(_names(stage), scenario.active, scenario.standby, known_by_ms=known_by_ms)
    start_applications(stage, scenario.standby, "after")
    recovery = _with_service_times(stage, recovery)
    journal.append(
        Event.FIRST_WRITE,
        facts={"first_at_ms": recovery.first_write_at_ms, "groups": dict(recovery.groups_reading_at_ms)},
    )
    return recovery


def fail_back(stage: Stage, recovery: Recovery) -> None:
    """Bring the old cluster back with its disks, copy both ways, and move the applications home."""
    scenario, journal = stage.scenario, stage.folder.journal
    stage.cluster(scenario.active).start()
    journal.append(Event.FAULT_HEALED, facts={"cluster": scenario.active})
    stage.start_replicator()
    stage.stop_loads(f"{scenario.standby}-after")
    recovery.late += await_copies(stage)
    recovery.unread += await_reading(stage, scenario.standby)
    stage.stop_readers()
    moved = _move_groups(stage, Flow(scenario.standby, scenario.active), ask_source=True)
    facts = {**moved.facts(_names(stage)), "cluster": scenario.active}
    applied_at_ms = journal.append(Event.OFFSETS_APPLIED, facts=facts).at_ms
    moved.require()
    # Nobody read meanwhile, and the standby was asked: all that was committed there is known.
    recovery.moves += moved.moves(_names(stage), scenario.standby, scenario.active, known_by_ms=applied_at_ms)
    recovery.returned_at_ms = journal.append(Event.ACTION, facts={"active": scenario.active}).at_ms
    start_applications(stage, scenario.active, "home")


def start_applications(stage: Stage, cluster: str, phase: str) -> None:
    """Start what ran on the active cluster on another: producers to the same topics, groups on these and the copies."""
    active = stage.scenario.active
    for load in stage.scenario.loads:
        if load.cluster == active:
            stage.start_load(replace(load, cluster=cluster), phase)
    own = stage.own_places
    routes = stage.routes(own)
    for group in _moving(stage):
        # Whoever was kept behind on purpose catches up now.
        stage.start_readers(replace(group, max_rate=0.0), cluster, names_on(cluster, group.topics, routes, own), phase)


def await_copies(stage: Stage) -> list[str]:
    """Wait until every copy has caught up with what was written; return what has not when the time is over."""
    routes = [each.route for each in stage.routes()]
    counts = {topic.name: topic.partitions for topic in stage.scenario.topics}
    partitions = {route.sent: counts[route.sent.topic] for route in routes}
    committed = any(load.transaction_records for load in stage.scenario.loads)
    watch = TailWatch(stage.settings.clusters, routes, partitions, read_committed=committed)
    last: list[str] = []

    def behind() -> list[str]:
        last[:] = watch.behind()
        return last

    try:
        wait_until(
            behind,
            "every copy to catch up",
            timeout_seconds=stage.scenario.drain_seconds,
            until=lambda left: not left,
            first_pause_seconds=0.5,
            longest_pause_seconds=1.0,
        )
    except WaitTimeout:
        return list(last)
    return []


def await_reading(stage: Stage, cluster: str) -> list[str]:
    """Wait until the groups have read what is there on a cluster now; return who has not when the time is over.

    What comes meanwhile, as copies of what a forgotten producer sends do, may wait.
    """
    wanted = {
        reading.group: topics
        for reading in stage.readings
        if (topics := {place.topic for place in reading.places if place.cluster == cluster})
    }
    ends: Found[TopicPartition, int] | None = None
    last: list[str] = []

    def behind() -> list[str]:
        try:
            last[:] = look()
        except AWAY as away:
            last[:] = [str(away)]
        return last

    def look() -> list[str]:
        nonlocal ends
        with Cluster.connect(stage.settings.clusters[cluster]) as client:
            if ends is None or ends.problems:
                described = client.topics(set().union(*wanted.values()))
                ends = client.offsets([one for topic in described.values() for one in topic.topic_partitions], "latest")
            return [f"{cluster} {each}" for each in unread(wanted, ends, client.positions_of_groups(list(wanted)))]

    try:
        wait_until(
            behind,
            f"every group to read what is on {cluster}",
            timeout_seconds=READ_SECONDS,
            until=lambda left: not left,
        )
    except WaitTimeout:
        return list(last)
    return []


def unread(
    wanted: Mapping[str, Set[str]],
    ends: Found[TopicPartition, int],
    positions: Found[str, Found[TopicPartition, GroupPosition]],
) -> list[str]:
    """Return, for people, which groups have not read the topics they were to read up to these ends, or may not have."""
    left = [f"{partition}: {problem}" for partition, problem in ends.problems.items()]
    left += [f"group {group}: {problem}" for group, problem in positions.problems.items()]
    for group, topics in wanted.items():
        found: Mapping[TopicPartition, GroupPosition] = positions.get(group, {})
        for partition, end in ends.items():
            missing = end - (found[partition].position if partition in found else 0)
            if partition.topic in topics and missing > 0 and group not in positions.problems:
                left.append(f"{partition}, group {group}: {missing} records")
    return left


def _moving(stage: Stage) -> Sequence[Group]:
    return [group for group in stage.scenario.groups if group.cluster == stage.scenario.active]


def _names(stage: Stage) -> list[str]:
    """Return the groups that are moved by hand: Java MirrorMaker's users rely on its own writing of positions."""
    return [] if stage.replicator is Replicator.MM2 else [group.name for group in _moving(stage)]


def _move_groups(stage: Stage, flow: Flow, *, ask_source: bool) -> GroupMoves:
    """Move the groups as this replicator's users do; return what was done for it."""
    groups = _names(stage)
    if not groups:
        return GroupMoves(())
    settings = stage.settings.flow(flow)
    assert settings is not None
    return move_groups(
        settings, stage.settings.clusters, groups, ask_source=ask_source, flows=stage.settings.enabled_flows
    )


def _with_service_times(stage: Stage, recovery: Recovery) -> Recovery:
    """Wait for the first write on the standby and for every group to read what was written there, and note when."""
    standby = stage.scenario.standby
    own = {place.topic for place in stage.written if place.cluster == standby}
    groups = [group.name for group in _moving(stage)]

    def times() -> tuple[int | None, dict[str, int | None]]:
        sends, reads = stage.sends(), stage.reads()
        written = sends[(sends.cluster == standby) & (sends.status == "acked")].acked_at_ms
        read = reads[(reads.cluster == standby) & reads.topic.isin(own) & (reads.read_at_ms >= recovery.fault_at_ms)]
        first = {str(group): int(at) for group, at in read.groupby("group").read_at_ms.min().items()}
        after = written[written >= recovery.fault_at_ms]
        return (int(after.min()) if len(after) else None), {group: first.get(group) for group in groups}

    def is_serving(seen: tuple[int | None, dict[str, int | None]]) -> bool:
        return seen[0] is not None and None not in seen[1].values()

    with suppress(WaitTimeout):  # what did not come about stays None, which breaks the chain and says so
        wait_until(times, f"service on {standby}", timeout_seconds=_SERVICE_SECONDS, until=is_serving)
    recovery.first_write_at_ms, recovery.groups_reading_at_ms = times()
    return recovery
