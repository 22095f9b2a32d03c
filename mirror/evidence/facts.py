"""Records of ours as JSON: written plainly, read back typed, file and key named when something is wrong.

A record is a dataclass whose fields are the keys. `plain` writes it, `Facts.read` reads it back; a field that may be
absent has a default, and keys that no field has are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from pathlib import PurePath
from typing import TypeVar

import msgspec

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
"""A value that JSON can hold; what facts are made of."""

R = TypeVar("R")


class FactError(ValueError):
    """A fact is missing or of the wrong kind; the message names the file and the key."""


def plain(value: object, where: str = "facts") -> Json:
    """Return ``value`` as plain JSON; records become objects, numbers of numpy and pandas Python's, paths text.

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
        case msgspec.Struct():
            return plain(msgspec.to_builtins(value), where)
        case PurePath():
            return str(value)
        case Mapping():
            return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return plain({each.name: getattr(value, each.name) for each in fields(value)}, where)
    raise FactError(f"{where} is a {type(value).__name__}: facts are numbers, texts, lists and mappings")


def plain_object(record: object) -> dict[str, Json]:
    """Return a record, or a mapping, as a JSON object."""
    document = plain(record)
    assert isinstance(document, dict), "a record becomes an object"
    return document


@dataclass(frozen=True, slots=True)
class Facts:
    """One JSON object and where it was found."""

    values: Mapping[str, Json]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Facts:
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

    def read(self, kind: type[R]) -> R:
        """Return the record of this kind that it is.

        Raises
        ------
        FactError
            naming the key that is missing or wrong.
        """
        return _read(self.values, kind, self.where)

    def get(self, key: str, kind: type[R]) -> R | None:
        """Return what stands under ``key``, None if nothing does.

        Raises
        ------
        FactError
            naming the key, if it is of another kind.
        """
        return _read(self.values[key], kind, f"{self.where}.{key}") if key in self else None


def _read(value: object, kind: type[R], where: str) -> R:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as wrong:
        what, _, place = str(wrong).partition(" - at ")
        raise FactError(f"{where}{place.strip('`').removeprefix('$')}: {what}") from None
