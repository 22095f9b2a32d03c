"""The folder of a process's Spark: its log, its temporary files, its sockets. Nothing of it stays.

Invariants:

(a) A JVM or a Python worker that is killed removes nothing it has made. So all of it is made below one folder, which
    is removed when Spark ends, or by the next process that starts one.
(b) Whether the process it was made for has ended is told by a lock, which the kernel lets go, and not by its id:
    containers that share a temporary directory do not see each other's processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PREFIX = "mirror-spark-"
_LOCK = "lock"
# Spark adds "/.", 36 characters and ".sock"; the name of a socket has 107 bytes on Linux, and 103 elsewhere.
_LONGEST = 103 - len("/.") - 36 - len(".sock")
_LONGEST_PARENT = _LONGEST - len(f"/{_PREFIX}") - 8


class SparkFolder:
    """A folder that nobody else can read, and that no other process removes as long as this one lives.

    Attributes
    ----------
    path
        where it is.
    has_room_for_sockets
        whether its name is short enough for sockets below it; of one that is not Spark would only say so and end.
    """

    def __init__(self, parents: Sequence[Path] = ()) -> None:
        """Make it in the first of ``parents`` where sockets can be, else in the first; what others have left goes.

        Without any it is the temporary directory, or ``/tmp``.
        """
        # What Java takes where nobody says otherwise, and always short.
        parents = parents or (Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108
        for parent in dict.fromkeys(parents):
            _remove_what_is_left(parent)
        short = [each for each in parents if len(os.fsencode(each)) <= _LONGEST_PARENT]
        chosen = next((each for each in short if os.access(each, os.W_OK | os.X_OK)), parents[0])
        self.path, lock = _locked(chosen)
        self._lock: int | None = lock
        self.has_room_for_sockets = len(os.fsencode(self.path)) <= _LONGEST

    @property
    def log(self) -> Path:
        """Where Spark's output goes that nobody asked to keep."""
        return self.path / "spark.log"

    @property
    def code(self) -> Path:
        """Where the code for executors is as long as Spark runs: one that comes later takes it from there."""
        return self.path / "code.zip"

    @property
    def warehouse(self) -> Path:
        """Where Spark would keep tables; it would otherwise leave a folder wherever it is started."""
        return self.path / "warehouse"

    def remove(self) -> None:
        """Remove it, with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(parent: Path) -> tuple[Path, int]:
    """Return a new folder and its lock, which is let go when the descriptor is closed or the process ends."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / _LOCK).exists():
            return path, lock
        # Another process took it for one that was left, between the two lines above.
        os.close(lock)


def _remove_what_is_left(parent: Path) -> None:
    """Remove the folders of processes that have ended without doing it themselves, by ``kill -9`` for instance."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        # One that is in use, another user's, or one that another process has just removed.
        with suppress(OSError), lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
