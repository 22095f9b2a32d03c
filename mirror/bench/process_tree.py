"""CPU and memory of a process and everything it has started: a JVM, Spark's Python workers."""

from __future__ import annotations

import time

import psutil

_SEARCH_SECONDS = 0.5


class ProcessTree:
    """Adds up the processes of a tree, those that have ended included.

    The tree is searched for new processes twice a second only, as that reads every process of the machine. What a
    process used between the last look and its end is missed.
    """

    def __init__(self, pid: int) -> None:
        """Watch the process ``pid`` and its descendants."""
        self._root = psutil.Process(pid)
        self._living: set[psutil.Process] = {self._root}
        self._cpu_seconds: dict[psutil.Process, float] = {}
        self._search_at = 0.0

    def look(self) -> tuple[float, int]:
        """Return the CPU seconds used so far, and the bytes resident now."""
        now = time.monotonic()
        if now >= self._search_at:
            self._search()
            self._search_at = now + _SEARCH_SECONDS
        resident = 0
        for process in tuple(self._living):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    resident += process.memory_info().rss
            except psutil.NoSuchProcess:
                self._living.discard(process)
            else:
                self._cpu_seconds[process] = times.user + times.system
        return sum(self._cpu_seconds.values()), resident

    def _search(self) -> None:
        try:
            self._living.update(self._root.children(recursive=True))
        except psutil.NoSuchProcess:
            self._living.discard(self._root)
