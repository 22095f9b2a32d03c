"""Who runs a flow: with transactions, one engine alone, the last that was started.

An engine that starts claims the flow in its state topic, takes over every transactional id that was ever registered
there, and only then reads positions: whatever an earlier engine still had open is aborted by then, and it can add
nothing any more. An engine that was frozen meanwhile finds its transactional ids taken, and the claim of another when
it looks why: it gives the flow up. Should it take ids over before it looks, the other takes them back and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from mirror.config.settings import TransactionSettings
from mirror.control.flow_log import FlowLog
from mirror.kafka import coordinator
from mirror.kafka.batch import Producer
from mirror.kafka.channel import LATEST, BrokerRefused, Channel, View
from mirror.kafka.log import LogWriter
from mirror.model.flow import Flow
from mirror.model.flow_state import (
    FlowState,
    StateRecord,
    claim_record,
    state_topic,
    transactional_id_record,
    writer_record,
)
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_DECIDED_SECONDS = 15.0
_TIMEOUT_MS = 60_000


class Superseded(Exception):
    """Another engine runs the flow now."""


class FlowHold:
    """Takes a flow for one engine, again whenever it is not certain that it still has it."""

    def __init__(
        self,
        flow: Flow,
        client: Mapping[str, str],
        transactions: TransactionSettings | None,
        *,
        engine: str,
        slots: int,
        topic: str | None = None,
    ) -> None:
        """Hold ``flow`` for ``engine``.

        Parameters
        ----------
        client
            properties of the producer on the flow's target.
        transactions
            None: the flow is written without; then there is only something to do if it ever was written with them.
        slots
            how many tasks will write at once.
        topic
            the state topic, if its name is not the usual one.
        """
        self._flow = flow
        self._client = client
        self._engine = engine
        self._topic = topic or state_topic(flow.source)
        prefix = transactions.id_prefix if transactions else ""
        self._own = tuple(f"{prefix}{number}" for number in range(slots)) if transactions else ()
        mm2 = range(transactions.mm2_tasks) if transactions else range(0)
        self._to_fence = frozenset(self._own) | {f"{prefix}{number}" for number in mm2}
        self._timeout_ms = transactions.timeout_ms if transactions else _TIMEOUT_MS
        self._has_claimed = False
        self._is_held = False

    def take(self, log: FlowLog) -> tuple[tuple[str, Producer], ...]:
        """Make sure that nobody else can write in the flow's transactions, and bring ``log`` up to date after that.

        Nothing of this engine may be writing meanwhile.

        Returns
        -------
        the transactional id and the producer of each slot; none when the flow is written without transactions

        Raises
        ------
        Superseded
            if another engine has claimed the flow since this one did.
        BrokerRefused, ConnectionFailed, LeaderUnknown
            if that cannot be done now.
        """
        state = log.poll()
        self.require(state)
        if not self._has_claimed:
            if not self._own and not state.transactional_ids:
                self._is_held = True
                return ()
            self._claim()
        producers: dict[str, Producer] = {}
        channel = Channel(self._flow.target, self._client)
        try:
            while unfenced := (self._to_fence | state.transactional_ids) - producers.keys():
                for transactional_id in sorted(unfenced):
                    producers[transactional_id] = coordinator.take_over(channel, transactional_id, self._timeout_ms)
                self._wait_until_decided(channel)
                state = log.poll()
                self._is_held = True
                self.require(state)
        finally:
            channel.close()
        slots = tuple((transactional_id, producers[transactional_id]) for transactional_id in self._own)
        self._register(producer for _, producer in slots if producer.producer_id not in state.writers)
        return slots

    def require(self, state: FlowState) -> None:
        """Make sure that the flow, once it was this engine's, still is, as far as ``state`` goes.

        Raises
        ------
        Superseded
            if another engine has claimed it.
        """
        if self._is_held and state.claim not in (None, self._engine):
            raise Superseded(
                f"{self._flow}: another engine ({state.claim}) has taken the flow over; this one ({self._engine}) "
                "copies it no longer. Run one engine a flow"
            )

    def _claim(self) -> None:
        now = int(time.time() * 1000)
        ids = (transactional_id_record(transactional_id, now) for transactional_id in self._own)
        self._append([*ids, claim_record(self._engine, now)])
        self._has_claimed = True

    def _register(self, producers: Iterable[Producer]) -> None:
        now = int(time.time() * 1000)
        records = [writer_record(producer.producer_id, now) for producer in producers]
        if records:
            self._append(records)

    def _append(self, records: Iterable[StateRecord]) -> None:
        now = int(time.time() * 1000)
        writer = LogWriter(self._client, alias=self._flow.target)
        try:
            writer.append(self._topic, 0, [(key, value, (), now) for key, value in records])
        finally:
            writer.close()

    def _wait_until_decided(self, channel: Channel) -> None:
        """Wait until readers of committed data see all that is in the state topic now.

        Raises
        ------
        BrokerRefused
            if somebody's transaction in it does not end.
        """
        address = TopicPartition(self._topic, 0)
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
