"""Groups of which nobody can tell that they pass nothing that they have not read, on the way to a standby or back."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.control.groups import GroupAction, GroupDecision
from mirror.evidence.facts import Json
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition
from mirror.model.translation import NothingRead
from mirror.recovery.flow_ends import Copied, FlowEnds
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.set_by_hand import Placed
from mirror.recovery.step_facts import named, rows_in


def further_on(plan: MovePlan) -> list[tuple[GroupDecision, GroupPosition]]:
    """Return where groups are further on the target already than they have read, each with that position there."""
    reached = {
        (each.group, TopicPartition(each.topic, each.partition)): each.downstream + (each.behind_records or 0)
        for each in plan.positions
        if each.downstream is not None
    }
    return [
        (each, each.present)
        for each in plan.decisions
        if each.action is GroupAction.SKIP_REWIND
        and each.present is not None
        and each.present.position > reached[each.group, each.partition]
    ]


def further_on_the_target(plan: MovePlan, source: str) -> list[str]:
    """Return where groups are further on the target already than they were on the source; positions never go back."""
    return [
        f"group {each.group} is at {present.position} of {each.partition} already, and {source} "
        f"says {each.wanted.position}"
        for each, present in further_on(plan)
    ]


def read_on(plan: MovePlan, moved: Mapping[str, Json]) -> str | None:
    """Return which groups are elsewhere on the source than where they were ``moved`` from, by the facts of that step.

    On the target they would read again what they have read since, or pass what they have gone back to. Also where the
    source does not tell where groups are by now.
    """
    flow = plan.settings.flow
    if (untold := plan.source_problem or named([str(each) for each in plan.untranslated])) != "":
        return f"whether groups have read on {flow.source} since they were moved is not known: {untold}"
    before: dict[tuple[Json, Json, Json], list[Json]] = {}
    for row in rows_in(moved):
        before.setdefault((row["group"], row["topic"], row["partition"]), []).append(row["upstream"])
    found = []
    for each in plan.positions:
        was = before.get((each.group, each.topic, each.partition), [])
        if each.upstream not in was:
            then = f"was at {was[0]}" if was else "had no position"
            found.append(f"group {each.group} is at {each.upstream} of {each.topic}-{each.partition}, and {then}")
    return (
        f"groups have read on {flow.source} since they were moved to {flow.target}: {named(found)}" if found else None
    )


def passing_copies(plan: MovePlan) -> list[str]:
    """Return which groups have read nothing on the standby, and are at home behind records that came from there since.

    Their old log ends before where they stood: it has lost its end, and the standby's records lie in its place.
    """
    flow, found = plan.settings.flow, []
    for each in plan.positions:
        if not isinstance(each.translation, NothingRead) or each.translation.first_copied is None:
            continue
        partition = TopicPartition(each.topic, each.partition)
        at = plan.idle_positions.get(each.group, {}).get(partition)
        if at is not None and at.position > each.translation.first_copied:
            found.append(
                f"group {each.group} is at {at.position} of {partition} on {flow.target}, has read nothing on "
                f"{flow.source}, and what was copied of that lies from {each.translation.first_copied} on"
            )
    return found


def left_out(plan: MovePlan, put_there: Placed) -> list[str]:
    """Return which groups the flow there has put on the standby, and the filters of the flow back leave out."""
    home = plan.settings
    groups = sorted({group for group, _ in put_there if not home.group_filter.matches(group)})
    return [
        f"group {group} was put on {home.flow.source} by the way there, and groups of {home.flow} leaves it out: where "
        f"it stands on {home.flow.source} is not carried back"
        for group in groups
    ]


def without_checkpoint(plan: MovePlan, ends: FlowEnds, copied: Copied) -> list[str]:
    """Return of which groups no checkpoint says where they stand; nothing if the source has reported."""
    if plan.source_problem is None:
        return []
    if not plan.positions:
        return [f"no checkpoint on {ends.flow.target} says where any group stands"]
    copies = {
        TopicPartition(ends.copy_of(each.topic), each.partition)
        for each, position in copied.positions.items()
        if position.downstream > 0
    }
    of_groups: dict[str, set[TopicPartition]] = {}
    for each in plan.positions:
        of_groups.setdefault(each.group, set()).add(TopicPartition(each.topic, each.partition))
    return [
        f"no checkpoint says where group {group} stands in {partition}"
        for group, known in sorted(of_groups.items())
        for partition in sorted(copies - known)
        if partition.topic in {each.topic for each in known}
    ]
