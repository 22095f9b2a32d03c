"""Step 5: the old cluster comes back; nothing on either side may be lost, and the account must balance."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from mirror.control.status import observe
from mirror.drill.steps import verification
from mirror.drill.steps.failover import applications_after, copy_routes, event, located, request, there
from mirror.drill.steps.phases import Phases
from mirror.drill.steps.resumption import done
from mirror.drill.steps.stage import JUDGES, LAG_SAMPLER, REPLICATOR, DrillStage
from mirror.evidence.facts import plain_object
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_evidence import read_settings
from mirror.evidence.run_model import AccountClass, Failback, Totals
from mirror.evidence.run_model import Finding as FindingFact
from mirror.lab.stage import LOAD, READERS
from mirror.lab_applications import LabApplications
from mirror.model.flow import Flow
from mirror.model.ledger import SENDS, Column
from mirror.model.verdict import worst
from mirror.parts import arrow_schema, write_table
from mirror.proof.account import UNSETTLED, Account, Fate, Sides, settle_account
from mirror.proof.comparison import Equivalence
from mirror.proof.delivery import GroupCommits, GroupReading, Route, judge_groups, judge_logs
from mirror.proof.final_read import final_read
from mirror.proof.findings import Anomaly, Delivery
from mirror.proof.group_move import GroupMove
from mirror.proof.group_positions import read_positions
from mirror.proof.history import stranded_records
from mirror.recovery.catching_up import await_copies, await_reading, await_return
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.procedure import plan_failback
from mirror.recovery.run import FAILBACK, FAILOVER
from mirror.waiting import WaitTimeout

__all__ = [
    "STEP",
    "compare",
    "comparison_table",
    "conclude",
    "groups_home_table",
    "groups_table",
    "list_stranded",
    "plan",
    "restart_active",
    "serve_at_home",
    "settle",
    "stop_everything",
]

STEP = "failback"
STRANDED_FILE = "stranded.parquet"

_RETURN_SECONDS = 300.0
_OF_GROUPS = (
    *(Anomaly.LOST, Anomaly.UNSEEN, Anomaly.REDELIVERED, Anomaly.REWOUND, Anomaly.REORDERED, Anomaly.ALTERED),
)
_LISTED = arrow_schema((*SENDS, Column("in_own_log", "boolean")))


def restart_active(stage: DrillStage) -> pd.DataFrame:
    """Start the old cluster again, with the disks it died on; no application knows its address yet."""
    if not done(stage, Event.FAULT_HEALED, STEP):
        # Before the deed: a run that ends between the two starts the cluster when it is resumed.
        stage.run.journal.append(Event.FAULT_HEALED, step=STEP, facts={"cluster": stage.active})
    cluster = stage.start_cluster(stage.active)
    return pd.DataFrame([{"broker": broker.address, "alive": broker.is_alive()} for broker in cluster.brokers])


def list_stranded(stage: DrillStage) -> pd.DataFrame:
    """List every record the old cluster had acknowledged and the standby lacks; keep the list in the run directory.

    Returns a row a partition with the number of records and the range of their offsets.
    """
    path = stage.run.path / STRANDED_FILE
    if path.exists():
        stranded = pd.read_parquet(path)  # by now they may have been mirrored: they were stranded all the same
    else:
        frames = stage.judge(find_stranded, stage)
        stranded = pd.concat(frames, ignore_index=True).sort_values(["topic", "partition", "offset"])
        write_table(pa.Table.from_pandas(stranded, schema=_LISTED, preserve_index=False), path)
    return (
        stranded.groupby(["topic", "partition"])
        .agg(
            records=("offset", "size"),
            first_offset=("offset", "min"),
            last_offset=("offset", "max"),
            still_in_own_log=("in_own_log", "sum"),
        )
        .reset_index()
    )


def find_stranded(stage: DrillStage) -> list[pd.DataFrame]:
    """Read both sides to their ends; return, a frame a topic, the sends the standby lacks."""
    routes = copy_routes(stage, stage.forward)
    places = [place for route in routes for place in (route.sent, route.kept)]
    work = stage.run.path / "proof"
    # Small jobs, one behind the other, leave most of the machine idle while each is planned.
    with final_read(stage.run.ledger, stage.settings.clusters, places, work) as found, ThreadPoolExecutor() as pool:
        return list(pool.map(lambda route: stranded_records(found.sends, found.logs, route).toPandas(), routes))


def plan(stage: DrillStage, *, rate: float, value_bytes: int, seed: int) -> Phases:
    """Plan the procedure that `mirror failback` carries out, or the rest of it, once both clusters are there.

    Raises
    ------
    StepNotPassed
        if it must not begin.
    WaitTimeout
        if the old cluster is not back in time.
    """
    await_return(stage.settings, stage.reverse, stage.groups, seconds=_RETURN_SECONDS)
    applications = LabApplications(
        stage,
        {
            stage.standby: applications_after(stage, rate=rate, value_bytes=value_bytes, seed=seed),
            stage.active: stage.applications(stage.active, "home", rate=rate, seed=seed + 2, value_bytes=value_bytes),
        },
    )
    return Phases(stage, STEP, applications, plan_failback(request(stage, applications)))


def home(stage: DrillStage) -> JournalFacts:
    """Return what the procedure has done."""
    return JournalFacts.of(stage.run.path / FAILOVER / FAILBACK, stage.reverse)


def groups_home_table(stage: DrillStage) -> pd.DataFrame:
    """Return where every group goes on on the old cluster, a row for each position."""
    rows = [dict(each) for each in home(stage).group_rows if each["topic"] in home_topics(stage)]
    return pd.DataFrame(rows).convert_dtypes()


def serve_at_home(stage: DrillStage, phases: Phases, *, rate: float, seconds: float) -> str:
    """Let the applications work on the old cluster, active again, for a while; say how much it has acknowledged."""
    phases.require_no_failure()
    phases.applications.start(stage.active)
    records = stage.wait_for_load(stage.active, rate=rate, seconds=seconds)
    return f"{stage.active} has acknowledged {records:,} more records"


def stop_everything(stage: DrillStage) -> pd.DataFrame:
    """Stop the producers, let everything run dry and be read, then stop the groups, the replicator and the sampler."""
    stage.stop(LOAD)
    _wait_until_dry(stage, {stage.forward, stage.reverse})
    _wait_until_read(stage, stage.active, home_topics(stage))
    stage.stop(READERS)
    table = _status(stage)
    stage.stop(LAG_SAMPLER, REPLICATOR)
    return table


def compare(stage: DrillStage) -> dict[Flow, Equivalence]:
    """Verify both flows to their ends."""
    return {flow: verification.compare(stage, flow) for flow in (stage.forward, stage.reverse)}


def comparison_table(comparisons: Mapping[Flow, Equivalence]) -> pd.DataFrame:
    """Return a row a partition of both flows."""
    tables = {str(flow): verification.table(comparison) for flow, comparison in comparisons.items()}
    return pd.concat(tables, names=["flow"]).reset_index(level=0)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of every record, and what every group was handed."""

    account: Account
    logs: Delivery
    groups: Delivery


def settle(stage: DrillStage) -> Settlement:
    """Account for every record the ledger says was acknowledged, and for what every group was handed."""
    settlement = stage.judge(judge_everything, stage)
    stage.stop(JUDGES)
    return settlement


def judge_everything(stage: DrillStage) -> Settlement:
    """Read every log to its end and put it before all judges."""
    forward, reverse = copy_routes(stage, stage.forward), copy_routes(stage, stage.reverse)
    places = [place for route in (*forward, *reverse) for place in (route.sent, route.kept)]
    own = [Route.own(route.sent) for route in (*forward, *reverse)]
    moved_at_ms = home(stage).applications_moved_at_ms
    assert moved_at_ms is not None
    sides = Sides(stage.active, stage.standby, forward, reverse, returned_at_ms=moved_at_ms)
    readings = [GroupReading(group, tuple(places)) for group in stage.groups]
    positions, unknown = read_positions(readings, stage.settings.clusters)
    with final_read(stage.run.ledger, stage.settings.clusters, places, stage.run.path / "proof") as found:
        group_commits = GroupCommits(positions, found.commits, group_moves(stage))
        listed = found.sends.sparkSession.read.parquet(str(stage.run.path / STRANDED_FILE))
        sends, logs, gaps = found.sends, found.logs, (*found.gaps, *unknown)
        with ThreadPoolExecutor() as pool:
            account = pool.submit(settle_account, sends, logs, sides, listed=listed, gaps=gaps)
            delivery = pool.submit(judge_logs, sends, logs, (*own, *forward, *reverse), gaps=gaps)
            groups = pool.submit(judge_groups, found.reads, sends, logs, readings, group_commits, gaps=gaps)
            return Settlement(account.result(), delivery.result(), groups.result())


def group_moves(stage: DrillStage) -> list[GroupMove]:
    """Return where groups went on, as the journals of the procedure say: at the failover, and at the failback."""
    allowed = read_settings(stage.run).parameters["rpo_objective_seconds"]
    known_by_ms = event(stage, Event.FAULT_INJECTED).at_ms - round(1000 * float(allowed))
    return [*there(stage).group_moves(known_by_ms), *home(stage).group_moves()]


def groups_table(stage: DrillStage, settlement: Settlement) -> pd.DataFrame:
    """Return a row a group: records it was to be handed, and what went wrong."""
    rows = []
    for group in stage.groups:
        counts = [count for count in settlement.groups.counts if count.group == group]
        found = [finding for finding in settlement.groups.findings if finding.group == group]
        rows.append(
            {"group": group, "records": sum(count.expected for count in counts)}
            | {
                str(anomaly): sum(finding.count for finding in found if finding.anomaly is anomaly)
                for anomaly in _OF_GROUPS
            }
        )
    return pd.DataFrame(rows)


def conclude(
    stage: DrillStage, phases: Phases, comparisons: Mapping[Flow, Equivalence], settlement: Settlement
) -> None:
    """Write the outcome: equal copies, every record handed to every group, and an account that balances."""
    phases.require_no_failure()
    account, logs, groups = settlement.account, settlement.logs, settlement.groups
    reasons = [
        f"the account of {account.acked:,} acknowledged records "
        + ("balances" if account.is_balanced else "does not balance"),
        *(reason for flow, comparison in comparisons.items() for reason in verification.reasons(comparison, flow)),
        *(str(finding) for finding in (*logs.findings, *groups.findings) if not finding.is_tolerated),
        *(str(gap) for gap in account.gaps),
        *phases.unsettled,
    ]
    failback = Failback(
        account=tuple(AccountClass(str(fate), account.records(fate), _NOTES[fate]) for fate in Fate),
        acked_records=account.acked,
        balances=account.is_balanced,
        stranded_file=STRANDED_FILE,
    )
    totals = logs.totals
    facts = (
        plain_object(failback)
        | phases.facts()
        | {
            "totals": Totals(
                acked=account.acked,
                mirrored=account.records(Fate.MIRRORED),
                stranded=account.records(Fate.RECOVERED)
                + account.records(Fate.LISTED)
                + account.records(Fate.STRANDED),
                lost=account.records(Fate.MISSING),
                duplicated=totals[Anomaly.DUPLICATED],
                reordered=totals[Anomaly.REORDERED],
                altered=totals[Anomaly.ALTERED],
                indeterminate=account.indeterminate_found + account.indeterminate_absent,
            ),
            "findings": [
                *(one for comparison in comparisons.values() for one in verification.differences(comparison)),
                *_unsettled(account),
                *located(logs),
                *located(groups),
            ],
        }
    )
    verdict = worst([account.verdict, logs.verdict, groups.verdict, *(each.verdict for each in comparisons.values())])
    phases.seal()
    stage.conclude(Outcome(STEP, verdict, facts, tuple(reasons)))


def home_topics(stage: DrillStage) -> list[str]:
    """Return what the groups read on the old cluster: its own topics, and what came back from the standby."""
    return [*stage.topics, *(stage.remote(topic, stage.reverse) for topic in stage.topics)]


_NOTES = {
    Fate.MIRRORED: "on the standby before the fault",
    Fate.RECOVERED: "stranded on the old cluster, listed, and mirrored after its return",
    Fate.LISTED: "stranded on the old cluster, and on the list",
    Fate.WRITTEN_ON_STANDBY: "written on the standby, and brought back",
    Fate.WRITTEN_AFTER_RETURN: "written on the old cluster, active again",
    Fate.NOT_RETURNED: "written on the standby, and not brought back",
    Fate.STRANDED: "on the old cluster only, and on no list",
    Fate.MISSING: "in no log",
}


def _unsettled(account: Account) -> list[FindingFact]:
    return [
        FindingFact(
            kind="lost" if record.fate is Fate.MISSING else "stranded",
            topic=record.partition.topic,
            partition=record.partition.partition,
            record_offset=record.record_offset,
            producer=record.producer,
            sequence=record.sequence,
            note=f"acknowledged by {record.cluster}: {record.fate}",
        )
        for record in account.unsettled
        if record.fate in UNSETTLED
    ]


def _wait_until_dry(stage: DrillStage, flows: set[Flow]) -> None:
    """Wait until all in the applications' topics has been copied along ``flows`` and is on record: groups need that."""
    with observe(stage.settings, flows) as observers:

        def waiting() -> list[str]:
            left = []
            for status in (observer.look() for observer in observers):
                known = {partition.topic for partition in status.partitions}
                left += [f"{status.flow} {topic} has no position" for topic in stage.topics if topic not in known]
                left += [
                    f"{status.flow} {partition.topic}-{partition.partition}: {partition.lag_records}"
                    for partition in status.partitions
                    if partition.topic in stage.topics and partition.lag_records != 0
                ]
            return left

        _require_nobody(await_copies(waiting, seconds=_RETURN_SECONDS), f"not copied after {_RETURN_SECONDS:g} s")


def _wait_until_read(stage: DrillStage, alias: str, topics: list[str]) -> None:
    """Wait until every group stands at the end of every one of these topics."""
    wanted = {group: set(topics) for group in stage.groups}
    left = await_reading(stage.settings.clusters[alias], wanted, seconds=_RETURN_SECONDS)
    _require_nobody(left, f"not read after {_RETURN_SECONDS:g} s")


def _require_nobody(behind: list[str], what: str) -> None:
    if behind:
        raise WaitTimeout(f"{what}: {', '.join(behind)}")


def _status(stage: DrillStage) -> pd.DataFrame:
    with observe(stage.settings) as observers:
        looks = [observer.look() for observer in observers]
    return pd.DataFrame(
        [
            {"flow": str(look.flow), "state": look.state, "topic": one.topic, "partition": one.partition}
            | {"upstream_next": one.upstream_next, "source_end": one.source_end, "lag_records": one.lag_records}
            for look in looks
            for one in look.partitions
            if one.topic in stage.topics
        ]
    )
