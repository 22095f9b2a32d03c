"""Running ticks on time in one thread, until told to stop."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy

from mirror.control.tick import TickReport, shortened
from mirror.engine.cluster_news import NO_OUTAGES, Outages
from mirror.engine.run_log import logger_of
from mirror.model.flow import Flow

# How often to run a tick, in seconds, and the tick.
Timed = tuple[float, Callable[[], TickReport]]

_SHORTEST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 60.0
_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 5.0
# A broker that ends hangs up first, and for a moment still takes new connections.
_ENDING_SECONDS = 1.0
# So often a problem that stays is reported anew: an hour later the first line is far above.
_REMINDER_MS = 300_000


class Ticking:
    """Runs ticks and passes every report on; the log says when a tick's problems or notes change.

    What comes of an outage of a cluster is not said again by each tick that meets it. Several threads may run ticks,
    each its own.
    """

    def __init__(self, keep: Callable[[TickReport], None], flow: Flow, outages: Outages = NO_OUTAGES) -> None:
        """Give each report on ``flow`` to ``keep``, and what is new in it to the flow's log."""
        self._keep = keep
        self._flow = flow
        self._outages = outages
        self._log = logger_of(flow)
        self._logged: dict[str, TickReport] = {}
        # Since when a tick has had problems, and when that was last reported, in ms.
        self._troubled: dict[str, tuple[int, int]] = {}
        # Since when a tick has met a connection that failed.
        self._failing: dict[str, float] = {}

    def keeping(self, keep: Callable[[TickReport], None]) -> Ticking:
        """Return one that gives reports to ``keep`` instead, and goes on where the log has been told by this one."""
        other = copy(self)
        other._keep = keep
        return other

    def once(self, tick: Callable[[], TickReport]) -> bool:
        """Run one tick; return whether it had no problem.

        What ``keep`` raises ends it: of a report that is not taken nothing is said either.
        """
        report = tick()
        self._keep(report)
        if not self._comes_of_outage(report):
            self._log_report(report)
        return report.is_ok

    def _log_report(self, report: TickReport) -> None:
        before, about = self._logged.get(report.name), report.name.removesuffix(f" {self._flow}")
        logged = {*before.problems, *before.notes} if before else set()
        self._remind(report, about, is_new=not logged.issuperset(report.problems))
        for level, texts in ((logging.WARNING, report.problems), (logging.INFO, report.notes)):
            for text in shortened([each for each in texts if each not in logged]):
                self._log.log(level, "%s: %s", about, text)
        if before and not before.is_ok and report.is_ok:
            self._log.info("%s: recovered", about)
        self._logged[report.name] = report

    def _remind(self, report: TickReport, about: str, *, is_new: bool) -> None:
        """Tell again what stays as it was: one line, however many problems there are."""
        since, logged_at = self._troubled.pop(report.name, (report.at_ms, report.at_ms))
        if report.is_ok:
            return
        is_due = report.at_ms - logged_at >= _REMINDER_MS
        self._troubled[report.name] = since, report.at_ms if is_new or is_due else logged_at
        if is_due and not is_new:
            (first,), others = shortened(report.problems[:1]), len(report.problems) - 1
            more = f" (and {others:,} more)" if others else ""
            minutes = (report.at_ms - since) // 60_000
            self._log.warning("%s: for %s min now: %s%s", about, minutes, first, more)

    def _comes_of_outage(self, report: TickReport) -> bool:
        """Tell whether a report's problems are those of a cluster that is away, or may be: they are logged later."""
        if not report.unreached:
            self._failing.pop(report.name, None)
            ends = (self._flow.source, self._flow.target) if report.problems else ()
            return any(self._outages.is_known(alias) for alias in ends)
        since = self._failing.setdefault(report.name, time.monotonic())
        return self._outages.explain(report.unreached, since + _ENDING_SECONDS) is not False

    def until(
        self, stop: threading.Event, ticks: Sequence[Timed], is_outdated: Callable[[], bool] | None = None
    ) -> None:
        """Run each tick at once and then at its interval, until ``stop`` is set. A slow one delays the others.

        One that had a problem is run again soon: a topic that was just created may not be known to its broker yet.
        ``is_outdated`` is asked every few seconds: once it says so, other ticks are to be run, and these end.
        """
        due = [0.0 for _ in ticks]
        longest = _LONGEST_PAUSE_SECONDS if is_outdated is None else _LOOK_SECONDS
        while not (stop.is_set() or (is_outdated is not None and is_outdated())):
            for place, (interval_seconds, tick) in enumerate(ticks):
                if time.monotonic() >= due[place] and not stop.is_set():
                    began = time.monotonic()
                    pause_seconds = interval_seconds if self.once(tick) else min(interval_seconds, _AGAIN_SECONDS)
                    due[place] = began + pause_seconds
            stop.wait(min(max(_SHORTEST_PAUSE_SECONDS, min(due, default=math.inf) - time.monotonic()), longest))
