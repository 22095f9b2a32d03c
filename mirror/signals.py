"""A command that is told to end cleans up after itself, whoever tells it.

Invariants:

(a) A signal's handler sets no event: it may interrupt who holds the event's lock. It fills a queue, whose reader
    does.
"""

from __future__ import annotations

import os
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


def stop_on_signal(
    stop: threading.Event, on_signal: Callable[[str], None], asked: threading.Event | None = None
) -> None:
    """Have SIGTERM and Ctrl-C set ``stop``, once or many times, and interrupt nothing, until the process ends.

    ``on_signal`` is called with the name of the first signal, in a thread: what an event or a log does in a handler may
    wait for a lock that the interrupted code holds. ``asked`` is set by SIGHUP, as that is sent by `kill`; where it
    comes because the terminal of the process is gone, it sets ``stop``, and where it is ignored (`nohup`) it stays so.
    """
    came: queue.SimpleQueue[int] = queue.SimpleQueue()
    had_terminal = _has_terminal()

    def wait() -> None:
        while (number := came.get()) == signal.SIGHUP and asked is not None and had_terminal == _has_terminal():
            asked.set()
        on_signal(signal.Signals(number).name)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if asked is not None and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        signal.signal(number, lambda came_number, _: came.put(came_number))


def _has_terminal() -> bool:
    """Whether the process is controlled from a terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
