"""What a run of the procedure has done, by its own journal: for those who judge it, and for what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirror.evidence.facts import Facts, Json
from mirror.evidence.failover_journal import instants_of
from mirror.evidence.journal import Entry, Event, Journal
from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.proof.group_move import GroupMove
from mirror.recovery.step_facts import positions_in, rows_in


@dataclass(frozen=True, slots=True)
class _Translated:
    """A position that was translated, as the entry tells it."""

    group: str
    topic: str
    partition: int
    upstream: int


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """A run along a flow; ``entries`` are those of its journal."""

    flow: Flow
    entries: Sequence[Entry]

    @classmethod
    def of(cls, directory: Path, flow: Flow) -> JournalFacts:
        """Read the journal of a run; one that has not begun has no entries."""
        journal = Journal(directory / "journal.jsonl")
        return cls(flow, journal.read().entries if journal.path.exists() else ())

    @property
    def applications_moved_at_ms(self) -> int | None:
        """When their start on the flow's target began, from which on nothing is taken back; None: not yet."""
        entry = self._newest(Event.POINT_OF_NO_RETURN)
        return None if entry is None else entry.at_ms

    @property
    def cut_positions(self) -> Mapping[TopicPartition, int]:
        """How far each partition was copied when the flow was cut."""
        entry = self._newest(Event.CUT)
        return {} if entry is None else positions_in(entry.facts)

    @property
    def group_rows(self) -> Sequence[Mapping[str, Json]]:
        """A row for each position of a group on the target, as ``mirror failover --json`` shows it."""
        entry = self._newest(Event.OFFSETS_APPLIED)
        return [] if entry is None else rows_in(entry.facts)

    def has(self, event: Event) -> bool:
        """Tell whether something has happened."""
        return self._newest(event) is not None

    def instants(self, fault_at_ms: int, groups: Sequence[str]) -> FailoverInstants:
        """Return when everything happened; ``groups`` are those that are to read on the target."""
        return instants_of(self.entries, fault_at_ms, groups)

    def group_moves(self, known_by_ms: int | None = None) -> list[GroupMove]:
        """Return where groups went on.

        Parameters
        ----------
        known_by_ms
            as `GroupMove` has it; None: nobody read meanwhile and the source was asked, so that all was known by then.
        """
        applied = self._newest(Event.OFFSETS_APPLIED)
        if applied is None:
            return []
        upstream: dict[str, dict[TopicPartition, int]] = {}
        translated = Facts(applied.facts, str(Event.OFFSETS_APPLIED)).get("translated", tuple[_Translated, ...])
        for each in translated or ():
            upstream.setdefault(each.group, {})[TopicPartition(each.topic, each.partition)] = each.upstream
        known = applied.at_ms if known_by_ms is None else known_by_ms
        return [GroupMove(group, self.flow.source, self.flow.target, found, known) for group, found in upstream.items()]

    def _newest(self, event: Event) -> Entry | None:
        return next((each for each in reversed(self.entries) if each.event is event), None)
