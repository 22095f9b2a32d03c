"""For how long an engine may write as the leader of a flow, whatever its threads are doing."""

from __future__ import annotations

import math
import threading

from mirror.clock import steady_seconds
from mirror.control.tick import NotLeading

# Of the time without a renewal after which others may lead. The rest is for what was sent in the last moment to arrive.
LEASE_SHARE = 2 / 3
_OVER = "nothing was written: another engine may lead the flow by now"


class Lease:
    """An engine's right to write in one term: it runs out by itself unless the claim is renewed in time.

    Renewed by the thread that takes part in the election; whoever writes asks for it right before. A process that was
    stopped finds that it is over, before anything else was said to it. Once ended it is never had again: the next term
    has another.
    """

    def __init__(self, seconds: float = math.inf, *, former_seconds: float | None = None) -> None:
        """Have the right for ``seconds`` after each renewal, at first not at all; without a limit always.

        ``former_seconds``: for how long the leader before has had it; None: for as long.
        """
        self._seconds = seconds
        former_seconds = seconds if former_seconds is None else former_seconds
        self._alone_at = -math.inf if seconds == math.inf else steady_seconds() + former_seconds
        self._until = math.inf if seconds == math.inf else -math.inf
        self._is_ended = False
        self._changed = threading.Condition()

    def renew(self, sent_at: float) -> None:
        """Have the right anew: a renewal was sent at ``sent_at`` of :func:`steady_seconds`, and counts."""
        with self._changed:
            if not self._is_ended:
                self._until = max(self._until, sent_at + self._seconds)
            self._changed.notify_all()

    def end(self) -> None:
        """Have the right no more."""
        with self._changed:
            self._is_ended, self._until = True, -math.inf
            self._changed.notify_all()

    @property
    def left(self) -> float:
        """For how many seconds the right lasts from now on; none or fewer than none when it is over."""
        return self._until - steady_seconds()

    def is_alone(self, grace_seconds: float = 0.0) -> bool:
        """Whether the right of the leader before ended ``grace_seconds`` ago at least.

        Nobody has renewed it since this one began.
        """
        return steady_seconds() >= self._alone_at + grace_seconds

    def require(self) -> None:
        """Return if something may be written now; a renewal that is late is waited for.

        Raises
        ------
        NotLeading
            if this engine does not lead, or cannot know that it does.
        """
        with self._changed:
            seconds = min(self._seconds, threading.TIMEOUT_MAX)
            self._changed.wait_for(lambda: self._is_ended or self.left > 0, timeout=seconds)
            if self._is_ended or self.left <= 0:
                raise NotLeading(_OVER)

    def require_now(self) -> None:
        """Return if something may be written now, as :meth:`require`, but wait for nothing.

        For who asks in a thread that has requests to send meanwhile: they would go out after the wait.

        Raises
        ------
        NotLeading
            if this engine does not lead, or cannot know that it does.
        """
        if self.left <= 0:
            raise NotLeading(_OVER)

    def require_term(self) -> None:
        """Return if the term is not over, as far as this engine knows by now, whether or not anything may be written.

        Raises
        ------
        NotLeading
            if it is over.
        """
        if self._is_ended:
            raise NotLeading(_OVER)
