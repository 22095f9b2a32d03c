"""What is done about a disaster: the applications move to the standby, and back again, as `mirror.recovery` does it.

For Java MirrorMaker 2 some steps are others (`mirror.scenario.java_procedure`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from mirror.config.settings import FlowSettings
from mirror.control.tick import now_ms
from mirror.evidence.journal import Event, Journal
from mirror.lab.applications import Deployment, Group
from mirror.lab_applications import LabApplications
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.group_pattern import pattern_of
from mirror.model.progress import nobody
from mirror.model.verdict import Verdict
from mirror.proof.comparison import Equivalence
from mirror.proof.service import ask
from mirror.recovery.catching_up import await_copies, await_reading, await_return
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.failover import Mode
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.move import Move
from mirror.recovery.procedure import Procedure, Request, plan_failback, plan_failover
from mirror.recovery.run import FAILBACK, FAILOVER
from mirror.recovery.steps import Step, StepResult, carry_out
from mirror.recovery.tails import TailWatch
from mirror.recovery.verify import verify_flow
from mirror.scenario.declaration import Replicator
from mirror.scenario.java_procedure import StoppedReplicator, steps_home, steps_there
from mirror.scenario.judging import READ_SECONDS
from mirror.scenario.routes import names_on
from mirror.scenario.stage import ScenarioStage

_SERVICE_SECONDS = 90.0
_RETURN_SECONDS = 300.0


class NotCarriedOut(Exception):
    """A step of the procedure failed, or it must not begin; the message says which and why."""


def fail_over(stage: ScenarioStage) -> JournalFacts:
    """Move the applications from the active cluster to the standby; return what was done.

    Raises
    ------
    NotCarriedOut
        if it was not done to its end.
    """
    scenario = stage.scenario
    there = Flow(scenario.active, scenario.standby)
    stage.folder.journal.append(Event.ACTION, facts={"procedure": FAILOVER, "flow": str(there)})
    directory = stage.folder.path / FAILOVER
    applications = _applications(stage, {scenario.active: "main", scenario.standby: "after"})
    if stage.replicator is Replicator.MM2:
        move = _java_move(stage, there, applications, directory)
        _require(_java_carried_out(steps_there(move, stage, _names(stage)), directory))
    else:
        _carry_out(plan_failover(_request(stage, there, applications, directory), Mode.UNPLANNED))
    return JournalFacts.of(directory, there)


def fail_back(stage: ScenarioStage, judges: Path) -> JournalFacts:
    """Bring the old cluster back with its disks, copy both ways, and move the applications back; return what was done.

    Raises
    ------
    NotCarriedOut
        if it was not done to its end.
    """
    scenario, journal = stage.scenario, stage.folder.journal
    there, home = Flow(scenario.active, scenario.standby), Flow(scenario.standby, scenario.active)
    stage.cluster(scenario.active).start()
    journal.append(Event.FAULT_HEALED, facts={"cluster": scenario.active})
    journal.append(Event.ACTION, facts={"procedure": FAILBACK, "flow": str(there)})
    directory = stage.folder.path / FAILOVER / FAILBACK
    applications = _applications(stage, {scenario.standby: "after", scenario.active: "home"})
    if stage.replicator is Replicator.MM2:
        move = _java_move(stage, home, applications, directory)
        steps = steps_home(move, stage, _names(stage), lambda: late_copies(stage))
        _require(_java_carried_out(steps, directory))
    else:
        await_return(stage.settings, home, _names(stage), seconds=_RETURN_SECONDS)
        request = _request(stage, there, applications, directory.parent)
        _carry_out(plan_failback(replace(request, verify=partial(_verified, stage, judges))))
    return JournalFacts.of(directory, home)


def applications_on(stage: ScenarioStage, cluster: str, phase: str) -> Deployment:
    """Return what ran on the active cluster as it runs on any: producers to the same topics, readers also of copies."""
    active, own = stage.scenario.active, stage.own_places
    routes = stage.routes(own)
    return Deployment(
        cluster,
        tuple(replace(load, cluster=cluster) for load in stage.scenario.loads if load.cluster == active),
        tuple(
            # Whoever was kept behind on purpose catches up now.
            replace(group, cluster=cluster, topics=tuple(names_on(cluster, group.topics, routes, own)), max_rate=0.0)
            for group in _moving(stage)
        ),
        phase,
        stage.seed,
    )


def late_copies(stage: ScenarioStage) -> list[str]:
    """Wait until every copy has caught up with what was written; return what has not when the time is over."""
    routes = [each.route for each in stage.routes()]
    counts = {topic.name: topic.partitions for topic in stage.scenario.topics}
    partitions = {route.sent: counts[route.sent.topic] for route in routes}
    committed = any(load.transaction_records for load in stage.scenario.loads)
    watch = TailWatch(stage.settings.clusters, routes, partitions, read_committed=committed)
    return await_copies(watch.behind, seconds=stage.scenario.drain_seconds)


def unread_by_groups(stage: ScenarioStage, cluster: str) -> list[str]:
    """Wait until the groups have read what is there on a cluster now; return who has not when the time is over."""
    wanted = {
        reading.group: topics
        for reading in stage.readings
        if (topics := {place.topic for place in reading.places if place.cluster == cluster})
    }
    return await_reading(stage.settings.clusters[cluster], wanted, seconds=READ_SECONDS)


def _applications(stage: ScenarioStage, phases: Mapping[str, str]) -> LabApplications:
    deployments = {cluster: applications_on(stage, cluster, phase) for cluster, phase in phases.items()}
    return LabApplications(stage, deployments, _SERVICE_SECONDS)


def _moving(stage: ScenarioStage) -> Sequence[Group]:
    return [group for group in stage.scenario.groups if group.cluster == stage.scenario.active]


def _names(stage: ScenarioStage) -> list[str]:
    return [group.name for group in _moving(stage)]


def _request(stage: ScenarioStage, flow: Flow, applications: LabApplications, directory: Path) -> Request:
    names = pattern_of(_names(stage))
    settings, chosen = stage.settings, stage.settings.known(flow)
    return Request(settings, chosen, names or None, directory, lambda _: applications, lambda: nullcontext(nobody))


def _verified(stage: ScenarioStage, judges: Path, flow: FlowSettings, remember: Path | None) -> Equivalence:
    settings = stage.settings
    return ask(judges, verify_flow, flow, settings.clusters, settings.enabled_flows, remember=remember)


def _carry_out(procedure: Procedure) -> None:
    if procedure.against:
        raise NotCarriedOut(f"the {procedure.procedure} must not begin: {'; '.join(procedure.against)}")
    _require(procedure.carry_out())


def _require(steps: Iterable[StepResult]) -> None:
    failed = [f"{each.name}: {each.result.detail}" for each in steps if each.result.verdict is Verdict.FAIL]
    if failed:
        raise NotCarriedOut("; ".join(failed))


def _java_move(stage: ScenarioStage, flow: Flow, applications: LabApplications, directory: Path) -> Move:
    ends = ClusterEnds(stage.settings, stage.settings.known(flow), StoppedReplicator(stage), _uncompared)
    entry = FailoverEntry("", Mode.UNPLANNED, Phase.UNDER_WAY, str(directory), now_ms())
    return Move(ends, ends, applications, entry, directory, is_planned=False)


def _uncompared(flow: FlowSettings, _: Path | None) -> tuple[Verdict, str]:
    return Verdict.UNKNOWN, f"{flow.flow} is not compared"


def _java_carried_out(steps: Sequence[Step], directory: Path) -> tuple[StepResult, ...]:
    directory.mkdir(parents=True, exist_ok=True)
    return carry_out(steps, Journal(directory / "journal.jsonl"), goes_back=False)
