"""What a finding of a delivery proves where the evidence is short: a log that was not read whole, or a ledger."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import Row

from mirror.model.partition import TopicPartition
from mirror.proof import delivery
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import Anomaly, Example, Finding

ORDERS = TopicPartition("orders", 1)
ABSENCES = {Anomaly.LOST, Anomaly.STRANDED, Anomaly.UNSEEN}
LOG_IS_SHORT = MissingEvidence("west, orders-1", "not read to its end", ("west", ORDERS))
ANOTHER_IS_SHORT = MissingEvidence("east, orders-1", "not read to its end", ("east", ORDERS))
LEDGER_IS_SHORT = MissingEvidence("sends/p-3.parquet", "cannot be read")


def found(
    anomaly: Anomaly,
    gaps: Sequence[MissingEvidence] = (),
    group: str | None = None,
    tolerated: frozenset[Anomaly] = frozenset(),
) -> Finding:
    rows = [
        Row(
            group=group,
            cluster="west",
            topic="orders",
            partition=1,
            anomaly=anomaly.value,
            count=7,
            producer=f"p{number}",
            sequence=number,
            offset=number,
            detail="",
        )
        for number in (3, 4)
    ]
    return delivery._finding(rows, tolerated, gaps)


@pytest.mark.parametrize("anomaly", Anomaly)
def test_with_all_the_evidence_a_finding_is_proven(anomaly: Anomaly) -> None:
    finding = found(anomaly, group="billing")
    assert (finding.anomaly, finding.is_proven, finding.is_tolerated) == (anomaly, True, False)
    assert (finding.cluster, finding.partition, finding.group, finding.count) == ("west", ORDERS, "billing", 7)
    assert finding.examples == (Example("p3", 3, 3, ""), Example("p4", 4, 4, ""))
    assert found(anomaly, tolerated=frozenset({anomaly})).is_tolerated


@pytest.mark.parametrize("anomaly", Anomaly)
def test_what_is_not_in_a_log_that_was_not_read_whole_is_not_proven_to_be_absent(anomaly: Anomaly) -> None:
    assert found(anomaly, [LOG_IS_SHORT]).is_proven is (anomaly not in ABSENCES)
    assert found(anomaly, [LOG_IS_SHORT], "billing").is_proven is (anomaly not in ABSENCES)
    assert found(anomaly, [ANOTHER_IS_SHORT], "billing").is_proven


@pytest.mark.parametrize("anomaly", Anomaly)
def test_what_a_short_ledger_does_not_name_may_have_been_sent_and_read_all_the_same(anomaly: Anomaly) -> None:
    assert found(anomaly, [LEDGER_IS_SHORT]).is_proven is (anomaly is not Anomaly.UNEXPECTED)
    of_a_group = found(anomaly, [LEDGER_IS_SHORT], "billing")
    assert of_a_group.is_proven is (anomaly not in ABSENCES and anomaly is not Anomaly.UNEXPECTED)
