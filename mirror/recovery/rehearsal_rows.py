"""A test failover as rows and JSON: what people and programs are shown of a plan and of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirror.model.counts import counted
from mirror.model.shadow import TriedPartition
from mirror.model.verdict import worst
from mirror.recovery.rehearsal import Rehearsal
from mirror.recovery.rehearsal_plan import RehearsalPlan


def as_json(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return the stable form that ``mirror rehearse --json`` prints."""
    plan = rehearsal.plan
    return {
        **plan_as_json(plan),
        "verdict": rehearsal.verdict.value,
        "reasons": list(rehearsal.reasons),
        "groups": group_rows(rehearsal),
        "partitions": partition_rows(rehearsal.partitions),
        "untouched": [
            {
                "cluster": each.alias,
                "group": each.group,
                "moved": [str(partition) for partition in each.moved],
                "by": each.by or None,
                "problem": each.problem,
            }
            for each in rehearsal.touched
        ],
        "deleted": [{"group": each.item, "problem": each.problem} for each in rehearsal.deleted],
    }


def plan_as_json(plan: RehearsalPlan) -> dict[str, Any]:
    """Return a plan in the form of :func:`as_json`."""
    return {
        "flow": str(plan.settings.flow),
        "rehearsal": plan.stamp,
        "positions_from": plan.taken_from.value,
        "rights": list(plan.rights),
        "notes": list(plan.notes),
        "partitions": plan_rows(plan),
    }


def plan_rows(plan: RehearsalPlan) -> list[dict[str, Any]]:
    """Return a row a partition: where each group would go on, and what that would cost."""
    return [
        {
            "group": each.group,
            "topic": each.target.topic,
            "partition": each.target.partition,
            "upstream": each.upstream,
            "position": each.position,
            "forecast_skipped": each.forecast.skipped if each.forecast else None,
            "forecast_read_again": each.forecast.read_again if each.forecast else None,
            "note": each.refusal or each.note,
        }
        for each in plan.partitions
    ]


def partition_rows(tried: Sequence[TriedPartition]) -> list[dict[str, Any]]:
    """Return a row a partition: the forecast, and what was measured."""
    return [
        {
            "group": each.plan.group,
            "topic": each.plan.target.topic,
            "partition": each.plan.target.partition,
            "upstream": each.plan.upstream,
            "position": each.plan.position,
            "first_handed": each.first,
            "is_copy_of": each.first_upstream,
            "handed": each.handed,
            "compared": each.compared,
            "forecast_skipped": each.plan.forecast.skipped if each.plan.forecast else None,
            "skipped": each.skipped,
            "forecast_read_again": each.plan.forecast.read_again if each.plan.forecast else None,
            "read_again": list(each.read_again) if each.read_again else None,
            "seconds_to_first": None if each.seconds_to_first is None else round(each.seconds_to_first, 3),
            "verdict": each.verdict.value,
            "reasons": list(each.reasons),
        }
        for each in tried
    ]


def group_rows(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    """Return a row a group: the sums over its partitions, and how soon it was reading."""
    rows = []
    for group in rehearsal.plan.groups:
        own = [each for each in rehearsal.partitions if each.plan.group == group]
        again = [each.read_again for each in own if each.read_again]
        forecasts = [each.plan.forecast for each in own if each.plan.forecast]
        first = rehearsal.seconds_to_first.get(group)
        rows.append(
            {
                "group": group,
                "verdict": worst(each.verdict for each in own).value,
                "partitions": len(own),
                "records": sum(each.handed for each in own),
                "forecast_skipped": sum(each.skipped for each in forecasts),
                "skipped": sum(each.skipped or 0 for each in own),
                "forecast_read_again": sum(each.read_again or 0 for each in forecasts),
                "read_again": [sum(low for low, _ in again), sum(high for _, high in again)],
                "seconds_to_first": None if first is None else round(first, 3),
            }
        )
    return rows


def group_table(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    """Return a row a group for people: forecasts in brackets behind what was measured."""
    return [
        {
            "group": row["group"],
            "partitions": row["partitions"],
            "records": row["records"],
            "skipped (forecast)": f"{row['skipped']} ({row['forecast_skipped']})",
            "read again (forecast)": f"{_span(row['read_again'])} (at most {row['forecast_read_again']})",
            "first record after s": row["seconds_to_first"],
            "verdict": row["verdict"],
        }
        for row in group_rows(rehearsal)
    ]


def aftermath(rehearsal: Rehearsal) -> list[str]:
    """Return sentences on what the rehearsal left behind: nothing, if all is well."""
    moved = [each for each in rehearsal.touched if each.moved]
    still = len(rehearsal.touched) - len(moved)
    deleted = sum(not each.problem for each in rehearsal.deleted)
    messages = [f"{counted(deleted, 'shadow group')} deleted"]
    stand = "stands where it" if still == 1 else "stand where they"
    messages.append(f"{counted(still, 'group')}, counted on both clusters, {stand} stood before")
    messages += [f"group {each.group} on {each.alias} was moved by {each.by}" for each in moved if each.by]
    return messages


def _span(span: Sequence[int]) -> str:
    low, high = span
    return str(low) if low == high else f"{low} to {high}"


def plan_table(plan: RehearsalPlan) -> list[dict[str, Any]]:
    """Return a row a partition for people: where each group would go on, and the forecast."""
    return [
        {
            "group": each.group,
            "partition": str(each.target),
            "upstream": each.upstream,
            "position": each.position,
            "skipped": each.forecast.skipped if each.forecast else None,
            "read again, at most": each.forecast.read_again if each.forecast else None,
            "note": each.refusal or each.note,
        }
        for each in plan.partitions
    ]


def partition_table(tried: Sequence[TriedPartition]) -> list[dict[str, Any]]:
    """Return a row a partition for people: which record the group was handed first, and of which it is the copy."""
    return [
        {
            "group": each.plan.group,
            "partition": str(each.plan.target),
            "upstream": each.plan.upstream,
            "position": each.plan.position,
            "first handed": each.first,
            "is copy of": each.first_upstream,
            "handed": each.handed,
            "compared": each.compared,
            "verdict": each.verdict.value,
        }
        for each in tried
    ]
