"""Who is told to end by a service manager cleans up as after Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from mirror.interrupting import sigterm_interrupts, stop_when_told
from mirror.waiting import wait_until


def test_sigterm_interrupts_as_long_as_it_was_asked_for() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back what answers signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_what_runs_and_a_second_one_changes_nothing(number: signal.Signals) -> None:
    """Also one that comes while the main thread holds the lock of the event."""
    stop, told = threading.Event(), list[str]()
    stop_when_told(stop, told.append)
    with stop._cond:  # type: ignore[attr-defined]
        signal.raise_signal(number)
        signal.raise_signal(number)
    wait_until(stop.is_set, "the stop", timeout_seconds=10)
    signal.raise_signal(number)
    assert told == [number.name]
