"""Follows a state topic for the producer ids recorded there: who has written the copies of a flow.

One that was truncated may be as long again by then as it was read; its leader tells by the leader epoch that was read
last. It is read from its start then, and what was known stays known.
"""

from __future__ import annotations

from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.log import LogReader, LogTruncated, decoded
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow_state import FlowState
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition
from mirror.model.writers import CopiedTopics, KnownWriters, take_in


class WriterLog:
    """One state topic, read on whenever asked. It need not exist (yet)."""

    def __init__(self, topic: str, known: KnownWriters | None = None, copied: CopiedTopics | None = None) -> None:
        """Go on from what is ``known``; tell ``copied`` which topics the flow copies to, if that is wanted."""
        self.topic = topic
        self._copied = copied
        self._known = known or KnownWriters()

    @property
    def known(self) -> KnownWriters:
        """What was found so far. What was ever seen stays, also when the topic was deleted."""
        return self._known

    @property
    def writers(self) -> frozenset[int]:
        """The producer ids found so far."""
        return self._known.writers

    def catch_up(self, channel: Channel) -> None:
        """Read all that readers can see at the time of the call.

        Writers are recorded, acknowledged and outside transactions, before their first batch: of a batch fetched before
        the call it is certain now whether it is one of theirs.

        Raises
        ------
        KafkaProblem
            if that cannot be read; what was known stays.
        """
        if not channel.has_topic(self.topic):
            return
        topic_id = channel.topic_id(self.topic)
        if topic_id != self._known.topic_id:
            # Another one of that name may be longer already than what was read of the former.
            self._known = KnownWriters(self._known.writers, 0, self._known.source_id, topic_id)
        address = TopicPartition(self.topic, 0)
        start = channel.offsets([address], EARLIEST)[address]
        end = channel.offsets([address], LATEST)[address]
        self._read(channel, address, start, end)

    def _read(self, channel: Channel, address: TopicPartition, start: int, end: int) -> None:
        known = self._known
        is_known = start <= known.position <= end
        read = EpochEnd(known.read_epoch, known.position) if is_known else EpochEnd(NOT_KNOWN, start)
        try:
            self._read_on(channel, address, read, end)
        except BrokerRefused as refusal:
            is_another = isinstance(refusal, LogTruncated) or refusal.is_gone
            if read.epoch == NOT_KNOWN or not is_another:
                raise
            # Another log, however long it has become, or a leader that does not know the one that was read.
            self._read_on(channel, address, EpochEnd(NOT_KNOWN, start), end)

    def _read_on(self, channel: Channel, address: TopicPartition, read: EpochEnd, end: int) -> None:
        state = FlowState(writers=set(self.writers), source_id=self._known.source_id)
        reader = LogReader(channel, address, read.end)
        reader.read_up_to = read
        for content, _ in reader.read_to(end):
            for record in decoded(channel, address, content):
                take_in(state, record.key, record.value)
                if self._copied is not None:
                    self._copied.take(record.key, record.value)
        ids = state.source_id, self._known.topic_id
        self._known = KnownWriters(frozenset(state.writers), reader.position, *ids, reader.read_up_to.epoch)
