"""Connect's own transforms and predicates, as they treat the byte arrays that MirrorMaker 2 hands them.

Those that need a Struct or a Map are not here: MirrorMaker 2's records have none, so that Java fails at the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import regex

from mirror.model.java_regex import compile_java
from mirror.model.java_replacement import Replacement
from mirror.model.partition import TopicPartition
from mirror.model.transforms.record import Content, R, altered


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Whether the whole name of the topic matches a Java regular expression."""

    pattern: str

    def __post_init__(self) -> None:
        """Compile once, so that a pattern that cannot be used is refused where it is read."""
        _compiled(self.pattern)

    def holds_for(self, topic: str) -> bool:
        """Tell of every record of a topic at once."""
        return _compiled(self.pattern).fullmatch(topic) is not None


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Whether the record has no value; an empty one is a value."""

    def holds(self, record: Content) -> bool:
        """Tell of one record."""
        return record.value is None


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Whether the record has a header of that name."""

    name: str

    def holds(self, record: Content) -> bool:
        """Tell of one record."""
        return any(name == self.name for name, _ in record.headers)


RecordPredicate: TypeAlias = RecordIsTombstone | HasHeaderKey
Predicate: TypeAlias = TopicNameMatches | RecordPredicate


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """Adds a header behind those that are there, also where there is one of that name.

    With its ``ByteArrayConverter``, Java MirrorMaker 2 can write no literal but ``null`` and fails at the first record.
    Here a literal is its text in UTF-8, which is what Connect's ``SimpleHeaderConverter`` writes for text.
    """

    header: str
    content: bytes | None

    def apply(self, record: R, _: TopicPartition) -> R:
        """Return the record with the header."""
        return altered(record, headers=(*record.headers, (self.header, self.content)))


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Takes away all headers of these names."""

    headers: frozenset[str]

    def apply(self, record: R, _: TopicPartition) -> R:
        """Return the record without the headers."""
        return altered(record, headers=tuple(each for each in record.headers if each[0] not in self.headers))


@dataclass(frozen=True, slots=True)
class Filter:
    """Drops every record it is applied to; which those are is said by its predicate."""

    def apply(self, _record: R, _: TopicPartition) -> R | None:
        """Return nothing."""
        return None


@dataclass(frozen=True, slots=True)
class RegexRouter:
    """Sends records to another topic: where the pattern matches the whole name, its *first find* in it is replaced.

    The find may be shorter than the match: with ``e|east.*`` only the ``e`` of ``east.orders`` is replaced, as in Java.
    """

    pattern: str
    replacement: str

    def __post_init__(self) -> None:
        """Read once, so that what cannot be used is refused where it is read."""
        _replacement(self.replacement, self.pattern)

    def route(self, topic: str) -> str:
        """Return where the records of ``topic`` go."""
        compiled = _compiled(self.pattern)
        found = compiled.search(topic)
        if found is None or compiled.fullmatch(topic) is None:
            return topic
        replacement = _replacement(self.replacement, self.pattern).expand(found)
        return topic[: found.start()] + replacement + topic[found.end() :]


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return compile_java(pattern)


@lru_cache(maxsize=256)
def _replacement(text: str, pattern: str) -> Replacement:
    return Replacement.parse(text, pattern)
