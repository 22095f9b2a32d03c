"""What the engine knows of a flow between epochs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from mirror.config.settings import FlowSettings
from mirror.control.tick import TickReport
from mirror.copier.work import Handover, PartitionResult, Slot, SlotEnd
from mirror.kafka.batch import Producer
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition


@dataclass(slots=True)
class FlowStanding:
    """What the engine knows of a flow between epochs; shared by the copy loop and the flow's control thread."""

    settings: FlowSettings
    partitions: tuple[tuple[TopicPartition, TopicPartition, str], ...] = ()
    handovers: dict[TopicPartition, Handover] = field(default_factory=dict)
    mm2_positions: dict[TopicPartition, int] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    stopped: dict[TopicPartition, str] = field(default_factory=dict)
    troubles: dict[TopicPartition, str] = field(default_factory=dict)
    copy_trouble: str | None = None
    reports: dict[str, TickReport] = field(default_factory=dict)
    gaps: int = 0
    slots: tuple[Slot, ...] = ()
    superseded: str | None = None
    is_known: bool = False

    def take_state(
        self, state: FlowState, mm2_positions: dict[TopicPartition, int], producers: Sequence[tuple[str, Producer]] = ()
    ) -> None:
        """Begin from what the target has on record; where the copy stands exactly is then found by matching the tail.

        ``mm2_positions`` are those of partitions that Java MM2 copied further; there its position counts.
        ``producers`` are those that write in transactions, each with its transactional id, one a task.
        """
        if (transactions := self.settings.transactions) is not None:
            self.slots = tuple(
                Slot(transactional_id, producer, {}, transactions.seconds, transactions.idle_seconds)
                for transactional_id, producer in producers
            )
        self.writers |= {producer.producer_id for _, producer in producers}
        self.writers |= state.writers
        self.mm2_positions = mm2_positions
        self.handovers = {
            source: Handover(position, state.open_runs(source), clean=False)
            for source, position in state.positions.items()
            if source not in mm2_positions
        }
        self.is_known = True

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

    def slot(self, number: int, addresses: Container[TopicPartition], side_topics: Container[str]) -> Slot | None:
        """Return as whom task ``number`` writes to some partitions, and to any of the side topics; None: as anybody."""
        if not self.slots:
            return None
        slot = self.slots[number]
        sequences = {
            partition: sequence
            for partition, sequence in slot.sequences.items()
            if partition in addresses or partition.topic in side_topics
        }
        return replace(slot, sequences=sequences)

    def take_slot(self, number: int, end: SlotEnd) -> None:
        """Take in how a task left its slot; one that is lost must be taken over anew, and positions be read again."""
        if end.lost is not None:
            self.is_known = False
            return
        slots = list(self.slots)
        slots[number] = replace(slots[number], sequences={**slots[number].sequences, **end.sequences})
        self.slots = tuple(slots)

    def reasons(self) -> tuple[str, ...]:
        """Return everything that is wrong with the flow now, in words for people."""
        said: list[str] = [self.copy_trouble] if self.copy_trouble else []
        said += [f"{source} is stopped: {reason}" for source, reason in sorted(self.stopped.items())]
        said += [f"{source}: {reason}" for source, reason in sorted(self.troubles.items())]
        said += [f"{report.name}: {problem}" for report in self.reports.values() for problem in report.problems]
        if self.gaps:
            said.append(f"{self.gaps} gap(s) in the copy")
        return tuple(dict.fromkeys(said))
