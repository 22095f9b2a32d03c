"""The instants of a failover in a journal: when a cluster began to serve is written there, all of them are read."""

from __future__ import annotations

from collections.abc import Iterable

from mirror.evidence.journal import Entry, Event
from mirror.model.failover_instants import FailoverInstants


def instants_of(entries: Iterable[Entry], fault_at_ms: int, groups: Iterable[str]) -> FailoverInstants:
    """Return when everything happened, by the entries of one failover; of what was done again, the last time.

    Parameters
    ----------
    groups
        those that are to read on the new active cluster.
    """
    last: dict[tuple[Event, str], int] = {}
    for entry in entries:
        if entry.at_ms >= fault_at_ms:
            group = str(entry.facts.get("group", "")) if entry.event is Event.GROUP_READING else ""
            last[entry.event, group] = entry.happened_at_ms
    return FailoverInstants(
        fault_at_ms,
        detected_at_ms=last.get((Event.FAULT_DETECTED, "")),
        fenced_at_ms=last.get((Event.FENCED, "")),
        cut_at_ms=last.get((Event.CUT, "")),
        offsets_applied_at_ms=last.get((Event.OFFSETS_APPLIED, "")),
        first_write_at_ms=last.get((Event.FIRST_WRITE, "")),
        groups_reading_at_ms={group: last.get((Event.GROUP_READING, group)) for group in groups},
    )
