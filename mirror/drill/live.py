"""What a person sees while a cell waits: for what, how long already, how far it is, and what was seen last.

A wait that is soon over shows nothing. The others have a line each, drawn anew in its place at every look; what stays
of it is how long it took.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from html import escape
from typing import TypeVar

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from mirror.drill.unattended import is_unattended
from mirror.lab.service_times import Service
from mirror.waiting import Counted, OnLook, outermost, wait_until, watched, within_a_wait

T = TypeVar("T")

_SOON_SECONDS = 1.0
_MOST_LINES = 8


class WaitingLine:
    """One wait, as a notebook shows it.

    Attributes
    ----------
    what
        what is waited for, for people.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self._clock = clock
        self._began = clock()
        self._lines: tuple[tuple[str, str], ...] = ()
        self._most = 0
        self._progress: Counted | None = None
        self._ended: float | None = None

    def look(self, seen: object) -> None:
        """Take in what was seen at a look."""
        match seen:
            case Counted():
                self._progress = seen
            case Service():
                came = {"the first write": seen.first_write_at_ms} | {
                    f"group {group} reads": at for group, at in seen.groups_reading_at_ms.items()
                }
                self._lines = tuple((each, "not yet" if at is None else "seen") for each, at in came.items())
                self._progress = Counted(sum(at is not None for at in came.values()), len(came))
            case list() | tuple():
                self._lines = tuple(_split(str(each)) for each in seen)
                self._most = max(self._most, len(seen))
                self._progress = Counted(self._most - len(seen), self._most) if self._most else None
            case _:
                pass

    def end(self) -> None:
        """Take in that the wait is over."""
        self._ended = self._clock()

    @property
    def seconds(self) -> float:
        """For how long it has been waited, or was."""
        return (self._clock() if self._ended is None else self._ended) - self._began

    def __str__(self) -> str:
        """Return one line."""
        return f"{'waiting' if self._ended is None else 'waited'} {self.seconds:.0f} s for {self.what}"

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        """Return what Jupyter shows."""
        return {"text/plain": str(self), "text/html": self._html()}

    def _html(self) -> str:
        if self._ended is not None:
            return f"<div style='opacity:0.7'>{escape(str(self))}</div>"
        value = count = ""  # without a value the bar says that something goes on, and not how far it is
        if self._progress is not None and self._progress.of:
            value = f" value='{self._progress.done}' max='{self._progress.of}'"
            count = f" {self._progress.done:,} of {self._progress.of:,}"
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(where)}</td><td>{escape(how)}</td></tr>"
            for where, how in self._lines[:_MOST_LINES]
        )
        more = f"<div>and {len(self._lines) - _MOST_LINES} more</div>" if len(self._lines) > _MOST_LINES else ""
        return (
            f"<div>{escape(str(self))}</div><div><progress{value} style='width:20em'></progress>{count}</div>"
            f"{f'<table>{rows}</table>' if rows else ''}{more}"
        )


@outermost
@contextmanager
def shown(what: str) -> Iterator[OnLook]:
    """Show a wait once it takes long enough to be wondered at; a wait within another is part of that one."""
    line = WaitingLine(what)
    handle: DisplayHandle | None = None

    def on_look(seen: object) -> None:
        nonlocal handle
        line.look(seen)
        if handle is not None:
            handle.update(line)
        elif line.seconds >= _SOON_SECONDS:
            handle = display(line, display_id=True)

    try:
        yield on_look
    finally:
        line.end()
        if handle is not None:
            handle.update(line)


def show_waits() -> None:
    """Have every wait of this kernel shown from now on, if a person is there to see it."""
    _UNTIL_THE_KERNEL_ENDS.close()
    if get_ipython() is not None and not is_unattended():
        _UNTIL_THE_KERNEL_ENDS.enter_context(watched(shown))


def answer_of(call: Callable[[], T], what: str) -> T:
    """Return what a call returns that takes its time, shown as a wait for ``what``.

    An interruption leaves the call behind, to end by itself.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            with within_a_wait():
                answer.set_result(call())
        except BaseException as problem:  # noqa: BLE001 - it is raised where the answer is waited for
            answer.set_exception(problem)

    threading.Thread(target=run, daemon=True).start()
    wait_until(answer.done, what, timeout_seconds=math.inf)
    return answer.result()


def _split(line: str) -> tuple[str, str]:
    where, _, how = line.rpartition(": ")
    return (where, how) if where else (how, "")


_UNTIL_THE_KERNEL_ENDS = ExitStack()
