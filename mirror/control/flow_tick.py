"""Ticks that look at both clusters of a flow; some of them put on record what they have done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar

from mirror.config.settings import FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.state_record import StateRecord, state_topic


@dataclass(eq=False, repr=False)
class FlowTick:
    """A tick of a flow that looks at both of its clusters; ``about`` names it in its reports."""

    about: ClassVar[str]

    source: Cluster
    target: Cluster
    settings: FlowSettings
    _: KW_ONLY
    clock: Clock = now_ms

    def tick(self) -> TickReport:
        """Run one round."""
        return run_tick(f"{self.about} {self.settings.flow}", self.clock, self._round)

    def _round(self, at_ms: int) -> tuple[int, Sequence[str]]:
        """Return how many items were changed, and what went wrong with others."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class RecordingTick(FlowTick):
    """A tick that goes by what the flow has on record, and adds to it; a round may leave notes for its report.

    ``log`` follows the flow's state topic, which ``writer`` writes to.
    """

    log: FlowLog
    writer: LogWriter
    _notes: tuple[str, ...] = field(default=(), init=False)

    def tick(self) -> TickReport:
        """Run one round."""
        self._notes = ()
        return replace(super().tick(), notes=self._notes)

    def _record(self, records: Sequence[StateRecord], at_ms: int) -> None:
        """Put on record what was done, after the fact: what is not, for this process ended here, counts as others'."""
        if records:
            topic = state_topic(self.settings.flow.source)
            self.writer.append(topic, 0, [(key, value, (), at_ms) for key, value in records])
