"""Putting on record, on the target, where the brokers of the source are: to be asked when it seems to be gone."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.control.flow_log import FlowLog
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.flow import Flow
from mirror.model.state_record import stamped, state_topic
from mirror.model.state_values import source_record


@dataclass(frozen=True, slots=True)
class SourceBrokersTick:
    """Keeps the record of the source's brokers as the source tells them.

    Append with ``writer``; ``log`` is read as it was last polled.
    """

    flow: Flow
    log: FlowLog
    source: Cluster
    writer: LogWriter
    clock: Clock = now_ms

    def tick(self) -> TickReport:
        """Run one round."""
        return run_tick(f"source brokers {self.flow}", self.clock, self._round)

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        state = self.log.state
        if state.source_id != self.source.cluster_id:
            # Whose records these are is put on record first, by who begins to copy.
            return 0, ()
        brokers = self.source.broker_addresses()
        if not brokers or brokers == state.source_brokers:
            return 0, ()
        record = source_record(state.source_id, brokers, state.former_sources)
        self.writer.append(state_topic(self.flow.source), 0, stamped([record], None, at_ms))
        return 1, ()
