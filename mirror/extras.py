"""The extras of the distribution: packages that only some commands need, installed by ``mirrorbook[NAME]``."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

_OF_AN_EXTRA = re.compile(r"(?P<package>[\w.-]+)[^;]*;.*extra == ['\"](?P<extra>[\w-]+)['\"]")


def extra_of(module: str) -> str | None:
    """Return the extra that brings a module which is not installed; None if none of ours does.

    A module is called as its package but for dashes and capitals; so are all of our extras.
    """
    package = module.partition(".")[0].lower().replace("_", "-")
    try:
        asked = requires("mirrorbook") or []
    except PackageNotFoundError:
        return None
    matches = (_OF_AN_EXTRA.match(each) for each in asked)
    return next((found["extra"] for found in matches if found and found["package"] == package), None)
