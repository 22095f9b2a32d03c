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
        wait_until(lambda: looked_at.status() == psutil.STATUS_STOPPED, "it to be frozen", timeout_seconds=10)
        faults.resume([gone, there])
        wait_until(lambda: looked_at.status() != psutil.STATUS_STOPPED, "it to go on", timeout_seconds=10)
    finally:
        there.kill()
    assert faults.python_workers(gone) == faults.spark_jvms(gone) == []
    faults.kill([looked_at])
