"""Whether the addresses of two clusters may be exchanged in the file: then everything would be copied once more."""

from __future__ import annotations

from collections.abc import Container

from mirror.model.flow import Flow
from mirror.model.state_record import state_topic


def exchanged(flow: Flow, on_source: Container[str], on_target: Container[str]) -> str | None:
    """Return why the ends of a flow may be exchanged, and what to do, by the topics that are there; None: they are not.

    A flow keeps its state on its target. That of flows from a cluster of the source's name on the source itself is one
    of the days when the name was another cluster's; files in which names stand for roles have it too.
    """
    topic = state_topic(flow.source)
    if topic not in on_source or topic in on_target:
        return None
    return (
        f"{flow.source} has {topic}, which a flow from {flow.source} keeps on its target, and {flow.target} has none: "
        f"are the addresses of {flow.source} and {flow.target} exchanged in the file? Then all that was copied would "
        f"be copied again, to the wrong names. If {flow.source} was the name of another cluster before, all is well"
    )
