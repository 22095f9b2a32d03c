"""Step 4: the active cluster is lost under load; the applications move to the standby, and the loss is counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from mirror.config.settings import FlowSettings
from mirror.drill.steps import verification
from mirror.drill.steps.mirroring import applications_before, show_lag
from mirror.drill.steps.phases import Phases
from mirror.drill.steps.resumption import done
from mirror.drill.steps.stage import REPLICATOR, DrillStage
from mirror.evidence.journal import Entry, Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.plots import rto_chain_plot
from mirror.evidence.run_evidence import read_evidence
from mirror.evidence.run_model import Failover, Finding, PartitionCut, RecoveryPoint, Totals
from mirror.lab.applications import Deployment
from mirror.lab.faults import resume, suspend
from mirror.lab_applications import LabApplications
from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.progress import nobody
from mirror.model.verdict import worst
from mirror.proof.comparison import Equivalence
from mirror.proof.delivery import Place, Route, judge_logs
from mirror.proof.final_read import final_read
from mirror.proof.findings import Anomaly, Delivery
from mirror.proof.history import missing_acked
from mirror.proof.objectives import Missing, Objectives, Rpo, compute_rpo, judge_objectives
from mirror.recovery.failover import Mode
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.procedure import Request, plan_failover
from mirror.recovery.run import FAILOVER

__all__ = [
    "STEP",
    "build_up_load",
    "conclude",
    "cuts_table",
    "freeze_replicator",
    "groups_table",
    "judge",
    "keep_serving",
    "kill_active",
    "partitions_table",
    "plan",
    "service_table",
    "show_chain",
    "show_lag",
]

STEP = "failover_drill"


def build_up_load(stage: DrillStage, *, rate: float, seconds: float, value_bytes: int, seed: int) -> str:
    """Let the load go on for a while, so that the fault hits a busy cluster; say how much was acknowledged."""
    if done(stage, Event.FAULT_INJECTED, STEP):
        return f"{stage.active} was lost before"
    stage.start_applications(applications_before(stage, rate=rate, value_bytes=value_bytes, seed=seed))
    return _acknowledged(stage.active, stage.wait_for_load(stage.active, rate=rate, seconds=seconds))


def freeze_replicator(stage: DrillStage, seconds: float, *, rate: float) -> None:
    """Freeze the replicator while the active cluster acknowledges ``seconds`` more of load, as a slow link would.

    It is thawed when the fault is there.
    """
    if seconds <= 0 or done(stage, Event.FAULT_INJECTED, STEP):
        return
    suspend(stage.alive(REPLICATOR))
    stage.run.journal.append(Event.ACTION, step=STEP, facts={"frozen": REPLICATOR, "seconds": seconds})
    stage.wait_for_load(stage.active, rate=rate, seconds=seconds)


def kill_active(stage: DrillStage) -> pd.DataFrame:
    """Kill every broker of the active cluster with SIGKILL, while producers and consumers are at work."""
    cluster = stage.cluster(stage.active)
    pids = [{"cluster": stage.active, "broker": broker.address} for broker in cluster.brokers]
    if not done(stage, Event.FAULT_INJECTED, STEP):
        facts = {"cluster": stage.active, "fault": "kill -9 of all brokers"}
        stage.run.journal.append(Event.FAULT_INJECTED, step=STEP, facts=facts)
    cluster.kill()
    resume(stage.alive(REPLICATOR))
    return pd.DataFrame(pids)


def plan(stage: DrillStage, *, rate: float, value_bytes: int, seed: int) -> Phases:
    """Plan the procedure that `mirror failover --mode unplanned` carries out, or the rest of it; nothing is changed.

    Raises
    ------
    StepNotPassed
        if it must not begin.
    """
    applications = LabApplications(
        stage,
        {
            stage.active: applications_before(stage, rate=rate, value_bytes=value_bytes, seed=seed),
            stage.standby: applications_after(stage, rate=rate, value_bytes=value_bytes, seed=seed),
        },
    )
    return Phases(stage, STEP, applications, plan_failover(request(stage, applications), Mode.UNPLANNED))


def applications_after(stage: DrillStage, *, rate: float, value_bytes: int, seed: int) -> Deployment:
    """Return the applications as they run on the standby."""
    return stage.applications(stage.standby, "after", rate=rate, seed=seed + 1, value_bytes=value_bytes)


def request(stage: DrillStage, applications: LabApplications) -> Request:
    """Return what is asked of the procedure, there and back."""

    def verify(flow: FlowSettings, remember: Path | None) -> Equivalence:
        return verification.compare(stage, flow.flow, remember)

    settings, chosen, directory = stage.settings, stage.flow(stage.forward), stage.run.path / FAILOVER
    quietly = nullcontext(nobody)
    return Request(settings, chosen, None, directory, lambda _: applications, lambda: quietly, verify=verify)


def cuts_table(stage: DrillStage) -> pd.DataFrame:
    """Return where the copy of each partition ended, a row each."""
    return pd.DataFrame(
        [
            {"topic": each.topic, "partition": each.partition, "last_mirrored_upstream": upstream - 1}
            for each, upstream in cut_positions(stage).items()
        ]
    )


def cut_positions(stage: DrillStage) -> dict[TopicPartition, int]:
    """Return how far each partition of the applications' topics was copied when the flow was cut."""
    found = there(stage).cut_positions
    return {each: upstream for each, upstream in sorted(found.items()) if each.topic in stage.topics}


def there(stage: DrillStage) -> JournalFacts:
    """Return what the procedure has done."""
    return JournalFacts.of(stage.run.path / FAILOVER, stage.forward)


def groups_table(stage: DrillStage) -> pd.DataFrame:
    """Return where every group goes on, a row for each position."""
    return pd.DataFrame([dict(each) for each in there(stage).group_rows]).convert_dtypes()


def service_table(stage: DrillStage) -> pd.DataFrame:
    """Return when the standby served again: its first write, and the first read of each group, a row each."""
    found = _instants(stage)
    seen = {"first write": found.first_write_at_ms, **found.groups_reading_at_ms}
    return pd.DataFrame(
        [
            {"what": what, "seconds_after_fault": (at - found.fault_at_ms) / 1000}
            for at, what in sorted((at, what) for what, at in seen.items() if at is not None)
        ]
    )


def keep_serving(stage: DrillStage, phases: Phases, *, rate: float, seconds: float) -> str:
    """Let the standby serve for a while; say how much it has acknowledged meanwhile."""
    phases.require_no_failure()
    phases.applications.start(stage.standby)
    return _acknowledged(stage.standby, stage.wait_for_load(stage.standby, rate=rate, seconds=seconds))


def event(stage: DrillStage, kind: Event) -> Entry:
    """Return the newest journal entry of a kind.

    Raises
    ------
    LookupError
        if there is none: the step that writes it has not been run.
    """
    found = [entry for entry in stage.run.journal.read().entries if entry.event is kind]
    if not found:
        raise LookupError(f"the journal of {stage.run.name} has no {kind}: run the cell that does it first")
    return found[-1]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the failover cost.

    Attributes
    ----------
    missing
        per partition of the active cluster, what of its acknowledged records the standby lacks.
    delivery
        what is wrong with what is there.
    acked
        records the active cluster had acknowledged.
    cuts
        where the mirror of each partition ended.
    """

    missing: tuple[Missing, ...]
    delivery: Delivery
    rpo: Rpo
    rto: FailoverInstants
    acked: int
    cuts: tuple[PartitionCut, ...]


def judge(stage: DrillStage) -> Judgement:
    """Join the ledger with all that lies on the standby, and hold the clock against the journal."""
    missing, delivery = stage.judge(measure, stage)
    fault_at_ms = event(stage, Event.FAULT_INJECTED).at_ms
    return Judgement(
        missing,
        delivery,
        compute_rpo(missing, fault_at_ms),
        _instants(stage),
        stage.acked(stage.active),
        _cuts(stage, missing),
    )


def measure(stage: DrillStage) -> tuple[tuple[Missing, ...], Delivery]:
    """Read the standby's copies to their ends; return what they lack, and what is wrong with what they hold."""
    routes = copy_routes(stage, stage.forward)
    with (
        final_read(
            stage.run.ledger, stage.settings.clusters, [route.kept for route in routes], stage.run.path / "proof"
        ) as found,
        ThreadPoolExecutor() as pool,
    ):
        lacking = [pool.submit(missing_acked, found.sends, found.logs, route) for route in routes]
        # The applications still write: their ledger is not complete yet, and need not be for what is judged here.
        delivery = pool.submit(judge_logs, found.sends, found.logs, routes, tolerated={Anomaly.STRANDED})
        return tuple(each for future in lacking for each in future.result()), delivery.result()


def partitions_table(judgement: Judgement) -> pd.DataFrame:
    """Return a row a partition: where its copy ends, and how many acknowledged records lie behind that."""
    return pd.DataFrame([asdict(cut) for cut in judgement.cuts])


def show_chain(stage: DrillStage, judgement: Judgement, rto_objective_seconds: float) -> Figure:
    """Plot the links from the fault to service again."""
    evidence = read_evidence(stage.run)
    return rto_chain_plot(replace(evidence, failover=_facts(judgement, None, rto_objective_seconds)))


def conclude(
    stage: DrillStage, phases: Phases, judgement: Judgement, *, rpo_seconds: float, rto_seconds: float
) -> None:
    """Write the outcome: both objectives met, and what is on the standby is there once, unchanged, in order.

    What nobody could tell the procedure is reported beside it: the ledger knows.
    """
    phases.require_no_failure()
    objectives = Objectives(rpo_seconds=rpo_seconds, rto_seconds=rto_seconds)
    results = judge_objectives(objectives, rpo=judgement.rpo, rto=judgement.rto)
    reasons = [
        f"{result.name}: {'not measured' if result.achieved is None else f'{result.achieved:.2f} s'}, "
        f"objective {result.objective:g} s: {result.verdict}"
        for result in results
    ]
    reasons += [str(finding) for finding in judgement.delivery.findings if not finding.is_tolerated]
    reasons += phases.unsettled
    totals = judgement.delivery.totals
    stranded = judgement.rpo.records
    facts = (
        _facts(judgement, rpo_seconds, rto_seconds).as_facts()
        | phases.facts()
        | {
            "totals": Totals(
                acked=judgement.acked,
                mirrored=judgement.acked - stranded,
                stranded=stranded,
                lost=totals[Anomaly.LOST],
                duplicated=totals[Anomaly.DUPLICATED],
                reordered=totals[Anomaly.REORDERED],
                altered=totals[Anomaly.ALTERED],
            ),
            "findings": located(judgement.delivery),
        }
    )
    verdict = worst([judgement.delivery.verdict, *(result.verdict for result in results)])
    phases.seal()
    stage.conclude(Outcome(STEP, verdict, facts, tuple(reasons)))


def copy_routes(stage: DrillStage, flow: Flow) -> tuple[Route, ...]:
    """Return the ways of the applications' topics along a flow."""
    return tuple(
        Route(Place(flow.source, topic), Place(flow.target, stage.remote(topic, flow))) for topic in stage.topics
    )


def located(delivery: Delivery) -> list[Finding]:
    """Return the examples of what is wrong, for the report."""
    return [
        Finding(
            kind=str(finding.anomaly),
            topic=finding.partition.topic,
            partition=finding.partition.partition,
            record_offset=example.record_offset,
            producer=example.producer,
            sequence=example.sequence,
            note=f"on {finding.cluster}: {example.detail}",
        )
        for finding in delivery.findings
        if not finding.is_tolerated
        for example in finding.examples
    ]


def _acknowledged(alias: str, records: int) -> str:
    return f"{alias} has acknowledged {records:,} more records"


def _instants(stage: DrillStage) -> FailoverInstants:
    return there(stage).instants(event(stage, Event.FAULT_INJECTED).at_ms, stage.groups)


def _cuts(stage: DrillStage, missing: tuple[Missing, ...]) -> tuple[PartitionCut, ...]:
    lacking = {each.partition: each.records for each in missing}
    return tuple(
        PartitionCut(source.topic, source.partition, upstream - 1, lacking.get(source, 0))
        for source, upstream in cut_positions(stage).items()
    )


def _facts(judgement: Judgement, rpo_objective: float | None, rto_objective: float) -> Failover:
    rpo = judgement.rpo
    return Failover(
        judgement.rto,
        rpo=RecoveryPoint(rpo.records, rpo.bytes, rpo.seconds, objective_seconds=rpo_objective),
        rto_objective_seconds=rto_objective,
        partitions=judgement.cuts,
    )
