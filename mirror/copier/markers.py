"""The producer of the markers that fill holes: a transactional id of the flow, whose transactions are empty."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mirror.kafka import codes, coordinator
from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import markers_transactional_id
from mirror.same_offsets.filling import MarkerProducer

_TIMEOUT_MS = 60_000


class Markers:
    """The transactional id whose empty transactions leave markers, held for one flow.

    Attributes
    ----------
    coordinator_epoch
        the latest that a marker of its producer was seen with: markers with an earlier one are refused behind it, and
        with a later one than its coordinator's they would keep that from writing any.
    """

    def __init__(self, flow: Flow, channel: Channel, *, writes_many: bool) -> None:
        """Take the id over: what an earlier holder has asked for has happened then, and nothing of it will happen.

        Raises
        ------
        BrokerRefused, ConnectionFailed
            if that cannot be done now.
        """
        self._id = markers_transactional_id(flow)
        self._channel = channel
        self._writes_many = writes_many
        self.coordinator_epoch = 0
        self.producer = self._taken()

    @property
    def known(self) -> MarkerProducer:
        """What steps are decided by."""
        return MarkerProducer(self.producer.epoch, self._writes_many)

    def writes_one_at_a_time(self) -> None:
        """Take in that the right to write many markers at once was taken away."""
        self._writes_many = False

    @property
    def before(self) -> Producer:
        """The producer whose markers are refused behind one of this epoch."""
        return replace(self.producer, epoch=self.producer.epoch - 1)

    def raise_epoch(self) -> None:
        """Take the id again.

        Raises
        ------
        BrokerRefused, ConnectionFailed
            if that cannot be done now, or somebody else has held it meanwhile: then all is to be begun anew.
        """
        following = replace(self.producer, epoch=self.producer.epoch + 1)
        self.producer = self._taken()
        if self.producer != following:
            raise ConnectionFailed(f"{self._id} was held by somebody else meanwhile, or is another producer's now")

    def leave_one(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, BrokerRefused]:
        """Append one marker to each of the partitions, which wait at a hole; return who cannot get one, and why.

        Raises
        ------
        BrokerRefused, ConnectionFailed
            if it is not certain that each of the others has got it; the id is taken again before anything else, and
            the copies are to be looked at.
        """
        try:
            found = coordinator.abort_empty(self._channel, self._id, self.producer, partitions)
        except KafkaProblem:
            self.raise_epoch()
            raise
        refused = {each: why for each, why in found.items() if isinstance(why, BrokerRefused)}
        if len(refused) < len(found) or any(why.code in codes.COORDINATOR_BUSY for why in refused.values()):
            # Whoever takes the id waits until its transaction has ended: all that take part have their markers then.
            self.raise_epoch()
        return refused

    def _taken(self) -> Producer:
        return coordinator.take_over(self._channel, self._id, _TIMEOUT_MS, writes_transactions=False)
