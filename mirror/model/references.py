"""Functions and classes of one's own, named in the properties file and found by importing their module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any


class Unusable(Exception):
    """What is named is not available, or does not do what it must; the message says what."""


@lru_cache(maxsize=256)
def named(reference: str, kind: str = "function") -> Callable[..., Any]:
    """Return the function, or what other ``kind`` of thing is to be called, that is named ``package.module:name``.

    Raises
    ------
    Unusable
        if it is not available.
    """
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        raise Unusable(f"{reference!r} is not written package.module:{kind}")
    try:
        module = importlib.import_module(module_name)
    except Exception as problem:  # a module runs as it is imported, so that it may raise anything
        message = f"{type(problem).__name__}: {problem}"
        raise Unusable(
            f"the module {module_name} cannot be imported ({message}); put its folder into PYTHONPATH"
        ) from problem
    found = getattr(module, name, None)
    if not callable(found):
        raise Unusable(f"the module {module_name} has no {kind} {name}")
    return found  # type: ignore[no-any-return]
