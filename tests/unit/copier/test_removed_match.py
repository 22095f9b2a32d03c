"""The source has removed what a killed engine had copied last: what is certain is skipped, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from mirror.copier.removed_match import match_removed
from mirror.copier.tail_match import Batch, Matched, Mismatch
from mirror.kafka.batch import Producer, Record
from mirror.model.offset_map import Run
from tests.unit.copier.builders import TIME, as_logged, dense, flagged, record

OURS, FOREIGN = Producer(7, 0), Producer(99, 0)
UPSTREAM, DOWNSTREAM = 20, 8


def copies(originals: Sequence[Record], producer: Producer = OURS) -> list[Batch]:
    return [
        as_logged(dense([each], producer=producer, sequence=at)[0], DOWNSTREAM + at)
        for at, each in enumerate(originals)
    ]


def matched(source: Sequence[Record], tail: Sequence[Batch], start: int) -> Matched | Mismatch:
    return match_removed(
        (dense([each]) for each in source), tail, UPSTREAM, lambda one: one == 7, start=start, downstream=DOWNSTREAM
    )


def records(*offsets: int) -> list[Record]:
    return [record(offset) for offset in offsets]


def alike(offset: int) -> Record:
    return Record(offset, TIME, None, b"alike", (), -1)


def test_a_tail_all_of_which_is_gone_from_the_source_lies_before_what_is_left() -> None:
    """20 to 24 were written, 20 to 22 copied; the map says of none that it was read before it certainly was."""
    assert matched(records(25, 26), copies(records(20, 21, 22)), 25) == Matched(25, (Run(22, 8, 3),), 3)
    assert matched([], copies(records(20, 21, 22)), 25) == Matched(25, (Run(22, 8, 3),), 3)


def test_a_tail_whose_end_the_source_still_has_is_skipped_up_to_there() -> None:
    assert matched(records(22, 23, 24), copies(records(20, 21, 22, 23)), 22) == Matched(24, (Run(20, 8, 4),), 4)


def test_offsets_without_a_record_may_lie_among_those_that_are_left() -> None:
    found = matched(records(22, 24, 25), copies(records(20, 21, 22, 24)), 22)
    assert found == Matched(25, (Run(20, 8, 3), Run(24, 11, 1)), 4)


def test_a_batch_of_the_source_may_begin_before_what_it_has_left() -> None:
    """A broker hands whole batches out."""
    source = [dense(records(21, 22, 23)), dense(records(24))]
    tail = copies(records(20, 21, 22, 23))
    found = match_removed(source, tail, UPSTREAM, lambda one: one == 7, start=22, downstream=DOWNSTREAM)
    assert found == Matched(24, (Run(20, 8, 4),), 4)


def test_where_offsets_without_a_record_may_lie_among_those_that_are_gone_what_is_left_must_not_be_in_the_tail() -> (
    None
):
    """30 and 32 of the source may be others that are the same: then these two would be skipped uncopied."""
    assert isinstance(matched(records(30, 32, 33), copies(records(20, 24, 29, 30, 32)), 30), Mismatch)


def test_what_others_and_transactions_have_written_is_passed_over() -> None:
    ours = copies(records(20, 21))
    tail = [*ours, flagged(as_logged(dense(records(40), producer=OURS, sequence=9)[0], 10), 0x10)]
    tail.append(as_logged(dense(records(41), producer=FOREIGN, sequence=0)[0], 11))
    assert matched(records(25), tail, 25) == Matched(25, (Run(23, 8, 2),), 2)


def test_more_records_than_there_were_offsets_are_refused_unless_the_source_has_the_others() -> None:
    assert isinstance(matched(records(22, 23), copies(records(20, 21, 50)), 22), Mismatch)
    assert isinstance(matched([], copies(records(20, 21, 22)), 22), Mismatch)


def test_where_several_places_fit_none_is_taken() -> None:
    """Of records that are all the same the source has as many left as were copied, or others."""
    same = [alike(offset) for offset in range(20, 30)]
    assert isinstance(matched(same[5:], copies(same[:4]), 25), Mismatch)


def test_what_stands_in_the_source_behind_the_place_found_may_be_the_record_itself() -> None:
    """Compaction has taken 26 from the source: the copy had got further than up to 25."""
    assert isinstance(matched(records(25, 27, 28), copies(records(24, 26, 27, 29)), 25), Mismatch)


def test_a_tail_of_which_something_is_gone_cannot_be_counted() -> None:
    whole = copies(records(20, 21, 22))
    for left in (whole[1:], [whole[0], whole[2]]):
        assert isinstance(matched(records(25), left, 25), Mismatch)


def test_of_a_target_that_stamps_records_itself_contents_alone_count() -> None:
    tail = [flagged(each, 0x08) for each in copies(records(20, 21, 22, 23))]
    later = [each._replace(timestamp=TIME + 9_999) for each in records(22, 23, 24)]
    assert matched(later, tail, 22) == Matched(24, (Run(20, 8, 4),), 4)
    assert isinstance(matched(later, copies(records(20, 21, 22, 23)), 22), Mismatch)


def test_without_a_tail_the_copy_goes_on_with_what_is_left() -> None:
    assert matched(records(25), [], 25) == Matched(25, (), 0)


@given(st.data())
def test_whatever_was_copied_and_whatever_is_gone_nothing_is_skipped_unread_nor_copied_twice(
    data: st.DataObject,
) -> None:
    """Records may be the same to the millisecond; then it may refuse, but what it finds is as it was."""
    offsets = sorted(data.draw(st.sets(st.integers(UPSTREAM, UPSTREAM + 12), min_size=1)))
    contents = data.draw(st.lists(st.integers(0, 3), min_size=len(offsets), max_size=len(offsets)))
    written = [
        Record(offset, TIME, None, b"value %d" % content, (), -1)
        for offset, content in zip(offsets, contents, strict=True)
    ]
    copied = data.draw(st.integers(0, len(written)))
    start = data.draw(st.integers(UPSTREAM + 1, UPSTREAM + 14))
    left = [each for each in written if each.offset >= start]
    found = matched(left, copies(written[:copied]), start)
    assume(isinstance(found, Matched))
    assert isinstance(found, Matched)
    assert [each for each in left if each.offset >= found.upstream] == [
        each for each in written[copied:] if each.offset >= start
    ]
    said = [run.upstream + at for run in found.runs for at in range(run.length)]
    truth = [each.offset for each in written[:copied]]
    assert len(said) == copied
    assert all(claimed >= offset for claimed, offset in zip(said, truth, strict=True))
    assert said == sorted(set(said))
