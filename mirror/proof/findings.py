"""What the checkers say: anomalies, counted, with the worst few located, and the verdict over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.evidence import MissingEvidence, with_gaps

__all__ = ["Anomaly", "Era"]

MOST_EXAMPLES = 20


class Anomaly(StrEnum):
    """Something that is not as it was sent."""

    LOST = "lost"
    """Acked and not in the log, though later ones are. For a group: before its position, and never handed to it."""
    STRANDED = "stranded"
    """Acked and not in the copy, like all that follow in its partition: the tail that was not copied yet."""
    DUPLICATED = "duplicated"
    """In one log more than once."""
    REORDERED = "reordered"
    """Behind a record that it should precede, within a partition."""
    ALTERED = "altered"
    """There with another content, timestamp or partition."""
    UNEXPECTED = "unexpected"
    """There with an id of the ledger, though the ledger says it was refused, or never sent there."""
    REDELIVERED = "redelivered"
    """Handed to a group more than once."""
    REWOUND = "rewound"
    """Of those: although the group had committed its position behind it, where that was to be kept."""
    UNSEEN = "unseen"
    """In the log, at or behind the group's position: not read yet."""


class Era(StrEnum):
    """When a record was sent, where something was done on purpose to the log it was sent to."""

    BEFORE = "before"
    """Acknowledged before that was begun."""
    DURING = "during"
    """Sent before it was done, and not acknowledged before it was begun."""
    AFTER = "after"
    """Sent when it was done; any record of a log that was left alone."""


@dataclass(frozen=True, slots=True)
class Example:
    """One record of a finding. ``record_offset`` is None where the record is not to be found."""

    producer: str
    sequence: int
    record_offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly in one partition: how many records, and at most `MOST_EXAMPLES` of them, the worst first.

    ``group`` is None for a finding about a log. A finding that may be due to missing evidence (a log that was not read
    to its end, a ledger that was not closed) is not proven, and makes a verdict UNKNOWN rather than FAIL.
    """

    anomaly: Anomaly
    cluster: str
    partition: TopicPartition
    group: str | None
    count: int
    examples: tuple[Example, ...]
    is_tolerated: bool = False
    is_proven: bool = True
    era: Era = Era.AFTER

    def __str__(self) -> str:
        """Return one line for people."""
        whose = f"group {self.group}: " if self.group else ""
        tolerated = " (tolerated)" if self.is_tolerated else "" if self.is_proven else " (not proven)"
        first = self.examples[0]
        where = "" if first.record_offset is None else f" at offset {first.record_offset}"
        return (
            f"{whose}{self.cluster} {self.partition}: {self.count} {self.anomaly}{tolerated},"
            f" such as {first.producer}:{first.sequence}{where}: {first.detail}"
        )


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """How much was judged: records expected and found in a partition of a log, or read of it by a group."""

    cluster: str
    partition: TopicPartition
    group: str | None
    expected: int
    found: int
    without_ledger: int
    """Records of others, which carry no id: not judged, and no anomaly."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The judgement of a history."""

    counts: tuple[PartitionCount, ...]
    findings: tuple[Finding, ...]
    gaps: tuple[MissingEvidence, ...]

    @property
    def verdict(self) -> Verdict:
        """FAIL for a finding that is proven and not tolerated; UNKNOWN if evidence, or all to be judged, is missing."""
        untolerated = [finding for finding in self.findings if not finding.is_tolerated]
        if any(finding.is_proven for finding in untolerated):
            return Verdict.FAIL
        if untolerated or not any(count.expected for count in self.counts):
            return Verdict.UNKNOWN
        return with_gaps(Verdict.PASS, self.gaps)

    def total(self, anomaly: Anomaly) -> int:
        """Return how many records show an anomaly, tolerated or not."""
        return sum(finding.count for finding in self.findings if finding.anomaly is anomaly)

    @property
    def totals(self) -> Mapping[Anomaly, int]:
        """Return the number of records for every anomaly, also those with none."""
        return {anomaly: self.total(anomaly) for anomaly in Anomaly}


NOTHING_TOLERATED: Set[Anomaly] = frozenset()
AT_LEAST_ONCE: Set[Anomaly] = frozenset({Anomaly.REDELIVERED})
"""What every group that commits after it has worked must live with."""


def merge(deliveries: Iterable[Delivery]) -> Delivery:
    """Return one judgement of several."""
    all_of = list(deliveries)
    return Delivery(
        tuple(count for each in all_of for count in each.counts),
        tuple(finding for each in all_of for finding in each.findings),
        tuple(dict.fromkeys(gap for each in all_of for gap in each.gaps)),
    )
