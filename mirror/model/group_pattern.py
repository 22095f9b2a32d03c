"""What is said where no group's whole id matches a pattern: the same words in every command."""

from __future__ import annotations

import re
from collections.abc import Collection


def no_group(pattern: str, groups: Collection[str], where: str) -> str:
    """Return that no group matches, and how a pattern is written that means the group of exactly this name.

    Parameters
    ----------
    groups
        the ids of those that pass the flow's filters.
    where
        where they were looked for, as in ``on east``.
    """
    message = f"no group {where} passes the flow's filters and matches {pattern}"
    if pattern in groups and not re.fullmatch(pattern, pattern):
        return f"{message}; a group of exactly this name exists: escape it as '{re.escape(pattern)}'"
    return message
