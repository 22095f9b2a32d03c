# pathlib would double the time a keeper takes to start
# ruff: noqa: PTH105, PTH112, PTH120, PTH123
"""The keeper: a small process that stands between whoever starts a child and the child itself.

It runs as a script of its own, with the standard library alone, so that it starts in milliseconds and costs a few
megabytes. It detaches from its starter, runs the child, and guarantees two things until the child has ended:

* the child ends when the keeper ends, however that happens (the kernel's parent death signal, on Linux);
* the child ends when the owner, if there is one, ends, however that happens (``kill -9`` included).

It writes the state file: once when the child runs, once more with the return code when it has ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypedDict

#: How long a child may take to end after SIGTERM once its owner is gone; then SIGKILL.
GRACE_SECONDS = 8.0
#: Pause between two looks at child and owner where the kernel offers no file descriptor to wait on.
POLL_SECONDS = 0.25
_PR_SET_PDEATHSIG = 1


def start_mark(pid: int) -> str | None:
    """Return what tells this process from a later one with the same pid, or None when it runs no longer.

    On Linux: clock ticks between boot and start, which unlike a creation time does not move when the clock is set.
    Elsewhere: the start time as ``ps`` prints it. A zombie runs no longer.
    """
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                after_name = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if after_name[0] in (b"Z", b"X") else after_name[19].decode()
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def _die_with_parent() -> Callable[[], None] | None:
    """Return what the child does before it becomes its program, so that it cannot outlive the keeper (Linux)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    keeper = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # the keeper died before the signal was set
            os._exit(1)

    return before_exec


class State(TypedDict):
    """The state file; the marks are those of ``start_mark``."""

    pid: int
    started: str | None
    keeper_pid: int
    keeper_started: str | None
    owner_pid: int | None
    argv: list[str]
    return_code: int | None


def _write_state(path: str, state: State) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)
    os.replace(temporary, path)


def _wait_with_descriptors(child: subprocess.Popen[bytes], owner: int, timeout_seconds: float | None) -> None:
    """Wait until the child or the owner (a process descriptor; -1: none) has ended, or the time is over."""
    poll = select.poll()
    child_descriptor = os.pidfd_open(child.pid)
    try:
        poll.register(child_descriptor, select.POLLIN)
        if owner >= 0:
            poll.register(owner, select.POLLIN)
        poll.poll(None if timeout_seconds is None else timeout_seconds * 1000)
    finally:
        os.close(child_descriptor)


def keep(child: subprocess.Popen[bytes], owner_pid: int | None, *, descriptors: bool) -> int:
    """Wait for the child's end, ending it when the owner ends; return its return code (negative: a signal).

    Parameters
    ----------
    child
        the running child.
    owner_pid
        the process whose end ends the child; None for nobody.
    descriptors
        wait on process descriptors (Linux) instead of looking every ``POLL_SECONDS``.
    """
    owner_mark = None if owner_pid is None else start_mark(owner_pid)
    owner_descriptor = -1
    if descriptors and owner_mark is not None and owner_pid is not None:
        try:
            owner_descriptor = os.pidfd_open(owner_pid)
        except ProcessLookupError:
            owner_mark = None

    def owner_is_gone() -> bool:
        return owner_pid is not None and (owner_mark is None or start_mark(owner_pid) != owner_mark)

    def wait(timeout_seconds: float | None, owner: int) -> None:
        if descriptors:
            _wait_with_descriptors(child, owner, timeout_seconds)
        else:
            time.sleep(POLL_SECONDS if timeout_seconds is None else min(POLL_SECONDS, timeout_seconds))

    while child.poll() is None and not owner_is_gone():
        wait(None, owner_descriptor)
    if child.poll() is None:
        child.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while child.poll() is None and (left := deadline - time.monotonic()) > 0:
            wait(left, -1)
    if child.poll() is None:
        child.kill()
    return child.wait()


def main(arguments: list[str]) -> int:
    """Detach, run the child, keep it. ``arguments``: state file, owner pid or ``-``, report descriptor, command..."""
    state_path, owner, report_descriptor, *argv = arguments
    if os.fork():
        os._exit(0)  # the starter reaps this half at once; the keeper itself is init's to reap
    owner_pid = None if owner == "-" else int(owner)
    report = int(report_descriptor)
    try:
        # the keeper has one thread, so that code between fork and exec is safe
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent())  # noqa: PLW1509
    except OSError as problem:
        os.write(report, f"cannot run {argv[0]}: {problem.strerror}".encode())
        return 1
    state: State = {
        "pid": child.pid,
        "started": start_mark(child.pid),
        "keeper_pid": os.getpid(),
        "keeper_started": start_mark(os.getpid()),
        "owner_pid": owner_pid,
        "argv": argv,
        "return_code": None,
    }
    try:
        _write_state(state_path, state)
    except OSError as problem:
        child.kill()
        child.wait()
        os.write(report, f"cannot write {state_path}: {problem.strerror}".encode())
        return 1
    os.close(report)
    state["return_code"] = keep(child, owner_pid, descriptors=hasattr(os, "pidfd_open"))
    if os.path.isdir(os.path.dirname(state_path)):  # else it was removed meanwhile, and nobody is left to tell
        _write_state(state_path, state)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
