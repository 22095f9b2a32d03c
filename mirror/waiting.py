"""The one way to wait: for a condition, with a deadline, and a message that says what was last seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_exponential

T = TypeVar("T")


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
    retrying = Retrying(
        retry=retry_if_result(lambda seen: not until(seen)),
        stop=stop_after_delay(timeout_seconds),
        wait=wait_exponential(multiplier=first_pause_seconds, max=longest_pause_seconds),
    )
    try:
        return retrying(observe)
    except RetryError as gave_up:
        waited = time.monotonic() - began
        seen = gave_up.last_attempt.result()
        raise WaitTimeout(f"waited {waited:.1f} s for {what}; last seen: {seen!r}") from None
