"""Who is told to end by a service manager cleans up as after Ctrl-C."""

from __future__ import annotations

import signal

import pytest

from mirror.interrupting import sigterm_interrupts


def test_sigterm_interrupts_as_long_as_it_was_asked_for() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
