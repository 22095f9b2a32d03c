"""The user's cache: what is fetched or made once and used by every run on this machine.

Invariants:

(a) Java dies of a class archive that was cut short, also with ``-Xshare:auto``, at every start. An archive is kept
    only if the JVM that wrote it ended in order, and used only if it has the size that was written down after it
    (``cache.offer``). A JVM that writes one at its end takes a minute or two on half a core.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Make = Callable[[Path], None]
"""Writes a file at the path given, beside which it may leave others: that folder is removed."""


class NotMade(Exception):
    """A file that was to be made was not, or not to its end; the message says why."""


def directory() -> Path:
    """Return this project's folder in the user's cache (``XDG_CACHE_HOME``, else ``~/.cache``); it may be missing."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "mirrorbook"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Let one process at a time fill a part of the cache; the kernel lets go when a process dies.

    Whoever has to wait for another one says so in a line on standard error, with the lock and who holds it: another
    process may fetch for minutes, or hang.

    Parameters
    ----------
    path
        the lock file; it stays. Its folder is made if missing.

    Raises
    ------
    OSError
        if either cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().decode(errors="replace").strip() or "unknown"
            print(f"waiting for another process ({holder}) that fills the cache: {path}", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield


def is_whole(path: Path) -> bool:
    """Whether a file that `offer` made is there with all its bytes: Java dies of a class archive that was cut short."""
    try:
        return path.stat().st_size == int(_size_path(path).read_text("utf-8"))
    except (OSError, ValueError):
        return False


def offer(path: Path, what: str, make: Make) -> Path | None:
    """Return a file that only saves time, made by the first who asks; None where it cannot be made.

    Whatever goes wrong stops nobody: it is said in a line on standard error, and tried again by whoever asks next.

    Parameters
    ----------
    path
        where it is, or is to be.
    what
        what it is called in that line.
    """
    if is_whole(path):
        return path
    try:
        with exclusive(path.with_suffix(".lock")):
            if not is_whole(path):  # another process may have been quicker
                with tempfile.TemporaryDirectory(dir=path.parent, prefix=".", ignore_cleanup_errors=True) as folder:
                    made = Path(folder) / path.name
                    make(made)
                    _keep(made, path)
    except Exception as problem:  # noqa: BLE001 - what only saves time must not cost a start, whatever broke in it
        reason = (str(problem).splitlines() or [type(problem).__name__])[0]
        print(f"{what}: not made, so starts take longer: {reason}", file=sys.stderr)
        return None
    return path


def _keep(made: Path, path: Path) -> None:
    """Put a finished file in its place. Its size is written last: until then it is not whole."""
    with made.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        os.fsync(file.fileno())
    _size_path(path).unlink(missing_ok=True)
    made.rename(path)
    _size_path(path).write_text(f"{size}\n", "utf-8")


def _size_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.size")
