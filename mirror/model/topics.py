"""Topic names: what a copy is called, where a topic came from, and which topics a flow replicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mirror.model.flow import Flow

HEARTBEATS = "heartbeats"


class Generation(StrEnum):
    """Whose selection rules to follow where releases of MirrorMaker 2 differ (VER-17, VER-21).

    ``V3_9`` also refuses user topics ending in ``internal``; ``V4_3`` does not; ``NEWEST`` moreover refuses topics that
    came from the flow's own source.
    """

    V3_9 = "3.9"
    V4_3 = "4.3"
    NEWEST = "newest"


class ReplicationPolicy(Protocol):
    """The naming convention of a flow (POL-05): how a copy is named, and what a name says about its origin."""

    @property
    def can_detect_cycles(self) -> bool:
        """Whether the name of a copy says which cluster it came from."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name on the target of ``topic`` copied from ``source_alias``."""

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster ``topic`` was copied from, ``None`` for a topic that is no copy."""

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name ``topic`` has on the cluster it was copied from, ``None`` for a topic that is no copy."""

    def original_topic(self, topic: str) -> str:
        """Return the name after undoing every hop."""

    def heartbeats_topic(self) -> str:
        """Return the name of the local heartbeats topic."""

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the offset-syncs topic; ``alias`` is the cluster at the other end of the flow."""

    def checkpoints_topic(self, alias: str) -> str:
        """Return the name on the target of the checkpoints topic of groups of cluster ``alias``."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Tell a heartbeats topic, local or copied over any number of hops."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Tell a checkpoints topic."""

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Tell a topic MirrorMaker keeps for itself."""

    def is_internal_topic(self, topic: str) -> bool:
        """Tell a topic no filter can select (SEL-04)."""


class _OwnReplicationPolicy:
    """What both of MirrorMaker's own policies have: the default names, and those of its own topics (POL-03)."""

    __slots__ = ()
    separator: str
    internal_separator_enabled: bool
    generation: Generation

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return ``<source alias><separator><topic>``."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the text before the first separator, ``None`` with fewer than two pieces; trailing empty ones drop."""
        return _first_of_several_pieces(topic, self.separator)

    def upstream_topic(self, topic: str) -> str | None:
        """Return ``topic`` without its alias and separator, ``None`` for a topic that is no copy."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name after undoing every hop that shows in the name."""
        return _original_topic(topic, self.upstream_topic)

    def heartbeats_topic(self) -> str:
        """Return ``heartbeats``, never affected by the separator."""
        return HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """Return ``mm2-offset-syncs.<alias>.internal``, with the internal separator."""
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, alias: str) -> str:
        """Return ``<alias>.checkpoints.internal``, with the internal separator."""
        return f"{alias}{self._checkpoints_suffix}"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Tell ``heartbeats`` and every copy of it."""
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Tell a name ending like a checkpoints topic, with something before it or not."""
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Tell a topic MirrorMaker keeps for itself (SEL-04)."""
        if self.generation is Generation.V3_9:
            return topic.endswith(self._internal_suffix)
        return (topic.startswith("mm2") and topic.endswith(self._internal_suffix)) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Tell a topic no filter can select: Kafka's, MirrorMaker's and, for generation 3.9, Connect's (SEL-04)."""
        if topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic):
            return True
        return self.generation is Generation.V3_9 and topic.endswith(("-internal", ".internal"))

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_suffix}"


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy(_OwnReplicationPolicy):
    """Copies are named ``<source alias><separator><topic>`` (CFG-005, CFG-006).

    Parameters
    ----------
    separator
        between alias and topic; used literally (CFG-006)
    internal_separator_enabled
        False: checkpoints and offset-syncs names keep ``.`` whatever the separator (CFG-007)
    generation
        whose reading of "internal" holds (SEL-04)
    """

    separator: str = "."
    internal_separator_enabled: bool = True
    generation: Generation = Generation.NEWEST

    @property
    def can_detect_cycles(self) -> bool:
        """A copy carries the alias of its source, so cycles show in the name."""
        return True


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(_OwnReplicationPolicy):
    """Copies keep their name; only names ending in ``heartbeats`` follow the default rules (POL-01 to POL-03).

    Parameters
    ----------
    source_alias
        taken as the source of every topic; ``None`` when no alias is configured (POL-02)
    """

    separator: str = "."
    internal_separator_enabled: bool = True
    source_alias: str | None = None
    generation: Generation = Generation.NEWEST

    @property
    def can_detect_cycles(self) -> bool:
        """A copy looks like any other topic, so cycles do not show in the name (SEL-09)."""
        return False

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return ``topic``, or the default name for what looks like a heartbeats topic."""
        if _looks_like_heartbeats(topic):
            return _OwnReplicationPolicy.format_remote_topic(self, source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        """Return the configured source alias, or the default answer for what looks like a heartbeats topic."""
        return _OwnReplicationPolicy.topic_source(self, topic) if _looks_like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return ``topic``, or the default answer for what looks like a heartbeats topic."""
        return _OwnReplicationPolicy.upstream_topic(self, topic) if _looks_like_heartbeats(topic) else topic


class NameFilter(Protocol):
    """Something that admits or refuses names, such as :class:`mirror.model.patterns.PatternFilter`."""

    def matches(self, name: str) -> bool:
        """Tell whether ``name`` is admitted."""


def is_cycle(topic: str, *, policy: ReplicationPolicy, flow: Flow, generation: Generation = Generation.NEWEST) -> bool:
    """Tell whether copying ``topic`` over ``flow`` would send it back to where it has been (SEL-05).

    The newest generation also refuses a topic that came from the flow's own source, where the policy can tell. Of an
    alias with the separator in it, only the beginning is read as the source of a copy (POL-04), so that records would
    come back; it is looked for at the beginning of the name as well.
    """
    refused = {flow.target}
    if generation is Generation.NEWEST and policy.can_detect_cycles:
        refused.add(flow.source)
    separator = policy.separator if isinstance(policy, DefaultReplicationPolicy) else ""
    parted = tuple(f"{alias}{separator}" for alias in refused if separator and separator in alias)
    name, seen = topic, set[str]()
    while (source := policy.topic_source(name)) is not None and name not in seen:
        if source in refused or name.startswith(parted):
            return True
        seen.add(name)
        upstream = policy.upstream_topic(name)
        if upstream is None or upstream == name:
            return False
        name = upstream
    return False


def replicates(
    topic: str,
    *,
    policy: ReplicationPolicy,
    topic_filter: NameFilter,
    flow: Flow,
    heartbeats_replication: bool,
    generation: Generation = Generation.NEWEST,
) -> bool:
    """Tell whether ``flow`` copies ``topic``, a name on its source (SEL-02).

    The filter admits it, or it is a heartbeats topic and those are replicated; it is not internal; it is no cycle.
    """
    admitted = topic_filter.matches(topic) or (heartbeats_replication and policy.is_heartbeats_topic(topic))
    if not admitted or policy.is_internal_topic(topic):
        return False
    return not is_cycle(topic, policy=policy, flow=flow, generation=generation)


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)


def _first_of_several_pieces(text: str, separator: str) -> str | None:
    """Return the first piece of a Java split, ``None`` when the split yields fewer than two pieces."""
    pieces = text.split(separator) if separator else list(text)
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces[0] if len(pieces) >= 2 else None


def _original_topic(topic: str, upstream_of: Callable[[str], str | None]) -> str:
    upstream = upstream_of(topic)
    while upstream is not None and upstream != topic:
        topic, upstream = upstream, upstream_of(upstream)
    return topic
