"""How old records are on their way, told by batches: what is counted, and what a batch without times says."""

from __future__ import annotations

import math

from mirror.model.copied import Ages


def test_ages_are_those_of_the_oldest_and_newest_record_of_each_batch() -> None:
    """MET-02: age = now - record timestamp."""
    ages = Ages()
    ages.add(1_000, 400, 600, 2)
    ages.add(1_000, 900, 900, 6)
    assert (ages.count, ages.least, ages.most, ages.last) == (8, 100, 600, 100)
    assert ages.mean == (2 * 500 + 6 * 100) / 8


def test_a_batch_without_times_says_nothing() -> None:
    ages = Ages()
    ages.add(1_000, -1, -1, 5)
    assert ages == Ages()
    assert math.isnan(ages.mean)


def test_what_came_after_is_joined_and_nothing_changes_nothing() -> None:
    ages, more = Ages(), Ages()
    ages.add(1_000, 500, 500, 1)
    more.add(1_000, 700, 800, 3)
    ages.join(more)
    ages.join(Ages())
    assert ages == Ages(4, 500 + 3 * 250, 200, 500, 200)
