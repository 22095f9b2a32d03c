"""Connections of one process to one cluster: bootstrap and security by kafka-python, hot frames on its sockets.

kafka-python connects and authenticates, then hands over the socket: from there on frames are read and written here,
without its parser. Requests that are not hot (metadata, offsets, producer ids) stay with kafka-python.
"""

from __future__ import annotations

import contextlib
import enum
import math
import random
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import kafka.errors
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from mirror.kafka import codes, topic_ids, wire
from mirror.kafka.batch import Producer
from mirror.kafka.buffers import BufferPool
from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.connecting import Connections, EventLoop, diagnosed, explained, in_words, is_refusal
from mirror.kafka.fetch_session import FetchSession
from mirror.kafka.fetch_sizes import FetchSizes
from mirror.kafka.security import arguments_of
from mirror.kafka.versions import (
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    Versions,
    misfit,
)
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.partition import TopicPartition, by_topic
from mirror.model.portable import Portable
from mirror.waiting import WaitTimeout, wait_until

EARLIEST, LATEST = -2, -1

T = TypeVar("T")

_REQUEST_MS = 10_000
_LONGEST_RECONNECT_BACKOFF_MS = 1_000
# The metadata of some ten thousand topics.
_LARGEST_ANSWER = 100_000_000
_HOT_SILENCE_SECONDS = 30.0
# A frame that arrives slowly is waited for so long before other connections get their turn.
_PATIENCE_SECONDS = 0.02
_LOADING_SECONDS = 10.0
# A broker that has been elected takes a moment until it answers as the leader.
_ELECTION_SECONDS = 3.0
# More pieces than the kernel takes in one call help nobody.
_PIECES_A_CALL = 512
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_DESCRIBE_VERSION = 1
_TLS_PIECE = 1 << 18
# A busy machine can make a short line look long, once or twice.
_PINGS = 4
_SHORT_SECONDS = 0.005


class ConnectionFailed(Exception):
    """A broker could not be reached or hung up; names the cluster, the broker and the reason.

    Attributes
    ----------
    alias
        the cluster's; empty if it is not about one.
    is_refusal
        whether a broker answered, and let nobody in with these credentials.
    """

    def __init__(self, text: str, alias: str = "", *, is_refusal: bool = False) -> None:
        super().__init__(text)
        self.alias, self.is_refusal = alias, is_refusal


class LeaderUnknown(Exception):
    """A partition has no leader now, or does not exist."""


class BrokerRefused(Portable):
    """A broker answered a request with an error: ``what`` was asked, ``error`` is kafka-python's class for it."""

    def __init__(self, what: str, error: type[BaseException]) -> None:
        """Name what was asked and the protocol error."""
        code = getattr(error, "errno", None)
        super().__init__(f"{what}: {error.__name__ if code is None else codes.name(code)}")
        self.what = what
        self.error = error

    @property
    def is_denied(self) -> bool:
        """Whether rights are lacking."""
        return self.code in codes.DENIED

    @property
    def code(self) -> int | None:
        """The error's number in the protocol; None if it was not told with one."""
        return getattr(self.error, "errno", None)

    @property
    def is_gone(self) -> bool:
        """Whether what was asked for is not there any more: offsets that the log has no longer, or the topic."""
        return getattr(self.error, "errno", None) in (codes.OFFSET_OUT_OF_RANGE, codes.UNKNOWN_TOPIC)


class View(enum.Enum):
    """Whose end of a log is meant; the value is (replica id, isolation level) of the request."""

    #: What readers see: replicated to every replica in sync.
    VISIBLE = (-1, 0)
    #: What readers of committed data see: nothing behind the start of a transaction that is still open.
    STABLE = (-1, 1)
    #: All that the leader has written, replicated or not.
    WRITTEN = (-2, 0)


class Connection:
    """One connection to one broker, for hot frames. Frames are answered in the order they were sent.

    :meth:`send` and :meth:`receive` never wait long, so that one slow broker does not hold up a loop over many;
    :meth:`ask` and :meth:`answer` wait.
    """

    def __init__(
        self,
        alias: str,
        node: int,
        sock: socket.socket,
        release: Callable[[], None],
        session_seconds: float = math.inf,
    ) -> None:
        """Take over an authenticated socket; ``release`` closes it and whatever was needed to open it."""
        self.alias, self.name = alias, f"{alias}, broker {node}"
        self._socket = sock
        self._release = release
        self._correlation = 0
        self._outgoing: list[memoryview] = []
        #: For how long the broker lets this login count (KIP-368), in seconds; infinite if it does not say.
        self.session_seconds = session_seconds
        self._logged_in_at = time.monotonic()
        #: What the broker remembers of this connection's fetches.
        self.session = FetchSession()
        #: How much to ask for at once, as far as learned.
        self.sizes = FetchSizes()
        #: The shortest time an answer has taken to begin, in seconds; about a round trip.
        self.round_trip = math.inf
        #: Until when the broker's quotas ask for silence, and whether its last answer did; monotonic seconds.
        self.quiet_until, self.is_throttled = 0.0, False
        #: When something was last written, and arrived, and when the answer last returned began to; monotonic seconds.
        self.wrote_at = self.heard_at = self.answer_began_at = 0.0
        self._length = memoryview(bytearray(4))
        self._buffers = BufferPool()
        self._frame: memoryview | None = None
        self._filled = 0
        # Sizes of buffers are left to the kernel: what is asked for ends its tuning, and is often cut to much less.
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def is_session_half_over(self) -> bool:
        """Whether it is time to log in again: when its session is over the broker hangs up at the next request."""
        return time.monotonic() - self._logged_in_at >= self.session_seconds / 2

    def fileno(self) -> int:
        """Let a selector wait for this connection."""
        return self._socket.fileno()

    def next_correlation(self) -> int:
        """Return the correlation id of the next request."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    @property
    def has_unsent(self) -> bool:
        """Whether part of a frame could not be written yet: to be flushed when the socket takes more."""
        return bool(self._outgoing)

    @property
    def has_buffered_data(self) -> bool:
        """Whether an answer may already lie in the TLS layer, where a selector does not see it."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        """Write a frame given as pieces, as far as the socket takes it; the rest stays for :meth:`flush`.

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        self._outgoing += (memoryview(piece) for piece in pieces)
        self.flush()

    def flush(self) -> None:
        """Write on, as far as the socket takes it.

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        with self._failures():
            while self._outgoing:
                sent = self._write_some()
                if sent is None:
                    return
                self.wrote_at = time.monotonic()
                done = 0
                while done < len(self._outgoing) and sent >= len(self._outgoing[done]):
                    sent -= len(self._outgoing[done])
                    done += 1
                del self._outgoing[:done]
                if sent:
                    self._outgoing[0] = self._outgoing[0][sent:]

    def receive(self) -> memoryview | None:
        """Return one whole answer without its length, writable; None when it has not arrived whole after a moment.

        What has arrived of it is kept for the next call.

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        with self._failures():
            if self._frame is None:
                if not self._fill(self._length, until):
                    return None
                (size,) = struct.unpack(">i", self._length)
                self.answer_began_at = self.heard_at
                self._frame, self._filled = self._buffers.view(size), 0
            if not self._fill(self._frame, until):
                return None
            frame, self._frame, self._filled = self._frame, None, 0
            return frame

    def ask(self, pieces: Sequence[bytes | bytearray | memoryview]) -> memoryview:
        """Write a frame whole and return its answer; nothing else may be under way.

        Raises
        ------
        ConnectionFailed
            if the broker hung up or said nothing for half a minute.
        """
        self.send(pieces)
        return self.answer()

    def answer(self) -> memoryview:
        """Wait for the answer to what was sent, and return it; nothing else may be under way.

        Raises
        ------
        ConnectionFailed
            if the broker hung up or said nothing for half a minute.
        """
        until = time.monotonic() + _HOT_SILENCE_SECONDS
        while (now := time.monotonic()) < until:
            if self.has_unsent:
                self._wait(select.POLLOUT, until - now)
                self.flush()
            elif self._wait(select.POLLIN, until - now) and (frame := self.receive()) is not None:
                return frame
        raise ConnectionFailed(f"{self.name}: no answer for {_HOT_SILENCE_SECONDS:.0f} s", self.alias)

    def require(self, needed: Iterable[Versions]) -> None:
        """Make sure that the broker offers what is spoken here; nothing else may be under way.

        Raises
        ------
        ConnectionFailed
            if it does not, with the versions; or if the broker hung up or said nothing for half a minute.
        """
        wrong = misfit(wire.parse_ping(self.ask([wire.ping_request(self.next_correlation())])), needed)
        if wrong:
            raise ConnectionFailed(f"{self.name}: {wrong}", self.alias)

    def measure(self) -> None:
        """Find out how long a round trip takes while nothing else is under way; some round trips' time.

        Raises
        ------
        ConnectionFailed
            if the broker hung up or said nothing for half a minute.
        """
        for _ in range(_PINGS):
            began = time.monotonic()
            self.ask([wire.ping_request(self.next_correlation())])
            self.round_trip = min(self.round_trip, time.monotonic() - began)
            if self.round_trip < _SHORT_SECONDS:
                return

    def throttle(self, throttle_ms: int) -> None:
        """Take in for how long an answer asks for silence."""
        self.is_throttled = throttle_ms > 0
        if self.is_throttled:
            self.quiet_until = time.monotonic() + throttle_ms / 1000

    def discard_unsent(self) -> None:
        """Have the kernel drop what it has not sent yet when the socket is closed, also when this process is killed.

        Otherwise it goes on sending for as long as a slow line takes.
        """
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        """Close the socket."""
        self._release()

    def _write_some(self) -> int | None:
        """Return how many bytes the socket took, None when it takes none now."""
        try:
            if isinstance(self._socket, ssl.SSLSocket):
                return self._socket.send(self._outgoing[0][:_TLS_PIECE])
            return self._socket.sendmsg(self._outgoing[:_PIECES_A_CALL])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return None

    def _fill(self, target: memoryview, until: float) -> bool:
        while self._filled < len(target):
            try:
                count = self._socket.recv_into(target[self._filled :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not self._wait(select.POLLIN, until - time.monotonic()):
                    return False
                continue
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            self._filled += count
            self.heard_at = time.monotonic()
        return True

    def _wait(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, event)
        return self.has_buffered_data or bool(poll.poll(max(0.0, seconds) * 1000))

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConnectionFailed(f"{self.name}: {in_words(error)}", self.alias) from error


class Channel:
    """One process's way to one cluster: leaders, offsets, producer ids, and hot connections to its brokers.

    Not to be shared between threads.
    """

    def __init__(self, alias: str, client: Mapping[str, str], *, bootstrap_ms: int = 10_000) -> None:
        """Connect to the cluster called ``alias`` with Java client properties.

        Raises
        ------
        ConnectionFailed
            if none of the bootstrap servers answers within ``bootstrap_ms``.
        """
        keep_client_quiet()
        self.alias = alias
        self._arguments = {
            **arguments_of(alias, client),
            "request_timeout_ms": _REQUEST_MS,
            "reconnect_backoff_max_ms": _LONGEST_RECONNECT_BACKOFF_MS,
            "receive_message_max_bytes": _LARGEST_ANSWER,
        }
        self._bootstrap_ms = bootstrap_ms
        # The bootstrap server that answered last.
        self._answered = ""
        self._net, self._manager = self._bootstrap()
        self._leaders: dict[TopicPartition, int] = {}
        self._replicas: dict[TopicPartition, frozenset[int]] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._topic_errors: dict[str, int] = {}
        self._reading: dict[int, Connection] = {}

    def leader(self, partition: TopicPartition) -> int:
        """Return the node that leads a partition, asking the cluster when it is not known.

        Raises
        ------
        LeaderUnknown
            if the cluster names none.
        """
        self.learn_leaders([partition])
        if partition not in self._leaders:
            raise LeaderUnknown(f"{self.alias}: {partition} has no leader")
        return self._leaders[partition]

    def known_leader(self, partition: TopicPartition) -> int | None:
        """Return the node that leads a partition as far as is known, without asking the cluster."""
        return self._leaders.get(partition)

    def replicas(self, partition: TopicPartition) -> frozenset[int]:
        """Return the brokers that had a replica when leaders were last asked for; none if that is not known."""
        return self._replicas.get(partition, frozenset())

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of the leader that :meth:`leader` returns, -1 if the cluster did not tell."""
        return self._leader_epochs.get(partition, NOT_KNOWN)

    def topic_id(self, topic: str) -> str:
        """Return the id a topic had when its leaders were last asked for, in Kafka's own spelling; empty if none."""
        return self._topic_ids.get(topic, "")

    def has_topic(self, topic: str) -> bool:
        """Ask the cluster whether it has a topic.

        Raises
        ------
        BrokerRefused
            if it does not tell: the topic may not be seen, or it has an error of another kind.
        ConnectionFailed
            if no broker can be reached.
        """
        self.refresh([topic])
        code = self._topic_errors.get(topic, codes.UNKNOWN_TOPIC)
        if code in (0, codes.LEADER_NOT_AVAILABLE):
            return True
        if code == codes.UNKNOWN_TOPIC:
            return False
        raise BrokerRefused(f"{self.alias}: topic {topic}", kafka.errors.for_code(code))

    def learn_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask, in one request, who leads those of ``partitions`` whose leader is not known."""
        unknown = {partition.topic for partition in partitions if partition not in self._leaders}
        if unknown:
            self.refresh(unknown)

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask the cluster anew who leads the partitions of these topics."""
        wanted = set(topics)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(wanted)],
            allow_auto_topic_creation=False,
            min_version=METADATA.oldest,
        )
        answer = self.call(request)
        # Brokers come and go: whom to ask follows the same answer.
        self._manager.cluster.update_metadata(answer)
        self.forget_leaders(wanted)
        for topic in answer.topics:
            self._topic_ids[topic.name] = topic_ids.spell(topic.topic_id)
            self._topic_errors[topic.name] = topic.error_code
            for entry in topic.partitions:
                if entry.leader_id >= 0:
                    address = TopicPartition(topic.name, entry.partition_index)
                    self._leaders[address], self._leader_epochs[address] = entry.leader_id, entry.leader_epoch
                    self._replicas[address] = frozenset(entry.replica_nodes)

    def remember(self, other: Channel) -> None:
        """Take over what another channel to the same cluster has learned of leaders and topics."""
        self._leaders = dict(other._leaders)
        self._leader_epochs = dict(other._leader_epochs)
        self._replicas = dict(other._replicas)
        self._topic_ids = dict(other._topic_ids)

    def forget_leaders(self, topics: Iterable[str] | None = None) -> None:
        """Ask again who leads the partitions of these topics, or of all, before they are used next."""
        forgotten = None if topics is None else set(topics)
        self._leaders = {
            known: node
            # Another thread may be learning others meanwhile.
            for known, node in list(self._leaders.items())
            if forgotten is not None and known.topic not in forgotten
        }

    def forget_led_by(self, node: int) -> None:
        """Ask again who leads what a broker has led, before that is used next."""
        self._leaders = {known: leader for known, leader in list(self._leaders.items()) if leader != node}

    def offsets(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> dict[TopicPartition, int]:
        """Return start offsets (``at=EARLIEST``) or end offsets (``at=LATEST``) of partitions.

        A leader that has just been elected is asked again for some seconds.

        Raises
        ------
        LeaderUnknown, BrokerRefused, ConnectionFailed
            if any of them cannot be told: a list that could be short is not returned.
        """
        wanted = list(partitions)
        try:
            found, problems = wait_until(
                lambda: self.find_offsets(wanted, at, view),
                f"the leaders of {self.alias}",
                timeout_seconds=_ELECTION_SECONDS,
                until=lambda answer: not any(_is_election(problem) for problem in answer[1].values()),
            )
        except WaitTimeout:
            found, problems = self.find_offsets(wanted, at, view)
        for problem in problems.values():
            raise problem
        return found

    def find_offsets(
        self, partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
        """Return the offsets that can be told, as :meth:`offsets` does, and of the other partitions why not.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        return self.ask_leaders(
            "offsets",
            list(partitions),
            lambda node, led: offsets_answered(self.call(offsets_request(led, at, view), node)),
        )

    def find_epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, EpochEnd | None], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
        """Return of each partition the newest leader epoch not newer than the given one, and where it ends in the log.

        None where the log has no such epoch; of partitions that cannot be asked about, why not.

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        return self.ask_leaders(
            "leader epochs", list(epochs), lambda node, led: self._epoch_ends(node, {one: epochs[one] for one in led})
        )

    def ask_leaders(
        self,
        what: str,
        wanted: Sequence[TopicPartition],
        ask: Callable[[int, Sequence[TopicPartition]], Iterable[tuple[TopicPartition, int, T]]],
    ) -> tuple[dict[TopicPartition, T], dict[TopicPartition, LeaderUnknown | BrokerRefused]]:
        """Ask every leader of ``wanted`` about the partitions it leads.

        Parameters
        ----------
        what
            is asked for, in words for people.
        ask
            is given a broker and what it leads, and returns of each partition the error code (0 for none) and answer.

        Returns
        -------
        the answers, and of the other partitions why there is none

        Raises
        ------
        ConnectionFailed
            if no broker can be reached.
        """
        self.learn_leaders(wanted)
        found: dict[TopicPartition, T] = {}
        problems: dict[TopicPartition, LeaderUnknown | BrokerRefused] = {}
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            if partition in self._leaders:
                by_node.setdefault(self._leaders[partition], []).append(partition)
            else:
                problems[partition] = LeaderUnknown(f"{self.alias}: {partition} has no leader")
        failures: list[ConnectionFailed] = []
        for node, led in by_node.items():
            try:
                answers = list(ask(node, led))
            except ConnectionFailed as failure:
                failures.append(failure)
                self.forget_leaders({partition.topic for partition in led})
                problems |= {each: LeaderUnknown(f"{self.alias}: the leader of {each}: {failure}") for each in led}
                continue
            for partition, code, answer in answers:
                if code:
                    self._leaders.pop(partition, None)
                    problems[partition] = BrokerRefused(
                        f"{self.alias}: {what} of {partition}", kafka.errors.for_code(code)
                    )
                else:
                    found[partition] = answer
        if failures and len(failures) == len(by_node):
            raise failures[0]
        return found, problems

    def new_producer(self) -> Producer:
        """Ask for a producer id of our own (idempotent, not transactional).

        Raises
        ------
        BrokerRefused
            if the cluster gives none; while it is still loading it is asked again for some seconds.
        """
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
            max_version=INIT_PRODUCER_ID.newest,
        )
        try:
            answer = wait_until(
                lambda: self.call(request),
                "a producer id",
                timeout_seconds=_LOADING_SECONDS,
                until=lambda answer: not codes.is_retriable(answer.error_code),
            )
        except WaitTimeout:
            answer = self.call(request)
        if answer.error_code:
            raise BrokerRefused(f"{self.alias}: a producer id", kafka.errors.for_code(answer.error_code))
        return Producer(answer.producer_id, answer.producer_epoch)

    def call(self, request: Any, node: int | None = None) -> Any:
        """Send a request of kafka-python's and return its answer.

        The request must be one that may be asked twice: that an idle connection is dead shows only when it is used.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached or does not answer in time.
        """

        async def ask() -> Any:
            return await self._manager.send(request, node_id=node)

        try:
            with contextlib.suppress(kafka.errors.KafkaConnectionError):
                return self._net.run(ask)
            return self._net.run(ask)
        except (kafka.errors.KafkaError, OSError) as error:
            raise ConnectionFailed(f"{self.alias}: {self._said(error)}", self.alias) from error

    def connect(self, node: int, needed: Iterable[Versions]) -> Connection:
        """Open one more connection to a broker, for the hot frames of ``needed``.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached, or does not offer what is needed.
        """
        # A selector of its own: once its socket is handed over it is never polled again.
        net, manager = self._bootstrap()

        def release() -> None:
            manager.close()
            net.close()

        async def reach() -> Any:
            connection = manager.get_connection(node)
            await connection
            return connection

        try:
            reached = net.run(reach)
            reached.transport.pause_reading()
            seconds = reached._reauth.session_lifetime_ms / 1000 or math.inf
            connection = Connection(self.alias, node, reached.transport._sock, release, seconds)
            connection.require(needed)
        except ConnectionFailed:
            release()
            raise
        except (kafka.errors.KafkaError, OSError) as error:
            release()
            raise ConnectionFailed(f"{self.alias}, broker {node}: {self._said(error)}", self.alias) from error
        return connection

    def reading(self, node: int) -> Connection:
        """Return the connection over which this process reads from a broker, one reader after the other.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached.
        """
        known = self._reading.get(node)
        if known is not None and known.is_session_half_over:
            self.give_up_reading(known)
        if node not in self._reading:
            self._reading[node] = self.connect(node, (FETCH,))
        return self._reading[node]

    def give_up_reading(self, connection: Connection) -> None:
        """Close a connection of :meth:`reading` that failed; the next reader opens another."""
        connection.close()
        self._reading = {node: one for node, one in self._reading.items() if one is not connection}

    def close(self) -> None:
        """Close what kafka-python holds and the reading connections; others are closed by whoever opened them."""
        for connection in self._reading.values():
            connection.close()
        self._reading.clear()
        self._manager.close()
        self._net.close()

    def _epoch_ends(
        self, node: int, epochs: Mapping[TopicPartition, int]
    ) -> Iterator[tuple[TopicPartition, int, EpochEnd | None]]:
        """Yield (partition, error code, what the broker that leads it says of the epoch)."""
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                asked(
                    topic=name,
                    partitions=[
                        asked.OffsetForLeaderPartition(
                            partition=number, leader_epoch=epochs[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(epochs).items()
            ],
            min_version=OFFSET_FOR_LEADER_EPOCH.oldest,
        )
        for topic in self.call(request, node).topics:
            for entry in topic.partitions:
                end = EpochEnd(entry.leader_epoch, entry.end_offset)
                known = end if end.epoch != NOT_KNOWN and end.end >= 0 else None
                yield TopicPartition(topic.topic, entry.partition), entry.error_code, known

    def _bootstrap(self) -> tuple[EventLoop, Connections]:
        """Connect to the first of the bootstrap servers that answers; the one that answered last is asked first."""
        servers = list(self._arguments["bootstrap_servers"])
        random.shuffle(servers)
        servers.sort(key=lambda server: server != self._answered)
        reasons, is_refused = [], False
        for server in servers:
            try:
                self._knock(server)
                answering = self._bootstrap_at(server)
            except kafka.errors.KafkaTimeoutError as error:
                # The library does not tell what has failed again and again.
                reasons.append(f"{server}: {diagnosed(server, self._arguments) or self._said(error)}")
            except (kafka.errors.KafkaError, OSError, ValueError) as error:
                reasons.append(f"{server}: {self._said(error)}")
                is_refused = is_refused or is_refusal(error)
            else:
                self._answered = server
                return answering
        raise ConnectionFailed(f"{self.alias}: {'; '.join(reasons)}", self.alias, is_refusal=is_refused)

    def _knock(self, server: str) -> None:
        """See that a server accepts connections; kafka-python would try a dead one until its time is up."""
        host, _, port = server.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=self._bootstrap_ms / 1000).close()

    def _bootstrap_at(self, server: str) -> tuple[EventLoop, Connections]:
        net = EventLoop()
        manager = Connections(net, **{**self._arguments, "bootstrap_servers": [server]})
        try:
            manager.bootstrap(self._bootstrap_ms)
        except (kafka.errors.KafkaError, OSError):
            manager.close()
            net.close()
            raise
        return net, manager

    def _said(self, error: BaseException) -> str:
        return explained(error, self._arguments) or in_words(error)


def _is_election(problem: LeaderUnknown | BrokerRefused) -> bool:
    return isinstance(problem, BrokerRefused) and problem.code in codes.ELECTION


def broker_setting(connection: Connection, node: int, name: str) -> str | None:
    """Return a setting of the broker that ``connection`` leads to, None if it does not tell.

    Raises
    ------
    ConnectionFailed
        if the broker hung up or said nothing for half a minute.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[resource])
    request.API_VERSION = _DESCRIBE_VERSION
    request.with_header(connection.next_correlation(), "mirror")
    frame = connection.ask([request.encode(header=True, framed=True)])
    answer = DescribeConfigsResponse.decode(frame, version=_DESCRIBE_VERSION, header=True)
    values = [entry.value for result in answer.results for entry in result.configs if entry.name == name]
    return values[0] if values else None


def topic_settings(channel: Channel, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return these settings of topics; nothing of one that the cluster does not tell, for lack of a right or a topic.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    asked = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        asked(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[*names])
        for topic in sorted(topics)
    ]
    if not resources:
        return {}
    answer = channel.call(DescribeConfigsRequest(resources=resources))
    return {
        result.resource_name: {entry.name: entry.value for entry in result.configs}
        for result in answer.results
        if not result.error_code
    }


def offsets_request(partitions: Iterable[TopicPartition], at: int, view: View = View.VISIBLE) -> ListOffsetsRequest:
    """Return the question where logs begin (``at=EARLIEST``) or end (``at=LATEST``), for the broker that leads them."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    replica, isolation = view.value
    return ListOffsetsRequest(
        replica_id=replica,
        isolation_level=isolation,
        topics=[
            asked(
                name=name,
                partitions=[asked.ListOffsetsPartition(partition_index=number, timestamp=at) for number in numbers],
            )
            for name, numbers in by_topic(partitions).items()
        ],
        timeout_ms=_REQUEST_MS,
        min_version=LIST_OFFSETS.oldest,
    )


def offsets_answered(answer: Any) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield (partition, error code, offset) of an answer to :func:`offsets_request`."""
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry.error_code, entry.offset
