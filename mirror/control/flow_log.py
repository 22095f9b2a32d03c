"""A flow's state topic as the control plane sees it: followed, folded, and used to translate positions."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.kafka.log import LogTail
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.topics import ReplicationPolicy
from mirror.model.translation import NotMirrored, Translation


class FlowLog:
    """Follows a state topic. The offset maps it hands out are those of the last :meth:`poll`."""

    def __init__(self, client: Mapping[str, str], topic: str, *, alias: str) -> None:
        """Follow ``topic`` on the cluster called ``alias``.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached.
        """
        self.state = FlowState()
        self._tail = LogTail(client, topic, alias=alias)
        self._maps: dict[TopicPartition, OffsetMap] = {}

    def poll(self) -> FlowState:
        """Take in what is new and return the state.

        Raises
        ------
        BrokerRefused, ConnectionFailed, LeaderUnknown
            if the topic cannot be read; the state is then as it was.
        """
        records = self._tail.poll()
        for record in records:
            self.state.apply(record.key, record.value)
        if records:
            self._maps.clear()
        return self.state

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        """Return the offset map of a source partition, None when nothing of it was copied."""
        if source not in self._maps:
            found = self.state.offset_map(source)
            if found is None:
                return None
            self._maps[source] = found
        return self._maps[source]

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()


class FlowTranslator:
    """Translates positions of a flow's source partitions through the exact offset maps of both directions.

    A group on the source that reads a topic mirrored *from the target* goes back to the original there: the map of the
    opposite flow, read backwards. Java MM2 never finds such a position (CKP-07).
    """

    def __init__(
        self, forward: FlowLog, opposite: FlowLog | None, policy: ReplicationPolicy, target_alias: str
    ) -> None:
        """Use ``opposite``, the state of the flow target->source, where there is one."""
        self._forward = forward
        self._opposite = opposite
        self._policy = policy
        self._target_alias = target_alias

    def translate(self, source: TopicPartition, position: int) -> Translation:
        """Return where a reader at ``position`` of the source partition goes on, on the target."""
        if self._policy.can_detect_cycles and self._policy.topic_source(source.topic) == self._target_alias:
            original = TopicPartition(self._policy.original_topic(source.topic), source.partition)
            back = self._opposite.offset_map(original) if self._opposite else None
            return back.translate_back(position) if back else NotMirrored()
        forward = self._forward.offset_map(source)
        return forward.translate(position) if forward else NotMirrored()
