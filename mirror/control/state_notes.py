"""What people should know of a flow's state topic: whether it was lost, and what of it is not understood."""

from __future__ import annotations

from collections import Counter

from mirror.control.gaps import iso_time
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.state_record import state_topic


def state_notes(flow: Flow, state: FlowState) -> tuple[str, ...]:
    """Return, in words, what was lost last, and how many records of which kinds are not understood."""
    topic = f"{state_topic(flow.source)} on {flow.target}"
    lost = (f"{topic}, {iso_time(state.loss.at_ms)}: {state.loss.reason}",) if state.loss is not None else ()
    if not state.not_understood:
        return lost
    kinds = Counter(each.kind for each in state.not_understood.values())
    kinds_named = ", ".join(f"{count} of kind {kind!r}" for kind, count in sorted(kinds.items()))
    key, first = min(state.not_understood.items())
    example = f"the first has the key {key.decode(errors='replace')} ({first.problem})"
    note = (
        f"{topic} holds {counted(len(state.not_understood), 'record')} that this version does not understand, "
        f"and leaves as they are: "
        f"{kinds_named}; {example}"
    )
    return (*lost, note)
