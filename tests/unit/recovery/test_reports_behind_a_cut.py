"""Since when a loss is not known where the flow is cut, and its engine reports on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.control.gaps import iso_time
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_values import RunReport
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.failover import loss_of
from mirror.recovery.state_followers import StateFollowers

FILE = """
clusters = east, west
east.bootstrap.servers = east:1
west.bootstrap.servers = west:1
east->west.enabled = true
"""
HOUR = 3_600_000
CLEAN, CUT, NOW = 10 * HOUR, 12 * HOUR, 14 * HOUR


def ends_of(tmp_path: Path, state: FlowState) -> ClusterEnds:
    class Known(StateFollowers):
        def state(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowState:
            return state

    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    settings = load(file)
    return ClusterEnds(settings, settings.enabled_flows[0], None, None, followed=Known())  # type: ignore[arg-type]


@pytest.mark.parametrize("untroubled", [CLEAN, None])
def test_behind_the_cut_an_engine_s_report_says_nothing_of_where_logs_end(
    tmp_path: Path, untroubled: int | None
) -> None:
    """Since two hours before the cut a leader was missing; cut two hours ago; the engine lives, and reports PAUSED.

    What is paused, and final, is not among its reasons (flow_messages.reasons), and of it nobody looks where its logs
    end: the loss was said to have begun a minute before its last report, of just now.
    """
    cut = PauseWish("cut", None, True, "mirror failover", CUT, is_cut=True)
    state = FlowState(wishes=Pauses((), None, cut), run=RunReport("PAUSED", (), NOW, untroubled_at_ms=untroubled))
    state.positions[TopicPartition("orders", 0)] = Position(5, 5, 0, True)
    ends = ends_of(tmp_path, state)
    copied = ends.copied()
    told = str(loss_of(ends, copied, ask_source=False))
    assert f"a minute at most before {iso_time(NOW)}, the engine's last report" not in told
