"""Samples of a flow, made for the tests of this folder."""

from __future__ import annotations

from typing import Any

from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.history.samples import Sample
from mirror.model.flow import Flow

FLOW = Flow("east", "west")
NOW_MS = 1_700_000_000_000


def partition(number: int = 0, position: int = 100, end: int | None = 110, **more: Any) -> PartitionStatus:
    lag = None if end is None else end - position
    given: dict[str, Any] = {"topic": "orders", "lag_seconds": 2.0, **more}
    return PartitionStatus(given.pop("topic"), number, position, end, position, lag, given.pop("lag_seconds"), **given)


def status(*partitions: PartitionStatus, **more: Any) -> FlowStatus:
    given: dict[str, Any] = {"state": "RUNNING", "reasons": (), **more}
    return FlowStatus(given.pop("flow", FLOW), given.pop("state"), given.pop("reasons"), partitions, **given)


def sample(seconds: float = 0.0, *partitions: PartitionStatus, **more: Any) -> Sample:
    """A look at the flow so many seconds after `NOW_MS`."""
    return Sample(NOW_MS + int(1000 * seconds), status(*(partitions or (partition(),)), **more))
