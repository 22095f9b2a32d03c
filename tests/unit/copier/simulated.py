"""A clock that stands still until somebody waits, and a selector and threads that go by it.

What the copy loop does in seconds takes milliseconds here, and always happens in the same order: whoever waits hands
over to what is due next, be it an answer on its way, a call beside the loop, or what a test has planned.
"""

from __future__ import annotations

import heapq
import itertools
import math
import queue
import select
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from mirror.copier import background, links, loop
from mirror.kafka import connection

# What a turn of the loop takes.
_TURN_SECONDS = 0.0002
# A loop that turns more often than this waits for nothing.
_MOST_TURNS = 60_000
# Of the real time: a call that does not come back.
_STUCK_SECONDS = 60.0


class Line(Protocol):
    """One end of a connection, as a selector sees it."""

    @property
    def is_readable(self) -> bool: ...

    @property
    def is_writable(self) -> bool: ...

    def pump(self) -> None:
        """Answer what can be answered now."""
        ...


class _Call:
    """A thread that runs only while everything else waits for it, and stands still when it waits itself."""

    def __init__(self, world: World, target: Callable[[], None]) -> None:
        self._world = world
        self._target = target
        self._go, self._halted = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.is_over = False
        self.until = world.now + _TURN_SECONDS
        self.condition: Callable[[], bool] = lambda: False

    @property
    def is_due(self) -> bool:
        return not self.is_over and (self._world.now >= self.until or self.condition())

    def start(self) -> None:
        self._world.calls.append(self)
        self._thread.start()

    def resume(self) -> None:
        """Let it run until it waits or ends."""
        self._world.running, before = self, self._world.running
        self._go.release()
        assert self._halted.acquire(timeout=_STUCK_SECONDS), "a call waits for what is not simulated"
        self._world.running = before

    def wait(self, seconds: float, condition: Callable[[], bool]) -> None:
        self.until, self.condition = self._world.now + seconds, condition
        self._halted.release()
        self._go.acquire()

    def _run(self) -> None:
        self._world.threads.add(threading.get_ident())
        self._go.acquire()
        try:
            self._target()
        finally:
            self.is_over = True
            self._halted.release()


class Queue:
    """A queue for which who waits for something lets the time go on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items = deque[Any]()

    def put(self, item: object) -> None:
        self._items.append(item)

    def get(self) -> Any:
        while not self._items:
            self._world.wait(math.inf, lambda: bool(self._items))
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class Lock:
    """A lock for which who waits lets the time go on; whoever holds it may take it again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._holder: _Call | None = None
        self._count = 0

    def __enter__(self) -> None:
        while self._count and self._holder is not self._world.running:
            self._world.wait(math.inf, lambda: not self._count)
        self._holder, self._count = self._world.running, self._count + 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1


class World:
    """The time, and all that goes on in it.

    Attributes
    ----------
    parent
        the process that has started this one.
    turns
        how often the loop has waited.
    threads
        those that live in this time: clients of other tests in this process may have threads of their own.
    """

    def __init__(self) -> None:
        self.now = 1_000.0
        self.parent = 1
        self.turns = 0
        self.threads = {threading.get_ident()}
        self.calls: list[_Call] = []
        self.running: _Call | None = None
        self.lines: dict[int, Line] = {}
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._awaited: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._numbers = itertools.count()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Have everything go by this time until the test is over."""
        monotonic, sleep = time.monotonic, time.sleep
        patch.setattr(time, "monotonic", lambda: self.now if threading.get_ident() in self.threads else monotonic())

        def wait_or_sleep(seconds: float) -> None:
            (self.wait if threading.get_ident() in self.threads else sleep)(seconds)

        patch.setattr(time, "sleep", wait_or_sleep)
        patch.setattr(loop, "os", SimpleNamespace(getppid=lambda: self.parent))
        patch.setattr(selectors, "DefaultSelector", lambda: Selector(self))
        thread = SimpleNamespace(Thread=lambda target, name, daemon: _Call(self, target))
        patch.setattr(background, "threading", thread)
        queues = SimpleNamespace(SimpleQueue=lambda: Queue(self), Empty=queue.Empty)
        patch.setattr(background, "queue", queues)
        polls = SimpleNamespace(POLLIN=select.POLLIN, POLLOUT=select.POLLOUT, poll=lambda: Poll(self))
        patch.setattr(connection, "select", polls)
        patch.setattr(links, "threading", SimpleNamespace(Lock=lambda: Lock(self), RLock=lambda: Lock(self)))

    def end(self) -> None:
        """Let every call that nobody waits for any more come to its end."""
        self._awaited.clear()
        until = self.now + 3_600
        while self.calls:
            assert self.now < until, "a call beside the loop never ends"
            self._go_on(until)

    # What tests plan.

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something so many seconds from now."""
        heapq.heappush(self._planned, (self.now + seconds, next(self._numbers), act))

    def once(self, condition: Callable[[], bool], act: Callable[[], None]) -> None:
        """Do something as soon as a condition holds."""
        self._awaited.append((condition, act))

    # How time goes on.

    def wait(self, seconds: float, condition: Callable[[], bool] = lambda: False) -> None:
        """Go on with everything else for some seconds, or until a condition holds."""
        if self.running is not None:
            self.running.wait(seconds, condition)
            return
        until = self.now + seconds
        while self.now < until and not condition():
            self._go_on(until)

    def turn(self, seconds: float, is_ready: Callable[[], bool]) -> None:
        """Let the loop wait once: until something is there for it, or for so many seconds."""
        self.turns += 1
        assert self.turns < _MOST_TURNS, "the loop turns without waiting"
        until = self.now + max(seconds, _TURN_SECONDS)
        self._settle()
        if is_ready():
            self.now += _TURN_SECONDS
            return
        while self.now < until and not is_ready():
            self._go_on(until)

    def _go_on(self, until: float) -> None:
        """Go on to what is due next, ``until`` at the latest."""
        due = [call.until for call in self.calls if call is not self.running]
        due += [self._planned[0][0]] if self._planned else []
        self.now = max(self.now, min([until, *due]))
        self._settle()

    def _settle(self) -> None:
        """Do all that is due now."""
        while self._planned and self._planned[0][0] <= self.now:
            heapq.heappop(self._planned)[2]()
        for line in list(self.lines.values()):
            line.pump()
        for each in [each for each in self._awaited if each[0]()]:
            self._awaited.remove(each)
            each[1]()
        for call in [call for call in self.calls if call.is_due]:
            call.resume()
        self.calls = [call for call in self.calls if not call.is_over]


class Poll:
    """Waits for one line of a :class:`World`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def register(self, line: Line, event: int) -> None:
        self._line, self._event = line, event

    def poll(self, milliseconds: float) -> bool:
        self._world.wait(milliseconds / 1000, self._is_ready)
        return self._is_ready()

    def _is_ready(self) -> bool:
        return self._line.is_readable if self._event == select.POLLIN else self._line.is_writable


class Selector:
    """Waits for lines of a :class:`World`, and for what else is a file."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, file: Any, events: int, data: Any = None) -> None:
        assert file not in self._keys
        self._keys[file] = selectors.SelectorKey(file, file.fileno(), events, data)

    def modify(self, file: Any, events: int, data: Any = None) -> None:
        assert self._keys.pop(file)
        self.register(file, events, data)

    def unregister(self, file: Any) -> None:
        del self._keys[file]

    def get_key(self, file: Any) -> selectors.SelectorKey:
        return self._keys[file]

    def select(self, timeout: float) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout >= 0.0
        self._world.turn(timeout, self._is_ready)
        return [(key, events) for key in self._keys.values() if (events := self._ready(key))]

    def close(self) -> None:
        self._keys.clear()

    def _is_ready(self) -> bool:
        return any(self._ready(key) for key in self._keys.values())

    def _ready(self, key: selectors.SelectorKey) -> int:
        line = self._world.lines.get(key.fd)
        if line is None:
            return key.events if select.select([key.fd], [], [], 0.0)[0] else 0
        there = (selectors.EVENT_READ if line.is_readable else 0) | (selectors.EVENT_WRITE if line.is_writable else 0)
        return key.events & there
