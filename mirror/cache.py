"""The user's cache: what is fetched or made once and used by every run on this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def directory() -> Path:
    """Return this project's folder in the user's cache (``XDG_CACHE_HOME``, else ``~/.cache``), made if missing."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    found = base / "mirrorbook"
    found.mkdir(parents=True, exist_ok=True)
    return found


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Let one process at a time fill a part of the cache; the kernel lets go when a process dies.

    Parameters
    ----------
    path
        the lock file; it stays.
    """
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
