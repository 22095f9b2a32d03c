"""The connections a worker process keeps from one epoch to the next, by cluster and broker.

Invariants:

(a) A broker answers one request of a connection after the other, and with ``acks=all`` only once the replicas in sync
    have it: what a leader writes with other replicas is sent over another connection (eight of a broker at most), so
    that partitions without a replica on a dead broker do not wait for it. A partition whose last batch may or may not
    be there is sent to over a connection apart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from mirror.copier.backoff import Backoff
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import Producer
from mirror.kafka.channel import EARLIEST, LATEST, Channel, broker_setting
from mirror.kafka.connection import Connection
from mirror.kafka.metadata import Metadata
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.throttling import Throttling
from mirror.kafka.versions import Versions
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

_REACH_MS = 2_000
# Not longer: the partitions of other leaders wait meanwhile.
_ELECTION_SECONDS = 3.0
_FIRST_BACKOFF_SECONDS = 0.1
_LONGEST_BACKOFF_SECONDS = 5.0
# Who is slow to say that it cannot be reached is asked less often: the others wait meanwhile.
_BACKOFF_A_SECOND_LOST = 5.0
# After a follower failed only the leader is read for so long. Leaders name a dead one until its session is over, and
# one that only we cannot reach for ever.
_LEADER_ALONE_SECONDS = 60.0
# What a broker's socket.request.max.bytes is by default.
LARGEST_REQUEST_BYTES = 100 << 20

# Partitions of a leader with other replicas are written to over other connections, at most so many of a broker.
_LINES = 8

T = TypeVar("T")

Silences: TypeAlias = Mapping[tuple[int, str], float]
"""For how many seconds quotas have held back the connections to a broker, by its number and their role."""


class _Attempts:
    """After a failure a broker is left alone for a while, longer each time."""

    def __init__(self) -> None:
        self._failure: str | None = None
        self._until = 0.0
        self._backoff = Backoff(_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS)

    def attempt(self, act: Callable[[], T]) -> T:
        """Do it, unless it failed a moment ago; then the same failure is raised again."""
        began = time.monotonic()
        if self._failure is not None and began < self._until:
            raise ConnectionFailed(self._failure)
        try:
            result = act()
        except ConnectionFailed as failure:
            now = time.monotonic()
            self._failure = str(failure)
            self._until = now + max(self._backoff.next_seconds(), _BACKOFF_A_SECOND_LOST * (now - began))
            raise
        self._failure = None
        self._backoff.end()
        return result


class Writer:
    """A producer, and its next sequence on each partition."""

    def __init__(self, producer: Producer, sequences: Mapping[TopicPartition, int] | None = None) -> None:
        """Begin where the id stands; by default with one that nothing was written with."""
        self.producer = producer
        self._sequences: dict[TopicPartition, int] = dict(sequences or {})

    @property
    def sequences(self) -> Mapping[TopicPartition, int]:
        """The next sequence on each partition that was written to."""
        return dict(self._sequences)

    def sequence(self, partition: TopicPartition) -> int:
        """Return the next sequence on a partition."""
        return self._sequences.get(partition, 0)

    def keep_sequence(self, partition: TopicPartition, sequence: int) -> None:
        """Remember the next sequence on a partition."""
        self._sequences[partition] = sequence


class ClusterLinks:
    """What one worker process holds of one cluster: the channel, and idle hot connections.

    What cannot be reached is left alone for a while, longer each time; asking meanwhile raises the failure again.
    """

    def __init__(self, alias: str, client: Mapping[str, str]) -> None:
        """Connect when first needed, not before."""
        self.alias = alias
        self._client = client
        self._channel: Channel | None = None
        self._is_closed = False
        # What a channel has learned may still be right when it is closed.
        self._metadata = Metadata()
        #: Held by the thread that asks something on the channel; one of an epoch that is over may still do so.
        self.asking = threading.RLock()
        # Connections are opened in threads, which all begin from the channel.
        self._opening = threading.Lock()
        self._attempts = _Attempts()
        self._broker_attempts: dict[int, _Attempts] = {}
        self._idle: dict[tuple[int, str], Connection] = {}
        # What the connections of each role have been told of quotas, one after the other.
        self._throttlings: dict[tuple[int, str], Throttling] = {}
        self._largest_requests: dict[int, int] = {}
        #: The largest joined batch that a topic may take, where one was refused.
        self.largest_batches: dict[str, float] = {}
        #: Of each partition that is read when its leader was last heard of, and when that was last looked at.
        self.answered_at: dict[tuple[Flow, TopicPartition], tuple[float, float]] = {}
        self._leader_alone: dict[TopicPartition, tuple[float, str]] = {}
        # Of each broker the number of the connection by the replicas of what is written over it.
        self._lines: dict[int, dict[frozenset[int], int]] = {}

    def channel(self) -> Channel:
        """Return the channel, connecting if need be; failures on it should be told with :meth:`lost`.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached, or could not a moment ago.
        """
        with self._opening:
            if self._is_closed:
                raise ConnectionFailed(f"{self.alias}: nothing is asked any more")
            channel = self._channel
            if channel is None:
                channel = self._channel = self._attempts.attempt(
                    lambda: Channel(
                        self.alias,
                        self._client,
                        bootstrap_ms=_REACH_MS,
                        metadata=self._metadata,
                        election_seconds=_ELECTION_SECONDS,
                    )
                )
            return channel

    def lost(self) -> None:
        """The cluster did not answer on the channel: the next question finds its way from the bootstrap servers."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def ask(self, question: Callable[[Channel], T]) -> T:
        """Return what the channel says.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached, or could not a moment ago.
        """
        with self.asking:
            try:
                return question(self.channel())
            except ConnectionFailed:
                self.lost()
                raise

    def known_leader(self, partition: TopicPartition) -> int | None:
        """Return who leads a partition if that need not be asked for."""
        return self._metadata.leader(partition)

    def known_leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of that leader, -1 if it is not known."""
        return self._metadata.leader_epoch(partition)

    def line(self, node: int, partition: TopicPartition) -> int:
        """Return over which of several connections to its leader a partition is written to, from 0 on.

        A broker answers one request of a connection after the other, and with ``acks=all`` only when the replicas in
        sync have it. Partitions with the same replicas wait for the same brokers; what has others does not wait along.
        """
        replicas = self._metadata.replicas(partition)
        lines = self._lines.setdefault(node, {})
        return lines.setdefault(replicas, len(lines) % _LINES)

    def known_topic_id(self, topic: str) -> str:
        """Return the id that a topic had when its leaders were last asked for; empty if that is not known."""
        return self._metadata.topic_id(topic)

    def forget_leaders(self, topics: Iterable[str] | None = None) -> None:
        """Ask anew who leads the partitions of these topics, or all, before one is used next."""
        self._metadata.forget(topics)

    def read_leader(self, partition: TopicPartition, reason: str) -> None:
        """Read a partition from its leader alone for a while: a follower that it named failed."""
        self._leader_alone[partition] = time.monotonic() + _LEADER_ALONE_SECONDS, reason

    def leader_alone(self, partition: TopicPartition) -> str | None:
        """Return why a partition is to be read from its leader and no other replica now; None: it need not be."""
        until, reason = self._leader_alone.get(partition, (0.0, ""))
        return reason if time.monotonic() < until else None

    def connection(self, node: int, role: str, needed: Sequence[Versions]) -> Connection:
        """Return a connection to a broker for the requests of one role; give it back with :meth:`give_back`.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached or does not know the requests, or so a moment ago; who leads what is then
            asked anew.
        """
        idle = self.take_idle(node, role)
        if idle is not None:
            return idle
        channel = self.channel()

        def connect() -> Connection:
            connection = channel.connect(node, needed)
            try:
                connection.measure()
                if node not in self._largest_requests:
                    limit = broker_setting(connection, node, "socket.request.max.bytes")
                    self._largest_requests[node] = int(limit) if limit else LARGEST_REQUEST_BYTES
            except BaseException:
                connection.close()
                raise
            return connection

        try:
            connection = self._broker_attempts.setdefault(node, _Attempts()).attempt(connect)
        except ConnectionFailed:
            # Of what the others lead all is known still.
            self._metadata.forget_led_by(node)
            raise
        connection.throttling = self._throttlings.setdefault((node, role), connection.throttling)
        connection.throttling.begin_anew(time.monotonic())
        return connection

    def take_idle(self, node: int, role: str) -> Connection | None:
        """Return a connection that was given back, if there is one; it is the asker's then.

        One whose session would be over soon is closed instead: nothing is under way on it now.
        """
        idle = self._idle.pop((node, role), None)
        if idle is not None and idle.is_session_half_over:
            idle.close()
            return None
        return idle

    def give_back(self, node: int, role: str, connection: Connection) -> None:
        """Keep a connection that has no unanswered request for the next epoch."""
        if self._is_closed:
            connection.close()
            return
        superfluous = self._idle.pop((node, role), None)
        if superfluous is not None:
            superfluous.close()
        self._idle[node, role] = connection

    def silences(self, now: float, purpose: str) -> Silences:
        """Return for how many seconds so far quotas have held back each role of a purpose (fetch, produce)."""
        known = tuple(self._throttlings.items())
        return {place: each.silent_seconds(now) for place, each in known if place[1].startswith(purpose)}

    def largest_request(self, node: int) -> int:
        """Return how large a request a broker takes, as it told who connected; it hangs up on a larger one."""
        return self._largest_requests.get(node, LARGEST_REQUEST_BYTES)

    def close(self) -> None:
        """Close every connection that nobody uses, now and when it is given back; wait for who asks something."""
        with self.asking:
            self._is_closed = True
            self.lost()
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()


_clusters: dict[tuple[str, tuple[tuple[str, str], ...], Flow | None], ClusterLinks] = {}


def cluster(alias: str, client: Mapping[str, str], *, beside: Flow | None = None) -> ClusterLinks:
    """Return what this process holds of a cluster; the same object in every epoch.

    What is looked at for a flow ``beside`` the copy loop has connections of its own.
    """
    key = (alias, tuple(sorted(client.items())), beside)
    return _clusters.setdefault(key, ClusterLinks(alias, client))


def bounds(channel: Channel, partitions: list[TopicPartition]) -> PartitionAnswers[tuple[int, int]]:
    """Return where the logs of partitions begin and end.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    starts = channel.find_offsets(partitions, EARLIEST)
    ends = channel.find_offsets(starts, LATEST)
    return PartitionAnswers({each: (starts[each], end) for each, end in ends.items()}, starts.problems | ends.problems)
