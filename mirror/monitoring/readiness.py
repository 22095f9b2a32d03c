"""Whether an engine is ready: each of its flows is led, and in order, or this engine stands by for one that is."""

from __future__ import annotations

from collections.abc import Iterator

from mirror.control.flow_status import nearest_cliff
from mirror.model.state_values import stopped_reason
from mirror.monitoring.view import EngineView, FlowView


def not_ready(engine: EngineView) -> tuple[str, ...]:
    """Return why an engine is not ready; nothing if it is."""
    stopping = ("the engine stops",) if engine.is_stopping else ()
    return (
        *engine.wrong,
        *stopping,
        *(f"{view.flow}: {why}" for view in engine.flows for why in _reasons(view, engine.cliff_seconds)),
    )


def _reasons(view: FlowView, cliff_seconds: float) -> Iterator[str]:
    status = view.status
    if status is None:
        yield "not looked at yet"
        return
    if status.state == "FAILED" or (view.term is None and status.state == "STOPPED"):
        yield "; ".join(status.reasons)
    if view.term is not None and not view.has_reported:
        yield "no epoch has reported yet"
    stopped = view.stopped if view.term is not None else status.stops
    for source, why in sorted(stopped.items()):
        yield stopped_reason(source, why)
    if (nearest := nearest_cliff(status.partitions, cliff_seconds)) is not None:
        yield nearest.cliff_words
