"""Pauses of `mirror.waiting` that pass at once, in the thread of a test and nowhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest


def simulate_pauses(monkeypatch: pytest.MonkeyPatch, pause: Callable[[float], object]) -> None:
    """Have `pause` called, with the seconds, instead of each pause between two looks of this thread.

    `time.sleep` itself stays: a thread that another test has left behind would pause by it too, for ever and at once.
    """
    here = threading.get_ident()

    def sleep(seconds: float) -> None:
        (pause if threading.get_ident() == here else time.sleep)(seconds)

    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=sleep))
