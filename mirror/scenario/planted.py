"""A defect that a scenario holds on purpose: was it found, it and nothing else?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mirror.model.ledger import RecordId
from mirror.model.partition import TopicPartition
from mirror.proof.findings import Anomaly, Delivery, Finding
from mirror.proof.losses import MissingRecords


@dataclass(frozen=True, slots=True)
class Planted:
    """Records that were removed from a copy behind everybody's back."""

    cluster: str
    partition: TopicPartition
    records: tuple[RecordId, ...]

    def __str__(self) -> str:
        """Return for people what was done."""
        named = ", ".join(f"{each.producer}:{each.sequence}" for each in self.records)
        return f"{len(self.records)} removed from {self.cluster} {self.partition} ({named})"

    def is_in(self, finding: Finding) -> bool:
        """Tell whether a finding is this defect: in this place just these records are lost."""
        return (
            finding.anomaly is Anomaly.LOST
            and (finding.cluster, finding.partition, finding.group) == (self.cluster, self.partition, None)
            and finding.is_proven
            and finding.count == len(self.records)
            and {RecordId(each.producer, each.sequence) for each in finding.examples} == set(self.records)
        )


def unfound(planted: Iterable[Planted], copies: Delivery, missing: MissingRecords) -> tuple[str, ...]:
    """Return, for people, the defects that no finding about the copies names, or that were not counted as silent."""
    every = tuple(planted)
    missed = [f"not found: {each}" for each in every if not any(each.is_in(finding) for finding in copies.findings)]
    count = sum(len(each.records) for each in every)
    if not every:
        missed.append("no defect was put in")
    if (missing.silent, missing.uncopied) != (count, count):
        missed.append(
            f"{count} records were removed, {missing.silent} are said to be missing silently, {missing.uncopied} to be"
            " on their source only"
        )
    return tuple(missed)


def without(planted: Sequence[Planted], copies: Delivery, missing: MissingRecords) -> tuple[Delivery, MissingRecords]:
    """Return what else was found of the copies, and is missing."""
    others = tuple(finding for finding in copies.findings if not any(each.is_in(finding) for each in planted))
    count = sum(len(each.records) for each in planted)
    return replace(copies, findings=others), replace(
        missing, silent=max(0, missing.silent - count), uncopied=max(0, missing.uncopied - count)
    )
