"""What ticks have to say is said aloud when it changes, not every round."""

from __future__ import annotations

from mirror.control.tick import TickReport
from mirror.engine.ticking import Ticking


def test_problems_and_notes_are_told_once_and_a_recovery_too() -> None:
    """ACL-07: a note leaves a report in order."""
    told: list[str] = []
    ticking = Ticking(lambda _: None, told.append)
    reports = [
        TickReport("t", 1, 0, ("a problem",), ("a note",)),
        TickReport("t", 2, 0, ("a problem", "another"), ("a note",)),
        TickReport("t", 3, 0, (), ("a note",)),
        TickReport("t", 4, 0, (), ("a note",)),
    ]
    assert [ticking.once(lambda report=report: report) for report in reports] == [False, False, True, True]  # type: ignore[misc]
    assert told == ["t: a problem", "t: a note", "t: another", "t: recovered"]
