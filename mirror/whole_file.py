"""Writing a small file so that it is there whole or not at all, also after a crash."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a text file in UTF-8, forced to disk; a file of that name is replaced at once.

    Raises
    ------
    OSError
        if it cannot be written; what was there before is then still there.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
