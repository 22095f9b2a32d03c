"""The connections a worker process keeps from one epoch to the next, by cluster and broker."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel, Connection, ConnectionFailed
from mirror.model.partition import TopicPartition

_REACH_MS = 2_000
_FIRST_REST_SECONDS = 0.1
_LONGEST_REST_SECONDS = 5.0


class Cluster:
    """What one worker process holds of one cluster: the channel, idle hot connections, and its own producer id.

    After a failure the cluster is left alone for a while, longer each time; asking meanwhile raises the failure again.
    """

    def __init__(self, alias: str, client: Mapping[str, str]) -> None:
        """Connect when first needed, not before."""
        self.alias = alias
        self._client = client
        self._channel: Channel | None = None
        self._idle: dict[tuple[int, str], Connection] = {}
        self._rest_until = 0.0
        self._rest_seconds = _FIRST_REST_SECONDS
        self._failure: ConnectionFailed | None = None
        self._producer: Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def channel(self) -> Channel:
        """Return the channel, connecting if need be.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached, or could not a moment ago.
        """
        if self._failure is not None and time.monotonic() < self._rest_until:
            raise self._failure
        if self._channel is None:
            try:
                self._channel = Channel(self.alias, self._client, bootstrap_ms=_REACH_MS)
            except ConnectionFailed as failure:
                self.failed(failure)
                raise
            self._failure, self._rest_seconds = None, _FIRST_REST_SECONDS
        return self._channel

    def failed(self, failure: ConnectionFailed) -> None:
        """Drop every connection and leave the cluster alone for a while."""
        self._failure = failure
        self._rest_until = time.monotonic() + self._rest_seconds
        self._rest_seconds = min(2 * self._rest_seconds, _LONGEST_REST_SECONDS)
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def forget_leaders(self) -> None:
        """A connection broke: who leads what is asked anew before the next one is opened."""
        if self._channel is not None:
            self._channel.forget_leaders()

    def lease(self, node: int, role: str) -> Connection:
        """Return a connection to a broker for one role; give it back with :meth:`give_back`."""
        return self._idle.pop((node, role), None) or self.channel().connect(node)

    def give_back(self, node: int, role: str, connection: Connection) -> None:
        """Keep a connection that has no unanswered request for the next epoch."""
        self._idle[node, role] = connection

    def producer(self) -> Producer:
        """Return this process's producer id on the cluster."""
        if self._producer is None:
            self._producer = self.channel().new_producer()
            self._sequences.clear()
        return self._producer

    def retire_producer(self) -> None:
        """Never use the producer id again: what was written with it last is not certain."""
        self._producer = None

    def sequence(self, partition: TopicPartition) -> int:
        """Return the next sequence of this process's producer on a partition."""
        return self._sequences.get(partition, 0)

    def keep_sequence(self, partition: TopicPartition, sequence: int) -> None:
        """Remember the next sequence of a partition."""
        self._sequences[partition] = sequence


_clusters: dict[tuple[str, tuple[tuple[str, str], ...]], Cluster] = {}


def cluster(alias: str, client: Mapping[str, str]) -> Cluster:
    """Return what this process holds of a cluster; the same object in every epoch."""
    key = (alias, tuple(sorted(client.items())))
    return _clusters.setdefault(key, Cluster(alias, client))
