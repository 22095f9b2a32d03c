"""An engine as its monitoring sees it, made for the tests of this folder."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.engine.copy_counters import CopiedSince
from mirror.model.copied import Ages
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.monitoring.metrics import exposition
from mirror.monitoring.view import EngineView, FlowView

FLOW = Flow("east", "west")
ORDERS, COPY = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
NOW_MS = 1_700_000_000_000


def figures(records: int = 100) -> CopiedSince:
    return CopiedSince(records, 5_000, 2.5, 125.0, Ages(4, 40.0, 5.0, 20.0, 7.0), Ages(4, 80.0, 15.0, 30.0, 17.0))


def partition(lag: int | None = 8, **more: Any) -> PartitionStatus:
    end = None if lag is None else 100 + lag
    given: dict[str, Any] = {"lag_seconds": 9.5, "deleted_in_seconds": 600_000.0, **more}
    return PartitionStatus(*ORDERS, 100, end, 90, lag, given.pop("lag_seconds"), **given)


def status(*partitions: PartitionStatus, **more: Any) -> FlowStatus:
    """What the clusters say of a flow that runs, whose engine has reported two seconds ago."""
    given: dict[str, Any] = {"state": "RUNNING", "reasons": (), "reported_ms": NOW_MS - 2_000, **more}
    return FlowStatus(FLOW, given.pop("state"), given.pop("reasons"), partitions or (partition(),), **given)


def flow(**more: Any) -> FlowView:
    """A flow that this engine leads, and that is in order."""
    given: dict[str, Any] = {
        "term": 4,
        "has_reported": True,
        "copies": {ORDERS: COPY},
        "figures": {ORDERS: figures()},
        "checkpoints": {("shop", COPY): Ages(2, 10.0, 3.0, 7.0, 7.0)},
        "rereads": {"shop": 12},
        "status": status(),
        "seen_ms": NOW_MS - 1_000,
        **more,
    }
    return FlowView(FLOW, **given)


def engine(*flows: FlowView, **more: Any) -> EngineView:
    return EngineView("0.1", NOW_MS, flows or (flow(),), **more)


def scraped(view: EngineView) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus reads, by name and labels."""
    found = {}
    for family in text_string_to_metric_families(exposition(view).decode()):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found
