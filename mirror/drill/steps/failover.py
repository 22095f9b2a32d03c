"""Step 4: the active cluster is lost under load; the applications move to the standby, and the loss is counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

import pandas as pd
from matplotlib.figure import Figure

from mirror.control.flow_log import FlowLog
from mirror.drill.steps.mirroring import start_applications
from mirror.drill.steps.resumption import done
from mirror.drill.steps.stage import ACTIVE, FORWARD, GROUPS, REPLICATOR, STANDBY, TOPICS, Stage
from mirror.evidence.facts import Facts
from mirror.evidence.failover_journal import instants_of, note_service
from mirror.evidence.journal import Entry, Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.plots import lag_plot, rto_chain_plot
from mirror.evidence.run_evidence import (
    Failover,
    Finding,
    PartitionCut,
    RecoveryPoint,
    Totals,
    read_evidence,
)
from mirror.lab.faults import resume, suspend
from mirror.lab.stage import LOAD, READERS
from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.model.flow_state import Position, state_topic
from mirror.model.partition import TopicPartition
from mirror.model.verdict import worst
from mirror.proof.delivery import Place, Route, judge_logs
from mirror.proof.final_read import final_read
from mirror.proof.findings import Anomaly, Delivery
from mirror.proof.history import missing_acked
from mirror.proof.objectives import Missing, Objectives, Rpo, compute_rpo, judge_objectives
from mirror.recovery.group_moves import move_groups as translate_and_write
from mirror.recovery.probing import wait_until_gone
from mirror.waiting import WaitTimeout

STEP = "failover_drill"

_SERVICE_SECONDS = 300.0


def build_up_load(stage: Stage, *, rate: float, seconds: float, value_bytes: int, seed: int) -> str:
    """Let the load go on for a while, so that the fault hits a busy cluster; say how much was acknowledged."""
    if done(stage, Event.FAULT_INJECTED, STEP):
        return f"{ACTIVE} was lost before"
    start_applications(stage, rate=rate, value_bytes=value_bytes, seed=seed)
    return _acknowledged(ACTIVE, stage.wait_for_load(ACTIVE, rate=rate, seconds=seconds))


def freeze_replicator(stage: Stage, seconds: float, *, rate: float) -> None:
    """Freeze the replicator while the active cluster acknowledges ``seconds`` more of load, as a slow link would.

    It is thawed when the fault is there.
    """
    if seconds <= 0 or done(stage, Event.FAULT_INJECTED, STEP):
        return
    suspend(stage.alive(REPLICATOR))
    stage.run.journal.append(Event.ACTION, step=STEP, facts={"frozen": REPLICATOR, "seconds": seconds})
    stage.wait_for_load(ACTIVE, rate=rate, seconds=seconds)


def kill_active(stage: Stage) -> pd.DataFrame:
    """Kill every broker of the active cluster with SIGKILL, while producers and consumers are at work."""
    cluster = stage.cluster(ACTIVE)
    pids = [{"cluster": ACTIVE, "broker": broker.address} for broker in cluster.brokers]
    if not done(stage, Event.FAULT_INJECTED, STEP):
        facts = {"cluster": ACTIVE, "fault": "kill -9 of all brokers"}
        stage.run.journal.append(Event.FAULT_INJECTED, step=STEP, facts=facts)
    cluster.kill()
    resume(stage.alive(REPLICATOR))
    return pd.DataFrame(pids)


def detect(stage: Stage) -> str:
    """Probe the active cluster until it has failed three probes in a row; say how many probes that took."""
    probes = wait_until_gone(stage.settings.clusters[ACTIVE]).probes
    if not done(stage, Event.FAULT_DETECTED, STEP):
        stage.run.journal.append(Event.FAULT_DETECTED, step=STEP, facts={"cluster": ACTIVE, "probes": probes})
    return f"{ACTIVE} is gone: noticed with the probe number {probes}"


def fence(stage: Stage) -> pd.DataFrame:
    """Stop every producer and consumer that knows the old cluster, so that none writes to it when it comes back."""
    if done(stage, Event.FENCED, STEP):
        return pd.DataFrame(columns=["process", "ended"])
    stopped = [process.name for prefix in ("load-", "readers-") for process in stage.alive(prefix)]
    killed = stage.stop("load-", "readers-")
    stage.run.journal.append(Event.FENCED, step=STEP, facts={"cluster": ACTIVE, "killed": list(killed)})
    return pd.DataFrame([{"process": name, "ended": "killed" if name in killed else "cleanly"} for name in stopped])


def cut(stage: Stage) -> pd.DataFrame:
    """Stop the replicator: what it has acknowledged by now is the standby's truth. Return where each partition ends."""
    if not done(stage, Event.CUT, STEP):
        stage.stop(REPLICATOR)
        stage.run.journal.append(Event.CUT, step=STEP, facts={"flow": str(FORWARD)})
    return pd.DataFrame(
        [
            {
                "topic": source.topic,
                "partition": source.partition,
                "last_mirrored_upstream": position.upstream - 1,
                "downstream_next": position.downstream,
            }
            for source, position in sorted(positions(stage, FORWARD).items())
            if source.topic in TOPICS
        ]
    )


def move_groups(stage: Stage) -> pd.DataFrame:
    """Give every group, on the standby, the position where it stopped on the active cluster.

    Raises
    ------
    MoveRefused
        if a group cannot be moved; the others are, the journal names both, and moving again is safe.
    """
    return write_positions(stage, FORWARD, STEP, ask_source=False)


def start_on_standby(stage: Stage, *, rate: float, value_bytes: int, seed: int) -> pd.DataFrame:
    """Start producers on the standby, and the groups: they read the copies and what is written on the standby."""
    if not stage.alive(LOAD):
        stage.start_load(STANDBY, "after", rate=rate, seed=seed + 1, value_bytes=value_bytes)
    read_on_standby(stage)
    return pd.DataFrame([{"process": process.name, "pid": process.pid} for process in stage.alive()])


def read_on_standby(stage: Stage) -> None:
    """Have every group read the copies, and what is written on the standby."""
    if not stage.alive(READERS):
        stage.start_readers(STANDBY, "after", [*TOPICS, *(stage.remote(topic) for topic in TOPICS)], {})


def wait_for_service(stage: Stage) -> pd.DataFrame:
    """Wait for the first acknowledged write on the standby, and until every group reads there what is new to it.

    Raises
    ------
    WaitTimeout
        if one of them does not come about; the journal has those that did.
    """
    fault = event(stage, Event.FAULT_INJECTED).at_ms
    service = stage.await_service(STANDBY, TOPICS, GROUPS, since_ms=fault, seconds=_SERVICE_SECONDS)
    if not done(stage, Event.FIRST_WRITE, STEP):
        note_service(stage.run.journal, STANDBY, service.first_write_at_ms, service.groups_reading_at_ms, step=STEP)
    seen = {"first write": service.first_write_at_ms, **service.groups_reading_at_ms}
    if not service.is_complete:
        absent = ", ".join(what for what, at in seen.items() if at is None)
        raise WaitTimeout(f"waited {_SERVICE_SECONDS:g} s for {STANDBY} to serve; not seen: {absent}")
    return pd.DataFrame(
        [
            {"what": what, "seconds_after_fault": (at - fault) / 1000}
            for at, what in sorted((at, what) for what, at in seen.items() if at)
        ]
    )


def keep_serving(stage: Stage, *, rate: float, seconds: float) -> str:
    """Let the standby serve for a while; say how much it has acknowledged meanwhile."""
    return _acknowledged(STANDBY, stage.wait_for_load(STANDBY, rate=rate, seconds=seconds))


def show_lag(stage: Stage) -> Figure:
    """Plot the lag up to the fault and behind it."""
    return lag_plot(read_evidence(stage.run), str(FORWARD))


def positions(stage: Stage, flow: Flow) -> dict[TopicPartition, Position]:
    """Return how far each source partition of a flow is copied, as the target has it on record."""
    settings = stage.settings.clusters[flow.target]
    log = FlowLog(settings.client, state_topic(flow.source), alias=flow.target)
    try:
        return dict(log.poll().positions)
    finally:
        log.close()


def write_positions(stage: Stage, flow: Flow, step: str, *, ask_source: bool) -> pd.DataFrame:
    """Translate every group's positions along ``flow`` and write them on its target, under all guards.

    Raises
    ------
    MoveRefused
        if a group that should move did not; the journal says which did.
    """
    applied = done(stage, Event.OFFSETS_APPLIED, step)
    if applied is not None and not applied.facts["refused"]:
        # Since then the groups may have read on: they are where they should be.
        translated = Facts(applied.facts, str(Event.OFFSETS_APPLIED)).objects("translated")
        rows = [dict(each.values) for each in translated]
        return pd.DataFrame(rows, columns=["group", "topic", "partition", "upstream"])
    settings = stage.settings
    moves = translate_and_write(
        stage.flow(flow), settings.clusters, GROUPS, ask_source=ask_source, flows=settings.enabled_flows
    )
    stage.run.journal.append(Event.OFFSETS_APPLIED, step=step, facts=moves.facts(GROUPS))
    moves.require()
    return pd.DataFrame([each.as_json() for each in moves.positions])


def event(stage: Stage, kind: Event) -> Entry:
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


def judge(stage: Stage) -> Judgement:
    """Join the ledger with all that lies on the standby, and hold the clock against the journal."""
    missing, delivery = stage.judge(measure, stage)
    fault_at_ms = event(stage, Event.FAULT_INJECTED).at_ms
    return Judgement(
        missing,
        delivery,
        compute_rpo(missing, fault_at_ms),
        _instants(stage, fault_at_ms),
        stage.acked(ACTIVE),
        _cuts(stage, missing),
    )


def measure(stage: Stage) -> tuple[tuple[Missing, ...], Delivery]:
    """Read the standby's copies to their ends; return what they lack, and what is wrong with what they hold."""
    routes = copy_routes(stage, FORWARD)
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


def show_chain(stage: Stage, judgement: Judgement, rto_objective_seconds: float) -> Figure:
    """Plot the links from the fault to service again."""
    evidence = read_evidence(stage.run)
    return rto_chain_plot(replace(evidence, failover=_facts(judgement, None, rto_objective_seconds)))


def conclude(stage: Stage, judgement: Judgement, *, rpo_seconds: float, rto_seconds: float) -> None:
    """Write the outcome: both objectives met, and what is on the standby is there once, unchanged, in order."""
    objectives = Objectives(rpo_seconds=rpo_seconds, rto_seconds=rto_seconds)
    results = judge_objectives(objectives, rpo=judgement.rpo, rto=judgement.rto)
    reasons = [
        f"{result.name}: {'not measured' if result.achieved is None else f'{result.achieved:.2f} s'}, "
        f"objective {result.objective:g} s: {result.verdict}"
        for result in results
    ]
    reasons += [str(finding) for finding in judgement.delivery.findings if not finding.is_tolerated]
    totals = judgement.delivery.totals
    stranded = judgement.rpo.records
    facts = _facts(judgement, rpo_seconds, rto_seconds).as_facts() | {
        "totals": Totals(
            acked=judgement.acked,
            mirrored=judgement.acked - stranded,
            stranded=stranded,
            lost=totals[Anomaly.LOST],
            duplicated=totals[Anomaly.DUPLICATED],
            reordered=totals[Anomaly.REORDERED],
            altered=totals[Anomaly.ALTERED],
        ).as_facts(),
        "findings": [finding.as_facts() for finding in located(judgement.delivery)],
    }
    verdict = worst([judgement.delivery.verdict, *(result.verdict for result in results)])
    stage.conclude(Outcome(STEP, verdict, facts, tuple(reasons)))


def copy_routes(stage: Stage, flow: Flow) -> tuple[Route, ...]:
    """Return the ways of the applications' topics along a flow."""
    return tuple(Route(Place(flow.source, topic), Place(flow.target, stage.remote(topic, flow))) for topic in TOPICS)


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


def _instants(stage: Stage, fault_at_ms: int) -> FailoverInstants:
    own = [entry for entry in stage.run.journal.read().entries if entry.step == STEP]
    return instants_of(own, fault_at_ms, GROUPS)


def _cuts(stage: Stage, missing: tuple[Missing, ...]) -> tuple[PartitionCut, ...]:
    lacking = {each.partition: each.records for each in missing}
    return tuple(
        PartitionCut(source.topic, source.partition, position.upstream - 1, lacking.get(source, 0))
        for source, position in sorted(positions(stage, FORWARD).items())
        if source.topic in TOPICS
    )


def _facts(judgement: Judgement, rpo_objective: float | None, rto_objective: float) -> Failover:
    rpo = judgement.rpo
    return Failover(
        judgement.rto,
        rpo=RecoveryPoint(rpo.records, rpo.bytes, rpo.seconds, objective_seconds=rpo_objective),
        rto_objective_seconds=rto_objective,
        partitions=judgement.cuts,
    )
