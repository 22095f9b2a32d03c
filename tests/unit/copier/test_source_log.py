"""The source, as a takeover searches it: read no further than needed, every answer that of the whole log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.takeover import SourceLog
from mirror.kafka.fingerprints import Fingerprints

# What a record has that was written without a timestamp.
NO_TIME = -1


def prints(records: list[tuple[int, int, int]], *, has_append_time: bool = False) -> Fingerprints:
    """Return the prints of records given as (offset, timestamp, hash)."""
    offsets, times, hashes = (np.array([each[number] for each in records], np.int64) for number in range(3))
    return Fingerprints(7, has_append_time, offsets, times, hashes)


@st.composite
def logs(draw: st.DrawFn) -> list[list[tuple[int, int, int]]]:
    """Return batches of records that are much alike, with holes between them."""
    batches, offset = [], draw(st.integers(0, 3))
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)):
        batch = []
        for _ in range(size):
            batch.append((offset, draw(st.sampled_from([NO_TIME, 5, 6])), draw(st.integers(0, 1))))
            offset += draw(st.integers(1, 3))
        batches.append(batch)
    return batches


@given(
    logs(), st.integers(0, 4), st.lists(st.tuples(st.sampled_from([5, 6]), st.integers(0, 1)), max_size=3), st.data()
)
def test_every_answer_is_that_of_the_whole_log(
    batches: list[list[tuple[int, int, int]]], start: int, looked_for: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A timestamp counts unless the target gave the copy its own, or the source has none."""
    records = [each for batch in batches for each in batch if each[0] >= start]
    has_append_time = data.draw(st.booleans())

    def log() -> SourceLog:
        return SourceLog((prints(batch) for batch in batches if batch[-1][0] >= start), start)

    def is_copy(index: int, time: int, number: int) -> bool:
        if not 0 <= index < len(records):
            return False
        return records[index][2] == number and (has_append_time or records[index][1] in (time, NO_TIME))

    copy = prints([(100 + place, *each) for place, each in enumerate(looked_for)], has_append_time=has_append_time)
    assert log().first_timestamp() == (records[0][1] if records else None)
    for index in range(-1, len(records) + 2):
        assert log().has(index) == (len(records) >= index)
        agrees = all(is_copy(index + place, *each) for place, each in enumerate(looked_for))
        assert log().agrees(index, copy) == (agrees and 0 <= index <= len(records) - len(looked_for))
        if index >= 0 and looked_for:
            assert log().record_agrees(index, copy, 0) == is_copy(index, *looked_for[0])
    ends = [start - 1, *(each[0] for each in records)]
    for index, (offset, _, _) in enumerate(records):
        assert log().hole_before(index) == offset - ends[index] - 1
    assert log().hole_before(len(records)) == 0
    for offset in range(start, ends[-1] + 3):
        assert log().index_of(offset) == sum(each[0] < offset for each in records)
    assert log().copies_of_first(copy) == [place for place, each in enumerate(looked_for) if is_copy(0, *each)]
    if looked_for and records:
        whole = log()
        whole.has(len(records))
        for before in range(len(records) + 1):
            assert whole.places(copy, before) == [index for index in range(before) if whole.agrees(index, copy)]


def test_no_more_is_read_than_is_asked_for() -> None:
    """The source may be long; what is looked for lies near."""
    read: list[int] = []

    def batches() -> Iterator[Fingerprints]:
        for number in range(3):
            read.append(number)
            yield prints([(10 * number + place, 5, number) for place in range(10)])

    log = SourceLog(batches(), 0)
    assert log.has(10)
    assert log.index_of(9) == 9
    assert read == [0]
    assert log.index_of(10) == 10
    assert (read, log.has(20), list(log.offsets)) == ([0, 1], True, list(range(20)))


@pytest.mark.parametrize("befores", [(20_000, 100, 19_999), (5_000, 20_000, 12_345), (100, 4_097, 4_200)])
def test_a_record_is_found_wherever_it_lies_in_a_long_log(befores: tuple[int, ...]) -> None:
    """Before and behind what was sorted to be found quickly, also when less is asked for than before."""
    alike = range(7, 20_000, 1_000)
    records = [(number, 5, -1 if number in alike else number) for number in range(20_000)]
    log = SourceLog((prints(records[start : start + 1_500]) for start in range(0, 20_000, 1_500)), 0)
    assert log.has(20_000)
    for before in befores:
        assert log.places(prints([(0, 5, -1)]), before) == [each for each in alike if each < before]
        edge = prints([(0, 5, before - 1)])
        assert log.places(edge, before) == [before - 1]
        assert log.places(edge, before - 1) == []
