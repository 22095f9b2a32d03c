"""The copy loop with clusters in memory: from fetch to handover while nothing goes wrong, and when it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.config.fetching import FetchLimits
from mirror.copier import loop
from mirror.copier.bell import Heard
from mirror.copier.loop import GRACE_SECONDS, TROUBLED_SECONDS
from mirror.kafka.versions import FETCH, PRODUCE
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from tests.unit.copier.copying_in_memory import ORDERS, STATE, Copying, Driver

# What is not merged with others while it queues up.
LARGE = b"x" * 20_000
OTHER = TopicPartition("orders", 1)


def large(number: int) -> bytes:
    return b"%d" % number + LARGE


def seconds(copying: Copying, planned: float = 1.0) -> float:
    """How long an epoch takes."""
    began = copying.world.now
    copying.epoch(planned)
    return copying.world.now - began


# From fetch to handover.


def test_what_is_fetched_is_produced_acknowledged_recorded_and_handed_over(copying: Copying) -> None:
    copying.source().write(b"a", b"b")
    copying.world.after(0.3, lambda: copying.source().write(b"c"))
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"a", b"b", b"c"]
    assert (copying.recorded(), copying.mm2_position(), copying.syncs()[-1]) == (3, 3, (2, 2))
    assert (result.records, result.batches, result.stopped, result.trouble) == (3, 2, None, None)
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean, result.handover.is_recorded) == (3, True, True)
    assert (result.sequence, result.may_arrive_late) == (3, False)
    assert copying.driver.told[-1] == ({}, set())


def test_the_next_epoch_goes_on_at_once_over_the_same_connections(copying: Copying) -> None:
    copying.begin(b"a")
    lines, asked = set(copying.east.lines() + copying.west.lines()), len(copying.east.asked + copying.west.asked)
    copying.source().write(b"b")
    copying.world.after(0.05, lambda: copying.driver.say(Heard.RING))
    copying.epoch()
    assert copying.copy().values() == [b"a", b"b"]
    assert set(copying.east.lines() + copying.west.lines()) == lines
    assert len(copying.east.asked + copying.west.asked) == asked, "nothing has to be looked up"


def test_positions_are_recorded_while_the_epoch_goes_on_and_once_as_long_as_they_do_not_move(copying: Copying) -> None:
    copying.begin()
    before = copying.state_log.appended
    copying.source().write(b"1")
    seen: list[int | None] = []
    copying.world.after(0.3, lambda: seen.append(copying.recorded()))
    copying.epoch(3.0)
    assert seen == [2]
    assert copying.state_log.appended == before + 1


def test_an_offset_sync_goes_out_without_waiting_for_a_commit(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    seen: list[tuple[list[tuple[int, int]], int | None]] = []
    copying.world.once(lambda: (1, 1) in copying.syncs(), lambda: seen.append((copying.syncs(), copying.recorded())))
    work = replace(copying.work(3.0), commit_seconds=2.5)
    copying.world.after(0.4, lambda: seen.append(([], copying.recorded())))
    loop_work = work
    from mirror.copier import task

    task.copy(loop_work)
    assert seen[0] == ([(0, 0), (1, 1)], 1)


def test_five_requests_are_in_flight_once_a_first_one_is_acknowledged(copying: Copying) -> None:
    copying.begin()
    copying.writes_as(8)
    copying.copy().is_held = True
    copying.source().write(large(0))
    in_flight: list[int] = []

    def look() -> None:
        in_flight.append(copying.west.in_flight(copying.pairs[ORDERS]))

    for number in range(1, 9):
        copying.world.after(0.1 + number / 1000, lambda number=number: copying.source().write(large(number)))
    copying.world.after(0.2, look)

    def first_only() -> None:
        copying.copy().is_held = False
        copying.world.once(lambda: copying.copy().appended == 2, hold_again)

    def hold_again() -> None:
        copying.copy().is_held = True
        copying.world.after(0.1, look)
        copying.world.after(0.2, lambda: setattr(copying.copy(), "is_held", False))

    copying.world.after(0.3, first_only)
    copying.epoch()
    assert in_flight == [1, 5]
    assert copying.copy().values() == [b"0", *(large(number) for number in range(9))]
