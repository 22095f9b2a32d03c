"""Exceptions that are the same in the process that hears of them: raised in a Spark task, said by the engine."""

from __future__ import annotations

import copyreg
from typing import Any


class Portable(Exception):
    """An exception that survives pickling, whatever its ``__init__`` takes; what it holds must survive it too.

    Python would call the class with what `Exception` was given, which is the text and not what ``__init__`` takes: the
    one that read the answer would fail instead of raising it.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it anew without its ``__init__``, then give it its attributes."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # not in the stubs
