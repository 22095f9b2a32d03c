"""That a flow is being failed over, or was: on record on its target, where every run of the procedure sees it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from mirror.model.counts import first_of

_MOST_NAMED = 10
#: Of what kind the records of runs are, by the first part of their keys.
FAILOVER_KEY = "failover"
#: The mode of a run of which this version does not understand what is on record.
NOT_UNDERSTOOD = "not understood"


class Phase(StrEnum):
    """How far a run of the procedure has got."""

    UNDER_WAY = "under way"
    """It moves the applications to the target."""
    DONE = "done"
    """They are there."""
    RETURNING = "returning"
    """It moves them back."""


@dataclass(frozen=True, slots=True)
class FailoverEntry:
    """One run of the procedure, as it is on record in the state topic of the flow.

    Attributes
    ----------
    run
        what tells runs apart.
    mode
        how the applications were moved: unplanned, planned, cut-off; or failback.
    where
        the machine and the run directory, in words for people.
    at_ms
        when this was written, in ms since the epoch, by the clock of whoever wrote it.
    fences
        the files in which it stands what denies writes to the source: the run's own, and those of runs given up for it.
    is_beyond_return
        whether the applications are being started where the run moves them, so that nothing is taken back any more.
    started
        of a migration, the groups whose applications are being started there, so that these are not taken back.
    """

    run: str
    mode: str
    phase: Phase
    where: str
    at_ms: int
    fences: tuple[str, ...] = ()
    is_beyond_return: bool = False
    started: tuple[str, ...] = ()

    def starting(self, group: str | None) -> FailoverEntry:
        """Return it when a group's applications are being started where they go; None: all that are left."""
        if group is None:
            return replace(self, is_beyond_return=True)
        return replace(self, started=tuple(dict.fromkeys((*self.started, group))))

    @property
    def has_started(self) -> str:
        """Return, for people, which applications it has begun to start where it moves them; empty: none."""
        if self.is_beyond_return:
            return "the applications"
        groups = first_of(self.started, _MOST_NAMED)
        return f"the applications of {'group' if len(self.started) == 1 else 'groups'} {groups}" if groups else ""

    def at(self, phase: Phase, at_ms: int) -> FailoverEntry:
        """Return it when the run has got so far."""
        return replace(self, phase=phase, at_ms=at_ms)

    def content(self) -> dict[str, Any]:
        """Return the value of its record."""
        optional = ("fences", "is_beyond_return", "started")
        content = {name: value for name, value in asdict(self).items() if value or name not in optional}
        del content["run"]
        return content

    @classmethod
    def of_content(cls, run: str, content: dict[str, Any]) -> FailoverEntry:
        """Return the entry that a record's value holds."""
        return cls(
            run,
            content["mode"],
            Phase(content["phase"]),
            content["where"],
            content["at_ms"],
            tuple(content.get("fences", ())),
            content.get("is_beyond_return", False),
            tuple(content.get("started", ())),
        )


def not_understood(fences: Mapping[bytes, tuple[str, ...]]) -> tuple[FailoverEntry, ...]:
    """Return the runs whose records have these keys of a state topic, and a value that this version does not know.

    Whatever they do, no other run may begin beside them. What they deny, by key as far as that is known, is that of
    the run for which they are given up.
    """
    return tuple(
        FailoverEntry(
            *(" ".join(map(str, json.loads(key)[1:])) or "without a name", NOT_UNDERSTOOD, Phase.UNDER_WAY, "", 0),
            fences=files,
        )
        for key, files in sorted(fences.items())
    )


def in_the_way(
    entries: Iterable[FailoverEntry], run: str, *, returning: bool, given_up: str | None = None
) -> FailoverEntry | None:
    """Return the entry because of which a run must not begin; None: there is none.

    Of several runs that began at the same time the first in the log goes on, for every reader.

    Parameters
    ----------
    entries
        in the order of the log.
    returning
        whether the run is a failback: for that a failover that is done is no hindrance. For others a failback is one,
        also for the run that it undoes.
    given_up
        a run that nobody goes on with any more; one that is done cannot be given up.
    """
    entries = list(entries)
    if not returning:
        # Whose failover is done may look at it again, but must not start applications that are on their way back.
        home = next((each for each in entries if each.phase is Phase.RETURNING and each.run != given_up), None)
        if home is not None:
            return home
    for each in entries:
        if each.run == run:
            return None
        if each.phase is Phase.DONE:
            if not returning:
                return each
        elif each.run != given_up:
            return each
    return None
