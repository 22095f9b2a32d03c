"""The instants of a failover in a journal: when a cluster began to serve is written there, all of them are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.evidence.journal import Entry, Event, Journal
from mirror.model.failover_instants import FailoverInstants


def note_service(
    journal: Journal,
    cluster: str,
    first_write_at_ms: int | None,
    groups_reading_at_ms: Mapping[str, int | None],
    *,
    step: str | None = None,
) -> None:
    """Write down when a cluster first accepted a write, and each group first read one; nothing of what has not been."""
    if first_write_at_ms is not None:
        journal.append(Event.FIRST_WRITE, step=step, facts={"cluster": cluster, "first_at_ms": first_write_at_ms})
    for group, at_ms in groups_reading_at_ms.items():
        if at_ms is not None:
            facts = {"cluster": cluster, "group": group, "first_at_ms": at_ms}
            journal.append(Event.GROUP_READING, step=step, facts=facts)


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
