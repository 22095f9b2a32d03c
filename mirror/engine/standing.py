"""What the engine knows of a flow between epochs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from mirror.config.settings import FlowSettings
from mirror.control.tick import TickReport
from mirror.copier.work import Handover, PartitionResult, Throttled
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition


@dataclass(slots=True)
class FlowStanding:
    """What the engine knows of a flow between epochs; shared by the copy loop and the flow's control thread.

    ``changed`` is called when there is something else to copy than the running epoch was told.
    """

    settings: FlowSettings
    changed: Callable[[], None] = lambda: None
    partitions: tuple[tuple[TopicPartition, TopicPartition, str], ...] = ()
    handovers: dict[TopicPartition, Handover] = field(default_factory=dict)
    mm2_positions: dict[TopicPartition, int] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    stopped: dict[TopicPartition, str] = field(default_factory=dict)
    troubles: dict[TopicPartition, str] = field(default_factory=dict)
    copy_trouble: str | None = None
    throttles: tuple[str, ...] = ()
    reports: dict[str, TickReport] = field(default_factory=dict)
    gaps: int = 0
    is_known: bool = False

    def take_state(self, state: FlowState, mm2_positions: dict[TopicPartition, int]) -> None:
        """Begin from what the target has on record; where the copy stands exactly is then found by matching the tail.

        ``mm2_positions`` are those of partitions that Java MM2 copied further; there its position counts.
        """
        self.writers |= state.writers
        self.mm2_positions = mm2_positions
        self.handovers = {
            source: Handover(position, state.open_runs(source), clean=False)
            for source, position in state.positions.items()
            if source not in mm2_positions
        }
        self.is_known = True
        self.changed()

    def take_partitions(self, partitions: tuple[tuple[TopicPartition, TopicPartition, str], ...]) -> None:
        """Copy these from now on: of each the source, the target and the id of the source topic."""
        if partitions != self.partitions:
            self.partitions = partitions
            self.changed()

    def keep(self, report: TickReport) -> None:
        """Keep the last report of each tick."""
        self.reports[report.name] = report

    def take_result(self, result: PartitionResult) -> None:
        """Take in what became of one partition in an epoch."""
        if result.handover is not None:
            self.handovers[result.source] = result.handover
        for reasons, reason in ((self.stopped, result.stopped), (self.troubles, result.trouble)):
            if reason:
                reasons[result.source] = reason
            else:
                reasons.pop(result.source, None)

    def take_throttled(self, throttled: Collection[Throttled], seconds: float) -> None:
        """Take in for how long each task was throttled in an epoch of so many seconds."""
        flow = self.settings.flow
        longest = (
            (flow.source, max((each.source_ms for each in throttled), default=0)),
            (flow.target, max((each.target_ms for each in throttled), default=0)),
        )
        self.throttles = tuple(
            f"throttled by {alias} for {ms} ms of the last {seconds:.1f} s: a quota of that cluster holds the copy back"
            for alias, ms in longest
            if ms
        )

    def reasons(self) -> tuple[str, ...]:
        """Return everything that is wrong with the flow now, in words for people."""
        said: list[str] = [self.copy_trouble] if self.copy_trouble else []
        said += self.throttles
        said += [f"{source} is stopped: {reason}" for source, reason in sorted(self.stopped.items())]
        said += [f"{source}: {reason}" for source, reason in sorted(self.troubles.items())]
        said += [f"{report.name}: {problem}" for report in self.reports.values() for problem in report.problems]
        if self.gaps:
            said.append(f"{self.gaps} gap(s) in the copy")
        return tuple(dict.fromkeys(said))
