"""A command that is told to end cleans up after itself, whoever tells it."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """While it lasts, SIGTERM does what Ctrl-C does: what was made is taken away again, what was found is kept."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_when_told(stop: threading.Event, told: Callable[[str], None]) -> None:
    """Have SIGTERM and Ctrl-C set ``stop``, once or many times, and interrupt nothing, until the process ends.

    ``told`` is called with the name of the first signal, in a thread: what an event or a log does in a handler may wait
    for a lock that the interrupted code holds.
    """
    came: queue.SimpleQueue[int] = queue.SimpleQueue()

    def wait() -> None:
        told(signal.Signals(came.get()).name)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda came_number, _: came.put(came_number))
