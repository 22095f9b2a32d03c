"""What a disaster would have cost, against the same taken from the definition, moment by moment."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.history.backtest import Course, cost

NAN = float("nan")


def course(*samples: tuple[float, float, float | None], lag_seconds: float = NAN) -> Course:
    """A partition over time: of each sample when, up to where it was copied, and where the source ended."""
    at, position, end = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    return Course(at, position, end, lag_seconds)


def costs_at(found: Course, *when: float, longest_gap: float = 100.0) -> list[tuple[float, float]]:
    records, seconds = cost(found, np.array(when, dtype=float), longest_gap)
    return list(zip(records.tolist(), seconds.tolist(), strict=True))


@st.composite
def courses(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """A log that only grows, and a copy that never passes it, sampled now and then; it begins caught up."""
    count = draw(st.integers(1, 8))
    at = list(accumulate(draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))))
    end = list(accumulate(draw(st.lists(st.integers(0, 6), min_size=count, max_size=count)), initial=0))[1:]
    position, found = end[0], [end[0]]
    for limit in end[1:]:
        position = draw(st.integers(position, limit))
        found.append(position)
    return list(zip(at, found, end, strict=True))


def value(samples: list[tuple[int, int, int]], column: int, when: Fraction) -> Fraction:
    """What a column is at a moment: between two samples it moves evenly."""
    for before, behind in pairwise(samples):
        if before[0] <= when <= behind[0]:
            share = (when - before[0]) / (behind[0] - before[0])
            return before[column] + share * (behind[column] - before[column])
    assert when == samples[0][0]
    return Fraction(samples[0][column])


def brute_force(samples: list[tuple[int, int, int]], when: Fraction) -> tuple[Fraction, Fraction]:
    """Records that are not copied; seconds since the last moment at which all there was is copied by now."""
    copied = value(samples, 1, when)
    lost = max(Fraction(0), value(samples, 2, when) - copied)
    if not lost:
        return lost, Fraction(0)
    # The end is a broken line: it passes the copy's position at a sample, or between two, once and for all.
    moments = [Fraction(each[0]) for each in samples if each[0] <= when and each[2] <= copied]
    for before, behind in pairwise(samples):
        if before[2] <= copied < behind[2]:
            moments.append(before[0] + (copied - before[2]) * (behind[0] - before[0]) / (behind[2] - before[2]))
    return lost, when - max(each for each in moments if each <= when)


@given(courses(), st.lists(st.fractions(0, 1, max_denominator=12), min_size=1, max_size=5))
def test_the_cost_of_any_moment_is_that_of_the_definition(
    samples: list[tuple[int, int, int]], places: list[Fraction]
) -> None:
    first, last = samples[0][0], samples[-1][0]
    for when in (first + place * (last - first) for place in places):
        expected = tuple(map(float, brute_force(samples, when)))
        # A moment between two floats may lie on either side of a step.
        ((records, seconds),) = costs_at(course(*samples), float(when))
        assert records == pytest.approx(expected[0], abs=1e-6)
        if records > 1e-6:
            assert seconds == pytest.approx(expected[1], abs=1e-6)


@given(courses())
def test_a_copy_that_has_everything_costs_nothing(samples: list[tuple[int, int, int]]) -> None:
    caught_up = course(*((at, end, end) for at, _, end in samples))
    assert set(costs_at(caught_up, *(float(at) for at, *_ in samples))) == {(0.0, 0.0)}


def test_an_outage_of_the_copy_costs_a_second_more_each_second() -> None:
    found = course((0, 100, 100), (10, 200, 200), (20, 200, 300), (30, 200, 400), (40, 500, 500))
    assert costs_at(found, 5, 15, 20, 30, 40) == [(0, 0), (50, 5), (100, 10), (200, 20), (0, 0)]


def test_what_was_waiting_at_the_first_sample_is_as_old_as_that_said() -> None:
    samples = ((0.0, 100.0, 150.0), (10.0, 100.0, 150.0))
    assert costs_at(course(*samples, lag_seconds=7.0), 0, 10) == [(50, 7), (50, 17)]
    ((records, seconds), _) = costs_at(course(*samples), 0, 10)
    assert (records, np.isnan(seconds)) == (50, True)


def test_of_a_time_without_samples_nothing_is_said() -> None:
    found = course((0, 10, 10), (1, 10, 12), (60, 10, 20), (61, 20, 20))
    known = [not np.isnan(records) for records, _ in costs_at(found, 0, 1, 30, 60, 61, longest_gap=5.0)]
    assert known == [True, True, False, True, True]


def test_a_source_that_does_not_tell_makes_a_time_without_samples() -> None:
    found = course((0, 10, 10), *((at, 10, None) for at in range(1, 9)), (9, 10, 30))
    (before, during, behind) = costs_at(found, 0, 4, 9, longest_gap=5.0)
    assert before == (0, 0)
    assert np.isnan(during).all()
    assert behind == (20, 9)


def test_a_topic_that_is_created_again_begins_anew() -> None:
    new_log = ((4, 0, 2), (5, 2, 4), (6, 4, 6), (7, 6, 8))
    found = course((0, 100, 100), (1, 100, 110), (2, 110, 120), *new_log)
    assert costs_at(found, 2, 5, 7)[0] == (10, pytest.approx(1))
    assert costs_at(found, 5, 7) == [(2, 1), (2, 1)]


def test_two_recorders_that_look_a_moment_apart_are_no_new_log() -> None:
    found = course((0, 90, 100), (1, 100, 110), (1.1, 99, 109), (2, 110, 120), (3, 130, 130))
    assert costs_at(found, 2, 3) == [(10, pytest.approx(1, abs=0.11)), (0, 0)]


def test_a_single_sample_tells_of_its_moment_alone() -> None:
    ((records, _), (before, _)) = costs_at(course((3, 1, 4)), 3, 2)
    assert records == 3
    assert np.isnan(before)
