"""What is wrong with a properties file, said so that a person can mend it."""

from __future__ import annotations

from pathlib import Path


class ConfigError(Exception):
    """A properties file that cannot be used; ``str()`` is ``FILE:LINE: KEY: what is wrong; what to do``.

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
    """

    def __init__(self, path: Path | None, line: int | None, key: str | None, message: str) -> None:
        super().__init__(path, line, key, message)
        self.path = path
        self.line = line
        self.key = key
        self.message = message

    def __str__(self) -> str:
        """Return ``FILE:LINE: KEY: message``, leaving out what is not known."""
        place = "" if self.path is None else str(self.path)
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        return ": ".join(part for part in (place, self.key, self.message) if part)
