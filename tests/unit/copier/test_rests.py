"""Rests grow, end, and differ by chance."""

from __future__ import annotations

from mirror.copier.rests import Rest


def test_rests_double_up_to_the_longest_and_begin_again() -> None:
    rest = Rest(0.1, 0.5, chance=lambda: 0.0)
    assert [rest.next_seconds() for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]
    rest.end()
    assert rest.next_seconds() == 0.1


def test_chance_shortens_them_by_up_to_half() -> None:
    assert Rest(0.1, 0.5, chance=lambda: 1.0).next_seconds() == 0.05
    assert len({Rest(0.1, 0.5).next_seconds() for _ in range(20)}) > 1
