"""What is written down while a partition is taken over from Java MirrorMaker bears the term of the engine that does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mirror.copier import takeover_task
from mirror.copier.placing import always
from mirror.copier.resume import Refused
from mirror.copier.work import PartitionWork
from mirror.kafka.log import NewRecord
from mirror.model.gap import Gap, GapKind
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from mirror.model.state_record import epoch_of, term_of
from tests.flows import EAST_WEST, flow_work

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[NewRecord]:
    """What is appended to the state topic."""
    appended: list[NewRecord] = []

    class Writer:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
            appended.extend(records)
            return 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(takeover_task, "LogWriter", Writer)
    return appended


def test_why_a_partition_is_refused_bears_the_term(written: list[NewRecord]) -> None:
    gap = Gap(ORDERS, 0, 10, "nobody knows", 5, GapKind.UNKNOWN_ORIGIN, passed=False)
    takeover_task._recorded(flow_work(term=17, epoch=3), Refused("nobody knows", (gap.record(),)), always)
    said = [(key, value, term_of(headers), epoch_of(headers)) for key, value, headers, _ in written]
    assert said == [(*gap.record(), 17, 3)]


def test_how_far_the_match_is_bears_the_term(written: list[NewRecord]) -> None:
    work = PartitionWork(EAST_WEST, ORDERS, TopicPartition("east.orders", 0), "", None, Mm2Trace(20))
    progress = takeover_task._Progress(flow_work(term=17, epoch=3), work, always)
    progress._next_at = 0.0
    progress.seen(5, 10)
    assert [(term_of(headers), epoch_of(headers)) for _, _, headers, _ in written] == [(17, 3)]
