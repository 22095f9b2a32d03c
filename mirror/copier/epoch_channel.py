"""The epoch channel: connections by which the driver ends an epoch before its time, on whatever machine tasks run.

Epochs are long, so that the pause between two of them is rare; what cannot wait for the end of one (a signal to stop,
partitions that have just been found, a task that has ended and needs a new plan) ends it here. Each task holds a
connection to the driver while it copies. One kind of line on it ends the epoch; if the connection closes without one,
the driver is gone.

The other way round a line twice a second, a beat, says that the task lives, whatever it is doing; who is frozen says
nothing. The driver answers each: for how many seconds the task may write. They are counted from when the beat was sent,
by the task's own clock, so that neither a slow line nor a process that was stopped makes them longer; without an answer
the right to write runs out by itself. Other lines say what keeps partitions from being copied, and how much is copied:
nobody has to wait for the end of an epoch to know; and what a task has to say in words.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import itertools
import json
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from mirror.clock import steady_seconds
from mirror.kafka.problems import ConnectionFailed
from mirror.model.copied import Ages, Copied, Waiting
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_REACH_SECONDS = 5.0
_BEAT_SECONDS = 0.5
_END = b"end"
_PORTS = 16
# Nothing is written while the right to is over, and after so long nothing is waited for any more; nor when the first
# answer does not come. Other tasks of the epoch stand still meanwhile: of a driver that is alive it takes milliseconds.
_LAPSE_SECONDS = 3.0
_FIRST_ANSWER_SECONDS = 15.0

# What has changed of what keeps partitions from being copied, by flow and source partition; None: nothing any more.
Troubles: TypeAlias = dict[tuple[Flow, TopicPartition], str | None]
# What has changed of how much is copied in an epoch, by flow and source partition.
CopiedNews: TypeAlias = dict[tuple[Flow, TopicPartition], Copied]


class Signal(enum.Enum):
    """What a task is told by its driver."""

    NOTHING = "nothing"
    END = "the epoch is to end"
    SILENCE = "the driver is gone"


class EpochChannel:
    """The driver's end: one for each epoch; it ends the epoch by itself when the first task has ended.

    Attributes
    ----------
    ending
        set once the epoch is to end.
    most
        how many tasks have listened at once.
    write_until
        until when any of them may write by what they were last answered, by `mirror.clock.steady_seconds`.
    first_at
        when the first task began to listen, by `time.monotonic`; None if none has yet.
    """

    def __init__(
        self,
        host: str,
        troubled: Callable[[Troubles], None] = lambda _: None,
        write_seconds: Callable[[], float] = lambda: math.inf,
        copied: Callable[[CopiedNews], None] = lambda _: None,
        log: Callable[[int, str], None] = lambda _, __: None,
        *,
        bind: str | None = None,
        port: int = 0,
    ) -> None:
        """Listen where tasks can reach this machine: they are told ``host``.

        ``bind`` is the address of this machine that is listened on, if that is another; ``port`` the first of 16 ports
        of which a free one is taken, 0: any.

        Called in another thread are ``troubled`` with what has changed of what is wrong, ``copied`` with how much more
        is copied, ``log`` with lines of tasks and their level of `logging`, and ``write_seconds`` for how many seconds
        from now on the tasks may write.
        """
        self._troubled: Callable[[Any], None] = troubled
        self._copied: Callable[[Any], None] = copied
        self._log = log
        self._write_seconds = write_seconds
        self._server = _listen(bind or host, port)
        # Kept: an engine that stops may have taken the server down before tasks are told where it was.
        self._address = host, self._server.getsockname()[1]
        self._wake_end, self._woken_end = socket.socketpair()
        # Whoever ends the epoch may hold what the listening thread waits for. Where there is no room for one more such
        # byte there are enough.
        self._wake_end.setblocking(False)
        # The tasks that listen, and when each last sent something.
        self._listeners: dict[socket.socket, float] = {}
        self._unfinished: dict[socket.socket, bytes] = {}
        self._alone_since = time.monotonic()
        self.first_at: float | None = None
        self.most = 0
        self.write_until = -math.inf
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="epoch channel", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return the epoch channel itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the epoch channel down."""
        self.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where tasks connect: host and port."""
        return self._address

    @property
    def listeners(self) -> int:
        """How many tasks are listening."""
        return len(self._listeners)

    def silence(self) -> float | None:
        """Return for how many seconds the most silent task has said nothing; None while no task listens."""
        last = list(self._listeners.values())
        return time.monotonic() - min(last) if last else None

    def alone(self) -> float:
        """Return for how many seconds no task has listened."""
        return 0.0 if self._listeners else time.monotonic() - self._alone_since

    def silent_seconds(self) -> float:
        """Return for how many seconds a task has said nothing, or none has listened."""
        silence = self.silence()
        return self.alone() if silence is None else silence

    def listened_seconds(self) -> float:
        """Return how many seconds ago the first task began to listen; 0 if none has yet."""
        return 0.0 if self.first_at is None else time.monotonic() - self.first_at

    def end_epoch(self) -> None:
        """Tell every task, also those that come later, to end the epoch; from any thread."""
        with contextlib.suppress(OSError):
            self._wake_end.send(_END)

    def disconnect_all(self) -> None:
        """Close every task's connection, as if the driver were gone; from any thread."""
        self._wake_end.close()

    def close(self) -> None:
        """Close it; tasks that are still connected take the driver for gone."""
        self.disconnect_all()
        self._thread.join()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken_end, selectors.EVENT_READ)
            selector.register(self._server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken_end:
                        if not self._woken_end.recv(1):
                            self._close_all()
                            return
                        self._end_all()
                    elif key.fileobj is self._server:
                        listener, _ = self._server.accept()
                        self._listeners[listener] = time.monotonic()
                        self.first_at = self.first_at or time.monotonic()
                        self.most = max(self.most, len(self._listeners))
                        selector.register(listener, selectors.EVENT_READ)
                        if self.ending.is_set():
                            _send(listener)
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
                        self._end_all()

    def _lives(self, listener: socket.socket) -> bool:
        """Take in what a task says; return whether it said anything, and what a task says."""
        try:
            received = listener.recv(1 << 16)
        except OSError:
            # Reset, or its host is not to be reached any more.
            return False
        *lines, self._unfinished[listener] = (self._unfinished.get(listener, b"") + received).split(b"\n")
        for line in lines:
            if line.isdigit():
                seconds = self._write_seconds()
                # It counts from an earlier moment: from when it has asked.
                self.write_until = max(self.write_until, steady_seconds() + seconds)
                _send(listener, b"%s %f" % (line, seconds))
                continue
            try:
                message = _read(line)
            except (ValueError, TypeError):
                # Whoever it is, it is no task.
                return False
            for take, news in ((self._troubled, message.troubles), (self._copied, message.copied)):
                if news:
                    take(news)
            for level, text in message.lines:
                self._log(level, text)
        return bool(received)

    def _end_all(self) -> None:
        if not self.ending.is_set():
            self.ending.set()
            for listener in self._listeners:
                _send(listener)

    def _close_all(self) -> None:
        for each in (self._server, self._woken_end, *self._listeners):
            each.close()
        self._listeners.clear()


def _listen(address: str, port: int) -> socket.socket:
    """Listen on the first free port; as many are tried as Spark does for its own."""
    for tried in range(port, port + _PORTS if port else 1):
        try:
            return socket.create_server((address, tried))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE or tried == port + _PORTS - 1:
                raise
    raise AssertionError("the last port is taken or raises")


def _send(listener: socket.socket, word: bytes = _END) -> None:
    # A task that has ended meanwhile need not be told.
    with contextlib.suppress(OSError):
        listener.send(word + b"\n")


class EpochChannelListener:
    """A task's end: a connection to the driver, for as long as the task copies."""

    def __init__(self, address: tuple[str, int]) -> None:
        """Connect to the driver's end.

        Raises
        ------
        OSError
            if the driver cannot be reached.
        """
        self._socket = socket.create_connection(address, timeout=_REACH_SECONDS)
        self._socket.setblocking(False)
        self._signal = Signal.NOTHING
        self._unfinished = b""
        # Until when may be written, by this machine's clock, and when each unanswered beat was sent.
        self._until = -math.inf
        self._silent_at = math.inf
        self._is_answered = self._is_another = False
        self._beats: dict[int, float] = {}
        self._closing = threading.Event()
        self._reported: Troubles = {}
        self._over: set[tuple[Flow, TopicPartition]] = set()
        self._news = b""
        self._is_sending = False
        self._sending = threading.Lock()
        self._beating = threading.Thread(target=self._beat, name="beat", daemon=True)
        self._beating.start()

    @classmethod
    def answered(cls, address: tuple[str, int]) -> Self:
        """Connect to the driver's end, and return when it has answered the first beat.

        What accepts a connection need not be the driver: a proxy or a firewall may do so when the driver is not to be
        reached any more.

        Raises
        ------
        OSError
            if the driver cannot be reached, does not answer, or whoever answers is another.
        """
        listener = cls(address)
        host, port = address
        try:
            wait_until(
                lambda: listener.signal() is Signal.SILENCE or listener._is_answered,
                "the first answer",
                timeout_seconds=_FIRST_ANSWER_SECONDS,
                first_pause_seconds=0.001,
            )
        except WaitTimeout:
            listener.close()
            silent = f"{host}:{port} is connected, and has not answered for {_FIRST_ANSWER_SECONDS:.0f} s"
            raise TimeoutError(silent) from None
        if listener._is_another:
            listener.close()
            raise ConnectionError(f"{host}:{port} is connected, and does not answer as the driver does")
        return listener

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is a signal."""
        return self._socket.fileno()

    def signal(self) -> Signal:
        """Return the last one received, without waiting; to be asked again and again."""
        if self._signal is Signal.SILENCE:
            return self._signal
        with contextlib.suppress(BlockingIOError):
            # All that is there: who has not listened for long would take an old answer for the last one.
            while self._signal is not Signal.SILENCE:
                try:
                    received = self._socket.recv(1 << 12)
                except BlockingIOError:
                    raise
                except OSError:
                    received = b""
                if not received:
                    self._signal = Signal.SILENCE
                *lines, self._unfinished = (self._unfinished + received).split(b"\n")
                try:
                    for line in lines:
                        self._take(line)
                except (KeyError, ValueError):
                    # Whoever it is, it is not the driver.
                    self._signal, self._is_another = Signal.SILENCE, True
        if self._signal is Signal.SILENCE or steady_seconds() > self._silent_at:
            self._signal, self._until = Signal.SILENCE, -math.inf
        return self._signal

    def _take(self, line: bytes) -> None:
        if line == _END:
            self._signal = Signal.END if self._signal is Signal.NOTHING else self._signal
            return
        beat, seconds = line.split()
        self._until = self._beats.pop(int(beat)) + float(seconds)
        self._silent_at = self._until + _LAPSE_SECONDS
        self._is_answered = True

    @property
    def may_write(self) -> bool:
        """Whether something may be written now; to be asked right before."""
        return steady_seconds() < self._until

    def require(self) -> None:
        """Return if something may be written now.

        Raises
        ------
        ConnectionFailed
            if the driver has not said that it may, or not lately.
        """
        if not self.may_write:
            raise ConnectionFailed("the driver has not said lately that it leads the flow: nothing is written")

    def require_answer(self) -> None:
        """Return if something may be written now, as :meth:`require`; for who does not listen otherwise.

        An answer that is on its way is waited for.

        Raises
        ------
        ConnectionFailed
            if the driver has not said that it may, or not lately.
        """
        with contextlib.suppress(WaitTimeout):
            wait_until(
                lambda: self.signal() is Signal.SILENCE or self.may_write,
                "the driver's answer",
                timeout_seconds=_LAPSE_SECONDS,
            )
        self.require()

    def report_troubles(
        self,
        troubles: Mapping[tuple[Flow, TopicPartition], str],
        going_on: Set[tuple[Flow, TopicPartition]] = frozenset(),
    ) -> None:
        """Tell the driver, within a second, what keeps partitions from being copied; the others are well.

        The driver knows troubles of the epoch before, too: ``going_on`` are those of them that are over.
        """
        cured = dict.fromkeys((self._reported.keys() | (going_on - self._over)) - troubles.keys())
        self._over |= going_on
        news = cured | {key: trouble for key, trouble in troubles.items() if self._reported.get(key) != trouble}
        self._reported = dict(troubles)
        if news:
            self._enqueue({"troubles": [_named(where, trouble) for where, trouble in news.items()]})

    def report_copied(self, news: CopiedNews) -> None:
        """Tell the driver, within a second, how much of these partitions is copied by now."""
        if news:
            self._enqueue({"copied": [_named(where, *_numbers(copied)) for where, copied in news.items()]})

    def _enqueue(self, news: Mapping[str, Any]) -> None:
        line = json.dumps(news).encode()
        with self._sending:
            self._news += line + b"\n"

    def log(self, level: int, text: str) -> None:
        """Have the driver log something, within a second."""
        self._enqueue({"lines": [(level, text)]})

    @property
    def has_sent_all(self) -> bool:
        """Whether everything that is to be reported has gone out, or cannot any more."""
        with self._sending:
            return not (self._news or self._is_sending) or not self._beating.is_alive()

    def close(self) -> None:
        """Close the connection, which ends the epoch for the other tasks."""
        self._closing.set()
        self._beating.join()
        self._socket.close()

    def _beat(self) -> None:
        outgoing = b""
        with contextlib.suppress(OSError):
            for number in itertools.count():
                self._beats[number] = steady_seconds()
                with self._sending:
                    outgoing, self._news = outgoing + self._news + b"%d\n" % number, b""
                    self._is_sending = True
                with contextlib.suppress(BlockingIOError):
                    outgoing = outgoing[self._socket.send(outgoing) :]
                self._is_sending = bool(outgoing)
                if self._closing.wait(_BEAT_SECONDS):
                    return


@dataclass(frozen=True, slots=True)
class _Message:
    troubles: Troubles
    copied: CopiedNews
    lines: list[tuple[int, str]]


def _named(where: tuple[Flow, TopicPartition], *values: object) -> list[object]:
    flow, partition = where
    return [flow.source, flow.target, *partition, *values]


def _numbers(copied: Copied) -> tuple[object, ...]:
    waiting = copied.waiting
    return (
        copied.records,
        copied.bytes,
        *(astuple(each) if each.count else () for each in (copied.read, copied.acknowledged)),
        astuple(waiting) if waiting else None,
    )


def _read(line: bytes) -> _Message:
    content = json.loads(line)
    if not isinstance(content, dict):
        raise TypeError("a task tells of troubles, how much is copied, or lines of the log")
    return _Message(
        {
            (Flow(source, target), TopicPartition(topic, partition)): trouble
            for source, target, topic, partition, trouble in content.get("troubles", ())
        },
        {
            (Flow(source, target), TopicPartition(topic, partition)): Copied(
                records, size, Ages(*read), Ages(*acknowledged), Waiting(*waiting) if waiting else None
            )
            for source, target, topic, partition, records, size, read, acknowledged, waiting in content.get(
                "copied", ()
            )
        },
        [(int(level), str(text)) for level, text in content.get("lines", ())],
    )
