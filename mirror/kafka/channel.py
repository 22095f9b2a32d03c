"""Connections of one process to one cluster: bootstrap and security by kafka-python, hot frames on its sockets.

kafka-python connects and authenticates, then hands over the socket: from there on frames are read and written here,
without its parser. Requests that are not hot (metadata, offsets, producer ids) stay with kafka-python.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import kafka.errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from mirror.kafka.batch import Producer
from mirror.kafka.security import client_arguments
from mirror.model.partition import TopicPartition

EARLIEST, LATEST = -2, -1

_BUFFER_BYTES = 4 << 20
_REQUEST_MS = 10_000
_HOT_SILENCE_SECONDS = 30.0


class ConnectionFailed(Exception):
    """A broker could not be reached or hung up; names the cluster, the broker and the reason."""


class LeaderUnknown(Exception):
    """A partition has no leader now, or does not exist."""


class BrokerRefused(Exception):
    """A broker answered a request with an error; ``name`` is the protocol's name of it."""

    def __init__(self, what: str, error: type[BaseException]) -> None:
        """Name what was asked and the protocol error."""
        super().__init__(f"{what}: {error.__name__}")
        self.error = error


class _NotYet(Exception):
    """A coordinator that is still loading; asked again."""


class Connection:
    """One blocking connection to one broker, for hot frames. Frames are answered in the order they were sent."""

    def __init__(self, name: str, sock: socket.socket, keep: object) -> None:
        """Take over an authenticated socket; ``keep`` is what must not be collected while it lives."""
        self.name = name
        self._socket = sock
        self._keep = keep
        self._correlation = 0
        self._length = bytearray(4)
        sock.settimeout(_HOT_SILENCE_SECONDS)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """Let a selector wait for this connection."""
        return self._socket.fileno()

    def next_correlation(self) -> int:
        """Return the correlation id of the next request."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    @property
    def has_buffered_data(self) -> bool:
        """Whether an answer may already lie in the TLS layer, where a selector does not see it."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        """Write a frame given as pieces.

        Raises
        ------
        ConnectionFailed
            if the broker hung up or took nothing for half a minute.
        """
        with self._failures():
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.sendall(b"".join(pieces))
                return
            left = [memoryview(piece) for piece in pieces]
            while left:
                sent = self._socket.sendmsg(left[:512])
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]

    def receive(self) -> memoryview:
        """Read one answer whole and return it without its length, writable.

        Raises
        ------
        ConnectionFailed
            if the broker hung up or said nothing for half a minute.
        """
        with self._failures():
            self._fill(memoryview(self._length))
            (size,) = struct.unpack(">i", self._length)
            frame = memoryview(bytearray(size))
            self._fill(frame)
            return frame

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _fill(self, target: memoryview) -> None:
        filled = 0
        while filled < len(target):
            count = self._socket.recv_into(target[filled:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            filled += count

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConnectionFailed(f"{self.name}: {error}") from error


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
        self.alias = alias
        self._arguments = {**client_arguments(client), "request_timeout_ms": _REQUEST_MS}
        self._bootstrap_ms = bootstrap_ms
        self._net, self._manager = self._bootstrap()
        self._leaders: dict[TopicPartition, int] = {}

    def leader(self, partition: TopicPartition) -> int:
        """Return the node that leads a partition, asking the cluster when it is not known.

        Raises
        ------
        LeaderUnknown
            if the cluster names none.
        """
        if partition not in self._leaders:
            self.refresh([partition.topic])
        if partition not in self._leaders:
            raise LeaderUnknown(f"{self.alias}: {partition} has no leader")
        return self._leaders[partition]

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask the cluster anew who leads the partitions of these topics."""
        wanted = set(topics)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(wanted)],
            allow_auto_topic_creation=False,
        )
        answer = self.call(request)
        # Brokers come and go: the list that hot connections are opened from follows the same answer.
        self._manager.cluster.update_metadata(answer)
        self._leaders = {known: node for known, node in self._leaders.items() if known.topic not in wanted}
        for topic in answer.topics:
            for entry in topic.partitions:
                if entry.leader_id >= 0:
                    self._leaders[TopicPartition(topic.name, entry.partition_index)] = entry.leader_id

    def forget_leaders(self) -> None:
        """Ask again who leads a partition before it is used next."""
        self._leaders.clear()

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """Return start offsets (``at=EARLIEST``) or end offsets (``at=LATEST``) of partitions.

        Raises
        ------
        LeaderUnknown, BrokerRefused, ConnectionFailed
            if any of them cannot be told: a list that could be short is not returned.
        """
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_node.setdefault(self.leader(partition), []).append(partition)
        found: dict[TopicPartition, int] = {}
        for node, led in by_node.items():
            topics = {name: [one for one in led if one.topic == name] for name in {one.topic for one in led}}
            asked = ListOffsetsRequest.ListOffsetsTopic
            request = ListOffsetsRequest(
                isolation_level=0,
                topics=[
                    asked(
                        name=name,
                        partitions=[
                            asked.ListOffsetsPartition(partition_index=one.partition, timestamp=at) for one in entries
                        ],
                    )
                    for name, entries in topics.items()
                ],
                min_version=1,
            )
            for topic in self.call(request, node).topics:
                for entry in topic.partitions:
                    partition = TopicPartition(topic.name, entry.partition_index)
                    if entry.error_code:
                        self._leaders.pop(partition, None)
                        raise BrokerRefused(
                            f"{self.alias}: offsets of {partition}", kafka.errors.for_code(entry.error_code)
                        )
                    found[partition] = entry.offset
        return found

    def new_producer(self) -> Producer:
        """Ask for a producer id of our own (idempotent, not transactional).

        Raises
        ------
        BrokerRefused
            if the cluster gives none; while it is still loading it is asked again for half a minute.
        """
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1, max_version=4
        )
        patiently = Retrying(
            retry=retry_if_exception_type(_NotYet),
            stop=stop_after_delay(30),
            wait=wait_random_exponential(multiplier=0.05, max=1),
            reraise=True,
        )

        def ask() -> Producer:
            answer = self.call(request)
            if answer.error_code:
                error = kafka.errors.for_code(answer.error_code)
                if getattr(error, "retriable", False):
                    raise _NotYet(error.__name__)
                raise BrokerRefused(f"{self.alias}: a producer id", error)
            return Producer(answer.producer_id, answer.producer_epoch)

        return patiently(ask)

    def call(self, request: Any, node: int | None = None) -> Any:
        """Send a request of kafka-python's and return its answer.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached or does not answer in time.
        """

        async def ask() -> Any:
            return await self._manager.send(request, node_id=node)

        try:
            return self._net.run(ask)
        except (kafka.errors.KafkaError, OSError) as error:
            raise ConnectionFailed(f"{self.alias}: {type(error).__name__}: {error}") from error

    def connect(self, node: int) -> Connection:
        """Open one more connection to a broker, for hot frames.

        Raises
        ------
        ConnectionFailed
            if the broker cannot be reached.
        """
        # A selector of its own: once its socket is handed over it is never polled again.
        net, manager = self._bootstrap()

        async def reach() -> Any:
            connection = manager.get_connection(node)
            await connection
            return connection

        try:
            connection = net.run(reach)
        except (kafka.errors.KafkaError, OSError) as error:
            raise ConnectionFailed(f"{self.alias}, broker {node}: {type(error).__name__}: {error}") from error
        transport = connection.transport
        transport.pause_reading()
        sock = transport._sock
        sock.setblocking(True)
        return Connection(f"{self.alias}, broker {node}", sock, (net, manager, connection))

    def close(self) -> None:
        """Close what kafka-python holds; hot connections are closed by whoever opened them."""
        self._manager.close()
        self._net.close()

    def _bootstrap(self) -> tuple[NetworkSelector, KafkaConnectionManager]:
        net = NetworkSelector()
        servers = list(self._arguments["bootstrap_servers"])
        random.shuffle(servers)
        manager = KafkaConnectionManager(net, **{**self._arguments, "bootstrap_servers": servers})
        try:
            manager.bootstrap(self._bootstrap_ms)
        except (kafka.errors.KafkaError, OSError) as error:
            manager.close()
            net.close()
            raise ConnectionFailed(f"{self.alias}: {', '.join(servers)}: {type(error).__name__}: {error}") from error
        return net, manager
