"""Addresses that are exchanged in the file are noticed by where the state of flows lies."""

from __future__ import annotations

import pytest

from mirror.control.exchanged_clusters import exchanged
from mirror.model.flow import Flow

EAST, WEST = "mm2-state.east.internal", "mm2-state.west.internal"


@pytest.mark.parametrize(
    ("on_source", "on_target", "is_noticed"),
    [
        (set(), set(), False),
        (set(), {EAST}, False),
        ({WEST}, {EAST}, False),
        # Exchanged: each has what is to be on the other.
        ({EAST}, {WEST}, True),
        ({EAST}, set(), True),
        # The name was another cluster's before, and the flow has run since.
        ({EAST}, {EAST}, False),
    ],
)
def test_the_state_of_flows_from_a_cluster_of_that_name_on_the_cluster_itself(
    on_source: set[str], on_target: set[str], is_noticed: bool
) -> None:
    found = exchanged(Flow("east", "west"), on_source, on_target)
    assert (found is not None) is is_noticed
    if found is not None:
        assert f"east has {EAST}" in found
        assert "addresses of east and west exchanged" in found
