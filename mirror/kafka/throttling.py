"""How quotas of a broker hold back what is sent to it for one purpose, over one connection after the other."""

from __future__ import annotations

# A broker reads nothing from a connection for as long as it has announced, which may be hours, also if the quota was
# lifted a second later. Over another connection it takes one request, and says how things are by then.
_LONGEST_SILENCE_SECONDS = 60.0


class Throttling:
    """What the answers for one purpose have said of quotas (KIP-219); times are monotonic seconds."""

    def __init__(self) -> None:
        """Nothing was throttled so far."""
        #: Whether the last answer asked for silence.
        self.is_throttled = False
        self._seconds = self._since = self._until = 0.0

    def answered(self, now: float, throttle_ms: int) -> None:
        """Take in for how long an answer asks for silence, from now on."""
        self._seconds = self.silent_seconds(now)
        self.is_throttled = throttle_ms > 0
        self._since, self._until = now, now + throttle_ms / 1000

    def silent_seconds(self, now: float) -> float:
        """Return how much of the time until now was spent in silence."""
        return self._seconds + max(0.0, min(now, self._until) - self._since)

    def is_to_be_tried_anew(self, now: float) -> bool:
        """Whether silence has been kept for so long that another connection should ask whether it is still wanted."""
        return self._since + _LONGEST_SILENCE_SECONDS <= now < self._until

    def begin_anew(self, now: float) -> None:
        """End the silence: there is another connection, which is asked for none yet."""
        self._seconds = self.silent_seconds(now)
        self._since = self._until = now
