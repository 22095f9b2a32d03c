"""Code that Python runs first in a process that a test starts, and a wall clock made of it that can be set."""

from __future__ import annotations

from pathlib import Path

AN_HOUR = 3_600

_CLOCK = """\
import time

_now_ns = time.time_ns


def _set_clock_ns():
    with open({file!r}) as file:
        return _now_ns() + int(file.read()) * 1_000_000_000


time.time_ns = _set_clock_ns
time.time = lambda: _set_clock_ns() / 1e9
"""


def run_first(folder: Path, code: str) -> dict[str, str]:
    """Return the environment in which every Python runs ``code`` before anything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


class WallClock:
    """A wall clock that the processes of its environment go by; it can be set while they run."""

    def __init__(self, folder: Path) -> None:
        """Keep what is needed in ``folder``, which is made; the clock is right at first."""
        self._file = folder / "seconds"
        self.env = run_first(folder, _CLOCK.format(file=str(self._file)))
        self.set(0)

    def set(self, seconds_ahead: int) -> None:
        """Have the clock be so far ahead of the right time; negative: behind it."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds_ahead))
        # Whoever reads it meanwhile finds the old one or the new one.
        new.replace(self._file)
