"""What is asked of the ends of a flow takes no longer than it must."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.state_values import RunReport
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.state_followers import StateFollowers
from tests.pauses import simulate_pauses

FILE = """
clusters = east, west
east.bootstrap.servers = east:1
west.bootstrap.servers = west:1
east->west.enabled = true
"""


class Died(StateFollowers):
    """On record is an engine that reported a long time ago."""

    def state(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowState:
        return FlowState(run=RunReport("RUNNING", (), 5), claim=Claim("an engine", 1, 7))


def test_what_is_on_record_of_a_flow_whose_engine_has_died_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover of a source that is gone, with its engine, begins by it."""
    waits: list[float] = []
    simulate_pauses(monkeypatch, waits.append)
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    settings = load(file)
    ends = ClusterEnds(settings, settings.enabled_flows[0], None, None, followed=Died())  # type: ignore[arg-type]
    assert ends.copied().report_at_ms == 5
    assert waits == []
