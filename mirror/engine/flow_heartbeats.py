"""The thread of a flow's heartbeats, which a source that does not answer must not silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from mirror.config.settings import FlowSettings
from mirror.control.heartbeats import HeartbeatsTick
from mirror.control.tick import TickReport, now_ms
from mirror.engine.ticking import Ticking
from mirror.kafka.log import LogWriter

_RETRY_SECONDS = 0.5
_TOPICS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FlowHeartbeats:
    """Writes a flow's heartbeats to its target while this engine leads it, by the settings of that time."""

    settings: Callable[[], FlowSettings]
    leads: Callable[[], bool]
    ticking: Ticking

    def run(self, has_topics: threading.Event, stop: threading.Event) -> None:
        """Beat until ``stop`` is set; begins once the flow ``has_topics``, or some seconds later."""
        settings = self.settings()
        if not settings.emit_heartbeats:
            return
        # A first start creates the topic. A source that does not answer keeps the other thread from it, not this one.
        until = time.monotonic() + _TOPICS_SECONDS
        while not has_topics.wait(_RETRY_SECONDS) and time.monotonic() < until:
            if stop.is_set():
                return
        with closing(LogWriter(settings.target_producer, alias=settings.flow.target)) as target:
            tick = HeartbeatsTick(settings, target).tick

            def beat() -> TickReport:
                return tick() if self.leads() else TickReport(f"heartbeats {settings.flow}", now_ms(), 0)

            while not stop.is_set():
                now = self.settings()
                seconds = now.emit_heartbeats_interval_seconds
                # A negative interval means never (CFG-060), until the file says another.
                timed = [(seconds, beat)] if seconds >= 0 else []
                self.ticking.until(stop, timed, partial(self._are_different, now))

    def _are_different(self, than: FlowSettings) -> bool:
        return self.settings() is not than
