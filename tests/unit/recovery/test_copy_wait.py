"""A copy is waited for as long as it comes further, where nobody is kept waiting by that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from mirror.recovery.copy_wait import Patience, await_copy
from mirror.recovery.flow_ends import Copied
from mirror.waiting import WaitTimeout
from tests.unit.recovery.world import ORDERS, THERE, StandInEnds, World

PATIENT = Patience(3600.0, 600.0, 60.0)


@dataclass(frozen=True)
class Slow(StandInEnds):
    """Copies a record a look, up to ``most``."""

    most: int = 10
    looks: list[int] = field(default_factory=list)

    def copied(self) -> Copied:
        self.looks.append(1)
        found = super().copied()
        at = min(self.most, len(self.looks))
        return replace(found, positions={ORDERS: replace(found.positions[ORDERS], upstream=at, downstream=at)})


def every(seconds: int) -> Callable[[], float]:
    """Return a clock on which so much time is between two looks."""
    times = iter(range(0, 1_000_000, seconds))
    return lambda: float(next(times))


def test_a_copy_that_comes_further_is_waited_for_however_long_that_takes() -> None:
    """A topic made anew that takes longer than ten minutes ended a failback, again and again."""
    assert (
        await_copy(Slow(World(), THERE.flow), {ORDERS: 5}, PATIENT, every(500)) == "west has all records of 1 partition"
    )


def test_one_that_stands_still_is_not() -> None:
    with pytest.raises(
        WaitTimeout, match="for 600 s east->west has come no further; west lacks records: orders-0 from 2 to 4"
    ):
        await_copy(Slow(World(), THERE.flow, most=2), {ORDERS: 5}, PATIENT, every(250))


def test_one_that_others_wait_for_is_given_up_when_its_time_is_over() -> None:
    with pytest.raises(WaitTimeout, match=r"after 0\.1 s west lacks records: orders-0 from 2 to 4"):
        await_copy(Slow(World(), THERE.flow, most=2), {ORDERS: 5}, replace(PATIENT, all_in_all=0.1), every(1))
