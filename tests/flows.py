"""What copy tasks are told of a flow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirror.copier.work import FlowWork
from mirror.model.flow import Flow

EAST_WEST = Flow("east", "west")

_PLAIN = FlowWork(
    flow=EAST_WEST,
    source_client={},
    target_client={},
    state_topic="mm2-state.east.internal",
    offsets_topic="mm2-offsets.east.internal",
    offsets_partitions=25,
    syncs_topic=None,
    syncs_on_source=True,
    offset_lag_max=100,
    read_committed=False,
    from_latest=False,
    writers=frozenset(),
)


def flow_work(**known: Any) -> FlowWork:
    """A flow with no addresses, no syncs and no writers, but for what is given."""
    return replace(_PLAIN, **known)
