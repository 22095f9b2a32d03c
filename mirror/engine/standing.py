"""What the engine knows of a flow between epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mirror.config.settings import FlowSettings
from mirror.control.gaps import open_gaps_reason
from mirror.control.tick import TickReport
from mirror.copier.work import GapPolicy, Handover, PartitionResult
from mirror.model.flow_state import FlowState, Gap
from mirror.model.partition import TopicPartition


@dataclass(slots=True)
class FlowStanding:
    """What the engine knows of a flow between epochs; shared by the copy loop and the flow's control thread.

    ``changed`` is called when there is something else to copy than the running epoch was told.
    """

    settings: FlowSettings
    changed: Callable[[], None] = lambda: None
    partitions: tuple[tuple[TopicPartition, TopicPartition, str, str], ...] = ()
    handovers: dict[TopicPartition, Handover] = field(default_factory=dict)
    mm2_positions: dict[TopicPartition, int] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    stopped: dict[TopicPartition, str] = field(default_factory=dict)
    troubles: dict[TopicPartition, str] = field(default_factory=dict)
    copy_trouble: str | None = None
    reports: dict[str, TickReport] = field(default_factory=dict)
    open_gaps: tuple[Gap, ...] = ()
    # The gaps at which partitions have stopped, and whether they are acknowledged.
    barriers: dict[TopicPartition, tuple[Gap, bool]] = field(default_factory=dict)
    is_known: bool = False

    def take_state(self, state: FlowState, mm2_positions: dict[TopicPartition, int]) -> None:
        """Begin from what the target has on record; where the copy stands exactly is then found by matching the tail.

        ``mm2_positions`` are those of partitions that Java MM2 copied further; there its position counts.
        """
        self.writers |= state.writers
        self.take_gaps(state)
        self.mm2_positions = mm2_positions
        self.handovers = {
            source: Handover(position, state.open_runs(source), clean=False)
            for source, position in state.positions.items()
            if source not in mm2_positions
        }
        self.is_known = True
        self.changed()

    def take_partitions(self, partitions: tuple[tuple[TopicPartition, TopicPartition, str, str], ...]) -> None:
        """Copy these from now on: of each the source, the target and the ids of both topics."""
        if partitions != self.partitions:
            self.partitions = partitions
            self.changed()

    def take_gaps(self, state: FlowState) -> None:
        """Take in the gap ledger; a partition whose gap has been acknowledged goes on."""
        self.open_gaps = tuple(state.open_gaps)
        self.barriers = {source: (gap, gap.key in state.acknowledgements) for source, gap in state.barriers.items()}
        for source, (_, is_lifted) in self.barriers.items():
            if is_lifted and self.stopped.pop(source, None) is not None:
                self.changed()

    def gap_policy(self, source: TopicPartition) -> GapPolicy:
        """Return what a gap does to a partition."""
        barrier, is_lifted = self.barriers.get(source, (None, False))
        return GapPolicy(self.settings.stops_at_gaps, barrier, is_lifted)

    def keep(self, report: TickReport) -> None:
        """Keep the last report of each tick."""
        self.reports[report.name] = report

    def take_result(self, result: PartitionResult) -> None:
        """Take in what became of one partition in an epoch."""
        if result.handover is not None:
            self.handovers[result.source] = result.handover
        if not result.stopped and not result.trouble:
            # It has gone on: whatever it had stopped at lies behind it, as the ledger says by now.
            self.barriers.pop(result.source, None)
        for reasons, reason in ((self.stopped, result.stopped), (self.troubles, result.trouble)):
            if reason:
                reasons[result.source] = reason
            else:
                reasons.pop(result.source, None)

    def reasons(self) -> tuple[str, ...]:
        """Return everything that is wrong with the flow now, in words for people."""
        said: list[str] = [self.copy_trouble] if self.copy_trouble else []
        said += [f"{source} is stopped: {reason}" for source, reason in sorted(self.stopped.items())]
        said += [f"{source}: {reason}" for source, reason in sorted(self.troubles.items())]
        said += [f"{report.name}: {problem}" for report in self.reports.values() for problem in report.problems]
        if self.open_gaps:
            said.append(open_gaps_reason(self.open_gaps))
        return tuple(dict.fromkeys(said))
