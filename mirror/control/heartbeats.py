"""Heartbeats: a record a second that shows, wherever it is mirrored to, that the way there works."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.config.settings import FlowSettings
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.log import LogWriter
from mirror.model.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class HeartbeatsTick:
    """Writes the heartbeat of a flow to the heartbeats topic on its target (HB-01, HB-04).

    Also for a flow that replicates nothing: its target's heartbeats are what other flows mirror on (HB-02, HB-03).
    """

    settings: FlowSettings
    target: LogWriter
    clock: Clock = now_ms

    def tick(self) -> TickReport:
        """Write one heartbeat, stamped with the time."""
        return run_tick(f"heartbeats {self.settings.flow}", self.clock, self._round)

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        flow = self.settings.flow
        beat = Heartbeat(flow.source, flow.target, at_ms)
        self.target.append(self.settings.heartbeats_topic, 0, [(beat.key_bytes(), beat.value_bytes(), (), at_ms)])
        return 1, ()
