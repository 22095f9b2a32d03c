"""Going on in the middle of a failover or failback: what should run by now is derived from the journal, and started.

A run may have ended anywhere: its kernel, its runner or its holder was killed. What the journal says has happened has
happened, and is not done again (`done`); what should be running and is not is started again (`restore`); what runs and
should not is a world that somebody else has changed, and is refused with the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mirror.control.status import FlowObserver, observe
from mirror.drill.steps.layout import Layout
from mirror.drill.steps.stage import REPLICATOR, DrillStage
from mirror.evidence.journal import Entry, Event
from mirror.evidence.refusal import Refused
from mirror.recovery.journal_facts import JournalFacts
from mirror.recovery.run import FAILOVER
from mirror.waiting import wait_until

__all__ = ["restore"]

_LEAD_SECONDS = 120.0


class Drifted(Refused):
    """What runs is not what the journal says should run; the message names the differences."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What should run at a moment of the failover or the failback, beside the applications and the replicator.

    Attributes
    ----------
    clusters
        aliases of the clusters that must serve.
    gone
        aliases of the clusters that must not: they were found to be gone, and have not been brought back.
    """

    clusters: frozenset[str]
    gone: frozenset[str]


def expected(entries: Sequence[Entry], layout: Layout, *, is_gone: bool) -> Expected:
    """Return what should run behind these entries of a run's journal, once the mirror has run and its copy is verified.

    Between the entry that a cluster is to be killed and the one that it is gone it may run: whoever wrote the first may
    have ended before the deed.

    Parameters
    ----------
    is_gone
        whether the procedure has found the active cluster to be gone.
    """
    last = {entry.event: entry.n for entry in entries}
    is_healed = last.get(Event.FAULT_HEALED, 0) > last.get(Event.FAULT_INJECTED, 0)
    is_lost = Event.FAULT_INJECTED in last and not is_healed
    return Expected(
        clusters=frozenset({layout.standby} if is_lost else {layout.active, layout.standby}),
        gone=frozenset({layout.active} if is_lost and is_gone else ()),
    )


def difference(wanted: Expected, serving: Collection[str]) -> tuple[str, ...]:
    """Return, for people, which clusters run and must not; clusters that do not run can be started."""
    return tuple(
        f"{alias} is running, and the journal says that it is gone"
        for alias in sorted(wanted.gone.intersection(serving))
    )


def done(stage: DrillStage, event: Event, step: str) -> Entry | None:
    """Return the newest entry that says that this has happened in this step of the run; None if it has not."""
    found = [entry for entry in stage.run.journal.read().entries if (entry.event, entry.step) == (event, step)]
    return found[-1] if found else None


def restore(stage: DrillStage) -> tuple[str, ...]:
    """Start what should run by now and does not, and return, for people, what that was.

    Applications are started by the steps, which know their parameters.

    Raises
    ------
    Drifted
        if something runs that should not; nothing was started.
    WaitTimeout
        if the replicator does not lead its flows within minutes.
    """
    failover = JournalFacts.of(stage.run.path / FAILOVER, stage.forward)
    is_gone = failover.has(Event.FAULT_DETECTED)
    wanted = expected(stage.run.journal.read().entries, stage.layout, is_gone=is_gone)
    serving = {alias for alias, cluster in stage.lab.clusters.items() if cluster.is_alive()}
    wrong = difference(wanted, serving)
    if wrong:
        raise Drifted(f"{stage.run.name} cannot be resumed: {'; '.join(wrong)}: stop it, and resume again")
    started = sorted(wanted.clusters - serving)
    for alias in started:
        stage.start_cluster(alias)
    if not stage.alive(REPLICATOR):
        # It goes on whatever is lost; what must not be copied is paused, on record.
        process = stage.start_replicator()
        await_leader(stage, wanted.clusters, process.pid)
        started.append(REPLICATOR)
    return tuple(started)


def await_leader(stage: DrillStage, serving: Collection[str], pid: int) -> None:
    """Wait until a replicator leads every flow into a cluster that serves.

    Only it can say how far the one before it had copied, which a cut wants to know.

    Raises
    ------
    WaitTimeout
        if it does not within minutes.
    """
    flows = {each.flow for each in stage.settings.enabled_flows if each.flow.target in serving}

    def unled(observers: Sequence[FlowObserver]) -> list[str]:
        found = [observer.look() for observer in observers]
        return [str(each.flow) for each in found if each.claim is None or each.claim.pid != pid]

    with observe(stage.settings, flows) as observers:
        wait_until(
            lambda: unled(observers),
            f"the {REPLICATOR} to lead {', '.join(sorted(map(str, flows)))}",
            timeout_seconds=_LEAD_SECONDS,
            until=lambda left: not left,
        )
