"""What is done about a disaster: the applications move to the standby, and home again; the same for whoever copies.

What the replicators differ in is how groups are moved: this engine's runbook writes exact positions at the cut, Java
MirrorMaker 2 has written what it had translated by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mirror.evidence.failover_journal import instants_of, note_service
from mirror.evidence.journal import Event
from mirror.lab.applications import Group
from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.proof.group_move import GroupMove
from mirror.recovery.catching_up import await_copies, await_reading
from mirror.recovery.group_moves import GroupMoves, move_groups
from mirror.recovery.probing import wait_until_gone
from mirror.recovery.tails import TailWatch
from mirror.scenario.declaration import Replicator
from mirror.scenario.judging import READ_SECONDS
from mirror.scenario.routes import names_on
from mirror.scenario.stage import Stage

_SERVICE_SECONDS = 90.0


@dataclass(slots=True)
class Recovery:
    """What was done about the disaster, and when.

    Attributes
    ----------
    moves
        where groups went on.
    returned_at_ms
        when the applications went home, in ms since 1970 UTC.
    late, unread
        copies that had not caught up, and groups that had not read to the end, by then.
    """

    instants: FailoverInstants
    moves: list[GroupMove] = field(default_factory=list)
    returned_at_ms: int | None = None
    late: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


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
    probes = wait_until_gone(stage.settings.clusters[scenario.active]).probes
    journal.append(Event.FAULT_DETECTED, facts={"probes": probes})
    killed = [*stage.stop_loads(f"{scenario.active}-main"), *stage.stop_readers()]
    journal.append(Event.FENCED, facts={"killed": killed})
    stage.stop_replicator()
    journal.append(Event.CUT)
    moved = _move_groups(stage, Flow(scenario.active, scenario.standby), ask_source=False)
    journal.append(Event.OFFSETS_APPLIED, facts=moved.facts(_names(stage)))
    moved.require()
    allowed = scenario.objectives.rpo_seconds
    known_by_ms = None if allowed is None else fault_at_ms - round(1000 * allowed)
    moves = moved.moves(_names(stage), scenario.active, scenario.standby, known_by_ms=known_by_ms)
    start_applications(stage, scenario.standby, "after")
    own = {place.topic for place in stage.written if place.cluster == scenario.standby}
    groups = [group.name for group in _moving(stage)]
    service = stage.await_service(scenario.standby, own, groups, since_ms=fault_at_ms, seconds=_SERVICE_SECONDS)
    # What did not come about is not noted, which breaks the chain and says so.
    note_service(journal, scenario.standby, service.first_write_at_ms, service.groups_reading_at_ms)
    return Recovery(instants_of(journal.read().entries, fault_at_ms, groups), list(moves))


def fail_back(stage: Stage, recovery: Recovery) -> None:
    """Bring the old cluster back with its disks, copy both ways, and move the applications home."""
    scenario, journal = stage.scenario, stage.folder.journal
    stage.cluster(scenario.active).start()
    journal.append(Event.FAULT_HEALED, facts={"cluster": scenario.active})
    stage.start_replicator()
    stage.stop_loads(f"{scenario.standby}-after")
    recovery.late += late_copies(stage)
    recovery.unread += unread_by_groups(stage, scenario.standby)
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
        topics = tuple(names_on(cluster, group.topics, routes, own))
        stage.start_readers(replace(group, cluster=cluster, topics=topics, max_rate=0.0), phase)


def late_copies(stage: Stage) -> list[str]:
    """Wait until every copy has caught up with what was written; return what has not when the time is over."""
    routes = [each.route for each in stage.routes()]
    counts = {topic.name: topic.partitions for topic in stage.scenario.topics}
    partitions = {route.sent: counts[route.sent.topic] for route in routes}
    committed = any(load.transaction_records for load in stage.scenario.loads)
    watch = TailWatch(stage.settings.clusters, routes, partitions, read_committed=committed)
    return await_copies(watch.behind, seconds=stage.scenario.drain_seconds)


def unread_by_groups(stage: Stage, cluster: str) -> list[str]:
    """Wait until the groups have read what is there on a cluster now; return who has not when the time is over."""
    wanted = {
        reading.group: topics
        for reading in stage.readings
        if (topics := {place.topic for place in reading.places if place.cluster == cluster})
    }
    return await_reading(stage.settings.clusters[cluster], wanted, seconds=READ_SECONDS)


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
