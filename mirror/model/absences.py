"""What a copy lacks and the flow says so: records parked, or left out, with their places, acknowledged or not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mirror.model.flow_state import FlowState
from mirror.model.gap import GapKind
from mirror.model.partition import TopicPartition


class AbsenceKind(StrEnum):
    """Why records are not in the copy."""

    PARKED = "parked"
    """The target does not take them; they lie in the topic of parked records."""
    GAP = "gap"
    """They are gaps on record."""
    FILTERED = "filtered"
    """The flow's transforms leave them out."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Records with upstream offsets from ``start`` up to, not including, ``end`` that the copy lacks.

    Attributes
    ----------
    records
        how many there are; None as long as nobody has counted.
    acknowledged
        whether somebody has said that the gap is known; None for what was to be left out.
    """

    kind: AbsenceKind
    start: int
    end: int
    reason: str
    acknowledged: bool | None
    records: int | None = None


_KINDS = {GapKind.PARKED: AbsenceKind.PARKED, GapKind.SKIPPED: AbsenceKind.GAP}


def absences(state: FlowState, source: TopicPartition) -> tuple[Absence, ...]:
    """Return what the gaps on record say that the copy lacks of what ``source`` may have now, in order.

    Other gaps are of records that the source has no more, or that were copied again. A record parked twice is one.
    """
    found: dict[tuple[int, int], Absence] = {}
    for gap in state.gaps_of(source):
        kind = _KINDS.get(gap.kind)
        if kind is None:
            continue
        known = gap.key in state.acknowledgements
        found[gap.start, gap.end] = Absence(kind, gap.start, gap.end, gap.reason, known)
    return tuple(found[place] for place in sorted(found))
