"""What is told of a flow between epochs."""

from __future__ import annotations

from mirror.copier.work import Throttled
from mirror.engine.standing import FlowStanding
from tests.unit.control.builders import flow_settings


def test_throttling_is_told_by_cluster_and_only_as_long_as_it_lasts() -> None:
    standing = FlowStanding(flow_settings(), lambda: None)
    standing.take_throttled([Throttled(0, 120), Throttled(0, 340)], 5.0)
    assert standing.reasons() == (
        "throttled by west for 340 ms of the last 5.0 s: a quota of that cluster holds the copy back",
    )
    standing.take_throttled([Throttled(0, 0)], 5.0)
    assert standing.reasons() == ()
