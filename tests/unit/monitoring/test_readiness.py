"""Whether an engine is ready: as the leader of its flows, or as a standby in order."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.monitoring.readiness import not_ready
from tests.unit.monitoring.views import NOW_MS, ORDERS, engine, flow, partition, status


def test_a_leader_whose_flows_are_in_order_is_ready() -> None:
    assert not_ready(engine()) == ()
    throttled = status(state="DEGRADED", reasons=("throttled by west",))
    assert not_ready(engine(flow(status=throttled))) == (), "it copies"
    assert not_ready(engine(flow(status=status(state="PAUSED")))) == (), "somebody wants it so"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"status": None}, "not looked at yet"),
        ({"seen_ms": NOW_MS - 301_000}, "last looked at 301 s ago"),
        ({"has_reported": False}, "no epoch has reported yet"),
        ({"stopped": {ORDERS: "a gap"}}, "orders-3 is stopped: a gap"),
        ({"status": status(state="FAILED", reasons=("west does not answer",))}, "west does not answer"),
        (
            {"status": status(partition(lag_seconds=9_000.0, deleted_in_seconds=3_000.0))},
            "the oldest unmirrored record of orders-3 is deleted in 50 min 0 s at this rate",
        ),
    ],
)
def test_a_leader_says_why_it_is_not_ready(more: dict[str, Any], reason: str) -> None:
    assert not_ready(engine(flow(**more))) == (f"east->west: {reason}",)


def test_the_cliff_is_near_by_the_limit_that_is_set() -> None:
    near = status(partition(lag_seconds=9_000.0, deleted_in_seconds=3_000.0))
    assert not_ready(engine(flow(status=near), cliff_seconds=2_999.0)) == ()


def test_a_standby_is_ready_as_long_as_an_engine_leads_the_flow() -> None:
    def standing_by(**more: Any) -> tuple[str, ...]:
        return not_ready(engine(flow(term=None, has_reported=False, status=status(**more))))

    assert standing_by() == ()
    assert standing_by(state="STOPPED", reasons=("the engine last reported 20 s ago",)) == (
        "east->west: the engine last reported 20 s ago",
    )
    assert standing_by(stops={ORDERS: "a gap"}) == ("east->west: orders-3 is stopped: a gap",)


def test_an_engine_that_stops_or_has_lost_a_part_is_not_ready() -> None:
    assert not_ready(engine(is_stopping=True)) == ("the engine stops",)
    assert not_ready(engine(wrong=("leader east->west has ended",))) == ("leader east->west has ended",)
