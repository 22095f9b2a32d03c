"""As whom a flow is written, once an engine leads it: transactional ids or a producer id that nobody else can use.

With transactions every transactional id that was ever registered for the flow is taken over before positions are read:
whatever an earlier engine still had open is aborted by then, and it can add nothing any more.

Without them all tasks share one producer id. It is obtained with a transactional id of the flow, although nothing is
written in transactions: each time it is taken over it has the next epoch, and an empty transaction puts a marker of
that epoch into every partition where requests of the earlier one may still arrive; the broker refuses them then.
Where the cluster does not give the engine such an id, the epoch is raised by the engine itself; then requests of the
earlier epoch are refused only behind the first batch of the new one, and one that arrives before it is seen afterwards.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from mirror.config.settings import TransactionSettings
from mirror.control.flow_log import FlowLog
from mirror.kafka import codes, coordinator, partition_state
from mirror.kafka.batch import Producer
from mirror.kafka.channel import LATEST, BrokerRefused, Channel, View
from mirror.kafka.coordinator import Unended
from mirror.kafka.log import LogWriter
from mirror.model.flow import Flow
from mirror.model.flow_state import (
    DataProducer,
    StateRecord,
    data_transactional_id,
    stamped,
    state_topic,
    transactional_id_record,
    writer_record,
)
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_DECIDED_SECONDS = 15.0
_TIMEOUT_MS = 60_000
# A transaction that is decided and has not ended after so long waits for a partition, not for the coordinator.
_ENDING_SECONDS = 0.5
# A cluster that has no coordinator for so long is not asked for one before it is restarted or has lost a leader.
_COORDINATOR_SECONDS = 10.0
# The largest epoch that a producer id can have, less one that brokers keep for themselves.
_LAST_EPOCH = 2**15 - 2


@dataclass(frozen=True, slots=True)
class Held:
    """As whom a flow is written.

    Attributes
    ----------
    slots
        with transactions: of each task the transactional id and its producer.
    producer
        the producer of what is written outside of transactions; None if that was never done.
    is_first
        whether the flow was never written as that producer before: nothing of it can arrive late.
    unended
        partitions in which a transaction has not ended that is decided: to be written to once it has.
    """

    slots: tuple[tuple[str, Producer], ...] = ()
    producer: Producer | None = None
    is_first: bool = False
    unended: frozenset[TopicPartition] = frozenset()


class FlowHold:
    """Takes a flow's producers for the engine that leads it, again whenever it is not certain what they have sent."""

    def __init__(
        self,
        flow: Flow,
        client: Mapping[str, str],
        transactions: TransactionSettings | None,
        *,
        slots: int,
        topic: str | None = None,
    ) -> None:
        """Hold ``flow``.

        Parameters
        ----------
        client
            properties of the producer on the flow's target.
        transactions
            None: the flow is written without.
        slots
            how many tasks will write at once.
        topic
            the state topic, if its name is not the usual one.
        """
        self._flow = flow
        self._client = client
        self._topic = topic or state_topic(flow.source)
        self._state_partition = TopicPartition(self._topic, 0)
        self._transactions = transactions
        self._prefix = transactions.id_prefix if transactions else ""
        self._slots = slots if transactions else 0
        mm2 = range(transactions.mm2_tasks) if transactions else range(0)
        self._mm2s = frozenset(f"{self._prefix}{number}" for number in mm2)
        # Of transactional ids that take no transaction for now: the one that has not ended.
        self._unended: dict[str, Unended] = {}
        self._term = 0
        self._timeout_ms = transactions.timeout_ms if transactions else _TIMEOUT_MS
        self._data: DataProducer | None = None
        #: The transactional id that the producer id of a flow without transactions is obtained with.
        self.data_id = data_transactional_id(self._topic, flow.target)
        #: The producer of before, if what was sent as that one is not refused since this engine took the flow over.
        self.unrefused: DataProducer | None = None
        #: Why requests of an earlier engine that arrive late would not be refused; None while they are.
        self.weakness: str | None = None
        #: What else there is to know of that.
        self.note: str | None = None

    def take(self, log: FlowLog, term: int = 0, given_up: Mapping[str, Producer] = MappingProxyType({})) -> Held:
        """Make sure that nobody else can write as this flow, and bring ``log``, which was read, up to date after that.

        Nothing of this engine may be writing in the flow's transactions meanwhile.

        Parameters
        ----------
        given_up
            the transactional ids whose tasks have come back, so that nobody writes with them, and their producers:
            where the last transaction of one is decided and does not end, another id takes its place. Any other id
            might be used again, as soon as that transaction has ended, by an engine that was frozen; it is waited for.

        Raises
        ------
        BrokerRefused, ConnectionFailed, LeaderUnknown
            if that cannot be done now.
        """
        self.unrefused = None
        channel = Channel(self._flow.target, self._client)
        try:
            slots = self._take_slots(channel, log, term, given_up)
            unended = frozenset().union(*(each.partitions for each in self._unended.values()))
            if self._slots and log.state.producer is None:
                return Held(slots, unended=unended)
            known = log.state.producer
            self._data = self._next_producer(channel, known, term)
            if known is not None and (self.weakness is not None or known.producer_id != self._data.producer_id):
                self.unrefused = known
            log.poll()
            is_first = known is None and self._data.epoch == 0
            return Held(slots, _producer(self._data), is_first=is_first, unended=unended)
        finally:
            channel.close()

    def next_producer(self, term: int) -> Producer:
        """Return the producer of what is written outside of transactions, with the next epoch.

        Raises
        ------
        BrokerRefused, ConnectionFailed, LeaderUnknown
            if that cannot be done now.
        """
        channel = Channel(self._flow.target, self._client)
        try:
            self._data = self._next_producer(channel, self._data, term)
        finally:
            channel.close()
        return _producer(self._data)

    def fence(self, partitions: Set[TopicPartition]) -> dict[TopicPartition, str]:
        """Have the target refuse what was sent to these partitions before.

        That is what was sent with earlier epochs of the producer, or in a transaction that had not ended in them.

        Returns
        -------
        of the partitions that do not refuse it yet, why not; none where the cluster gives the engine no producer id
        that it can fence (:attr:`weakness`), and no transaction is to be ended

        Raises
        ------
        BrokerRefused, ConnectionFailed
            if that cannot be done now.
        """
        if not partitions:
            return {}
        channel = Channel(self._flow.target, self._client)
        try:
            return self._fence_data(channel, partitions) | self._await_ends(channel)
        finally:
            channel.close()

    def _await_ends(self, channel: Channel) -> dict[TopicPartition, str]:
        """See which transactions have ended meanwhile; return where the others have not."""
        for each, last in list(self._unended.items()):
            found = self._take_id(channel, each, {last.key})
            if isinstance(found, Unended):
                self._unended[each] = found
            else:
                del self._unended[each]
                self._append([transactional_id_record(each, int(time.time() * 1000))], self._term)
        return {
            partition: f"the last transaction of {each} has not ended there: its replicas take no marker"
            for each, transaction in self._unended.items()
            for partition in transaction.partitions
        }

    def _fence_data(self, channel: Channel, partitions: Set[TopicPartition]) -> dict[TopicPartition, str]:
        data = self._data
        if data is None or not data.transactional_id:
            return {}
        # A partition without enough replicas would keep the transaction open, and the others from the next one.
        sick = partition_state.unable_to_append(channel, partitions)
        refused = sick | coordinator.abort_empty(channel, self.data_id, _producer(data), partitions - sick.keys())
        gone = {topic for topic in {each.topic for each in refused} if not channel.has_topic(topic)}
        refused = {each: why for each, why in refused.items() if each.topic not in gone}
        fenced = partition_state.producer_epochs(channel, refused, data.producer_id) if refused else {}
        return {each: why for each, why in refused.items() if fenced.get(each, -1) < data.epoch}

    def _take_slots(
        self, channel: Channel, log: FlowLog, term: int, given_up: Mapping[str, Producer]
    ) -> tuple[tuple[str, Producer], ...]:
        """Take every transactional id over that the flow has written transactions with; return this engine's own."""
        state, self._term = log.state, term
        if not self._slots and not state.transactional_ids:
            return ()
        now = int(time.time() * 1000)
        producers: dict[str, Producer] = {}
        self._unended = {}
        before = dict(state.unended)
        while True:
            own = self._own(before.keys() | self._unended.keys())
            self._append((transactional_id_record(each, now) for each in own if each not in producers), term)
            known = self._mm2s | state.transactional_ids | set(own)
            unfenced = known - producers.keys() - self._unended.keys()
            if not unfenced:
                break
            for each in sorted(unfenced):
                left = {before[each]} if each in before else set()
                if (last := given_up.get(each)) is not None:
                    left.add((last.producer_id, last.epoch))
                try:
                    found = self._take_id(channel, each, left, last)
                except BrokerRefused as refusal:
                    if self._transactions is None or not (refusal.is_denied and each.startswith(self._prefix)):
                        raise
                    what = f"{refusal.what}: {self._transactions.needed_right}"
                    raise BrokerRefused(what, refusal.error) from refusal
                if isinstance(found, Unended):
                    self._unended[each] = found
                else:
                    producers[each] = found
            self._wait_until_decided(channel)
            state = log.poll()
        marks = {each: last.key for each, last in self._unended.items()}
        changed = [each for each in sorted(before.keys() | marks.keys()) if before.get(each) != marks.get(each)]
        self._append((transactional_id_record(each, now, marks.get(each)) for each in changed), term)
        slots = tuple((each, producers[each]) for each in own)
        new = (producer.producer_id for _, producer in slots if producer.producer_id not in state.writers)
        self._append((writer_record(each, now) for each in new), term)
        return slots

    def _own(self, unended: Set[str]) -> tuple[str, ...]:
        """Return the transactional ids to write with, as many as there are tasks: the first that are free."""
        names = (f"{self._prefix}{number}" for number in itertools.count())
        return tuple(itertools.islice((each for each in names if each not in unended), self._slots))

    def _take_id(
        self,
        channel: Channel,
        transactional_id: str,
        left: Set[tuple[int, int]],
        given_up: Producer | None = None,
    ) -> Producer | Unended:
        """Take a transactional id over, or return its last transaction if that has not ended and need not have.

        It need not if it is one of those, by producer id and epoch, behind which nobody writes with the id. While such
        a one is not decided yet, as when the coordinator's own log waits for a dead replica, this is refused soon.
        """
        if not left:
            return coordinator.take_over(channel, transactional_id, self._timeout_ms)
        try:
            return coordinator.take_over(channel, transactional_id, self._timeout_ms, patience_seconds=_ENDING_SECONDS)
        except BrokerRefused:
            last = coordinator.unended(channel, transactional_id)
            if last is None:
                raise
            # Aborted because the id is taken over here, it ends with the next epoch. To be committed with that one it
            # is another engine's, which has taken the id meanwhile and may go on with it.
            is_own_abort = (
                given_up is not None and last.is_aborted and last.key == (given_up.producer_id, given_up.epoch + 1)
            )
            if last.key not in left and not is_own_abort:
                raise
            return last

    def _next_producer(self, channel: Channel, known: DataProducer | None, term: int) -> DataProducer:
        """Obtain the producer with its next epoch, and write that down before it is used."""
        found = self._fenced_producer(channel, known) or _raised(channel, known)
        new = [] if known is not None and known.producer_id == found.producer_id else [found.producer_id]
        now = int(time.time() * 1000)
        self._append([*(writer_record(each, now) for each in new), found.record()], term)
        return found

    def _fenced_producer(self, channel: Channel, known: DataProducer | None) -> DataProducer | None:
        """Obtain it from a transaction coordinator, which fences earlier epochs; None where that cannot be had."""
        try:
            taken = coordinator.take_over(
                channel,
                self.data_id,
                _TIMEOUT_MS,
                writes_transactions=False,
                patience_seconds=_COORDINATOR_SECONDS,
            )
        except BrokerRefused as refusal:
            cure = self._cure(refusal)
            self.weakness = f"what an engine that was killed had sent is noticed, not refused: {cure} ({refusal})"
            return None
        self.weakness = self.note = None
        if known is not None and known.producer_id != taken.producer_id:
            self.note = (
                f"what was sent with the former producer id {known.producer_id} would be noticed, not refused: the "
                f"transactional id {self.data_id} had expired, or was not to be had before"
            )
        return DataProducer(taken.producer_id, taken.epoch, self.data_id)

    def _cure(self, refusal: BrokerRefused) -> str:
        """Say what keeps the cluster from giving the transactional id, and what to do about it."""
        if refusal.is_denied:
            return f"grant Write and Describe on the transactional id {self.data_id}"
        if refusal.code == codes.CONCURRENT_TRANSACTIONS:
            return (
                f"an earlier transaction of {self.data_id} does not end, because a partition in it cannot take its "
                "marker (no leader, or fewer replicas in sync than min.insync.replicas): until then another producer "
                "id is used; once it has ended, the engine that takes the flow over next has late requests refused"
            )
        return f"see why the cluster has no transaction coordinator for {self.data_id}"

    def _append(self, records: Iterable[StateRecord], term: int) -> None:
        content = stamped(records, term, int(time.time() * 1000))
        if not content:
            return
        writer = LogWriter(self._client, alias=self._flow.target)
        try:
            writer.append(self._topic, 0, content)
        finally:
            writer.close()

    def _wait_until_decided(self, channel: Channel) -> None:
        """Wait until readers of committed data see all that is in the state topic now.

        Raises
        ------
        BrokerRefused
            if somebody's transaction in it does not end.
        """
        address = self._state_partition
        end = channel.offsets([address], LATEST)[address]
        try:
            wait_until(
                lambda: channel.offsets([address], LATEST, View.STABLE)[address],
                f"the transactions in {address} to end",
                timeout_seconds=_DECIDED_SECONDS,
                until=lambda stable: stable >= end,
            )
        except WaitTimeout as problem:
            raise BrokerRefused(f"{self._flow.target}: {problem}", WaitTimeout) from problem


def _producer(data: DataProducer) -> Producer:
    return Producer(data.producer_id, data.epoch)


def _raised(channel: Channel, known: DataProducer | None) -> DataProducer:
    """Return the known producer with the next epoch, or one with a new id."""
    if known is None or known.transactional_id or known.epoch >= _LAST_EPOCH:
        new = channel.new_producer()
        return DataProducer(new.producer_id, new.epoch)
    return DataProducer(known.producer_id, known.epoch + 1)
