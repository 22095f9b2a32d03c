"""A person's word that groups of a migration are at work where they were moved to, though nobody saw them read.

It is kept in the run's journal; the migration that is resumed goes on by it.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Collection

from mirror.evidence.journal import Event
from mirror.evidence.refusal import Refused
from mirror.evidence.run_directory import RunDirectory
from mirror.recovery.migration import Word, kept_groups
from mirror.recovery.run import MIGRATION

_AT_WORK = "said_to_be_at_work"


class NotOfTheMigration(Refused):
    """The run moves no such group; says which it moves."""


def check(run: RunDirectory, groups: Collection[str]) -> None:
    """Look whether the run moves these groups.

    Raises
    ------
    NotOfTheMigration
        if it does not move one of them.
    """
    moved = kept_groups(run.path / MIGRATION) or ()
    if unknown := sorted(set(groups) - set(moved)):
        which = f"its groups are {', '.join(moved)}" if moved else "it has moved none"
        raise NotOfTheMigration(f"{run.name} moves no group {', '.join(unknown)}: {which}")


def give(run: RunDirectory, groups: Collection[str]) -> None:
    """Write down that whoever runs this process says so of groups.

    Raises
    ------
    NotOfTheMigration
        if the run does not move one of them: nothing is written then.
    """
    check(run, groups)
    for group in groups:
        run.journal.append(Event.NOTE, facts={_AT_WORK: group, "by": _user()})


def given(run: RunDirectory) -> dict[str, Word]:
    """Return the last word on each group."""
    notes = (each for each in run.journal.read().entries if each.event is Event.NOTE and _AT_WORK in each.facts)
    return {str(each.facts[_AT_WORK]): Word(str(each.facts["by"]), each.at_ms) for each in notes}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
