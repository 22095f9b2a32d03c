"""One truth for the instants of a failover: the journal tells when each happened, whenever it was noticed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirror.evidence.failover_journal import instants_of
from mirror.evidence.journal import Event, Journal
from mirror.model.failover_instants import FailoverInstants

STEPS = (Event.FAULT_INJECTED, Event.FAULT_DETECTED, Event.FENCED, Event.CUT, Event.OFFSETS_APPLIED)


class Clock:
    """Seconds since 1970, as the test says."""

    seconds = 0

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Journal:
    """A failover: a fault at second 10, and a link of the chain every second."""
    journal = Journal(tmp_path / "journal.jsonl", now=clock)
    for clock.seconds, event in enumerate(STEPS, start=10):
        journal.append(event)
    return journal


def serving(journal: Journal, first_write_at_ms: int | None, **reading_at_ms: int) -> None:
    """What the ledger says of the standby, as the procedure writes it down once it is seen."""
    if first_write_at_ms is not None:
        journal.append(Event.FIRST_WRITE, step="first write", facts={"first_at_ms": first_write_at_ms})
    for group, at_ms in reading_at_ms.items():
        journal.append(Event.GROUP_READING, step="first reads", facts={"group": group, "first_at_ms": at_ms})


def test_what_was_noticed_later_counts_when_it_happened(journal: Journal, clock: Clock) -> None:
    clock.seconds = 30
    serving(journal, 15_100, billing=16_200, audit=17_300)

    found = instants_of(journal.read().entries, 10_000, ["audit", "billing"])
    assert found == FailoverInstants(
        10_000, 11_000, 12_000, 13_000, 14_000, 15_100, {"audit": 17_300, "billing": 16_200}
    )
    assert found.seconds == pytest.approx(7.3)


def test_what_has_not_come_about_breaks_the_chain(journal: Journal) -> None:
    serving(journal, None, billing=16_200)
    found = instants_of(journal.read().entries, 10_000, ["audit", "billing"])

    assert (found.first_write_at_ms, found.groups_reading_at_ms["audit"], found.seconds) == (None, None, None)


def test_a_group_that_is_not_of_this_failover_does_not_count(journal: Journal) -> None:
    serving(journal, 15_000, billing=16_000, others=90_000)

    assert instants_of(journal.read().entries, 10_000, ["billing"]).groups_reading_at_ms == {"billing": 16_000}


def test_what_was_done_again_counts_the_last_time_and_what_was_before_the_fault_never(
    journal: Journal, clock: Clock
) -> None:
    clock.seconds = 20
    journal.append(Event.OFFSETS_APPLIED)
    assert instants_of(journal.read().entries, 10_000, []).offsets_applied_at_ms == 20_000
    assert instants_of(journal.read().entries, 12_500, []).fenced_at_ms is None
