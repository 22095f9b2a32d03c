"""The bell that ends an epoch before its time: rung by the driver, heard by every task wherever it runs.

Epochs are long, so that the pause between two of them is rare; what cannot wait for the end of one (a signal to stop,
partitions that have just been found, a task that has ended and needs a new plan) rings. Each task holds a connection to
the driver while it copies. One kind of byte on it is the ring; its end without one means that the driver is gone.
Another kind, each second, says that the driver lives. The other way round a line a second says that the task lives,
whatever it is doing; who is frozen says nothing. Such a line is empty, or says what keeps partitions from being copied:
nobody has to wait for the end of an epoch to know.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeAlias

from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

_REACH_SECONDS = 5.0
_BEAT_SECONDS = 1.0
_RING, _ALIVE = b"\1", b"\2"
_BEAT = b"\n"

# What has changed of what keeps partitions from being copied, by flow and source partition; None: nothing any more.
Troubles: TypeAlias = dict[tuple[Flow, TopicPartition], str | None]


class Heard(enum.Enum):
    """What a task hears of its driver."""

    NOTHING = "nothing"
    RING = "the epoch is to end"
    SILENCE = "the driver is gone"


class Bell:
    """The driver's end: one bell for one epoch; rings by itself when the first task has ended.

    Attributes
    ----------
    rung
        set once it has rung.
    most
        how many tasks have listened at once.
    """

    def __init__(self, host: str, troubled: Callable[[Troubles], None] = lambda _: None) -> None:
        """Listen on ``host``, an address of this machine that the tasks can reach.

        ``troubled`` is told, in another thread, what has changed of what is wrong.
        """
        self._troubled = troubled
        self._server = socket.create_server((host, 0))
        self._hand, self._ear = socket.socketpair()
        # The tasks that listen, and when each was last heard of.
        self._listeners: dict[socket.socket, float] = {}
        self._unfinished: dict[socket.socket, bytes] = {}
        self._alone_since = time.monotonic()
        self._beat_at = 0.0
        self._first_at: float | None = None
        self.most = 0
        self.rung = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="bell", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return the bell itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the bell down."""
        self.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where tasks hear it: host and port."""
        host, port = self._server.getsockname()[:2]
        return host, port

    @property
    def listeners(self) -> int:
        """How many tasks are listening."""
        return len(self._listeners)

    def silence(self) -> float | None:
        """Return for how many seconds the most silent task has said nothing; None while no task listens."""
        heard = list(self._listeners.values())
        return time.monotonic() - min(heard) if heard else None

    def alone(self) -> float:
        """Return for how many seconds no task has listened."""
        return 0.0 if self._listeners else time.monotonic() - self._alone_since

    def heard_for(self) -> float:
        """Return how many seconds ago the first task began to listen; 0 if none has yet."""
        return 0.0 if self._first_at is None else time.monotonic() - self._first_at

    def ring(self) -> None:
        """Tell every task, also those that come later, to end the epoch; from any thread."""
        with contextlib.suppress(OSError):
            self._hand.send(_RING)

    def hang_up(self) -> None:
        """Let every task hear that the driver is gone, whether it is or not; from any thread."""
        self._hand.close()

    def close(self) -> None:
        """Take it down; tasks still listening hear that the driver is gone."""
        self.hang_up()
        self._thread.join()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.register(self._server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(_BEAT_SECONDS):
                    if key.fileobj is self._ear:
                        if not self._ear.recv(1):
                            self._close_all()
                            return
                        self._tell_all()
                    elif key.fileobj is self._server:
                        listener, _ = self._server.accept()
                        self._listeners[listener] = time.monotonic()
                        self._first_at = self._first_at or time.monotonic()
                        self.most = max(self.most, len(self._listeners))
                        selector.register(listener, selectors.EVENT_READ)
                        if self.rung.is_set():
                            _tell(listener)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        if self._lives(key.fileobj):
                            self._listeners[key.fileobj] = time.monotonic()
                            continue
                        # It has ended, and the shares of the others are to be planned anew with its own.
                        selector.unregister(key.fileobj)
                        del self._listeners[key.fileobj]
                        self._unfinished.pop(key.fileobj, None)
                        self._alone_since = time.monotonic()
                        key.fileobj.close()
                        self._tell_all()
                if time.monotonic() >= self._beat_at:
                    self._beat_at = time.monotonic() + _BEAT_SECONDS
                    for listener in self._listeners:
                        _tell(listener, _ALIVE)

    def _lives(self, listener: socket.socket) -> bool:
        """Take in what a task says; return whether it said anything."""
        try:
            said = listener.recv(1 << 16)
        except OSError:
            # Reset, or its host is not to be reached any more.
            return False
        *lines, self._unfinished[listener] = (self._unfinished.get(listener, b"") + said).split(b"\n")
        for line in lines:
            if line:
                self._troubled(_read(line))
        return bool(said)

    def _tell_all(self) -> None:
        if not self.rung.is_set():
            self.rung.set()
            for listener in self._listeners:
                _tell(listener)

    def _close_all(self) -> None:
        for each in (self._server, self._ear, *self._listeners):
            each.close()
        self._listeners.clear()


def _tell(listener: socket.socket, word: bytes = _RING) -> None:
    # Who has ended meanwhile need not hear it.
    with contextlib.suppress(OSError):
        listener.send(word)


class BellListener:
    """A task's end: a connection to the driver, for as long as the task copies."""

    def __init__(self, address: tuple[str, int], patience_seconds: float = math.inf) -> None:
        """Connect to the driver's bell; a driver that says nothing for ``patience_seconds`` counts as gone.

        Raises
        ------
        OSError
            if the driver cannot be reached.
        """
        self._socket = socket.create_connection(address, timeout=_REACH_SECONDS)
        self._socket.setblocking(False)
        self._heard = Heard.NOTHING
        self._patience_seconds = patience_seconds
        self._alive_at = self._asked_at = time.monotonic()
        self._closing = threading.Event()
        self._told: Troubles = {}
        self._news = b""
        self._telling = threading.Lock()
        self._beating = threading.Thread(target=self._beat, name="beat", daemon=True)
        self._beating.start()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is something to hear."""
        return self._socket.fileno()

    def heard(self) -> Heard:
        """Return the last that was heard, without waiting; to be asked again and again."""
        now = time.monotonic()
        if now - self._asked_at > self._patience_seconds:
            # This process was stopped meanwhile: what the driver said before that means nothing.
            self._heard = Heard.SILENCE
        self._asked_at = now
        if self._heard is Heard.SILENCE:
            return self._heard
        with contextlib.suppress(BlockingIOError):
            try:
                words = self._socket.recv(64)
            except BlockingIOError:
                raise
            except OSError:
                words = b""
            self._alive_at = time.monotonic()
            if not words:
                self._heard = Heard.SILENCE
            elif _RING in words:
                self._heard = Heard.RING
        if time.monotonic() - self._alive_at > self._patience_seconds:
            self._heard = Heard.SILENCE
        return self._heard

    def tell(self, troubles: Mapping[tuple[Flow, TopicPartition], str]) -> None:
        """Tell the driver, within a second, what keeps partitions from being copied; the others are well."""
        cured = dict.fromkeys(self._told.keys() - troubles.keys())
        news = cured | {key: said for key, said in troubles.items() if self._told.get(key) != said}
        if news:
            self._told = dict(troubles)
            with self._telling:
                self._news += _written(news) + b"\n"

    def close(self) -> None:
        """Hang up, which rings for the other tasks."""
        self._closing.set()
        self._beating.join()
        self._socket.close()

    def _beat(self) -> None:
        outgoing = b""
        with contextlib.suppress(OSError):
            while not self._closing.wait(_BEAT_SECONDS):
                with self._telling:
                    outgoing, self._news = outgoing + self._news + _BEAT, b""
                with contextlib.suppress(BlockingIOError):
                    outgoing = outgoing[self._socket.send(outgoing) :]


def _written(troubles: Troubles) -> bytes:
    return json.dumps([[flow.source, flow.target, *source, said] for (flow, source), said in troubles.items()]).encode()


def _read(line: bytes) -> Troubles:
    return {
        (Flow(source, target), TopicPartition(topic, partition)): said
        for source, target, topic, partition, said in json.loads(line)
    }
