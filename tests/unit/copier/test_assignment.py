"""Every partition is assigned once, and the measured load is even."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.assignment import assign
from mirror.copier.work import PartitionWork
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition


def works(count: int) -> list[PartitionWork]:
    return [
        PartitionWork(
            Flow("east", "west"), TopicPartition("orders", number), TopicPartition("east.orders", number), "", None
        )
        for number in range(count)
    ]


@given(st.lists(st.floats(1, 1e9), max_size=40), st.integers(1, 8))
def test_every_partition_is_assigned_once_and_no_share_is_empty(loads: list[float], tasks: int) -> None:
    partitions = works(len(loads))
    shares = assign(partitions, lambda work: loads[work.source.partition], tasks)
    assert sorted(work.source.partition for share in shares for work in share) == list(range(len(loads)))
    assert len(shares) == min(tasks, len(loads))
    assert all(shares)


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=40), st.integers(1, 8))
def test_no_share_is_heavier_than_another_by_more_than_one_partition(loads: list[float], tasks: int) -> None:
    shares = assign(works(len(loads)), lambda work: loads[work.source.partition], tasks)
    totals = [sum(loads[work.source.partition] for work in share) for share in shares]
    lightest = [min(loads[work.source.partition] for work in share) for share in shares]
    least = min(totals)
    assert all(total - light <= least * (1 + 1e-9) for total, light in zip(totals, lightest, strict=True))


def test_one_busy_partition_has_a_task_for_itself() -> None:
    """A rule that counts partitions would put half of the idle ones beside it."""
    shares = assign(works(9), lambda work: 1e6 if work.source.partition == 4 else 1.0, 2)
    assert sorted(len(share) for share in shares) == [1, 8]


def test_the_same_loads_give_the_same_shares() -> None:
    """Connections and producer ids stay where they are."""
    assert assign(works(9), lambda _: 1.0, 2) == assign(list(reversed(works(9))), lambda _: 1.0, 2)
