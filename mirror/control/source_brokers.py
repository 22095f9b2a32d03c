"""Putting on record, on the target, where the brokers of the source are: to be asked when it seems to be gone."""

from __future__ import annotations

from mirror.control.flow_log import FlowLog
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.flow import Flow
from mirror.model.state_record import stamped, state_topic
from mirror.model.state_values import source_record


class SourceBrokersTick:
    """Keeps the record of the source's brokers as the source tells them."""

    def __init__(self, flow: Flow, log: FlowLog, source: Cluster, writer: LogWriter, clock: Clock = now_ms) -> None:
        """Append with ``writer``; ``log`` is read as it was last polled."""
        self._flow = flow
        self._log = log
        self._source = source
        self._writer = writer
        self._clock = clock

    def tick(self) -> TickReport:
        """Run one round."""
        return run_tick(f"source brokers {self._flow}", self._clock, self._round)

    def _round(self, at_ms: int) -> tuple[int, tuple[str, ...]]:
        state = self._log.state
        if state.source_id != self._source.cluster_id:
            # Whose records these are is put on record first, by who begins to copy.
            return 0, ()
        brokers = self._source.broker_addresses()
        if not brokers or brokers == state.source_brokers:
            return 0, ()
        record = source_record(state.source_id, brokers, state.former_sources)
        self._writer.append(state_topic(self._flow.source), 0, stamped([record], None, at_ms))
        return 1, ()
