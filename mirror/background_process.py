"""A command that goes on by itself, as Kafka's scripts start one with ``-daemon``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def detach(command: Sequence[str], name: str) -> Path:
    """Start a command that outlives its terminal; return the file that takes in what it prints.

    ``NAME.out`` in the folder that ``LOG_DIR`` names, as for Kafka's scripts; ``logs`` by default.
    """
    folder = Path(os.environ.get("LOG_DIR") or "logs").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.out"
    opened = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, opened, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # Nobody waits for it here, as `subprocess` would have it.
    os.posix_spawn(command[0], list(command), os.environ, file_actions=files, setsid=True)
    return log
