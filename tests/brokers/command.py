"""The command ``mirror`` as a process, run to its end."""

from __future__ import annotations

import subprocess
import sys


def mirror(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command and return what it said and its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "mirror", *argv], capture_output=True, text=True, check=False, timeout=60
    )
