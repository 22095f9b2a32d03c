"""Writing a small file so that it is there whole or not at all, also after a crash."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a text file in UTF-8, forced to disk; a file of that name is replaced at once.

    Raises
    ------
    OSError
        if it cannot be written; what was there before is then still there.
    """
    _unfinished(path, text).replace(path)
    force_names(path.parent)


def write_new(path: Path, text: str) -> None:
    """Write a text file in UTF-8, forced to disk, if there is none of that name.

    Raises
    ------
    FileExistsError
        if there is one; it stays as it is.
    OSError
        if it cannot be written.
    """
    unfinished = _unfinished(path, text)
    try:
        # Unlike a rename, a link does not replace what is there.
        path.hardlink_to(unfinished)
    finally:
        unfinished.unlink()
    force_names(path.parent)


def force_names(directory: Path) -> None:
    """Force to disk which files and folders a folder has."""
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unfinished(path: Path, text: str) -> Path:
    """Write the text beside the file that it is for; return where."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    # What a process of the same number has left that was killed may be another name of the very file.
    unfinished.unlink(missing_ok=True)
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return unfinished
