"""Lists of names and regular expressions, as MirrorMaker's filters read them: Java's dialect, whole names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import regex

from mirror.model.java_regex import PatternError, compile_java

__all__ = ["JAVA_TRIMMED", "ConfigPropertyFilter", "PatternError", "PatternFilter", "PatternList", "parse_list"]

JAVA_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's ``String.trim`` takes away: every character up to the space."""

_COMMA = regex.compile(r"[ \t\n\x0B\f\r]*,[ \t\n\x0B\f\r]*")


def parse_list(text: str) -> tuple[str, ...]:
    """Split a LIST value on commas and the white space around them; a blank value is the empty list (CFG-020).

    A comma inside a regular expression splits it too, as in Java.
    """
    trimmed = text.strip(JAVA_TRIMMED)
    return tuple(_COMMA.split(trimmed)) if trimmed else ()


@dataclass(frozen=True, slots=True)
class PatternList:
    """Names and regular expressions of which one must match a whole name; the empty list matches nothing.

    The patterns are joined with ``|`` before they are compiled, so a flag such as ``(?i)`` reaches those after it.

    Raises
    ------
    PatternError
        if the joined patterns are not a Java regular expression, or one that cannot be carried over exactly.
    """

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Compile once, so that a pattern that cannot be used is refused where it is read."""
        _compiled(self.patterns)

    def matches(self, name: str) -> bool:
        """Tell whether one of the patterns matches the whole of ``name``."""
        compiled = _compiled(self.patterns)
        return compiled is not None and compiled.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class PatternFilter:
    """The default topic and group filter: in the include list, not in the exclude list (SEL-03, CFG-020, CFG-040)."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Compile once, so that a pattern that cannot be used is refused where it is read."""
        _compiled(self.include)
        _compiled(self.exclude)

    def matches(self, name: str) -> bool:
        """Tell whether the filter admits ``name``; the exclude list wins."""
        return PatternList(self.include).matches(name) and not PatternList(self.exclude).matches(name)


@dataclass(frozen=True, slots=True)
class ConfigPropertyFilter:
    """The default filter of topic configs: everything but the exclude list (TCS-03, TCS-04).

    Parameters
    ----------
    source_defaults
        True: a config at its default is set to the source's value; False: the target keeps its own default
    """

    exclude: tuple[str, ...] = ()
    source_defaults: bool = False

    def __post_init__(self) -> None:
        """Compile once, so that a pattern that cannot be used is refused where it is read."""
        _compiled(self.exclude)

    def should_replicate(self, name: str) -> bool:
        """Tell whether the topic config ``name`` is carried to the target."""
        return not PatternList(self.exclude).matches(name)


@lru_cache(maxsize=1024)
def _compiled(patterns: tuple[str, ...]) -> regex.Pattern[str] | None:
    """Return the joined patterns compiled, ``None`` for an empty list, which matches nothing."""
    return compile_java("|".join(patterns)) if patterns else None
