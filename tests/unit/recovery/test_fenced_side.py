"""Who writes to the old cluster of a flow that is failed over, and what that makes of the flow's state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.control.status import FlowStatus
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.recovery.fenced_side import (
    FencedSide,
    Seen,
    WrittenBehind,
    entry_to_watch,
    with_fenced_side,
    written_behind,
)
from mirror.recovery.recent_writers import RecentWriter

FLOW = Flow("east", "west")
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
DONE = FailoverEntry("run", "unplanned", Phase.DONE, "host:/run", 7_000)
CUT = Pauses(cut=PauseWish("w", None, True, "mirror failover", 5_000, is_cut=True))
WRITER = RecentWriter(ORDERS, 12, 3, 9_000, 100)
STATUS = FlowStatus(FLOW, "PAUSED", (), (), pauses=CUT, failovers=(DONE,))


def test_what_bears_a_time_behind_the_cut_or_grows_was_written_after_it() -> None:
    seen = Seen({ORDERS: 20}, {ORDERS: 30, BILLS: 5}, {ORDERS: 30, BILLS: 9}, (WRITER,))
    assert written_behind(seen) == (
        WrittenBehind(BILLS, 5, 9, True),
        WrittenBehind(ORDERS, 20, 30, False, (WRITER,)),
    )
    assert written_behind(Seen({}, {ORDERS: 30}, {ORDERS: 30})) == ()


@pytest.mark.parametrize(
    ("status", "since"),
    [
        (STATUS, 5_000),
        (replace(STATUS, pauses=Pauses()), 7_000),
        (replace(STATUS, failovers=()), None),
        (replace(STATUS, failovers=(replace(DONE, phase=Phase.UNDER_WAY),)), 5_000),
        # Its applications have not been stopped yet.
        (replace(STATUS, pauses=Pauses(), failovers=(replace(DONE, phase=Phase.UNDER_WAY),)), None),
        # They are led home.
        (replace(STATUS, failovers=(DONE, replace(DONE, run="home", phase=Phase.RETURNING))), None),
    ],
)
def test_a_cluster_is_watched_from_the_cut_to_the_way_home(status: FlowStatus, since: int | None) -> None:
    found = entry_to_watch(status)
    assert (found[1] if found else None) == since


def test_who_writes_makes_a_flow_degraded_and_is_named() -> None:
    side = FencedSide(FLOW, DONE, 5_000, (WrittenBehind(ORDERS, 20, 30, True, (WRITER,)),))
    found = with_fenced_side(STATUS, side)
    assert found.state == "DEGRADED"
    assert found.reasons[0].startswith(
        "somebody writes to east, which was failed over (1970-01-01T00:00:05Z), and nobody copies it: orders-0 from 20 to "
        "29, growing (orders-0: producer 12 (epoch 3)"
    )
    assert with_fenced_side(replace(STATUS, state="STOPPED"), side).state == "STOPPED"
    (row,) = side.as_json()["still_written"]
    assert (row["topic"], row["partition"], row["from"], row["to"], row["growing"]) == ("orders", 0, 20, 30, True)
    (producer,) = row["producers"]
    assert (producer["producer_id"], producer["epoch"], producer["client_id"]) == (12, 3, None)


def test_a_cluster_that_is_gone_or_silent_is_no_reason() -> None:
    gone = with_fenced_side(STATUS, FencedSide(FLOW, DONE, 5_000, problem="east does not answer"))
    assert (gone.state, gone.reasons) == ("PAUSED", ())
    assert gone.notes[0].endswith("is not known: east does not answer")
    silent = with_fenced_side(STATUS, FencedSide(FLOW, DONE, 5_000))
    assert (silent.state, "nobody was seen writing to east" in silent.notes[0]) == ("PAUSED", True)
    assert with_fenced_side(STATUS, None) is STATUS
