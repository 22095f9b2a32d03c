"""The step of the test failover: shadows of the groups read on the standby while everything goes on."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mirror import terminal
from mirror.display import display_for
from mirror.drill.steps import practice
from mirror.drill.steps.flow_in_use import FlowInUse
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_model import Factual, Finding, RunCluster
from mirror.kafka.cluster import Cluster
from mirror.kafka.group_reader import ReadLimits
from mirror.model.counts import counted
from mirror.model.shadow import TakenFrom
from mirror.model.verdict import Verdict, worst
from mirror.recovery import rehearsal_rows
from mirror.recovery.rehearsal import Rehearsal, rehearse
from mirror.recovery.rehearsal_plan import RehearsalPlan, plan_rehearsal

__all__ = [
    "STEP",
    "aftermath",
    "carry_out",
    "clusters",
    "conclude",
    "details",
    "forecast",
    "measured",
    "plan",
    "rights",
]

STEP = "test_failover"


def clusters(used: FlowInUse) -> pd.DataFrame:
    """Return a row for each end of the flow."""
    return pd.DataFrame(_clusters(used))


def plan(used: FlowInUse, positions: str) -> RehearsalPlan:
    """Plan what is tried, and forecast what it costs; nothing is made."""
    return plan_rehearsal(used.settings, used.chosen, pattern=used.groups or ".*", taken_from=TakenFrom(positions))


def rights(planned: RehearsalPlan) -> str:
    """Return what must be allowed, and what else there is to know, a line each."""
    return "\n".join([*(f"needs {each}" for each in planned.rights), *(f"note: {each}" for each in planned.notes)])


def forecast(planned: RehearsalPlan) -> pd.DataFrame:
    """Return a row a partition: where each group would go on, and what that would cost."""
    return _frame(rehearsal_rows.plan_table(planned))


def carry_out(used: FlowInUse, planned: RehearsalPlan, records: int, seconds: float) -> Rehearsal:
    """Make the shadow groups, read, judge, delete them; they are named in the journal before they are made."""
    shadows = list(planned.shadows.values())
    undo = f"mirror rehearse {used.settings.path} --flow {planned.settings.flow} --clean"
    used.run.journal.append(Event.ACTION, step=STEP, facts={"shadow_groups": shadows, "undo": undo})
    with display_for(terminal.console(), brief=True) as display:
        found = rehearse(used.settings, planned, ReadLimits(records=records, seconds=seconds), watch=display.watch)
    deleted = [each.item for each in found.deleted if not each.problem]
    used.run.journal.append(Event.ACTION, step=STEP, facts={"shadow_groups_deleted": deleted})
    return found


def measured(found: Rehearsal) -> pd.DataFrame:
    """Return a row a group: forecast and measured."""
    return _frame(rehearsal_rows.group_table(found))


def details(found: Rehearsal) -> pd.DataFrame:
    """Return a row a partition: which record the group was handed first, and of which one that is the copy."""
    return _frame(rehearsal_rows.partition_table(found.partitions))


def aftermath(found: Rehearsal) -> str:
    """Return what the rehearsal left behind, a line each."""
    return "\n".join(rehearsal_rows.aftermath(found))


def conclude(used: FlowInUse, found: Rehearsal, first_record_seconds: float) -> None:
    """Write the outcome: every group goes on where it stood, soon enough, and nobody's group was touched."""
    slow = {group: seconds for group, seconds in found.seconds_to_first.items() if seconds > first_record_seconds}
    late = [
        f"group {group} was handed its first record after {seconds:.1f} s, objective {first_record_seconds:g} s"
        for group, seconds in sorted(slow.items())
    ]
    verdict = worst([found.verdict, *([Verdict.FAIL] if slow else ())])
    facts: Factual = {
        "clusters": _clusters(used),
        "flow": str(used.chosen.flow),
        "rehearsal": found.plan.stamp,
        "positions_from": found.plan.taken_from.value,
        "rehearsed": rehearsal_rows.group_rows(found),
        "findings": [
            Finding(
                kind="misplaced" if each.displaced else "not as it should be",
                topic=each.plan.target.topic,
                partition=each.plan.target.partition,
                record_offset=each.first,
                note=f"group {each.plan.group}: {'; '.join(each.reasons)}",
            )
            for each in found.partitions
            if each.verdict is Verdict.FAIL
        ],
    }
    passed = (
        f"{counted(len(found.plan.groups), 'group')} would go on from the same place; no other group was touched",
    )
    if used.practice is not None and verdict is Verdict.PASS:
        practice.end(used.practice)
    used.conclude(Outcome(STEP, verdict, facts, (*found.reasons, *late) or passed))


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows with whole numbers kept whole, although some lack."""
    return pd.DataFrame(rows).convert_dtypes()


def _clusters(used: FlowInUse) -> list[RunCluster]:
    found = []
    for alias in (used.chosen.flow.source, used.chosen.flow.target):
        with Cluster.connect(used.settings.clusters[alias]) as cluster:
            found.append(RunCluster(alias, cluster.cluster_id, cluster.bootstrap_servers, len(cluster.broker_ids())))
    return found
