"""What of a source is not on its target: what is there still, and what was removed before anybody had copied it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.position import Position
from mirror.recovery.failover import Lacking, Loss, loss_of
from mirror.recovery.flow_ends import yet_to_be_copied
from tests.unit.recovery.world import EAST, ORDERS, THERE, WEST, StandInEnds, World


def paused(*, starts: int, written: int) -> StandInEnds:
    """Return the ends of a flow of which 10 records are copied, and which copies no more."""
    world = World(at_work=set(), paused={THERE.flow}, written={EAST: written, WEST: 0}, starts={EAST: starts, WEST: 0})
    return StandInEnds(world, THERE.flow)


@pytest.mark.parametrize(
    ("starts", "written", "lacking", "removed"),
    [
        (0, 10, (), ()),
        (7, 10, (), ()),
        (10, 14, ((10, 14),), ()),
        (12, 14, ((12, 14),), ((10, 12),)),
        (14, 14, (), ((10, 14),)),
    ],
)
def test_what_was_removed_before_it_was_copied_is_named_apart(
    starts: int, written: int, lacking: tuple[tuple[int, int], ...], removed: tuple[tuple[int, int], ...]
) -> None:
    """A link that was down for longer than the source keeps its records left no trace of them: nothing was missing."""
    ends = paused(starts=starts, written=written)
    loss = loss_of(ends, ends.copied(), ask_source=True)
    assert loss == Loss(
        tuple(Lacking(ORDERS, *each) for each in lacking), None, tuple(Lacking(ORDERS, *each) for each in removed)
    )
    assert [(each["from"], each["to"]) for each in loss.removed_rows()] == list(removed)


def test_it_is_said_in_words() -> None:
    ends = paused(starts=14, written=14)
    assert str(loss_of(ends, ends.copied(), ask_source=True)) == (
        "nothing is missing of what it has; removed from it before it was copied, so on neither: orders-0: 4 offsets, "
        "from 10 to 13, as the source reports"
    )


@pytest.mark.parametrize(("starts", "left"), [(0, (10, 14)), (12, (10, 14)), (14, (10, 14)), (99, (10, 14))])
def test_a_copy_is_not_complete_until_what_was_removed_is_on_record_as_a_gap(
    starts: int, left: tuple[int, int]
) -> None:
    ends = paused(starts=starts, written=14)
    assert yet_to_be_copied(ends, {ORDERS: 14}, ends.copied()) == {ORDERS: left}
    assert yet_to_be_copied(ends, {ORDERS: 10}, ends.copied()) == {}


def test_a_head_of_a_copy_with_the_source_s_offsets_that_is_not_filled_yet_is_waited_for() -> None:
    """Applications wrote behind the padding, at offsets that nobody copies home."""
    ends = paused(starts=1000, written=1000)
    head = Position(1000, 300, 1000, True, same_offsets=True)
    copied = replace(ends.copied(), positions={ORDERS: head})
    assert yet_to_be_copied(ends, {ORDERS: 1000}, copied) == {ORDERS: (300, 1000)}
    filled = replace(copied, positions={ORDERS: replace(head, downstream=1000)})
    assert yet_to_be_copied(ends, {ORDERS: 1000}, filled) == {}
