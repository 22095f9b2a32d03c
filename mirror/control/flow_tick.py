"""Ticks that look at both clusters of a flow; some of them put on record what they have done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.state_record import StateRecord, state_topic


class FlowTick:
    """A tick of a flow that looks at both of its clusters; ``about`` names it in its reports."""

    about: ClassVar[str]

    def __init__(self, source: Cluster, target: Cluster, settings: FlowSettings, clock: Clock = now_ms) -> None:
        """Work between two clusters."""
        self._source = source
        self._target = target
        self._settings = settings
        self._clock = clock

    def tick(self) -> TickReport:
        """Run one round."""
        return run_tick(f"{self.about} {self._settings.flow}", self._clock, self._round)

    def _round(self, at_ms: int) -> tuple[int, Sequence[str]]:
        """Return how many items were changed, and what went wrong with others."""
        raise NotImplementedError


class RecordingTick(FlowTick):
    """A tick that goes by what the flow has on record, and adds to it; a round may leave notes for its report."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        settings: FlowSettings,
        log: FlowLog,
        writer: LogWriter,
        clock: Clock = now_ms,
    ) -> None:
        """Work between two clusters; ``log`` follows the flow's state topic, which ``writer`` writes to."""
        super().__init__(source, target, settings, clock)
        self._log = log
        self._writer = writer
        self._notes: tuple[str, ...] = ()

    def tick(self) -> TickReport:
        """Run one round."""
        self._notes = ()
        return replace(super().tick(), notes=self._notes)

    def _record(self, records: Sequence[StateRecord], at_ms: int) -> None:
        """Put on record what was done, after the fact: what is not, for this process ended here, counts as others'."""
        if records:
            topic = state_topic(self._settings.flow.source)
            self._writer.append(topic, 0, [(key, value, (), at_ms) for key, value in records])
