"""Patterns of groups: one that names some of them, and what is said where no group's whole id matches one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_WITH_MEANING = re.compile(r"[.^$*+?{}\[\]\\|()]")


def pattern_of(groups: Iterable[str]) -> str:
    """Return the pattern of exactly these groups, for ``--groups`` and for people.

    Unlike ``re.escape`` it leaves alone what has a meaning within brackets only: ``-`` is in many a name.
    """
    return "|".join(_WITH_MEANING.sub(r"\\\g<0>", group) for group in groups)


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
        return f"{message}; a group of exactly this name exists: escape it as '{pattern_of([pattern])}'"
    return message
