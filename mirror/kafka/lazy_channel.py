"""A way to a cluster that is not connected before it is used."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.kafka.channel import Channel


class LazyChannel:
    """A channel to one cluster, opened when it is first asked for."""

    def __init__(self, alias: str, client: Mapping[str, str]) -> None:
        """Connect to nothing yet."""
        self._to = alias, client
        self._opened: Channel | None = None

    def get(self) -> Channel:
        """Return the channel.

        Raises
        ------
        ConnectionFailed
            if the cluster cannot be reached; it is tried again the next time.
        """
        # No `cached_property`: up to Python 3.11 all instances have one lock, so that who reaches a dead cluster would
        # keep those waiting who go to others.
        if self._opened is None:
            self._opened = Channel(*self._to)
        return self._opened

    def close(self) -> None:
        """Close the channel, if there is one."""
        if self._opened is not None:
            self._opened.close()
