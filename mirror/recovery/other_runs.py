"""What other runs of the procedure are, and what becomes of them, in words for people."""

from __future__ import annotations

from mirror.control.gaps import iso_time
from mirror.model.failover import NOT_UNDERSTOOD, FailoverEntry, Phase
from mirror.model.flow import Flow


def failover_entry_message(entry: FailoverEntry, flow: Flow) -> str:
    """Return, for people, why another run of the procedure must not begin, and what to do."""
    when = iso_time(entry.at_ms)
    if entry.mode == NOT_UNDERSTOOD:
        return (
            f"the run {entry.run} of {flow} is on record in a way that this version does not understand: go on with "
            f"the version that wrote it, or, if nobody carries it out any more, give it up by --give-up {entry.run}"
        )
    if entry.phase is Phase.DONE:
        return f"{flow} is failed over already ({entry.mode}, {when}, {entry.where}): mirror failback is the way back"
    what = "a failback" if entry.phase is Phase.RETURNING else f"a failover ({entry.mode})"
    begun = f", and has begun to start {entry.has_started} where they go" if entry.has_started else ""
    return (
        f"{what} of {flow} is under way since {when}{begun}: {entry.where}; go on with it by --run-directory, or, "
        f"if that is lost and nobody carries it out any more, give it up by --give-up {entry.run}"
    )
