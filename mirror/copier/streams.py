"""Batches on their way to target partitions: in order, a few requests in flight, resent unchanged after trouble.

A :class:`Stream` is the queue of one partition; :mod:`mirror.copier.sender` sends what it holds to the broker that
leads it. A batch that may or may not have arrived is sent again with the same producer id and sequence; the broker
recognises it.

Invariants:

(a) From the first failure on, everything in flight behind it is sent again, whatever its own answer: the broker knows
    the last five batches of a producer, and order is kept.
(b) A refused batch is halved, not asked about twice: the smallest refused size is remembered, and what is as large is
    cut before it is sent.
(c) What has got nowhere for two seconds is not waited for when an epoch ends: the partition is handed over as not
    clean, the others go on.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from mirror.copier.backoff import Backoff
from mirror.copier.links import LARGEST_REQUEST_BYTES
from mirror.kafka import codes
from mirror.kafka.connection import Connection
from mirror.kafka.topic_ids import differ
from mirror.kafka.wire import NO_APPEND_TIME
from mirror.model.partition import TopicPartition

# What has failed, and got nowhere for so long, is not waited for when an epoch ends; nor is an answer if nothing at all
# has moved on the line for longer. A slow line is waited for.
PATIENCE_SECONDS = 2.0
_SILENCE_SECONDS = 5.0

_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0
_CONNECTION_LOST = 0


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


class Line(Protocol):
    """The connection over which a stream goes."""

    connection: Connection

    @property
    def moved_at(self) -> float:
        """When something last moved on it, in monotonic seconds."""
        ...

    def wake(self, stream: Stream) -> None:
        """Look at a stream when something is sent next."""
        ...


class Stream:
    """The batches for one target partition, in order.

    ``acknowledged(piece, base_offset, appended_at)`` is called for each piece in order; ``refused(code, message)``
    once, when the broker will not take the oldest unacknowledged piece however often it is sent. After that the stream
    is closed: neither that piece nor any behind it will be appended.

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
    topic_id
        the id of the topic that it is for; empty: of any of that name.
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
        "_is_id_asked",
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
        "topic_id",
        "trouble",
        "waits_since",
    )

    def __init__(
        self,
        partition: TopicPartition,
        acknowledged: Callable[[Piece, int, int], None],
        refused: Callable[[int, str], None],
        *,
        pipelined: bool,
        merge: Merge | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Open a stream; one that is not ``pipelined`` has one batch in flight at most."""
        self.partition = partition
        self.topic_id = ""
        self.bytes = 0
        self.closed = False
        self.trouble: str | None = None
        self.sender: Line | None = None
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
        self._is_id_asked = False
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

    def check_topic(self, topic_id: str) -> bool:
        """Send nothing more if the topic has another id by now: what was on its way is of another log.

        False: that is to be asked for anew first, since what was known may be of a former topic of that name.
        """
        if not differ(self.topic_id, topic_id) or self.closed:
            self._is_id_asked = False
        elif not self._is_id_asked:
            self._is_id_asked = True
            return False
        else:
            self.close()
            self._refused(codes.UNKNOWN_TOPIC, "the topic was deleted and created anew")
        return True

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

    @property
    def next_piece(self) -> Piece | None:
        """The first of :attr:`waiting`; None: nothing waits."""
        return self._queue[0] if self._queue else None

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

    def answered(self, code: int, base_offset: int, message: str, appended_at: int = NO_APPEND_TIME) -> bool:
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
            self._acknowledged(piece, base_offset, appended_at)
            return self._comes_back()
        if not self._failed:
            self._failure = (code, message)
            answer = " ".join(filter(None, (codes.name(code), message)))
            self.trouble = f"the target answers {answer}{codes.hint(code, 'Write on the topic')}"
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
