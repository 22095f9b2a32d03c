from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import Anomaly, Delivery, Example, Finding, PartitionCount, merge

PARTITION = TopicPartition("east.orders", 0)
GAP = MissingEvidence("sends/p-3.parquet", "cannot be read")


def counted(expected: int) -> PartitionCount:
    return PartitionCount("west", PARTITION, None, expected, expected, 0)


def found(anomaly: Anomaly, count: int = 1, **more: bool) -> Finding:
    return Finding(anomaly, "west", PARTITION, None, count, (Example("p", 7, None, "acked at offset 7"),), **more)


@pytest.mark.parametrize(
    ("findings", "gaps", "verdict"),
    [
        ([], [], Verdict.PASS),
        ([], [GAP], Verdict.UNKNOWN),
        ([found(Anomaly.LOST)], [], Verdict.FAIL),
        ([found(Anomaly.LOST)], [GAP], Verdict.FAIL),
        ([found(Anomaly.LOST, is_proven=False)], [GAP], Verdict.UNKNOWN),
        ([found(Anomaly.LOST, is_proven=False)], [], Verdict.UNKNOWN),
        ([found(Anomaly.REDELIVERED, is_tolerated=True)], [], Verdict.PASS),
        ([found(Anomaly.REDELIVERED, is_tolerated=True)], [GAP], Verdict.UNKNOWN),
        ([found(Anomaly.REDELIVERED, is_tolerated=True), found(Anomaly.LOST)], [], Verdict.FAIL),
    ],
)
def test_missing_evidence_never_passes_and_never_excuses(
    findings: Sequence[Finding], gaps: Sequence[MissingEvidence], verdict: Verdict
) -> None:
    assert Delivery((counted(10),), tuple(findings), tuple(gaps)).verdict is verdict


def test_of_nothing_nothing_is_known() -> None:
    assert Delivery((), (), ()).verdict is Verdict.UNKNOWN
    assert Delivery((counted(0),), (), ()).verdict is Verdict.UNKNOWN


def test_merged_judgements_keep_everything_and_tell_a_gap_once() -> None:
    logs = Delivery((counted(10),), (found(Anomaly.LOST, 3),), (GAP,))
    groups = Delivery((counted(5),), (found(Anomaly.LOST, 2),), (GAP,))
    both = merge([logs, groups])

    assert (both.total(Anomaly.LOST), both.gaps, len(both.counts)) == (5, (GAP,), 2)
    assert both.totals[Anomaly.DUPLICATED] == 0


def test_a_finding_says_what_where_and_how_many() -> None:
    finding = Finding(
        Anomaly.REDELIVERED,
        "west",
        PARTITION,
        "billing",
        12,
        (Example("p", 7, 40, "handed out 2 times"),),
        is_tolerated=True,
    )

    assert str(finding) == (
        "group billing: west east.orders-0: 12 redelivered (tolerated), such as p:7 at offset 40: handed out 2 times"
    )
