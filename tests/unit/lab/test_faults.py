"""Faults meet processes that come and go: what has vanished in between stops nobody from hurting the others."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil

from mirror.lab import faults, processes
from mirror.lab.processes import ManagedProcess
from mirror.waiting import wait_until

WAITING = "import signal; print('up', flush=True); signal.pause()"


def running(directory: Path, name: str) -> ManagedProcess:
    process = processes.start(directory, name, [sys.executable, "-I", "-S", "-c", WAITING])
    wait_until(process.log_tail, f"the first line of {name}", timeout_seconds=10)
    return process


def test_what_is_gone_already_keeps_nobody_from_being_frozen_and_let_go_on(tmp_path: Path) -> None:
    gone, there = running(tmp_path, "gone"), running(tmp_path, "there")
    try:
        gone.kill()
        looked_at = psutil.Process(there.pid)
        faults.suspend([gone, there])
        assert looked_at.status() == psutil.STATUS_STOPPED
        faults.resume([gone, there])
        wait_until(lambda: looked_at.status() != psutil.STATUS_STOPPED, "it to go on", timeout_seconds=10)
    finally:
        there.kill()
    assert faults.python_workers(gone) == faults.spark_jvms(gone) == []
    faults.kill([looked_at])


def test_what_is_frozen_does_nothing_any_more_not_even_for_a_moment(tmp_path: Path) -> None:
    """A broker's other threads answered a request that came behind the signal."""
    working = (
        "import hashlib, threading\n"
        "def work():\n"
        "    while True: hashlib.sha256(bytes(50_000_000))\n"
        "for _ in range(4): threading.Thread(target=work).start()\n"
        "print('up', flush=True)"
    )
    process = processes.start(tmp_path, "working", [sys.executable, "-I", "-S", "-c", working])
    wait_until(process.log_tail, "its first line", timeout_seconds=10)
    try:
        for _ in range(3):
            faults.suspend([process])
            states = {psutil.Process(each.id).status() for each in psutil.Process(process.pid).threads()}
            assert states == {psutil.STATUS_STOPPED}
            faults.resume([process])
    finally:
        process.kill()
