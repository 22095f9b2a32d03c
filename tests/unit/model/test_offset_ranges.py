"""Ranges as people and programs read them: `to` of the JSON is not part of a range, the last offset in a sentence is."""

from __future__ import annotations

from mirror.model.offset_ranges import MOST_RANGES, Range, Ranges


def test_a_range_is_told_by_its_offsets_and_by_its_records_where_those_are_fewer() -> None:
    found = Ranges((Range(5, 6, 1), Range(8, 11, 3), Range(20, 30, 4)), 2)
    assert str(found) == "5, 8 to 10, 20 to 29 (4 in these), and 2 more"
    assert Ranges.from_json(found.as_json()) == found


def test_of_more_than_so_many_only_the_number_is_kept() -> None:
    found = Ranges()
    for start in range(0, 2 * MOST_RANGES + 4, 2):
        found = found.also(Range(start, start + 1, 1))
    assert (len(found.first), found.more) == (MOST_RANGES, 2)
