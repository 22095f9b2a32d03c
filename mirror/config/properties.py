"""A properties file as ``java.util.Properties`` reads it, with the line each key stands on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from mirror.config.errors import ConfigError, Mistakes
from mirror.config.secrets import is_secret, secret_key_in

_BLANKS = " \t\f"
_COMMENT_MARKS = ("#", "!")
_NATURAL_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_KEY_AND_VALUE = re.compile(r"(?P<key>(?:[^\\ \t\f=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value; ``line`` is where the key starts, counted from 1."""

    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """The entries of a file in their order; of a repeated key the last one holds."""

    path: Path | None
    entries: tuple[Entry, ...]

    @property
    def values(self) -> dict[str, str]:
        """Return the value of every key."""
        return {entry.key: entry.value for entry in self.entries}

    def line_of(self, key: str) -> int | None:
        """Return the line of the entry that holds for ``key``, ``None`` if the file does not have it."""
        return next((entry.line for entry in reversed(self.entries) if entry.key == key), None)

    def error(self, key: str | None, message: str) -> ConfigError:
        """Return the error to raise about ``key``, with the file and the line of the key."""
        return ConfigError(self.path, None if key is None else self.line_of(key), key, message)

    @classmethod
    def of(cls, values: Mapping[str, str], path: Path | None = None) -> PropertiesFile:
        """Return properties that were not read from text; every entry counts as a line."""
        return cls(path, tuple(Entry(key, value, line) for line, (key, value) in enumerate(values.items(), start=1)))


def parse(text: str, path: Path | None = None) -> PropertiesFile:
    r"""Read ``text`` as ``java.util.Properties.load`` does: continuations, escapes, separators, comments.

    Raises
    ------
    ConfigError
        for each malformed ``\uXXXX``, the one thing Java refuses; and for each secret whose line a backslash too many
        has made part of another value, which messages would show.
    """
    mistakes, entries = Mistakes(), []
    for line, natural in _logical_lines(text):
        with mistakes.noted():
            entry = _entry(line, "".join(natural), path)
            _refuse_joined_secrets(entry, natural, path)
            entries.append(entry)
    mistakes.refuse()
    return PropertiesFile(path, tuple(entries))


def read(path: Path) -> PropertiesFile:
    """Read a file as MirrorMaker 2 does: ISO-8859-1, so other characters must be escaped.

    Raises
    ------
    ConfigError
        if the file cannot be read, or is malformed.
    """
    try:
        text = path.read_bytes().decode("iso-8859-1")
    except OSError as problem:
        message = f"cannot be read: {problem.strerror}; give the path of a readable file"
        raise ConfigError(path, None, None, message) from problem
    return parse(text, path)


def _entry(line: int, logical: str, path: Path | None) -> Entry:
    match = _KEY_AND_VALUE.fullmatch(logical)
    if match is None:  # the pattern matches every text
        raise AssertionError(f"not a logical line: {logical!r}")
    try:
        return Entry(javaproperties.unescape(match["key"]), javaproperties.unescape(match["value"]), line)
    except javaproperties.InvalidUEscapeError as problem:
        message = f"malformed escape {problem.escape!r}; write \\u and four hexadecimal digits"
        raise ConfigError(path, line, None, message) from problem


def _refuse_joined_secrets(entry: Entry, natural: Sequence[str], path: Path | None) -> None:
    if is_secret(entry.key):
        return
    for number, content in enumerate(natural[1:], entry.line):
        key = secret_key_in(content)
        if key is not None and key.start() == 0:
            message = (
                f"line {number} ends with a backslash, so that {key[0]} of line {number + 1} has no effect and is part "
                "of this value; remove that backslash"
            )
            raise ConfigError(path, entry.line, entry.key, message)


def _logical_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the first line number of each logical line and its natural lines, to be joined; comments are left out.

    Not the library's reader: Java still looks for a comment after a line of nothing but ``\``, and takes such a line at
    the end of the file for an empty key (unless ``\r\n`` follows it).
    """
    number, started, joined, open_ended = 0, 0, list[str](), False
    for number, natural in enumerate(_NATURAL_LINE.finditer(text), start=1):
        content = natural[0].rstrip("\r\n").lstrip(_BLANKS)
        if not any(joined):
            if content.startswith(_COMMENT_MARKS):
                open_ended = False
                continue
            started, joined = number, []
        open_ended = _ends_in_odd_backslashes(content)
        joined.append(content[:-1] if open_ended else content)
        if not open_ended and any(joined):
            yield started, joined
            joined = []
    if any(joined) or (open_ended and not text.endswith("\r\n")):
        yield started, joined


def _ends_in_odd_backslashes(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1
