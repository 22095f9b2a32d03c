"""Performing one run: stage, applications, faults in time, procedure, final read, verdict.

Run as ``python -m mirror.scenario.perform SCENARIO_FILE REPLICATOR SEED RUN_FOLDER JUDGES_ADDRESS``: a process of its
own, which owns everything it starts, so that runs side by side, and one that crashes, leave nothing behind. It prints a
line for each thing it begins and leaves ``verdict.json``.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from mirror.atomic_file import write_atomically
from mirror.control.gaps import Choice, list_gaps
from mirror.evidence.digests import seal_of, seal_of_text
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import json_text, write_json
from mirror.evidence.seals import ledger_parts, seal_end
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterError, KafkaProblem
from mirror.lab.applications import by_process
from mirror.lab.errors import LabError
from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.model.gap import OF_A_FORMER_LOG, Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.shadow import Forecast
from mirror.proof.delivery import Place
from mirror.proof.eras import Replaced
from mirror.proof.group_move import GroupMove
from mirror.proof.losses import DeclaredGap
from mirror.proof.objectives import Rpo
from mirror.proof.service import ask
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.run import FAILOVER
from mirror.scenario import judging
from mirror.scenario.declaration import REPLACING, Procedure, Replicator, Scenario
from mirror.scenario.faults import carry_out
from mirror.scenario.files import SCENARIOS
from mirror.scenario.folder import RunFolder
from mirror.scenario.forecast import forecast
from mirror.scenario.judging import ScenarioEvidence
from mirror.scenario.outcome import RunOutcome, unknown
from mirror.scenario.plan import RunPlan, plan_run
from mirror.scenario.procedure import NotCarriedOut, fail_back, fail_over, late_copies, unread_by_groups
from mirror.scenario.stage import ScenarioStage
from mirror.waiting import WaitTimeout, wait_until

_START_SECONDS = 600.0
_NOT_PROVEN = (KafkaProblem, LabError, WaitTimeout, NotCarriedOut)

_LEFT_OUT = frozenset({GapKind.PARKED, GapKind.SKIPPED})
_DECLARES_MISSING = _LEFT_OUT | OF_A_FORMER_LOG | {GapKind.RETENTION}

OnProgress = Callable[[str], None]


def perform(scenario: Scenario, plan: RunPlan, folder: RunFolder, judges: Path, on_progress: OnProgress) -> RunOutcome:
    """Perform a run, write its plan, journal and verdict, and return the latter; nothing is left running."""
    began = time.monotonic()
    folder.path.mkdir(parents=True, exist_ok=True)
    write_json(folder.plan, plan.as_json())
    stage = ScenarioStage.of(folder, scenario, plan.replicator, plan.seed)
    journal = folder.journal
    journal.append(Event.RUN_STARTED, facts=plan.as_json())
    try:
        evidence = _play(stage, plan, judges, on_progress)
        on_progress("judging")
        found = ask(judges, judging.judge, evidence)
        outcome = RunOutcome(
            scenario.name, plan.replicator, plan.seed, found.verdict, found.reasons, found.figures, beside=found.beside
        )
    except _NOT_PROVEN as problem:
        reason = f"{type(problem).__name__}: {problem}"
        outcome = unknown(scenario.name, plan.replicator, plan.seed, [reason], must_fail=scenario.must_fail)
    finally:
        on_progress("ending")
        problems = stage.tear_down()
    if problems:
        journal.append(Event.NOTE, facts={"did_not_end_by_themselves": list(problems)})
    outcome = replace(outcome, seconds=round(time.monotonic() - began, 1), must_fail=scenario.must_fail)
    finish(folder, outcome)
    return outcome


def finish(folder: RunFolder, outcome: RunOutcome) -> None:
    """Seal what the run has left behind, its verdict too, end the journal, and write the verdict."""
    text = json_text(outcome.as_json(), folder.verdict.name)
    procedure = sorted((folder.path / FAILOVER).rglob("*.json*"))
    files = [folder.plan, folder.properties, folder.direct, *procedure, *ledger_parts(folder.ledger)]
    sealed = {str(path.relative_to(folder.path)): seal_of(path) for path in files if path.is_file()}
    sealed[folder.verdict.name] = seal_of_text(text)
    folder.journal.append(Event.EVIDENCE_SEALED, facts={"files": sealed})
    facts = {"verdict": outcome.verdict.value, "reasons": list(outcome.reasons)}
    seal_end(folder.seal, folder.journal.append(Event.RUN_FINISHED, facts=facts))
    write_atomically(folder.verdict, text)


def _play(stage: ScenarioStage, plan: RunPlan, judges: Path, on_progress: OnProgress) -> ScenarioEvidence:
    """Do everything up to the judgement; return what is to be judged. All clusters are up then, the copying is over."""
    scenario, journal = stage.scenario, stage.folder.journal
    on_progress("starting clusters")
    stage.start_clusters()
    stage.start_spark()
    on_progress(f"starting {plan.replicator}")
    stage.start_replicator()
    for number, load in enumerate(scenario.loads):
        stage.start_load(load, "main" if not number else f"main-{number}", stage.seed)
    _wait_until_copying(stage)
    for groups in by_process(scenario.groups).values():
        stage.start_readers(groups, "main")
    _wait_until_read(stage)
    began = time.monotonic()
    journal.append(Event.LOAD_STARTED, facts={"loads": len(scenario.loads)})
    there: JournalFacts | None = None
    home: JournalFacts | None = None
    rpo: Rpo | None = None
    disaster_at_ms: int | None = None
    forecasts: Mapping[str, Forecast] = {}
    for action in plan.actions:
        _wait_for(began + action.at_seconds)
        if action.fault.is_disaster:
            forecasts, problem = forecast(stage)
            if problem is not None:
                journal.append(Event.NOTE, facts={"no_forecast": problem})
        on_progress(str(action))
        event = Event.FAULT_HEALED if action.heals else Event.FAULT_INJECTED
        at_ms = journal.append(event, facts={"what": str(action)}).at_ms
        facts = carry_out(action, stage)
        noted = journal.append(Event.NOTE, facts={"done": str(action), **facts})
        if action.fault.kind in REPLACING and action.fault.topic is not None:
            stage.replaced.append(Replaced(Place(action.fault.on, action.fault.topic), at_ms, noted.at_ms))
        if action.fault.is_disaster:
            disaster_at_ms = at_ms
        if disaster_at_ms is not None and action is plan.actions[-1]:
            on_progress("failing over")
            there = fail_over(stage)
            _wait_for(time.monotonic() + scenario.after_seconds)
            if scenario.procedure is Procedure.FAIL_OVER_AND_BACK:
                on_progress("measuring what the failover cost")
                rpo = ask(judges, judging.measure_rpo, _evidence(stage), disaster_at_ms)
                on_progress("failing back")
                home = fail_back(stage, judges)
                _wait_for(time.monotonic() + scenario.after_seconds)
    if there is None:
        _wait_for(began + scenario.seconds)
    on_progress("waiting for the copies")
    stage.stop_loads()
    late = late_copies(stage) if there is None or home is not None else []
    unread = [group for alias in _serving(stage, there, home) for group in unread_by_groups(stage, alias)]
    stage.stop_readers()
    gaps = _recorded_gaps(stage)
    stage.stop_replicator()
    is_away = there is not None and home is None
    if is_away:
        # Its disks are evidence: what it holds, and the standby does not, was stranded rather than lost.
        stage.cluster(scenario.active).start()
    evidence, gone = _evidence(stage), frozenset({scenario.active} if is_away else ())
    return replace(
        evidence,
        routes=tuple(each for each in evidence.routes if each.route.kept.cluster not in gone),
        told=gaps,
        gone=gone,
        recovery=_instants(stage, there, disaster_at_ms),
        rpo=rpo,
        returned_at_ms=home.applications_moved_at_ms if home else None,
        late=tuple(late),
        unread=tuple(unread),
        moves=_moves(scenario, there, home, disaster_at_ms),
        replaced=tuple(stage.replaced),
        planted=tuple(stage.planted),
        forecasts=forecasts,
    )


def _evidence(stage: ScenarioStage) -> ScenarioEvidence:
    folder = stage.folder
    return ScenarioEvidence(
        scenario=stage.scenario,
        replicator=stage.replicator,
        ledger=folder.ledger,
        work=folder.proof,
        properties=folder.direct,
        sent=tuple(stage.written),
        routes=stage.routes(),
        readings=stage.readings,
    )


def _instants(stage: ScenarioStage, there: JournalFacts | None, fault_at_ms: int | None) -> FailoverInstants | None:
    if there is None or fault_at_ms is None:
        return None
    active = stage.scenario.active
    return there.instants(fault_at_ms, [group.name for group in stage.scenario.groups if group.cluster == active])


def _moves(
    scenario: Scenario, there: JournalFacts | None, home: JournalFacts | None, fault_at_ms: int | None
) -> tuple[GroupMove, ...]:
    """Return where groups went on; what they had committed so long before the fault as the RPO allows was known."""
    if there is None or fault_at_ms is None:
        return ()
    allowed = scenario.objectives.rpo_seconds
    known_by_ms = None if allowed is None else fault_at_ms - round(1000 * allowed)
    return (*there.group_moves(known_by_ms), *(home.group_moves() if home else ()))


def _serving(stage: ScenarioStage, there: JournalFacts | None, home: JournalFacts | None) -> Sequence[str]:
    """Return the clusters that groups read in the end."""
    if there is None:
        return sorted({group.cluster for group in stage.scenario.groups})
    serving = stage.scenario.active if home is not None else stage.scenario.standby
    return [serving] if stage.scenario.groups else []


def _recorded_gaps(stage: ScenarioStage) -> Mapping[Flow, Mapping[TopicPartition, list[DeclaredGap]]]:
    """Return the gaps that the replicator has on record; Java MirrorMaker 2 keeps no record of any."""
    recorded: dict[Flow, dict[TopicPartition, list[DeclaredGap]]] = {}
    if stage.replicator is Replicator.MM2:
        return recorded
    for flow in stage.settings.enabled_flows:
        try:
            entries = list_gaps(flow, stage.settings.clusters, Choice())
        except KafkaProblem:
            continue  # its target is away for good: nobody can be told
        ids = _topic_ids(stage, flow.flow.source, {entry.gap.source.topic for entry in entries})
        for entry in entries:
            gap = declared_gap(entry.gap, ids.get(entry.gap.source.topic, ""))
            if gap is not None:
                recorded.setdefault(flow.flow, {}).setdefault(entry.gap.source, []).append(gap)
    return recorded


def _topic_ids(stage: ScenarioStage, alias: str, names: Set[str]) -> Mapping[str, str]:
    """Return the ids of the topics that are there now; none of a cluster that is away."""
    try:
        with Cluster.connect(stage.settings.clusters[alias]) as cluster:
            return {name: topic.topic_id for name, topic in cluster.topics(names).items()}
    except ClusterError:
        return {}


def declared_gap(gap: Gap, topic_id: str) -> DeclaredGap | None:
    """Return what a gap says is missing, given the id of the topic that is there now; None: that nothing is.

    Of some the records were copied, and the target has lost them, or nobody knows what it has: no excuse. That a log
    was cut, or replaced, says of all that it had from there on that it is gone, however much that was: what a producer
    had acknowledged in the last moment no reader has seen.
    """
    if gap.kind not in _DECLARES_MISSING:
        return None
    is_replaced = gap.kind in OF_A_FORMER_LOG
    is_old = is_replaced or bool(gap.topic_id and gap.topic_id != topic_id)
    end = sys.maxsize if is_replaced else gap.end
    return DeclaredGap(gap.start, end, is_of_old_log=is_old, is_still_there=gap.kind in _LEFT_OUT)


def _wait_until_copying(stage: ScenarioStage) -> None:
    """Wait until every copy that is to come about has records."""
    routes = [each.route for each in stage.routes()]
    clusters = stage.settings.clusters

    def empty() -> list[str]:
        stage.require_alive()
        try:
            return look()
        except KafkaProblem as away:  # a machine that is busy starting everything answers late
            return [str(away)]

    def look() -> list[str]:
        left = []
        for alias in {route.kept.cluster for route in routes}:
            with Cluster.connect(clusters[alias]) as cluster:
                names = [route.kept.topic for route in routes if route.kept.cluster == alias]
                described = cluster.topics(names)
                left += [f"{alias} {name}" for name in names if name not in described]
                for topic in described.values():
                    ends = cluster.offsets(topic.topic_partitions, "latest")
                    if not any(ends.values()):
                        left.append(f"{alias} {topic.name}")
        return left

    wait_until(
        empty,
        "the first records to be copied",
        timeout_seconds=_START_SECONDS,
        until=lambda left: not left,
        first_pause_seconds=0.5,
        longest_pause_seconds=1.0,
    )


def _wait_until_read(stage: ScenarioStage) -> None:
    """Wait until every group has read something."""
    groups = {group.name for group in stage.scenario.groups}

    def silent() -> set[str]:
        stage.require_alive()
        return groups - set(stage.reads().group)

    wait_until(
        silent,
        "every group to read something",
        timeout_seconds=_START_SECONDS,
        until=lambda left: not left,
        longest_pause_seconds=1.0,
    )


def _wait_for(due: float) -> None:
    """Wait until a point of the monotonic clock."""
    left = due - time.monotonic()
    if left > 0:
        wait_until(
            lambda: time.monotonic() >= due, "the time to come", timeout_seconds=left + 60, longest_pause_seconds=0.1
        )


def main() -> None:
    """Perform the run that the arguments name."""
    file, replicator, seed, folder, judges = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    scenario = SCENARIOS.load(Path(file))
    plan = plan_run(scenario, Replicator(replicator), int(seed))
    perform(scenario, plan, RunFolder(Path(folder)), Path(judges), lambda what: print(what, flush=True))


if __name__ == "__main__":
    main()
