"""Going on in the middle of a failover or failback: what should run by now is derived from the journal, and started.

A run may have ended anywhere: its kernel, its runner or its holder was killed. What the journal says has happened has
happened, and is not done again (`done`); what should be running and is not is started again (`restore`); what runs and
should not is a world that somebody else has changed, and is refused with the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mirror.drill.steps.stage import ACTIVE, REPLICATOR, STANDBY, Stage
from mirror.evidence.journal import Entry, Event
from mirror.evidence.refusal import Refused


class Drifted(Refused):
    """What runs is not what the journal says should run; the message names the differences."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What should run at a moment of the failover or the failback, beside the applications.

    Attributes
    ----------
    clusters
        aliases of the clusters that must serve.
    gone
        aliases of the clusters that must not: they were found to be gone, and have not been brought back.
    engine_into
        aliases of the clusters that the replicator writes to; none: it has been stopped, or a later cell starts it.
    """

    clusters: frozenset[str]
    gone: frozenset[str]
    engine_into: tuple[str, ...]


def expected(entries: Sequence[Entry]) -> Expected:
    """Return what should run behind these entries of a journal, once the mirror has run and its copy was verified.

    Between the entry that a cluster is to be killed and the one that it is gone it may run: whoever wrote the first may
    have ended before the deed.
    """
    last = {entry.event: entry.n for entry in entries}
    healed = last.get(Event.FAULT_HEALED, 0)
    return Expected(
        clusters=frozenset({STANDBY} if last.get(Event.FAULT_INJECTED, 0) > healed else {ACTIVE, STANDBY}),
        gone=frozenset({ACTIVE} if last.get(Event.FAULT_DETECTED, 0) > healed else ()),
        engine_into=() if Event.CUT in last else (STANDBY,),
    )


def difference(wanted: Expected, serving: Collection[str]) -> tuple[str, ...]:
    """Return, for people, which clusters run and must not; clusters that do not run can be started."""
    return tuple(
        f"{alias} is running, and the journal says that it is gone"
        for alias in sorted(wanted.gone.intersection(serving))
    )


def done(stage: Stage, event: Event, step: str) -> Entry | None:
    """Return the newest entry that says that this has happened in this step of the run; None if it has not."""
    found = [entry for entry in stage.run.journal.read().entries if (entry.event, entry.step) == (event, step)]
    return found[-1] if found else None


def restore(stage: Stage) -> tuple[str, ...]:
    """Start what should run by now and does not, and return, for people, what that was.

    Applications are started by the steps, which know their parameters.

    Raises
    ------
    Drifted
        if something runs that should not; nothing was started.
    """
    wanted = expected(stage.run.journal.read().entries)
    serving = {alias for alias, cluster in stage.lab.clusters.items() if cluster.is_alive()}
    wrong = difference(wanted, serving)
    if wrong:
        raise Drifted(f"{stage.run.name} cannot be gone on with: {'; '.join(wrong)}: stop it, and resume again")
    started = sorted(wanted.clusters - serving)
    for alias in started:
        stage.start_cluster(alias)
    if wanted.engine_into and not stage.alive(REPLICATOR):
        stage.start_replicator(wanted.engine_into)
        started.append(REPLICATOR)
    return tuple(started)
