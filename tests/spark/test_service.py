"""The process that judges answers what it is asked, and raises where it was asked what it could not do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mirror.lab import processes
from mirror.proof.service import ask
from mirror.waiting import wait_until


def test_it_calls_what_it_is_asked_to_and_passes_answers_and_errors_on(tmp_path: Path) -> None:
    address = tmp_path / "address.json"
    argv = [sys.executable, "-m", "mirror.proof.service", str(address)]
    service = processes.start(tmp_path, "judges", argv, owner_pid=os.getpid())
    wait_until(address.exists, "the service to listen", timeout_seconds=60)
    assert address.stat().st_mode & 0o077 == 0, "who can read the address can have code run"
    assert ask(address, sorted, [3, 1, 2], reverse=True) == [3, 2, 1]
    with pytest.raises(ValueError, match="invalid literal"):
        ask(address, int, "three")
    assert ask(address, len, "still there") == 11
    assert service.terminate(10)
