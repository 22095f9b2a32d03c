"""Whether a person is there to be asked."""

from __future__ import annotations

import os

UNATTENDED_VARIABLE = "MIRROR_UNATTENDED"
"""Environment variable: anything but empty or 0 says that no person is there to be asked."""


def is_unattended() -> bool:
    """Tell whether the environment says that nobody is there to be asked."""
    return os.environ.get(UNATTENDED_VARIABLE, "") not in ("", "0")
