"""Whether a rehearsal left every group alone: what moved is put down to whoever may have moved it, or is doubt."""

from __future__ import annotations

import pytest

from mirror.model.partition import TopicPartition
from mirror.recovery.unchanged_groups import GroupPositionsSeen, compare

HERE = TopicPartition("orders", 0)


def seen(position: int | None, *, active: bool = False, problem: str | None = None) -> GroupPositionsSeen:
    """Return one group, with a position or none."""
    positions = {} if problem else {"billing": {} if position is None else {HERE: position}}
    return GroupPositionsSeen(
        "west", positions, frozenset(["billing"] if active else []), {"billing": problem} if problem else {}
    )


@pytest.mark.parametrize(
    ("before", "after", "synced", "moved", "explained"),
    [
        (seen(5), seen(5), False, False, True),
        (seen(None), seen(None), False, False, True),
        (seen(5, active=True), seen(7), False, True, True),
        (seen(5), seen(7, active=True), False, True, True),
        (seen(5), seen(7), True, True, True),
        (seen(5), seen(7), False, True, False),
        (seen(None), seen(7), False, True, False),
        (seen(5), seen(None), False, True, False),
        (seen(5), seen(5, problem="not allowed"), False, False, False),
    ],
)
def test_a_group_that_moved_is_its_members_or_the_flows_doing_or_a_doubt(
    before: GroupPositionsSeen, after: GroupPositionsSeen, synced: bool, moved: bool, explained: bool
) -> None:
    (found,) = compare(before, after, synced=synced)
    assert (found.moved == (HERE,), found.is_explained) == (moved, explained)
