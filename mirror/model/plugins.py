"""Replication policies and filters of one's own: Python classes named in the properties file (POL-05).

A class is written ``package.module:Class`` and made once, with the properties of its connector if its constructor takes
an argument. It is shipped by name: the module must be found (``PYTHONPATH``) wherever it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from mirror.model.references import Unusable, named
from mirror.model.topics import HEARTBEATS, Generation

__all__ = ["ConfigFilterPlugin", "GroupFilterPlugin", "PolicyPlugin", "TopicFilterPlugin"]

Properties = tuple[tuple[str, str], ...]
"""A connector's properties, in order of their names."""

# A topic cannot have come over more clusters than its name has letters.
_MOST_HOPS = 249


class PolicyPlugin(Protocol):
    """What a class that ``replication.policy.class`` names must have.

    It may have any other method of :class:`mirror.model.topics.ReplicationPolicy`; Java's defaults hold for those that
    it lacks.
    """

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name on the target of a topic of the source."""

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a remote topic was copied from; None if it is no remote topic."""

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a remote topic on the cluster that it was copied from; None if it is no remote topic."""


class TopicFilterPlugin(Protocol):
    """What a class that ``topic.filter.class`` names must have."""

    def should_replicate_topic(self, topic: str) -> bool:
        """Tell whether a topic of the source is copied."""


class GroupFilterPlugin(Protocol):
    """What a class that ``group.filter.class`` names must have."""

    def should_replicate_group(self, group: str) -> bool:
        """Tell whether the positions of a group are translated."""


class ConfigFilterPlugin(Protocol):
    """What a class that ``config.property.filter.class`` names must have."""

    def should_replicate_config_property(self, name: str) -> bool:
        """Tell whether a setting of topics is carried over to their copies."""


@dataclass(frozen=True, slots=True)
class CustomReplicationPolicy:
    """A replication policy of one's own: what its class lacks beside :class:`PolicyPlugin` is as Java has it.

    Raises
    ------
    Unusable
        from every method, if the class raises or returns what it must not.
    """

    reference: str
    properties: Properties
    generation: Generation = Generation.NEWEST

    @property
    def can_detect_cycles(self) -> bool:
        """Whether names say where records came from: yes, unless the class says no."""
        return bool(getattr(self._instance, "can_detect_cycles", True))

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return what the class calls the copy."""
        name = self._call("format_remote_topic", source_alias, topic)
        if not isinstance(name, str) or not name:
            raise self._unusable("format_remote_topic", (source_alias, topic), name, "the name of a topic")
        return name

    def topic_source(self, topic: str) -> str | None:
        """Return the cluster the class says that a topic came from."""
        return self._maybe_text("topic_source", topic)

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name the class says that a topic had there."""
        return self._maybe_text("upstream_topic", topic)

    def original_topic(self, topic: str) -> str:
        """Return the name after undoing every hop."""
        if self._has("original_topic"):
            return self._text("original_topic", topic)
        name = topic
        for _ in range(_MOST_HOPS):
            upstream = self.upstream_topic(name)
            if upstream is None or upstream == name:
                return name
            name = upstream
        raise Unusable(f"{self.reference}: upstream_topic leads from {topic!r} on and on")

    def heartbeats_topic(self) -> str:
        """Return ``heartbeats``, or what the class says."""
        return self._text("heartbeats_topic") if self._has("heartbeats_topic") else HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """Return ``mm2-offset-syncs.<alias>.internal``, or what the class says."""
        has_own = self._has("offset_syncs_topic")
        return self._text("offset_syncs_topic", alias) if has_own else f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return ``<alias>.checkpoints.internal``, or what the class says."""
        return self._text("checkpoints_topic", alias) if self._has("checkpoints_topic") else f"{alias}{_CHECKPOINTS}"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Tell ``heartbeats`` and every copy of it."""
        if self._has("is_heartbeats_topic"):
            return bool(self._call("is_heartbeats_topic", topic))
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Tell a checkpoints topic."""
        if self._has("is_checkpoints_topic"):
            return bool(self._call("is_checkpoints_topic", topic))
        return topic.endswith(_CHECKPOINTS)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Tell a topic MirrorMaker keeps for itself (SEL-04)."""
        if self._has("is_mm2_internal_topic"):
            return bool(self._call("is_mm2_internal_topic", topic))
        if self.generation is Generation.V3_9:
            return topic.endswith(".internal")
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Tell a topic no filter can select (SEL-04)."""
        if self._has("is_internal_topic"):
            return bool(self._call("is_internal_topic", topic))
        if topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic):
            return True
        return self.generation is Generation.V3_9 and topic.endswith(("-internal", ".internal"))

    def require_usable(self, source_alias: str) -> None:
        """Try it on a name.

        Raises
        ------
        Unusable
            if it is not available, or does not do what it must.
        """
        for name in ("format_remote_topic", "topic_source", "upstream_topic"):
            if not self._has(name):
                raise Unusable(f"{self.reference} has no method {name}")
        copy = self.format_remote_topic(source_alias, "orders")
        self.topic_source(copy)
        self.original_topic(copy)

    @property
    def _instance(self) -> Any:
        return made(self.reference, self.properties)

    def _has(self, method: str) -> bool:
        return callable(getattr(self._instance, method, None))

    def _call(self, method: str, *arguments: str) -> Any:
        return call(self.reference, self._instance, method, *arguments)

    def _text(self, method: str, *arguments: str) -> str:
        answer = self._call(method, *arguments)
        if not isinstance(answer, str):
            raise self._unusable(method, arguments, answer, "a str")
        return answer

    def _maybe_text(self, method: str, topic: str) -> str | None:
        answer = self._call(method, topic)
        if answer is not None and not isinstance(answer, str):
            raise self._unusable(method, (topic,), answer, "a str or None")
        return answer

    def _unusable(self, method: str, arguments: tuple[str, ...], answer: Any, wanted: str) -> Unusable:
        asked = ", ".join(map(repr, arguments))
        return Unusable(f"{self.reference}: {method}({asked}) returned {answer!r}, which is not {wanted}")


@dataclass(frozen=True, slots=True)
class CustomFilter:
    """A filter of topics, groups or topic configs of one's own: its class has one ``method``, from name to bool.

    The methods are Java's, spelled as in Python: ``should_replicate_topic``, ``should_replicate_group``,
    ``should_replicate_config_property``.
    """

    reference: str
    properties: Properties
    method: str
    source_defaults: bool = False

    def matches(self, name: str) -> bool:
        """Tell whether the class admits ``name``.

        Raises
        ------
        Unusable
            if it raises.
        """
        return bool(call(self.reference, made(self.reference, self.properties), self.method, name))

    def should_replicate(self, name: str) -> bool:
        """Tell whether the topic config ``name`` is carried to the target."""
        return self.matches(name)

    def require_usable(self) -> None:
        """Make it once.

        Raises
        ------
        Unusable
            if it is not available, or has no such method.
        """
        if not callable(getattr(made(self.reference, self.properties), self.method, None)):
            raise Unusable(f"{self.reference} has no method {self.method}")


_CHECKPOINTS = ".checkpoints.internal"


def call(reference: str, instance: Any, method: str, *arguments: str) -> Any:
    """Call a method of a class of one's own.

    Raises
    ------
    Unusable
        whatever it raises.
    """
    try:
        return getattr(instance, method)(*arguments)
    except Exception as problem:
        asked = ", ".join(map(repr, arguments))
        raise Unusable(f"{reference}: {method}({asked}) raised {type(problem).__name__}: {problem}") from problem


@lru_cache(maxsize=256)
def made(reference: str, properties: Properties) -> Any:
    """Return the one object of a class for these properties.

    Raises
    ------
    Unusable
        if it cannot be made.
    """
    kind = named(reference, "class")
    try:
        return kind(dict(properties)) if _takes_an_argument(kind) else kind()
    except Exception as problem:
        raise Unusable(f"{reference} cannot be made: {type(problem).__name__}: {problem}") from problem


def _takes_an_argument(kind: Callable[..., Any]) -> bool:
    try:
        inspect.signature(kind).bind({})
    except (TypeError, ValueError):
        return False
    return True
