"""As whom a flow was written before, by its state topic and by the target's coordinators.

Invariants:

(a) As whom an id is written is on record before its first transaction (``written_as``), and stays there until the id is
    taken over: killed at any moment, an engine leaves no transaction of which its successor does not know whose it is.
    What an earlier leader says late of an id counts only if nobody has said anything of it.
(b) A producer's last sequence says whether a killed engine had written on: a position of the default mode has as whom,
    and with which sequence, the next batch is written (``next_batch``). Before a copy is fenced its leader is asked for
    its end and then for its producers (KIP-664); where the flow's producer stands where the position says, only what
    lies behind that end is read. After the fence brokers do not know the sequence any more. Where it is not reported,
    or not certain (forgotten, another id since, an unclean election), the tail is read as before.
(c) A producer id serves one flow only. With fan-in two flows write to one partition; with one id and one sequence a
    batch of the second would be acknowledged as a duplicate of the first.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel
from mirror.kafka.coordinator import Unended
from mirror.kafka.partition_state import ActiveProducer
from mirror.model.flow_state import FlowState
from mirror.model.position import NextBatch
from mirror.model.state_values import DataProducer

# The largest epoch that a producer id can have, less one that brokers keep for themselves.
_LAST_EPOCH = 2**15 - 2


@dataclass(frozen=True, slots=True)
class KnownProducers:
    """What is known of a transactional id that is to be taken over.

    Attributes
    ----------
    left
        its transactions, by producer id and epoch, behind which nobody writes with the id.
    written_as
        the producer id and epoch with which it was written last.
    is_alone
        whether whoever wrote with that may write no more.
    was_last
        whether it is known, of an id that others use too, that nobody had written with it since, until it was taken
        over.
    """

    left: Set[tuple[int, int]] = frozenset()
    written_as: tuple[int, int] | None = None
    is_alone: bool = False
    was_last: bool = True

    def is_free_after(self, last: Unended) -> bool:
        """Whether nobody can write with the id any more once its last transaction has ended.

        Aborted because the id was taken over, or by the cluster because it took too long, a transaction ends with the
        next epoch, which fences whoever had begun it. To be committed with that one it is another engine's, which has
        taken the id meanwhile and may go on with it; so is one that Java MirrorMaker, with an id that it shares, has
        aborted itself.
        """
        if self.written_as is not None and self.was_last:
            producer_id, epoch = self.written_as
            if last.is_aborted and last.key == (producer_id, epoch + 1):
                return True
        return last.key in self.left or (self.is_alone and last.key == self.written_as)


def is_begun(state: FlowState) -> bool:
    """Whether a state topic says of which source it is, or how far that is copied."""
    return bool(state.source_id or state.positions)


def knows_ids(state: FlowState) -> bool:
    """Whether a state topic says that an engine has had the flow's ids, or was about to ask for them."""
    return bool(state.writers or state.registered or state.is_producer_asked_for)


def is_next(found: Producer, last: Unended) -> bool:
    """Whether an id was taken over by nobody else since its transaction: each time that it is, it has the next epoch.

    Behind the last epoch that there is comes another producer id, with the first one.
    """
    if last.epoch >= _LAST_EPOCH:
        return found.producer_id != last.producer_id and found.epoch == 0
    return key_of(found) == (last.producer_id, last.epoch + 1)


def follows(found: DataProducer, known: DataProducer | None) -> bool:
    """Whether nobody has had the flow's producer between ``known``, which is on record, and ``found``.

    A new id that nobody has had says nothing of the one before; that one may have expired.
    """
    if known is None or found.epoch == 0:
        return True
    return key_of(producer_of(found)) == (known.producer_id, known.epoch + 1)


def key_of(producer: Producer) -> tuple[int, int]:
    """Return id and epoch."""
    return producer.producer_id, producer.epoch


def batch_position(producer: ActiveProducer) -> tuple[int, int, int]:
    """Return as whom a producer has written last: id, epoch, sequence."""
    return producer.producer_id, producer.epoch, producer.last_sequence


def expected_batch(batch: NextBatch) -> tuple[int, int, int]:
    """Return how the leader knows a producer that has written nothing since; -1: nothing in its epoch.

    After 2**31 records sequences begin again at 0; that looks as if nothing were written, and is not taken for known.
    """
    return batch.producer_id, batch.epoch, batch.sequence - 1


def producer_of(data: DataProducer) -> Producer:
    """Return as whom batches are written."""
    return Producer(data.producer_id, data.epoch)


def raised_producer(channel: Channel, known: DataProducer | None) -> DataProducer:
    """Return the known producer with the next epoch, or one with a new id."""
    if known is None or known.transactional_id or known.epoch >= _LAST_EPOCH:
        new = channel.new_producer()
        return DataProducer(new.producer_id, new.epoch)
    return DataProducer(known.producer_id, known.epoch + 1)
