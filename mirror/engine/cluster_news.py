"""Whether clusters answer, as the log tells it: one line when one no longer does, one when it does again.

An outage is met by many threads at once: elections, ticks, heartbeats, every task. Each asks here before it says
anything; whether the cluster as a whole is away is found out in a thread of the cluster's own, so that nobody waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.security import UnsupportedSetting

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.25
# A cluster that is away is looked at by its ticks, too; who is refused again and again may have an account locked.
_AGAIN_SECONDS, _REFUSED_SECONDS = 1.0, 10.0
_REACH_MS = 2_000
# Connections that broke are tried again some seconds apart, so after an outage its troubles pass one by one.
_SETTLING_SECONDS = 15.0


class Away(NamedTuple):
    """Why a cluster cannot be used; ``is_refusal``: it answers, and lets nobody in."""

    reason: str
    is_refusal: bool = False


class ClusterNews:
    """One cluster: whether it answers. To be asked by any thread, and looked at by one."""

    def __init__(self, alias: str, ask: Callable[[], Away | None], clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the cluster called ``alias``; ``ask`` returns why it is away, None if it is not.

        ``ask`` may raise what this machine does to it: then nothing is known of the cluster, and one that was not away
        is taken for well.
        """
        self._alias = alias
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._is_asked = False
        # Also when it could not be asked: nobody who fails waits to be told why.
        self._answered_at = self._back_at = float("-inf")
        self._away_since: float | None = None
        self._is_refused = False
        self._reason = ""
        self._next_look = float("-inf")

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

    @property
    def is_under_way(self) -> bool:
        """Whether it was away when it was last looked at; not if it is just back."""
        return self._away_since is not None

    @property
    def reason(self) -> str:
        """Why it did not answer, or let nobody in, when that was last reported."""
        return self._reason

    @property
    def words(self) -> str:
        """That it does not answer, or lets nobody in, and why, as it was last reported."""
        message = "does not let this engine in" if self._is_refused else "does not answer"
        return f"{self._alias} {message} ({self._reason})"

    def begin_away(self, why: Away) -> None:
        """Take in, and tell, that it does not answer, or lets nobody in."""
        with self._lock:
            if self._away_since is not None and self._is_refused == why.is_refusal:
                return
            self._away_since = self._clock() if self._away_since is None else self._away_since
            self._is_refused, self._reason = why.is_refusal, why.reason
            words = self.words
        _LOG.warning("%s; trying again", words)

    def look(self) -> None:
        """Find out whether the cluster answers, if somebody wants to know or it did not."""
        with self._lock:
            if (not self._is_asked and self._away_since is None) or self._clock() < self._next_look:
                return
            self._is_asked = False
        began = self._clock()
        try:
            why = self._ask()
        except (OSError, UnsupportedSetting) as problem:
            # A key store that is being replaced, too many open files: whoever meets it says so.
            _LOG.debug("%s is not looked at: %s", self._alias, problem)
            with self._lock:
                if self._away_since is None:
                    self._answered_at = began
            return
        if why is not None:
            self.begin_away(why)
            self._next_look = self._clock() + (_REFUSED_SECONDS if why.is_refusal else _AGAIN_SECONDS)
            return
        with self._lock:
            self._answered_at, since, self._away_since = began, self._away_since, None
            if since is None:
                return
            self._back_at, was_refused, self._is_refused = self._clock(), self._is_refused, False
        message = "lets this engine in" if was_refused else "answers"
        _LOG.info("%s %s again after %.0f s", self._alias, message, self._back_at - since)

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

    def is_under_way(self, alias: str) -> bool:
        """Tell whether ``alias`` is away, as far as is known by now, and not just back."""
        news = self._watched.get(alias)
        return news is not None and news.is_under_way

    def under_way(self, aliases: Iterable[str]) -> dict[str, str]:
        """Return which of some clusters are away, each in the words of the log."""
        return {alias: self._watched[alias].words for alias in aliases if self.is_under_way(alias)}

    def reason(self, alias: str) -> str:
        """Return why ``alias`` is away, as it was reported; empty if nobody has met that."""
        news = self._watched.get(alias)
        return news.reason if news is not None else ""


#: Where nobody watches: every failure speaks for itself.
NO_OUTAGES = Outages()


def news_of(cluster: ClusterSettings) -> ClusterNews:
    """Return what watches a cluster."""

    def ask() -> Away | None:
        try:
            Channel(cluster.alias, cluster.client, bootstrap_ms=_REACH_MS).close()
        except ConnectionFailed as failure:
            return Away(str(failure).removeprefix(f"{cluster.alias}: "), failure.is_refusal)
        return None

    return ClusterNews(cluster.alias, ask)
