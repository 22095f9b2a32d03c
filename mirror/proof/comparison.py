"""What a comparison of copies with their sources has found, by partition and in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mirror.model.absences import Absence, AbsenceKind
from mirror.model.counts import counted
from mirror.model.offset_ranges import Ranges
from mirror.model.partition import TopicPartition
from mirror.model.stretches import Stretch
from mirror.model.verdict import Verdict, worst
from mirror.proof.left_out import LeftOut, unchecked
from mirror.proof.pairs import NOTHING, Amount, Cleaned, Mark, total


class Difference(StrEnum):
    """How two partitions differ at one record."""

    MISSING = "missing"
    EXTRA = "extra"
    ALTERED = "altered"
    REORDERED = "reordered"
    MISPLACED = "misplaced"


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first place where source and target differ; an offset is None on the side that has no such record."""

    what: Difference
    upstream_offset: int | None
    downstream_offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared of a pair, and how.

    Attributes
    ----------
    source, target
        the offsets on both sides; where they end is the fixed point up to which a flow that goes on was compared.
    by_bytes, by_record, remembered
        what was found equal by the bytes of its batches, what was compared record by record, and what was not read
        because it was compared earlier.
    last, target_last
        the last data batches of what was compared; None if there are none.
    is_by_batches
        whether the batches of both logs were read to their ends; if not, the last ones are not known.
    notes
        what else there is to know of the way it was compared.
    """

    source: Stretch = (0, 0)
    target: Stretch = (0, 0)
    by_bytes: Amount = NOTHING
    by_record: Amount = NOTHING
    remembered: Amount = NOTHING
    last: Mark | None = None
    target_last: Mark | None = None
    is_by_batches: bool = False
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the ends of what was compared, and how."""
        return {
            "upstream_start": self.source[0],
            "upstream_end": self.source[1],
            "downstream_start": self.target[0],
            "downstream_end": self.target[1],
            "compared": _amounts(self.by_bytes, self.by_record, self.remembered),
            "notes": list(self.notes),
        }


def _amounts(by_bytes: Amount, by_record: Amount, remembered: Amount) -> dict[str, dict[str, int]]:
    named = {"by_bytes": by_bytes, "by_record": by_record, "remembered": remembered}
    return {name: {"records": records, "bytes": size} for name, (records, size) in named.items()}


@dataclass(frozen=True, slots=True)
class PartitionEquivalence:
    """The comparison of one pair, in records.

    Attributes
    ----------
    records
        on the source, in the range; without those that transforms leave out.
    foreign
        on the target, in the range, written by others where others may write.
    problem
        why a side could not be read to its end; None if both were.
    absences
        what the copy lacks and the flow says so; none of it is missing.
    compared
        up to where, and how.
    cleaned
        what one side lacks because its log cleaner has removed it; none of it is missing or extra.
    missing_at, extra_at
        where those records lie: offsets of the source, and of the copy.
    not_compared
        what could not be known, because the side that would show it was not read to its end: what is missing in a copy,
        what is extra by a source. Of those the counts have only what was found in another way.
    """

    source: TopicPartition
    target: TopicPartition
    records: int
    missing: int
    extra: int
    altered: int
    reordered: int
    misplaced: int
    foreign: int
    first_difference: FirstDifference | None
    problem: str | None
    absences: tuple[Absence, ...] = ()
    compared: Compared = Compared()  # frozen
    cleaned: Cleaned = Cleaned()  # noqa: RUF009  # frozen
    missing_at: Ranges = Ranges()  # noqa: RUF009  # frozen
    extra_at: Ranges = Ranges()  # noqa: RUF009  # frozen
    not_compared: frozenset[Difference] = frozenset()

    def absent(self, kind: AbsenceKind) -> int:
        """Return how many records are absent for such a reason."""
        return sum(each.records or 0 for each in self.absences if each.kind is kind)

    @property
    def verdict(self) -> Verdict:
        """UNKNOWN if a side was not read whole; FAIL for any difference; an empty pair is equal.

        What is explained is no difference; that a gap waits to be acknowledged is for the flow's state to say.
        """
        if self.problem is not None:
            return Verdict.UNKNOWN
        return Verdict.FAIL if self.differs else Verdict.PASS

    @property
    def differs(self) -> bool:
        """Whether a difference was found, in as much as was read."""
        return any((self.missing, self.extra, self.altered, self.reordered, self.misplaced))

    @property
    def in_words(self) -> tuple[str, ...]:
        """Return for people how many records differ, where, and what keeps the rest from being known."""
        counts = {
            Difference.MISSING: (self.missing, self.missing_at),
            Difference.EXTRA: (self.extra, self.extra_at),
            Difference.ALTERED: (self.altered, Ranges()),
            Difference.REORDERED: (self.reordered, Ranges()),
            Difference.MISPLACED: (self.misplaced, Ranges()),
        }
        sides = {
            Difference.MISSING: f"offsets of {self.source}",
            Difference.EXTRA: f"offsets of its copy {self.target}",
        }
        differences = (
            f"{counted(count, 'record')} {what}" + (f" at {sides[what]}: {where}" if where.first else "")
            for what, (count, where) in counts.items()
            if count
        )
        return (*differences, *(() if self.problem is None else (self.problem,)))

    def _count_if_compared(self, what: Difference, records: int) -> int | None:
        return None if what in self.not_compared and not records else records

    def as_json(self) -> dict[str, Any]:
        """Return the partition as ``mirror verify --json`` shows it; topic and partition are those of the source.

        What is missing or extra is null where it was not compared.
        """
        first = self.first_difference
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "remote_topic": self.target.topic,
            "records": self.records,
            "missing": self._count_if_compared(Difference.MISSING, self.missing),
            "extra": self._count_if_compared(Difference.EXTRA, self.extra),
            "altered": self.altered,
            "reordered": self.reordered,
            "misplaced": self.misplaced,
            "foreign": self.foreign,
            "parked": self.absent(AbsenceKind.PARKED),
            "gaps": self.absent(AbsenceKind.GAP),
            "filtered": self.absent(AbsenceKind.FILTERED),
            "cleaned": self.cleaned.records,
            "cleaned_by": {"source": self.cleaned.source, "target": self.cleaned.target},
            "first_difference": None
            if first is None
            else {
                "what": first.what.value,
                "upstream_offset": first.upstream_offset,
                "downstream_offset": first.downstream_offset,
                "detail": first.detail,
            },
            "missing_at": self.missing_at.as_json(),
            "extra_at": self.extra_at.as_json(),
            "problem": self.problem,
            "verdict": self.verdict.value,
            **self.compared.as_json(),
            "absences": [
                {
                    "what": each.kind.value,
                    "from": each.start,
                    "to": each.end,
                    "records": each.records,
                    "reason": each.reason,
                    "acknowledged": each.acknowledged,
                }
                for each in self.absences
            ],
        }


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The comparison of all pairs of a flow.

    Attributes
    ----------
    seconds
        how long it took.
    cpu_seconds
        CPU time of the tasks that compared batches.
    left_out
        what was not compared, and why.
    uncopied
        how many offsets the source had behind what was compared, of the partitions of which it had any: they were not
        copied yet. Those that the verdict has to do without are left out by name instead.
    nothing
        why there was nothing to compare, if ``left_out`` does not tell.
    """

    partitions: tuple[PartitionEquivalence, ...]
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    left_out: tuple[LeftOut, ...] = ()
    uncopied: Mapping[TopicPartition, int] = field(default_factory=dict)
    nothing: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of the pairs; UNKNOWN if there are none, or if something was not checked and none is wrong."""
        pairs = (pair.verdict for pair in self.partitions)
        return worst((*pairs, *(Verdict.UNKNOWN for _ in unchecked(self.left_out))))

    @property
    def by_bytes(self) -> Amount:
        """What was found equal by the bytes of its batches."""
        return total(pair.compared.by_bytes for pair in self.partitions)

    @property
    def by_record(self) -> Amount:
        """What was compared record by record."""
        return total(pair.compared.by_record for pair in self.partitions)

    @property
    def remembered(self) -> Amount:
        """What was compared earlier, and not again."""
        return total(pair.compared.remembered for pair in self.partitions)

    @property
    def mb_per_second(self) -> float:
        """Return how much of the source was compared in a second, in 10^6 bytes."""
        size = self.by_bytes.size_bytes + self.by_record.size_bytes
        return size / 1e6 / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the stable contract of ``mirror verify --json``."""
        return {
            "verdict": self.verdict.value,
            "compared": {
                **_amounts(self.by_bytes, self.by_record, self.remembered),
                "seconds": round(self.seconds, 3),
                "mb_per_second": round(self.mb_per_second, 1),
            },
            "partitions": [pair.as_json() for pair in self.partitions],
            "nothing": self.nothing,
            "left_out": [each.as_json() for each in self.left_out],
            "uncopied": [
                {"topic": source.topic, "partition": source.partition, "offsets": offsets}
                for source, offsets in self.uncopied.items()
            ],
        }
