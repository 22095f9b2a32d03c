"""What may take seconds, such as reaching a broker that does not answer, done in threads beside the copy loop.

The loop begins a call and goes on; once it is done, what came of it is taken in by the loop's own thread.

Invariants:

(a) Nothing in the copy loop waits for a broker: who leads what, where logs end and new connections are asked for here,
    one question at a time of a cluster. A broker that is frozen accepts connections and answers nothing.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

from mirror.kafka.problems import KafkaProblem

T = TypeVar("T")


class BackgroundCalls:
    """Calls under way, at most one of a key: what a thread uses belongs to it until the loop has taken it in."""

    def __init__(self) -> None:
        """Do nothing yet; what is opened is closed by :meth:`close`."""
        # Of each that is done: its key, what takes it in, what gives it up.
        self._done: queue.SimpleQueue[tuple[Hashable, Callable[[], None], Callable[[], None]]] = queue.SimpleQueue()
        self._is_closed = False
        self._under_way: set[Hashable] = set()
        # What is to be done, and by how many threads that wait for it; None ends one. One that was started for a call
        # stays for the next: the start of a thread is waited for, which on a busy machine takes milliseconds.
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = 0
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a call is done."""
        return self._wake_reader.fileno()

    def is_under_way(self, key: Hashable) -> bool:
        """Whether a call of that key has not been taken in yet."""
        return key in self._under_way

    def begin(
        self,
        key: Hashable,
        call: Callable[[], T],
        then: Callable[[T | KafkaProblem], None],
        drop: Callable[[T], None] = lambda _: None,
    ) -> None:
        """Run ``call`` in a thread; ``then`` is called by :meth:`take_in` with what it returned, or its failure.

        Anything else that it raises is raised by :meth:`take_in`. What it returns when nobody waits for it any more is
        given to ``drop``, by any thread.
        """
        assert key not in self._under_way
        self._under_way.add(key)

        def run() -> None:
            try:
                found = call()
            except KafkaProblem as failure:
                self._hand_over(key, partial(then, failure))
            except BaseException as defect:  # noqa: BLE001  # raised again in the loop's thread
                self._hand_over(key, partial(_raise, defect))
            else:
                self._hand_over(key, partial(then, found), partial(drop, found))

        self._calls.put(run)
        if self._threads < len(self._under_way):
            self._threads += 1
            threading.Thread(target=self._work, name="beside the copy loop", daemon=True).start()

    def take_in(self) -> None:
        """Take in what is done; the loop's thread only."""
        with contextlib.suppress(BlockingIOError):
            self._wake_reader.recv(4096)
        while True:
            try:
                key, then, _ = self._done.get_nowait()
            except queue.Empty:
                return
            self._under_way.discard(key)
            then()

    def close(self) -> None:
        """Wait for nothing more: what is still under way ends by itself, and nothing is told of it."""
        self._is_closed = True
        for _ in range(self._threads):
            self._calls.put(None)
        self._drop_all()
        self._wake_reader.close()
        self._wake_writer.close()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _drop_all(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                _, _, drop = self._done.get_nowait()
                drop()

    def _hand_over(self, key: Hashable, then: Callable[[], None], drop: Callable[[], None] = lambda: None) -> None:
        self._done.put((key, then, drop))
        if self._is_closed:
            self._drop_all()
        # A full pipe wakes the loop just as well; a closed one has no loop behind it.
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\1")


def _raise(defect: BaseException) -> None:
    raise defect
