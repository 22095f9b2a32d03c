"""What a client logs in with."""

from __future__ import annotations


class NoCredentials(OSError):
    """There is nothing to log in with now, no token and no ticket; it is looked for again with the next connection."""
