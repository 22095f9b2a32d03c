"""Flows that copy a topic under an unchanged name: whose copies each of them leaves out, and what would go round.

The name of a topic does not say where its records came from (SEL-09, WANT-17), but the producer id of every batch says
which flow wrote it into the cluster it is read from: that is all a flow knows, the last way a record came. By that it
decides, for all of what came that way.

Invariants:

(a) The producer id tells the last way alone, so what would go round in a loop of unchanged names is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mirror.model.flow import Flow


@dataclass(frozen=True, slots=True)
class ReplicationEdge:
    """A flow that copies the topic in question to one of the same name.

    Attributes
    ----------
    forwards
        whether it may copy on what other flows wrote into its source.
    """

    flow: Flow
    forwards: bool = True


def left_out(flow: Flow, edges: Collection[ReplicationEdge]) -> frozenset[str]:
    """Return the clusters X whose flow X->source has written what ``flow`` does not copy on.

    What came from the target is there already, and what came from a cluster with a flow to the target arrives there by
    that one. All else goes on, if the flow forwards at all.
    """
    forwards = all(edge.forwards for edge in edges if edge.flow == flow)
    direct = {edge.flow.source for edge in edges if edge.flow.target == flow.target}
    inbound = {edge.flow.source for edge in edges if edge.flow.target == flow.source}
    return frozenset({flow.target} | {alias for alias in inbound if alias in direct or not forwards})


def find_loops(edges: Collection[ReplicationEdge]) -> tuple[tuple[str, ...], ...]:
    """Return the walks, as clusters in order, that bring records back to where they have been; each begins anywhere."""
    return tuple(dict.fromkeys(walk for walk in _walks(edges) if walk[-1] in walk[:-1]))


def flows_of(walk: tuple[str, ...]) -> frozenset[Flow]:
    """Return the flows of a walk from where it is to where it comes back."""
    start = walk.index(walk[-1])
    return frozenset(Flow(*step) for step in zip(walk[start:], walk[start + 1 :], strict=False))


def _walks(edges: Collection[ReplicationEdge]) -> Iterator[tuple[str, ...]]:
    """Yield every walk a record can take, its beginnings too; one that comes back goes no further."""
    onward = {edge.flow: [each.flow for each in edges if each.flow.source == edge.flow.target] for edge in edges}
    refused = {edge.flow: left_out(edge.flow, edges) for edge in edges}
    walks: list[tuple[str, ...]] = [(edge.flow.source, edge.flow.target) for edge in edges]
    while walks:
        walk = walks.pop()
        yield walk
        if walk[-1] in walk[:-1]:
            continue
        walks += [(*walk, flow.target) for flow in onward[Flow(walk[-2], walk[-1])] if walk[-2] not in refused[flow]]
