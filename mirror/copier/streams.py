"""Batches on their way to target partitions: in order, a few requests in flight, resent unchanged after trouble.

A :class:`Stream` is the queue of one partition, a :class:`Sender` the connection to the broker that leads it. A batch that
may or may not have arrived is sent again with the same producer id and sequence; the broker recognises it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mirror.copier.links import Cluster
from mirror.kafka import codes, wire
from mirror.kafka.channel import Connection, ConnectionFailed
from mirror.model.partition import TopicPartition

REQUESTS_IN_FLIGHT = 5
REQUEST_BYTES = 1 << 20
PARTITIONS_A_REQUEST = 16
ANSWER_SECONDS = 40.0

_FIRST_REST_SECONDS = 0.05
_LONGEST_REST_SECONDS = 2.0


class Piece(Protocol):
    """One batch to be appended."""

    content: memoryview


class Stream:
    """The batches for one target partition, in order.

    ``acknowledged(piece, base_offset)`` is called for each piece in order; ``refused(code, message)`` once, when the broker
    will not take the oldest unacknowledged piece however often it is sent. After that the stream is closed.
    """

    __slots__ = (
        "acknowledged",
        "bytes",
        "closed",
        "code",
        "failed",
        "in_flight",
        "message",
        "partition",
        "pipelined",
        "queue",
        "refused",
        "rest_seconds",
        "rest_until",
    )

    def __init__(
        self,
        partition: TopicPartition,
        acknowledged: Callable[[Piece, int], None],
        refused: Callable[[int, str], None],
        *,
        pipelined: bool,
    ) -> None:
        """Open a stream; one that is not ``pipelined`` has one batch in flight at most."""
        self.partition = partition
        self.acknowledged = acknowledged
        self.refused = refused
        self.pipelined = pipelined
        self.queue: deque[Piece] = deque()
        self.in_flight: deque[Piece] = deque()
        self.failed: list[Piece] = []
        self.bytes = 0
        self.code = 0
        self.message = ""
        self.rest_until = 0.0
        self.rest_seconds = _FIRST_REST_SECONDS
        self.closed = False

    @property
    def is_idle(self) -> bool:
        """Whether every piece is acknowledged."""
        return not (self.queue or self.in_flight or self.failed)

    def put(self, piece: Piece) -> None:
        """Append one more batch."""
        self.queue.append(piece)
        self.bytes += len(piece.content)

    def can_send(self, now: float) -> bool:
        """Whether its next batch may go out now."""
        return bool(
            self.queue
            and not self.failed
            and not self.closed
            and now >= self.rest_until
            and (self.pipelined or not self.in_flight)
        )

    def take(self) -> Piece:
        """Move the next batch into flight."""
        piece = self.queue.popleft()
        self.in_flight.append(piece)
        return piece

    def answered(self, code: int, base_offset: int, message: str) -> bool:
        """Take in the answer to the oldest batch in flight; return whether the partition's leader should be looked up anew.

        From the first failure on, all that was in flight behind it is sent again in order, whatever its own answer.
        """
        piece = self.in_flight.popleft()
        if code == 0 and not self.failed:
            self.bytes -= len(piece.content)
            self.rest_seconds = _FIRST_REST_SECONDS
            self.acknowledged(piece, base_offset)
            return False
        if not self.failed:
            self.code, self.message = code, message
        self.failed.append(piece)
        return self._settle()

    def lost(self) -> None:
        """Take back everything in flight: its connection broke, and what became of it is not known."""
        if self.in_flight:
            if not self.failed:
                self.code, self.message = 0, "connection lost"
            self.failed.extend(self.in_flight)
            self.in_flight.clear()
            self._settle()

    def close(self) -> None:
        """Drop what is queued."""
        self.closed = True
        self.queue.clear()

    def _settle(self) -> bool:
        if self.in_flight:
            return False
        if self.code == 0 or codes.is_retriable(self.code):
            self.queue.extendleft(reversed(self.failed))
            self.failed.clear()
            self.rest_until = time.monotonic() + self.rest_seconds
            self.rest_seconds = min(2 * self.rest_seconds, _LONGEST_REST_SECONDS)
            return True
        self.close()
        self.refused(self.code, self.message)
        return False


class Sender:
    """The produce connection to one broker and the streams that go over it."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        """Send over ``connection`` to a broker of ``cluster``."""
        self.cluster = cluster
        self.connection = connection
        self.streams: deque[Stream] = deque()
        self._requests: deque[tuple[float, dict[TopicPartition, Stream]]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether no request is unanswered."""
        return not self._requests

    def send(self, now: float) -> None:
        """Send what may be sent.

        Raises
        ------
        ConnectionFailed
            if the broker hung up, or left a request unanswered for too long.
        """
        if self._requests and now - self._requests[0][0] > ANSWER_SECONDS:
            raise ConnectionFailed(f"{self.connection.name}: no answer for {ANSWER_SECONDS:.0f} s")
        while len(self._requests) < REQUESTS_IN_FLIGHT and (request := self._compose(now)):
            self._requests.append((now, {stream.partition: stream for stream in request}))
            contents = [(stream.partition, stream.take().content) for stream in request]
            self.connection.send(wire.produce_request(self.connection.next_correlation(), contents))

    def receive(self) -> None:
        """Read one answer and pass its parts to their streams.

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        frame = self.connection.receive()
        _, streams = self._requests.popleft()
        stale = {
            answer.partition.topic
            for answer in wire.parse_produce(frame)
            if streams[answer.partition].answered(answer.error, answer.base_offset, answer.message)
        }
        if stale:
            self.cluster.channel().refresh(stale)

    def abandon(self) -> None:
        """Close the connection; what was in flight goes back to its streams."""
        self.connection.close()
        self._requests.clear()
        for stream in self.streams:
            stream.lost()

    def _compose(self, now: float) -> list[Stream]:
        """Choose whose batch goes next: the streams in turn, each at most once a request, about a megabyte in all."""
        chosen: list[Stream] = []
        size = 0
        for _ in range(len(self.streams)):
            stream = self.streams[0]
            self.streams.rotate(-1)
            if stream.can_send(now):
                chosen.append(stream)
                size += len(stream.queue[0].content)
                if size >= REQUEST_BYTES or len(chosen) == PARTITIONS_A_REQUEST:
                    break
        return chosen
