"""Groups of which nobody can tell that they pass nothing that they have not read, on the way to a standby or back."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.control.groups import GroupAction, GroupDecision
from mirror.evidence.facts import Json
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.counts import first_of
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition
from mirror.model.translation import NothingRead
from mirror.recovery.flow_ends import Copied, FlowEnds
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.set_by_hand import Placed, set_ahead
from mirror.recovery.step_facts import named, rows_in

_NAMED = 3


def unsure(plan: MovePlan, ends: FlowEnds, copied: Copied, put_there: Placed | None) -> list[str]:
    """Return, for people, where groups may pass what they have not read, or where nobody can tell that they do not.

    Parameters
    ----------
    copied
        what the flow along which they move has on record.
    put_there
        on the way home, where the flow there has put groups; None on the way there.
    """
    flow = ends.flow
    put_by_others = put_by_hidden_flows(plan)
    not_moved = [*map(str, plan.unmirrored), *reading_and_left_out(plan, put_there or {})]
    passing = [*passing_copies(plan), *raised(plan), *out_of_range(plan)]
    if put_there is None:
        further = further_on_the_target(plan, flow.source, copied.placed)
        return [*not_moved, *further, *passing, *put_by_others, *without_checkpoint(plan, ends, copied)]
    ahead = set_ahead(plan, flow, put_there, copied.placed)
    return [*left_out(plan, put_there), *not_moved, *passing, *put_by_others, *ahead]


def put_by_hidden_flows(plan: MovePlan) -> list[str]:
    """Return of which flows it is not known where they have put the groups that move: their state is not shown."""
    source, hidden = plan.settings.flow.source, plan.hidden_states if plan.positions else {}
    return [
        f"whether a flow to {source} has put groups there that have read nothing since is not known ({topic} on "
        f"{source}: {why}): such a group would pass what it has not read"
        for topic, why in sorted(hidden.items())
    ]


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


def raised(plan: MovePlan) -> list[str]:
    """Return which groups go on behind what they have not read, since the log on the target begins there only."""
    target = plan.settings.flow.target
    return [
        f"group {each.group} has read up to {each.placement.downstream} of {each.partition}, and goes on at "
        f"{each.placement.written}: {target} has removed what lies between"
        for each in plan.decisions
        if each.placement.is_raised and each.action in (GroupAction.WRITE, GroupAction.KEEP)
    ]


def out_of_range(plan: MovePlan) -> list[str]:
    """Return which groups have read nothing since they were put where they are, and may stay before the log's start."""
    target = plan.settings.flow.target
    return [
        f"group {each.group} stays at {at.position} of {partition}, "
        + (
            f"and {target} has removed what lies before {start}: it goes on where auto.offset.reset says, and latest "
            "skips all there is"
            if (start := plan.idle_starts.get(partition)) is not None
            else f"and {target} does not report where that log begins"
        )
        for each in plan.positions
        for partition in (TopicPartition(each.topic, each.partition),)
        if isinstance(each.translation, NothingRead)
        and (at := plan.idle_positions.get(each.group, {}).get(partition)) is not None
        and plan.may_be_removed(partition, at.position)
    ]


def further_on_the_target(plan: MovePlan, source: str, placed: Placed) -> list[str]:
    """Return where groups are further on the target already than they were on the source; positions never go back.

    Also who has read nothing since the flow back put it where it is, and stands on the target where the flow has put it
    when it had read more: it was set back on the source.
    """
    found = [
        f"group {each.group} is at {present.position} of {each.partition} already, and {source} "
        f"says {each.wanted.position}"
        for each, present in further_on(plan)
    ]
    for each in plan.positions:
        partition = TopicPartition(each.topic, each.partition)
        at, put = plan.idle_positions.get(each.group, {}).get(partition), placed.get((each.group, partition))
        if not isinstance(each.translation, NothingRead) or at is None or put is None:
            continue
        if any(at.position == one.written and one.upstream > each.upstream for one in put.possible):
            found.append(
                f"group {each.group} is at {at.position} of {partition} already, where it was put when it was at "
                f"{put.upstream} on {source}, and {source} says {each.upstream}"
            )
    return found


def read_on(plan: MovePlan, moved: Mapping[str, Json]) -> str | None:
    """Return which groups are elsewhere on the source than where they were ``moved`` from, by the facts of that step.

    On the target they would read again what they have read since, or pass what they have gone back to. Also where the
    source does not tell where groups are by now.
    """
    flow = plan.settings.flow
    if (untold := plan.source_problem or named([str(each) for each in plan.untranslated])) != "":
        return f"whether groups have read on {flow.source} since they were moved is not known: {untold}"
    before = grouped(((row["group"], row["topic"], row["partition"]), row["upstream"]) for row in rows_in(moved))
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
    """Return which groups have read nothing on the source, and are on the target behind records copied from it since.

    The log on the target had lost its end, where they stood, and the source's records lie in its place.
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


def reading_and_left_out(plan: MovePlan, put_there: Placed) -> list[str]:
    """Return which groups have positions in topics of the flow and are left out by its filters, as the source tells.

    Those that :func:`left_out` names are not named again.
    """
    flow, named_there = plan.settings.flow, {group for group, _ in put_there}
    seen = {group: f"reads {first_of(topics, _NAMED)}" for group, topics in plan.left_out.items()}
    untold = {group: f"may read topics of {flow} ({why})" for group, why in plan.left_out.problems.items()}
    return [
        f"group {group} {what} on {flow.source}, and groups of {flow} leaves it out (see groups.exclude too), so it "
        f"gets no position on {flow.target}: select it, or set there where it begins before it is started"
        for group, what in sorted((seen | untold).items())
        if group not in named_there
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
