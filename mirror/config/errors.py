"""What is wrong with a properties file, said so that a person can mend it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class ConfigError(Exception):
    """A properties file that cannot be used.

    ``str()`` has a line for each mistake: ``FILE:LINE: KEY: what is wrong; what to do``.

    Parameters
    ----------
    path
        the file; ``None`` for properties that come from no file
    line
        the line the key stands on, counted from 1; ``None`` when the key is missing
    key
        the key the message is about; ``None`` when it is about the whole file
    message
        what is wrong and what to do
    others
        what else is wrong with the file, behind that
    """

    def __init__(
        self,
        path: Path | None,
        line: int | None,
        key: str | None,
        message: str,
        others: tuple[ConfigError, ...] = (),
    ) -> None:
        super().__init__(path, line, key, message, others)
        self.path = path
        self.line = line
        self.key = key
        self.message = message
        self.others = others

    @property
    def mistakes(self) -> tuple[ConfigError, ...]:
        """Return each mistake by itself."""
        first = ConfigError(self.path, self.line, self.key, self.message) if self.others else self
        return (first, *self.others)

    def __str__(self) -> str:
        """Return ``FILE:LINE: KEY: message`` of each mistake, leaving out what is not known."""
        place = "" if self.path is None else str(self.path)
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        own = ": ".join(part for part in (place, self.key, self.message) if part)
        return "\n".join((own, *map(str, self.others)))


ErrorAbout = Callable[[str, str], ConfigError]
"""Makes the error to raise from a connector's or client's key and what is wrong with it."""


class Mistakes:
    """What is wrong with parts of a file that can be looked at one by one; each mistake counts once."""

    def __init__(self) -> None:
        self._found: dict[str, ConfigError] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Look at one part: what is wrong with it is kept, and the others are looked at all the same."""
        try:
            yield
        except ConfigError as wrong:
            self.note(wrong.mistakes)

    def note(self, mistakes: Iterable[ConfigError]) -> None:
        """Keep what was found otherwise."""
        for each in mistakes:
            self._found.setdefault(str(each), each)

    def refuse(self) -> None:
        """Refuse the file if anything is wrong with it.

        Raises
        ------
        ConfigError
            with all mistakes, by line; those of no line stand last.
        """
        by_line = sorted(self._found.values(), key=lambda each: math.inf if each.line is None else each.line)
        if by_line:
            first, *others = by_line
            raise ConfigError(first.path, first.line, first.key, first.message, tuple(others))
