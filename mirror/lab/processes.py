"""Child processes that survive their starter but never their owner.

Brokers, the mirror, load generators and readers live longer than the notebook kernel or command that starts them, and
must never be left behind by the drill that owns them, not even by one that was killed. Each runs under a keeper
(``mirror.lab.keeper``) and is described by two files in the directory it was started in: ``NAME.json``, its state, and
``NAME.log``, everything it printed, appended over restarts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from mirror.lab import keeper
from mirror.lab.errors import LabError
from mirror.waiting import WaitTimeout, wait_until

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_START_LINE = "=== started"
#: How long the kernel may take to carry out a SIGKILL on a loaded machine.
_KILL_SECONDS = 60.0


class ProcessError(LabError):
    """A managed process could not be started, or did not end; the message says which and why."""


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """One child process under a keeper; the handle may be read back from its directory by any process.

    Attributes
    ----------
    directory
        where the state file and the log are.
    name
        unique in the directory.
    pid, started
        the child itself (not its keeper), and the mark that tells it from a later process with the same pid.
    keeper_pid, keeper_started
        the same of its keeper.
    owner_pid
        the process whose end ends this one; None: it runs until told.
    argv
        the command.
    """

    directory: Path
    name: str
    pid: int
    started: str | None
    keeper_pid: int
    keeper_started: str | None
    owner_pid: int | None
    argv: tuple[str, ...]

    @property
    def log_path(self) -> Path:
        """Return the file that holds everything the process printed, over all its starts."""
        return _log_path(self.directory, self.name)

    def is_alive(self) -> bool:
        """Tell whether the process runs; a later process with the same pid is not it."""
        return self.started is not None and keeper.start_mark(self.pid) == self.started

    def return_code(self) -> int | None:
        """Return how it ended (negative: the signal), None while it runs or when its keeper was killed too."""
        state = _read_state(self.directory, self.name)
        if state is None or (state["pid"], state["started"]) != (self.pid, self.started):
            return None
        return state["return_code"]

    def terminate(self, timeout_seconds: float) -> bool:
        """Send SIGTERM and wait; tell whether the process ended within the time. It is never killed by this."""
        self._send(signal.SIGTERM)
        return self._has_ended(timeout_seconds)

    def kill(self) -> None:
        """Send SIGKILL (``kill -9``) and return when the process is gone.

        Raises
        ------
        ProcessError
            if it is still there long after, as a process is that hangs in the kernel.
        """
        self._send(signal.SIGKILL)
        if not self._has_ended(_KILL_SECONDS):
            raise ProcessError(f"{self.name} (pid {self.pid}) still runs {_KILL_SECONDS:.0f} s after SIGKILL")

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines it printed since its last start."""
        if not self.log_path.exists():
            return ""
        text = self.log_path.read_text("utf-8", errors="replace")
        since_start = text[text.rfind(_START_LINE) :]
        return "\n".join(since_start.splitlines()[1:][-lines:])

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to this very process, and to none that has taken over its pid."""
        try:
            if hasattr(os, "pidfd_open"):
                descriptor = os.pidfd_open(self.pid)
                try:
                    if self.is_alive():
                        signal.pidfd_send_signal(descriptor, number)
                finally:
                    os.close(descriptor)
            elif self.is_alive():
                os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def _has_ended(self, timeout_seconds: float) -> bool:
        """Wait for the end of the child and of its keeper, which writes down the return code."""
        try:
            wait_until(
                lambda: not self.is_alive() and keeper.start_mark(self.keeper_pid) != self.keeper_started,
                f"the end of {self.name}",
                timeout_seconds=timeout_seconds,
            )
        except WaitTimeout:
            return False
        return True


def start(
    directory: Path,
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    owner_pid: int | None = None,
) -> ManagedProcess:
    """Start a command as a managed process and return once it runs.

    Parameters
    ----------
    directory
        holds ``NAME.json`` and ``NAME.log``; created if missing.
    name
        letters, digits, ``.``, ``_``, ``-``.
    argv
        the command; its first item is searched in PATH.
    env
        variables laid over this process's environment.
    owner_pid
        the process whose end, clean or not, ends the command (SIGTERM, then SIGKILL); None: it runs until told.

    Raises
    ------
    ProcessError
        if a process of this name runs already, the owner does not run, or the command cannot be run.
    """
    if not _NAME.fullmatch(name):
        raise ProcessError(f"{name!r} is no name for a process: use letters, digits, '.', '_' and '-'")
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    previous = find(directory, name)
    if previous is not None:
        if previous.is_alive():
            raise ProcessError(f"{name} already runs in {directory} (pid {previous.pid}); end it first")
        previous._has_ended(_KILL_SECONDS)  # its keeper may still have to write down how it ended
    if owner_pid is not None and keeper.start_mark(owner_pid) is None:
        raise ProcessError(f"cannot start {name}: its owner (pid {owner_pid}) does not run")
    report, report_end = os.pipe()
    owner = "-" if owner_pid is None else str(owner_pid)
    state_path = str(_state_path(directory, name))
    keeper_argv = [sys.executable, "-I", "-S", keeper.__file__, state_path, owner, str(report_end)]
    try:
        with _log_path(directory, name).open("ab") as log, os.fdopen(report, "rb") as reader:
            try:
                log.write(f"{_START_LINE} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {name}\n".encode())
                log.flush()
                detached = subprocess.Popen(
                    [*keeper_argv, *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **(env or {})},
                    pass_fds=(report_end,),
                    start_new_session=True,
                )
            finally:
                os.close(report_end)
            problem = reader.read().decode()
            detached.wait()
    except OSError as failed:
        raise ProcessError(f"cannot start {name} in {directory}: {failed}") from failed
    started = find(directory, name)
    if problem or started is None or started == previous:
        tail = _log_path(directory, name).read_text("utf-8", errors="replace").splitlines()[-5:]
        raise ProcessError(f"cannot start {name}: {problem or 'its keeper failed: ' + ' / '.join(tail)}")
    return started


def find(directory: Path, name: str) -> ManagedProcess | None:
    """Return the process last started under this name, running or not; None if there never was one."""
    directory = directory.absolute()
    state = _read_state(directory, name)
    if state is None:
        return None
    of_child, of_keeper = (state["pid"], state["started"]), (state["keeper_pid"], state["keeper_started"])
    return ManagedProcess(directory, name, *of_child, *of_keeper, state["owner_pid"], tuple(state["argv"]))


def all(directory: Path) -> tuple[ManagedProcess, ...]:  # noqa: A001 - read as processes.all(directory)
    """Return every process ever started in the directory, running or not, by name."""
    found = (find(directory, path.stem) for path in sorted(directory.glob("*.json")))
    return tuple(process for process in found if process is not None)


def running(directory: Path, prefix: str = "") -> list[ManagedProcess]:
    """Return the running processes of the directory whose name begins with ``prefix``."""
    return [process for process in all(directory) if process.name.startswith(prefix) and process.is_alive()]


def end(wanted: Sequence[ManagedProcess], *, timeout_seconds: float) -> tuple[str, ...]:
    """End processes with SIGTERM, all at once; return the names of those that had to be killed in the end."""
    if not wanted:
        return ()
    with ThreadPoolExecutor(len(wanted)) as pool:
        ended = list(pool.map(lambda process: process.terminate(timeout_seconds), wanted))
    stubborn = [process for process, has_ended in zip(wanted, ended, strict=True) if not has_ended]
    for process in stubborn:
        process.kill()
    return tuple(process.name for process in stubborn)


def _state_path(directory: Path, name: str) -> Path:
    return directory / f"{name}.json"


def _log_path(directory: Path, name: str) -> Path:
    return directory / f"{name}.log"


def _read_state(directory: Path, name: str) -> keeper.State | None:
    """Return the state file's contents, None if there is none or the file is of something else."""
    try:
        state = json.loads(_state_path(directory, name).read_text("utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(state, dict) or "keeper_pid" not in state:
        return None
    return cast(keeper.State, state)
