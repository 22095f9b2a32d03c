"""What a key of a properties file is: its type, default, importance, checks, and the settings that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import regex

from mirror.model.patterns import JAVA_TRIMMED, parse_list

Check = Callable[[Any], str | None]
"""Says what is wrong with a value of the right type, ``None`` if nothing is."""


class Type(StrEnum):
    """Java's types of a configuration value."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - a word of Java's, not a secret


class Importance(StrEnum):
    """How much a key matters, as Kafka's own documentation ranks them."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Required(StrEnum):
    """Stands for a default where there is none."""

    REQUIRED = "NO_DEFAULT"


REQUIRED: Final = Required.REQUIRED
PYTHON: Final = "python:"
"""What the name of a function or class of one's own starts with."""
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_WHOLE_NUMBER = regex.compile(r"[+-]?\p{Nd}+")
_CLASS_NAME = regex.compile(r"[\p{L}_$][\p{L}\p{N}_$]*(\.[\p{L}_$][\p{L}\p{N}_$]*)*")
_DECIMAL = regex.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")


class BadValue(ValueError):
    """A value that is not of its key's type, or not allowed; the message says what is."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One key.

    Parameters
    ----------
    default
        of the Python type that belongs to ``type``; ``REQUIRED`` where the key must be given
    check
        what else must hold for a value; without one, that no item of a list is empty (VER-18), and that a class name is
        one
    meaning
        what it does, in a sentence; of MirrorMaker's own keys Kafka's documentation says it
    of_a_flow
        of a key of the engine's own: whether a flow may have it differently
    field
        the field that has the key's value: in a flow's settings, or in the engine's for a key of the engine's own that
        no flow has differently; ``acls.groups`` is the field ``groups`` of their part ``acls``. Empty where resolving
        makes a field of several keys
    convert
        what makes the field of the value
    live
        whether an engine takes another value in while it runs: control plane and epochs look the fields up each time
        they begin anew. All else is held on to by somebody: connections, producers, Spark, records of the state topic
    shapes
        fields of a flow that resolving makes of this key and others
    """

    name: str
    type: Type
    default: Any
    importance: Importance = Importance.LOW
    check: Check | None = None
    meaning: str = ""
    of_a_flow: bool = False
    field: str = ""
    convert: Callable[[Any], Any] = lambda value: value
    live: bool = False
    shapes: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Read a value as Java does: surrounding white space does not count.

        Raises
        ------
        BadValue
            saying what the value should be.
        """
        value = _parsed(self.type, text)
        check = self.check or _ALWAYS_CHECKED.get(self.type)
        if check is not None and (problem := check(value)) is not None:
            raise BadValue(f"{text!r} is not allowed; {problem}")
        return value

    def value(self, values: Mapping[str, str]) -> Any:
        """Return what ``values`` say about this key, or the default.

        Raises
        ------
        BadValue
            for a value that cannot be used, or a required key that is missing.
        """
        if self.name in values:
            return self.parse(values[self.name])
        if self.default is REQUIRED:
            raise BadValue("is missing; give it a value")
        return self.default


def _parsed(kind: Type, text: str) -> Any:
    trimmed = text.strip(JAVA_TRIMMED)
    match kind:
        case Type.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise BadValue(f"{text!r} is neither true nor false; write one of them")
            return trimmed.lower() == "true"
        case Type.SHORT | Type.INT | Type.LONG:
            return _whole_number(kind, trimmed)
        case Type.DOUBLE:
            if _DECIMAL.fullmatch(trimmed) is None:
                raise BadValue(f"{text!r} is not a number; write one, such as 0.5")
            return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
        case Type.LIST:
            return parse_list(text)
        case Type.STRING | Type.CLASS | Type.PASSWORD:
            return trimmed


def _whole_number(kind: Type, trimmed: str) -> int:
    largest = 2 ** (_BITS[kind] - 1)
    if _WHOLE_NUMBER.fullmatch(trimmed) is None or not -largest <= int(trimmed) < largest:
        raise BadValue(
            f"{trimmed!r} is not a number of type {kind}; write a whole number of at most {_BITS[kind]} bits"
        )
    return int(trimmed)


def at_least(least: int) -> Check:
    """Require a number of at least this."""
    return lambda value: None if value >= least else f"it must be at least {least}"


def between(least: float, most: float) -> Check:
    """Require a number from one to another, both included."""
    return lambda value: f"it must be from {least} to {most}" if value < least or value > most else None


def one_of(*allowed: str, ignore_case: bool = False) -> Check:
    """Require one of these texts."""
    known = {text.upper() for text in allowed} if ignore_case else set(allowed)

    def check(value: str) -> str | None:
        given = value.upper() if ignore_case else value
        return None if given in known else f"it must be one of {', '.join(allowed)}"

    return check


def some_of(*allowed: str) -> Check:
    """Require a list of some of these texts."""

    def check(values: tuple[str, ...]) -> str | None:
        return None if values and set(values) <= set(allowed) else f"each must be one of {', '.join(allowed)}"

    return check


def available(*classes: str) -> Check:
    """Allow these classes of Java, which have a counterpart here."""
    return lambda value: None if value in classes else f"of such classes there are here {', '.join(classes)}"


def available_or_own(*classes: str) -> Check:
    """Allow these classes, and those of one's own: ``python:package.module:Class``."""

    def check(value: str) -> str | None:
        if value in classes or own_class(value) is not None:
            return None
        return (
            f"of such classes there are here {', '.join(classes)}; one of your own is written "
            f"{PYTHON}package.module:Class"
        )

    return check


def own_class(value: str) -> str | None:
    """Return ``package.module:Class`` if a value names a class of one's own; a Java class has no colon in its name."""
    return value.removeprefix(PYTHON) if ":" in value.removeprefix(PYTHON) else None


def _class_name(value: str) -> str | None:
    return None if _CLASS_NAME.fullmatch(value) else "it must be the full name of a class"


def not_empty(value: str) -> str | None:
    """Require some text."""
    return None if value else "it must not be empty"


def no_empty_item(values: tuple[str, ...]) -> str | None:
    """Require text in every item of a list."""
    return "no item of the list may be empty" if "" in values else None


def unique(values: tuple[str, ...]) -> str | None:
    """Require that the items of a list differ."""
    return None if len(set(values)) == len(values) else "no name may appear twice"


def printable_name(value: str) -> str | None:
    """Require a name without control characters."""
    return None if value and regex.search(r"\p{Cc}", value) is None else "it must be a name without control characters"


_ALWAYS_CHECKED: dict[Type, Check] = {Type.LIST: no_empty_item, Type.CLASS: _class_name}


def seconds(milliseconds: int) -> float:
    """Return seconds of a key in milliseconds."""
    return milliseconds / 1000


def by_name(*groups: Iterable[Definition]) -> dict[str, Definition]:
    """Return definitions by their keys."""
    return {definition.name: definition for group in groups for definition in group}
