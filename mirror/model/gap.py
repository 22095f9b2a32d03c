"""Gaps: upstream offsets whose records a copy lacks, and who has acknowledged them.

Invariants:

(a) Which gap is a partition's newest follows from the order of the log, never by clocks; a gap recorded again as open
    takes back the acknowledgement before it. One that is written again, because an engine of an earlier term wrote
    over it, says so, and passes for no newer one (``is_repeated``). Nor does one that came late from such an engine:
    it counts, for nobody else may have found it, and stops nothing.
(b) A gap is known by partition, first offset and time found, so acknowledging one never passes another at the same
    offset.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TypeAlias

from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord, json_record, unknown_fields


class GapKind(StrEnum):
    """What became of the records in a gap."""

    RETENTION = "retention"
    """The source removed them before they were copied: retention, or deleted records."""
    TRUNCATED = "truncated"
    """The source no longer has what was copied, or was still to be, and has, or will have, something else there."""
    RECREATED = "recreated"
    """The source topic was deleted and created anew: what was not copied of the old one is gone."""
    TARGET_LOST = "target-lost"
    """The target no longer has the copies: its log was truncated, or the topic deleted and created anew."""
    UNMATCHED = "unmatched"
    """What this flow wrote behind its last recorded position is not what the source has there."""
    COPIED_AGAIN = "copied-again"
    """Copies are made again: the target removed them before it was on record that they were made, or took them where
    it had lost others."""
    SKIPPED = "skipped"
    """They were left out because they could not be copied."""
    PARKED = "parked"
    """The target does not take them; they lie in the topic of parked records instead."""
    UNKNOWN_ORIGIN = "unknown-origin"
    """The copy holds records already, and nothing says which of the source's they are."""
    OTHER = "other"
    """Something that this version does not know; :attr:`Gap.unknown` has the word."""


OF_A_FORMER_LOG = frozenset({GapKind.TRUNCATED, GapKind.RECREATED})
"""Of such a gap the offsets are those of a log that another one has taken the place of."""

COPIED_ONCE_MORE = frozenset({GapKind.TARGET_LOST, GapKind.UNMATCHED, GapKind.COPIED_AGAIN})
"""Of such a gap the records that the source still has are copied again: the copy does not lack them."""

GapKey: TypeAlias = tuple[TopicPartition, int, int]
"""What tells gaps apart: the source partition, the first offset, and when it was found."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets, from ``start`` up to, not including, ``end``, whose records the copy lacks, or has differently.

    Attributes
    ----------
    found_at_ms
        when it was found, in ms since the epoch.
    downstream
        where it lies on the target: the copy goes on there; for ``TARGET_LOST`` the target's log ended there. None
        when that is not known.
    topic_id
        the source topic's id, which the offsets belong to.
    passed
        whether the copy has gone on behind it; otherwise the partition is stopped until the gap is acknowledged.
    is_repeated
        whether it was written again behind gaps of the partition that were found after it: its place in the log says
        nothing then.
    unknown
        the fields of the record that this version does not know, a JSON object; empty when there are none.
    """

    source: TopicPartition
    start: int
    end: int
    reason: str
    found_at_ms: int
    kind: GapKind = GapKind.SKIPPED
    downstream: int | None = None
    topic_id: str = ""
    passed: bool = True
    is_repeated: bool = False
    unknown: str = ""

    @property
    def key(self) -> GapKey:
        """Return what tells it from every other gap of the flow."""
        return self.source, self.start, self.found_at_ms

    @property
    def count(self) -> int:
        """Return how many offsets it spans: no fewer than the records missing."""
        return self.end - self.start

    def is_void_by(self, later: Gap) -> bool:
        """Whether the source has another log at its offsets since ``later`` was found, of the same partition."""
        is_cut = later.kind is GapKind.TRUNCATED and later.start <= self.start
        return later.kind is GapKind.RECREATED or is_cut

    @property
    def where(self) -> str:
        """Return its partition and offsets for people, the last one included."""
        return f"{self.source} {self.start}..{self.end - 1}" if self.count > 1 else f"{self.source} {self.start}"

    def record(self) -> StateRecord:
        """Return the record that keeps this gap."""
        value = {
            "end": self.end,
            "reason": self.reason,
            "kind": self.kind.value,
            "downstream": self.downstream,
            "topic_id": self.topic_id,
            "passed": self.passed,
        }
        if self.is_repeated:
            value["is_repeated"] = True
        return json_record(["gap", *self.source, self.start, self.found_at_ms], value | unknown_fields(self.unknown))


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody knows of a gap and takes it as it is: who, why, and when in ms since the epoch."""

    by: str
    reason: str
    at_ms: int

    def record(self, gap: GapKey) -> StateRecord:
        """Return the record that keeps this acknowledgement of ``gap``."""
        source, start, found_at_ms = gap
        return json_record(["acknowledged", *source, start, found_at_ms], asdict(self))
