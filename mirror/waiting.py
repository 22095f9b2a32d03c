"""The one way to wait: for a condition, with a deadline, and a message that says what was last seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_exponential

T = TypeVar("T")


OnLook = Callable[[object], None]
"""Takes in what was seen at a look."""

Watcher = Callable[[str], AbstractContextManager[OnLook]]
"""Is called with what is waited for when a wait begins; its context ends with the wait, and gives
what is called with each look."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a look sees where it can be counted how far it is."""

    done: int
    of: int

    def __bool__(self) -> bool:
        """Tell whether all of it is done."""
        return self.done >= self.of


class WaitTimeout(TimeoutError):
    """A condition did not come true in time; the message says what, how long, and what was seen last."""


def wait_until(
    observe: Callable[[], T],
    what: str,
    *,
    timeout_seconds: float,
    until: Callable[[T], bool] = bool,
    first_pause_seconds: float = 0.02,
    longest_pause_seconds: float = 0.5,
) -> T:
    """Call ``observe`` until its answer satisfies ``until``; return that answer.

    Raises
    ------
    WaitTimeout
        after ``timeout_seconds``, naming ``what`` and the last answer.
    """
    began = time.monotonic()

    def give_up(seen: T) -> T:
        raise WaitTimeout(f"waited {time.monotonic() - began:.1f} s for {what}; last seen: {seen!r}")

    return _look(observe, what, timeout_seconds, until, (first_pause_seconds, longest_pause_seconds), give_up)


def last_seen(
    observe: Callable[[], T],
    what: str,
    *,
    timeout_seconds: float,
    until: Callable[[T], bool] = bool,
    first_pause_seconds: float = 0.02,
) -> T:
    """Do as :func:`wait_until`, and return the last answer whatever it is: its reader knows why it is not enough."""
    return _look(observe, what, timeout_seconds, until, (first_pause_seconds, 0.5), lambda seen: seen)


def _look(
    observe: Callable[[], T],
    what: str,
    timeout_seconds: float,
    until: Callable[[T], bool],
    pauses: tuple[float, float],
    give_up: Callable[[T], T],
) -> T:
    first, longest = pauses

    def look() -> T:
        seen = observe()
        on_look(seen)
        return seen

    def at_the_end(state: RetryCallState) -> T:
        assert state.outcome is not None, "something was looked at"
        return give_up(state.outcome.result())

    retrying = Retrying(
        retry=retry_if_result(lambda seen: not until(seen)),
        stop=stop_after_delay(timeout_seconds),
        wait=wait_exponential(multiplier=first, max=longest),
        retry_error_callback=at_the_end,
    )
    with _watchers[-1](what) as on_look:
        return retrying(look)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Have every wait of this process told to somebody; of two the last."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def outermost(watcher: Watcher) -> Watcher:
    """Return a watcher that shows no wait within another one of its thread: that is part of it."""

    @contextmanager
    def shown(what: str) -> Iterator[OnLook]:
        if getattr(_WITHIN, "is_waiting", False):
            yield lambda _: None
            return
        with within_a_wait(), watcher(what) as on_look:
            yield on_look

    return shown


@contextmanager
def within_a_wait() -> Iterator[None]:
    """Have what this thread waits for meanwhile be part of a wait that is shown already."""
    _WITHIN.is_waiting = True
    try:
        yield
    finally:
        _WITHIN.is_waiting = False


def _nobody(_: str) -> AbstractContextManager[OnLook]:
    return nullcontext(lambda _: None)


_WITHIN = threading.local()
_watchers: list[Watcher] = [_nobody]
