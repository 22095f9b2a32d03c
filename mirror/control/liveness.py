"""Whether the engine of a flow still runs: by whether its claim is renewed where two machines' clocks may differ.

Invariants:

(a) An engine is not silent because the clock of its machine is behind, or because the reading took long; and it does
    not run because its clock is ahead. What reports say of the time is believed only where it fits this machine's
    clock; else the claim is watched for as long as an engine that stands by would wait before it takes over (ADR 8).
(b) Nobody waits for an engine that stood by and is dead because its clock was ahead: by this machine's it would be
    standing by for as long as that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mirror.clock import steady_seconds
from mirror.control.tick import now_ms
from mirror.kafka.problems import KafkaProblem
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Silence
from mirror.model.state_values import RunReport, Standby
from mirror.waiting import wait_until

# An engine reports every two seconds; one that has been silent for so long is not running.
SILENT_AFTER_MS = 15_000
# How far clocks that are kept in step may be apart.
_IN_STEP_MS = 2_000
# Engines whose files say less than that are watched for as long.
_LEAST_WATCH_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether the engine that a flow's state is of still runs, in words for people.

    Attributes
    ----------
    silence
        for how long nothing was heard of it, None if it runs, has stopped in order, or there never was one.
    skew
        how far the clock of its machine is off this one's, None if it is not.
    """

    silence: str | None = None
    skew: str | None = None


def is_engine_running(run: RunReport | None, liveness: Liveness) -> bool:
    """Tell whether an engine runs a flow, by its last report."""
    return run is not None and run.state != "STOPPED" and liveness.silence is None


class LivenessWatch:
    """Looks again and again at the state of one flow; not for several threads at once."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self._silence = Silence()
        # By this machine's steady clock: the last look, and since when at least the claim was renewed.
        self._looked_at: float | None = None
        self._renewed_at: float | None = None

    def look(self, poll: Callable[[], FlowState]) -> tuple[FlowState, Liveness]:
        """Return the state by now and whether the engine runs; polls for seconds where the clocks do not tell.

        Raises
        ------
        KafkaProblem
            that of ``poll``.
        """
        known: list[FlowState] = []

        def look() -> Liveness | None:
            state, found = self.glance(poll)
            known[:] = [state]
            return found

        # It ends by the steady clock, however long a poll takes.
        found = wait_until(
            look, "a renewal of the engine's claim", timeout_seconds=math.inf, until=lambda each: each is not None
        )
        assert found is not None
        return known[0], found

    def glance(self, poll: Callable[[], FlowState]) -> tuple[FlowState, Liveness | None]:
        """Return the state by now and whether the engine runs, None where that takes longer; a look goes on from here.

        Raises
        ------
        KafkaProblem
            that of ``poll``.
        """
        asked_ms, asked_at = now_ms(), steady_seconds()
        try:
            state = poll()
        except KafkaProblem:
            self._silence.unreadable()
            self._looked_at = self._renewed_at = None
            raise
        return state, self._judge(state, asked_ms, asked_at)

    def _judge(self, state: FlowState, asked_ms: int, asked_at: float) -> Liveness | None:
        """Return whether the engine runs, None if that is not known yet."""
        run, claim = state.run, state.claim
        if run is None or run.state == "STOPPED":
            return Liveness()
        # What was written before it was asked was read, and some of what came while it was read.
        age_ms, ahead_ms = asked_ms - run.at_ms, run.at_ms - now_ms()
        is_in_step = age_ms <= SILENT_AFTER_MS and ahead_ms <= _IN_STEP_MS
        # Claims without a term are not renewed.
        if claim is None or claim.term == 0:
            return Liveness() if is_in_step else Liveness(_silence(age_ms, None))
        read_at = steady_seconds()
        before = self._silence.seen
        silent_seconds = self._silence.look(claim, asked_at, read_at)
        if before not in (None, self._silence.seen):
            # Between two looks it may have been right behind the first.
            self._renewed_at = self._looked_at
        self._looked_at = read_at
        is_renewed = self._renewed_at is not None and 1000 * (asked_at - self._renewed_at) <= SILENT_AFTER_MS
        if is_renewed or (is_in_step and 1000 * silent_seconds <= SILENT_AFTER_MS):
            return Liveness(skew=None if is_in_step else _skew(claim.host, age_ms, ahead_ms))
        if silent_seconds > min(max(claim.timeout_seconds, _LEAST_WATCH_SECONDS), SILENT_AFTER_MS / 1000):
            return Liveness(_silence(age_ms, silent_seconds))
        return None


class StandbyWatch:
    """Tells look by look which engines stand by; not for several threads at once."""

    def __init__(self) -> None:
        """Have seen nothing."""
        # Of each engine what it last reported, until when that is believed, and when it was seen last, by this
        # machine's steady clock.
        self._seen: dict[str, tuple[int, float, float]] = {}

    def standing_by(self, standbys: Iterable[Standby]) -> tuple[Standby, ...]:
        """Return those that stand by still: who reports anew, or has reported lately if the clocks are in step."""
        return tuple(each for each in standbys if self._is_believed(each))

    def _is_believed(self, standby: Standby) -> bool:
        now = steady_seconds()
        at_ms, until, looked_at = self._seen.get(standby.engine, (None, -math.inf, -math.inf))
        if at_ms != standby.at_ms:
            # Between two looks it may have been right behind the first.
            until, age_ms = looked_at + SILENT_AFTER_MS / 1000, now_ms() - standby.at_ms
            if age_ms >= -_IN_STEP_MS:
                until = max(until, now + (SILENT_AFTER_MS - age_ms) / 1000)
        self._seen[standby.engine] = standby.at_ms, until, now
        return now <= until


def ahead_words(standbys: Iterable[Standby]) -> tuple[str, ...]:
    """Say of which engines nothing tells yet whether they stand by, since their clocks are ahead of this one's."""
    now = now_ms()
    return tuple(
        f"an engine on {each.host} (process {each.pid}) stood by; its clock is {(each.at_ms - now) / 1000:.0f} s ahead "
        "of this one's, so whether it still does is seen when it reports again"
        for each in standbys
        if each.at_ms - now > _IN_STEP_MS
    )


def _silence(age_ms: int, silent_seconds: float | None) -> str:
    if age_ms > 0:
        return f"the engine last reported {age_ms / 1000:.0f} s ago"
    watched = f", and it has not reported for {silent_seconds:.0f} s" if silent_seconds is not None else ""
    return (
        f"the last report of the engine is dated {-age_ms / 1000:.0f} s ahead of this machine's clock{watched}: the "
        "clocks differ"
    )


def _skew(host: str, age_ms: int, ahead_ms: int) -> str:
    off = f"{ahead_ms / 1000:.0f} s ahead of" if ahead_ms > 0 else f"about {age_ms / 1000:.0f} s behind"
    where = f" on {host}" if host else ""
    return f"the clock of the engine's machine{where} is {off} this one's: times that it reports are off by that"
