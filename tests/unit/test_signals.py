"""Who is told to end by a service manager cleans up as after Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from mirror.signals import sigterm_interrupts, stop_on_signal
from mirror.waiting import wait_until


def test_sigterm_interrupts_as_long_as_it_was_asked_for() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back what answers signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_what_runs_and_a_second_one_changes_nothing(number: signal.Signals) -> None:
    """Also one that comes while the main thread holds the lock of the event."""
    stop, told = threading.Event(), list[str]()
    stop_on_signal(stop, told.append)
    with stop._cond:  # type: ignore[attr-defined]
        signal.raise_signal(number)
        signal.raise_signal(number)
    wait_until(stop.is_set, "the stop", timeout_seconds=60)
    signal.raise_signal(number)
    assert told == [number.name]


@pytest.mark.usefixtures("handlers")
def test_sighup_asks_to_read_the_file_again_and_stops_nothing() -> None:
    stop, asked = threading.Event(), threading.Event()
    stop_on_signal(stop, lambda _: None, asked)
    for _ in range(2):
        signal.raise_signal(signal.SIGHUP)
        wait_until(asked.is_set, "the wish", timeout_seconds=60)
        asked.clear()
    assert not stop.is_set()
    signal.raise_signal(signal.SIGTERM)
    wait_until(stop.is_set, "the stop", timeout_seconds=60)


@pytest.mark.usefixtures("handlers")
def test_a_process_that_is_to_outlive_its_terminal_goes_on_without_hearing_of_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop_on_signal(threading.Event(), lambda _: None, threading.Event())
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_process_whose_terminal_is_gone_stops() -> None:
    """It would go on without anybody who could end it."""
    waits = (
        "import sys, threading; from mirror.signals import stop_on_signal\n"
        "stop, asked = threading.Event(), threading.Event()\n"
        "stop_on_signal(stop, lambda name: None, asked); print('waits', flush=True)\n"
        "sys.exit(7 if stop.wait(60) else 1)"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", waits])
    with open(terminal, "rb", buffering=0) as said:  # noqa: PTH123  # no path
        assert said.readline().strip() == b"waits"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
