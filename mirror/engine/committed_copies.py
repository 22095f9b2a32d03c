"""Which copies reach further than positions say that were committed: of a flow that no engine leads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from mirror.copier.committed_tail import committed_behind
from mirror.kafka.channel import Channel
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import paused_of


def reaching_further(
    flow: Flow, client: Mapping[str, str], state: FlowState, copies: Mapping[TopicPartition, TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the paused partitions behind whose committed positions more was committed: the topic has lost its end.

    Parameters
    ----------
    copies
        the copies of partitions that may be asked about, by source.

    Raises
    ------
    ConnectionFailed
        if the target cannot be reached.
    """
    paused = paused_of(state.pauses, state.positions) & copies.keys()
    positions = {copies[each]: state.positions[each] for each in paused if state.positions[each].atomic}
    if not positions:
        return frozenset()
    with closing(Channel(flow.target, client)) as channel:
        found = committed_behind(channel, positions, state.writers.__contains__)
    return frozenset(each for each in paused if copies[each] in found)
