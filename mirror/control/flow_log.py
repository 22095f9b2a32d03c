"""A flow's state topic as the control plane sees it: followed, folded, and used to translate positions.

Invariants:

(a) A deletion can be cleaned away unseen. Whoever follows a state topic and could not read it for as long as it keeps
    deletions (``delete.retention.ms``; also if the cluster does not tell) knows by now only what it reads again from
    the beginning, as after a start; what a topic has lost meanwhile is another matter, and is kept to be written
    again. But who leads, and what is late, is told by the topic that there is now: another engine may have begun in
    term 1 of it while the one that led was cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import LeaderUnknown
from mirror.model.checkpoint import CopyId
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.shared_topic import translate_shared
from mirror.model.state_record import StateRecord, epoch_of, term_of
from mirror.model.topics import ReplicationPolicy
from mirror.model.translation import NotMirrored, Translation


class NeverRun(LeaderUnknown):
    """A flow has no state topic, so that no engine has ever run it; what has no topic has no leader either."""

    def __init__(self, alias: str, topic: str) -> None:
        super().__init__(f"this flow has never run: {alias} has no topic {topic}")


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
        self._alias, self._topic = alias, topic
        self._tail = LogTail(client, topic, alias=alias)
        self._topic_id = ""
        self._maps: dict[TopicPartition, OffsetMap] = {}
        self._sources: dict[TopicPartition, TopicPartition] = {}

    def poll(self) -> FlowState:
        """Take in what is new and return the state.

        Raises
        ------
        NeverRun
            if there is no such topic.
        KafkaProblem
            if the topic cannot be read; the state is then as it was.
        """
        try:
            records = self._tail.poll()
        except LeaderUnknown:
            if not self.exists():
                raise NeverRun(self._alias, self._topic) from None
            raise
        if self._tail.has_begun_anew:
            self.state, self._records = FlowState(), {}
        if self._tail.topic_id != self._topic_id:
            self.state = self.state.in_new_topic() if self._topic_id else self.state
            self._topic_id = self._tail.topic_id
        for record in records:
            written_in = term_of(record.headers), epoch_of(record.headers)
            if not self.state.apply(record.key, record.value, *written_in):
                continue
            if record.key is not None:
                self._records.pop(record.key, None)
                if record.value is not None:
                    self._records[record.key] = record.value
        if records or self._tail.has_begun_anew:
            self._maps.clear()
            self._sources = {
                TopicPartition(position.target, source.partition): source
                for source, position in self.state.positions.items()
            }
        return self.state

    def observe(self) -> FlowState:
        """Take in what is new, and return what :meth:`observed` does. The exceptions are those of :meth:`poll`."""
        self.poll()
        return self.observed()

    def observed(self) -> FlowState:
        """Return the state of the last :meth:`poll`, with what the leader and people have said behind that.

        A transaction that is open, for as long as its interval or because it cannot be ended, hides all behind its
        start from who reads what is committed: also that the engine runs. The exceptions are those of :meth:`poll`.
        """
        return self.state.with_beyond((each.key, each.value, term_of(each.headers)) for each in self._tail.beyond())

    def exists(self) -> bool:
        """Ask the cluster whether it has the topic.

        Raises
        ------
        BrokerRefused, ConnectionFailed
            if it does not tell.
        """
        return self._tail.exists()

    def leaderless(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Ask the cluster which of these partitions that it has are led by nobody.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        return self._tail.leaderless(partitions)

    @property
    def position(self) -> int:
        """The offset up to which the topic was read; what lies in a transaction that is open, or behind, is not."""
        return self._tail.position()

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

    def source_of(self, copy: TopicPartition) -> TopicPartition | None:
        """Return of which source partition a partition on the target is the copy."""
        return self._sources.get(copy)

    @property
    def copies(self) -> frozenset[str]:
        """The topics on the target that the flow has copied to."""
        return frozenset(copy.topic for copy in self._sources if copy.topic)

    def placement(self, group: str, partition: TopicPartition) -> Placement | None:
        """Return where the flow has put a group on a partition of the target that is still the same one."""
        found = self.state.placements.get((group, partition))
        return found if found is not None and self._is_there(found) else None

    def placements(self) -> Iterable[Placement]:
        """Return where the flow has put groups, on partitions of the target that are still the same ones."""
        return (each for each in self.state.placements.values() if self._is_there(each))

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()

    def _is_there(self, placement: Placement) -> bool:
        source = self.source_of(placement.partition)
        now = self.state.positions[source].target_id if source else ""
        return not now or placement.target_id in {"", now}


class FlowTranslator:
    """Translates positions of a flow's source partitions through the exact offset maps of both directions.

    ``forward`` is the flow's state; ``opposite`` that of the flow in the other direction, None while there is none.

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
        self.forward = forward
        self._find_opposite = find_opposite
        self.opposite: FlowLog | None = None
        self._policy = policy
        self._target_alias = target_alias

    def refresh(self) -> None:
        """Take in what both flows have recorded by now.

        Raises
        ------
        KafkaProblem
            if a cluster does not answer; translations are then by what was known before.
        """
        self.forward.poll()
        if self.opposite is None:
            # The other flow may begin at any time.
            self.opposite = self._find_opposite()
        if self.opposite is not None:
            self.opposite.poll()

    def translate(self, source: TopicPartition, position: int) -> Translation:
        """Return where a reader at ``position`` of the source partition goes on, on the target."""
        original = self._original(source)
        if original is not None:
            back = self.opposite.offset_map(original) if self.opposite else None
            return back.translate_back(position) if back else NotMirrored()
        forward, opposite = self.forward.offset_map(source), self._shared(source)
        if forward is None:
            # Of a partition that neither has copied nobody knows what a group has read.
            return opposite.translate_back(position) if opposite and opposite.has_copies else NotMirrored()
        return translate_shared(forward, opposite, position) if opposite else forward.translate(position)

    def copy_id(self, source: TopicPartition) -> CopyId | None:
        """Return which copy positions of a source partition lead to; None if nothing of it was copied."""
        original = self._original(source)
        if original is None:
            position = self.forward.state.positions.get(source)
            return position.copy_id if position else None
        back = self.opposite.state.positions.get(original) if self.opposite else None
        return CopyId(back.target_id, back.topic_id, back.incarnation) if back else None

    def source_of(self, target: TopicPartition) -> TopicPartition | None:
        """Return the source partition whose readers go on with a partition of the target; None if it is not known."""
        source = self.forward.source_of(target)
        if source is not None or self.opposite is None or not self._policy.can_detect_cycles:
            return source
        back = self.opposite.state.positions.get(target)
        return TopicPartition(back.target, target.partition) if back else None

    def origin(self, source: TopicPartition) -> int | None:
        """Return the position of a source partition where copying began; None where a group returns to the original."""
        position = self.forward.state.positions.get(source)
        return position.origin if position and self._original(source) is None else None

    def close(self) -> None:
        """Close the connections to the source; those of the forward flow's log are somebody else's."""
        if self.opposite is not None:
            self.opposite.close()

    def _original(self, source: TopicPartition) -> TopicPartition | None:
        """Return the original on the target of which a source partition is the copy, None if it is none (CKP-07)."""
        if self._policy.can_detect_cycles and self._policy.topic_source(source.topic) == self._target_alias:
            return TopicPartition(self._policy.original_topic(source.topic), source.partition)
        return None

    def _shared(self, source: TopicPartition) -> OffsetMap | None:
        """Return the map of the opposite flow if it copies into this very partition, under the same name."""
        if self._policy.can_detect_cycles or self.opposite is None:
            return None
        known = self.opposite.state.positions.get(source)
        return self.opposite.offset_map(source) if known and known.target in {"", source.topic} else None
