"""Groups named one by one, as a pattern."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.group_pattern import pattern_of


def test_only_what_has_a_meaning_in_an_expression_is_escaped() -> None:
    assert pattern_of(["audit-eu", "a.b", "bill & pay #1"]) == r"audit-eu|a\.b|bill & pay #1"


@given(st.lists(st.text(min_size=1), min_size=1), st.text())
def test_it_matches_these_names_and_no_other(names: list[str], other: str) -> None:
    pattern = pattern_of(names)
    assert all(re.fullmatch(pattern, each) for each in names)
    assert (re.fullmatch(pattern, other) is not None) == (other in names)
