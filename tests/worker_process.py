"""A worker process that is followed by another, as far as this one process can be both."""

from __future__ import annotations

from mirror.copier import links


def forget_all() -> None:
    """Close every connection of the copy; what is copied next is copied as by another process."""
    for each in links._clusters.values():
        each.close()
    links._clusters.clear()
