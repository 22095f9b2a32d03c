"""Batches on their way to target partitions: in order, a few requests in flight, resent unchanged after trouble.

A :class:`Stream` is the queue of one partition, a :class:`Sender` the connection to the broker that leads it. A batch
that may or may not have arrived is sent again with the same producer id and sequence; the broker recognises it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from mirror.copier.links import Cluster
from mirror.kafka import codes, wire
from mirror.kafka.channel import Connection, ConnectionFailed
from mirror.model.partition import TopicPartition

REQUESTS_IN_FLIGHT = 5
# A broker handles one request of a connection after another. One that waits so long for replicas is answered as timed
# out and sent again later: what is in flight is answered soon, whatever has happened to the replicas.
REQUEST_TIMEOUT_MS = 1_500
REQUEST_BYTES = 1 << 20
PARTITIONS_A_REQUEST = 16
ANSWER_SECONDS = 40.0

_FIRST_REST_SECONDS = 0.05
_LONGEST_REST_SECONDS = 2.0
_CONNECTION_LOST = 0


class Piece(Protocol):
    """One batch to be appended."""

    content: memoryview


class Merge(Protocol):
    """Makes one batch of several: a broker takes one a partition and request, so small ones hold each other up."""

    def fits(self, pieces: Sequence[Piece], following: Piece) -> bool:
        """Whether ``following`` may join ``pieces``."""
        ...

    def merged(self, pieces: Sequence[Piece]) -> Piece:
        """Return the one batch."""
        ...

    def taken_apart(self, piece: Piece) -> Sequence[Piece]:
        """Return what a batch was made of, itself if it was not merged; after this nothing is merged any more."""
        ...


class Gate(Protocol):
    """A transaction, as a stream sees it: what it writes goes out only while the transaction takes it."""

    @property
    def transactional_id(self) -> str:
        """Whose transaction it is."""
        ...

    def lets(self, partition: TopicPartition, *, again: bool) -> bool:
        """Whether a batch may go out to ``partition`` now; ``again``: one that was sent before, in this transaction."""
        ...


class Stream:
    """The batches for one target partition, in order.

    ``acknowledged(piece, base_offset)`` is called for each piece in order; ``refused(code, message)`` once, when the
    broker will not take the oldest unacknowledged piece however often it is sent. After that the stream is closed:
    neither that piece nor any behind it will be appended.

    Until a first piece is acknowledged, and after any failure, one piece is in flight at a time: a broker that knows
    nothing of a producer takes whatever sequence comes first, so a refused first piece must have no follower.

    Attributes
    ----------
    trouble
        why the oldest piece is not acknowledged although it was sent; None while all goes well.
    """

    __slots__ = (
        "_acknowledged",
        "_failed",
        "_failure",
        "_gate",
        "_in_flight",
        "_is_given_up",
        "_is_proven",
        "_is_winding_down",
        "_merge",
        "_perhaps_appended",
        "_pipelined",
        "_queue",
        "_refused",
        "_rest_seconds",
        "_rest_until",
        "bytes",
        "closed",
        "partition",
        "trouble",
    )

    def __init__(
        self,
        partition: TopicPartition,
        acknowledged: Callable[[Piece, int], None],
        refused: Callable[[int, str], None],
        *,
        pipelined: bool,
        merge: Merge | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Open a stream; one that is not ``pipelined`` has one batch in flight at most."""
        self.partition = partition
        self.bytes = 0
        self.closed = False
        self.trouble: str | None = None
        self._acknowledged = acknowledged
        self._refused = refused
        self._pipelined = pipelined
        self._merge = merge
        self._gate = gate
        self._is_proven = False
        self._is_winding_down = False
        self._is_given_up = False
        # How many pieces, the oldest ones, were sent without an answer that says whether they were appended.
        self._perhaps_appended = 0
        self._queue: deque[Piece] = deque()
        self._in_flight: deque[Piece] = deque()
        self._failed: list[Piece] = []
        self._failure = (_CONNECTION_LOST, "")
        self._rest_until = 0.0
        self._rest_seconds = _FIRST_REST_SECONDS

    @property
    def is_idle(self) -> bool:
        """Whether every piece is acknowledged."""
        return not (self._queue or self._in_flight or self._failed or self._is_winding_down)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it: every piece is acknowledged, or one is refused for good."""
        return self.is_idle or self.closed

    @property
    def is_quiet(self) -> bool:
        """Whether the broker has answered all that was sent to it, and nothing is to be sent."""
        return not self._in_flight and (self.closed or not self._queue)

    @property
    def is_settled(self) -> bool:
        """Whether it is certain of every piece whether it is in the log."""
        return not (self._in_flight or self._perhaps_appended)

    def put(self, piece: Piece) -> None:
        """Append one more batch; dropped when nothing more is sent."""
        if not (self.closed or self._is_winding_down):
            self._queue.append(piece)
            self.bytes += len(piece.content)

    def wind_down(self) -> None:
        """Drop all that was never sent; what may be in the log is still sent until that is certain."""
        self._is_winding_down = True
        unsent = max(0, self._perhaps_appended - len(self._in_flight))
        while len(self._queue) > unsent:
            self.bytes -= len(self._queue.pop().content)

    @property
    def transactional_id(self) -> str | None:
        """In whose transactions it writes, None without."""
        return self._gate.transactional_id if self._gate else None

    def close(self) -> None:
        """Take and send nothing any more; answers to what is in flight no longer matter."""
        self.give_up()
        self.closed = True

    def give_up(self) -> None:
        """Send nothing any more, certain or not."""
        self._is_winding_down = self._is_given_up = True
        self._queue.clear()

    @property
    def next_bytes(self) -> int:
        """Size of the next batch to be sent."""
        return len(self._queue[0].content)

    def can_send(self, now: float) -> bool:
        """Whether its next batch may go out now."""
        return bool(
            self._queue
            and not self._failed
            and not self.closed
            and now >= self._rest_until
            and (not self._in_flight or (self._pipelined and self._is_proven))
            and (
                self._gate is None
                or self._gate.lets(self.partition, again=self._perhaps_appended > len(self._in_flight))
            )
        )

    def take(self) -> Piece:
        """Move the next batch into flight; small ones that were never sent go as one."""
        piece = self._queue.popleft()
        if self._merge and self._queue and self._perhaps_appended <= len(self._in_flight):
            pieces = [piece]
            while self._queue and self._merge.fits(pieces, self._queue[0]):
                pieces.append(self._queue.popleft())
            if len(pieces) > 1:
                piece = self._merge.merged(pieces)
                self.bytes += len(piece.content) - sum(len(each.content) for each in pieces)
        self._in_flight.append(piece)
        return piece

    def answered(self, code: int, base_offset: int, message: str) -> bool:
        """Take in the answer to the oldest batch in flight; return whether its leader should be looked up anew.

        From the first failure on, all that was in flight behind it is sent again in order, whatever its own answer.
        """
        piece = self._in_flight.popleft()
        if code == 0 and not self._failed:
            self.bytes -= len(piece.content)
            self._rest_seconds = _FIRST_REST_SECONDS
            self._is_proven = True
            self._perhaps_appended = max(0, self._perhaps_appended - 1)
            self.trouble = None
            self._acknowledged(piece, base_offset)
            return False
        if not self._failed:
            self._failure = (code, message)
            self.trouble = f"the target answers {codes.name(code)} {message}".rstrip()
        self._failed.append(piece)
        return self._settle()

    def lost(self, reason: str) -> None:
        """Take back everything in flight: its connection broke, and what became of it is not known."""
        if self._in_flight:
            if not self._failed:
                self._failure = (_CONNECTION_LOST, reason)
                self.trouble = reason
            self._failed.extend(self._in_flight)
            self._in_flight.clear()
            self._settle()

    def _settle(self) -> bool:
        """Once nothing is in flight, put what failed back in front of the queue, or give up."""
        if self._in_flight:
            return False
        self._is_proven = False
        code, message = self._failure
        if code == _CONNECTION_LOST or codes.is_retriable(code):
            # Some refusals, too, come after the broker has appended.
            self._perhaps_appended = max(self._perhaps_appended, len(self._failed))
        elif code != codes.MESSAGE_TOO_LARGE or not self._take_apart():
            self.closed = True
            self._refused(code, message)
            return False
        if not self._is_given_up:
            self._queue.extendleft(reversed(self._failed))
        self._failed.clear()
        self._rest_until = time.monotonic() + self._rest_seconds
        self._rest_seconds = min(2 * self._rest_seconds, _LONGEST_REST_SECONDS)
        return True

    def _take_apart(self) -> bool:
        """Go back to what the refused pieces were merged from, and merge no more; return whether there was any such."""
        merge, self._merge = self._merge, None
        parts = [part for piece in self._failed for part in (merge.taken_apart(piece) if merge else (piece,))]
        was_merged = len(parts) > len(self._failed)
        self.bytes += sum(len(part.content) for part in parts) - sum(len(piece.content) for piece in self._failed)
        self._failed = parts
        return was_merged


class Sender:
    """The produce connection to one broker and the streams that go over it, all of one transactional id or of none."""

    def __init__(self, cluster: Cluster, connection: Connection, transactional_id: str | None = None) -> None:
        """Send over ``connection`` to a broker of ``cluster``."""
        self.cluster = cluster
        self.connection = connection
        self.transactional_id = transactional_id
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
        while (
            not self.connection.has_unsent
            and len(self._requests) < REQUESTS_IN_FLIGHT
            and (request := self._compose(now))
        ):
            self._requests.append((now, request))
            contents = [(partition, stream.take().content) for partition, stream in request.items()]
            request_frame = wire.produce_request(
                self.connection.next_correlation(),
                contents,
                timeout_ms=REQUEST_TIMEOUT_MS,
                transactional_id=self.transactional_id,
            )
            self.connection.send(request_frame)

    def receive(self) -> list[Stream] | None:
        """Read one answer and pass its parts to their streams.

        Returns
        -------
        the streams whose leader should be looked up anew; they are no longer this sender's; or None when no whole
        answer has arrived

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        frame = self.connection.receive()
        if frame is None:
            return None
        _, streams = self._requests.popleft()
        stale = [
            streams[answer.partition]
            for answer in wire.parse_produce(frame)
            if streams[answer.partition].answered(answer.error, answer.base_offset, answer.message)
        ]
        for stream in stale:
            self.streams.remove(stream)
        return stale

    def abandon(self, reason: str) -> None:
        """Close the connection; what was in flight goes back to its streams."""
        self.connection.close()
        self._requests.clear()
        for stream in self.streams:
            stream.lost(reason)

    def _compose(self, now: float) -> dict[TopicPartition, Stream]:
        """Choose whose batch goes next: the streams in turn, each at most once a request, about a megabyte in all."""
        chosen: dict[TopicPartition, Stream] = {}
        size = 0
        for _ in range(len(self.streams)):
            stream = self.streams[0]
            self.streams.rotate(-1)
            if stream.can_send(now) and stream.partition not in chosen:
                chosen[stream.partition] = stream
                size += stream.next_bytes
                if size >= REQUEST_BYTES or len(chosen) == PARTITIONS_A_REQUEST:
                    break
        return chosen
