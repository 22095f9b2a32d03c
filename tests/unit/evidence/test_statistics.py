"""What repeats allow to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.evidence.statistics import spread, wilson


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
def test_the_median_lies_between_the_smallest_and_the_largest(values: list[float]) -> None:
    found = spread([*values, None])

    assert found is not None
    assert min(values) == found.low <= found.median <= found.high == max(values)


def test_of_one_value_nothing_but_itself_is_told_and_of_none_there_is_nothing() -> None:
    one, several = spread([4.0]), spread([7.0, 4.0, 5.0])

    assert one is not None
    assert one.describe("{:.1f}".format) == "4.0"
    assert several is not None
    assert several.describe("{:.1f}".format) == "5.0 [4.0, 7.0]"
    assert spread([None]) is None
