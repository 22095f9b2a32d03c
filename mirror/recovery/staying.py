"""What stays on a standby at a failback: groups at work in topics of the standby's own alone.

A topic is the standby's own if it is no copy, and the old cluster has, and had, none of its name. Whoever was moved
there has been put into copies or topics of the old names; who has never been in any of them was there before, or has
begun there. Under unchanged names nothing tells such topics from those that change sides, and nothing stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.evidence.facts import Json
from mirror.kafka.cluster import Cluster
from mirror.model.counts import first_of
from mirror.recovery.step_facts import mappings_of, named
from mirror.recovery.steps import Result

_FACT = "staying"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Staying:
    """Groups that stay where they are, with the topics that they read.

    Attributes
    ----------
    topics
        those of them that nobody reads who changes sides: who writes to them need not be stopped.
    """

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()

    def facts(self) -> dict[str, Json]:
        """Return what the facts of a step hold of them; :meth:`of` reads it."""
        rows: list[Json] = [
            {"group": group, "topics": list(topics), "apart": [each for each in topics if each in self.topics]}
            for group, topics in sorted(self.groups.items())
        ]
        return {_FACT: rows} if rows else {}

    @classmethod
    def of(cls, facts: Mapping[str, Json]) -> Staying:
        """Read it from the facts of a step; nobody, if they tell of nobody."""
        rows = mappings_of(facts.get(_FACT))
        groups = {str(row["group"]): _texts(row["topics"]) for row in rows}
        return cls(groups, frozenset(topic for row in rows for topic in _texts(row["apart"])))

    def without(self, groups: Collection[str]) -> Staying:
        """Return the same, but for some groups: what these read is not apart."""
        moving = {group: self.groups[group] for group in groups if group in self.groups}
        left = {group: topics for group, topics in self.groups.items() if group not in moving}
        return Staying(left, self.topics.difference(*moving.values()))

    def beside(self, found: Result, cluster: str) -> Result:
        """Return what a step has found, and who stays."""
        if not self.groups:
            return found
        return replace(found, detail=f"{found.detail}; {self.message(cluster)}", facts={**found.facts, **self.facts()})

    def message(self, cluster: str) -> str:
        """Return, for people, who stays; there is somebody."""
        who = named([f"group {group} ({first_of(topics, _NAMED)})" for group, topics in sorted(self.groups.items())])
        return f"at work in topics of {cluster}'s own alone, and staying there, neither waited for nor moved: {who}"


NOBODY = Staying()


def find_staying(
    home: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    names_there: Collection[str],
    put_there: Collection[tuple[str, str]],
) -> Staying:
    """Return who is at work on the source of the flow home in topics of its own alone.

    Parameters
    ----------
    names_there
        the topics of the old cluster that are on record.
    put_there
        the groups that were put on the standby, with the topics they were put into.

    Raises
    ------
    ClusterError
        if a cluster does not answer.
    """
    if not home.policy.can_detect_cycles:
        return NOBODY
    with Cluster.connect(clusters[home.flow.source]) as source:
        listed = [each.group for each in source.groups() if each.is_consumer_group]
        read = {
            group: {each.topic for each in positions} | {topic for name, topic in put_there if name == group}
            for group, positions in source.positions_of_groups(listed).items()
            if positions and not positions.problems
        }
        no_copies = {
            topic
            for topics in read.values()
            for topic in topics - set(names_there)
            if home.policy.topic_source(topic) not in clusters
        }
        with Cluster.connect(clusters[home.flow.target]) as target:
            there = target.topics(no_copies)
        own = no_copies - (there.keys() | there.problems.keys())
        alone = sorted(group for group, topics in read.items() if topics <= own)
        states = source.describe_groups(alone)
    groups = {group: tuple(sorted(read[group])) for group in alone if group in states and states[group].is_active}
    return staying_of(groups, {group: topics for group, topics in read.items() if group not in alone})


def staying_of(groups: Mapping[str, tuple[str, ...]], others: Mapping[str, Collection[str]]) -> Staying:
    """Return these groups with what they read, and what of it none of the others does."""
    read_elsewhere = frozenset(topic for topics in others.values() for topic in topics)
    return Staying(groups, frozenset(each for topics in groups.values() for each in topics) - read_elsewhere)


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
