"""Copies that are closed for writes before they are deleted, to be made anew: who left them so, and opening them again.

Invariants:

(a) That a copy is closed is on record before it is: an engine that leads next opens what one that was killed has left,
    before it copies, also where the file no longer has copies made anew, or no longer chooses the topic.
(b) Whether it may be closed is asked once that is on record: a failover whose cut is confirmed behind that finds it,
    and opens it. It forgets it only when it looks once more, right before the applications are started: what was about
    to close it may have been on its way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirror.kafka import old_topics
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterError, ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.state_record import StateRecord
from mirror.model.state_values import ClosedCopy


class Opened(NamedTuple):
    """What forgets the copies that take records again, and by name why others still do not, with what opens them."""

    records: list[StateRecord]
    problems: dict[str, str]


def open_again(target: Cluster, copies: Iterable[ClosedCopy]) -> Opened:
    """Have the copies take records again; of one that is gone, or another topic by now, nothing is left to do.

    Raises
    ------
    ConnectionFailed
        if the target does not answer.
    """
    opened = Opened([], {})
    for each in copies:
        try:
            old_topics.open_again(target, [each])
            opened.records.append(each.no_record())
        except ConnectionFailed:
            raise
        except ClusterError as refused:
            opened.problems[each.topic] = (
                f"{each.topic} on {target.alias} takes no records: it was closed (max.message.bytes = 0), and opening "
                f"it again is refused: {refused.reason}; to open it: "
                f"{old_topics.opening_command(target.bootstrap_servers, each)}"
            )
    return opened


def closed_notes(flow: Flow, servers: str, state: FlowState) -> tuple[str, ...]:
    """Say which copies take no records while no engine runs; ``servers`` is where the target is."""
    return tuple(
        f"{each.topic} on {flow.target} takes no records (max.message.bytes = 0): an engine closed it to delete it and "
        "make it anew, and ended before it had; the next engine opens it, or: "
        f"{old_topics.opening_command(servers, each)}"
        for _, each in sorted(state.closed.items())
    )
