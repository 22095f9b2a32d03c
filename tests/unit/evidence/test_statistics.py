"""What repeats allow to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.evidence.statistics import distribution, wilson


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(3, 3, 0.4385, 1.0), (0, 20, 0.0, 0.1611), (7, 10, 0.3968, 0.8922), (1, 1, 0.2065, 1.0)],
)
def test_wilson_intervals_are_those_of_the_textbook(successes: int, count: int, low: float, high: float) -> None:
    found = wilson(successes, count)

    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert wilson(0, 0) is None


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=12))
def test_the_median_lies_in_its_interval_and_the_interval_among_the_values(values: list[float]) -> None:
    found = distribution(values)

    assert found is not None
    assert min(values) <= found.median.low <= found.median.value <= found.median.high <= max(values) == found.worst
    assert found == distribution(values)


def test_of_one_run_the_interval_is_its_value_and_of_none_there_is_nothing() -> None:
    found = distribution([4.0])

    assert found is not None
    assert (found.count, found.median.low, found.median.high) == (1, 4.0, 4.0)
    assert distribution([]) is None
