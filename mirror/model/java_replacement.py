r"""Java's ``Matcher.replaceFirst``: the small language of replacements (``$1``, ``${name}``, ``\``), by its rules."""

from __future__ import annotations

from dataclasses import dataclass

import regex

from mirror.model.java_regex import PatternError, compile_java, group_names

_NAME = regex.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")
_DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement that is known to fit its pattern: literal text and numbers of groups, in order.

    Java finds out what is wrong with one only when something matches; here it is found out when it is read.
    """

    parts: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str, pattern: str) -> Replacement:
        """Read ``text`` as a replacement for what ``pattern`` matches.

        Raises
        ------
        PatternError
            if either is one that Java refuses, or cannot be carried over.
        """
        groups, names = compile_java(pattern).groups, group_names(pattern)
        parts: list[str | int] = []
        at = 0
        while at < len(text):
            char = text[at]
            at += 1
            if char == "\\":
                if at == len(text):
                    raise PatternError(text, at, "the character to be escaped is missing")
                parts.append(text[at])
                at += 1
            elif char == "$":
                number, at = _group(text, at, groups, names)
                parts.append(number)
            else:
                parts.append(char)
        return cls(tuple(parts))

    def expand(self, match: regex.Match[str]) -> str:
        """Return what takes the place of ``match``; a group that took no part in it is empty."""
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)


def _group(text: str, at: int, groups: int, names: dict[str, int]) -> tuple[int, int]:
    """Read a reference behind its ``$``: as many digits as still name a group of the pattern, at least one."""
    if text[at : at + 1] == "{":
        named = _NAME.match(text, at)
        if named is None:
            raise PatternError(text, at, "a reference to a named group is not closed, or its name is none")
        if named[1] not in names:
            raise PatternError(text, at, f"the pattern has no group {named[1]}")
        return names[named[1]], named.end()
    if at == len(text) or text[at] not in _DIGITS:
        raise PatternError(text, at, "a group reference needs a number or a {name}")
    number = int(text[at])
    if number > groups:
        raise PatternError(text, at, f"the pattern has no group {number}")
    at += 1
    while at < len(text) and text[at] in _DIGITS and number * 10 + int(text[at]) <= groups:
        number = number * 10 + int(text[at])
        at += 1
    return number, at
