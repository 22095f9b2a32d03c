"""Which gaps say that records are missing, and of which log: the one that is there now, or the one before."""

from __future__ import annotations

import sys

import pytest

from mirror.model.gap import Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.proof.losses import DeclaredGap
from mirror.scenario.perform import declared_gap

NOW, BEFORE = "id-now", "id-before"


@pytest.mark.parametrize(
    ("kind", "topic_id", "told"),
    [
        (GapKind.RETENTION, NOW, DeclaredGap(3, 5)),
        (GapKind.RETENTION, BEFORE, DeclaredGap(3, 5, is_of_old_log=True)),
        (GapKind.PARKED, NOW, DeclaredGap(3, 5, is_still_there=True)),
        (GapKind.SKIPPED, BEFORE, DeclaredGap(3, 5, is_of_old_log=True, is_still_there=True)),
        (GapKind.RECREATED, BEFORE, DeclaredGap(3, sys.maxsize, is_of_old_log=True)),
        (GapKind.RECREATED, NOW, DeclaredGap(3, sys.maxsize, is_of_old_log=True)),
        (GapKind.TRUNCATED, NOW, DeclaredGap(3, sys.maxsize, is_of_old_log=True)),
        (GapKind.TARGET_LOST, NOW, None),
        (GapKind.UNMATCHED, NOW, None),
        (GapKind.COPIED_AGAIN, NOW, None),
        (GapKind.UNKNOWN_ORIGIN, NOW, None),
        (GapKind.OTHER, NOW, None),
    ],
)
def test_a_gap_excuses_what_it_says_is_missing(kind: GapKind, topic_id: str, told: DeclaredGap | None) -> None:
    gap = Gap(TopicPartition("orders", 0), 3, 5, "because", 1, kind, topic_id=topic_id)

    assert declared_gap(gap, NOW) == told
