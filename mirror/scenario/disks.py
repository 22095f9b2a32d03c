"""Small disks: a file system in memory under a broker's data, which can be filled up and given room again."""

from __future__ import annotations

import errno
import shutil
import subprocess
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

from mirror.lab.errors import LabError

PRIVATE_MOUNTS = ("unshare", "--mount", "--map-root-user") if shutil.which("unshare") else ()
"""What a command is started with whose mounts nobody else sees, and which are gone when its last process is.

Most systems let any user do this; where there is none of it, mounting takes root.
"""

_BALLAST = "ballast"


class NoSmallDisk(LabError):
    """A file system cannot be mounted by this user on this machine; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """The disks of one cluster's brokers, ``broker-N/data`` each."""

    places: tuple[Path, ...]
    megabytes: int

    @classmethod
    def of(cls, home: Path, brokers: int, megabytes: int) -> SmallDisk:
        """Return the disks of a cluster that lives in ``home``."""
        return cls(tuple(home / f"broker-{number}" / "data" for number in range(1, brokers + 1)), megabytes)

    def mount(self) -> None:
        """Mount them.

        Raises
        ------
        NoSmallDisk
            if that is not allowed here.
        """
        for place in self.places:
            place.mkdir(parents=True, exist_ok=True)
            argv = ["mount", "-t", "tmpfs", "-o", f"size={self.megabytes}m", "tmpfs", str(place)]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, check=False)
            except OSError as problem:
                raise NoSmallDisk(f"no file system of {self.megabytes} MB can be mounted: {problem}") from problem
            if done.returncode:
                message = done.stderr.strip() or f"exit code {done.returncode}"
                raise NoSmallDisk(f"no file system of {self.megabytes} MB can be mounted here: {message}")

    def fill(self) -> None:
        """Leave no room on any of them."""
        for place in self.places:
            with (place / _BALLAST).open("wb", buffering=0) as ballast:
                # The broker writes meanwhile: how much is free is known only when nothing is.
                for size in (1 << 20, 1 << 12):
                    _write_until_full(ballast, bytes(size))

    def make_room(self) -> None:
        """Give the room back."""
        for place in self.places:
            (place / _BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        """Unmount them, with all that is on them."""
        for place in self.places:
            if place.is_mount():
                subprocess.run(["umount", str(place)], capture_output=True, check=False)


def _write_until_full(file: RawIOBase, block: bytes) -> None:
    try:
        while True:
            file.write(block)
    except OSError as full:
        if full.errno != errno.ENOSPC:
            raise
