"""What should run in the middle of a failover or failback, by the journal alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.drill.steps.layout import Layout
from mirror.drill.steps.resumption import Expected, difference, expected
from mirror.evidence.journal import Event, Journal

BOTH, WEST, NONE = frozenset({"east", "west"}), frozenset({"west"}), frozenset[str]()
EAST = frozenset({"east"})


@pytest.mark.parametrize(
    ("happened", "is_gone", "wanted"),
    [
        ([], False, Expected(BOTH, NONE)),
        # Whoever noted that it kills the cluster may have ended before it did: it may run, and need not.
        ([Event.FAULT_INJECTED], False, Expected(WEST, NONE)),
        ([Event.FAULT_INJECTED], True, Expected(WEST, EAST)),
        ([Event.FAULT_INJECTED, Event.FAULT_HEALED], True, Expected(BOTH, NONE)),
    ],
)
def test_what_should_run_follows_from_what_has_happened(
    tmp_path: Path, happened: list[Event], is_gone: bool, wanted: Expected
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for event in happened:
        journal.append(event, step="failover_drill")

    assert expected(journal.read().entries, Layout(), is_gone=is_gone) == wanted


def test_a_cluster_that_was_gone_and_runs_is_named() -> None:
    gone = Expected(WEST, EAST)
    assert difference(gone, {"west"}) == difference(gone, set()) == ()
    assert difference(gone, BOTH) == ("east is running, and the journal says that it is gone",)
