"""Compaction between a crash and the return: still nothing is lost, and nothing is copied twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier import thinned_match
from mirror.copier.tail_match import Batch, Matched, Mismatch, match_tail
from mirror.copier.thinned_match import match_thinned
from mirror.kafka import batch
from mirror.kafka.batch import Producer, Record
from mirror.model.offset_map import Run
from tests.unit.copier.builders import TIME, as_logged, dense, flagged

OURS, FOREIGN = Producer(7, 0), Producer(99, 0)
UPSTREAM, DOWNSTREAM = 20, 8


def record(offset: int, key: int, content: int) -> Record:
    return Record(offset, TIME + content, b"key %d" % key, b"value %d" % content, (), -1)


def source_log(records: Sequence[Record]) -> list[Batch]:
    return [dense([each]) for each in records]


def copy_of(original: Record, offset: int) -> Batch:
    return as_logged(dense([original], producer=OURS, sequence=0)[0], offset)


def is_ours(producer_id: int) -> bool:
    return producer_id == OURS.producer_id


def matched(source: Sequence[Record], tail: Sequence[Batch], end: int) -> Matched | Mismatch:
    return match_thinned(
        source_log(source),
        tail,
        UPSTREAM,
        is_ours,
        holes_from=(UPSTREAM, DOWNSTREAM),
        source_end=end,
    )


def cleaned(draw: st.DrawFn, records: Sequence[Record]) -> list[Record]:
    """Remove what a cleaner may: the oldest of a key, and never its newest, wherever it had got to."""
    left = []
    for key in sorted({each.key or b"" for each in records}):
        of_key = [each for each in records if each.key == key]
        left += of_key[draw(st.integers(0, len(of_key) - 1)) :]
    return sorted(left)


@st.composite
def compacted(draw: st.DrawFn, *, distinct: bool) -> tuple[list[Record], list[Record], list[Batch]]:
    """What is left of the source, what of it was copied before the crash, and what is left of the tail."""
    keys = draw(st.lists(st.integers(0, 2), min_size=1, max_size=12))
    contents = range(100) if distinct else draw(st.lists(st.integers(0, 1), min_size=12, max_size=12))
    written = [record(UPSTREAM + at, key, contents[at]) for at, key in enumerate(keys)]
    copied = draw(st.integers(1, len(written)))
    left = cleaned(draw, written)
    kept = cleaned(draw, written[:copied])
    tail: list[Batch] = []
    offset = DOWNSTREAM
    for original in written[:copied]:
        if draw(st.integers(0, 3)) == 0:
            tail.append(as_logged(dense([record(0, 9, 99)], producer=FOREIGN, sequence=0)[0], offset))
            offset += 1
        if original in kept:
            tail.append(copy_of(original, offset))
        offset += 1
    return left, [each for each in left if each.offset < UPSTREAM + copied], tail


@given(compacted(distinct=True))
def test_what_was_copied_is_not_copied_again_and_all_else_is(
    case: tuple[list[Record], list[Record], list[Batch]],
) -> None:
    left, copied, tail = case
    outcome = matched(left, tail, left[-1].offset + 1)
    assert isinstance(outcome, Matched)
    backoff = [each for each in left if each.offset >= outcome.upstream]
    there = {(each.value, each.timestamp) for content, _ in tail for each in batch.records(content)}
    assert [each for each in left if each.offset < outcome.upstream] == copied[: len(left) - len(backoff)]
    # What is copied again is only what the target itself has removed behind the last copy that still has its original.
    assert [each for each in backoff if (each.value, each.timestamp) in there] == []
    for run in outcome.runs:
        assert UPSTREAM <= run.upstream < run.upstream_end <= outcome.upstream


@given(compacted(distinct=False))
def test_where_records_repeat_to_the_millisecond_none_is_lost(
    case: tuple[list[Record], list[Record], list[Batch]],
) -> None:
    left, _, tail = case
    outcome = matched(left, tail, left[-1].offset + 1)
    assert isinstance(outcome, Matched)
    newest_of_keys = {each.key: each for each in left}
    passed = [each for each in left if each.offset < outcome.upstream]
    there = {(each.key, each.value, each.timestamp) for content, _ in tail for each in batch.records(content)}
    for each in newest_of_keys.values():
        assert each not in passed or (each.key, each.value, each.timestamp) in there


def test_a_record_that_no_hole_explains_is_a_mismatch() -> None:
    left = [record(20, 0, 0), record(21, 1, 1)]
    tail = [copy_of(record(0, 5, 50), 8)]
    assert isinstance(matched(left, tail, 22), Mismatch)


def test_holes_explain_as_many_records_as_they_are_wide() -> None:
    left = [record(20, 0, 0), record(23, 1, 3)]
    gone = [record(21, 1, 1), record(22, 1, 2)]
    tail = [copy_of(each, 8 + at) for at, each in enumerate([left[0], *gone])]
    outcome = matched(left, tail, 24)
    assert isinstance(outcome, Matched)
    assert (outcome.upstream, outcome.records) == (21, 1)
    assert isinstance(matched(left, [*tail, copy_of(record(0, 1, 9), 11)], 24), Mismatch)


def test_without_compaction_it_says_what_the_strict_match_says() -> None:
    left = [record(20 + at, at % 2, at) for at in range(5)]
    tail = [copy_of(each, 8 + at) for at, each in enumerate(left[:3])]
    strict = match_tail(source_log(left), tail, UPSTREAM, is_ours)
    assert isinstance(strict, Matched)
    thinned = matched(left, tail, 25)
    assert isinstance(thinned, Matched)
    assert (thinned.upstream, thinned.runs) == (strict.upstream, strict.runs) == (23, strict.runs)


# Of these keys and contents: 20 and 21 were copied to 8 and 9, and so on, unless it is said that they are gone.
ORIGINALS = [record(20 + at, key, at) for at, key in enumerate([0, 1, 2, 0, 1, 3])]


def found(
    gone: set[int], copies: Sequence[int | tuple[Record, int] | Batch], end: int = 26, first: int = 0
) -> tuple[int, int] | None:
    """How far a tail got, and how many records of it were found; None for a mismatch.

    ``gone`` are source offsets; ``copies`` the offsets of the source whose copies are left, or a record and its place.
    """
    tail = []
    for each in copies:
        if isinstance(each, int):
            tail.append(copy_of(ORIGINALS[each - 20], each - 12))
        elif isinstance(each[0], Record):
            tail.append(copy_of(each[0], each[1]))  # type: ignore[arg-type]
        else:
            tail.append(each)
    outcome = matched([one for one in ORIGINALS if one.offset not in gone], tail, end)
    return (outcome.upstream, outcome.records) if isinstance(outcome, Matched) else None


def test_a_copy_removed_for_a_later_one_of_its_key_was_made() -> None:
    """The copies of 20 and 21 are gone, and there is the later one of each key."""
    assert found(set(), [22, 23, 24]) == (25, 3)


def test_only_what_came_before_is_certain_where_the_later_copy_is_not_found() -> None:
    """Nothing has replaced the copy of 22: it may never have been made, and 25 be another record, just like it."""
    assert found(set(), [20, 21, 25]) == (22, 2)
    assert found(set(), [20, 23, 24, 25]) == (21, 1)


def test_what_is_not_certain_pays_for_nothing_before_it() -> None:
    """The copy of 20 was removed for that of 23; but 22 was passed over on the way there, and is paid for by nobody."""
    assert found(set(), [21, 23]) == (20, 0)
    assert found(set(), [21, 22, 23]) == (24, 3)


def test_a_hole_explains_one_record_and_not_the_next_as_well() -> None:
    """At 8 and 9 stood copies that are gone; what stands further on used these holes up."""
    assert found(set(), [22, (ORIGINALS[5], 11)]) is None


def test_what_others_wrote_is_no_hole_and_what_stood_before_it_is() -> None:
    foreign = as_logged(dense([record(0, 9, 99)] * 2, producer=FOREIGN, sequence=0)[0], 8)
    assert found(set(), [foreign, (ORIGINALS[2], 10)]) is None, "two records of others, and nothing missing"
    assert found(set(), [foreign, (ORIGINALS[0], 10)]) == (21, 1)


def test_what_was_written_inside_a_transaction_was_aborted() -> None:
    aborted = flagged(copy_of(ORIGINALS[0], 8), 0x10)
    assert found(set(), [aborted]) == (20, 0)
    assert found(set(), [aborted, (ORIGINALS[0], 9)]) == (21, 1)


def test_holes_of_the_source_are_counted_up_to_the_record_that_follows_or_its_end() -> None:
    batches = source_log([record(offset, 0, 0) for offset in (20, 23, 24, 30)])
    originals = thinned_match._Originals(batches, UPSTREAM, None)
    assert [originals.holes(20, 40, skipped=skipped) for skipped in range(6)] == [0, 2, 2, 7, 16, 16]
    originals.take(2)
    assert [originals.holes(20, 40, skipped=skipped) for skipped in range(4)] == [2, 7, 16, 16]


def test_of_no_more_records_the_source_lacks_the_original_than_it_has_holes_for() -> None:
    """One that the cleaner has removed since, between two that are there: it can have been one, and not two."""
    first, last, gone = record(20, 0, 1), record(22, 1, 2), record(0, 2, 99)
    one = [copy_of(first, 8), copy_of(gone, 9), copy_of(last, 10)]
    assert matched([first, last], one, 23) == Matched(23, (Run(20, 8, 1), Run(22, 10, 1)), 2)
    two = [copy_of(first, 8), copy_of(gone, 9), copy_of(gone, 10), copy_of(last, 11)]
    assert isinstance(matched([first, last], two, 23), Mismatch)
    assert isinstance(matched([first, record(21, 1, 2)], one, 22), Mismatch)


@pytest.mark.parametrize("is_stamped", [True, False])
def test_timestamps_count_unless_the_target_gives_its_own(is_stamped: bool) -> None:
    original = record(20, 0, 1)
    copy = copy_of(original._replace(timestamp=TIME + 77), 8)
    tail = [flagged(copy, 0x08) if is_stamped else copy]
    outcome = matched([original], tail, 21)
    assert outcome == Matched(21, (Run(20, 8, 1),), 1) if is_stamped else isinstance(outcome, Mismatch)


@pytest.mark.parametrize("field", ["key", "value", "headers"])
def test_a_copy_differs_by_key_value_or_headers_whoever_stamps_it(field: str) -> None:
    original = record(20, 0, 1)
    other = {"key": b"other", "value": b"other", "headers": (("h", b"1"),)}[field]
    changed = original._replace(**{field: other})
    assert isinstance(matched([original], [flagged(copy_of(changed, 8), 0x08)], 21), Mismatch)
    assert isinstance(matched([original], [copy_of(changed, 8)], 21), Mismatch)


def test_no_original_is_passed_over_for_which_the_tail_has_no_hole() -> None:
    """Its copy was not removed, so it was never made: what is there is not what this flow would have written."""
    source = [record(20, 0, 1), record(21, 1, 2)]
    assert isinstance(matched(source, [copy_of(source[1], DOWNSTREAM)], 22), Mismatch)
    # One offset further there is one; what came before the later record is not certain then.
    assert matched(source, [copy_of(source[1], DOWNSTREAM + 1)], 22) == Matched(20, (), 0)


def test_a_batch_may_begin_before_the_position_or_before_the_log_does() -> None:
    """A broker hands out whole batches: what was matched before is not again, and what somebody has removed is found."""
    source = source_log([record(20 + at, at, at) for at in range(4)])
    whole = as_logged(dense([record(20 + at, at, at) for at in range(4)], producer=OURS, sequence=0)[0], 8)
    behind = match_thinned(source[2:], [whole], 22, is_ours, downstream=10, holes_from=(22, 10), source_end=24)
    assert behind == Matched(24, (Run(22, 10, 2),), 2)
    removed = match_thinned(source, [whole], 20, is_ours, downstream=8, holes_from=(20, 11), source_end=24)
    assert removed == Matched(24, (Run(20, 8, 4),), 4)
