"""Batches on their way to target partitions: in order, a few requests in flight, resent unchanged after trouble.

A :class:`Stream` is the queue of one partition, a :class:`Sender` the connection to the broker that leads it. A batch
that may or may not have arrived is sent again with the same producer id and sequence; the broker recognises it.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from mirror.copier.backoff import Backoff
from mirror.copier.links import LARGEST_REQUEST_BYTES, ClusterLinks
from mirror.kafka import codes, wire
from mirror.kafka.connection import Connection
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition

REQUESTS_IN_FLIGHT = 5
# Requests of a connection are handled one after another: one that waits so long for replicas is sent again later.
REQUEST_TIMEOUT_MS = 1_500
REQUEST_BYTES = 1 << 20
PARTITIONS_A_REQUEST = 16
# On a line with a longer round trip, what queues up goes in fewer, larger batches and requests of more partitions: no
# more than so many requests are in flight.
LONG_ROUND_TRIP_SECONDS = 0.02
PARTITIONS_A_LONG_REQUEST = 256
# A broker's usual limit to a batch, less what the merged ones may differ by from what they were made of.
MERGED_BYTES = 1_000_000
ANSWER_SECONDS = 40.0
# What has failed, and got nowhere for so long, is not waited for when an epoch ends; nor is an answer if nothing at all
# has moved on the line for longer. A slow line is waited for.
PATIENCE_SECONDS = 2.0
_SILENCE_SECONDS = 5.0

_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0
_CONNECTION_LOST = 0
# What a produce request holds beside the batches is never more.
_REQUEST_HEAD_BYTES = 16 << 10


class Piece(Protocol):
    """One batch to be appended."""

    content: memoryview


class Merge(Protocol):
    """Makes one batch of several: a broker takes one a partition and request, so small ones hold each other up.

    And the other way round: what the broker finds too large goes in smaller batches.
    """

    def follows(self, before: Sequence[Piece], following: Piece) -> bool:
        """Whether a batch may go out behind those in flight."""

    def fits(self, last: Piece, size: int, following: Piece, most_bytes: int) -> bool:
        """Whether ``following`` may join pieces of ``size`` bytes that end with ``last``.

        ``most_bytes`` is how large a batch should become, for the sake of the line; 0 when it does not matter.
        """
        ...

    def merged(self, pieces: Sequence[Piece]) -> Piece | None:
        """Return the one batch, None if it cannot be made."""
        ...

    def taken_apart(self, piece: Piece) -> Sequence[Piece]:
        """Return smaller batches with the same records, in order; the batch itself if there are none."""
        ...

    def sets_aside(self, piece: Piece, message: str) -> bool:
        """Whether a batch that is too large, and cannot be taken apart, is held back instead of being refused."""
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

    A piece that is too large is taken apart; one that cannot be may be held back: nothing behind it is sent until
    :meth:`release`.

    Until a first piece is acknowledged, and after any failure, one piece is in flight at a time: a broker that knows
    nothing of a producer takes whatever sequence comes first, so a refused first piece must have no follower.

    Attributes
    ----------
    trouble
        why the oldest piece is not acknowledged although it was sent; None while all goes well.
    sender
        over whose connection it goes, None while that is not known.
    is_apart
        whether it goes over a connection apart from others, since the broker may let that wait.
    backoff_until
        until when it is left alone after a failure, in monotonic seconds.
    waits_since
        when it last got anywhere, in monotonic seconds; infinite while nothing is under way or queued.
    """

    __slots__ = (
        "_acknowledged",
        "_backoff",
        "_doubtful",
        "_failed",
        "_failure",
        "_gate",
        "_held",
        "_in_flight",
        "_is_given_up",
        "_is_proven",
        "_is_winding_down",
        "_merge",
        "_merges",
        "_perhaps_appended",
        "_pipelined",
        "_queue",
        "_refused",
        "_too_large",
        "backoff_until",
        "bytes",
        "closed",
        "is_apart",
        "partition",
        "sender",
        "trouble",
        "waits_since",
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
        self.sender: Sender | None = None
        self.waits_since = math.inf
        self.is_apart = False
        self._acknowledged = acknowledged
        self._refused = refused
        self._pipelined = pipelined
        self._merge = merge
        self._merges = merge is not None
        # The smallest size that the broker was seen to refuse as too large.
        self._too_large = LARGEST_REQUEST_BYTES
        self._held: Piece | None = None
        self._gate = gate
        self._is_proven = False
        self._is_winding_down = False
        self._is_given_up = False
        # How many pieces, the oldest ones, were sent without an answer that says whether they were appended.
        self._perhaps_appended = 0
        self._queue: deque[Piece] = deque()
        self._in_flight: deque[Piece] = deque()
        self._failed: list[Piece] = []
        # How many of those, the oldest ones, may have been appended all the same.
        self._doubtful = 0
        self._failure = (_CONNECTION_LOST, "")
        self.backoff_until = 0.0
        self._backoff = Backoff(_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS)

    @property
    def is_idle(self) -> bool:
        """Whether every piece is acknowledged."""
        return not (self._queue or self._in_flight or self._failed or self._held or self._is_winding_down)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it: every piece is acknowledged, or one is refused for good."""
        return self.is_idle or self.closed

    @property
    def is_quiet(self) -> bool:
        """Whether the broker has answered all that was sent to it, and nothing is to be sent."""
        return not self._in_flight and (self.closed or self._held is not None or not self._queue)

    @property
    def is_answered(self) -> bool:
        """Whether nothing is in flight, nor to be sent again, nor held back."""
        return not (self._in_flight or self._failed or self._held or self._perhaps_appended)

    def is_stuck(self, now: float) -> bool:
        """Whether it has got nowhere for so long that nothing else should wait for it."""
        if self.trouble is None and self.sender is not None:
            return now >= max(self.waits_since, self.sender.moved_at) + _SILENCE_SECONDS
        return now >= self.waits_since + PATIENCE_SECONDS

    @property
    def is_settled(self) -> bool:
        """Whether it is certain of every piece whether it is in the log."""
        return not (self._in_flight or self._perhaps_appended)

    def put(self, piece: Piece) -> None:
        """Append one more batch; dropped when nothing more is sent."""
        if not (self.closed or self._is_winding_down):
            if self.waits_since == math.inf:
                self.waits_since = time.monotonic()
            parts = self._in_size(piece)
            self._queue.extend(parts)
            self.bytes += sum(len(part.content) for part in parts)
            self._wake()

    def wind_down(self) -> None:
        """Drop all that was never sent; what may be in the log is still sent until that is certain."""
        self._is_winding_down = True
        self._drop_unsent()

    def _drop_unsent(self) -> None:
        unsent = max(0, self._perhaps_appended - len(self._in_flight))
        while len(self._queue) > unsent:
            self.bytes -= len(self._queue.pop().content)

    @property
    def transactional_id(self) -> str | None:
        """In whose transactions it writes, None without."""
        return self._gate.transactional_id if self._gate else None

    def close(self) -> None:
        """Take and send nothing any more, whatever the answers to what is in flight."""
        self.give_up()
        self.closed = True

    def give_up(self) -> None:
        """Send nothing any more, certain or not."""
        self._is_winding_down = self._is_given_up = True
        self._queue.clear()

    @property
    def oldest(self) -> Piece | None:
        """The oldest batch that is not acknowledged; None: all are."""
        held = (self._held,) if self._held else ()
        return next((pieces[0] for pieces in (self._failed, self._in_flight, held, self._queue) if pieces), None)

    @property
    def waiting(self) -> Sequence[Piece]:
        """All batches that are to be sent; those that were never sent behind those that may have arrived."""
        return tuple(self._queue)

    def drop(self, count: int) -> None:
        """Drop the first batches that wait, none of which was ever sent."""
        self.bytes -= sum(len(self._queue.popleft().content) for _ in range(count))

    @property
    def next_bytes(self) -> int:
        """Size of the next batch to be sent."""
        return len(self._queue[0].content)

    @property
    def has_unsent(self) -> bool:
        """Whether a batch waits to be sent."""
        return bool(self._queue) and not self.closed

    def can_send(self, now: float) -> bool:
        """Whether its next batch may go out now."""
        return bool(
            self._queue
            and not self._failed
            and not self.closed
            and self._held is None
            and now >= self.backoff_until
            and (not self._in_flight or (self._pipelined and self._is_proven))
            and (self._merge is None or self._merge.follows(self._in_flight, self._queue[0]))
            and (
                self._gate is None
                or self._gate.lets(self.partition, again=self._perhaps_appended > len(self._in_flight))
            )
        )

    def take(self, most_bytes: int = 0) -> Piece:
        """Move the next batch into flight; small ones that were never sent go as one, all up to ``most_bytes``."""
        piece = self._queue.popleft()
        if self._merge and self._merges and self._queue and self._perhaps_appended <= len(self._in_flight):
            piece = self._merged(piece, self._merge, most_bytes)
        self._in_flight.append(piece)
        return piece

    def _merged(self, first: Piece, merge: Merge, most_bytes: int) -> Piece:
        pieces, size = [first], len(first.content)
        while (
            self._queue
            and size + len(self._queue[0].content) < self._too_large
            and merge.fits(pieces[-1], size, self._queue[0], most_bytes)
        ):
            pieces.append(self._queue.popleft())
            size += len(pieces[-1].content)
        if len(pieces) == 1:
            return first
        merged = merge.merged(pieces)
        if merged is None:
            # The broker is to say what it thinks of them.
            self._merges = False
            self._queue.extendleft(reversed(pieces[1:]))
            return first
        self.bytes += len(merged.content) - size
        return merged

    def answered(self, code: int, base_offset: int, message: str) -> bool:
        """Take in the answer to the oldest batch in flight; return whether its leader should be looked up anew.

        From the first failure on, all that was in flight behind it is sent again in order, whatever its own answer.
        """
        piece = self._in_flight.popleft()
        if code == 0 and not self._failed:
            self.bytes -= len(piece.content)
            self._backoff.end()
            self._is_proven = True
            self._perhaps_appended = max(0, self._perhaps_appended - 1)
            self.trouble = None
            self.waits_since = time.monotonic() if self._in_flight or self._queue else math.inf
            self._acknowledged(piece, base_offset)
            return self._comes_back()
        if not self._failed:
            self._failure = (code, message)
            said = " ".join(filter(None, (codes.name(code), message)))
            self.trouble = f"the target answers {said}{codes.lacking(code, 'Write on the topic')}"
        is_out_of_turn = bool(self._failed) and code == codes.OUT_OF_ORDER_SEQUENCE
        self._failed.append(piece)
        if code not in codes.NOT_APPENDED and not is_out_of_turn:
            self._doubtful = len(self._failed)
        return self._settle()

    def _comes_back(self) -> bool:
        """Whether it goes over the common connection again, now that all that was uncertain is acknowledged."""
        if not self.is_apart or self._in_flight or self._perhaps_appended:
            return False
        self.is_apart = False
        return True

    def pause(self, trouble: str) -> None:
        """Leave its broker alone for a while, longer each time."""
        self.trouble = trouble
        self.backoff_until = time.monotonic() + self._backoff.next_seconds()

    def go_on(self) -> None:
        """What kept the next batch back is over."""
        self.trouble = None
        self._backoff.end()
        self._wake()

    def lost(self, reason: str) -> None:
        """Take back everything in flight: its connection broke, and what became of it is not known."""
        if self._in_flight:
            if not self._failed:
                self._failure = (_CONNECTION_LOST, reason)
                self.trouble = reason
            self._failed.extend(self._in_flight)
            self._doubtful = len(self._failed)
            self._in_flight.clear()
            self._settle()

    def refuse_next(self, message: str) -> None:
        """Take the next batch for refused as too large, once nothing before it is in flight: it must not be sent."""
        if not self._in_flight:
            self._in_flight.append(self._queue.popleft())
            self.answered(codes.MESSAGE_TOO_LARGE, -1, message)

    def release(self) -> Sequence[Piece]:
        """Give up the piece held back and go on with those behind it; return them, none of which was appended."""
        if self._held is not None:
            self.bytes -= len(self._held.content)
            self._held = self.trouble = None
            self._wake()
        return tuple(self._queue)

    def _settle(self) -> bool:
        """Once nothing is in flight, put what failed back in front of the queue, or give up."""
        if self._in_flight:
            return False
        self._is_proven = False
        code, message = self._failure
        is_too_large = code in codes.TOO_LARGE
        if code == _CONNECTION_LOST or codes.is_retriable(code):
            self._perhaps_appended = max(self._perhaps_appended, self._doubtful)
            self.is_apart = self._perhaps_appended > 0
        elif not (is_too_large and (self._made_smaller() or self._set_aside(message))):
            self.closed = True
            self._refused(code, message)
            return False
        if not self._is_given_up:
            self._queue.extendleft(reversed(self._failed))
        self._failed.clear()
        self._doubtful = 0
        if self._is_winding_down:
            self._drop_unsent()
        if is_too_large:
            self._wake()
            return False
        self.backoff_until = time.monotonic() + self._backoff.next_seconds()
        return True

    def _wake(self) -> None:
        if self.sender is not None:
            self.sender.wake(self)

    def _made_smaller(self) -> bool:
        """Take apart what was refused and whatever is as large; return whether that was possible."""
        self._too_large = min(self._too_large, len(self._failed[0].content))
        unsent = sum(len(piece.content) for piece in (*self._failed, *self._queue))
        first = self._in_size(self._failed[0])
        self._failed = [*first, *(part for piece in self._failed[1:] for part in self._in_size(piece))]
        self._queue = deque(part for piece in self._queue for part in self._in_size(piece))
        self.bytes += sum(len(piece.content) for piece in (*self._failed, *self._queue)) - unsent
        return len(first) > 1

    def _in_size(self, piece: Piece) -> Sequence[Piece]:
        """Return the piece, or what it can be taken apart into, none as large as what the broker has refused."""
        if self._merge is None or len(piece.content) < self._too_large:
            return (piece,)
        parts = self._merge.taken_apart(piece)
        return parts if len(parts) == 1 else [smaller for part in parts for smaller in self._in_size(part)]

    def _set_aside(self, message: str) -> bool:
        """Hold back the refused piece, if that is wanted; what was sent behind it has not been appended either.

        One that was sent before without an answer may be in the log all the same, if the limit was lowered since.
        """
        if self._merge is None or self._perhaps_appended or not self._merge.sets_aside(self._failed[0], message):
            return False
        self._held = self._failed.pop(0)
        return True


class Sender:
    """The produce connection to one broker and the streams that go over it, all of one transactional id or of none."""

    def __init__(
        self,
        cluster: ClusterLinks,
        connection: Connection,
        largest_request: int = LARGEST_REQUEST_BYTES,
        transactional_id: str | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send over ``connection`` to a broker of ``cluster`` that takes requests up to ``largest_request`` bytes.

        ``may_write`` is asked right before each.
        """
        self._may_write = may_write
        self._largest_batch = largest_request - _REQUEST_HEAD_BYTES
        self.cluster = cluster
        self.connection = connection
        self.transactional_id = transactional_id
        self.streams: set[Stream] = set()
        # The streams that may have something to send, in turn; the others cost nothing.
        self._awake: OrderedDict[Stream, None] = OrderedDict()
        self._requests: deque[tuple[float, dict[TopicPartition, Stream]]] = deque()

    @property
    def moved_at(self) -> float:
        """When something last moved on the line, in monotonic seconds."""
        return max(self.connection.wrote_at, self.connection.heard_at)

    @property
    def is_idle(self) -> bool:
        """Whether no request is unanswered."""
        return not self._requests

    def add(self, stream: Stream) -> None:
        """Send what comes in for one more stream."""
        self.streams.add(stream)
        stream.sender = self
        self.wake(stream)

    def remove(self, stream: Stream) -> None:
        """Send nothing of a stream any more."""
        self.streams.remove(stream)
        self._awake.pop(stream, None)
        stream.sender = None

    def wake(self, stream: Stream) -> None:
        """Look at a stream when something is sent next."""
        self._awake.setdefault(stream)

    @property
    def _is_long(self) -> bool:
        """Whether the line is so long that waiting for answers, not the broker, sets the pace."""
        return LONG_ROUND_TRIP_SECONDS <= self.connection.round_trip < math.inf

    def send(self, now: float) -> None:
        """Send what may be sent; one request at a time while quotas hold the line back.

        Raises
        ------
        ConnectionFailed
            if the broker hung up, or left a request unanswered for too long.
        """
        line = self.connection
        if self._requests and now > max(self._requests[0][0], line.heard_at, line.quiet_until) + ANSWER_SECONDS:
            raise ConnectionFailed(f"{self.connection.name}: no answer for {ANSWER_SECONDS:.0f} s")
        while (
            now >= self.connection.quiet_until
            and not self.connection.has_unsent
            and len(self._requests) < (1 if self.connection.is_throttled else REQUESTS_IN_FLIGHT)
            and self._may_write()
            and (request := self._compose(now))
        ):
            self._requests.append((now, request))
            share = min(REQUEST_BYTES // len(request), MERGED_BYTES, self._largest_batch) if self._is_long else 0
            contents = [(partition, stream.take(share).content) for partition, stream in request.items()]
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
        sent_at, streams = self._requests.popleft()
        self.connection.round_trip = min(self.connection.round_trip, time.monotonic() - sent_at)
        throttle_ms = wire.produce_throttle_ms(frame)
        self.connection.throttle(throttle_ms)
        self.cluster.produce_throttled_ms += throttle_ms
        stale = [
            streams[answer.partition]
            for answer in wire.parse_produce(frame)
            if streams[answer.partition].answered(answer.error, answer.base_offset, answer.message)
        ]
        for stream in stale:
            self.remove(stream)
        return stale

    def abandon(self, reason: str) -> None:
        """Close the connection; what was in flight goes back to its streams."""
        self.connection.close()
        self._requests.clear()
        for stream in self.streams:
            stream.sender = None
            stream.lost(reason)

    def _compose(self, now: float) -> dict[TopicPartition, Stream]:
        """Choose whose batch goes next: the streams in turn, each at most once a request, about a megabyte in all.

        A batch that is larger goes alone; one that no request may hold is not sent.
        """
        chosen: dict[TopicPartition, Stream] = {}
        size = 0
        most_bytes = min(REQUEST_BYTES, self._largest_batch)
        most = PARTITIONS_A_LONG_REQUEST if self._is_long else PARTITIONS_A_REQUEST
        for _ in range(len(self._awake)):
            stream = next(iter(self._awake))
            if not stream.has_unsent:
                del self._awake[stream]
                continue
            if stream.can_send(now) and stream.partition not in chosen:
                if stream.next_bytes > self._largest_batch:
                    stream.refuse_next(f"larger than the broker's socket.request.max.bytes ({stream.next_bytes} bytes)")
                elif chosen and size + stream.next_bytes > most_bytes:
                    break
                else:
                    chosen[stream.partition] = stream
                    size += stream.next_bytes
            self._awake.move_to_end(stream)
            if size >= most_bytes or len(chosen) == most:
                break
        return chosen
