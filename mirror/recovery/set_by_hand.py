"""Positions of groups that were set, and not read up to: what lies before them may be unread, and is named.

Consumers commit with a position the leader epoch of the last record that they have read (KIP-320); tools that set
positions do not, nor does a mirror, which has on record where it put a group. So a position without a leader epoch that
no mirror has written was set by somebody, or committed by a client that tells no epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from mirror.control.groups import GroupAction
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.recovery.group_moves import MovePlan

Placed: TypeAlias = Mapping[tuple[str, TopicPartition], Placement]
"""Where a flow has put groups on its target, by group and partition."""

_WHY = "no reader has committed that (it bears no leader epoch): it was set by hand, or by a client that sends none"
_WHY_OF_MANY = "no reader has committed them (they bear no leader epoch): set by hand, or by a client that sends none"


def set_ahead(plan: MovePlan, flow: Flow, put_there: Placed, put_home: Placed) -> list[str]:
    """Return, for people, the positions on either side of a move back that nobody may have read up to.

    The reason, which is the same of all, is said once.

    Parameters
    ----------
    flow
        the flow back.
    put_there, put_home
        where the flow there has put groups on the standby, and the flow back on the old cluster.
    """
    carried = [
        f"group {each.group} is at {each.upstream} of {each.source} on {flow.source}, "
        f"{_since(put_there, each.group, each.source)}"
        for each in plan.positions
        if each.source is not None
        and each.leader_epoch is not None
        and each.leader_epoch < 0
        and each.upstream > max(_put_at(put_there, each.group, each.source))
    ]
    kept = [
        f"group {each.group} is at {each.present.position} of {each.partition} on {flow.target} already, and "
        f"{flow.source} says {each.wanted.position}"
        for each in plan.decisions
        if each.action is GroupAction.SKIP_REWIND
        and each.present is not None
        and each.present.leader_epoch < 0
        and each.present.position not in _put_at(put_home, each.group, each.partition)
    ]
    found = [*carried, *kept]
    if len(found) > 1:
        return [f"of {counted(len(found), 'position')} {_WHY_OF_MANY}: {', '.join(found)}"]
    return [f"{each}: {_WHY}" for each in found]


def _put_at(placed: Placed, group: str, partition: TopicPartition) -> set[int]:
    """Return where the flow may have put a group: two positions while it is not known whether the later is written."""
    found = placed.get((group, partition))
    return {0} if found is None else {each.written for each in found.possible}


def _since(placed: Placed, group: str, partition: TopicPartition) -> str:
    found = placed.get((group, partition))
    return "where nothing had put it" if found is None else f"and was put at {found.written} by the failover"
