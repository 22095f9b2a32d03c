"""Killing what carries a runbook out: its runner, the kernel, and the holder of its practice clusters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from mirror.evidence.journal import Event, Journal
from mirror.evidence.run_directory import RunDirectory
from mirror.lab import holder
from mirror.recovery.move import LAST_LOOK
from mirror.waiting import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 600.0


def command(*arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "mirror", "runbook", *arguments]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kernel_of(runner: subprocess.Popen[str]) -> psutil.Process | None:
    children = psutil.Process(runner.pid).children()
    return next((each for each in children if "mirror.drill.kernel_process" in each.cmdline()), None)


def kill(what: str, runner: subprocess.Popen[str], run: RunDirectory) -> None:
    """SIGKILL one of the three; the runner has ended when this returns."""
    if what == "runner":
        runner.kill()
    elif what == "kernel":
        kernel = wait_until(lambda: kernel_of(runner), "a kernel", timeout_seconds=SECONDS)
        assert kernel is not None
        os.kill(kernel.pid, signal.SIGKILL)
    else:
        held = wait_until(lambda: holder.holder_of(run.path), "a holder", timeout_seconds=SECONDS)
        assert held is not None
        held.kill()
        # Without what it held the step cannot go on; nobody waits for it to notice.
        runner.kill()
    runner.communicate(timeout=SECONDS)


def begun_again(journal: Journal) -> list[str]:
    """Return the steps of a procedure that were begun again although they were proven.

    What is UNKNOWN may be, and the last look before the point of no return: what an earlier process has seen is past.
    Where a step failed the others are taken back, and a process may be killed in the middle of that.
    """
    proven: set[str | None] = set()
    found = []
    for entry in journal.read().entries:
        if entry.event is Event.STEP_FINISHED and entry.facts["verdict"] == "PASS":
            proven.add(entry.step)
        elif entry.event is Event.STEP_FINISHED and entry.facts["verdict"] == "FAIL":
            proven.clear()
        elif entry.event is Event.STEP_UNDONE:
            proven.discard(entry.step)
        elif entry.event is Event.STEP_STARTED and entry.step in proven - {LAST_LOOK}:
            found.append(str(entry.step))
    return found
