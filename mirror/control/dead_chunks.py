"""What of the offset maps is dead: runs whose copies the target has removed by itself, by retention or on demand.

Invariants:

(a) Only the lane forgets chunks of the map, and only of the incarnation in which they were found dead: a chunk of that
    number may have been written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mirror.control.flow_log import FlowLog
from mirror.control.tick import Clock, TickReport, now_ms, run_tick
from mirror.kafka.cluster import Cluster
from mirror.model.flow import Flow
from mirror.model.flow_state import DeadChunks
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class DeadChunksTick:
    """Looks for chunks of the offset maps that may be forgotten, so that maps grow no longer than the logs.

    Give what is found to ``take``; ``log`` is read as it was last polled.
    """

    flow: Flow
    log: FlowLog
    target: Cluster
    take: Callable[[Mapping[TopicPartition, DeadChunks]], None]
    clock: Clock = now_ms

    def tick(self) -> TickReport:
        """Run one round; partitions whose log cannot be asked for its start keep their maps."""
        return run_tick(f"offset maps {self.flow}", self.clock, self._round)

    def _round(self, _: int) -> tuple[int, tuple[str, ...]]:
        state = self.log.state
        copies = {
            source: TopicPartition(position.target, source.partition)
            for source, position in state.positions.items()
            # The first chunk is dead only when there is a second.
            if position.target and position.chunk > 0
        }
        starts = self.target.offsets(set(copies.values()), "earliest") if copies else {}
        dead = {
            source: found
            for source, copy in copies.items()
            if copy in starts and (found := state.dead_chunks(source, starts[copy])) is not None
        }
        self.take(dead)
        return sum(len(each.chunks) for each in dead.values()), ()
