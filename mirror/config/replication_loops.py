"""The flows of a file that copy a topic under an unchanged name, and those among them that would not come to an end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import permutations, starmap

from mirror.config.engine_keys import MirroredRecords
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.settings import FlowSettings
from mirror.model.flow import Flow
from mirror.model.loops import ReplicationEdge, find_loops, flows_of
from mirror.model.patterns import PatternFilter

# A name like any other, for flows that say that they copy everything.
_ANY_TOPIC = "orders"
_EVERYTHING = ".*"


def edges_of(topic: str, flows: Collection[FlowSettings]) -> tuple[ReplicationEdge, ...]:
    """Return the ways of a topic through ``flows``, as far as its name does not change."""
    return tuple(
        ReplicationEdge(each.flow, each.mirrored_records is not MirroredRecords.SKIP)
        for each in flows
        if each.keeps_name(topic)
    )


def loop_problem(topic: str, flow: Flow, edges: Sequence[ReplicationEdge]) -> str | None:
    """Return why ``flow`` cannot copy ``topic``: its records would go round; None if they would not."""
    for walk in find_loops(edges):
        if flow in flows_of(walk):
            return f"{topic} is not copied: {_described(walk, edges)}"
    return None


def require_no_loop(config: MirrorMakerConfig, flows: Sequence[FlowSettings]) -> None:
    """Refuse flows that would send round whatever topic there is, or one that the file names.

    Raises
    ------
    ConfigError
        at the flow that closes the loop.
    """
    for topic in dict.fromkeys(name for each in flows for name in _named(each)):
        edges = edges_of(topic, flows)
        for walk in find_loops(edges):
            last = Flow(walk[-2], walk[-1])
            message = f"the records of {topic} would go round: {_described(walk, edges)}"
            raise config.file.error(f"{last}.enabled", message)


def _named(each: FlowSettings) -> Sequence[str]:
    include = each.topic_filter.include if isinstance(each.topic_filter, PatternFilter) else (_EVERYTHING,)
    return [_ANY_TOPIC if name == _EVERYTHING else name for name in include]


def _described(walk: Sequence[str], edges: Sequence[ReplicationEdge]) -> str:
    loop = walk[walk.index(walk[-1]) :]
    present = {edge.flow for edge in edges}
    lacking = [f"{flow}.enabled" for flow in starmap(Flow, permutations(sorted(set(loop)), 2)) if flow not in present]
    first, second = (f"{Flow(*ends)}.mirror.mirrored.records = skip" for ends in (loop[:2], loop[1:3]))
    return (
        f"with unchanged names nothing says on {walk[-2]} which of them came from {walk[-1]}, by {'->'.join(loop)}; "
        f"connect every two of these clusters directly ({', '.join(lacking)} = true), or let two of the flows copy "
        f"only what is produced on their own source ({first}; {second})"
    )
