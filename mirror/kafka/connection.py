"""One connection to one broker for frames of our own, and what can go wrong on it.

Invariants:

(a) kafka-python keeps a request while its connection is opened. What must not be written late is asked right before
    it goes out, over a connection that is there (``Connections.ready``).
(b) Produce sockets drop what is unsent when they are closed (SO_LINGER 0), also by ``kill -9``: the kernel would go on
    sending for as long as a slow line takes.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mirror.kafka import wire
from mirror.kafka.buffers import BufferPool
from mirror.kafka.connecting import in_words
from mirror.kafka.fetch_session import FetchSession
from mirror.kafka.fetch_sizes import FetchSizes
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.throttling import Throttling
from mirror.kafka.versions import Versions, misfit
from mirror.model.cliff import duration_words

_HOT_SILENCE_SECONDS = 30.0
# A frame that arrives slowly is waited for so long before other connections get their turn.
_PATIENCE_SECONDS = 0.02
# More pieces than the kernel takes in one call help nobody.
_PIECES_A_CALL = 512
_TLS_PIECE = 1 << 18
# A busy machine can make a short line look long, once or twice.
_PINGS = 4
_SHORT_SECONDS = 0.005


def framed(request: Any, version: int, correlation: int) -> bytes:
    """Return a request of kafka-python's as a frame, for a connection that is asked without it."""
    request.API_VERSION = version
    request.with_header(correlation, "mirror")
    framed: bytes = request.encode(header=True, framed=True)
    return framed


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
        #: What the broker's quotas ask for, and until when they ask for silence on this connection, monotonic seconds.
        self.throttling = Throttling()
        self.quiet_until = 0.0
        #: When something was last written, and arrived, and when the answer last returned began to; monotonic seconds.
        self.wrote_at = self.received_at = self.answer_began_at = 0.0
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
                self.answer_began_at = self.received_at
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
        now = time.monotonic()
        self.throttling.answered(now, throttle_ms)
        if throttle_ms:
            self.quiet_until = now + throttle_ms / 1000

    def check_silence(self, now: float) -> None:
        """See that no silence is kept for hours.

        Raises
        ------
        ConnectionFailed
            if it was asked for so long ago that another connection should be tried.
        """
        if now < self.quiet_until and self.throttling.is_to_be_tried_anew(now):
            left = duration_words(self.quiet_until - now)
            raise ConnectionFailed(f"{self.name}: throttled for {left} more; tried again over a new connection")

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
            self.received_at = time.monotonic()
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
