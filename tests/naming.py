"""Replication policies and filters of one's own, as a user would write them, for the tests."""

from __future__ import annotations

from collections.abc import Mapping

NOT_A_CLASS = 7


class Suffixed:
    """Copies are called ``<topic>@<alias>``; needs no base class, and no settings."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic}@{source_alias}"

    def topic_source(self, topic: str) -> str | None:
        _, at, alias = topic.rpartition("@")
        return alias if at else None

    def upstream_topic(self, topic: str) -> str | None:
        name, at, _ = topic.rpartition("@")
        return name if at else None


class Regional(Suffixed):
    """Takes a region from the file, and unlike Java's defaults calls heartbeats pulse."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._region = properties["replication.policy.region"]

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return super().format_remote_topic(f"{self._region}-{source_alias}", topic)

    def heartbeats_topic(self) -> str:
        return "pulse"


class Unchanged(Suffixed):
    """Renames nothing."""

    can_detect_cycles = False

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic

    def topic_source(self, topic: str) -> str | None:
        return None


class Endless(Suffixed):
    """Leads from a name to another for ever."""

    def upstream_topic(self, topic: str) -> str | None:
        return topic + "x"


class Mute(Suffixed):
    """Names no copy."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return ""


class Angry(Suffixed):
    """Raises."""

    def topic_source(self, topic: str) -> str | None:
        raise LookupError("no such region")


class Short:
    """Admits names of up to so many letters; for topics, groups and settings alike."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._most = int(properties.get("letters", "6"))

    def should_replicate_topic(self, topic: str) -> bool:
        return len(topic) <= self._most

    should_replicate_group = should_replicate_topic
    should_replicate_config_property = should_replicate_topic
