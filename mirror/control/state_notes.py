"""What people should know of a flow's state topic: what of it this version does not understand."""

from __future__ import annotations

from collections import Counter

from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState, state_topic


def state_notes(flow: Flow, state: FlowState) -> tuple[str, ...]:
    """Return, in words, how many records are not understood, of which kinds, and one of them as an example."""
    if not state.unread:
        return ()
    kinds = Counter(each.kind for each in state.unread.values())
    counted = ", ".join(f"{count} of kind {kind!r}" for kind, count in sorted(kinds.items()))
    key, first = min(state.unread.items())
    note = (
        f"{state_topic(flow.source)} on {flow.target} holds {len(state.unread)} record(s) that this version does not "
        f"understand, and leaves as they are: {counted}; the first has the key {key.decode(errors='replace')} "
        f"({first.problem})"
    )
    return (note,)
