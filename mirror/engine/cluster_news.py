"""Whether clusters answer, as the log tells it: one line when one no longer does, one when it does again.

An outage is met by many threads at once: elections, ticks, heartbeats, every task. Each asks here before it says
anything; whether the cluster as a whole is away is found out in a thread of the cluster's own, so that nobody waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import Channel, ConnectionFailed
from mirror.kafka.security import UnsupportedSetting

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.25
_REACH_MS = 2_000
# Connections that broke are tried again some seconds apart, so after an outage its troubles pass one by one.
_SETTLING_SECONDS = 15.0


class ClusterNews:
    """One cluster: whether it answers. To be asked by any thread, and looked at by one."""

    def __init__(self, alias: str, ask: Callable[[], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the cluster called ``alias``; ``ask`` returns why it does not answer, None if it does."""
        self._alias = alias
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._is_asked = False
        self._answered_at = self._back_at = float("-inf")
        self._away_since: float | None = None

    def is_away(self, since: float = float("-inf")) -> bool | None:
        """Tell whether a failure is one of the cluster as a whole.

        Parameters
        ----------
        since
            an answer given before this time is none, in seconds of the clock.

        Returns
        -------
        True while the cluster does not answer, and for a moment after; None while it is not known: it is found out.
        """
        with self._lock:
            if self.is_known_away:
                return True
            if self._answered_at > since:
                return False
            self._is_asked = True
            return None

    @property
    def is_known_away(self) -> bool:
        """Whether it was away when it was last looked at, or is just back."""
        return self._away_since is not None or self._clock() < self._back_at + _SETTLING_SECONDS

    def begin_away(self, reason: str) -> None:
        """Take in, and tell, that it does not answer."""
        with self._lock:
            if self._away_since is not None:
                return
            self._away_since = self._clock()
        _LOG.warning("%s does not answer (%s); trying again", self._alias, reason)

    def look(self) -> None:
        """Find out whether the cluster answers, if somebody wants to know or it did not."""
        with self._lock:
            if not self._is_asked and self._away_since is None:
                return
            self._is_asked = False
        began = self._clock()
        reason = self._ask()
        if reason is not None:
            self.begin_away(reason)
            return
        with self._lock:
            self._answered_at, since, self._away_since = began, self._away_since, None
            if since is None:
                return
            self._back_at = self._clock()
        _LOG.info("%s answers again after %.0f s", self._alias, self._back_at - since)

    def run(self, stop: threading.Event) -> None:
        """Look until told to stop."""
        while not stop.wait(_LOOK_SECONDS):
            self.look()


class Outages:
    """The clusters of an engine, by alias; of one that nobody watches no failure is explained."""

    def __init__(self, watched: Mapping[str, ClusterNews] | None = None) -> None:
        self._watched = watched or {}

    def explain(self, alias: str, since: float = float("-inf")) -> bool | None:
        """Tell whether ``alias`` is away: see :meth:`ClusterNews.is_away`."""
        news = self._watched.get(alias)
        return news.is_away(since) if news is not None else False

    def is_known(self, alias: str) -> bool:
        """Tell whether ``alias`` is away, as far as is known by now."""
        news = self._watched.get(alias)
        return news is not None and news.is_known_away


#: Where nobody watches: every failure speaks for itself.
NO_OUTAGES = Outages()


def news_of(cluster: ClusterSettings) -> ClusterNews:
    """Return what watches a cluster."""

    def ask() -> str | None:
        try:
            Channel(cluster.alias, cluster.client, bootstrap_ms=_REACH_MS).close()
        except ConnectionFailed as failure:
            return str(failure).removeprefix(f"{cluster.alias}: ")
        except (OSError, UnsupportedSetting) as problem:
            # A key store that is being replaced, too many open files: of this machine, and told as such.
            _LOG.debug("%s is not looked at: %s", cluster.alias, problem)
        return None

    return ClusterNews(cluster.alias, ask)
