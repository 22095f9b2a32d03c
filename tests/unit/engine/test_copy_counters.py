"""What an engine has copied of a flow: counts never fall, whatever becomes of epochs; the rest is of the last minute."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mirror.copier.work import PartitionResult
from mirror.engine.copy_counters import WINDOW_SECONDS, CopyCounters
from mirror.model.copied import Ages, Copied, Waiting
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 3)


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> CopyCounters:
    return CopyCounters(clock)


def age(ms: float, count: int = 1) -> Ages:
    return Ages(count, ms * count, ms, ms, ms)


def ended(records: int, size: int = 0) -> PartitionResult:
    return PartitionResult(Flow("east", "west"), ORDERS, None, records=records, bytes=size)


def records(tally: CopyCounters) -> int:
    return tally.partitions()[ORDERS].records


def test_what_is_told_while_an_epoch_runs_and_at_its_end_is_counted_once(tally: CopyCounters) -> None:
    tally.take_copied(ORDERS, Copied(10, 100))
    tally.take_copied(ORDERS, Copied(15, 150))
    assert records(tally) == 15
    tally.take_result(ended(20, 200))
    tally.end_epoch()
    assert (records(tally), tally.partitions()[ORDERS].bytes) == (20, 200)
    tally.take_copied(ORDERS, Copied(3, 30))
    assert records(tally) == 23, "the next epoch counts from 0"


def test_of_an_epoch_that_is_lost_what_was_told_counts(tally: CopyCounters) -> None:
    tally.take_copied(ORDERS, Copied(10, 100))
    tally.end_epoch()
    tally.take_copied(ORDERS, Copied(4, 40))
    assert records(tally) == 14


def test_counts_never_fall_also_if_less_was_committed_in_the_end_than_was_told(tally: CopyCounters) -> None:
    tally.take_copied(ORDERS, Copied(10, 100))
    tally.take_result(ended(7, 70))
    assert records(tally) == 10


def test_rates_and_ages_are_of_the_last_minute_and_the_last_age_stays(tally: CopyCounters, clock: Clock) -> None:
    """MET-01: avg, min and max are windowed; the value is the last one."""
    tally.take_copied(ORDERS, Copied(60, 600, age(5, 2), age(9)))
    figures = tally.partitions()[ORDERS]
    assert (figures.record_rate, figures.byte_rate) == (60 / WINDOW_SECONDS, 600 / WINDOW_SECONDS)
    clock.now += WINDOW_SECONDS
    tally.take_copied(ORDERS, Copied(90, 900, age(7), age(3)))
    figures = tally.partitions()[ORDERS]
    assert figures.record_rate == 90 / WINDOW_SECONDS
    assert (figures.read.count, figures.read.mean, figures.acknowledged.least, figures.acknowledged.most) == (
        3,
        (2 * 5 + 7) / 3,
        3,
        9,
    )
    clock.now += 2 * WINDOW_SECONDS
    figures = tally.partitions()[ORDERS]
    assert (figures.record_rate, figures.read.count, figures.read.last, figures.acknowledged.last) == (0, 0, 7, 3)
    assert figures.records == 90


def test_what_is_on_its_way_is_known_while_an_epoch_runs(tally: CopyCounters) -> None:
    assert (tally.waiting(ORDERS), tally.is_moving(ORDERS)) == (None, False)
    tally.take_copied(ORDERS, Copied(1, 10, waiting=Waiting(77, 10.0)))
    assert (tally.waiting(ORDERS), tally.is_moving(ORDERS)) == (Waiting(77, 10.0), True)
    tally.end_epoch()
    assert (tally.waiting(ORDERS), tally.is_moving(ORDERS)) == (None, False)


def test_every_group_has_its_own_checkpoint_latency(tally: CopyCounters) -> None:
    """MET-03; MirrorMaker's groups share one sensor (MET-04)."""
    tally.take_checkpoints([("shop", ORDERS)], 5)
    tally.take_checkpoints([("bank", ORDERS)], 11)
    tally.take_checkpoints([("shop", ORDERS)], 7)
    found = tally.checkpoints()
    assert {group: (each.least, each.most, each.last) for (group, _), each in found.items()} == {
        "shop": (5, 7, 7),
        "bank": (11, 11, 11),
    }


def test_what_groups_would_read_again_is_that_of_the_last_round(tally: CopyCounters) -> None:
    tally.take_rereads({"shop": 5})
    tally.take_rereads({"bank": 1})
    assert tally.rereads() == {"bank": 1}
