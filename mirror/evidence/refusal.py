"""What was asked for was not started."""

from __future__ import annotations


class Refused(ValueError):
    """Something was asked for that cannot be started as it is; the message says what to change. Exit status 2."""
