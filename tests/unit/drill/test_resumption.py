"""What should run in the middle of a failover or failback, by the journal alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.drill.steps.resumption import Expected, difference, expected
from mirror.evidence.journal import Event, Journal

BOTH, WEST, NONE = frozenset({"east", "west"}), frozenset({"west"}), frozenset[str]()
EAST = frozenset({"east"})


@pytest.mark.parametrize(
    ("happened", "wanted"),
    [
        ([], Expected(BOTH, NONE, ("west",))),
        # Whoever noted that it kills the cluster may have ended before it did: it may run, and need not.
        ([Event.FAULT_INJECTED], Expected(WEST, NONE, ("west",))),
        ([Event.FAULT_INJECTED, Event.FAULT_DETECTED], Expected(WEST, EAST, ("west",))),
        ([Event.FAULT_INJECTED, Event.FAULT_DETECTED, Event.FENCED, Event.CUT], Expected(WEST, EAST, ())),
        ([Event.FAULT_INJECTED, Event.FAULT_DETECTED, Event.CUT, Event.FAULT_HEALED], Expected(BOTH, NONE, ())),
    ],
)
def test_what_should_run_follows_from_what_has_happened(
    tmp_path: Path, happened: list[Event], wanted: Expected
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for event in happened:
        journal.append(event, step="failover_drill")

    assert expected(journal.read().entries) == wanted


def test_a_cluster_that_was_gone_and_runs_is_named() -> None:
    gone = Expected(WEST, EAST, ())
    assert difference(gone, {"west"}) == difference(gone, set()) == ()
    assert difference(gone, BOTH) == ("east is running, and the journal says that it is gone",)
