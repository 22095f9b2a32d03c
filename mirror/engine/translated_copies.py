"""Copies that cannot have the source's offsets, and are translated as usual instead, where the file says so."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirror.config.settings import FlowSettings
from mirror.control.selected_topics import offsets_given_up
from mirror.copier.work import PartitionResult
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition

_BEFORE = "it was begun with offsets of its own"


@dataclass(slots=True)
class TranslatedCopies:
    """Which they are, by the partition of the source, and why.

    Once translated, always translated: what the copy holds has offsets of its own. To have it made anew with those of
    the source, let refused partitions stop, and delete the copy.
    """

    reasons: dict[TopicPartition, str] = field(default_factory=dict)
    #: Which had the offsets of the source before this engine, in words for people.
    given_up: tuple[str, ...] = ()

    def begin(self, settings: FlowSettings, state: FlowState) -> None:
        """Begin from what the target has on record."""
        self.reasons = {
            source: _BEFORE
            for source, position in state.positions.items()
            if not position.same_offsets and settings.translates_refused(source.topic)
        }
        self.given_up = offsets_given_up(settings, state.positions)

    def takes(self, settings: FlowSettings, result: PartitionResult) -> bool:
        """Take in what became of a partition; return whether it is to be translated from now on."""
        if result.cannot_have_offsets and settings.translates_refused(result.source.topic):
            self.reasons[result.source] = result.stopped or ""
            return True
        return False

    def pad_limit(self, settings: FlowSettings, source: TopicPartition) -> int | None:
        """Return how many offsets may be filled in the copy of a partition; None: it has offsets of its own."""
        return None if source in self.reasons else settings.pad_limit(source.topic)
