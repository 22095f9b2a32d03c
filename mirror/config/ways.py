"""The flows of a file that copy a topic under an unchanged name, and those among them that would not come to an end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import permutations, starmap
from typing import Protocol

from mirror.config.definitions import MirroredRecords
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.model.flow import Flow
from mirror.model.loops import Way, find_loops, flows_of
from mirror.model.patterns import PatternFilter
from mirror.model.topics import NameFilter

# A name like any other, for flows that say that they copy everything.
_ANY_TOPIC = "orders"
_EVERYTHING = ".*"


class Copier(Protocol):
    """The settings of a flow, as far as rings are concerned."""

    @property
    def flow(self) -> Flow:
        """Its ends."""
        ...

    @property
    def mirrored_records(self) -> MirroredRecords:
        """What it does with what others mirrored into its source."""
        ...

    @property
    def topic_filter(self) -> NameFilter:
        """Which topics it is to copy."""
        ...

    def keeps_name(self, topic: str) -> bool:
        """Whether it copies a topic to one of the same name."""
        ...


def ways_of(topic: str, flows: Collection[Copier]) -> tuple[Way, ...]:
    """Return the ways of a topic through ``flows``, as far as its name does not change."""
    return tuple(
        Way(each.flow, each.mirrored_records is not MirroredRecords.SKIP) for each in flows if each.keeps_name(topic)
    )


def ring_problem(topic: str, flow: Flow, ways: Sequence[Way]) -> str | None:
    """Return why ``flow`` cannot copy ``topic``: its records would go round; None if they would not."""
    for walk in find_loops(ways):
        if flow in flows_of(walk):
            return f"{topic} is not copied: {_described(walk, ways)}"
    return None


def require_no_ring(config: MirrorMakerConfig, flows: Sequence[Copier]) -> None:
    """Refuse flows that would send round whatever topic there is, or one that the file names.

    Raises
    ------
    ConfigError
        at the flow that closes the ring.
    """
    for topic in dict.fromkeys(name for each in flows for name in _named(each)):
        ways = ways_of(topic, flows)
        for walk in find_loops(ways):
            last = Flow(walk[-2], walk[-1])
            message = f"the records of {topic} would go round: {_described(walk, ways)}"
            raise config.file.error(f"{last}.enabled", message)


def _named(each: Copier) -> Sequence[str]:
    include = each.topic_filter.include if isinstance(each.topic_filter, PatternFilter) else (_EVERYTHING,)
    return [_ANY_TOPIC if name == _EVERYTHING else name for name in include]


def _described(walk: Sequence[str], ways: Sequence[Way]) -> str:
    ring = walk[walk.index(walk[-1]) :]
    present = {way.flow for way in ways}
    lacking = [f"{flow}.enabled" for flow in starmap(Flow, permutations(sorted(set(ring)), 2)) if flow not in present]
    first, second = (f"{Flow(*ends)}.mirror.mirrored.records = skip" for ends in (ring[:2], ring[1:3]))
    return (
        f"with unchanged names nothing says on {walk[-2]} which of them came from {walk[-1]}, by {'->'.join(ring)}; "
        f"connect every two of these clusters directly ({', '.join(lacking)} = true), or let two of the flows copy "
        f"only what is produced on their own source ({first}; {second})"
    )
