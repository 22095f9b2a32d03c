"""What ticks have to say is said aloud when it changes, not every round."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mirror.control.tick import TickReport, run_tick
from mirror.engine.ticking import Ticking
from mirror.kafka.channel import ConnectionFailed
from mirror.kafka.cluster import ClusterError


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


def test_what_a_cluster_spoils_is_tried_again_and_shown_until_it_works() -> None:
    """CLI-05: no failure of a cluster's ends the thread."""
    stop = threading.Event()
    failures: list[Exception] = [ClusterError("west", "listing", "no"), ConnectionFailed("west, broker 1 hung up")]

    def work(_: int) -> tuple[int, Sequence[str]]:
        if failures:
            raise failures.pop(0)
        stop.set()
        return 1, ()

    kept: list[TickReport] = []
    told: list[str] = []
    Ticking(kept.append, told.append).until(stop, [(0.0, lambda: run_tick("topics", lambda: 5, work))])
    assert [report.problems for report in kept] == [("cluster west: listing: no",), ("west, broker 1 hung up",), ()]
    assert told == ["topics: cluster west: listing: no", "topics: west, broker 1 hung up", "topics: recovered"]
