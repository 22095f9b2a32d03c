"""Whether an engine is ready: each of its flows is led, and in order, or this engine stands by for one that is."""

from __future__ import annotations

from collections.abc import Iterator

from mirror.control.flow_status import nearest_cliff
from mirror.model.state_values import stopped_reason
from mirror.monitoring.view import EngineView, FlowView

# A look takes longer than that nowhere: clusters that do not answer are told as such.
_OLD_SECONDS = 300.0


def not_ready(engine: EngineView) -> tuple[str, ...]:
    """Return why an engine is not ready; nothing if it is."""
    stopping = ("the engine stops",) if engine.is_stopping else ()
    return (
        *engine.wrong,
        *stopping,
        *(f"{view.flow}: {why}" for view in engine.flows for why in _reasons(view, engine)),
    )


def _reasons(view: FlowView, engine: EngineView) -> Iterator[str]:
    status = view.status
    if status is None or view.seen_ms is None:
        yield "not looked at yet"
        return
    if (unseen_seconds := (engine.at_ms - view.seen_ms) / 1000) > _OLD_SECONDS:
        yield f"last looked at {unseen_seconds:,.0f} s ago"
    if status.state == "FAILED" or (view.term is None and status.state == "STOPPED"):
        yield "; ".join(status.reasons)
    if view.term is not None and not view.has_reported:
        yield "no epoch has reported yet"
    stopped = view.stopped if view.term is not None else status.stops
    for source, why in sorted(stopped.items()):
        yield stopped_reason(source, why)
    if (nearest := nearest_cliff(status.partitions, engine.cliff_seconds)) is not None:
        yield nearest.cliff_words
