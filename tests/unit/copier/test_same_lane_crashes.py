"""One copy with the source's offsets: whatever is lost, refused or killed, no record is missing without being told.

A source and a target in memory do, in the order that Hypothesis thinks of, what clusters do to a copy; engine after
engine goes on with it. After each step the logs and the state topic are compared, as the next engine would find them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings

from mirror.copier.resume import Refused
from mirror.same_offsets.chain import producer_of
from tests.flows import EAST_WEST
from tests.unit.copier.lanes import SOURCE
from tests.unit.copier.same_copy import POISON, Copy

TestCopy = Copy.TestCase
TestCopy.settings = settings(
    max_examples=max(120, settings.default.max_examples), stateful_step_count=40, report_multiple_bugs=False
)


def a_second_gap_while_one_is_filled(copy: Copy) -> None:
    """The offsets 3 to 5 are read and wait behind the first gap; then they are removed, too."""
    for _ in range(3):
        copy.source.write([None] * 3)
    copy.source.remove_before(3)
    copy.the_source_is_read(1)
    copy.the_source_is_read(1)
    copy.source.remove_before(8)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_engine_is_killed()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)


def a_gap_behind_a_marker_that_is_not_there_yet(copy: Copy) -> None:
    copy.source.mark()
    copy.the_source_is_read(1)
    copy.source.write([None])
    copy.source.remove_before(2)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_epoch_ends_in_order()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)


def a_record_left_out_whose_offset_is_not_filled_yet(copy: Copy) -> None:
    copy.source.write([POISON])
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_epoch_ends_in_order()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)


def a_marker_without_an_answer_and_a_look_for_foreign_writes(copy: Copy) -> None:
    """Who fills holes finds the marker there, and the lane is to be looked up anew: it is its own marker."""
    copy.source.write([None])
    copy.source.mark()
    copy.the_source_is_read(2)
    copy.a_batch_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it()
    copy.some_of_a_hole_is_filled(fails=2)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.it_is_looked_who_else_has_written_to_the_copy()


def a_gap_that_stops_the_copy_behind_a_record_that_is_not_copied_yet(copy: Copy) -> None:
    """What was not copied when the engine was killed is gone by now, and in no gap."""
    copy.source.write([None])
    copy.the_source_is_read(1)
    copy.source.write([None])
    copy.source.remove_before(2)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.the_engine_is_killed()
    copy.the_source_is_read(1)
    copy.a_gap_is_acknowledged()
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)


def a_replica_that_is_not_cleaned_yet_leads_when_the_engine_is_killed(copy: Copy) -> None:
    """The tombstones at 2 and 3 were taken for somebody else's, and the copy stopped for good."""
    _reads_what_one_replica_has_cleaned(copy)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    assert copy.target.end == 4
    copy.source.lead_by_follower()
    copy.the_engine_is_killed()


def an_answer_is_lost_where_a_follower_is_read_that_is_cleaned_before_its_leader(copy: Copy) -> None:
    """Comparisons read the leader: a lost answer was enough to stop it."""
    _reads_what_one_replica_has_cleaned(copy)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it()
    copy.some_of_a_hole_is_filled(fails=1)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    assert copy.lane.is_lost
    copy.source.lead_by_follower()
    copy.the_epoch_ends_in_order()


def _reads_what_one_replica_has_cleaned(copy: Copy) -> None:
    for _ in range(3):
        copy.source.write([None] * 2)
    copy.source.compact(1, set())
    copy.the_source_is_read(3)
    copy.a_batch_goes_out(is_answered_at_once=True)


def a_replica_that_had_removed_less_leads_while_a_gap_is_filled(copy: Copy) -> None:
    for _ in range(3):
        copy.source.write([None] * 2)
    copy.source.remove_before(4)
    copy.the_source_is_read(1)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    assert copy.target.end == 1
    copy.source.lead_by_follower()
    copy.the_engine_is_killed()


@pytest.mark.parametrize(
    ("history", "stops", "is_compacted"),
    [
        (a_second_gap_while_one_is_filled, False, False),
        (a_gap_behind_a_marker_that_is_not_there_yet, False, False),
        (a_record_left_out_whose_offset_is_not_filled_yet, False, False),
        (a_marker_without_an_answer_and_a_look_for_foreign_writes, False, False),
        (a_gap_that_stops_the_copy_behind_a_record_that_is_not_copied_yet, True, False),
        (a_replica_that_is_not_cleaned_yet_leads_when_the_engine_is_killed, False, True),
        (an_answer_is_lost_where_a_follower_is_read_that_is_cleaned_before_its_leader, False, True),
        (a_replica_that_had_removed_less_leads_while_a_gap_is_filled, False, False),
    ],
)
def test_histories_that_broke_the_law_once(history: Callable[[Copy], None], stops: bool, is_compacted: bool) -> None:
    copy = Copy()
    copy.begin(start=0, is_compacted=is_compacted, writes_many=False, skips=True, stops=stops)
    with copy._patch:
        history(copy)
        copy.what_is_on_record_is_true()


def test_what_arrives_late_behind_the_marker_that_fills_its_place_is_not_taken_for_the_next_record() -> None:
    """A marker takes no sequence, so it fits, and the leader answers for the next record that it has that already."""
    copy = Copy()
    copy.begin(start=0, is_compacted=False, writes_many=False, skips=False, stops=False)
    with copy._patch:
        copy.source.write([None])
        copy.the_source_is_read(1)
        copy.a_batch_goes_out(is_answered_at_once=True)
        copy.a_commit_goes_out(is_answered_at_once=True)
        copy.source.write([None])
        copy.the_source_is_read(1)
        copy.a_batch_goes_out()
        (late,) = copy.in_flight
        copy.the_engine_is_killed()
        copy.source.write([None])
        copy.source.remove_before(2)
        copy.the_source_is_read(1)
        copy.a_commit_goes_out(is_answered_at_once=True)
        copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
        copy.target.append(late)
        copy.the_source_is_read(1)
        copy.a_batch_goes_out(is_answered_at_once=True)
        assert copy.lane.is_lost
        if copy.lane.is_dirty:
            copy.a_commit_goes_out(is_answered_at_once=True)
        assert copy.state.positions[SOURCE].upstream == 2
        place = copy._place(
            replace(copy.lane.work, handover=copy.lane.result().handover), producer_of(EAST_WEST, "of the copy")
        )
        assert isinstance(place, Refused)
        assert "its record at offset 2 is not the source's" in place.reason


def behind_a_filled_hole(copy: Copy) -> None:
    """A record, a marker that the copy has too, a second record on record as copied, and the marker behind it read."""
    copy.source.write([None])
    copy.source.mark()
    copy.the_source_is_read(2)
    copy.a_batch_goes_out(is_answered_at_once=True)
    copy.a_commit_goes_out(is_answered_at_once=True)
    copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    copy.source.write([None])
    copy.source.mark()
    copy.source.write([None])
    copy.the_source_is_read(3)
    copy.a_batch_goes_out(is_answered_at_once=True)
    copy.a_commit_goes_out(is_answered_at_once=True)
    assert copy.state.positions[SOURCE].upstream == copy.target.end == 3


@pytest.mark.parametrize("writes_many", [True, False])
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_what_an_unclean_election_has_taken_from_the_copy_is_copied_again_and_not_filled(
    lost: int, writes_many: bool
) -> None:
    """A marker was left in the place of each record that the target had lost, and nobody was told."""
    copy = Copy()
    copy.begin(start=0, is_compacted=False, writes_many=writes_many, skips=False, stops=False)
    try:
        behind_a_filled_hole(copy)
        copy.target.lose(lost)
        copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
    finally:
        copy.teardown()


@pytest.mark.parametrize("writes_many", [True, False])
def test_a_copy_that_lost_a_record_as_a_marker_was_on_its_way_stops(writes_many: bool) -> None:
    """The marker lies at the record's offset, and no other record can."""
    copy = Copy()
    copy.begin(start=0, is_compacted=False, writes_many=writes_many, skips=False, stops=False)
    with copy._patch:
        behind_a_filled_hole(copy)
        ends = copy.target.find_offsets
        copy.target.find_offsets = lambda *asked: (ends(*asked), copy.target.lose(1))[0]  # type: ignore[method-assign]
        copy.a_hole_is_handed_to_who_fills_it(is_filled_at_once=True)
        assert copy.lane.is_lost
        place = copy._place(
            replace(copy.lane.work, handover=copy.lane.result().handover), producer_of(EAST_WEST, "of the copy")
        )
        assert isinstance(place, Refused)
        assert "something else lies at offset 2, where the source has a record that was copied" in place.reason
