"""A clock by which rights run out: it goes on whatever becomes of the process, and nobody can set it."""

from __future__ import annotations

import time

# Linux: unlike CLOCK_MONOTONIC it also counts the time in which the machine was suspended. Both go on while a process
# is stopped (SIGSTOP). Elsewhere, as on macOS, CLOCK_MONOTONIC counts that time.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_seconds() -> float:
    """Return the seconds since some moment, of this machine: nothing that another one can make use of."""
    return time.clock_gettime(_CLOCK)
