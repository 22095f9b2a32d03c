"""The holder of a run: the process that clusters, replicator, applications and judges of the run end with.

Kernels and the runner may end, or be killed, in the middle of a step. What they started for the run belongs to the
holder and goes on, so that the run can be resumed. The holder ends when it is told to, and by itself when nobody has
used the run for a while; whatever it holds ends with it, however it ends (`mirror.lab.keeper`).

It keeps itself in the folder ``holder`` of the run's directory.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirror.lab import processes
from mirror.lab.errors import BadRequest
from mirror.lab.processes import ManagedProcess

ABANDONED_MINUTES_VARIABLE = "MIRROR_ABANDONED_MINUTES"
"""Environment variable: after how many minutes without use a run's processes end by themselves."""

_DEFAULT_MINUTES = 30.0
_NAME = "holder"
_LOOK_SECONDS = 1.0
_END_SECONDS = 20.0


class BadMinutes(BadRequest):
    """The environment variable is no positive number of minutes."""


def abandoned_minutes() -> float:
    """Return after how many minutes without use a run's processes end by themselves.

    Raises
    ------
    BadMinutes
        if the environment says something that is no positive number.
    """
    text = os.environ.get(ABANDONED_MINUTES_VARIABLE, str(_DEFAULT_MINUTES))
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise BadMinutes(f"{ABANDONED_MINUTES_VARIABLE}={text}: give a positive number of minutes")
    return minutes


def hold(run: Path) -> ManagedProcess:
    """Return the holder of a run, started if there is none; the run counts as used now."""
    minutes = abandoned_minutes()
    with _one_at_a_time(run):
        use(run)
        found = holder_of(run)
        if found is not None:
            return found
        argv = [sys.executable, "-m", __name__, str(_used(run)), str(60 * minutes)]
        return processes.start(_folder(run), _NAME, argv)


def holder_of(run: Path) -> ManagedProcess | None:
    """Return the holder of a run if it is running."""
    found = processes.find(_folder(run), _NAME)
    return found if found is not None and found.is_alive() else None


def held(runs: Path) -> list[Path]:
    """Return the directories under ``runs`` whose holder is running, by name."""
    return [path.parents[1] for path in sorted(runs.glob(f"*/holder/{_NAME}.json")) if holder_of(path.parents[1])]


def unused_seconds(run: Path) -> float:
    """Return for how long nobody has used a run, by the file system's clock; for people."""
    touched = _touched(_used(run))
    return 0.0 if touched is None else max(0.0, time.time() - touched / 1e9)


def use(run: Path) -> None:
    """Note that somebody uses the run: its holder, if it has one, waits the whole time again."""
    if _folder(run).is_dir():
        _used(run).touch()


def release(run: Path) -> None:
    """End what works on the clusters of a run, then its holder; with it the clusters end by themselves within seconds.

    An engine that stops while its clusters are there puts on record how far it has copied, for who resumes the run.
    """
    found = holder_of(run)
    if found is None:
        return
    processes.end(processes.running(run / "logs"), timeout_seconds=_END_SECONDS)
    if not found.terminate(_END_SECONDS):
        found.kill()


def wait_until_unused(used: Path, seconds: float, stop: threading.Event) -> None:
    """Return when told to, or when the file was not touched for so long.

    The time is measured here: the file's own time only tells one touch from another, whatever the clock does.
    """
    seen, since = _touched(used), time.monotonic()
    while not stop.wait(min(_LOOK_SECONDS, seconds)):
        now = _touched(used)
        if now is None:  # the run was removed
            return
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            print(f"nobody has used this run for {seconds / 60:g} minutes: it ends", flush=True)
            return


def _folder(run: Path) -> Path:
    return run / "holder"


def _used(run: Path) -> Path:
    return _folder(run) / "used"


def _touched(used: Path) -> int | None:
    try:
        return used.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@contextmanager
def _one_at_a_time(run: Path) -> Iterator[None]:
    """Two notebooks that start at once shall find the same holder."""
    _folder(run).mkdir(exist_ok=True)
    with (_folder(run) / "start.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _main(used: str, seconds: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    wait_until_unused(Path(used), float(seconds), stop)


if __name__ == "__main__":
    _main(*sys.argv[1:])
