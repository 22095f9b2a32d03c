"""Stretches of offsets: united, what lies between them, and the parts of a map that speak of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.offset_map import Run, Runs
from mirror.model.stretches import add, between, hold, runs_within, united

stretches = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)
edges = st.tuples(st.integers(0, 30), st.integers(0, 30))


def offsets(found: tuple[tuple[int, int], ...] | list[tuple[int, int]]) -> list[int]:
    return [offset for start, end in found for offset in range(start, end)]


@given(stretches, edges)
def test_united_and_between_share_the_range_out(some: list[tuple[int, int]], ends: tuple[int, int]) -> None:
    within, outside = united(some, *ends), between(some, *ends)
    covered = {offset for start, end in some for offset in range(start, end)}

    assert offsets(within) == [offset for offset in range(*ends) if offset in covered]
    assert offsets(outside) == [offset for offset in range(*ends) if offset not in covered]
    assert all(first[1] < second[0] for first, second in pairwise(within))
    for start in range(31):
        for end in (start + 1, start + 3):
            assert hold(within, start, end) == (set(range(start, end)) <= set(offsets(within)))


def test_what_continues_the_last_stretch_is_part_of_it() -> None:
    found: list[tuple[int, int]] = []
    for start, end in ((0, 2), (2, 5), (5, 5), (7, 8)):
        add(found, start, end)

    assert found == [(0, 5), (7, 8)]


@given(stretches, st.lists(st.integers(1, 6), max_size=6), edges)
def test_a_map_says_the_same_of_a_part_of_its_offsets(
    some: list[tuple[int, int]], lengths: list[int], ends: tuple[int, int]
) -> None:
    runs = [Run(sum(lengths[:at]) + 2 * at, sum(lengths[:at]) + at, length) for at, length in enumerate(lengths)]
    said = {run.upstream + index: run.downstream + index for run in runs for index in range(run.length)}
    wanted = united(some, 0, 30)

    def told(found: list[Run]) -> dict[int, int]:
        return {run.upstream + index: run.downstream + index for run in found for index in range(run.length)}

    assert told(list(runs_within(runs, wanted))) == {up: said[up] for up in offsets(wanted) if up in said}
    assert told(list(Runs.of(runs).within(*ends))) == {up: said[up] for up in range(*ends) if up in said}


def test_stretches_that_touch_or_lie_in_one_another_are_one() -> None:
    assert united([(0, 3), (3, 5)], 0, 9) == ((0, 5),)
    assert united([(0, 8), (2, 3), (5, 6)], 0, 9) == ((0, 8),)
    assert united([(2, 2), (7, 4), (20, 30)], 0, 9) == ()


def test_a_run_that_ends_where_a_stretch_begins_has_no_part_in_it() -> None:
    assert list(runs_within([Run(0, 10, 3), Run(3, 20, 2)], [(0, 3), (3, 4)])) == [Run(0, 10, 3), Run(3, 20, 1)]
    assert list(runs_within([Run(0, 10, 3)], [(3, 9)])) == []
    assert list(runs_within([Run(3, 10, 3)], [(0, 3)])) == []
