"""The process behind a link: a TCP relay that delays, narrows and cuts what passes. Started by ``mirror.lab.link``.

Each direction of a connection is a queue of chunks with the time they arrive. Commands come in over a control port,
one JSON object a line, each answered when it is in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from mirror.lab.ports import LOOPBACK

SILENT, RESET, ANSWERS = "silent", "reset", "answers"

# As much as Linux lets a connection have under way by default (net.ipv4.tcp_rmem).
_WINDOW_BYTES = 6 << 20
_SMALLEST_WINDOW_BYTES = 64 << 10
# How long what queues before a narrow line may take to pass: the usual buffer of a router.
_ROUTER_SECONDS = 0.2
_CLOSED_AT_ONCE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Line:
    """How a line behaves.

    Attributes
    ----------
    delay_ms
        on the way, in each direction; a round trip takes twice as long.
    jitter_ms
        up to so much more, by chance, for each chunk; order is kept.
    bandwidth
        bytes a second in each direction, shared by all connections; None: as fast as this machine.
    cut
        None; "silent": nothing passes, and nobody is told; "reset": connections are reset, and refused; "answers":
        what clients send arrives, and what they are answered does not.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    bandwidth: float | None = None
    cut: str | None = None

    @property
    def connects(self) -> bool:
        """Whether new connections reach the target."""
        return self.cut in {None, ANSWERS}

    def holds(self, *, back: bool) -> bool:
        """Tell whether nothing passes in a direction: to the target, or back from it."""
        return self.cut is not None and (back or self.cut != ANSWERS)

    @property
    def window_bytes(self) -> float:
        """How much a connection may have under way in one direction."""
        if self.bandwidth is None:
            return _WINDOW_BYTES
        fitting = self.bandwidth * (2 * (self.delay_ms + self.jitter_ms) / 1000 + _ROUTER_SECONDS)
        return min(_WINDOW_BYTES, max(_SMALLEST_WINDOW_BYTES, fitting))


@dataclass(slots=True)
class _Free:
    """When a direction of the line has passed all that it took in; the event loop's clock."""

    at: float = 0.0


class _Direction:
    """One direction of one connection: from where it is read to where it is written, in order."""

    def __init__(self, relay: Relay, free: _Free, *, is_back: bool) -> None:
        self._relay = relay
        self._free = free
        self._is_back = is_back
        self._chunks: deque[tuple[float, bytes | None]] = deque()
        self.size = 0
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._reader: asyncio.Transport | None = None
        self._writer: asyncio.Transport | None = None
        self._is_full = False
        self._may_write = True

    def reads(self, transport: asyncio.Transport) -> None:
        self._reader = transport

    def writes(self, transport: asyncio.Transport) -> None:
        self._writer = transport
        self.pump()

    def put(self, chunk: bytes | None) -> None:
        """Take in what was read: b"" for the end of the stream, None for the end of the connection."""
        line = self._relay.line
        now = self._relay.now()
        size = len(chunk or b"")
        if line.bandwidth:
            self._free.at = max(self._free.at, now) + size / line.bandwidth
            now = self._free.at
        due = now + (line.delay_ms + self._relay.chance.uniform(0.0, line.jitter_ms)) / 1000
        self._last_due = max(self._last_due, due)
        self._chunks.append((self._last_due, chunk))
        self.size += size
        if not self._is_full and self.size > line.window_bytes and self._reader:
            self._is_full = True
            self._reader.pause_reading()
        self.pump()

    def pump(self) -> None:
        """Write what is due, and come back for the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writer is None or self._relay.line.holds(back=self._is_back) or not self._may_write:
            return
        now = self._relay.now()
        while self._chunks and self._chunks[0][0] <= now and self._may_write:
            _, chunk = self._chunks.popleft()
            self.size -= len(chunk or b"")
            if chunk is None:
                self._writer.close()
            elif self._writer.is_closing():
                continue
            elif chunk:
                self._writer.write(chunk)
            else:
                # Who has hung up meanwhile need not be told.
                with contextlib.suppress(OSError):
                    self._writer.write_eof()
        if self._is_full and self.size <= self._relay.line.window_bytes / 2 and self._reader:
            self._is_full = False
            if not self._reader.is_closing():
                self._reader.resume_reading()
        if self._chunks and self._may_write:
            self._timer = self._relay.call_at(self._chunks[0][0], self.pump)

    def hold(self) -> None:
        self._may_write = False

    def release(self) -> None:
        self._may_write = True
        self.pump()


class _End(asyncio.Protocol):
    """One socket: what it reads goes into ``out``, what comes from ``into`` is written to it."""

    def __init__(self, out: _Direction, into: _Direction, lost: Callable[[], None]) -> None:
        self._out = out
        self._into = into
        self._lost = lost
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._out.reads(self.transport)
        self._into.writes(self.transport)

    def data_received(self, data: bytes) -> None:
        self._out.put(data)

    def eof_received(self) -> bool:
        self._out.put(b"")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._out.put(None)
        self._lost()

    def pause_writing(self) -> None:
        self._into.hold()

    def resume_writing(self) -> None:
        self._into.release()


class Pair:
    """A client's connection and the one made to the target for it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.there = _Direction(relay, relay.there_free, is_back=False)
        self.back = _Direction(relay, relay.back_free, is_back=True)
        self.client = _End(self.there, self.back, self._lost)
        self._server = _End(self.back, self.there, self._lost)
        self._left = 2

    def connect(self) -> None:
        """Reach the target; the client is hung up on when nobody is there."""
        self._relay.spawn(self._connect())

    def reset(self) -> None:
        """Break both connections at once."""
        for end in (self.client, self._server):
            if end.transport is not None:
                handle = end.transport.get_extra_info("socket")
                if handle is not None and handle.fileno() >= 0:
                    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSED_AT_ONCE)
                end.transport.abort()

    async def _connect(self) -> None:
        try:
            await self._relay.connect(self._server)
        except OSError:
            self.reset()
            self._lost()

    def _lost(self) -> None:
        self._left -= 1
        if not self._left:
            self._relay.pairs.discard(self)


class Relay:
    """Relays connections from one port to a target."""

    def __init__(self, listen_port: int, target: tuple[str, int], line: Line, seed: int) -> None:
        """Draw jitter with ``seed``."""
        self.line = line
        self.chance = random.Random(seed)
        self.pairs: set[Pair] = set()
        self.there_free, self.back_free = _Free(), _Free()
        self._listen_port = listen_port
        self._target = target
        self._server: asyncio.Server | None = None
        self._unconnected: list[Pair] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def under_way(self) -> int:
        """How many bytes have been taken in and not been handed on."""
        return sum(each.size for pair in self.pairs for each in (pair.there, pair.back))

    def now(self) -> float:
        """Return the event loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        """Have ``act`` called at a time of the event loop."""
        return asyncio.get_running_loop().call_at(when, act)

    def spawn(self, work: Any) -> None:
        """Run a coroutine beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def connect(self, end: _End) -> None:
        """Connect one end to the target."""
        await asyncio.get_running_loop().create_connection(lambda: end, *self._target)

    async def apply(self, line: Line) -> None:
        """Let the line behave so from now on; what is on its way keeps its time of arrival."""
        self.line = line
        if line.cut == RESET:
            await self._refuse()
            for pair in list(self.pairs):
                pair.reset()
        else:
            await self.listen()
        if line.connects:
            unconnected, self._unconnected = self._unconnected, []
            for pair in unconnected:
                pair.connect()
            for pair in list(self.pairs):
                pair.there.pump()
                pair.back.pump()

    async def listen(self) -> None:
        """Accept connections."""
        if self._server is None and self.line.cut != RESET:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._accept, LOOPBACK, self._listen_port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _accept(self) -> _End:
        pair = Pair(self)
        self.pairs.add(pair)
        if self.line.connects:
            pair.connect()
        else:
            self._unconnected.append(pair)
        return pair.client


async def _serve(relay: Relay, control_port: int) -> None:
    async def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while order := await reader.readline():
            try:
                await relay.apply(replace(relay.line, **json.loads(order)))
                answer: dict[str, int | str] = {"connections": len(relay.pairs), "bytes": relay.under_way}
            except (OSError, TypeError, ValueError) as problem:
                answer = {"problem": f"{type(problem).__name__}: {problem}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    await relay.listen()
    control = await asyncio.start_server(obey, LOOPBACK, control_port)
    over = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set_result, None)
    async with control:
        await over


def main() -> None:
    """Relay until told to end; the one argument is JSON."""
    settings = json.loads(sys.argv[1])
    relay = Relay(settings["listen_port"], tuple(settings["target"]), Line(**settings["line"]), settings["seed"])
    asyncio.run(_serve(relay, settings["control_port"]))


if __name__ == "__main__":
    main()
