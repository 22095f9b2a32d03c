"""A flow's state topic as the control plane sees it: followed, folded, and used to translate positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror.kafka.log import LogTail
from mirror.model.flow_state import FlowState, StateRecord, term_of
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.shared_topic import translate_shared
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
        # The newest of each key, in the order of the log.
        self._records: dict[bytes, bytes] = {}
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
            if not self.state.apply(record.key, record.value, term_of(record.headers)):
                continue
            if record.key is not None:
                self._records.pop(record.key, None)
                if record.value is not None:
                    self._records[record.key] = record.value
        if records:
            self._maps.clear()
        return self.state

    @property
    def loss(self) -> str | None:
        """What has become of records that were read, None while they are there; :meth:`restored` sets it back."""
        return self._tail.loss

    def records(self) -> list[StateRecord]:
        """Return all that was read and not taken back, in order, what is not understood too: to write it once more."""
        return list(self._records.items())

    def restored(self) -> None:
        """What was lost has been written again."""
        self._tail.loss = None

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
    opposite flow, read backwards. Java MM2 never finds such a position (CKP-07). Where both flows copy a topic under
    its own name, it holds records of both sides, and both maps are asked.
    """

    def __init__(
        self,
        forward: FlowLog,
        find_opposite: Callable[[], FlowLog | None],
        policy: ReplicationPolicy,
        target_alias: str,
    ) -> None:
        """Translate by what is known at the last :meth:`refresh`.

        Parameters
        ----------
        find_opposite
            returns the state of the flow target->source, None as long as there is none.
        """
        self._forward = forward
        self._find_opposite = find_opposite
        self._opposite: FlowLog | None = None
        self._policy = policy
        self._target_alias = target_alias

    def refresh(self) -> None:
        """Take in what both flows have recorded by now.

        Raises
        ------
        BrokerRefused, ClusterError, ConnectionFailed, LeaderUnknown
            if a cluster does not answer; translations are then by what was known before.
        """
        self._forward.poll()
        if self._opposite is None:
            # The other flow may begin at any time.
            self._opposite = self._find_opposite()
        if self._opposite is not None:
            self._opposite.poll()

    def translate(self, source: TopicPartition, position: int) -> Translation:
        """Return where a reader at ``position`` of the source partition goes on, on the target."""
        if self._policy.can_detect_cycles and self._policy.topic_source(source.topic) == self._target_alias:
            original = TopicPartition(self._policy.original_topic(source.topic), source.partition)
            back = self._opposite.offset_map(original) if self._opposite else None
            return back.translate_back(position) if back else NotMirrored()
        forward, opposite = self._forward.offset_map(source), self._shared(source)
        if forward is None:
            return opposite.translate_back(position) if opposite else NotMirrored()
        return translate_shared(forward, opposite, position) if opposite else forward.translate(position)

    def close(self) -> None:
        """Close the connections to the source; those of the forward flow's log are somebody else's."""
        if self._opposite is not None:
            self._opposite.close()

    def _shared(self, source: TopicPartition) -> OffsetMap | None:
        """Return the map of the opposite flow if it copies into this very partition, under the same name."""
        if self._policy.can_detect_cycles or self._opposite is None:
            return None
        known = self._opposite.state.positions.get(source)
        return self._opposite.offset_map(source) if known and known.target in {"", source.topic} else None
