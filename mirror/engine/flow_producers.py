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
import math
from collections.abc import Iterable, Mapping, Set
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

from mirror.config.settings import TransactionSettings
from mirror.control.flow_log import FlowLog
from mirror.control.tick import now_ms
from mirror.copier.work import ForeignUntil
from mirror.engine.known_producers import (
    KnownProducers,
    batch_position,
    expected_batch,
    follows,
    is_begun,
    is_next,
    key_of,
    knows_ids,
    producer_of,
    raised_producer,
)
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka import codes, coordinator, partition_state
from mirror.kafka.batch import Producer
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.coordinator import Unended
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord, data_transactional_id, stamped, state_topic
from mirror.model.state_values import (
    DataProducer,
    WrittenAs,
    producer_asked_for_record,
    transactional_id_record,
    writer_record,
)
from mirror.waiting import WaitTimeout, wait_until

_DECIDED_SECONDS = 15.0
_TIMEOUT_MS = 60_000
# A transaction that is decided and has not ended after so long waits for a partition, not for the coordinator; one that
# is aborted first, because its id is taken over, is given more time.
_ENDING_SECONDS = 0.5
_ABORTING_SECONDS = 2.0
# A cluster that has no coordinator for so long is not asked for one before it is restarted or has lost a leader.
_COORDINATOR_SECONDS = 10.0


class FlowProducers:
    """Takes a flow's producers for the engine that leads it, again whenever it is not certain what they have sent."""

    def __init__(
        self,
        flow: Flow,
        client: Mapping[str, str],
        transactions: TransactionSettings | None,
        *,
        slots: int,
        topic: str | None = None,
        positions: Set[TopicPartition] = frozenset(),
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
        positions
            the partitions of MirrorMaker's positions; in transactions nothing is copied that has no place for its own.
        """
        self._flow = flow
        self._client = client
        self._topic = topic or state_topic(flow.source)
        self._state_partition = TopicPartition(self._topic, 0)
        self._transactions = transactions
        self._prefix = transactions.id_prefix if transactions else ""
        self._slots = slots if transactions else 0
        self._positions = positions if transactions else frozenset()
        mm2 = range(transactions.mm2_tasks) if transactions else range(0)
        self._mm2_ids = frozenset(f"{self._prefix}{number}" for number in mm2)
        # Of transactional ids that take no transaction for now: the one that has not ended.
        self._unended: dict[str, Unended] = {}
        #: Transactional ids that somebody else, as Java MirrorMaker, took once the transaction had ended that they were
        #: left for: what was copied with them meanwhile is known to nobody.
        self.used_meanwhile: set[str] = set()
        self._registered: Mapping[str, int] = {}
        self._term = 0
        #: How often ids were asked for by this object until the first answer.
        self._asked = 0
        self._is_taken = self._was_used_before = False
        self._timeout_ms = transactions.timeout_ms if transactions else _TIMEOUT_MS
        self._data: DataProducer | None = None
        #: The transactional id that the producer id of a flow without transactions is obtained with.
        self.data_id = data_transactional_id(self._topic, flow.target)
        #: A producer of before, if what was sent as that one is not refused; remembered until the flow is taken in
        #: another term.
        self.unrefused: DataProducer | None = None
        #: Why requests of an earlier engine that arrive late would not be refused; None while they are.
        self.weakness: str | None = None
        #: What else there is to know of that.
        self.note: str | None = None
        # Producer ids that nobody had before this engine obtained them in this term.
        self._new_ids: set[int] = set()
        # The topics that a broker did not know when something was to be fenced in them.
        self._lacking: Set[str] = frozenset()
        # As whom the flow was written until it was taken last.
        self._former: DataProducer | None = None

    def was_given(self, state: FlowState) -> bool:
        """Whether the cluster has given out one of the flow's ids before, and the state topic knows of none.

        To be asked before :meth:`take`: behind that it may have been this engine, or one that was killed at it. False
        too where the cluster does not tell.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be asked now.
        """
        if self._is_taken or is_begun(state) or knows_ids(state):
            return False
        with closing(Channel(self._flow.target, self._client)) as channel:
            ids = (*self._own(frozenset()), self.data_id)
            return any(coordinator.is_known(channel, each, patience_seconds=_COORDINATOR_SECONDS) for each in ids)

    def take(
        self,
        log: FlowLog,
        term: int = 0,
        given_up: Mapping[str, Producer] = MappingProxyType({}),
        *,
        is_alone: bool = False,
    ) -> TakenProducers:
        """Make sure that nobody else can write as this flow, and bring ``log``, which was read, up to date after that.

        Nothing of this engine may be writing in the flow's transactions meanwhile.

        Parameters
        ----------
        given_up
            the transactional ids whose tasks have come back, so that nobody writes with them, and their producers:
            where the last transaction of one is decided and does not end, another id takes its place. Any other id
            might be used again, as soon as that transaction has ended, by an engine that was frozen; it is waited for,
            unless the producer of that engine is on record, and is fenced or may write no more.
        is_alone
            whether no engine that led in an earlier term has the right to write any more, nor a task of one.

        Raises
        ------
        KafkaProblem
            if that cannot be done now.
        """
        if term != self._term:
            self.unrefused = None
            self._new_ids.clear()
        usual = self._usual_epoch(log.state, term)
        # What was found once this engine has raised itself since.
        self._was_used_before = self._was_used_before and not is_begun(log.state)
        self._asked += 1
        self.used_meanwhile.clear()
        with closing(Channel(self._flow.target, self._client)) as channel:
            slots = self._take_slots(channel, log, term, given_up, is_alone=is_alone)
            unended = frozenset().union(*(each.partitions for each in self._unended.values()))
            unended |= self._unwritable(channel, self._positions).keys()
            self._was_used_before |= any(producer.epoch > usual for _, producer in slots)
            if self._slots and log.state.producer is None:
                self._is_taken = True
                return TakenProducers(slots, unended=unended, was_used_before=self._was_used_before)
            known = log.state.producer
            self._data = self._next_producer(channel, known, term)
            self._former = known
            self._take_unrefused(known, self._data)
            log.poll()
            is_first = known is None and self._data.epoch == 0
            self._was_used_before |= self._data.epoch > usual
            self._is_taken = True
            producer, is_next = producer_of(self._data), follows(self._data, known)
            return TakenProducers(slots, producer, is_first, unended, self._was_used_before, is_next)

    def _usual_epoch(self, state: FlowState, term: int) -> float:
        """Return the last epoch that an id has which nobody took before the state topic began; see `Held`.

        The id of the source cluster is written behind all that taking an id writes, so without it an engine may have
        been killed right behind that: one for each term. A request that was not answered may have raised it too.
        """
        if is_begun(state) or self._is_taken:
            return math.inf
        return term - 1 + self._asked if knows_ids(state) else self._asked

    def next_producer(self, term: int) -> Producer:
        """Return the producer of what is written outside of transactions, with the next epoch.

        Raises
        ------
        KafkaProblem
            if that cannot be done now.
        """
        with closing(Channel(self._flow.target, self._client)) as channel:
            before, self._data = self._data, self._next_producer(channel, self._data, term)
        self._former = before
        self._take_unrefused(before, self._data)
        return producer_of(self._data)

    @property
    def has_sent_unrefused(self) -> bool:
        """Whether this engine alone, in this term, has written as :attr:`unrefused`: it knows what is unanswered."""
        return self.unrefused is not None and self.unrefused.producer_id in self._new_ids

    def _take_unrefused(self, known: DataProducer | None, found: DataProducer) -> None:
        """Remember as whom was sent what is not refused, now that the flow is written as ``found``."""
        if found.epoch == 0:
            self._new_ids.add(found.producer_id)
        if self.unrefused is not None and self.unrefused.producer_id != found.producer_id:
            # What was sent with another producer id is never refused, whatever was written since.
            return
        is_refused = known is None or (self.weakness is None and known.producer_id == found.producer_id)
        self.unrefused = None if is_refused else known

    @property
    def has_unended(self) -> bool:
        """Whether a transaction has not ended that was left; :meth:`fence` asks again, though no partition waits."""
        return bool(self._unended)

    def foreign_until(
        self, positions: Mapping[TopicPartition, Position], writers: Set[int]
    ) -> dict[TopicPartition, ForeignUntil]:
        """Return up to where nothing of this flow lies behind what is known of partitions of the target.

        To be asked before they are fenced: behind a marker with another epoch brokers do not know sequences any more.
        What arrives after that lies behind the offset that is returned. Where leaders cannot be asked it is not known,
        and other partitions need not wait for them to be fenced.

        Parameters
        ----------
        positions
            how far they are copied, and as whom, and with which sequence, the next batch would have been written.
        writers
            the producer ids that the flow has written with.
        """
        former = self._former
        if former is not None and former.transactional_id and writers - {former.producer_id}:
            # The cluster gives that id again: another may have written in between, be forgotten, and not be on record
            # with where it has written. Without the right to that id each engine has another one, and none again.
            return {}
        expected = {
            each: position.next_batch
            for each, position in positions.items()
            # As anybody else it was not written since, or that one would be on record.
            if position.next_batch is not None and former is not None
            if position.next_batch.producer_id == former.producer_id
        }
        if not expected:
            return {}
        channel = Channel(self._flow.target, self._client)
        try:
            # Replicated, so that no election among replicas in sync takes it back. Asked for before the producers:
            # whatever arrives in between is among what they have written.
            ends = channel.find_offsets(expected, LATEST)
            leader_epochs = {each: channel.leader_epoch(each) for each in ends}
            # A topic may have very many producers; where nothing lies behind the position there is nothing to be known.
            longer = [each for each, end in ends.items() if end > positions[each].downstream]
            active = partition_state.active_producers(channel, longer) if longer else {}
            # The leader of before may not have heard that it leads no longer, nor of what was written since.
            known = {each: found for each, found in active.items() if channel.leader_epoch(each) == leader_epochs[each]}
        except ConnectionFailed:
            return {}
        finally:
            channel.close()
        return {
            each: ForeignUntil(ends[each], leader_epochs[each])
            for each, producers in known.items()
            if leader_epochs[each] >= 0
            and [batch_position(one) for one in producers if one.producer_id in writers]
            == [expected_batch(expected[each])]
        }

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
        if not (partitions or self.has_unended):
            return {}
        with closing(Channel(self._flow.target, self._client)) as channel:
            found = self._unwritable(channel, partitions & self._positions)
            found |= self._fence_data(channel, partitions) | self._await_ends(channel)
        return {each: why for each, why in found.items() if each in partitions}

    @staticmethod
    def _unwritable(channel: Channel, positions: Set[TopicPartition]) -> dict[TopicPartition, str]:
        """Return which of these take no positions now: transactions end without those that have no leader."""
        return partition_state.unable_to_append(channel, positions) if positions else {}

    def _await_ends(self, channel: Channel) -> dict[TopicPartition, str]:
        """See which transactions have ended meanwhile; return where the others have not."""
        for each, last in list(self._unended.items()):
            found = self._take_id(channel, each, KnownProducers(left={last.key}))
            if isinstance(found, Unended):
                self._unended[each] = self._waiting(channel, found)
            else:
                del self._unended[each]
                if each in self._mm2_ids and not is_next(found, last):
                    self.used_meanwhile.add(each)
                self._append([transactional_id_record(each, self._since_ms(each))], self._term)
        return {
            partition: f"the last transaction of {each} has not ended there: its replicas take no marker"
            for each, transaction in self._unended.items()
            for partition in transaction.partitions
        }

    def _fence_data(self, channel: Channel, partitions: Set[TopicPartition]) -> dict[TopicPartition, str]:
        data = self._data
        if data is None or not data.transactional_id or not partitions:
            return {}
        # A partition without enough replicas would keep the transaction open, and the others from the next one.
        sick = partition_state.unable_to_append(channel, partitions)
        problems = coordinator.abort_empty(channel, self.data_id, producer_of(data), partitions - sick.keys())
        refused = sick | {each: str(why) for each, why in problems.items()}
        lacking = {topic for topic in {each.topic for each in refused} if not channel.has_topic(topic)}
        # A broker that lags does not know one yet that was just created, and is asked about it again.
        gone, self._lacking = lacking & self._lacking, lacking
        refused = {each: why for each, why in refused.items() if each.topic not in gone}
        fenced = partition_state.producer_epochs(channel, refused, data.producer_id) if refused else {}
        return {each: why for each, why in refused.items() if fenced.get(each, -1) < data.epoch}

    def _waiting(self, channel: Channel, transaction: Unended) -> Unended:
        """Return it with the partitions that are to be written to once it has ended in them.

        The coordinator waits for all that one broker leads before it takes any of them for ended. In the others it is
        not open, and what is written there now does not wait for a marker. The state topic is read when that is so.
        """
        lacking = transaction.partitions - {self._state_partition}
        unable = partition_state.unable_to_append(channel, lacking).keys()
        undecided = partition_state.undecided(channel, lacking - unable)
        return replace(transaction, partitions=frozenset(unable | undecided))

    def _take_slots(
        self, channel: Channel, log: FlowLog, term: int, given_up: Mapping[str, Producer], *, is_alone: bool
    ) -> tuple[tuple[str, Producer], ...]:
        """Take every transactional id over that the flow has written transactions with; return this engine's own."""
        state, self._term = log.state, term
        now = now_ms()
        producers: dict[str, Producer] = {}
        self._unended = {}
        before = dict(state.unended)
        while True:
            own = self._own(before.keys() | self._unended.keys())
            # One that is registered has on record as whom it was written, which must not be lost before it is ours.
            self._append((transactional_id_record(each, now) for each in own if each not in state.registered), term)
            known = self._mm2_ids | state.transactional_ids | set(own)
            unfenced = known - producers.keys() - self._unended.keys()
            if not unfenced:
                break
            for each in sorted(unfenced):
                left = {before[each]} if each in before else set()
                known_of = KnownProducers(left)
                if (last := given_up.get(each)) is not None:
                    known_of = KnownProducers(left | {key_of(last)}, key_of(last))
                elif (used := state.written_as.get(each)) is not None:
                    known_of = KnownProducers(left, used.key, is_alone=is_alone and used.term < term)
                if each in self._mm2_ids and known_of.written_as is not None:
                    known_of = replace(known_of, was_last=self._is_last(channel, each, known_of.written_as, state))
                try:
                    found = self._take_id(channel, each, known_of)
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
        self._unended = {each: self._waiting(channel, last) for each, last in self._unended.items()}
        marks = {each: last.key for each, last in self._unended.items()}
        written = {each: WrittenAs(*key_of(producers[each]), term) for each in own}
        changed = sorted({*before, *marks, *written})
        self._registered = state.registered
        self._append(
            (
                transactional_id_record(each, self._since_ms(each), marks.get(each), written.get(each))
                for each in changed
            ),
            term,
        )
        slots = tuple((each, producers[each]) for each in own)
        new = (producer.producer_id for _, producer in slots if producer.producer_id not in state.writers)
        self._append((writer_record(each, now) for each in new), term)
        return slots

    def _is_last(self, channel: Channel, each: str, written_as: tuple[int, int], state: FlowState) -> bool:
        """Whether nobody has written with an id that Java MirrorMaker uses too since it was written as that producer.

        On record before the id is taken over: afterwards an abort with the next epoch might be Java's own.
        """
        if state.fencing.get(each) == written_as:
            return True
        try:
            last = coordinator.last_written_as(channel, each)
        except BrokerRefused:
            # Its coordinator is waited for by who takes it over.
            return False
        if last != written_as:
            return False
        marks = state.unended.get(each), state.written_as.get(each), written_as
        self._registered = state.registered
        self._append([transactional_id_record(each, self._since_ms(each), *marks)], self._term)
        return True

    def _since_ms(self, transactional_id: str) -> int:
        """Return since when an id is registered, in ms since the epoch: since now, if it was not."""
        return self._registered.get(transactional_id, now_ms())

    def _own(self, unended: Set[str]) -> tuple[str, ...]:
        """Return the transactional ids to write with, as many as there are tasks: the first that are free."""
        names = (f"{self._prefix}{number}" for number in itertools.count())
        return tuple(itertools.islice((each for each in names if each not in unended), self._slots))

    def _take_id(self, channel: Channel, transactional_id: str, known: KnownProducers) -> Producer | Unended:
        """Take a transactional id over, or return its last transaction if that has not ended and need not have.

        While such a one is not decided yet, as when the coordinator's own log waits for a dead replica, this is refused
        soon.
        """
        if known == KnownProducers():
            return coordinator.take_over(channel, transactional_id, self._timeout_ms)
        patience = _ENDING_SECONDS if known.left else _ABORTING_SECONDS
        try:
            return coordinator.take_over(channel, transactional_id, self._timeout_ms, patience_seconds=patience)
        except BrokerRefused:
            last = coordinator.unended(channel, transactional_id)
            if last is None or not known.is_free_after(last):
                raise
            return last

    def _next_producer(self, channel: Channel, known: DataProducer | None, term: int) -> DataProducer:
        """Obtain the producer with its next epoch, and write that down before it is used."""
        if known is None:
            # Killed before it can write down the answer, a new flow's engine is not taken for one before it.
            self._append([producer_asked_for_record(self.data_id)], term)
        found = self._fenced_producer(channel, known) or raised_producer(channel, known)
        new = [] if known is not None and known.producer_id == found.producer_id else [found.producer_id]
        now = now_ms()
        self._append([*(writer_record(each, now) for each in new), found.record()], term)
        return found

    def _fenced_producer(self, channel: Channel, known: DataProducer | None) -> DataProducer | None:
        """Obtain it from a transaction coordinator, which fences earlier epochs; None where that is not available."""
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
        former = (each.producer_id for each in (self.unrefused, known) if each is not None)
        if (other := next((each for each in former if each != taken.producer_id), None)) is not None:
            self.note = (
                f"what was sent with the former producer id {other} would be noticed, not refused: the "
                f"transactional id {self.data_id} had expired, or could not be obtained before"
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
        content = stamped(records, term, now_ms())
        if not content:
            return
        with closing(LogWriter(self._client, alias=self._flow.target)) as writer:
            writer.append(self._topic, 0, content)

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
