"""What a step measured, as JSON: written plainly, read back typed, file and key named when something is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import PurePath

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
"""A value that JSON can hold; what facts are made of."""


class FactError(ValueError):
    """A fact is missing or of the wrong kind; the message names the file and the key."""


def plain(value: object, where: str = "facts") -> Json:
    """Return ``value`` as plain JSON; numbers of numpy and pandas become Python's, paths become text.

    Raises
    ------
    FactError
        naming the key, for NaN and infinities (which JSON cannot hold) and for anything that is not data.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case Integral():
            return int(value)
        case Real():
            number = float(value)
            if not math.isfinite(number):
                raise FactError(f"{where} is {number}: a fact is a finite number, or null when it was not measured")
            return number
        case PurePath():
            return str(value)
        case Mapping():
            return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise FactError(f"{where} is a {type(value).__name__}: facts are numbers, texts, lists and mappings")


@dataclass(frozen=True, slots=True)
class Facts:
    """One JSON object and where it was found; every accessor names file and key when the value is not as agreed."""

    values: Mapping[str, Json]
    where: str

    @classmethod
    def of(cls, value: Json, where: str) -> Facts:
        """Wrap a JSON object.

        Raises
        ------
        FactError
            if it is not an object.
        """
        if not isinstance(value, dict):
            raise FactError(f"{where}: expected an object, found {value!r}")
        return cls(value, where)

    def __contains__(self, key: str) -> bool:
        """Say whether ``key`` is there and not null."""
        return self.values.get(key) is not None

    def _missing(self, key: str, expected: str) -> FactError:
        found = f"found {self.values[key]!r}" if key in self.values else "it is missing"
        return FactError(f"{self.where}.{key}: expected {expected}, {found}")

    def text(self, key: str) -> str:
        """Return a text."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self._missing(key, "a text")
        return value

    def integer(self, key: str) -> int:
        """Return a whole number."""
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._missing(key, "a whole number")
        return value

    def number(self, key: str) -> float:
        """Return a number."""
        value = self.values.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self._missing(key, "a number")
        return float(value)

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values.get(key)
        if not isinstance(value, bool):
            raise self._missing(key, "true or false")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a text, or None when it is absent or null."""
        return self.text(key) if key in self else None

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number, or None when it is absent or null."""
        return self.integer(key) if key in self else None

    def optional_number(self, key: str) -> float | None:
        """Return a number, or None when it is absent or null."""
        return self.number(key) if key in self else None

    def object(self, key: str) -> Facts:
        """Return the object under ``key``."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self._missing(key, "an object")
        return Facts(value, f"{self.where}.{key}")

    def objects(self, key: str) -> tuple[Facts, ...]:
        """Return the list of objects under ``key``; empty when it is absent."""
        if key not in self:
            return ()
        value = self.values[key]
        if not isinstance(value, list):
            raise self._missing(key, "a list of objects")
        return tuple(Facts.of(item, f"{self.where}.{key}[{index}]") for index, item in enumerate(value))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of texts under ``key``; empty when it is absent."""
        if key not in self:
            return ()
        value = self.values[key]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._missing(key, "a list of texts")
        return tuple(str(item) for item in value)
