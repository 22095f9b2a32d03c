"""Rests grow, end, and differ by chance."""

from __future__ import annotations

from mirror.copier.backoff import Backoff


def test_rests_double_up_to_the_longest_and_begin_again() -> None:
    backoff = Backoff(0.1, 0.5, chance=lambda: 0.0)
    assert [backoff.next_seconds() for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]
    backoff.end()
    assert backoff.next_seconds() == 0.1


def test_chance_shortens_them_by_up_to_half() -> None:
    assert Backoff(0.1, 0.5, chance=lambda: 1.0).next_seconds() == 0.05
    assert len({Backoff(0.1, 0.5).next_seconds() for _ in range(20)}) > 1
