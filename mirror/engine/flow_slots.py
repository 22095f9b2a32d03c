"""As whom the tasks of a flow write in transactions: a transactional id each, kept from one epoch to the next.

Invariants:

(a) Tasks never take a transactional id over themselves. Only the driver does, and it reads the flow's claim and
    positions afterwards: an engine thawed between epochs would otherwise fence its successor and go on from old
    positions.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from mirror.config.settings import TransactionSettings
from mirror.copier.work import MOST_SLOT_PATIENCE_SECONDS, SLOT_PATIENCE_SECONDS, Slot, SlotEnd
from mirror.kafka.batch import Producer
from mirror.model.partition import TopicPartition


@dataclass(slots=True)
class FlowSlots:
    """The slots of a flow's tasks, by the number of the task; of a flow's runtime, and changed under its lock."""

    #: Empty without transactions.
    known: tuple[Slot, ...] = ()
    #: The transactional ids that no task writes with any more since the last epoch, and as whom they were written.
    given_up: dict[str, Producer] = field(default_factory=dict)
    # How long the slots of tasks wait that were lost the last time.
    _patience_seconds: dict[int, float] = field(default_factory=dict)

    def begin(self, producers: Iterable[tuple[str, Producer]], settings: TransactionSettings) -> None:
        """Begin with producers that were just taken over, of which none has written anything."""
        self.known = tuple(
            Slot(
                transactional_id,
                producer,
                {},
                settings.seconds,
                settings.idle_seconds,
                self._patience_seconds.get(number, SLOT_PATIENCE_SECONDS),
            )
            for number, (transactional_id, producer) in enumerate(producers)
        )

    def of(self, number: int, addresses: Container[TopicPartition], side_topics: Container[str]) -> Slot | None:
        """Return as whom task ``number`` writes to some partitions, and to any of the side topics; None: as anybody."""
        if not self.known:
            return None
        slot = self.known[number]
        sequences = {
            partition: sequence
            for partition, sequence in slot.sequences.items()
            if partition in addresses or partition.topic in side_topics
        }
        return replace(slot, sequences=sequences)

    def take(self, number: int, end: SlotEnd) -> bool:
        """Take in how a task left its slot; return whether it is kept, else it must be taken over anew."""
        slots = list(self.known)
        if end.lost is None or end.is_stuck:
            self.given_up[slots[number].transactional_id] = slots[number].producer
        if end.lost is not None:
            longer = 2 * slots[number].patience_seconds
            self._patience_seconds[number] = min(longer, MOST_SLOT_PATIENCE_SECONDS)
            return False
        self._patience_seconds.pop(number, None)
        slots[number] = replace(slots[number], sequences={**slots[number].sequences, **end.sequences})
        self.known = tuple(slots)
        return True
